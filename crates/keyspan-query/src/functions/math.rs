//! Functions of numbers.

use arrow::datatypes::i256;
use datafusion::logical_expr::Volatility;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::overload::{Call, Overload, Parameter};
use crate::types::arithmetic::{Op, apply, division_by_zero, out_of_range, rescale, root};

use ColumnType as C;
use Parameter::{Is, Numeric};

const DOUBLE: &[Parameter] = &[Is(C::Double)];

/// The functions.
pub fn functions() -> Vec<Overload> {
    let mut all = Vec::new();
    for (parameters, ty) in [
        (&[Is(C::SmallInt)] as &'static [Parameter], C::SmallInt),
        (&[Is(C::Int)], C::Int),
        (&[Is(C::BigInt)], C::BigInt),
        (&[Is(C::Real)], C::Real),
        (DOUBLE, C::Double),
    ] {
        all.push(Overload::new("abs", parameters, ty, abs));
        all.push(Overload::new("bitnot", parameters, ty, bit_not));
    }
    all.push(Overload::new("abs", &[Numeric], C::Int, abs).returning(first));
    for (name, code) in [("ceil", ceil as super::overload::Code), ("ceiling", ceil), ("floor", floor), ("sign", sign)] {
        all.push(Overload::new(name, DOUBLE, C::Double, code));
        all.push(Overload::new(name, &[Numeric], C::Int, code).returning(whole));
    }
    for (name, code) in [("round", round as super::overload::Code), ("trunc", trunc)] {
        all.push(Overload::new(name, DOUBLE, C::Double, code));
        all.push(Overload::new(name, &[Numeric], C::Int, code).returning(whole));
        all.push(Overload::new(name, &[Numeric, Is(C::Int)], C::Int, code).returning(first));
    }
    for (parameters, ty) in
        [(&[Is(C::Int), Is(C::Int)] as &'static [Parameter], C::Int), (&[Is(C::BigInt), Is(C::BigInt)], C::BigInt)]
    {
        all.push(Overload::new("mod", parameters, ty, |call, values| {
            apply(Op::Modulo, &values[0], &values[1], call.result)
        }));
        all.push(Overload::new("div", parameters, ty, |call, values| {
            apply(Op::Divide, &values[0], &values[1], call.result)
        }));
        all.push(Overload::new("gcd", parameters, ty, |call, values| common_divisor(call, values, false)));
        all.push(Overload::new("lcm", parameters, ty, |call, values| common_divisor(call, values, true)));
    }
    all.push(
        Overload::new("mod", &[Numeric, Numeric], C::Int, |call, values| {
            apply(Op::Modulo, &values[0], &values[1], call.result)
        })
        .returning(widest),
    );
    all.push(Overload::new("div", &[Numeric, Numeric], C::Int, div).returning(whole));
    for name in ["power", "pow"] {
        let pair: &'static [Parameter] = &[Is(C::Double), Is(C::Double)];
        all.push(Overload::new(name, pair, C::Double, |call, values| {
            apply(Op::Power, &values[0], &values[1], call.result)
        }));
        all.push(
            Overload::new(name, &[Numeric, Numeric], C::Int, |call, values| {
                apply(Op::Power, &values[0], &values[1], call.result)
            })
            .returning(|_| C::Decimal { precision: 38, scale: 16 }),
        );
    }
    all.extend(doubles());
    all.extend(numerics());
    all.push(Overload::new("factorial", &[Is(C::BigInt)], C::VarInt, factorial));
    let bucket: &'static [Parameter] = &[Is(C::Double), Is(C::Double), Is(C::Double), Is(C::Int)];
    all.push(Overload::new("width_bucket", bucket, C::Int, width_bucket));
    all.push(Overload::new("pi", &[], C::Double, |_, _| Ok(Value::Double(std::f64::consts::PI))));
    all.push(
        Overload::new("random", &[], C::Double, |_, _| {
            let bits = uuid::Uuid::new_v4().as_u64_pair().1 << 2 >> 11;
            Ok(Value::Double(bits as f64 / (1_u64 << 53) as f64))
        })
        .volatile(),
    );
    all.push(Overload {
        native: false,
        volatility: Volatility::Immutable,
        ..Overload::new("scale", &[Numeric], C::Int, |_, values| match values[0] {
            Value::Decimal(_, scale) => Ok(Value::Int(i32::from(scale))),
            _ => Ok(Value::Null),
        })
    });
    all.push(Overload::new("to_hex", &[Is(C::BigInt)], C::Text, |_, values| {
        Ok(Value::Text(format!("{:x}", big(&values[0])?)))
    }));
    all.push(Overload::new("to_hex", &[Is(C::Int)], C::Text, |_, values| match values[0] {
        Value::Int(value) => Ok(Value::Text(format!("{value:x}"))),
        _ => Ok(Value::Null),
    }));
    all
}

/// Functions of doubles alone.
fn doubles() -> Vec<Overload> {
    let one = |name, code| Overload::new(name, DOUBLE, C::Double, code);
    vec![
        one("sqrt", |_, values| {
            let value = number(&values[0])?;
            if value < 0.0 {
                return Err(Error::new(ErrorKind::Power, "cannot take square root of a negative number"));
            }
            Ok(Value::Double(value.sqrt()))
        }),
        one("cbrt", |_, values| Ok(Value::Double(number(&values[0])?.cbrt()))),
        one("exp", |_, values| {
            let (value, result) = (number(&values[0])?, number(&values[0])?.exp());
            if result.is_infinite() && value.is_finite() {
                return Err(out_of_range(C::Double));
            }
            Ok(Value::Double(result))
        }),
        one("ln", |_, values| logarithm(number(&values[0])?, f64::ln)),
        one("log", |_, values| logarithm(number(&values[0])?, f64::log10)),
        one("log10", |_, values| logarithm(number(&values[0])?, f64::log10)),
        one("log2", |_, values| logarithm(number(&values[0])?, f64::log2)),
        one("degrees", |_, values| {
            let (value, result) = (number(&values[0])?, number(&values[0])?.to_degrees());
            if result.is_infinite() && value.is_finite() {
                Err(out_of_range(C::Double))
            } else {
                Ok(Value::Double(result))
            }
        }),
        one("radians", |_, values| Ok(Value::Double(number(&values[0])?.to_radians()))),
        one("sin", |_, values| of_finite(number(&values[0])?, f64::sin)),
        one("cos", |_, values| of_finite(number(&values[0])?, f64::cos)),
        one("tan", |_, values| of_finite(number(&values[0])?, f64::tan)),
        one("cot", |_, values| of_finite(number(&values[0])?, |value| 1.0 / value.tan())),
        one("atan", |_, values| Ok(Value::Double(number(&values[0])?.atan()))),
        one("sinh", |_, values| Ok(Value::Double(number(&values[0])?.sinh()))),
        one("cosh", |_, values| Ok(Value::Double(number(&values[0])?.cosh()))),
        one("tanh", |_, values| Ok(Value::Double(number(&values[0])?.tanh()))),
        one("asin", |_, values| within_one(number(&values[0])?, f64::asin)),
        one("acos", |_, values| within_one(number(&values[0])?, f64::acos)),
        Overload::new("atan2", &[Is(C::Double), Is(C::Double)], C::Double, |_, values| {
            Ok(Value::Double(number(&values[0])?.atan2(number(&values[1])?)))
        }),
    ]
}

/// Roots of numerics are numerics; so are their logarithms, see [`super::logarithm`].
fn numerics() -> Vec<Overload> {
    let result = C::Decimal { precision: 38, scale: 16 };
    vec![Overload::new("sqrt", &[Numeric], result, |call, values| match values[0] {
        Value::Decimal(digits, _) if digits < 0 => {
            Err(Error::new(ErrorKind::Power, "cannot take square root of a negative number"))
        }
        Value::Decimal(digits, scale) => {
            let square = rescale_wide(digits, scale, 32).ok_or_else(|| out_of_range(call.result))?;
            shown(root(square).and_then(i256::to_i128), 16, call.result)
        }
        _ => Ok(Value::Null),
    })]
}

/// Digits of a greater scale, of which there may be more than a numeric holds.
fn rescale_wide(digits: i128, from: i8, to: i8) -> Option<i256> {
    let up = i256::from_i128(10).checked_pow(u32::try_from(to.checked_sub(from)?).ok()?)?;
    i256::from_i128(digits).checked_mul(up)
}

/// Of infinities there is no sine.
fn of_finite(value: f64, function: fn(f64) -> f64) -> Result<Value> {
    if value.is_infinite() {
        return Err(Error::new(ErrorKind::NumericOverflow, "input is out of range"));
    }
    Ok(Value::Double(function(value)))
}

fn within_one(value: f64, function: fn(f64) -> f64) -> Result<Value> {
    if value.abs() > 1.0 {
        return Err(Error::new(ErrorKind::NumericOverflow, "input is out of range"));
    }
    Ok(Value::Double(function(value)))
}

fn logarithm(value: f64, function: fn(f64) -> f64) -> Result<Value> {
    match value {
        value if value <= 0.0 => Err(no_logarithm(value == 0.0)),
        value => Ok(Value::Double(function(value))),
    }
}

/// 2201E, of zero or of a negative number.
pub(super) fn no_logarithm(of_zero: bool) -> Error {
    let what = if of_zero { "zero" } else { "a negative number" };
    Error::new(ErrorKind::Logarithm, format!("cannot take logarithm of {what}"))
}

fn first(types: &[C]) -> C {
    types[0]
}

fn whole(_: &[C]) -> C {
    C::Decimal { precision: 38, scale: 0 }
}

fn widest(types: &[C]) -> C {
    let scale = |ty: &C| match ty {
        C::Decimal { scale, .. } => *scale,
        _ => 0,
    };
    C::Decimal { precision: 38, scale: types.iter().map(scale).max().unwrap_or(0) }
}

/// The value as a double.
pub fn number(value: &Value) -> Result<f64> {
    match value.clone().cast(C::Double)? {
        Value::Double(value) => Ok(value),
        _ => Err(Error::internal("a number was expected")),
    }
}

/// The value as a whole number.
pub fn big(value: &Value) -> Result<i64> {
    match value.clone().cast(C::BigInt)? {
        Value::BigInt(value) => Ok(value),
        _ => Err(Error::internal("a whole number was expected")),
    }
}

fn abs(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let overflow = || out_of_range(call.result);
    Ok(match &values[0] {
        Value::SmallInt(value) => Value::SmallInt(value.checked_abs().ok_or_else(overflow)?),
        Value::Int(value) => Value::Int(value.checked_abs().ok_or_else(overflow)?),
        Value::BigInt(value) => Value::BigInt(value.checked_abs().ok_or_else(overflow)?),
        Value::Real(value) => Value::Real(value.abs()),
        Value::Double(value) => Value::Double(value.abs()),
        Value::Decimal(digits, scale) => Value::Decimal(digits.abs(), *scale),
        other => other.clone(),
    })
}

fn bit_not(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    Ok(match &values[0] {
        Value::SmallInt(value) => Value::SmallInt(!value),
        Value::Int(value) => Value::Int(!value),
        Value::BigInt(value) => Value::BigInt(!value),
        _ => return Err(Error::new(ErrorKind::UndefinedFunction, "operator ~ exists for whole numbers only")),
    })
}

fn ceil(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    Ok(match &values[0] {
        Value::Double(value) => Value::Double(value.ceil()),
        Value::Decimal(digits, scale) => Value::Decimal(-(-digits).div_euclid(unit(*scale)), 0),
        other => other.clone(),
    })
}

fn floor(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    Ok(match &values[0] {
        Value::Double(value) => Value::Double(value.floor()),
        Value::Decimal(digits, scale) => Value::Decimal(digits.div_euclid(unit(*scale)), 0),
        other => other.clone(),
    })
}

fn sign(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    Ok(match &values[0] {
        // Of NaN and of both zeros 0, as in PostgreSQL.
        Value::Double(value) => Value::Double(f64::from(i8::from(*value > 0.0) - i8::from(*value < 0.0))),
        Value::Decimal(digits, _) => Value::Decimal(digits.signum(), 0),
        other => other.clone(),
    })
}

fn unit(scale: i8) -> i128 {
    10_i128.pow(u32::from(scale.unsigned_abs()))
}

/// Digits after the point that are asked for; beyond 37 either way nothing changes.
fn places(values: &[Value]) -> i8 {
    match values.get(1) {
        Some(Value::Int(places)) => i8::try_from((*places).clamp(-38, 37)).unwrap_or(0),
        _ => 0,
    }
}

fn round(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    match &values[0] {
        Value::Double(value) => Ok(Value::Double(value.round_ties_even())),
        Value::Decimal(digits, scale) => {
            let kept = places(values).min(*scale);
            shown(rescale(*digits, *scale, kept), kept, call.result)
        }
        other => Ok(other.clone()),
    }
}

fn trunc(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    match &values[0] {
        Value::Double(value) => Ok(Value::Double(value.trunc())),
        Value::Decimal(digits, scale) => {
            let kept = places(values).min(*scale);
            let cut = 10_i128.checked_pow(u32::try_from(scale - kept).unwrap_or(0)).map_or(0, |unit| digits / unit);
            shown(Some(cut), kept, call.result)
        }
        other => Ok(other.clone()),
    }
}

pub(super) fn shown(digits: Option<i128>, scale: i8, result: C) -> Result<Value> {
    let C::Decimal { scale: wanted, .. } = result else { return Err(Error::internal("numeric was expected")) };
    let value =
        digits.and_then(|digits| rescale(digits, scale, wanted)).filter(|value| value.unsigned_abs() < 10_u128.pow(38));
    value.map(|digits| Value::Decimal(digits, wanted)).ok_or_else(|| out_of_range(result))
}

fn div(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let (Value::Decimal(a, s), Value::Decimal(b, t)) = (&values[0], &values[1]) else { return Ok(Value::Null) };
    if *b == 0 {
        return Err(division_by_zero());
    }
    let scale = *s.max(t);
    let pair = (rescale(*a, *s, scale), rescale(*b, *t, scale));
    match pair {
        (Some(a), Some(b)) => Ok(Value::Decimal(a / b, 0)),
        _ => Err(out_of_range(call.result)),
    }
}

fn common_divisor(call: &Call<'_>, values: &[Value], least_multiple: bool) -> Result<Value> {
    let (a, b) = (big(&values[0])?, big(&values[1])?);
    let (mut x, mut y) = (a.unsigned_abs(), b.unsigned_abs());
    while y != 0 {
        (x, y) = (y, x % y);
    }
    let wanted = match least_multiple {
        false => Some(x),
        true if x == 0 => Some(0),
        true => (a.unsigned_abs() / x).checked_mul(b.unsigned_abs()),
    };
    let value = wanted.and_then(|value| i64::try_from(value).ok()).ok_or_else(|| out_of_range(call.result))?;
    Value::BigInt(value).cast(call.result)
}

fn factorial(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let n = big(&values[0])?;
    if n < 0 {
        return Err(Error::new(ErrorKind::NumericOverflow, "factorial of a negative number is undefined"));
    }
    let product = (n <= 33).then(|| (2..=i128::from(n)).product::<i128>());
    product.map(|value| Value::Decimal(value, 0)).ok_or_else(|| out_of_range(C::VarInt))
}

fn width_bucket(_: &Call<'_>, values: &[Value]) -> Result<Value> {
    let (value, low, high) = (number(&values[0])?, number(&values[1])?, number(&values[2])?);
    let Value::Int(count) = values[3] else { return Ok(Value::Null) };
    if count <= 0 {
        return Err(Error::new(ErrorKind::InvalidParameter, "count must be greater than zero"));
    }
    if low == high || !low.is_finite() || !high.is_finite() || value.is_nan() {
        return Err(Error::new(ErrorKind::InvalidParameter, "lower bound cannot equal upper bound"));
    }
    let (value, low, high) = if low < high { (value, low, high) } else { (-value, -low, -high) };
    Ok(Value::Int(if value < low {
        0
    } else if value >= high {
        count.checked_add(1).ok_or_else(|| out_of_range(C::Int))?
    } else {
        (((value - low) / (high - low) * f64::from(count)) as i32).min(count - 1) + 1
    }))
}
