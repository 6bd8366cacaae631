//! The token of a partition key, as Cassandra's Murmur3Partitioner computes it.
//!
//! ```text
//! one column        its bytes, as Cassandra serializes its type
//! several columns   { length(u16)  bytes  00 }*
//! ```
//!
//! Nothing here is stored by it: rows are in the order of their keys. It is for programs that divide a table by tokens,
//! and for comparison with data in Cassandra. A timestamp counts milliseconds there, a time nanoseconds; a decimal has
//! the fewest digits after the point that it can have.

use crate::array::tie_bytes;
use crate::types::{ColumnType, Nested};
use crate::value::Value;

/// The token of these values of a partition key, none of which is null.
pub fn token(values: &[Value], types: &[ColumnType]) -> i64 {
    let parts: Vec<Vec<u8>> = values.iter().zip(types).map(|(value, ty)| serialized(value, *ty)).collect();
    let key = match parts.as_slice() {
        [only] => only.clone(),
        parts => parts.iter().flat_map(|part| composite(part)).collect(),
    };
    if key.is_empty() {
        return i64::MIN;
    }
    match murmur3(&key) {
        // The least number is no key's token.
        i64::MIN => i64::MAX,
        token => token,
    }
}

fn composite(part: &[u8]) -> Vec<u8> {
    let length = u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes();
    [&length[..], part, &[0]].concat()
}

/// The bytes that Cassandra has for a value.
pub fn serialized(value: &Value, ty: ColumnType) -> Vec<u8> {
    match (value, ty) {
        (Value::Timestamp(micros), _) => micros.div_euclid(1000).to_be_bytes().to_vec(),
        (Value::Time(micros), _) => micros.wrapping_mul(1000).to_be_bytes().to_vec(),
        (Value::Decimal(digits, _), ColumnType::VarInt) => shortest(*digits),
        (Value::Decimal(digits, scale), _) => decimal(*digits, *scale),
        (Value::List(elements), ty) if ty.dimension().is_some() => elements.iter().flat_map(tie_bytes).collect(),
        (Value::List(elements), ty) => {
            let element = match ty {
                ColumnType::List(element) => element.get(),
                ty => ty.as_nested().and_then(|nested| nested.parts().first().copied()).unwrap_or(ty),
            };
            counted(elements.len(), elements.iter().map(|each| (each, element)))
        }
        (Value::Map(entries), ColumnType::Nested(nested)) => match nested.get() {
            Nested::Map(key, of_value) => {
                counted(entries.len(), entries.iter().flat_map(|(own, each)| [(own, *key), (each, *of_value)]))
            }
            _ => tie_bytes(value),
        },
        (Value::Tuple(fields), ColumnType::Nested(nested)) => parts(fields.iter().zip(nested.get().parts())),
        (value, _) => tie_bytes(value),
    }
}

fn counted<'a>(count: usize, all: impl Iterator<Item = (&'a Value, ColumnType)>) -> Vec<u8> {
    [length(count).to_vec(), parts(all)].concat()
}

fn parts<'a>(all: impl Iterator<Item = (&'a Value, ColumnType)>) -> Vec<u8> {
    all.flat_map(|(value, ty)| match value {
        Value::Null => (-1_i32).to_be_bytes().to_vec(),
        value => {
            let own = serialized(value, ty);
            [length(own.len()).to_vec(), own].concat()
        }
    })
    .collect()
}

fn length(length: usize) -> [u8; 4] {
    i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes()
}

/// Two's complement in as few bytes as hold it, as Java's BigInteger.
fn shortest(number: i128) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let sign = if number < 0 { 0xff } else { 0 };
    let needed = |at: &usize| bytes[*at] != sign || (bytes[*at + 1] ^ sign) & 0x80 != 0;
    bytes[(0..15).find(needed).unwrap_or(15)..].to_vec()
}

