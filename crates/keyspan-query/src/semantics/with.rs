//! Marks of the CTEs that are named several times; [`crate::shared`] says what becomes of them.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, CteAsMaterialized, Expr, Query, SetExpr};
use keyspan_model::Result;

use super::filled::parsed;
use super::subquery::derived;
use crate::functions::MARK_OF_SHARED;
use crate::syntax::{folded, parts_of};

/// Marks the query's CTEs that stand in FROM more than once. `next` is the number of the next one in the statement.
///
/// # Errors
/// None that a user can cause.
pub fn mark(query: &mut Query, next: &mut u64) -> Result<()> {
    let Some(with) = query.with.as_ref().filter(|with| !with.recursive) else { return Ok(()) };
    let names: Vec<String> = with.cte_tables.iter().map(|cte| folded(&cte.alias.name)).collect();
    let uses: Vec<usize> = names.iter().map(|name| uses(query, name)).collect();
    let Some(with) = &mut query.with else { return Ok(()) };
    for (cte, uses) in with.cte_tables.iter_mut().zip(uses) {
        if uses > 1 {
            *cte.query = marked(&cte.query, *next, matches!(cte.materialized, Some(CteAsMaterialized::Materialized)))?;
            *next += 1;
        }
    }
    Ok(())
}

fn uses(query: &Query, name: &str) -> usize {
    let mut uses = 0;
    let _ = ast::visit_relations(query, |relation| {
        uses += usize::from(matches!(parts_of(relation), Some((None, own)) if own == name));
        ControlFlow::<()>::Continue(())
    });
    uses
}

fn marked(query: &Query, number: u64, always: bool) -> Result<Query> {
    let text = format!("(SELECT * FROM q WHERE {MARK_OF_SHARED}({number}::bigint, {always}))");
    let Expr::Subquery(mut marked) = parsed(&text)? else { return Ok(query.clone()) };
    if let SetExpr::Select(select) = marked.body.as_mut()
        && let Some(from) = select.from.first_mut()
    {
        from.relation = derived(query, &[""; 0]);
    }
    Ok(*marked)
}
