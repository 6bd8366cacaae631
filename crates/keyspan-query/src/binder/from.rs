//! Which table of a FROM has a column, a collection or a family of some name, as far as the catalog tells.
//!
//! What views, subqueries and the names of WITH have is not known here. Rule: a name that one of these may have is never
//! taken for that of a table further out.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Expr, Query, TableAlias, TableFactor, TableWithJoins};
use keyspan_model::{Error, ErrorKind, Result, TableDef};

use super::rewrite::{Resolve, bare};
use crate::syntax::{folded, parts_of, relations};

/// What FROM names, and as it is called there.
pub struct Source {
    pub shown: String,
    /// `None`: no table of the catalog.
    pub table: Option<Arc<TableDef>>,
}

/// The sources of one FROM have a name:
pub enum Found<'a> {
    /// in this table;
    In(&'a str, &'a Arc<TableDef>),
    /// perhaps: something has columns that are not known, or several have it as a column;
    Perhaps,
    /// not at all.
    Nowhere,
}

/// The names that a query's own WITH gives.
pub fn names_of_with(query: &Query) -> impl Iterator<Item = String> {
    query.with.iter().flat_map(|with| &with.cte_tables).map(|table| folded(&table.alias.name))
}

/// The sources of a FROM; joins in parentheses stand for what they join.
pub fn sources(from: &[TableWithJoins], with: &HashSet<String>, resolve: Resolve<'_>) -> Vec<Source> {
    let called = |alias: &Option<TableAlias>| alias.as_ref().map(|alias| folded(&alias.name)).unwrap_or_default();
    let mut all = Vec::new();
    for factor in relations(from) {
        match factor {
            TableFactor::Table { name, alias, args, .. } => {
                let (schema, own) = parts_of(name).unwrap_or_default();
                let stored = args.is_none() && !(schema.is_none() && with.contains(&own));
                let shown = if alias.is_some() { called(alias) } else { own };
                all.push(Source { shown, table: if stored { resolve(name) } else { None } });
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                all.extend(sources(std::slice::from_ref(table_with_joins), with, resolve));
            }
            TableFactor::NestedJoin { alias, .. } | TableFactor::Derived { alias, .. } => {
                all.push(Source { shown: called(alias), table: None });
            }
            _ => all.push(Source { shown: String::new(), table: None }),
        }
    }
    all
}

/// The parts of a name: the table's, if it is given, and the column's.
pub fn parts_of_column(expr: &Expr) -> Option<(Option<String>, String)> {
    match bare(expr) {
        Expr::Identifier(name) => Some((None, folded(name))),
        Expr::CompoundIdentifier(names) => {
            let (name, before) = names.split_last()?;
            Some((before.last().map(folded), folded(name)))
        }
        _ => None,
    }
}

/// Where a name is.
///
/// # Errors
/// 42702 if several tables have it, and one of them as a collection or a family. Of columns the planner finds out.
pub fn find<'a>(sources: &'a [Source], qualifier: Option<&str>, name: &str) -> Result<Found<'a>> {
    let meant = || sources.iter().filter(|source| qualifier.is_none_or(|qualifier| source.shown == qualifier));
    let having = meant().filter_map(|source| Some((source.shown.as_str(), source.table.as_ref()?)));
    let having: Vec<_> =
        having.filter(|(_, table)| table.column(name).is_some() || table.family(name).is_some()).collect();
    Ok(match having.as_slice() {
        [] if meant().any(|source| source.table.is_none()) => Found::Perhaps,
        [] => Found::Nowhere,
        [(shown, table)] => Found::In(shown, table),
        several if several.iter().any(|(_, table)| table.family(name).is_some()) => {
            let error = Error::new(ErrorKind::AmbiguousColumn, format!("column reference \"{name}\" is ambiguous"));
            return Err(error.with_hint("Write the table's name before it."));
        }
        _ => Found::Perhaps,
    })
}
