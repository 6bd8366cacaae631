//! What a session and its database say of themselves.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use keyspan_model::schema::temporary::is_temporary;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::overload::{Call, Code, Overload, Parameter};
use super::text::text;
use crate::context::SettingChange;
use crate::error::{negative_limit, negative_offset};
use crate::interrupt;

use ColumnType as C;

const T: Parameter = Parameter::Is(C::Text);
const B: Parameter = Parameter::Is(C::Boolean);
const N: Parameter = Parameter::Is(C::BigInt);

/// PostgreSQL's version whose behaviour clients may expect: `version()`, `server_version`.
pub const POSTGRES_VERSION: &str = "16.4";
/// The same as a number: `server_version_num`.
pub const POSTGRES_VERSION_NUM: &str = "160004";

fn count<'a>(values: impl Iterator<Item = &'a Value>) -> Result<Value> {
    Ok(Value::Int(i32::try_from(values.count()).unwrap_or(i32::MAX)))
}

/// Marks a CTE that is named several times: its number, and whether its rows are to be computed once in any case.
pub const MARK_OF_SHARED: &str = "shared_rows";

/// A number of rows as it is: 2201W for a negative one.
pub const ROW_COUNT: &str = "row_count";

/// A number of rows to skip as it is: 2201X for a negative one.
pub const ROW_OFFSET: &str = "row_offset";

/// The functions.
pub fn functions() -> Vec<Overload> {
    let mut all = vec![
        Overload::new(MARK_OF_SHARED, &[N, B], C::Boolean, |_, _| Ok(Value::Boolean(true))).volatile(),
        Overload::new(ROW_COUNT, &[N], C::BigInt, |_, v| match v[0] {
            Value::BigInt(..0) => Err(negative_limit()),
            _ => Ok(v[0].clone()),
        }),
        Overload::new(ROW_OFFSET, &[N], C::BigInt, |_, v| match v[0] {
            Value::BigInt(..0) => Err(negative_offset()),
            _ => Ok(v[0].clone()),
        }),
    ];
    let counted = |name, code: Code| Overload::new(name, &[Parameter::Any], C::Int, code).variadic().with_nulls();
    all.push(counted("num_nulls", |_, v| count(v.iter().filter(|value| value.is_null()))));
    all.push(counted("num_nonnulls", |_, v| count(v.iter().filter(|value| !value.is_null()))));
    let mut add =
        |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code).stable());
    add("version", &[], C::Text, |_, _| Ok(Value::Text(version())));
    for name in ["current_database", "current_catalog"] {
        add(name, &[], C::Text, |call, _| Ok(Value::Text(call.facts.info.database.clone())));
    }
    for name in ["current_user", "user", "current_role"] {
        add(name, &[], C::Text, |call, _| Ok(Value::Text(call.facts.info.user.clone())));
    }
    add("session_user", &[], C::Text, |call, _| Ok(Value::Text(call.facts.info.session_user.clone())));
    add("current_schema", &[], C::Text, |call, _| {
        let mut path = call.facts.search_path.iter().filter(|schema| !is_temporary(schema));
        Ok(path.next().map_or(Value::Null, |schema| Value::Text(schema.clone())))
    });
    add("current_setting", &[T], C::Text, |call, v| setting(call, text(&v[0])?, false));
    add("current_setting", &[T, B], C::Text, |call, v| setting(call, text(&v[0])?, v[1] == Value::Boolean(true)));
    for name in ["txid_current", "pg_current_xact_id"] {
        add(name, &[], C::BigInt, |_, _| {
            Err(Error::not_supported("transactions have no numbers here: txid_current() is not supported"))
        });
    }
    add("pg_is_in_recovery", &[], C::Boolean, |_, _| Ok(Value::Boolean(false)));
    add("pg_client_encoding", &[], C::Text, |call, _| setting(call, "client_encoding", false));
    add("pg_encoding_to_char", &[N], C::Text, |_, _| Ok(Value::Text("UTF8".into())));
    for name in ["inet_server_addr", "inet_client_addr"] {
        add(name, &[], C::Inet, |_, _| Ok(Value::Null));
    }
    for name in ["inet_server_port", "inet_client_port"] {
        add(name, &[], C::Int, |_, _| Ok(Value::Null));
    }
    add("shobj_description", &[N, T], C::Text, |_, _| Ok(Value::Null));
    add("pg_get_expr", &[T, N], C::Text, |_, v| Ok(v[0].clone()));
    add("pg_get_expr", &[T, N, B], C::Text, |_, v| Ok(v[0].clone()));
    all.push(Overload::new("pg_sleep", &[Parameter::Is(C::Double)], C::Text, sleep).volatile());
    all.push(Overload::new("set_config", &[T, T, B], C::Text, set_config).volatile());
    all
}

/// `pg_sleep(seconds)`: ends within a hundredth of a second of its statement.
fn sleep(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let Value::Double(seconds) = values[0] else { return Ok(Value::Null) };
    let until = Duration::try_from_secs_f64(seconds.max(0.0)).ok().and_then(|time| Instant::now().checked_add(time));
    let Some(until) = until else {
        return Err(Error::new(ErrorKind::InvalidParameter, "pg_sleep of such a time is not possible"));
    };
    loop {
        interrupt::check()?;
        match until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => return Ok(Value::Text(String::new())),
            left => std::thread::sleep(left.min(Duration::from_millis(10))),
        }
    }
}

/// Remembers the wish; the session grants it, or fails, when the query is done.
fn set_config(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let (name, value) = (text(&values[0])?.to_owned(), text(&values[1])?.to_owned());
    let change = SettingChange { name, value: value.clone(), local: values[2] == Value::Boolean(true) };
    let mut changes = call.facts.info.changes.lock().unwrap_or_else(PoisonError::into_inner);
    changes.push(change);
    Ok(Value::Text(value))
}

fn version() -> String {
    format!("PostgreSQL {POSTGRES_VERSION} (Keyspan {})", env!("CARGO_PKG_VERSION"))
}

fn setting(call: &Call<'_>, name: &str, missing_ok: bool) -> Result<Value> {
    let settings = &call.facts.info.settings;
    let found =
        settings.get(name).or_else(|| settings.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, v)| v));
    match found {
        Some(value) => Ok(Value::Text(value.clone())),
        None if missing_ok => Ok(Value::Null),
        None => Err(Error::new(ErrorKind::UndefinedObject, format!("unrecognized configuration parameter \"{name}\""))),
    }
}
