//! Names of columns that a subquery in FROM has twice: `SELECT q.x FROM (SELECT 1 AS x, 2 AS x) AS q`.
//!
//! The planner cannot have them, so the second gets a name of its own, and nobody would see that a name means two.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Select, SelectItem, SetExpr, TableFactor};
use keyspan_model::{Error, ErrorKind, Result};

use super::order_by::label_of;
use crate::syntax::{folded, relations, visit_own};

/// Looks at the names in a SELECT, but not in its subqueries.
///
/// # Errors
/// 42702 for such a name.
pub fn check(select: &Select) -> Result<()> {
    let repeated: Vec<(String, BTreeSet<String>)> = relations(&select.from).filter_map(repeated_in).collect();
    if repeated.is_empty() {
        return Ok(());
    }
    let named = visit_own(select, |expr| match repeated_name(&repeated, expr) {
        Some(column) => ControlFlow::Break(column),
        None => ControlFlow::Continue(()),
    });
    match named {
        ControlFlow::Break(column) => {
            Err(Error::new(ErrorKind::AmbiguousColumn, format!("column reference \"{column}\" is ambiguous")))
        }
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// What PostgreSQL calls a column that nothing names. Nobody writes it, and a whole row is made of such columns, too.
const UNNAMED: &str = "?column?";

/// A subquery's name, and the names of its columns that repeat.
fn repeated_in(factor: &TableFactor) -> Option<(String, BTreeSet<String>)> {
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor else { return None };
    let items = items_of(&subquery.body)?;
    let given = alias.columns.iter().map(|column| Some(folded(&column.name)));
    let mut seen = BTreeSet::new();
    let names = given.chain(items.iter().skip(alias.columns.len()).map(label_of)).flatten();
    let repeated: BTreeSet<String> = names.filter(|name| name != UNNAMED && !seen.insert(name.clone())).collect();
    (!repeated.is_empty()).then(|| (folded(&alias.name), repeated))
}

/// The SELECT list that names a query's columns.
fn items_of(body: &SetExpr) -> Option<&[SelectItem]> {
    match body {
        SetExpr::Select(select) => Some(&select.projection),
        SetExpr::SetOperation { left, .. } => items_of(left),
        SetExpr::Query(query) => items_of(&query.body),
        _ => None,
    }
}

/// The column that an expression names, if it is one of these.
fn repeated_name(repeated: &[(String, BTreeSet<String>)], expr: &Expr) -> Option<String> {
    let (table, column) = match expr {
        Expr::Identifier(name) => (None, folded(name)),
        Expr::CompoundIdentifier(path) => match path.as_slice() {
            [table, name] => (Some(folded(table)), folded(name)),
            _ => return None,
        },
        _ => return None,
    };
    let means = |(own, names): &(String, BTreeSet<String>)| {
        table.as_ref().is_none_or(|table| table == own) && names.contains(&column)
    };
    repeated.iter().any(means).then_some(column)
}
