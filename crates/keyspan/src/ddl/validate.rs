//! Checks of DEFAULTs and CHECKs when they are declared, so that they cannot fail by their form later.

use std::ops::ControlFlow;

use keyspan_cql::{CheckDefinition, ColumnDefinition, ast};
use keyspan_model::{Check, ColumnType, Error, ErrorKind, Result, TableDef};

use crate::constraint;
use crate::context::ClientContext;
use crate::expression::Evaluator;
use crate::names::columns_of;

/// Fails unless the default has no columns, no parameters, and a type that the column can take.
pub(super) fn default(context: &mut ClientContext, column: &ColumnDefinition) -> Result<()> {
    match &column.default {
        Some(source) => default_of(context, &source.expression, column.column_type),
        None => Ok(()),
    }
}

/// As [`default`], of a column of this type.
pub(super) fn default_of(context: &mut ClientContext, expression: &ast::Expr, ty: ColumnType) -> Result<()> {
    let evaluated = Evaluator::new(context).constant(context, &taking_no_number(expression), ty, &[]);
    evaluated.map(drop).map_err(|error| match error.kind {
        ErrorKind::UndefinedColumn => Error::not_supported("cannot use column reference in DEFAULT expression"),
        _ => error,
    })
}

/// The expression with the last number of a sequence for its next one, which a check is not to use up.
fn taking_no_number(expression: &ast::Expr) -> ast::Expr {
    let mut expression = expression.clone();
    let _ = ast::visit_expressions_mut(&mut expression, |expr| {
        if let ast::Expr::Function(function) = expr {
            let name = function.name.0.last().and_then(|part| part.as_ident());
            if name.is_some_and(|name| name.value.eq_ignore_ascii_case("nextval")) {
                function.name = ast::ObjectName::from(vec![ast::Ident::new("pg_sequence_last_value")]);
            }
        }
        ControlFlow::<()>::Continue(())
    });
    expression
}

/// Fails unless the condition is a boolean over the table's columns.
pub(super) fn check(context: &mut ClientContext, table: &TableDef, condition: &ast::Expr) -> Result<()> {
    let compiled = constraint::compile_one(context, table, condition)?;
    match compiled.types() {
        [ColumnType::Boolean] => Ok(()),
        [other, ..] => {
            let message = format!("argument of CHECK must be type boolean, not type {}", other.postgres_name());
            Err(Error::new(ErrorKind::DatatypeMismatch, message))
        }
        [] => Ok(()),
    }
}

/// The CHECKs of a table with these added: where no name is given, `table_column_check` of one about one column, else
/// `table_check`.
pub(super) fn name_checks(table: &TableDef, definitions: &[CheckDefinition]) -> Result<Vec<Check>> {
    let mut next = table.clone();
    for definition in definitions {
        let about = columns_of(&definition.check.expression);
        let only = about.first().filter(|_| about.len() == 1);
        let column = only.map_or(String::new(), |column| format!("_{column}"));
        let name = constraint_name(&next, definition.name.as_deref(), format!("{}{column}_check", table.name))?;
        next.checks.push(Check { name, sql: definition.check.text.clone() });
    }
    Ok(next.checks)
}

/// The name of a new constraint: the one that is given, else this one, with a number behind it if it is taken.
///
/// # Errors
/// 42710 if a constraint or an index of the table has the name that is given.
pub(super) fn constraint_name(table: &TableDef, given: Option<&str>, otherwise: String) -> Result<String> {
    let taken = |name: &str| table.has_constraint(name) || table.indexes.iter().any(|index| index.name == name);
    match given {
        Some(name) if taken(name) => {
            let message = format!("constraint \"{name}\" for relation \"{}\" already exists", table.name);
            Err(Error::new(ErrorKind::DuplicateObject, message))
        }
        Some(name) => Ok(name.to_owned()),
        None => {
            let mut names = std::iter::once(otherwise.clone()).chain((1..).map(|n| format!("{otherwise}{n}")));
            Ok(names.find(|name| !taken(name)).unwrap_or(otherwise))
        }
    }
}
