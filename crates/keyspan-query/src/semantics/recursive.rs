//! What PostgreSQL refuses in WITH RECURSIVE, and DataFusion would compute anew in each round, or for ever.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Cte, LimitClause, Query, Select, SetExpr, TableFactor, Visit, Visitor, With};
use keyspan_model::{Error, Result};

use crate::syntax::{folded, parts_of};

/// Checks the tables of a WITH RECURSIVE that name themselves.
///
/// # Errors
/// 0A000 for ORDER BY, OFFSET and LIMIT over the terms, and for aggregates in the recursive term.
pub fn check(with: &With) -> Result<()> {
    if with.recursive { with.cte_tables.iter().try_for_each(check_table) } else { Ok(()) }
}

fn check_table(cte: &Cte) -> Result<()> {
    let SetExpr::SetOperation { right, .. } = cte.query.body.as_ref() else { return Ok(()) };
    let name = folded(&cte.alias.name);
    if right.visit(&mut Names { name: &name }).is_continue() {
        return Ok(());
    }
    check_clauses(&cte.query)?;
    match term(right) {
        Some(select) if select.projection.iter().any(crate::pg_catalog::aggregates) => {
            Err(Error::not_supported("aggregate functions are not allowed in a recursive query's recursive term"))
        }
        _ => Ok(()),
    }
}

fn check_clauses(query: &Query) -> Result<()> {
    let offset = matches!(&query.limit_clause, Some(LimitClause::LimitOffset { offset: Some(_), .. }));
    let clause = match () {
        () if query.order_by.is_some() => "ORDER BY",
        () if offset => "OFFSET",
        () if query.limit_clause.is_some() || query.fetch.is_some() => "LIMIT",
        () => return Ok(()),
    };
    let error = Error::not_supported(format!("{clause} in a recursive query is not implemented"));
    Err(error.with_hint("Put it into the query that reads the table."))
}

/// The SELECT that the recursive term is, in parentheses or not.
fn term(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => term(&query.body),
        _ => None,
    }
}

/// Stops where a table of this name is read.
struct Names<'a> {
    name: &'a str,
}

impl Visitor for Names<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: None, .. }
                if parts_of(name).is_some_and(|(schema, name)| schema.is_none() && name == self.name) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
