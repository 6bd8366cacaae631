//! Checks of DEFAULTs and CHECKs when they are declared, so that they cannot fail by their form later.

use keyspan_cql::{CheckDefinition, ColumnDefinition, SourceExpression};
use keyspan_model::{Check, ColumnType, Error, ErrorKind, Result, TableDef};

use crate::context::ClientContext;
use crate::{constraint, expression};

/// Fails unless the default has no columns, no parameters, and a type that the column can take.
pub(super) fn default(context: &mut ClientContext, column: &ColumnDefinition) -> Result<()> {
    let Some(source) = &column.default else { return Ok(()) };
    let evaluated = expression::Evaluator::new(context).constant(context, &source.expression, column.column_type, &[]);
    evaluated.map(drop).map_err(|error| match error.kind {
        ErrorKind::UndefinedColumn => Error::not_supported("cannot use column reference in DEFAULT expression"),
        _ => error,
    })
}

/// Fails unless the condition is a boolean over the table's columns.
pub(super) fn check(context: &mut ClientContext, table: &TableDef, source: &SourceExpression) -> Result<()> {
    let compiled = constraint::compile_one(context, table, &source.expression)?;
    match compiled.types() {
        [ColumnType::Boolean] => Ok(()),
        [other, ..] => {
            let message = format!("argument of CHECK must be type boolean, not type {}", other.postgres_name());
            Err(Error::new(ErrorKind::DatatypeMismatch, message))
        }
        [] => Ok(()),
    }
}

/// The constraints with their names, unique in the table: `table_column_check` where none is given.
pub(super) fn name_checks(table: &TableDef, definitions: &[CheckDefinition]) -> Result<Vec<Check>> {
    let mut checks = table.checks.clone();
    for definition in definitions {
        let taken = |name: &str, checks: &[Check]| checks.iter().any(|check| check.name == name);
        let name = match &definition.name {
            Some(name) if taken(name, &checks) => {
                let message = format!("constraint \"{name}\" for relation \"{}\" already exists", table.name);
                return Err(Error::new(ErrorKind::DuplicateObject, message));
            }
            Some(name) => name.clone(),
            None => {
                let column = definition.column.as_ref().map_or(String::new(), |column| format!("_{column}"));
                let base = format!("{}{column}_check", table.name);
                let numbered = (1..).map(|n| format!("{base}{n}"));
                let mut names = std::iter::once(base.clone()).chain(numbered);
                names.find(|name| !taken(name, &checks)).unwrap_or(base)
            }
        };
        checks.push(Check { name, sql: definition.check.text.clone() });
    }
    Ok(checks)
}
