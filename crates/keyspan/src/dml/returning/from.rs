//! What a RETURNING list names besides the columns of its table: those of the tables in FROM, and `xmax` of an INSERT.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use keyspan_cql::{ast, quoted};
use keyspan_model::{ColumnType, Error, Result};
use keyspan_query::semantics::label;

use super::{ident, wildcard_of};
use crate::context::ClientContext;
use crate::names::{self, fold_case};
use crate::query;
use crate::row::TableHandle;

/// The pseudo column of PostgreSQL that tells rows which INSERT … ON CONFLICT has updated from those it has inserted.
const XMAX: &str = "xmax";

/// What a RETURNING list takes from elsewhere: of the tables in FROM the query for the rows computes it, last of all.
#[derive(Debug)]
pub(crate) struct FromColumns {
    /// As the list writes them.
    columns: Vec<ast::Expr>,
    /// Their types, under the names that they have in the list.
    schema: SchemaRef,
    /// The list with those names.
    list: Option<Vec<ast::SelectItem>>,
}

impl FromColumns {
    /// A list of a statement that has no FROM.
    pub(crate) fn none(list: Option<&[ast::SelectItem]>) -> FromColumns {
        FromColumns {
            columns: Vec::new(),
            schema: Arc::new(Schema::empty()),
            list: list.map(<[ast::SelectItem]>::to_vec),
        }
    }

    /// Those of the list of an INSERT: `xmax` tells rows that ON CONFLICT has updated ([`Returning::xmax`]).
    pub(crate) fn of_insert(
        handle: &TableHandle,
        alias: Option<&str>,
        list: Option<&[ast::SelectItem]>,
    ) -> FromColumns {
        let mut all = FromColumns::none(list);
        let table = &handle.table;
        let own = alias.unwrap_or(&table.name);
        let is_xmax = |part: &ast::Expr| match part {
            ast::Expr::Identifier(name) => fold_case(name) == XMAX,
            ast::Expr::CompoundIdentifier(parts) => {
                matches!(parts.as_slice(), [table, name] if fold_case(table) == own && fold_case(name) == XMAX)
            }
            _ => false,
        };
        if table.column(XMAX).is_none() && table.family(XMAX).is_none() {
            let taken = |part: &ast::Expr| is_xmax(part).then(|| ast::Expr::Identifier(ident(XMAX)));
            all.list = list.map(|list| list.iter().map(|item| all.replaced(item, taken)).collect());
        }
        if !all.columns.is_empty() {
            all.schema = Arc::new(Schema::new(vec![ColumnType::BigInt.field(&given_name(0), true)]));
        }
        all
    }

