//! Logarithms of numerics, right in all sixteen digits after the point; a double has fewer from 2.3 on.
//!
//! Numbers of 62 bits after the point: `ln(d / 10^s) = ln(m · 2^k) − s · ln 10`, with m from 1 to 2, and
//! `ln m = 2 · (t + t³/3 + t⁵/5 + …)`, `t = (m − 1) / (m + 1)`.

use arrow::datatypes::i256;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::overload::{Overload, Parameter::Numeric};
use crate::types::arithmetic::{divided, division_by_zero, out_of_range};

/// Digits after the point of a result.
const SCALE: i8 = 16;

/// One.
const ONE: i128 = 1 << 62;

/// ln 2 and ln 10, with 100 bits after the point.
const LN_2: i128 = 878_668_439_483_319_573_618_263_538_048;
const LN_10: i128 = 2_918_873_375_210_475_425_442_079_017_697;

/// `ln`, `log`, `log10` of numerics.
pub fn functions() -> Vec<Overload> {
    let result = ColumnType::Decimal { precision: 38, scale: SCALE };
    let common = |name| Overload::new(name, &[Numeric], result, |_, values| quotient(&values[0], &numeric(10)));
    vec![
        Overload::new("ln", &[Numeric], result, |_, values| match natural(&values[0])? {
            Some(natural) => shown(divided(scaled(natural), i256::from_i128(ONE))),
            None => Ok(Value::Null),
        }),
        common("log"),
        common("log10"),
        Overload::new("log", &[Numeric, Numeric], result, |_, values| quotient(&values[1], &values[0])),
    ]
}

fn numeric(number: i128) -> Value {
    Value::Decimal(number, 0)
}

/// The logarithm of a number to a base.
fn quotient(number: &Value, base: &Value) -> Result<Value> {
    match (natural(number)?, natural(base)?) {
        (Some(_), Some(0)) => Err(division_by_zero()),
        (Some(number), Some(base)) => shown(divided(scaled(number), i256::from_i128(base))),
        _ => Ok(Value::Null),
    }
}

fn scaled(natural: i128) -> i256 {
    i256::from_i128(natural).wrapping_mul(i256::from_i128(10_i128.pow(SCALE.unsigned_abs().into())))
}

fn shown(digits: Option<i256>) -> Result<Value> {
    let digits = digits.and_then(i256::to_i128);
    let overflow = || out_of_range(ColumnType::Decimal { precision: 38, scale: SCALE });
    digits.map(|digits| Value::Decimal(digits, SCALE)).ok_or_else(overflow)
}

/// The natural logarithm; none of NULL.
fn natural(value: &Value) -> Result<Option<i128>> {
    let Value::Decimal(digits, scale) = *value else { return Ok(None) };
    let of_zero = |what: &str| Err(Error::new(ErrorKind::Logarithm, format!("cannot take logarithm of {what}")));
    if digits == 0 {
        return of_zero("zero");
    }
    let Ok(digits) = u128::try_from(digits) else { return of_zero("a negative number") };
    if Some(digits) == u32::try_from(scale).ok().and_then(|scale| 10_u128.checked_pow(scale)) {
        return Ok(Some(0));
    }
    let zeros = digits.leading_zeros();
    let exponent = 127 - i128::from(zeros);
    // All bits but the first 63 are beyond what is shown.
    let mantissa = i128::try_from((digits << zeros) >> 65).unwrap_or(ONE);
    let whole = (exponent * LN_2 - i128::from(scale) * LN_10 + (1 << 37)) >> 38;
    Ok(Some(whole + 2 * arctanh(((mantissa - ONE) << 62) / (mantissa + ONE))))
}

/// `t + t³/3 + t⁵/5 + …`, of a t from 0 to 1/3.
fn arctanh(t: i128) -> i128 {
    let square = (t * t) >> 62;
    let powers = std::iter::successors(Some(t), |power| Some((power * square) >> 62));
    powers.take_while(|power| *power > 0).zip((1..).step_by(2)).map(|(power, divisor)| power / divisor).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PostgreSQL's answers.
    #[test]
    fn all_digits_are_right() {
        let ln = |digits, scale| {
            natural(&Value::Decimal(digits, scale)).map(|found| {
                found.and_then(|found| divided(scaled(found), i256::from_i128(ONE))).and_then(i256::to_i128)
            })
        };
        assert_eq!(ln(10, 0), Ok(Some(23_025_850_929_940_457)));
        assert_eq!(ln(2, 0), Ok(Some(6_931_471_805_599_453)));
        assert_eq!(ln(1, 0), Ok(Some(0)));
        assert_eq!(ln(5, 1), Ok(Some(-6_931_471_805_599_453)));
        assert_eq!(ln(10_i128.pow(20), 0), Ok(Some(460_517_018_598_809_137)));
        assert_eq!(ln(1, 20), Ok(Some(-460_517_018_598_809_137)));
        assert_eq!(quotient(&numeric(64), &numeric(2)), Ok(Value::Decimal(60_000_000_000_000_000, SCALE)));
        assert_eq!(quotient(&numeric(1000), &numeric(10)), Ok(Value::Decimal(30_000_000_000_000_000, SCALE)));
    }
}
