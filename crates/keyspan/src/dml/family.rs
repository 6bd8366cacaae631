//! Cells that a statement writes to families.
//!
//! Each family is a relation of its own. A row that has cells in one gets a presence entry among the rows, so that it is
//! found though neither an INSERT has made it nor a column has a value.

use std::collections::HashSet;

use keyspan_cql::{Assignment, ColumnName, InsertValue, ast};
use keyspan_model::json::{Json, members, unquoted};
use keyspan_model::schema::PRESENCE_COLUMN;
use keyspan_model::{
    CellWrite, ColumnType, Error, ErrorKind, FamilyDef, Mutation, RelationId, Result, RowWrite, Span, SpanDelete,
    Stamp, TableDef, Value,
};

use super::using::Timing;
use crate::context::ClientContext;
use crate::expression::Evaluator;
use crate::names::columns_of;
use crate::row::TableHandle;

/// The family that a name in a statement means, if it is one.
pub(crate) fn family_of<'a>(table: &'a TableDef, target: &ColumnName) -> Option<&'a FamilyDef> {
    table.family(&target.name)
}

/// The type of what is written to a column, a cell of a family, or a family as a whole.
pub(crate) fn written_type(table: &TableDef, target: &ColumnName) -> Option<ColumnType> {
    match (family_of(table, target), &target.qualifier) {
        (Some(family), Some(_)) => Some(family.value.ty),
        (Some(_), None) => Some(ColumnType::Jsonb),
        (None, _) => table.column(&target.name).map(|column| column.ty),
    }
}

/// The qualifier of a cell.
pub(crate) fn qualifier(
    context: &mut ClientContext,
    family: &FamilyDef,
    expression: &ast::Expr,
    parameters: &[Value],
) -> Result<Vec<Value>> {
    let value = constant(context, family, expression, family.qualifier[0].ty, parameters)?;
    if value.is_null() {
        let message = format!("a qualifier of family \"{}\" cannot be null", family.name);
        return Err(Error::new(ErrorKind::NotNull, message));
    }
    Ok(vec![value])
}

fn constant(
    context: &mut ClientContext,
    family: &FamilyDef,
    expression: &ast::Expr,
    ty: ColumnType,
    parameters: &[Value],
) -> Result<Value> {
    if !columns_of(expression).is_empty() {
        let message = format!("a value for family \"{}\" that reads the row is not yet supported", family.name);
        return Err(Error::not_supported(message));
    }
    Evaluator::new(context).constant(context, expression, ty, parameters)
}

/// A cell to write; none deletes it.
#[derive(Clone, Debug)]
struct FamilyCell {
    family: FamilyDef,
    qualifier: Vec<Value>,
    value: Option<Value>,
}

/// The cells that a statement writes to the families of a row.
#[derive(Clone, Debug, Default)]
pub(crate) struct FamilyCells {
    /// Families that are written as a whole: what they had goes.
    replaced: Vec<FamilyDef>,
    cells: Vec<FamilyCell>,
    /// The cells by their qualifiers' texts: none is written twice.
    named: HashSet<(RelationId, String)>,
}

impl FamilyCells {
    /// Of a SET list, what is written to families; the rest is returned.
    pub(crate) fn split(
        context: &mut ClientContext,
        table: &TableDef,
        assignments: &[Assignment],
        parameters: &[Value],
    ) -> Result<(FamilyCells, Vec<Assignment>)> {
        let (mut cells, mut rest) = (FamilyCells::default(), Vec::new());
        for assignment in assignments {
            match family_of(table, &assignment.column) {
                Some(family) => cells.add(context, family, &assignment.column, &assignment.value, parameters)?,
                None => rest.push(assignment.clone()),
            }
        }
        Ok((cells, rest))
    }

    /// Adds what a statement assigns to a cell or to a family as a whole.
    pub(crate) fn add(
        &mut self,
        context: &mut ClientContext,
        family: &FamilyDef,
        target: &ColumnName,
        value: &InsertValue,
        parameters: &[Value],
    ) -> Result<()> {
        let at = |error: Error| error.at(target.position);
        if let Some(expression) = &target.qualifier {
            let qualifier = qualifier(context, family, expression, parameters)?;
            let value = match value {
                InsertValue::Default => Value::Null,
                InsertValue::Expression(value) => constant(context, family, value, family.value.ty, parameters)?,
                InsertValue::Map(_) => {
                    let message = format!("a map is no value of type {}", family.value.ty.postgres_name());
                    return Err(at(Error::new(ErrorKind::DatatypeMismatch, message)));
                }
            };
            return self.put(family, qualifier, Some(value).filter(|value| !value.is_null())).map_err(at);
        }
        self.replaced.push(family.clone());
        match value {
            InsertValue::Default => Ok(()),
            InsertValue::Expression(map) => match constant(context, family, map, ColumnType::Jsonb, parameters)? {
                Value::Text(json) => self.put_json(family, &json).map_err(at),
                _ => Ok(()),
            },
            InsertValue::Map(entries) => entries.iter().try_for_each(|(key, value)| {
                let key = qualifier(context, family, key, parameters)?;
                let value = constant(context, family, value, family.value.ty, parameters)?;
                let value = if value.is_null() { Err(null_inside(family)) } else { Ok(value) };
                self.put(family, key, Some(value.map_err(at)?)).map_err(at)
            }),
        }
    }

