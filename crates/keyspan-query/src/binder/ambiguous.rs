//! Names of columns that a query in FROM or WITH has twice: `SELECT q.x FROM (SELECT 1 AS x, 2 AS x) AS q`.
//!
//! The planner cannot have them, so the second gets a name of its own, and nobody would see that a name means two.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor};
use keyspan_model::{Error, ErrorKind, Result};

use crate::semantics::label_of;
use crate::syntax::{folded, parts_of, relations, visit_own};

/// The names that queries of WITH have twice, by the names of these queries.
pub type OfWith = BTreeMap<String, BTreeSet<String>>;

/// Adds those of a query's own WITH.
pub fn add_with(query: &Query, of_with: &mut OfWith) {
    let tables = query.with.iter().flat_map(|with| &with.cte_tables);
    of_with.extend(tables.filter_map(|table| repeated_names(&table.query, &table.alias)));
}

/// Takes those away again, once the query has been seen whole.
pub fn remove_with(query: &Query, of_with: &mut OfWith) {
    let tables = query.with.iter().flat_map(|with| &with.cte_tables);
    tables.for_each(|table| _ = of_with.remove(&folded(&table.alias.name)));
}

/// Looks at the names in a SELECT, but not in its subqueries.
///
/// # Errors
/// 42702 for such a name.
pub fn check(select: &Select, of_with: &OfWith) -> Result<()> {
    let repeated: Vec<(String, BTreeSet<String>)> =
        relations(&select.from).filter_map(|factor| repeated_in(factor, of_with)).collect();
    if repeated.is_empty() {
        return Ok(());
    }
    let named = visit_own(select, |expr| match repeated_name(&repeated, expr) {
        Some(column) => ControlFlow::Break(column),
        None => ControlFlow::Continue(()),
    });
    match named {
        ControlFlow::Break(column) => {
            let error = Error::new(ErrorKind::AmbiguousColumn, format!("column reference \"{column}\" is ambiguous"));
            Err(error.with_hint("Two columns of the subquery have this name: give one of them another name."))
        }
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// What PostgreSQL calls a column that nothing names. Nobody writes it, and a whole row is made of such columns, too.
const UNNAMED: &str = "?column?";

/// What a factor is called here, and the names of its columns that repeat.
fn repeated_in(factor: &TableFactor, of_with: &OfWith) -> Option<(String, BTreeSet<String>)> {
    match factor {
        TableFactor::Derived { subquery, alias: Some(alias), .. } => repeated_names(subquery, alias),
        TableFactor::Table { name, alias, args: None, .. } => {
            let (None, own) = parts_of(name)? else { return None };
            let names = of_with.get(&own)?.clone();
            match alias {
                Some(alias) if !alias.columns.is_empty() => None,
                Some(alias) => Some((folded(&alias.name), names)),
                None => Some((own, names)),
            }
        }
        _ => None,
    }
}

/// A query's name, and the names of its columns that repeat; `None` if none does.
fn repeated_names(query: &Query, alias: &TableAlias) -> Option<(String, BTreeSet<String>)> {
    let items = items_of(&query.body)?;
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
