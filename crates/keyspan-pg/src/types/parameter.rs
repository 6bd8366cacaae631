//! Bind parameters read as values, in the text and the binary format.
//!
//! The rule: bytes that are not a value of the declared type are an error with Postgres' SQLSTATE, 22P02 for text,
//! 22P03 for binary, 22021 where they are no text in the client's encoding; never another value.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use keyspan_model::infinity::{days_from_postgres, micros_from_postgres};
use keyspan_model::value::{canonical_double, canonical_real};
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};

use super::array::read_array;
use super::binary::{INET_V4, INET_V6, JSONB_VERSION};
use super::numeric::read_numeric;
use super::pg_type::{PgType, oid};
use crate::encoding::Encoding;
use crate::engine::Zone;

/// Reads a parameter in the text format.
pub(crate) fn read_text(bytes: &[u8], ty: ColumnType, zone: &Zone, encoding: Encoding) -> Result<Value> {
    let text = encoding.decode(bytes)?;
    Value::parse_zoned(&text, ty, &|name, local| zone.resolve(name, local))
}

/// Reads a parameter in the binary format; `declared` is the OID of the type whose format the bytes have, `ty` the
/// type of the value wanted. `number` counts from 1 and stands in errors.
pub(crate) fn read_binary(
    bytes: &[u8],
    declared: u32,
    ty: ColumnType,
    number: usize,
    encoding: Encoding,
) -> Result<Value> {
    let junk =
        || Error::new(ErrorKind::InvalidBinary, format!("incorrect binary data format in bind parameter {number}"));
    if let Some(element) = PgType::of_oid(declared).element {
        let own = ty.element().unwrap_or(ty);
        let list = read_array(bytes, element, own, number, encoding)?;
        return if matches!(ty, ColumnType::List(_)) { Ok(list) } else { list.cast(ty) };
    }
    let value = match declared {
        oid::BOOL => match bytes {
            [0] => Value::Boolean(false),
            [_] => Value::Boolean(true),
            _ => return Err(junk()),
        },
        oid::INT2 => Value::SmallInt(i16::from_be_bytes(fixed(bytes).ok_or_else(junk)?)),
        oid::INT4 => Value::Int(i32::from_be_bytes(fixed(bytes).ok_or_else(junk)?)),
        oid::INT8 => Value::BigInt(i64::from_be_bytes(fixed(bytes).ok_or_else(junk)?)),
        oid::OID | oid::XID | oid::CID | oid::REGCLASS | oid::REGTYPE | oid::REGPROC | oid::REGNAMESPACE => {
            Value::BigInt(i64::from(u32::from_be_bytes(fixed(bytes).ok_or_else(junk)?)))
        }
        oid::FLOAT4 => Value::Real(canonical_real(f32::from_be_bytes(fixed(bytes).ok_or_else(junk)?))),
        oid::FLOAT8 => Value::Double(canonical_double(f64::from_be_bytes(fixed(bytes).ok_or_else(junk)?))),
        oid::NUMERIC => return Value::parse(&read_numeric(bytes).ok_or_else(junk)?, ty),
        oid::BYTEA => Value::Blob(bytes.to_vec()),
        oid::UUID => Value::Uuid(uuid::Uuid::from_bytes(fixed(bytes).ok_or_else(junk)?)),
        oid::DATE => Value::Date(days_from_postgres(i32::from_be_bytes(fixed(bytes).ok_or_else(junk)?))?),
        oid::TIME => Value::Time(time(i64::from_be_bytes(fixed(bytes).ok_or_else(junk)?))?),
        oid::TIMESTAMP | oid::TIMESTAMPTZ => {
            Value::Timestamp(micros_from_postgres(i64::from_be_bytes(fixed(bytes).ok_or_else(junk)?))?)
        }
        oid::INTERVAL => interval(bytes).ok_or_else(junk)??,
        oid::INET | oid::CIDR => Value::Inet(inet(bytes).ok_or_else(junk)?),
        oid::JSONB => match bytes.split_first() {
            Some((&JSONB_VERSION, text)) => Value::Text(encoding.decode(text)?.into_owned()),
            _ => return Err(Error::new(ErrorKind::InvalidBinary, "unsupported jsonb version number")),
        },
        oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::CHAR | oid::UNKNOWN | oid::JSON | oid::XML => {
            Value::Text(encoding.decode(bytes)?.into_owned())
        }
        other => {
            return Err(Error::not_supported(format!(
                "binary parameters of the type with OID {other} are not supported"
            )));
        }
    };
    if value.fits(ty) && !matches!(ty, ColumnType::Json | ColumnType::Jsonb) { Ok(value) } else { value.cast(ty) }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

fn time(micros: i64) -> Result<i64> {
    if (0..86_400_000_000).contains(&micros) {
        return Ok(micros);
    }
    Err(Error::new(ErrorKind::DatetimeOverflow, "time out of range"))
}

fn interval(bytes: &[u8]) -> Option<Result<Value>> {
    let bytes: [u8; 16] = fixed(bytes)?;
    let micros = i64::from_be_bytes(fixed(&bytes[..8])?);
    let days = i32::from_be_bytes(fixed(&bytes[8..12])?);
    let months = i32::from_be_bytes(fixed(&bytes[12..])?);
    let nanos = micros.checked_mul(1000);
    Some(match nanos {
        Some(nanos) => Ok(Value::Duration(months, days, nanos)),
        None => Err(Error::new(ErrorKind::DatetimeOverflow, "interval out of range")),
    })
}

/// An address with its whole netmask; networks are not addresses of ours.
fn inet(bytes: &[u8]) -> Option<IpAddr> {
    match bytes {
        [INET_V4, 32, _, 4, address @ ..] => Some(IpAddr::V4(Ipv4Addr::from(fixed::<4>(address)?))),
        [INET_V6, 128, _, 16, address @ ..] => Some(IpAddr::V6(Ipv6Addr::from(fixed::<16>(address)?))),
        _ => None,
    }
}
