//! Lists of column names that are shorter than the columns, `FROM t AS q (a)`: the other columns keep their names.
//! DataFusion wants a name for each.

use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    self, Cte, Ident, Query, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor,
};
use keyspan_model::{Error, ErrorKind};

use super::filled::parsed;
use crate::syntax::{QUERY, folded};
use crate::types::fail;

/// The names that a relation gives its columns, taken from it.
pub fn take_names(relation: &mut TableFactor) -> Vec<Ident> {
    let (TableFactor::Table { alias: Some(alias), args: None, .. } | TableFactor::Derived { alias: Some(alias), .. }) =
        relation
    else {
        return Vec::new();
    };
    std::mem::take(&mut alias.columns).into_iter().map(|column| column.name).collect()
}

/// A relation with these names for the first of its columns.
///
/// # Errors
/// 42P10 if there are more names than columns; 42601 where a row is compared with a subquery of other columns.
pub fn with_names(plan: LogicalPlan, names: &[Ident]) -> Result<LogicalPlan> {
    let LogicalPlan::SubqueryAlias(relation) = plan else { return plan_err!("a relation with names has none itself") };
    let columns = relation.input.schema().columns();
    // A row that is compared with a subquery names all of its columns.
    if relation.alias.table() == QUERY && names.len() != columns.len() {
        let how = if names.len() > columns.len() { "few" } else { "many" };
        return fail(Error::new(ErrorKind::Syntax, format!("subquery has too {how} columns")));
    }
    if names.len() > columns.len() {
        let (table, there, given) = (&relation.alias, columns.len(), names.len());
        let message = format!("table \"{table}\" has {there} columns available but {given} columns specified");
        return fail(Error::new(ErrorKind::InvalidColumnReference, message));
    }
    let name_of = names.iter().map(Some).chain(std::iter::repeat(None));
    let named = columns.into_iter().zip(name_of).map(|(column, name)| match name {
        Some(name) => Expr::Column(column).alias(folded(name)),
        None => Expr::Column(column),
    });
    let named = LogicalPlanBuilder::from(relation.input.as_ref().clone()).project(named.collect::<Vec<_>>())?;
    named.alias(relation.alias.clone())?.build()
}

/// `WITH q (a) AS (query)` as `WITH q AS (SELECT * FROM (query) AS q (a))`, if the query may have more columns.
pub fn of_cte(cte: &mut Cte) -> keyspan_model::Result<()> {
    if cte.alias.columns.is_empty() || width(&cte.query.body) == Some(cte.alias.columns.len()) {
        return Ok(());
    }
    let outer = parsed("(SELECT * FROM (SELECT 1) AS q)")?;
    let ast::Expr::Subquery(mut outer) = outer else { return Ok(()) };
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(TableFactor::Derived { subquery, alias, .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
    {
        let columns: Vec<TableAliasColumnDef> = std::mem::take(&mut cte.alias.columns);
        *alias = Some(TableAlias { columns, ..cte.alias.clone() });
        std::mem::swap::<Query>(subquery, &mut cte.query);
        *cte.query = *outer;
    }
    Ok(())
}

/// How many columns a query has, if its text tells.
fn width(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let star = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
            (!select.projection.iter().any(star)).then_some(select.projection.len())
        }
        SetExpr::SetOperation { left, .. } => width(left),
        SetExpr::Query(query) => width(&query.body),
        SetExpr::Values(values) => values.rows.first().map(|row| row.len()),
        _ => None,
    }
}
