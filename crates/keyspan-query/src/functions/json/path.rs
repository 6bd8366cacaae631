//! SQL/JSON paths: `jsonb_path_query(j, '$.a[*] ? (@ > 1)')` and its like. The language is the library's, `sql-json-path`.
//!
//! `jsonb_path_query` itself gives rows: `semantics::json_rows` makes them of the array of `jsonb_path_query_array`.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use keyspan_model::json::Json;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};
use serde_json::Value as Document;
use sql_json_path::{EvalError, JsonPath};

use super::super::compiled::Compiled;
use super::super::overload::{Code, Overload, Parameter};
use super::super::text::text;
use super::{B, T};

use ColumnType as C;

/// Whether errors are NULL.
const SILENT: Parameter = Parameter::Is(C::Boolean);

thread_local! {
    static PATHS: Compiled<String, Rc<JsonPath>> = Compiled::default();
}

/// The functions: a value, a path, variables, and whether errors are NULL.
pub fn functions() -> Vec<Overload> {
    let mut all = Vec::new();
    let mut add = |name, returns, code: Code| {
        for parameters in [&[B, T][..], &[B, T, B], &[B, T, B, SILENT]] {
            all.push(Overload::new(name, parameters, returns, code));
        }
    };
    add("jsonb_path_exists", C::Boolean, |_, v| {
        Ok(found(v)?.map_or(Value::Null, |all| Value::Boolean(!all.is_empty())))
    });
    add("jsonb_path_match", C::Boolean, |_, v| holds(v));
    add("jsonb_path_query_array", C::Jsonb, |_, v| {
        found(v)?.map_or(Ok(Value::Text("[]".into())), |all| jsonb(&Document::Array(all)))
    });
    add("jsonb_path_query_first", C::Jsonb, |_, v| {
        found(v)?.and_then(|all| all.into_iter().next()).map_or(Ok(Value::Null), |first| jsonb(&first))
    });
    // The operators are silent.
    all.push(Overload::new("json_path_finds", &[B, T], C::Boolean, |_, v| {
        let found = found(&silently(v))?;
        Ok(found.map_or(Value::Null, |all| Value::Boolean(!all.is_empty())))
    }));
    all.push(Overload::new("json_path_holds", &[B, T], C::Boolean, |_, v| holds(&silently(v))));
    all
}

fn silently(arguments: &[Value]) -> Vec<Value> {
    let mut arguments = arguments.to_vec();
    arguments.extend([Value::Text("{}".into()), Value::Boolean(true)]);
    arguments
}

/// What the path finds; none after an error that is to be NULL.
fn found(arguments: &[Value]) -> Result<Option<Vec<Document>>> {
    let document = document(&arguments[0])?;
    let variables = arguments.get(2).map_or(Ok(Document::Object(serde_json::Map::new())), self::document)?;
    let path = parsed(text(&arguments[1])?)?;
    // The library's arithmetic panics for a result that is no number of its own, and `last` where there is no array.
    let query = || path.query_with_vars(&document, &variables);
    let answer = match std::panic::catch_unwind(AssertUnwindSafe(query)) {
        Ok(answer) => answer,
        Err(panic) if is_out_of_range(panic.as_ref()) => {
            return Err(Error::new(ErrorKind::NumericOverflow, "a number of the SQL/JSON path is out of range"));
        }
        Err(panic) if said(panic.as_ref()).is_some_and(|text| text.contains("LAST")) => {
            let error = Error::not_supported("last in a SQL/JSON path is not supported where there is no array");
            return Err(error.with_hint("Ask for the type first: $ ? (@.type() == \"array\") [last]."));
        }
        Err(panic) => std::panic::resume_unwind(panic),
    };
    match answer {
        Ok(all) => Ok(Some(all.into_iter().map(|each| each.into_owned()).collect())),
        Err(error) if is_silent(arguments) && error.can_silent() => Ok(None),
        Err(error) => Err(failed(&error)),
    }
}

/// Whether the library panicked for a whole number beyond 64 bits, or a float that is infinite or no number.
fn is_out_of_range(panic: &(dyn Any + Send)) -> bool {
    said(panic).is_some_and(|text| text.contains("overflow") || text.contains("on a `None` value"))
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied())
}

fn is_silent(arguments: &[Value]) -> bool {
    arguments.get(3) == Some(&Value::Boolean(true))
}

