//! What a write must be allowed: its right to the columns that it writes, and SELECT of those that it reads.
//!
//! Other tables that a statement reads are judged with the queries that read them. A condition and an answer show rows:
//! they need SELECT of the table, as in Cassandra.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use keyspan_cql::{Assignment, ConflictAction, Delete, Insert, Update, ast};
use keyspan_model::{ColumnId, Principal, Result, Right, TableDef};

use crate::context::ClientContext;
use crate::names::fold_case;
use crate::stores;

/// What a statement reads of the table that it writes to.
#[derive(Default)]
struct Reads {
    names: BTreeSet<String>,
    /// Whole rows.
    all: bool,
}

impl Reads {
    fn expressions<'a>(&mut self, expressions: impl IntoIterator<Item = &'a ast::Expr>) {
        for expression in expressions {
            let _ = ast::visit_expressions(expression, |part| {
                match part {
                    ast::Expr::Identifier(name) => drop(self.names.insert(fold_case(name))),
                    // Which part is the column's name shows only with types: `t.a`, and field b of `a.b`.
                    ast::Expr::CompoundIdentifier(parts) => self.names.extend(parts.iter().map(fold_case)),
                    _ => {}
                }
                ControlFlow::<()>::Continue(())
            });
        }
    }

    fn returning(&mut self, items: Option<&[ast::SelectItem]>) {
        for item in items.into_iter().flatten() {
            match item {
                ast::SelectItem::UnnamedExpr(expression) | ast::SelectItem::ExprWithAlias { expr: expression, .. } => {
                    self.expressions([expression]);
                }
                _ => self.all = true,
            }
        }
    }

    fn assignments(&mut self, assignments: &[Assignment]) {
        self.expressions(assignments.iter().flat_map(|assignment| assignment.value.expressions()));
    }

    fn check(&self, context: &ClientContext, table: &TableDef) -> Result<()> {
        let columns: Vec<ColumnId> = self.names.iter().filter_map(|name| id_of(table, name)).collect();
        match (self.all, columns.is_empty()) {
            (true, _) => context.require(table, Right::Select, &[]),
            (false, true) => Ok(()),
            (false, false) => context.require(table, Right::Select, &columns),
        }
    }
}

/// INSERT of the columns that it names, and whatever ON CONFLICT, IF and RETURNING need.
pub(crate) fn insert(context: &ClientContext, table: &TableDef, statement: &Insert) -> Result<()> {
    stores::check_writable(table)?;
    if context.principal() == Principal::Owner {
        return Ok(());
    }
    let names: Vec<&str> = statement.columns.iter().map(|column| column.name.as_str()).collect();
    context.require(table, Right::Insert, &ids(table, &names))?;
    let mut reads = Reads { all: statement.if_not_exists, ..Reads::default() };
    if let Some(ConflictAction::Update { assignments, filter }) = statement.on_conflict.as_ref().map(|c| &c.action) {
        context.require(table, Right::Update, &assigned(table, assignments))?;
        reads.assignments(assignments);
        reads.expressions(filter);
    }
    reads.returning(statement.returning.as_deref());
    reads.check(context, table)
}

/// UPDATE of the columns that it assigns, SELECT of those in its WHERE, values, IF and RETURNING.
pub(crate) fn update(context: &ClientContext, table: &TableDef, statement: &Update) -> Result<()> {
    stores::check_writable(table)?;
    if context.principal() == Principal::Owner {
        return Ok(());
    }
    context.require(table, Right::Update, &assigned(table, &statement.assignments))?;
    let mut reads = Reads { all: statement.condition.is_some(), ..Reads::default() };
    reads.assignments(&statement.assignments);
    reads.expressions(&statement.filter);
    reads.returning(statement.returning.as_deref());
    reads.check(context, table)
}

/// DELETE, SELECT of the columns in its WHERE, IF and RETURNING.
pub(crate) fn delete(context: &ClientContext, table: &TableDef, statement: &Delete) -> Result<()> {
    stores::check_writable(table)?;
    if context.principal() == Principal::Owner {
        return Ok(());
    }
    context.require(table, Right::Delete, &[])?;
    let mut reads = Reads { all: statement.condition.is_some(), ..Reads::default() };
    reads.expressions(&statement.filter);
    reads.returning(statement.returning.as_deref());
    reads.check(context, table)
}

fn assigned(table: &TableDef, assignments: &[Assignment]) -> Vec<ColumnId> {
    let names: Vec<&str> = assignments.iter().map(|assignment| assignment.column.name.as_str()).collect();
    ids(table, &names)
}

/// The ids of these columns and families; none where one is missing, so that the whole table is asked for.
pub(crate) fn ids(table: &TableDef, names: &[&str]) -> Vec<ColumnId> {
    names.iter().map(|name| id_of(table, name)).collect::<Option<_>>().unwrap_or_default()
}

fn id_of(table: &TableDef, name: &str) -> Option<ColumnId> {
    let family = || table.family(name).map(|family| family.value.id);
    table.column(name).map(|column| column.id).or_else(family)
}