fn decimal(mut digits: i128, mut scale: i8) -> Vec<u8> {
    while scale > 0 && digits % 10 == 0 {
        digits /= 10;
        scale -= 1;
    }
    [i32::from(scale).to_be_bytes().to_vec(), shortest(digits)].concat()
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

fn mix1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut k: u64) -> u64 {
    k = (k ^ k >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    k = (k ^ k >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ k >> 33
}

/// MurmurHash3 (x64, 128 bits, seed 0), its first half. Cassandra takes the bytes at the end as signed ones, and so does
/// this.
fn murmur3(key: &[u8]) -> i64 {
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let (blocks, tail) = key.as_chunks::<16>();
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
    for block in blocks {
        h1 ^= mix1(word(&block[..8]));
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix2(word(&block[8..]));
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let signed = |bytes: &[u8]| {
        let shifted = |(at, byte): (usize, &u8)| (i64::from(*byte as i8) as u64) << (8 * at);
        bytes.iter().enumerate().map(shifted).fold(0, |word, byte| word ^ byte)
    };
    let (first, second) = tail.split_at(tail.len().min(8));
    h2 ^= mix2(signed(second));
    h1 ^= mix1(signed(first));
    h1 ^= key.len() as u64;
    h2 ^= key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    finish(h1).wrapping_add(finish(h2)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    use ColumnType as C;

    /// Tokens that the Python driver computes, of keys as it serializes them.
    #[test]
    fn tokens_are_those_of_cassandra() {
        let tuple = C::nested(Nested::Tuple(vec![C::Int, C::Text]));
        let cases = [
            (C::Int, "1", -4_069_959_284_402_364_209),
            (C::BigInt, "-5", -3_990_791_270_766_580_267),
            (C::SmallInt, "7", -2_968_410_756_505_564_392),
            (C::TinyInt, "-1", -4_442_228_696_663_692_417),
            (C::VarInt, "0", 5_048_724_184_180_415_669),
            (C::VarInt, "128", -5_553_052_187_789_492_088),
            (C::VarInt, "-129", 7_965_412_786_603_682_042),
            (C::VarInt, "12345678901234567890", 2_887_153_174_595_707_136),
            (C::Decimal { precision: 10, scale: 4 }, "1.5", 5_696_596_651_944_691_944),
            (C::Decimal { precision: 10, scale: 2 }, "-12.25", 5_683_853_537_783_857_413),
            (C::Double, "0.5", -3_022_882_212_755_668_578),
            (C::Boolean, "true", 8_849_112_093_580_131_862),
            (C::Text, "a", -8_839_064_797_231_613_815),
            (C::Text, "123", -7_468_325_962_851_647_638),
            (C::Text, "9223372036854775807", 7_162_290_910_810_015_547),
            (C::Text, &"é".repeat(17), 5_842_359_116_769_355_481),
            (C::Blob, &format!("0x{}", "00ff10fa99".repeat(10)), 5_837_342_703_291_459_765),
            (C::Blob, &format!("0x{}", "fe".repeat(8)), -8_927_430_733_708_461_935),
            (C::Blob, &format!("0x{}", "10".repeat(8)), 1_446_172_840_243_228_796),
            (C::Timestamp, "2024-01-25 10:00:00.123456", -8_656_384_116_337_743_771),
            (C::Date, "2024-01-25", -245_916_599_672_537_822),
            (C::Time, "10:00:00.000001", 8_776_298_671_163_980_550),
            (C::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", -874_653_215_435_296_113),
            (C::Inet, "10.0.0.1", -5_497_434_528_627_776_251),
            (tuple, r#"[1, "x"]"#, -885_164_687_752_715_981),
            (C::nested(Nested::Set(C::Text)), "{b,a}", 4_852_070_786_039_512_220),
        ];
        for (ty, text, expected) in cases {
            let value = Value::parse(text, ty).expect("a value");
            assert_eq!(token(&[value], &[ty]), expected, "{text} as {ty}");
        }
        let values = [Value::Text("a".into()), Value::Int(7)];
        assert_eq!(token(&values, &[C::Text, C::Int]), -2_133_588_921_541_103_912);
        assert_eq!(token(&[Value::Text(String::new())], &[C::Text]), i64::MIN);
    }
}
