//! Logarithms of numerics, right in all sixteen digits after the point; a double has fewer from 2.3 on.
//!
//! Numbers of 62 bits after the point: `ln(d / 10^s) = ln(m · 2^k) − s · ln 10`, with m from 1 to 2, and
//! `ln m = 2 · (t + t³/3 + t⁵/5 + …)`, `t = (m − 1) / (m + 1)`.

use arrow::datatypes::i256;
use keyspan_model::{ColumnType, Result, Value};

use super::math::{no_logarithm, shown};
use super::overload::{Overload, Parameter::Numeric};
use crate::types::arithmetic::{divided, division_by_zero};

/// Digits after the point of a result, and its type.
const SCALE: i8 = 16;
const RESULT: ColumnType = ColumnType::Decimal { precision: 38, scale: SCALE };

/// The number one, with 62 bits after the point.
const ONE: i128 = 1 << 62;

/// ln 2 and ln 10, with 100 bits after the point.
const LN_2: i128 = 878_668_439_483_319_573_618_263_538_048;
const LN_10: i128 = 2_918_873_375_210_475_425_442_079_017_697;

/// `ln`, `log`, `log10` of numerics.
pub fn functions() -> Vec<Overload> {
    let common =
        |name| Overload::new(name, &[Numeric], RESULT, |_, values| of_base(&values[0], &Value::Decimal(10, 0)));
    vec![
        Overload::new("ln", &[Numeric], RESULT, |_, values| match natural(&values[0])? {
            Some(natural) => divided_by(natural, ONE),
            None => Ok(Value::Null),
        }),
        common("log"),
        common("log10"),
        Overload::new("log", &[Numeric, Numeric], RESULT, |_, values| of_base(&values[1], &values[0])),
    ]
}

/// The logarithm of a number to a base.
fn of_base(number: &Value, base: &Value) -> Result<Value> {
    match (natural(number)?, natural(base)?) {
        (Some(_), Some(0)) => Err(division_by_zero()),
        (Some(number), Some(base)) => divided_by(number, base),
        _ => Ok(Value::Null),
    }
}

/// The quotient of two such numbers as a numeric.
fn divided_by(number: i128, by: i128) -> Result<Value> {
    let unit = i256::from_i128(10_i128.pow(SCALE.unsigned_abs().into()));
    let digits = i256::from_i128(number).checked_mul(unit).and_then(|number| divided(number, i256::from_i128(by)));
    shown(digits.and_then(i256::to_i128), SCALE, RESULT)
}

/// The natural logarithm, with 62 bits after the point; none of NULL.
fn natural(value: &Value) -> Result<Option<i128>> {
    let Value::Decimal(digits, scale) = *value else { return Ok(None) };
    let Some(digits) = u128::try_from(digits).ok().filter(|digits| *digits > 0) else {
        return Err(no_logarithm(digits == 0));
    };
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
            let natural = natural(&Value::Decimal(digits, scale)).expect("a logarithm").expect("no NULL");
            divided_by(natural, ONE)
        };
        let numeric = |digits| Ok(Value::Decimal(digits, SCALE));
        assert_eq!(ln(10, 0), numeric(23_025_850_929_940_457));
        assert_eq!(ln(2, 0), numeric(6_931_471_805_599_453));
        assert_eq!(ln(1, 0), numeric(0));
        assert_eq!(ln(5, 1), numeric(-6_931_471_805_599_453));
        assert_eq!(ln(10_i128.pow(20), 0), numeric(460_517_018_598_809_137));
        assert_eq!(ln(1, 20), numeric(-460_517_018_598_809_137));
        assert_eq!(of_base(&Value::Decimal(64, 0), &Value::Decimal(2, 0)), numeric(60_000_000_000_000_000));
        assert_eq!(of_base(&Value::Decimal(1000, 0), &Value::Decimal(10, 0)), numeric(30_000_000_000_000_000));
    }
}
