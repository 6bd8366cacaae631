//! FILTER, OVER, DISTINCT, ORDER BY and WITHIN GROUP of a call: only aggregates and window functions have them. DataFusion
//! drops those of other functions.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Visit,
    visit_expressions,
};
use keyspan_model::{Error, ErrorKind, Result};

use crate::syntax::parts_of;

/// Checks the calls of a query, or of an expression outside of one.
///
/// # Errors
/// 42809 for a part that the function cannot have, 42601 for `DISTINCT *`, 0A000 for DISTINCT before OVER, as in
/// PostgreSQL.
pub fn check(tree: &impl Visit, state: &SessionState) -> Result<()> {
    let checked = visit_expressions(tree, |expr| match expr {
        Expr::Function(function) => match check_call(function, state) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        },
        _ => ControlFlow::Continue(()),
    });
    match checked {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn check_call(function: &Function, state: &SessionState) -> Result<()> {
    let (mut is_distinct, mut is_ordered, mut is_of_all) = (false, false, false);
    if let FunctionArguments::List(list) = &function.args {
        is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        is_ordered = list.clauses.iter().any(|clause| matches!(clause, FunctionArgumentClause::OrderBy(_)));
        is_of_all = matches!(list.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
    }
    let parts = [
        ("DISTINCT", is_distinct),
        ("WITHIN GROUP", !function.within_group.is_empty()),
        ("ORDER BY", is_ordered),
        ("FILTER", function.filter.is_some()),
        ("OVER", function.over.is_some()),
    ];
    let Some((part, _)) = parts.iter().find(|(_, given)| *given) else { return Ok(()) };
    if is_distinct && is_of_all {
        return Err(Error::new(ErrorKind::Syntax, "syntax error at or near \"*\""));
    }
    let Some((_, name)) = parts_of(&function.name) else { return Ok(()) };
    let is_of_rows = state.aggregate_functions().contains_key(&name) || state.window_functions().contains_key(&name);
    if state.scalar_functions().contains_key(&name) && !is_of_rows {
        let what =
            if *part == "OVER" { "a window function nor an aggregate function" } else { "an aggregate function" };
        let message = format!("{part} specified, but {name} is not {what}");
        let hint = format!("Write {part} with the aggregate itself, as in coalesce(sum(x) FILTER (WHERE x > 1), 0).");
        return Err(Error::new(ErrorKind::WrongObjectType, message).with_hint(hint));
    }
    if is_distinct && function.over.is_some() {
        let error = Error::not_supported("DISTINCT is not implemented for window functions");
        return Err(error.with_hint("Leave out rows that repeat in a subquery in FROM."));
    }
    Ok(())
}
