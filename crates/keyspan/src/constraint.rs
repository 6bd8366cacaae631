//! What a row must satisfy: NOT NULL, the length of a text, CHECK. Messages are PostgreSQL's.

use arrow::array::{Array, AsArray, RecordBatch};
use keyspan_cql::ast;
use keyspan_model::{ColumnDef, Error, ErrorKind, ErrorSubject, Result, TableDef, TextType, Value};
use keyspan_query::CompiledExprs;

use crate::context::ClientContext;
use crate::expression::compile;
use crate::names::columns_of;
use crate::row::TableHandle;
use crate::violation::{null_value, subject};

/// A table's CHECKs, ready to be evaluated on batches of all its columns.
#[derive(Clone, Debug)]
pub(crate) struct Checks {
    names: Vec<String>,
    compiled: Option<CompiledExprs>,
    /// Names of the columns they read.
    columns: Vec<String>,
}

impl Checks {
    /// The checks of a table. Cheap for a table without any.
    pub(crate) fn new(context: &mut ClientContext, target: &TableHandle) -> Result<Checks> {
        let table = &target.table;
        if table.checks.is_empty() {
            return Ok(Checks::none());
        }
        let parse = |sql: &String| keyspan_cql::parse_expression(sql);
        let expressions = table.checks.iter().map(|check| parse(&check.sql)).collect::<Result<Vec<_>>>()?;
        let columns = expressions.iter().flat_map(columns_of).collect();
        let references: Vec<&ast::Expr> = expressions.iter().collect();
        let compiled = compile(context, &references, &[(&table.name, target.schema.clone())], &[])?;
        Ok(Checks { names: table.checks.iter().map(|c| c.name.clone()).collect(), compiled: Some(compiled), columns })
    }

    /// None, for rows that have been checked.
    pub(crate) fn none() -> Checks {
        Checks { names: Vec::new(), compiled: None, columns: Vec::new() }
    }

    /// Whether there is nothing to check.
    pub(crate) fn is_empty(&self) -> bool {
        self.compiled.is_none()
    }

    /// Whether the checks read no other columns than the key's and those that are given.
    pub(crate) fn read_only(&self, table: &TableDef, is_given: impl Fn(&str) -> bool) -> bool {
        let is_key = |name: &str| table.column(name).is_some_and(ColumnDef::is_key);
        self.columns.iter().all(|name| is_key(name) || is_given(name) || table.column(name).is_none())
    }

    /// Fails with 23514 for the first row for which a condition is false. Null passes.
    pub(crate) fn check(&self, table: &TableDef, batch: &RecordBatch) -> Result<()> {
        let Some(compiled) = &self.compiled else { return Ok(()) };
        let results = compiled.evaluate(batch, &[])?;
        for (name, result) in self.names.iter().zip(&results) {
            if has_false(result.as_ref()) {
                let message = format!("new row for relation \"{}\" violates check constraint \"{name}\"", table.name);
                let subject = ErrorSubject { constraint: Some(name.clone()), ..subject(table) };
                return Err(Error::new(ErrorKind::Check, message).about(subject));
            }
        }
        Ok(())
    }
}

/// Whether a column of conditions has one that is false.
pub(crate) fn has_false(array: &dyn Array) -> bool {
    match array.as_boolean_opt() {
        Some(values) => values.iter().any(|value| value == Some(false)),
        None => false,
    }
}

/// Compiles one condition over a table's columns.
pub(crate) fn compile_one(
    context: &mut ClientContext,
    table: &TableDef,
    expression: &ast::Expr,
) -> Result<CompiledExprs> {
    let target = TableHandle::new(std::sync::Arc::new(table.clone()));
    compile(context, &[expression], &[(&table.name, target.schema.clone())], &[])
}

/// One value as its column keeps it, checked against NOT NULL and the column's length.
pub(crate) fn kept_value(table: &TableDef, column: &ColumnDef, value: Value) -> Result<Value> {
    if value.is_null() && (column.not_null || column.is_key()) {
        return Err(null_value(table, column, None));
    }
    of_declared_type(column, value)
}

/// One value as its column's declared type keeps it: a text of so many characters, of `char(n)` without blanks at its
/// end.
///
/// # Errors
/// 22001 for a text that is longer.
pub(crate) fn of_declared_type(column: &ColumnDef, value: Value) -> Result<Value> {
    match column.max_length {
        Some(length) if drops_blanks(column) => value.without_blanks().of_length(length),
        Some(length) => value.of_length(length),
        None => Ok(value),
    }
}

/// Whether a column keeps no blanks at the end of its texts: one of `char(n)`.
pub(crate) fn drops_blanks(column: &ColumnDef) -> bool {
    column.text_type == TextType::Char && column.max_length.is_some()
}
