//! Fixed-point arithmetic on `i128` digits: scales, rounding half away from zero, and the text of numbers.
//!
//! Rule: nothing here wraps. What does not fit is `None` or [`NumberFault::Overflow`].

/// Why a text is not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberFault {
    /// Not the text of a number.
    Syntax,
    /// A number that does not fit.
    Overflow,
}

/// Ten to the power `exponent`; the largest `i128` beyond 38.
pub(crate) fn power_of_ten(exponent: u32) -> i128 {
    10i128.checked_pow(exponent).unwrap_or(i128::MAX)
}

/// Whether `digits` has at most `precision` decimal digits.
pub(crate) fn fits_precision(digits: i128, precision: u8) -> bool {
    digits.unsigned_abs() < power_of_ten(u32::from(precision)).unsigned_abs()
}

/// The same number with `to` digits after the point, rounded half away from zero; `None` if it does not fit an `i128`.
pub(crate) fn rescale(digits: i128, from: i8, to: i8) -> Option<i128> {
    let shift = i32::from(to) - i32::from(from);
    if shift >= 0 {
        return if digits == 0 { Some(0) } else { digits.checked_mul(10i128.checked_pow(shift.unsigned_abs())?) };
    }
    let Some(divisor) = 10i128.checked_pow(shift.unsigned_abs()) else { return Some(0) };
    let (quotient, rest) = (digits / divisor, digits % divisor);
    let away = rest.unsigned_abs() * 2 >= divisor.unsigned_abs();
    Some(if away { quotient + digits.signum() } else { quotient })
}

/// A decimal as its floor and what stands above it, so that decimals of different scales compare without overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DecimalParts {
    /// Greatest integer not above the number.
    pub(crate) floor: i128,
    /// The rest, in units of 10^-38.
    fraction: i128,
}

impl DecimalParts {
    /// The parts of `digits` with `scale` digits after the point.
    pub(crate) fn of(digits: i128, scale: i8) -> DecimalParts {
        let power = power_of_ten(u32::from(scale.unsigned_abs()));
        if scale <= 0 {
            return DecimalParts { floor: digits.saturating_mul(power), fraction: 0 };
        }
        let widen = power_of_ten(38u32.saturating_sub(u32::from(scale.unsigned_abs())));
        DecimalParts { floor: digits.div_euclid(power), fraction: digits.rem_euclid(power).saturating_mul(widen) }
    }

    /// The rest above the floor, from 0 to 1.
    pub(crate) fn fraction_as_double(self) -> f64 {
        self.fraction as f64 / 1e38
    }
}

/// The text of a number with its point: Postgres' output of `numeric`.
pub(crate) fn decimal_text(digits: i128, scale: i8) -> String {
    let sign = if digits < 0 { "-" } else { "" };
    let magnitude = digits.unsigned_abs().to_string();
    if scale <= 0 {
        let zeros = if digits == 0 { 0 } else { usize::from(scale.unsigned_abs()) };
        return format!("{sign}{magnitude}{}", "0".repeat(zeros));
    }
    let scale = usize::from(scale.unsigned_abs());
    let padded = format!("{magnitude:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// Reads `[+-]digits[.digits][e[+-]digits]` as a number with `scale` digits after the point, rounded half away from
/// zero, of at most `precision` digits.
pub(crate) fn parse_decimal(text: &str, precision: u8, scale: i8) -> Result<i128, NumberFault> {
    let (negative, unsigned) = split_sign(text.trim());
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + fraction.len() == 0 || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return Err(NumberFault::Syntax);
    }
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
    // Digits to keep: those before the point of the number multiplied by 10^scale.
    let keep = (whole.len() as i64).saturating_add(exponent).saturating_add(i64::from(scale));
    let magnitude = take_digits(&digits, keep)?;
    if !fits_precision(magnitude, precision) {
        return Err(NumberFault::Overflow);
    }
    Ok(if negative { -magnitude } else { magnitude })
}

fn take_digits(digits: &[u8], keep: i64) -> Result<i128, NumberFault> {
    let leading = digits.iter().take_while(|digit| **digit == 0).count();
    let significant = &digits[leading..];
    let keep = keep - leading as i64;
    if significant.is_empty() || keep < 0 {
        return Ok(0);
    }
    if keep > 38 {
        return Err(NumberFault::Overflow);
    }
    let keep = keep as usize;
    let kept = (0..keep).map(|i| significant.get(i).copied().unwrap_or(0));
    let value = kept.fold(0i128, |sum, digit| sum * 10 + i128::from(digit));
    let away = significant.get(keep).is_some_and(|digit| *digit >= 5);
    Ok(value + i128::from(away))
}

fn parse_exponent(text: &str) -> Result<i64, NumberFault> {
    let (negative, digits) = split_sign(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NumberFault::Syntax);
    }
    let value = digits.parse::<i64>().unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
    Ok(if negative { -value } else { value })
}

