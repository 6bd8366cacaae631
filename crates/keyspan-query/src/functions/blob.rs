//! CQL's conversions to and from blobs, `int_as_blob(n)` and `blob_as_int(b)`, of every type and in both spellings: the
//! bytes are those of Cassandra's protocol.

use std::net::IpAddr;

use keyspan_model::types::{DECIMAL_DIGITS, DECIMAL_SCALE};
use keyspan_model::{ColumnType as C, Error, ErrorKind, Result, Value, serialized};
use uuid::Uuid;

use super::overload::{Call, Overload, Parameter};
use super::text::bytes;
use super::time::DAY;

const DECIMAL: C = C::Decimal { precision: DECIMAL_DIGITS, scale: DECIMAL_SCALE };

/// A type, the names of the function that makes a blob of it, and of the one that reads it. CQL's float has four bytes.
type Conversion = (C, [&'static str; 2], [&'static str; 2]);

#[rustfmt::skip]
const CONVERSIONS: [Conversion; 18] = [
    (C::Ascii, ["ascii_as_blob", "asciiasblob"], ["blob_as_ascii", "blobasascii"]),
    (C::BigInt, ["bigint_as_blob", "bigintasblob"], ["blob_as_bigint", "blobasbigint"]),
    (C::Boolean, ["boolean_as_blob", "booleanasblob"], ["blob_as_boolean", "blobasboolean"]),
    (C::Date, ["date_as_blob", "dateasblob"], ["blob_as_date", "blobasdate"]),
    (DECIMAL, ["decimal_as_blob", "decimalasblob"], ["blob_as_decimal", "blobasdecimal"]),
    (C::Double, ["double_as_blob", "doubleasblob"], ["blob_as_double", "blobasdouble"]),
    (C::Real, ["float_as_blob", "floatasblob"], ["blob_as_float", "blobasfloat"]),
    (C::Inet, ["inet_as_blob", "inetasblob"], ["blob_as_inet", "blobasinet"]),
    (C::Int, ["int_as_blob", "intasblob"], ["blob_as_int", "blobasint"]),
    (C::SmallInt, ["smallint_as_blob", "smallintasblob"], ["blob_as_smallint", "blobassmallint"]),
    (C::Text, ["text_as_blob", "textasblob"], ["blob_as_text", "blobastext"]),
    (C::Time, ["time_as_blob", "timeasblob"], ["blob_as_time", "blobastime"]),
    (C::Timestamp, ["timestamp_as_blob", "timestampasblob"], ["blob_as_timestamp", "blobastimestamp"]),
    (C::TimeUuid, ["timeuuid_as_blob", "timeuuidasblob"], ["blob_as_timeuuid", "blobastimeuuid"]),
    (C::TinyInt, ["tinyint_as_blob", "tinyintasblob"], ["blob_as_tinyint", "blobastinyint"]),
    (C::Uuid, ["uuid_as_blob", "uuidasblob"], ["blob_as_uuid", "blobasuuid"]),
    (C::Text, ["varchar_as_blob", "varcharasblob"], ["blob_as_varchar", "blobasvarchar"]),
    (C::VarInt, ["varint_as_blob", "varintasblob"], ["blob_as_varint", "blobasvarint"]),
];

/// The functions.
pub fn functions() -> Vec<Overload> {
    let mut all = Vec::new();
    for (ty, to_blob, of_blob) in CONVERSIONS {
        for name in to_blob {
            all.extend(parameters(ty).map(|parameters| Overload::new(name, parameters, C::Blob, to_bytes)));
        }
        all.extend(of_blob.map(|name| Overload::new(name, &[Parameter::Is(C::Blob)], ty, of_bytes)));
    }
    all
}

