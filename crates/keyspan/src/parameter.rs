//! Parameters in a statement's text: `$1`, `$2`, ….

use std::ops::ControlFlow;

use keyspan_cql::ast;

/// The place of `$n` among the parameters.
pub(crate) fn parameter_index(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// The parameter that an expression is, and nothing else.
pub(crate) fn as_parameter(expression: &ast::Expr) -> Option<usize> {
    match expression {
        ast::Expr::Nested(inner) => as_parameter(inner),
        ast::Expr::Value(literal) => match &literal.value {
            ast::Value::Placeholder(name) => parameter_index(name),
            _ => None,
        },
        _ => None,
    }
}

/// The places of the parameters in an expression.
pub(crate) fn parameters_in(expression: &ast::Expr) -> Vec<usize> {
    let mut found = Vec::new();
    let _ = ast::visit_expressions(expression, |expression| {
        if let ast::Expr::Value(literal) = expression
            && let ast::Value::Placeholder(name) = &literal.value
        {
            found.extend(parameter_index(name));
        }
        ControlFlow::<()>::Continue(())
    });
    found
}
