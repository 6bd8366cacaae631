//! Arithmetic on numbers: the type of the result, and its value or the error Postgres raises.
//!
//! The rule kept: nothing wraps, nothing becomes infinite, and numeric stays numeric.

use arrow::datatypes::i256;
use keyspan_model::types::DECIMAL_DIGITS;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::common_type::{decimal, number_rank, scale_of};

/// An operator on two numbers of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
    /// `^`
    Power,
    /// `&`
    And,
    /// `|`
    Or,
    /// `#`
    Xor,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
}

impl Op {
    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Op::Add => "+",
            Op::Subtract => "-",
            Op::Multiply => "*",
            Op::Divide => "/",
            Op::Modulo => "%",
            Op::Power => "^",
            Op::And => "&",
            Op::Or => "|",
            Op::Xor => "#",
            Op::ShiftLeft => "<<",
            Op::ShiftRight => ">>",
        }
    }
}

/// Digits after the point that a division of columns keeps: Postgres' least number of significant digits.
const DIVISION_SCALE: i8 = 16;

/// The types to which the two sides are brought, and the result's; `None` if the operator does not exist for them.
pub fn types(op: Op, left: ColumnType, right: ColumnType) -> Option<(ColumnType, ColumnType, ColumnType)> {
    use ColumnType as C;
    let (left_rank, right_rank) = (number_rank(left)?, number_rank(right)?);
    let top = left_rank.max(right_rank);
    let whole = |top: u8| match top {
        1 => C::TinyInt,
        2 => C::SmallInt,
        3 => C::Int,
        _ => C::BigInt,
    };
    match op {
        Op::ShiftLeft | Op::ShiftRight => {
            (left_rank <= 4 && right_rank <= 4).then_some((whole(left_rank), C::Int, whole(left_rank)))
        }
        Op::And | Op::Or | Op::Xor => (top <= 4).then_some((whole(top), whole(top), whole(top))),
        // As in Postgres, integers are raised as doubles, numerics as numerics.
        Op::Power if top == 5 || top == 6 => {
            let (left, right) = (decimal(scale_of(left)), decimal(scale_of(right)));
            Some((left, right, decimal(DIVISION_SCALE)))
        }
        Op::Power => Some((C::Double, C::Double, C::Double)),
        _ if top <= 4 => Some((whole(top), whole(top), whole(top))),
        Op::Modulo if top >= 7 => None,
        _ if top == 7 && left_rank == right_rank => Some((C::Real, C::Real, C::Real)),
        _ if top >= 7 => Some((C::Double, C::Double, C::Double)),
        op => {
            let (s1, s2) = (scale_of(left), scale_of(right));
            let result = match op {
                Op::Multiply => (s1 + s2).min(DECIMAL_DIGITS as i8 - 1).min(s1.max(s2).max(30)),
                Op::Divide => s1.max(s2).max(DIVISION_SCALE),
                _ => s1.max(s2),
            };
            Some((decimal(s1), decimal(s2), decimal(result)))
        }
    }
}

/// 22003 of a type.
pub fn out_of_range(ty: ColumnType) -> Error {
    let message = match ty {
        ColumnType::Real | ColumnType::Double => "value out of range: overflow".to_owned(),
        ColumnType::Decimal { .. } | ColumnType::VarInt => "value overflows numeric format".to_owned(),
        ty => format!("{} out of range", ty.postgres_name()),
    };
    Error::new(ErrorKind::NumericOverflow, message)
}

/// 22012.
pub fn division_by_zero() -> Error {
    Error::new(ErrorKind::DivisionByZero, "division by zero")
}

/// The operator's value, of type `result`; null if either is.
pub fn apply(op: Op, left: &Value, right: &Value, result: ColumnType) -> Result<Value> {
    Ok(match (left, right) {
        (Value::Null, _) | (_, Value::Null) => Value::Null,
        (Value::TinyInt(a), Value::TinyInt(b)) => whole(op, i64::from(*a), i64::from(*b), result)?,
        (Value::SmallInt(a), Value::SmallInt(b)) => whole(op, i64::from(*a), i64::from(*b), result)?,
        (Value::Int(a), Value::Int(b)) => whole(op, i64::from(*a), i64::from(*b), result)?,
        (Value::BigInt(a), Value::BigInt(b)) => whole(op, *a, *b, result)?,
        (Value::TinyInt(a), Value::Int(b)) => whole(op, i64::from(*a), i64::from(*b), result)?,
        (Value::SmallInt(a), Value::Int(b)) => whole(op, i64::from(*a), i64::from(*b), result)?,
        (Value::BigInt(a), Value::Int(b)) => whole(op, *a, i64::from(*b), result)?,
        (Value::Double(a), Value::Double(b)) => Value::Double(double(op, *a, *b)?),
        (Value::Real(a), Value::Real(b)) => Value::Real(real(op, *a, *b)?),
        (Value::Decimal(a, s1), Value::Decimal(b, s2)) => numeric(op, (*a, *s1), (*b, *s2), scale_of(result))?,
        _ => return Err(Error::internal("arithmetic on types that were not brought together")),
    })
}

