//! Functions about the sessions of the database: advisory locks, `pg_notify`, `pg_backend_pid`, `pg_cancel_backend`,
//! `pg_terminate_backend`.

use keyspan_model::{ColumnType, Error, Result, Value};

use super::overload::{Call, Code, Overload, Parameter};
use super::text::text;
use crate::context::{AdvisoryKey, AdvisoryRequest, Caller, Peers};
use crate::interrupt;

use ColumnType as C;

const T: Parameter = Parameter::Is(C::Text);
const I: Parameter = Parameter::Is(C::Int);
const N: Parameter = Parameter::Is(C::BigInt);

/// Functions that take an advisory lock: whether others may share it, whether it goes with the transaction, and whether
/// to wait, are in the name.
const TAKE: [(&str, Code); 8] = [
    ("pg_advisory_lock", |call, v| take(call, v, false, false, true)),
    ("pg_advisory_lock_shared", |call, v| take(call, v, true, false, true)),
    ("pg_advisory_xact_lock", |call, v| take(call, v, false, true, true)),
    ("pg_advisory_xact_lock_shared", |call, v| take(call, v, true, true, true)),
    ("pg_try_advisory_lock", |call, v| take(call, v, false, false, false)),
    ("pg_try_advisory_lock_shared", |call, v| take(call, v, true, false, false)),
    ("pg_try_advisory_xact_lock", |call, v| take(call, v, false, true, false)),
    ("pg_try_advisory_xact_lock_shared", |call, v| take(call, v, true, true, false)),
];

/// The functions.
pub fn functions() -> Vec<Overload> {
    let mut all = Vec::new();
    let mut add =
        |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code).volatile());
    for parameters in [&[N][..], &[I, I]] {
        for (name, code) in TAKE {
            add(name, parameters, if name.starts_with("pg_try") { C::Boolean } else { C::Text }, code);
        }
        add("pg_advisory_unlock", parameters, C::Boolean, |call, v| unlock(call, v, false));
        add("pg_advisory_unlock_shared", parameters, C::Boolean, |call, v| unlock(call, v, true));
    }
    add("pg_advisory_unlock_all", &[], C::Text, |call, _| {
        peers(call)?.unlock_all();
        Ok(nothing())
    });
    add("pg_notify", &[T, T], C::Text, |call, v| {
        peers(call)?.notify(text(&v[0])?, text(&v[1])?)?;
        Ok(nothing())
    });
    add("pg_cancel_backend", &[I], C::Boolean, |call, v| stop(call, &v[0], false));
    add("pg_terminate_backend", &[I], C::Boolean, |call, v| stop(call, &v[0], true));
    // PostgreSQL waits so many milliseconds for the end; here it is only asked for.
    add("pg_terminate_backend", &[I, N], C::Boolean, |call, v| stop(call, &v[0], true));
    all.push(Overload::new("pg_backend_pid", &[], C::Int, |call, _| Ok(Value::Int(peers(call)?.process()))).stable());
    all
}

fn stop(call: &Call<'_>, process: &Value, end: bool) -> Result<Value> {
    let Value::Int(process) = process else { return Ok(Value::Null) };
    let info = &call.facts.info;
    let caller = match call.facts.catalog.rights.is_superuser(info.principal) {
        true => Caller::Superuser,
        false => Caller::User(&info.user),
    };
    peers(call)?.stop(*process, end, caller).map(Value::Boolean)
}

/// The answer of a function that returns void.
fn nothing() -> Value {
    Value::Text(String::new())
}

fn peers<'a>(call: &'a Call<'_>) -> Result<&'a dyn Peers> {
    call.facts.info.peers.as_deref().ok_or_else(|| Error::not_supported("there is no session that this could be about"))
}

fn key(values: &[Value]) -> Result<AdvisoryKey> {
    match values {
        [Value::BigInt(key)] => Ok(AdvisoryKey::One(*key)),
        [Value::Int(first), Value::Int(second)] => Ok(AdvisoryKey::Two(*first, *second)),
        _ => Err(Error::internal("the key of an advisory lock has another type")),
    }
}

fn take(call: &Call<'_>, values: &[Value], shared: bool, transaction: bool, wait: bool) -> Result<Value> {
    let request = AdvisoryRequest { key: key(values)?, shared, transaction, wait };
    let timeout = call.facts.info.settings.get("lock_timeout").map(String::as_str);
    let taken = peers(call)?.lock(request, timeout, &may_wait)?;
    Ok(if wait { nothing() } else { Value::Boolean(taken) })
}

/// Whether the lock may be waited for, still: only on a thread of a query, since others serve clients.
fn may_wait() -> Result<()> {
    match interrupt::is_watched() {
        true => interrupt::check(),
        false => Err(Error::not_supported("the advisory lock is not free, and only a SELECT can wait for it")
            .with_hint("Write SELECT pg_advisory_lock(…) as a statement of its own.")),
    }
}

fn unlock(call: &Call<'_>, values: &[Value], shared: bool) -> Result<Value> {
    Ok(Value::Boolean(peers(call)?.unlock(key(values)?, shared)))
}
