//! The columns that FROM makes visible, and what joins make of them.

use datafusion::sql::sqlparser::ast::{self, BinaryOperator, Expr, Ident};
use keyspan_model::{ColumnType, Error, ErrorKind, Result};

use super::Named;
use crate::functions::WHOLE_ROW;
use crate::semantics::merged_column;
use crate::syntax::{call, folded};
use crate::types::common_type;

/// Which rows a join keeps that find no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Neither,
    Left,
    Right,
    Both,
}

/// A column of FROM.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub ty: Option<ColumnType>,
    /// What stands for it: `t.c`, or of a merged column one side's or COALESCE of both.
    pub value: Expr,
    pub merged: bool,
}

/// A table of FROM with all its columns, merged ones too: what `t.*` is.
#[derive(Clone, Debug)]
struct Table {
    name: String,
    qualifier: Vec<Ident>,
    /// `None`: not known.
    columns: Option<Vec<Named>>,
    /// An outer join may have no row of it.
    nullable: bool,
}

impl Table {
    /// The columns by their whole names.
    fn values(&self) -> Option<impl Iterator<Item = (&str, Expr)>> {
        let value = |name: &str| {
            let path = self.qualifier.iter().cloned().chain([Ident::with_quote('"', name)]);
            Expr::CompoundIdentifier(path.collect())
        };
        Some(self.columns.as_ref()?.iter().map(move |(name, _)| (name.as_str(), value(name))))
    }
}

/// What FROM, or a part of it, makes visible.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// In the order of `*`.
    pub columns: Vec<Column>,
    tables: Vec<Table>,
    /// Whether there are columns whose names are not known.
    pub open: bool,
}

impl Scope {
    /// The columns of a table that is referred to so.
    pub fn of_table(qualifier: &[Ident], columns: Option<Vec<Named>>) -> Scope {
        let name = qualifier.last().map(folded).unwrap_or_default();
        let column = |(name, ty): &Named| {
            let path = qualifier.iter().cloned().chain([Ident::with_quote('"', name)]);
            Column { name: name.clone(), ty: *ty, value: Expr::CompoundIdentifier(path.collect()), merged: false }
        };
        Scope {
            columns: columns.iter().flatten().map(column).collect(),
            open: columns.is_none(),
            tables: vec![Table { name, qualifier: qualifier.to_vec(), columns, nullable: false }],
        }
    }

    /// Something whose columns are not known.
    pub fn unknown() -> Scope {
        Scope { open: true, ..Scope::default() }
    }

    /// Adds what stands to the right of it.
    pub fn extend(&mut self, right: Scope) {
        self.columns.extend(right.columns);
        self.tables.extend(right.tables);
        self.open |= right.open;
    }