fn whole(op: Op, a: i64, b: i64, ty: ColumnType) -> Result<Value> {
    // Shorter numbers are shifted as integers, as PostgreSQL's are.
    let bits = if ty == ColumnType::BigInt { 64 } else { 32 };
    if matches!(op, Op::Divide | Op::Modulo) && b == 0 {
        return Err(division_by_zero());
    }
    let shift = u32::try_from(b.rem_euclid(bits)).expect("less than 64");
    let value = match op {
        Op::Add => a.checked_add(b),
        Op::Subtract => a.checked_sub(b),
        Op::Multiply => a.checked_mul(b),
        Op::Divide => a.checked_div(b),
        Op::Modulo => Some(a.wrapping_rem(b)),
        Op::And => Some(a & b),
        Op::Or => Some(a | b),
        Op::Xor => Some(a ^ b),
        Op::ShiftLeft if ty == ColumnType::Int => Some(i64::from((a as i32).wrapping_shl(shift))),
        Op::ShiftLeft if bits == 32 => Some(i64::from((a as i32).wrapping_shl(shift) as i16)),
        Op::ShiftLeft => Some(a.wrapping_shl(shift)),
        Op::ShiftRight => Some(a.wrapping_shr(shift)),
        Op::Power => None,
    };
    let value = value.ok_or_else(|| out_of_range(ty))?;
    Ok(match ty {
        ColumnType::TinyInt => Value::TinyInt(i8::try_from(value).map_err(|_| out_of_range(ty))?),
        ColumnType::SmallInt => Value::SmallInt(i16::try_from(value).map_err(|_| out_of_range(ty))?),
        ColumnType::Int => Value::Int(i32::try_from(value).map_err(|_| out_of_range(ty))?),
        _ => Value::BigInt(value),
    })
}

fn double(op: Op, a: f64, b: f64) -> Result<f64> {
    if op == Op::Divide && b == 0.0 && !a.is_nan() {
        return Err(division_by_zero());
    }
    let value = match op {
        Op::Add => a + b,
        Op::Subtract => a - b,
        Op::Multiply => a * b,
        Op::Divide => a / b,
        Op::Power if a == 0.0 && b < 0.0 => {
            return Err(Error::new(ErrorKind::Power, "zero raised to a negative power is undefined"));
        }
        Op::Power if a < 0.0 && b.is_finite() && b.fract() != 0.0 => {
            let message = "a negative number raised to a non-integer power yields a complex result";
            return Err(Error::new(ErrorKind::Power, message));
        }
        Op::Power => a.powf(b),
        _ => return Err(Error::internal("no such operator of doubles")),
    };
    if value.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(out_of_range(ColumnType::Double));
    }
    let vanished = value == 0.0 && a != 0.0 && b != 0.0 && a.is_finite() && b.is_finite();
    if vanished && matches!(op, Op::Multiply | Op::Divide) {
        return Err(Error::new(ErrorKind::NumericOverflow, "value out of range: underflow"));
    }
    Ok(value)
}

fn real(op: Op, a: f32, b: f32) -> Result<f32> {
    let value = double(op, f64::from(a), f64::from(b))? as f32;
    if value.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(out_of_range(ColumnType::Real));
    }
    Ok(value)
}

fn numeric(op: Op, a: (i128, i8), b: (i128, i8), scale: i8) -> Result<Value> {
    let overflow = || out_of_range(decimal(scale));
    let digits = match op {
        Op::Add | Op::Subtract | Op::Modulo => {
            let common = a.1.max(b.1);
            let left = rescale(a.0, a.1, common).ok_or_else(overflow)?;
            let right = rescale(b.0, b.1, common).ok_or_else(overflow)?;
            let value = match op {
                Op::Add => left.checked_add(right),
                Op::Subtract => left.checked_sub(right),
                _ if right == 0 => return Err(division_by_zero()),
                _ => Some(left % right),
            };
            rescale(value.ok_or_else(overflow)?, common, scale)
        }
        Op::Multiply => product(a.0, b.0, i32::from(a.1) + i32::from(b.1) - i32::from(scale)),
        Op::Divide => {
            if b.0 == 0 {
                return Err(division_by_zero());
            }
            quotient(a.0, b.0, i32::from(scale) + i32::from(b.1) - i32::from(a.1))
        }
        Op::Power => return power(a, b, scale),
        _ => return Err(Error::internal("no such operator of numerics")),
    };
    let digits = digits.filter(|digits| digits.unsigned_abs() < 10_u128.pow(38)).ok_or_else(overflow)?;
    Ok(Value::Decimal(digits, scale))
}

/// Digits of another scale, rounded half away from zero.
pub fn rescale(digits: i128, from: i8, to: i8) -> Option<i128> {
    if to >= from {
        return digits.checked_mul(10_i128.checked_pow(u32::try_from(to - from).ok()?)?);
    }
    let Some(unit) = 10_i128.checked_pow(u32::try_from(from - to).ok()?) else { return Some(0) };
    Some(rounded(digits / unit, digits % unit, unit))
}