    /// Those of a list.
    ///
    /// # Errors
    /// Those of a query of these columns FROM these tables; 0A000 for `*` beside a join with merged columns.
    pub(crate) async fn of(
        context: &mut ClientContext,
        handle: &TableHandle,
        alias: Option<&str>,
        from: &[ast::TableWithJoins],
        list: Option<&[ast::SelectItem]>,
        types: &[Option<ColumnType>],
    ) -> Result<FromColumns> {
        let mut all = FromColumns::none(list);
        let (Some(list), false) = (list, from.is_empty()) else { return Ok(all) };
        let own = alias.unwrap_or(&handle.table.name);
        let tables: Vec<String> = from.iter().flat_map(names::names_in_from).filter(|name| name != own).collect();
        // Whatever is not the written table's.
        let table = &handle.table;
        let is_of_from = |part: &ast::Expr| match part {
            ast::Expr::CompoundIdentifier(parts) => parts.first().is_some_and(|name| tables.contains(&fold_case(name))),
            ast::Expr::Identifier(name) => {
                let name = fold_case(name);
                name != own && table.column(&name).is_none() && table.family(&name).is_none()
            }
            _ => false,
        };
        let mut replaced = Vec::with_capacity(list.len());
        for item in list {
            match item {
                ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. } => {
                    replaced.push(all.replaced(item, |part| is_of_from(part).then(|| part.clone())));
                }
                item => {
                    let shown = match wildcard_of(item) {
                        Some(name) if tables.contains(&name) => vec![name],
                        Some(_) => Vec::new(),
                        None if from.iter().any(merges_columns) => {
                            let error = Error::not_supported("RETURNING * beside JOIN … USING is not supported");
                            return Err(error.with_hint("Name the columns."));
                        }
                        None => tables.clone(),
                    };
                    if shown.is_empty() || wildcard_of(item).is_none() {
                        replaced.push(item.clone());
                    }
                    for table in &shown {
                        for column in columns_of_table(context, table, from, types).await? {
                            let expr = ast::Expr::CompoundIdentifier(vec![ident(table), ident(&column)]);
                            let expr = all.column(&expr);
                            replaced.push(ast::SelectItem::ExprWithAlias { expr, alias: ident(&column) });
                        }
                    }
                }
            }
        }
        all.list = Some(replaced);
        all.schema = all.types(context, from, types).await?;
        Ok(all)
    }

    /// The list, with names for what it takes from the tables in FROM.
    pub(super) fn list(&self) -> Option<&[ast::SelectItem]> {
        self.list.as_deref()
    }

    /// Those names with their types.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What the query for the rows computes.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &ast::Expr> {
        self.columns.iter()
    }

    /// The item, labelled as it was, with names for those parts of it that are taken from elsewhere, as `taken` says.
    fn replaced(&mut self, item: &ast::SelectItem, taken: impl Fn(&ast::Expr) -> Option<ast::Expr>) -> ast::SelectItem {
        let (expr, alias) = match item {
            ast::SelectItem::UnnamedExpr(expr) => (expr, ast::Ident::with_quote('"', label(expr))),
            ast::SelectItem::ExprWithAlias { expr, alias } => (expr, alias.clone()),
            other => return other.clone(),
        };
        let mut expr = expr.clone();
        let _ = ast::visit_expressions_mut(&mut expr, |part| {
            if let Some(taken) = taken(part) {
                *part = self.column(&taken);
            }
            ControlFlow::<()>::Continue(())
        });
        ast::SelectItem::ExprWithAlias { expr, alias }
    }

    /// The name that a column of FROM has in the list.
    fn column(&mut self, column: &ast::Expr) -> ast::Expr {
        let known = self.columns.iter().position(|other| other == column);
        let place = known.unwrap_or_else(|| {
            self.columns.push(column.clone());
            self.columns.len() - 1
        });
        ast::Expr::Identifier(ident(&given_name(place)))
    }

    async fn types(
        &self,
        context: &mut ClientContext,
        from: &[ast::TableWithJoins],
        types: &[Option<ColumnType>],
    ) -> Result<SchemaRef> {
        if self.columns.is_empty() {
            return Ok(self.schema.clone());
        }
        let items = self.columns.iter().cloned().map(ast::SelectItem::UnnamedExpr).collect();
        let planned = query::plan(context, &select("SELECT 1", items, from)?, types).await?;
        let fields = planned.schema.fields().iter().enumerate().map(|(place, field)| {
            let ty = ColumnType::of_field(field).ok_or_else(|| {
                let message = format!("RETURNING {} is not supported", self.columns[place]);
                Error::not_supported(message).with_hint("Name the columns.")
            })?;
            Ok(ty.field(&given_name(place), true))
        });
        Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<Field>>>()?)))
    }
}

/// The name that a column which is taken from elsewhere has in the list; no table has it.
fn given_name(place: usize) -> String {
    format!("\u{1}from{place}")
}

/// The names of the columns of one of the tables.
async fn columns_of_table(
    context: &mut ClientContext,
    table: &str,
    from: &[ast::TableWithJoins],
    types: &[Option<ColumnType>],
) -> Result<Vec<String>> {
    let query = select(&format!("SELECT {}.*", quoted(table)), Vec::new(), from)?;
    let planned = query::plan(context, &query, types).await?;
    Ok(planned.schema.fields().iter().map(|field| field.name().clone()).collect())
}

/// A SELECT with these items, or its own, from these tables.
fn select(text: &str, items: Vec<ast::SelectItem>, from: &[ast::TableWithJoins]) -> Result<ast::Query> {
    let mut query = names::parse_query(text)?;
    if let ast::SetExpr::Select(select) = query.body.as_mut() {
        if !items.is_empty() {
            select.projection = items;
        }
        select.from = from.to_vec();
    }
    Ok(*query)
}

/// Whether a join has merged columns: `*` shows them once.
fn merges_columns(from: &ast::TableWithJoins) -> bool {
    let merges = |join: &ast::Join| match &join.join_operator {
        ast::JoinOperator::Join(constraint)
        | ast::JoinOperator::Inner(constraint)
        | ast::JoinOperator::Left(constraint)
        | ast::JoinOperator::LeftOuter(constraint)
        | ast::JoinOperator::Right(constraint)
        | ast::JoinOperator::RightOuter(constraint)
        | ast::JoinOperator::FullOuter(constraint) => {
            matches!(constraint, ast::JoinConstraint::Using(_) | ast::JoinConstraint::Natural)
        }
        _ => false,
    };
    let nested = |factor: &ast::TableFactor| matches!(factor, ast::TableFactor::NestedJoin { table_with_joins, .. } if merges_columns(table_with_joins));
    nested(&from.relation) || from.joins.iter().any(|join| merges(join) || nested(&join.relation))
}
