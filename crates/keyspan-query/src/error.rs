//! DataFusion's errors as Keyspan's: the one place where the two vocabularies meet.
//!
//! Errors raised by this workspace travel through DataFusion as `External` and come out unchanged. For the others the
//! kind is read from the variant and, where DataFusion only has a text, from the text.

use datafusion::common::{Column, Diagnostic, SchemaError};
use datafusion::error::DataFusionError;
use keyspan_model::{Error, ErrorKind, nearest};

use crate::memory::STATEMENT_MEMORY;

/// Carries an error through DataFusion.
pub fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The error as Keyspan's.
pub fn from_datafusion(error: DataFusionError) -> Error {
    let position = error.diagnostic().and_then(position_of);
    let mut mapped = convert(&error);
    if mapped.position.is_none() {
        mapped.position = position;
    }
    mapped.message = as_written(mapped.message);
    mapped.hint = mapped.hint.map(as_written);
    mapped
}

/// A text about names without the marks and numbers that make some of them unique.
fn as_written(text: String) -> String {
    let mut parts = text.split('\u{1}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Of what kind it is as Keyspan's.
pub fn kind_of(error: &DataFusionError) -> ErrorKind {
    convert(error).kind
}

/// Characters from 1: the parser's spans count characters over the whole input, on line 1.
fn position_of(diagnostic: &Diagnostic) -> Option<usize> {
    let start = diagnostic.span?.start;
    (start.line == 1 && start.column > 0).then_some(start.column as usize)
}

fn convert(error: &DataFusionError) -> Error {
    match error {
        DataFusionError::Context(_, inner) => convert(inner),
        DataFusionError::Diagnostic(_, inner) => convert(inner),
        DataFusionError::Shared(inner) => convert(inner),
        DataFusionError::Collection(errors) => match errors.first() {
            Some(first) => convert(first),
            None => Error::internal("an empty list of errors"),
        },
        DataFusionError::External(inner) => external_error(inner.as_ref()),
        DataFusionError::ArrowError(inner, _) => arrow_error(inner),
        DataFusionError::SchemaError(inner, _) => schema_error(inner),
        DataFusionError::NotImplemented(message) => not_implemented(message),
        DataFusionError::ResourcesExhausted(message) => out_of_memory(message),
        DataFusionError::Plan(message) | DataFusionError::Execution(message) => text_error(message),
        DataFusionError::SQL(inner, _) => Error::new(ErrorKind::Syntax, inner.to_string()),
        DataFusionError::IoError(inner) => Error::new(ErrorKind::Io, inner.to_string()),
        DataFusionError::ExecutionJoin(inner) if inner.is_cancelled() => {
            Error::new(ErrorKind::Canceled, "canceling statement due to user request")
        }
        DataFusionError::Internal(message) => internal(message),
        other => Error::internal(first_line(&other.strip_backtrace())),
    }
}

/// The message is several lines: what was refused, who holds how much, and how much there is.
fn out_of_memory(message: &str) -> Error {
    let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let of_statement = lines.iter().any(|line| line.contains(STATEMENT_MEMORY));
    let (what, hint) = match of_statement {
        true => (
            "the query needs more memory than statement_memory allows",
            "SET statement_memory to more, as far as keyspan serve --statement-memory allows.",
        ),
        false => (
            "the query needs more memory than there is for queries",
            "Queries share one pool of memory: keyspan serve --memory, or Options::query.memory_limit.",
        ),
    };
    let error = Error::new(ErrorKind::OutOfMemory, what).with_hint(hint);
    if lines.is_empty() { error } else { error.with_detail(lines.join(" ")) }
}

fn not_implemented(message: &str) -> Error {
    // What follows in these texts is the plan's own form of the expression.
    if message.starts_with("Physical plan does not support logical expression") {
        return Error::not_supported("a subquery that refers to the outer query is not supported in this place")
            .with_hint("Write it as a join, or put IN and EXISTS into WHERE.");
    }
    if ["LIMIT", "OFFSET"].iter().any(|clause| message.starts_with(&format!("Unsupported {clause} expression"))) {
        let message =
            "LIMIT and OFFSET by what refers to the query around it, or is new for each call, are not supported";
        return Error::not_supported(message)
            .with_hint("Number the rows: row_number() OVER (ORDER BY …) in a subquery.");
    }
    Error::not_supported(first_line(message))
}

fn external_error(error: &(dyn std::error::Error + 'static)) -> Error {
    if let Some(own) = error.downcast_ref::<Error>() {
        return own.clone();
    }
    match error.downcast_ref::<DataFusionError>() {
        Some(inner) => convert(inner),
        None => Error::internal(error.to_string()),
    }
}

fn arrow_error(error: &arrow::error::ArrowError) -> Error {
    use arrow::error::ArrowError as A;
    match error {
        A::DivideByZero => Error::new(ErrorKind::DivisionByZero, "division by zero"),
        A::ArithmeticOverflow(_) => Error::new(ErrorKind::NumericOverflow, "value out of range"),
        A::ExternalError(inner) => external_error(inner.as_ref()),
        A::CastError(message)
        | A::ParseError(message)
        | A::ComputeError(message)
        | A::InvalidArgumentError(message) => text_error(message),
        other => Error::internal(other.to_string()),
    }
}

fn schema_error(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => missing_column(field, valid_fields),
        SchemaError::AmbiguousReference { field } => {
            Error::new(ErrorKind::AmbiguousColumn, format!("column reference \"{}\" is ambiguous", field.name))
        }
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
            Error::new(ErrorKind::DuplicateColumn, format!("column name \"{name}\" is used more than once"))
        }
    }
}

fn missing_column(field: &Column, valid: &[Column]) -> Error {
    if let Some(relation) = &field.relation {
        let table = relation.table();
        let known = |column: &Column| column.relation.as_ref().is_some_and(|each| each.table() == table);
        if !valid.iter().any(known) {
            let message = format!("missing FROM-clause entry for table \"{table}\"");
            return Error::new(ErrorKind::UndefinedTable, message);
        }
        let message = format!("column {table}.{} does not exist", field.name);
        return near(Error::new(ErrorKind::UndefinedColumn, message), &field.name, valid);
    }
    near(
        Error::new(ErrorKind::UndefinedColumn, format!("column \"{}\" does not exist", field.name)),
        &field.name,
        valid,
    )
}

fn near(error: Error, name: &str, valid: &[Column]) -> Error {
    if name.starts_with("writetime(") || name.starts_with("ttl(") {
        let hint = "WRITETIME and TTL take columns outside of the key. Of a family, read written_at and TTL(value) FROM \
                    cells('table', 'family').";
        return error.with_hint(hint);
    }
    let Some(near) = nearest(name, valid.iter().map(|column| column.name.as_str())) else { return error };
    let full = valid.iter().find(|column| column.name == near).and_then(|column| column.relation.as_ref());
    let full = full.map_or_else(|| near.to_owned(), |relation| format!("{}.{near}", relation.table()));
    error.with_hint(format!("Perhaps you meant to reference the column \"{full}\"."))
}

/// Texts of DataFusion and Arrow, by what they contain; the first that fits decides.
const TEXTS: &[(&str, ErrorKind)] = &[
    ("LIMIT must be >= 0", ErrorKind::InvalidRowCount),
    ("OFFSET must be >=0", ErrorKind::InvalidRowOffset),
    ("Aggregate functions are not allowed", ErrorKind::Grouping),
    ("must appear in the GROUP BY", ErrorKind::Grouping),
    ("must be in GROUP BY", ErrorKind::Grouping),
    ("non-aggregate", ErrorKind::Grouping),
    ("could not be resolved from available columns", ErrorKind::Grouping),
    ("RANGE requires exactly one ORDER BY column", ErrorKind::Windowing),
    ("GROUPS requires an ORDER BY clause", ErrorKind::Windowing),
    ("Cannot infer common", ErrorKind::UndefinedFunction),
    ("Cannot coerce arithmetic", ErrorKind::UndefinedFunction),
    ("No function matches", ErrorKind::UndefinedFunction),
    ("Failed to coerce arguments", ErrorKind::UndefinedFunction),
    ("There is no window function", ErrorKind::UndefinedFunction),
    ("does not support zero arguments", ErrorKind::UndefinedFunction),
    ("Failed to coerce", ErrorKind::DatatypeMismatch),
    ("must be of boolean", ErrorKind::DatatypeMismatch),
    ("non-boolean predicate", ErrorKind::DatatypeMismatch),
    ("have different number of columns", ErrorKind::Syntax),
    ("require unique expression names", ErrorKind::DuplicateColumn),
    ("more than one row", ErrorKind::CardinalityViolation),
    ("Divide by zero", ErrorKind::DivisionByZero),
    ("divide by zero", ErrorKind::DivisionByZero),
    ("division by zero", ErrorKind::DivisionByZero),
    ("verflow", ErrorKind::NumericOverflow),
    ("Can't cast value", ErrorKind::NumericOverflow),
    ("out of range", ErrorKind::NumericOverflow),
    ("is too large to store in", ErrorKind::NumericOverflow),
    ("Error parsing timestamp", ErrorKind::InvalidDatetime),
    ("Error parsing date", ErrorKind::InvalidDatetime),
    ("Cannot cast string", ErrorKind::InvalidText),
    ("Cannot cast value", ErrorKind::InvalidText),
    ("Parser error", ErrorKind::InvalidText),
    ("not supported between", ErrorKind::CannotCoerce),
    ("Unsupported CAST", ErrorKind::CannotCoerce),
    ("Casting from", ErrorKind::CannotCoerce),
    ("ot supported", ErrorKind::NotSupported),
    ("nsupported", ErrorKind::NotSupported),
    ("not implemented", ErrorKind::NotSupported),
    ("is not in select list", ErrorKind::InvalidColumnReference),
    ("Order by column out of bounds", ErrorKind::InvalidColumnReference),
    ("Cannot find column with position", ErrorKind::InvalidColumnReference),
    ("must appear in select list", ErrorKind::InvalidColumnReference),
];

fn text_error(message: &str) -> Error {
    if let Some(error) = missing_function(message) {
        return error;
    }
    let kind = TEXTS.iter().find(|(text, _)| message.contains(text)).map(|(_, kind)| *kind);
    match kind {
        Some(ErrorKind::DivisionByZero) => Error::new(ErrorKind::DivisionByZero, "division by zero"),
        Some(ErrorKind::CardinalityViolation) => several_rows(),
        Some(ErrorKind::InvalidRowCount) => negative_limit(),
        Some(ErrorKind::InvalidRowOffset) => negative_offset(),
        Some(kind) => Error::new(kind, first_line(message)),
        None => Error::new(ErrorKind::Syntax, first_line(message)),
    }
}

/// 21000 for a subquery that is to be one value, in PostgreSQL's words.
pub(crate) fn several_rows() -> Error {
    Error::new(ErrorKind::CardinalityViolation, "more than one row returned by a subquery used as an expression")
}

/// 2201W, in PostgreSQL's words.
pub(crate) fn negative_limit() -> Error {
    Error::new(ErrorKind::InvalidRowCount, "LIMIT must not be negative")
}

/// 2201X, in PostgreSQL's words.
pub(crate) fn negative_offset() -> Error {
    Error::new(ErrorKind::InvalidRowOffset, "OFFSET must not be negative")
}

/// `Invalid function 'f'.\nDid you mean 'g'?`
fn missing_function(message: &str) -> Option<Error> {
    let name = message.strip_prefix("Invalid function '")?.split('\'').next()?;
    let error = Error::new(ErrorKind::UndefinedFunction, format!("function {name} does not exist"));
    let meant = message.split("Did you mean '").nth(1).and_then(|rest| rest.split('\'').next());
    Some(match meant.filter(|meant| nearest(name, [*meant]).is_some()) {
        Some(meant) => error.with_hint(format!("Perhaps you meant \"{meant}\".")),
        None => error.with_hint("No function matches the given name and argument types."),
    })
}

fn internal(message: &str) -> Error {
    let known = TEXTS.iter().find(|(text, _)| message.contains(text) && text.len() > 12);
    let error = Error::new(known.map_or(ErrorKind::Internal, |(_, kind)| *kind), first_line(message));
    // What two schemas differ in, each in a line of its own.
    let items: Vec<&str> = message.lines().map(str::trim).filter(|line| line.starts_with("- ")).collect();
    if items.is_empty() { error } else { error.with_detail(items.join(" ")) }
}

/// DataFusion appends lists of candidates and backtraces.
fn first_line(message: &str) -> String {
    message.lines().next().unwrap_or_default().trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_errors_pass_through_unchanged() {
        let own = Error::new(ErrorKind::DiskFull, "full").with_hint("free some");
        let wrapped = external(own.clone()).context("somewhere");
        assert_eq!(from_datafusion(wrapped), own);
    }

    #[test]
    fn missing_functions_are_42883() {
        let error = from_datafusion(DataFusionError::Plan("Invalid function 'lowr'.\nDid you mean 'lower'?".into()));
        assert_eq!((error.sqlstate(), error.hint.as_deref()), ("42883", Some("Perhaps you meant \"lower\".")));
    }
}
