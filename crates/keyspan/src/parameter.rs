//! Parameters in a statement's text: `$1`, `$2`, ….

use std::ops::ControlFlow;

use keyspan_cql::{Condition, ConflictAction, InsertSource, InsertValue, OnConflict, Statement, ast};

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

/// The places of the parameters in an expression, a list of a SELECT, or the like.
pub(crate) fn parameters_in(tree: &impl ast::Visit) -> Vec<usize> {
    let mut found = Vec::new();
    let _ = ast::visit_expressions(tree, |expression| {
        if let ast::Expr::Value(literal) = expression
            && let ast::Value::Placeholder(name) = &literal.value
        {
            found.extend(parameter_index(name));
        }
        ControlFlow::<()>::Continue(())
    });
    found
}

/// The places of the parameters that an INSERT or UPDATE assigns as they are, and that stand nowhere else in it.
pub(crate) fn assigned_parameters(statement: &Statement) -> Vec<usize> {
    let (mut values, mut others): (Vec<&InsertValue>, Vec<usize>) = (Vec::new(), Vec::new());
    match statement {
        Statement::Insert(insert) => {
            if let InsertSource::Values(rows) = &insert.source {
                values.extend(rows.iter().flatten());
            }
            if let InsertSource::Query(source) = &insert.source {
                others.extend(parameters_in(&source.query));
            }
            if let Some(OnConflict { action: ConflictAction::Update { assignments, filter }, .. }) = &insert.on_conflict
            {
                values.extend(assignments.iter().map(|assignment| &assignment.value));
                others.extend(parameters_in(filter));
            }
            others.extend(parameters_in(&insert.returning));
        }
        Statement::Update(update) => {
            values.extend(update.assignments.iter().map(|assignment| &assignment.value));
            others.extend(parameters_in(&update.from));
            others.extend(parameters_in(&update.filter));
            others.extend(parameters_in(&update.returning));
            if let Some(Condition::If(condition)) = &update.condition {
                others.extend(parameters_in(condition));
            }
        }
        _ => {}
    }
    let mut assigned = Vec::new();
    for value in values {
        match value {
            InsertValue::Expression(expression) if as_parameter(expression).is_some() => {
                assigned.extend(as_parameter(expression));
            }
            value => others.extend(value.expressions().into_iter().flat_map(parameters_in)),
        }
    }
    assigned.retain(|place| !others.contains(place));
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_assigned_where_it_stands_alone_in_values_or_set() {
        for (sql, assigned) in [
            ("INSERT INTO t VALUES ($1, $2 + 1), (($3), $4)", &[0, 2, 3][..]),
            ("INSERT INTO t VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = $3 WHERE t.v < $2", &[0, 2]),
            ("INSERT INTO t SELECT $1", &[]),
            ("UPDATE t SET v = $1, w = w + $2 WHERE v > $3 RETURNING $1 + 1", &[]),
            ("UPDATE t SET v = $1, w = $2 WHERE k = $3", &[0, 1]),
            ("UPDATE t SET v = $1 WHERE k = 1 IF v = $2", &[0]),
            ("SELECT $1", &[]),
        ] {
            let parsed = keyspan_cql::parse_one(sql).expect(sql);
            assert_eq!(assigned_parameters(&parsed.statement), assigned, "{sql}");
        }
    }
}
