//! Floats as Postgres 12 and later print them: the shortest digits that read back as the same float.
//!
//! The rule: the same text as `keyspan_model::display` gives, without an allocation per value.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};

/// Room for any shortest float in Rust's scientific form: `-1.2345678901234567e-308`.
struct Digits {
    bytes: [u8; 32],
    length: usize,
}

impl Write for Digits {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let room = self.bytes.get_mut(self.length..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Writes a 4-byte float.
pub(super) fn put_real(value: f32, out: &mut BytesMut) {
    if value.is_finite() { put_finite(format_args!("{value:e}"), 6, out) } else { put_special(f64::from(value), out) }
}

/// Writes an 8-byte float.
pub(super) fn put_double(value: f64, out: &mut BytesMut) {
    if value.is_finite() { put_finite(format_args!("{value:e}"), 15, out) } else { put_special(value, out) }
}

fn put_special(value: f64, out: &mut BytesMut) {
    out.put_slice(match (value.is_nan(), value > 0.0) {
        (true, _) => b"NaN",
        (_, true) => b"Infinity",
        _ => b"-Infinity",
    });
}

/// Rust writes `d.ddde-n`; Postgres keeps an exponent only below −4 and from `limit` up.
fn put_finite(scientific: std::fmt::Arguments<'_>, limit: i32, out: &mut BytesMut) {
    let mut digits = Digits { bytes: [0; 32], length: 0 };
    digits.write_fmt(scientific).expect("a shortest float has at most 24 characters");
    let text = &digits.bytes[..digits.length];
    let split = text.iter().position(|byte| *byte == b'e').unwrap_or(text.len());
    let (mantissa, exponent) = (&text[..split], exponent(&text[split..]));
    if !(-4..limit).contains(&exponent) {
        out.put_slice(mantissa);
        out.put_slice(if exponent < 0 { b"e-" } else { b"e+" });
        write!(out, "{:02}", exponent.unsigned_abs()).expect("a buffer takes any text");
        return;
    }
    let unsigned = mantissa.strip_prefix(b"-").unwrap_or(mantissa);
    if unsigned.len() < mantissa.len() {
        out.put_u8(b'-');
    }
    put_fixed(unsigned, exponent + 1, out);
}

fn exponent(text: &[u8]) -> i32 {
    let digits = std::str::from_utf8(text.get(1..).unwrap_or_default()).unwrap_or_default();
    digits.parse().unwrap_or(0)
}

/// Writes `d.ddd` with its point moved to stand after `point` digits.
fn put_fixed(mantissa: &[u8], point: i32, out: &mut BytesMut) {
    let digits = mantissa.iter().copied().filter(|byte| *byte != b'.');
    if point <= 0 {
        out.put_slice(b"0.");
        out.put_bytes(b'0', point.unsigned_abs() as usize);
        digits.for_each(|digit| out.put_u8(digit));
        return;
    }
    let point = point.unsigned_abs() as usize;
    let mut written = 0;
    for digit in digits {
        if written == point {
            out.put_u8(b'.');
        }
        out.put_u8(digit);
        written += 1;
    }
    out.put_bytes(b'0', point.saturating_sub(written));
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyspan_model::display::{double_text, real_text};

    fn text(write: impl Fn(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).expect("ASCII")
    }

    #[test]
    fn floats_print_as_the_model_prints_them() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut values =
            vec![0.0, -0.0, 1.0, -1.5, 0.1, 1e14, 1e15, -1e16, 0.0001, 0.00001, 123_456.789, 5e-324, f64::MAX];
        values.extend([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            values.push(f64::from_bits(seed));
            values.push((seed >> 40) as f64 / 1000.0);
        }
        for value in values {
            assert_eq!(text(|out| put_double(value, out)), double_text(value));
            assert_eq!(text(|out| put_real(value as f32, out)), real_text(value as f32));
        }
    }
}