fn rounded(quotient: i128, remainder: i128, unit: i128) -> i128 {
    let up = remainder.unsigned_abs() >= unit.unsigned_abs() - remainder.unsigned_abs();
    let negative = (remainder < 0) != (unit < 0);
    if !up || remainder == 0 {
        quotient
    } else if negative {
        quotient - 1
    } else {
        quotient + 1
    }
}

/// `a * b / 10^drop`, rounded.
fn product(a: i128, b: i128, drop: i32) -> Option<i128> {
    let whole = i256::from_i128(a).checked_mul(i256::from_i128(b))?;
    divided(whole, i256::from_i128(10).checked_pow(u32::try_from(drop).ok()?)?)?.to_i128()
}

/// `a * 10^shift / b`, rounded.
fn quotient(a: i128, b: i128, shift: i32) -> Option<i128> {
    let power = |exponent: i32| i256::from_i128(10).checked_pow(u32::try_from(exponent).ok()?);
    if shift >= 0 {
        return divided(i256::from_i128(a).checked_mul(power(shift)?)?, i256::from_i128(b))?.to_i128();
    }
    divided(i256::from_i128(a), i256::from_i128(b).checked_mul(power(-shift)?)?)?.to_i128()
}

/// `value / unit`, rounded half away from zero.
pub fn divided(value: i256, unit: i256) -> Option<i256> {
    let (quotient, remainder) = (value.checked_div(unit)?, value.checked_rem(unit)?);
    let twice = remainder.checked_abs()?.checked_mul(i256::from_i128(2))?;
    let negative = (value < i256::ZERO) != (unit < i256::ZERO);
    match (twice >= unit.checked_abs()?, negative) {
        (false, _) => Some(quotient),
        (true, false) => quotient.checked_add(i256::ONE),
        (true, true) => quotient.checked_sub(i256::ONE),
    }
}

/// The nearest whole number to the square root.
pub fn root(square: i256) -> Option<i256> {
    if square <= i256::ZERO {
        return Some(i256::ZERO);
    }
    // From above, Newton's steps go down until they have the root.
    let mut found = i256::from_i128(10).checked_pow(u32::try_from(square.to_string().len().div_ceil(2)).ok()?)?;
    loop {
        let next = found.checked_add(square.checked_div(found)?)?.checked_div(i256::from_i128(2))?;
        if next >= found {
            break;
        }
        found = next;
    }
    let rest = square.checked_sub(found.checked_mul(found)?)?;
    if rest > found { found.checked_add(i256::ONE) } else { Some(found) }
}

/// Whole exponents exactly, others through doubles.
fn power(a: (i128, i8), b: (i128, i8), scale: i8) -> Result<Value> {
    let overflow = || out_of_range(decimal(scale));
    let exponent = rescale(b.0, b.1, 0).filter(|whole| rescale(*whole, 0, b.1) == Some(b.0));
    if let Some(exponent) = exponent.and_then(|exponent| u32::try_from(exponent).ok()) {
        let scale_out = i32::from(a.1).checked_mul(exponent as i32);
        let digits = a.0.checked_pow(exponent);
        if let (Some(digits), Some(from)) = (digits, scale_out.and_then(|from| i8::try_from(from).ok())) {
            let digits = rescale(digits, from, scale).filter(|digits| digits.unsigned_abs() < 10_u128.pow(38));
            return digits.map(|digits| Value::Decimal(digits, scale)).ok_or_else(overflow);
        }
    }
    let approximate = |(digits, scale): (i128, i8)| digits as f64 / 10_f64.powi(i32::from(scale));
    let value = double(Op::Power, approximate(a), approximate(b))?;
    Value::parse(&format!("{value:.20}"), decimal(scale)).map_err(|_| overflow())
}

/// The scale that Postgres gives to the quotient of these two values (`select_div_scale`).
pub fn division_scale(a: (i128, i8), b: (i128, i8)) -> i8 {
    let (weight_a, first_a) = leading(a);
    let (weight_b, first_b) = leading(b);
    let mut weight = weight_a - weight_b;
    if first_a <= first_b {
        weight -= 1;
    }
    let scale = 16 - weight * 4;
    i8::try_from(scale.clamp(0, 37)).unwrap_or(37).max(a.1).max(b.1)
}

/// The power of 10,000 of a number's first group of four digits, and that group.
fn leading((digits, scale): (i128, i8)) -> (i32, i128) {
    if digits == 0 {
        return (0, 0);
    }
    let pad = (4 - i32::from(scale).rem_euclid(4)) % 4;
    let mut groups: Vec<i128> = Vec::new();
    let mut rest = digits.unsigned_abs();
    let split = 10_u128.pow(u32::try_from(4 - pad).expect("1 to 4"));
    if pad != 0 {
        groups.push(i128::try_from(rest % split).unwrap_or(0) * 10_i128.pow(u32::try_from(pad).expect("1 to 3")));
        rest /= split;
    }
    while rest > 0 {
        groups.push(i128::try_from(rest % 10_000).unwrap_or(0));
        rest /= 10_000;
    }
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let fraction_groups = (i32::from(scale) + pad) / 4;
    let count = i32::try_from(groups.len()).expect("at most 11 groups");
    (count - fraction_groups - 1, groups.last().copied().unwrap_or(0))
}
