//! CQL's masks: a value with some or all of it replaced. `mask_hash` is not there.

use keyspan_model::{ColumnType as C, Result, Value};

use super::overload::{Call, Code, Overload, Parameter};
use super::text::text;

const ANY: Parameter = Parameter::Any;
const TEXT: Parameter = Parameter::Is(C::Text);
const INT: Parameter = Parameter::Is(C::Int);

/// The functions.
pub fn functions() -> Vec<Overload> {
    let first = |types: &[C]| types[0];
    let mut all = vec![
        Overload::new("mask_null", &[ANY], C::Text, |_, _| Ok(Value::Null)).returning(first),
        Overload::new("mask_default", &[ANY], C::Text, default).returning(first).with_nulls(),
        Overload::new("mask_replace", &[ANY, ANY], C::Text, |call, v| v[1].clone().cast(call.result))
            .returning(first)
            .with_nulls(),
    ];
    for (name, code) in [("mask_inner", inner as Code), ("mask_outer", outer)] {
        for parameters in [&[TEXT, INT, INT] as &'static [Parameter], &[TEXT, INT, INT, TEXT]] {
            all.push(Overload::new(name, parameters, C::Text, code).with_nulls());
        }
    }
    all
}

/// A fixed value of the type: asterisks, nothing, 1970-01-01. Of NULL too, or a mask would tell where there is none.
fn default(call: &Call<'_>, _: &[Value]) -> Result<Value> {
    Ok(match call.result {
        C::Text | C::Ascii => Value::Text("****".into()),
        C::Boolean => Value::Boolean(false),
        C::Blob => Value::Blob(Vec::new()),
        C::Uuid => Value::Uuid(uuid::Uuid::nil()),
        C::TimeUuid => Value::Uuid(uuid::Uuid::from_u128(0x1000 << 64)),
        C::Date => Value::Date(0),
        C::Time => Value::Time(0),
        C::Timestamp | C::LocalTimestamp => Value::Timestamp(0),
        C::Duration => Value::Duration(0, 0, 0),
        C::Inet => Value::Inet(std::net::IpAddr::from([0, 0, 0, 0])),
        C::Json | C::Jsonb => Value::Text("{}".into()),
        C::List(_) => Value::List(Vec::new()),
        ty if ty.is_scalar() => Value::Int(0).cast(ty)?,
        ty => match (ty.dimension(), ty.as_nested().is_some_and(|own| own.fields().is_some())) {
            (Some(dimension), _) => Value::List(vec![Value::Real(0.0); dimension]),
            (None, true) => Value::parse("[]", ty)?,
            (None, false) => Value::parse("{}", ty)?,
        },
    })
}

fn inner(_: &Call<'_>, v: &[Value]) -> Result<Value> {
    masked(v, |place, begin, end| place >= begin && place < end)
}

fn outer(_: &Call<'_>, v: &[Value]) -> Result<Value> {
    masked(v, |place, begin, end| place < begin || place >= end)
}

/// The text with those characters replaced whose places are hidden, between what begins and what ends; NULL shows none.
fn masked(v: &[Value], hidden: impl Fn(usize, usize, usize) -> bool) -> Result<Value> {
    if v[0].is_null() {
        return Ok(Value::Null);
    }
    let size = |value: &Value| match value {
        Value::Int(size) => usize::try_from(*size).unwrap_or(0),
        _ => 0,
    };
    let padding = match v.get(3) {
        Some(Value::Text(padding)) => padding.chars().next().unwrap_or('*'),
        _ => '*',
    };
    let own = text(&v[0])?;
    let (begin, end) = (size(&v[1]), own.chars().count().saturating_sub(size(&v[2])));
    let character = |(place, own): (usize, char)| if hidden(place, begin, end) { padding } else { own };
    Ok(Value::Text(own.chars().enumerate().map(character).collect()))
}
