//! FILTER, OVER, DISTINCT and ORDER BY of a call: only aggregates and window functions have them. DataFusion drops those of
//! other functions.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Query,
    visit_expressions,
};
use keyspan_model::{Error, ErrorKind, Result};

/// Checks the calls of a query.
///
/// # Errors
/// 42809 for a part that the function cannot have, 42601 for `DISTINCT *`, 0A000 for DISTINCT before OVER, as in
/// PostgreSQL.
pub fn check(query: &Query, state: &SessionState) -> Result<()> {
    let checked = visit_expressions(query, |expr| match expr {
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
    let Some(name) = function.name.0.last().and_then(|part| part.as_ident()) else { return Ok(()) };
    let name = name.value.to_lowercase();
    let is_of_rows = state.aggregate_functions().contains_key(&name) || state.window_functions().contains_key(&name);
    if state.scalar_functions().contains_key(&name) && !is_of_rows {
        let what =
            if *part == "OVER" { "a window function nor an aggregate function" } else { "an aggregate function" };
        let message = format!("{part} specified, but {name} is not {what}");
        return Err(Error::new(ErrorKind::WrongObjectType, message));
    }
    if is_distinct && function.over.is_some() {
        return Err(Error::not_supported("DISTINCT is not implemented for window functions"));
    }
    Ok(())
}