/// Reads an integer as Postgres 16 does: sign, decimal digits, or `0x`, `0o`, `0b`; underscores between digits.
pub(crate) fn parse_integer(text: &str) -> Result<i128, NumberFault> {
    let (negative, unsigned) = split_sign(text.trim());
    let (radix, digits) = match unsigned.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (16, &unsigned[2..]),
        Some("0o") => (8, &unsigned[2..]),
        Some("0b") => (2, &unsigned[2..]),
        _ => (10, unsigned),
    };
    let digits = if radix == 10 { digits } else { digits.strip_prefix('_').unwrap_or(digits) };
    let mut value: i128 = 0;
    let mut previous_is_digit = false;
    let mut overflow = false;
    for character in digits.chars() {
        if character == '_' && previous_is_digit {
            previous_is_digit = false;
            continue;
        }
        let digit = character.to_digit(radix).ok_or(NumberFault::Syntax)?;
        previous_is_digit = true;
        match value.checked_mul(i128::from(radix)).and_then(|v| v.checked_add(i128::from(digit))) {
            Some(next) => value = next,
            None => overflow = true,
        }
    }
    match (previous_is_digit, overflow) {
        (false, _) => Err(NumberFault::Syntax),
        (true, true) => Err(NumberFault::Overflow),
        (true, false) => Ok(if negative { -value } else { value }),
    }
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_round_half_away_from_zero() {
        assert_eq!(parse_decimal("2.345", 10, 2), Ok(235));
        assert_eq!(parse_decimal("-2.345", 10, 2), Ok(-235));
        assert_eq!(parse_decimal("9.995", 3, 2), Err(NumberFault::Overflow));
        assert_eq!(parse_decimal("1.5e3", 10, 0), Ok(1500));
        assert_eq!(parse_decimal("15e-1", 10, 0), Ok(2));
        assert_eq!(parse_decimal("0.04", 10, 0), Ok(0));
        assert_eq!(parse_decimal("1e999999999999999999999", 38, 0), Err(NumberFault::Overflow));
        assert_eq!(parse_decimal("1e-999999999999999999999", 38, 0), Ok(0));
        assert_eq!(parse_decimal(".", 10, 0), Err(NumberFault::Syntax));
        assert_eq!(rescale(-25, 1, 0), Some(-3));
        assert_eq!(rescale(24, 1, 0), Some(2));
        assert_eq!(rescale(i128::MAX, 0, 1), None);
    }

    #[test]
    fn integers_read_as_postgres_reads_them() {
        assert_eq!(parse_integer(" -1_000 "), Ok(-1000));
        assert_eq!(parse_integer("0xFF"), Ok(255));
        assert_eq!(parse_integer("1__0"), Err(NumberFault::Syntax));
        assert_eq!(parse_integer("_1"), Err(NumberFault::Syntax));
        assert_eq!(parse_integer(""), Err(NumberFault::Syntax));
        assert_eq!(parse_integer(&"9".repeat(60)), Err(NumberFault::Overflow));
    }

    #[test]
    fn decimal_text_keeps_the_scale() {
        assert_eq!(decimal_text(-5, 2), "-0.05");
        assert_eq!(decimal_text(12300, 2), "123.00");
        assert_eq!(decimal_text(12, -2), "1200");
    }
}