    /// The columns of this name.
    pub fn named<'a, 'n>(&'a self, name: &'n str) -> impl Iterator<Item = &'a Column> + use<'a, 'n> {
        self.columns.iter().filter(move |column| column.name == name)
    }

    /// Whether joins have merged columns.
    pub fn has_merged(&self) -> bool {
        self.columns.iter().any(|column| column.merged)
    }

    /// All columns of a table; `None` if they are not known.
    pub fn table(&self, name: &str) -> Option<&[Named]> {
        self.tables.iter().find(|table| table.name == name)?.columns.as_deref()
    }

    /// A row of the table of this name as one value, NULL where an outer join found none; `None` if there is no such
    /// table, or its columns are not known.
    pub fn row(&self, name: &str) -> Option<Expr> {
        let table = self.tables.iter().find(|table| table.name == name)?;
        let text = |name: &str| Expr::Value(ast::Value::SingleQuotedString(name.to_owned()).into());
        let row = call(WHOLE_ROW, table.values()?.flat_map(|(name, value)| [text(name), value]).collect());
        if !table.nullable {
            return Some(row);
        }
        let found = table.values()?.map(|(_, value)| Expr::IsNotNull(Box::new(value)));
        let found = found.reduce(|some, other| binary(some, BinaryOperator::Or, other))?;
        Some(Expr::Case {
            case_token: ast::helpers::attached_token::AttachedToken::empty(),
            end_token: ast::helpers::attached_token::AttachedToken::empty(),
            operand: None,
            conditions: vec![ast::CaseWhen { condition: found, result: row }],
            else_result: None,
        })
    }

    /// `row IS NULL`: whether all columns of the table of this name are; `row IS NOT NULL`: whether none is.
    pub fn row_is_null(&self, name: &str, negated: bool) -> Option<Expr> {
        let table = self.tables.iter().find(|table| table.name == name)?;
        let each = table.values()?.map(|(_, value)| match negated {
            true => Expr::IsNotNull(Box::new(value)),
            false => Expr::IsNull(Box::new(value)),
        });
        let all = each.reduce(|all, other| binary(all, BinaryOperator::And, other))?;
        Some(Expr::Nested(Box::new(all)))
    }

    /// An outer join may have none of the rows of these tables.
    pub fn make_nullable(&mut self) {
        self.tables.iter_mut().for_each(|table| table.nullable = true);
    }

    /// Takes away the columns of these names, as ASOF JOIN … USING does with its right side.
    pub fn without(mut self, names: &[String]) -> Scope {
        self.columns.retain(|column| !names.contains(&column.name));
        self
    }

    /// The names that NATURAL merges, in the left side's order.
    ///
    /// # Errors
    /// 0A000 if a side has columns whose names are not known.
    pub fn common_names(&self, right: &Scope) -> Result<Vec<String>> {
        if self.open || right.open {
            return Err(not_known("NATURAL JOIN"));
        }
        let common = self.columns.iter().filter(|column| right.named(&column.name).next().is_some());
        Ok(common.map(|column| column.name.clone()).collect())
    }

    /// The columns of a join of both that merges those of these names, and its condition.
    ///
    /// # Errors
    /// 42703, 42702, 42701; 0A000 if a column may be among those whose names are not known.
    pub fn merged(mut self, mut right: Scope, names: &[String], keeps: Side) -> Result<(Scope, Option<Expr>)> {
        let mut columns = Vec::with_capacity(self.columns.len() + right.columns.len());
        let mut condition = None;
        for (at, name) in names.iter().enumerate() {
            if names[..at].contains(name) {
                let message = format!("column name \"{name}\" appears more than once in USING clause");
                return Err(Error::new(ErrorKind::DuplicateColumn, message));
            }
            let (left, right) = (self.only(name, "left")?, right.only(name, "right")?);
            let equal = binary(left.value.clone(), BinaryOperator::Eq, right.value.clone());
            condition = Some(match condition {
                Some(condition) => binary(condition, BinaryOperator::And, equal),
                None => equal,
            });
            columns.push(merged(left, right, keeps));
        }
        self.columns.retain(|column| !names.contains(&column.name));
        right.columns.retain(|column| !names.contains(&column.name));
        columns.append(&mut self.columns);
        self.columns = columns;
        self.extend(right);
        Ok((self, condition))
    }

    /// The one column of a side that USING names.
    fn only(&self, name: &str, side: &str) -> Result<&Column> {
        let mut found = self.named(name);
        match (found.next(), found.next()) {
            (Some(column), None) if !self.open => Ok(column),
            (Some(_), Some(_)) => {
                let message = format!("common column name \"{name}\" appears more than once in {side} table");
                Err(Error::new(ErrorKind::AmbiguousColumn, message))
            }
            _ if self.open => Err(not_known("JOIN USING")),
            _ => {
                let message = format!("column \"{name}\" specified in USING clause does not exist in {side} table");
                Err(Error::new(ErrorKind::UndefinedColumn, message))
            }
        }
    }
}

/// 0A000 for a query that depends on columns whose names are not known.
pub fn not_known(what: &str) -> Error {
    let message = format!("{what} beside a function in FROM whose columns have no names is not supported");
    Error::not_supported(message).with_hint("Name its columns: FROM f(…) AS t(a, b).")
}

/// The column that two become. Its type is the common one; a side that has it stands for both where it always has the value.
fn merged(left: &Column, right: &Column, keeps: Side) -> Column {
    let ty = left.ty.zip(right.ty).and_then(|(left, right)| common_type(left, right));
    let fits = |column: &Column| column.ty == ty;
    let value = match keeps {
        // What a subquery computes has a type only when it is planned.
        keeps if ty.is_none() => {
            let keeps = match keeps {
                Side::Neither | Side::Left => "left",
                Side::Right => "right",
                Side::Both => "both",
            };
            merged_column(left.value.clone(), right.value.clone(), keeps)
        }
        Side::Neither | Side::Left if fits(left) => left.value.clone(),
        Side::Neither | Side::Right if fits(right) => right.value.clone(),
        _ => call("coalesce", vec![left.value.clone(), right.value.clone()]),
    };
    Column { name: left.name.clone(), ty, value, merged: true }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}
