//! CQL's functions of one collection: `collection_count`, `collection_min`, `collection_max`, `collection_sum` and
//! `collection_avg`, of sets and lists, and the first also of maps.

use std::cmp::Ordering;

use keyspan_model::{ColumnType as C, Error, ErrorKind, Nested, Result, Value};

use super::overload::{Call, Overload, Parameter};
use crate::types::arithmetic::{Op, apply};
use crate::types::number_rank;

/// The function that counts; of a family the planner says how.
pub const COUNT: &str = "collection_count";

/// The functions.
pub fn functions() -> Vec<Overload> {
    let any: &'static [Parameter] = &[Parameter::Any];
    let of_element = |name, code| Overload::new(name, any, C::Text, code).returning(element);
    vec![
        Overload::new(COUNT, any, C::Int, count),
        of_element("collection_min", |call, v| extreme(call, v, Ordering::Less)),
        of_element("collection_max", |call, v| extreme(call, v, Ordering::Greater)),
        of_element("collection_sum", sum),
        of_element("collection_avg", average),
    ]
}

fn element(types: &[C]) -> C {
    let nested = |ty: &C| match ty.as_nested() {
        Some(Nested::List(element) | Nested::Set(element)) => Some(*element),
        _ => None,
    };
    types.first().and_then(|ty| ty.element().or_else(|| nested(ty))).unwrap_or(C::Text)
}

fn elements<'a>(call: &Call<'_>, values: &'a [Value]) -> Result<Vec<&'a Value>> {
    match &values[0] {
        Value::List(elements) => Ok(elements.iter().filter(|element| !element.is_null()).collect()),
        _ => {
            let message = format!("{} needs a set or a list, not {}", call.name, call.types[0].postgres_name());
            Err(Error::new(ErrorKind::DatatypeMismatch, message))
        }
    }
}

fn count(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let count = match &values[0] {
        Value::Map(entries) => entries.len(),
        _ => elements(call, values)?.len(),
    };
    Ok(Value::Int(i32::try_from(count).unwrap_or(i32::MAX)))
}

fn extreme(call: &Call<'_>, values: &[Value], wanted: Ordering) -> Result<Value> {
    let ty = element(call.types);
    let better = |best: &Value, next: &Value| Value::compare_as(ty, next, best) == wanted;
    let all = elements(call, values)?.into_iter();
    let best = all.fold(None, |best: Option<&Value>, next| match best {
        Some(best) if !better(best, next) => Some(best),
        _ => Some(next),
    });
    Ok(best.cloned().unwrap_or(Value::Null))
}

/// Of the elements' own type, as in Cassandra; beyond it 22003.
fn sum(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let ty = element(call.types);
    if number_rank(ty).is_none() {
        let message = format!("{} needs numbers, not {}", call.name, ty.postgres_name());
        return Err(Error::new(ErrorKind::DatatypeMismatch, message));
    }
    let zero = Value::Int(0).cast(ty)?;
    elements(call, values)?.into_iter().try_fold(zero, |sum, next| apply(Op::Add, &sum, next, ty))
}

/// Of the elements' own type, as in Cassandra: of whole numbers without what is after the point. 0 of none.
fn average(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let (ty, sum) = (element(call.types), sum(call, values)?);
    match elements(call, values)?.len() {
        0 => Ok(sum),
        count => apply(Op::Divide, &sum, &Value::BigInt(count as i64).cast(ty)?, ty),
    }
}
