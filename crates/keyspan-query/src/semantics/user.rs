//! Words that are functions without parentheses, and that the parser reads as columns: `current_schema`, and `user`. CQL's
//! tables have columns of the latter name, so the parser reads a column wherever there is a FROM
//! (`keyspan-cql/src/misread.rs`). Where nothing that is read can have such a column, it is Postgres' function.

use datafusion::sql::sqlparser::ast::{Expr, Query, SelectItem, SetExpr, TableAlias, TableFactor};

use crate::pg_catalog;

/// A function, unless there is such a column.
const NAME: &str = "user";
/// A function: PostgreSQL's columns of that name are in quotes.
const SCHEMA: &str = "current_schema";

/// The queries around a place.
#[derive(Default)]
pub struct Users {
    /// Of each, the outermost first, whether something in FROM may have the column.
    may_have: Vec<bool>,
}

impl Users {
    /// A query begins.
    pub fn enter(&mut self, query: &Query) {
        let mut bodies = vec![query.body.as_ref()];
        let mut may_have = false;
        while let Some(body) = bodies.pop() {
            match body {
                SetExpr::Select(select) => {
                    let joined = select.from.iter().flat_map(|table| table.joins.iter().map(|join| &join.relation));
                    may_have |= select.from.iter().map(|table| &table.relation).chain(joined).any(has_columns);
                }
                SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_ref(), right.as_ref()]),
                _ => {}
            }
        }
        self.may_have.push(may_have);
    }

    /// The query ends.
    pub fn leave(&mut self) {
        self.may_have.pop();
    }

    /// Makes functions of these words.
    pub fn call(&self, expr: &mut Expr) {
        if matches!(expr, Expr::Identifier(name) if name.quote_style.is_none() && name.value == SCHEMA) {
            *expr = crate::syntax::call(SCHEMA, Vec::new());
        }
        let is_user = matches!(expr, Expr::Identifier(name) if name.value == NAME);
        if is_user && !self.may_have.is_empty() && !self.may_have.contains(&true) {
            *expr = crate::syntax::call(NAME, Vec::new());
        }
    }
}

/// Whether a relation may have the column.
fn has_columns(factor: &TableFactor) -> bool {
    let named = |alias: &Option<TableAlias>| {
        let columns = alias.as_ref().filter(|alias| !alias.columns.is_empty());
        columns.map(|alias| alias.columns.iter().any(|column| column.name.value == NAME))
    };
    match factor {
        TableFactor::Table { name, args: None, .. } => !pg_catalog::is_system_table(name),
        TableFactor::Table { alias, .. } | TableFactor::Function { alias, .. } => {
            named(alias).unwrap_or_else(|| alias.as_ref().is_some_and(|alias| alias.name.value == NAME))
        }
        TableFactor::Derived { alias, subquery, .. } => named(alias).unwrap_or_else(|| gives(subquery)),
        _ => true,
    }
}

/// Whether a query may give the column.
fn gives(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return true };
    select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) => super::label(expr) == NAME,
        SelectItem::ExprWithAlias { alias, .. } => alias.value == NAME,
        _ => true,
    })
}