    fn put(&mut self, family: &FamilyDef, qualifier: Vec<Value>, value: Option<Value>) -> Result<()> {
        let shown = qualifier[0].to_text(family.qualifier[0].ty);
        if !self.named.insert((family.relation, shown.clone())) {
            let message = format!("multiple assignments to \"{}\"['{shown}']", family.name);
            return Err(Error::new(ErrorKind::Syntax, message));
        }
        self.cells.push(FamilyCell { family: family.clone(), qualifier, value });
        Ok(())
    }

    /// The members of a JSON object, each as a value of the family's type.
    fn put_json(&mut self, family: &FamilyDef, json: &str) -> Result<()> {
        if !matches!(Json::parse(json)?, Json::Object(_)) {
            let message = format!("a value for family \"{}\" must be a JSON object", family.name);
            return Err(Error::new(ErrorKind::InvalidText, message));
        }
        for member in members(json) {
            let key = Value::parse(&member.key.unwrap_or_default(), family.qualifier[0].ty)?;
            let value = match (member.text, family.value.ty) {
                ("null", _) => return Err(null_inside(family)),
                (text, ColumnType::Json | ColumnType::Jsonb) => Value::Text(text.to_owned()),
                (text, ty) if text.starts_with('"') => Value::parse(&unquoted(text)?, ty)?,
                (text, ty) => Value::parse(text, ty)?,
            };
            self.put(family, vec![key], Some(value))?;
        }
        Ok(())
    }

    /// Whether a family is written as a whole.
    pub(crate) fn replaces(&self) -> bool {
        !self.replaced.is_empty()
    }

    /// The statement's timing for rows and cells; deletions of what families had come before it.
    pub(crate) fn timing(&self, timing: Timing) -> Timing {
        match timing.stamp {
            Stamp::Server(statement) if self.replaces() => Timing { stamp: Stamp::Server(statement + 1), ..timing },
            _ => timing,
        }
    }

    /// The mutations for the row with this key, in [`FamilyCells::timing`].
    pub(crate) fn mutations(&self, handle: &TableHandle, key: &[Value], timing: &Timing) -> Vec<Mutation> {
        let before = match timing.stamp {
            Stamp::Server(statement) => Stamp::Server(statement.saturating_sub(1)),
            Stamp::At(ts) => Stamp::At(ts.saturating_sub(1)),
        };
        let stamp = timing.stamp;
        let path = |qualifier: &[Value]| key.iter().chain(qualifier).cloned().collect::<Vec<_>>();
        let delete = |family: &FamilyDef, qualifier: &[Value], stamp| {
            Mutation::DeleteSpan(SpanDelete { relation: family.relation, span: Span::prefix(path(qualifier)), stamp })
        };
        let mut mutations: Vec<Mutation> = self.replaced.iter().map(|family| delete(family, &[], before)).collect();
        for FamilyCell { family, qualifier, value } in &self.cells {
            mutations.push(match value {
                None => delete(family, qualifier, stamp),
                Some(value) => Mutation::Row(RowWrite {
                    relation: family.relation,
                    key: path(qualifier),
                    marker: false,
                    cells: vec![(family.value.id, CellWrite::Value(value.clone()))],
                    stamp,
                    ttl: timing.ttl,
                }),
            });
        }
        if self.cells.iter().any(|cell| cell.value.is_some()) {
            mutations.push(Mutation::Row(RowWrite {
                relation: handle.relation.id,
                key: key.to_vec(),
                marker: false,
                cells: vec![(PRESENCE_COLUMN, CellWrite::Value(Value::Boolean(true)))],
                stamp,
                ttl: 0,
            }));
        }
        mutations
    }
}

fn null_inside(family: &FamilyDef) -> Error {
    // Cassandra's text.
    let message = format!("null is not supported inside collections: family \"{}\"", family.name);
    Error::new(ErrorKind::NotNull, message)
}