/// The parameters that a conversion of this type takes: a column `float` is a double, a literal a numeric.
fn parameters(ty: C) -> impl Iterator<Item = &'static [Parameter]> {
    use Parameter::{Is, Numeric};
    let all: &'static [&'static [Parameter]] = match ty {
        C::Ascii => &[&[Is(C::Ascii)]],
        C::BigInt => &[&[Is(C::BigInt)]],
        C::Boolean => &[&[Is(C::Boolean)]],
        C::Date => &[&[Is(C::Date)]],
        C::Decimal { .. } => &[&[Numeric]],
        C::Double => &[&[Is(C::Double)]],
        C::Real => &[&[Is(C::Real)], &[Is(C::Double)]],
        C::Inet => &[&[Is(C::Inet)]],
        C::Int => &[&[Is(C::Int)]],
        C::SmallInt => &[&[Is(C::SmallInt)], &[Is(C::Int)]],
        C::Time => &[&[Is(C::Time)]],
        C::Timestamp => &[&[Is(C::Timestamp)]],
        C::TimeUuid => &[&[Is(C::TimeUuid)], &[Is(C::Uuid)]],
        C::TinyInt => &[&[Is(C::TinyInt)], &[Is(C::Int)]],
        C::Uuid => &[&[Is(C::Uuid)]],
        C::VarInt => &[&[Is(C::VarInt)], &[Numeric]],
        _ => &[&[Is(C::Text)]],
    };
    all.iter().copied()
}

fn to_bytes(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    let ty = CONVERSIONS.into_iter().find(|(_, to_blob, _)| to_blob.contains(&call.name)).map(|(ty, ..)| ty);
    let ty = ty.unwrap_or(call.types[0]);
    // A decimal keeps the digits that it has.
    let value = if matches!(ty, C::Decimal { .. }) { v[0].clone() } else { v[0].clone().cast(ty)? };
    Ok(Value::Blob(serialized(&value, ty)))
}

fn of_bytes(call: &Call<'_>, v: &[Value]) -> Result<Value> {
    let (ty, own) = (call.result, bytes(&v[0])?);
    let value = match ty {
        C::Text | C::Ascii => match std::str::from_utf8(own) {
            Ok(text) => Value::Text(text.to_owned()).cast(ty)?,
            Err(_) => return Err(Error::new(ErrorKind::InvalidEncoding, "the bytes are not UTF-8")),
        },
        C::Boolean => Value::Boolean(exact::<1>(own, ty)? != [0]),
        C::TinyInt => Value::TinyInt(i8::from_be_bytes(exact(own, ty)?)),
        C::SmallInt => Value::SmallInt(i16::from_be_bytes(exact(own, ty)?)),
        C::Int => Value::Int(i32::from_be_bytes(exact(own, ty)?)),
        C::BigInt => Value::BigInt(i64::from_be_bytes(exact(own, ty)?)),
        C::Real => Value::Real(f32::from_be_bytes(exact(own, ty)?)).canonical(),
        C::Double => Value::Double(f64::from_be_bytes(exact(own, ty)?)).canonical(),
        C::Date => Value::date_from_days((u32::from_be_bytes(exact(own, ty)?) ^ 1 << 31) as i32)?,
        C::Time => match i64::from_be_bytes(exact(own, ty)?) / 1000 {
            micros @ 0..DAY => Value::Time(micros),
            _ => return Err(wrong(own, ty)),
        },
        C::Timestamp => Value::timestamp_from_millis(i64::from_be_bytes(exact(own, ty)?))?,
        C::Uuid => Value::Uuid(Uuid::from_bytes(exact(own, ty)?)),
        C::TimeUuid => Value::Uuid(Uuid::from_bytes(exact(own, ty)?)).cast(ty)?,
        C::Inet => Value::Inet(match own.len() {
            4 => IpAddr::from(exact::<4>(own, ty)?),
            _ => IpAddr::from(exact::<16>(own, ty)?),
        }),
        C::VarInt => Value::Decimal(whole(own, ty)?, 0).cast(ty)?,
        _ => {
            let (scale, digits) = own.split_first_chunk::<4>().ok_or_else(|| wrong(own, ty))?;
            let scale = i8::try_from(i32::from_be_bytes(*scale)).map_err(|_| wrong(own, ty))?;
            Value::Decimal(whole(digits, ty)?, scale).cast(ty)?
        }
    };
    Ok(value)
}

/// Two's complement, big endian.
fn whole(bytes: &[u8], ty: C) -> Result<i128> {
    if bytes.is_empty() || bytes.len() > 16 {
        return Err(wrong(bytes, ty));
    }
    let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1_i128 };
    Ok(bytes.iter().fold(sign, |number, byte| number << 8 | i128::from(*byte)))
}

fn exact<const N: usize>(bytes: &[u8], ty: C) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| wrong(bytes, ty))
}

fn wrong(bytes: &[u8], ty: C) -> Error {
    let message = format!("a blob of {} bytes is not a valid value of type {}", bytes.len(), ty.postgres_name());
    Error::new(ErrorKind::InvalidParameter, message)
}