/// The one boolean that a path gives.
fn holds(arguments: &[Value]) -> Result<Value> {
    let Some(all) = found(arguments)? else { return Ok(Value::Null) };
    match all.as_slice() {
        [Document::Bool(value)] => Ok(Value::Boolean(*value)),
        [Document::Null] => Ok(Value::Null),
        _ if is_silent(arguments) => Ok(Value::Null),
        _ => Err(failed(&EvalError::ExpectSingleBoolean)),
    }
}

fn document(value: &Value) -> Result<Document> {
    let parsed = serde_json::from_str(text(value)?);
    parsed.map_err(|error| {
        Error::new(ErrorKind::InvalidText, "invalid input syntax for type json").with_detail(error.to_string())
    })
}

fn jsonb(document: &Document) -> Result<Value> {
    Ok(Value::Text(Json::parse(&document.to_string())?.to_string()))
}

fn parsed(path: &str) -> Result<Rc<JsonPath>> {
    PATHS.with(|paths| paths.get(|own| own == path, || Ok((path.to_owned(), parse(path)?))))
}

fn parse(path: &str) -> Result<Rc<JsonPath>> {
    let (depth, steps) = complexity(path);
    if depth > MOST_PARENTHESES || steps > MOST_STEPS {
        return Err(Error::new(ErrorKind::TooComplex, "the SQL/JSON path is nested or chained too deeply"));
    }
    if has_any_level(path) {
        let error = Error::not_supported("the accessor .** of SQL/JSON paths is not supported");
        return Err(error.with_hint("Name the members on the way, or use .* for those of one level."));
    }
    JsonPath::new(path).map(Rc::new).map_err(|error| {
        let message = format!("invalid input syntax for type jsonpath: \"{path}\"");
        Error::new(ErrorKind::Syntax, message).with_detail(error.to_string())
    })
}

/// Parentheses inside of each other. The library tries several rules for each, and all of them for those inside: with six it
/// takes less than a tenth of a second, with ten eleven seconds.
const MOST_PARENTHESES: usize = 6;
/// Operators and accessors in all: for each the library calls itself.
const MOST_STEPS: usize = 256;

/// How deep parentheses are nested in a path, and how many operators and accessors it has, outside of its texts.
fn complexity(path: &str) -> (usize, usize) {
    let (mut depth, mut deepest, mut steps) = (0_usize, 0, 0);
    let (mut quoted, mut escaped) = (false, false);
    for c in path.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            ')' => depth = depth.saturating_sub(1),
            '.' | '[' | '?' | '!' | '+' | '-' | '*' | '/' | '%' | '&' | '|' | '<' | '>' | '=' => steps += 1,
            _ => {}
        }
    }
    (deepest, steps)
}

/// Whether a path has `**` outside of its texts: the library leaves out the elements of arrays there.
fn has_any_level(path: &str) -> bool {
    let (mut quoted, mut escaped, mut before) = (false, false, ' ');
    for c in path.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '*' if !quoted && before == '*' => return true,
            _ => {}
        }
        before = if quoted { ' ' } else { c };
    }
    false
}

/// PostgreSQL's errors.
fn failed(error: &EvalError) -> Error {
    use EvalError as E;
    let kind = match error {
        E::NoKey(_) => ErrorKind::JsonMemberNotFound,
        E::ArrayAccess | E::WildcardArrayAccess | E::SizeNotArray => ErrorKind::JsonArrayNotFound,
        E::MemberAccess | E::WildcardMemberAccess | E::KeyValueNotObject => ErrorKind::JsonObjectNotFound,
        E::ArrayIndexOutOfBounds | E::ArrayIndexOutOfRange | E::ArrayIndexNotNumeric => ErrorKind::JsonSubscript,
        E::NoVariable(_) => ErrorKind::UndefinedObject,
        E::VarsNotObject => ErrorKind::InvalidParameter,
        E::DivisionByZero => ErrorKind::DivisionByZero,
        E::UnaryOperandNotNumeric(_) => ErrorKind::JsonNumberNotFound,
        E::LeftOperandNotNumeric(_) | E::RightOperandNotNumeric(_) | E::ExpectSingleBoolean => ErrorKind::JsonSingleton,
        E::MethodNotNumeric(_) | E::DoubleTypeError => ErrorKind::JsonNonNumeric,
        _ => ErrorKind::JsonDatetime,
    };
    Error::new(kind, error.to_string())
}
