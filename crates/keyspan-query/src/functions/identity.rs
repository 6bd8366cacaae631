//! UUIDs, CQL's time UUIDs, and addresses.

use keyspan_model::value::timeuuid_time;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};
use uuid::Uuid;

use super::overload::{Code, OfInfinity, Overload, Parameter};
use super::text::bytes;
use super::time::micros;

use ColumnType as C;
use Parameter::Is;

const TU: Parameter = Is(C::TimeUuid);
const TZ: Parameter = Is(C::Timestamp);
const IP: Parameter = Is(C::Inet);
const BLOB: Parameter = Is(C::Blob);

/// The function that makes of a timeuuid the bytes that sort as it does, which are those that it has in a key.
pub const TIMEUUID_ORDER: &str = "timeuuid_bytes";

/// 100 ns between 1582-10-15, where UUIDs' time begins, and 1970.
const GREGORIAN: u64 = 0x01B2_1DD2_1381_4000;

/// The functions.
pub fn functions() -> Vec<Overload> {
    let mut all = Vec::new();
    for name in ["gen_random_uuid", "uuid_generate_v4", "uuid"] {
        all.push(Overload::new(name, &[], C::Uuid, |_, _| Ok(Value::Uuid(Uuid::new_v4()))).volatile());
    }
    for name in ["current_timeuuid", "currenttimeuuid", "now_timeuuid"] {
        all.push(Overload::new(name, &[], C::TimeUuid, |_, _| Ok(Value::Uuid(timeuuid_of_now()))).volatile());
    }
    let mut of_time = |name, parameters, returns, code: Code| {
        let of_infinity = OfInfinity::Error("an infinite date or timestamp has no such number");
        all.push(Overload::new(name, parameters, returns, code).of_infinity(of_infinity));
    };
    // The least and the greatest of the 16 lower bytes, compared as signed: Cassandra's.
    for name in ["min_timeuuid", "mintimeuuid"] {
        of_time(name, &[TZ], C::TimeUuid, |_, v| Ok(Value::Uuid(time_uuid(micros(&v[0])?, 0x8080_8080_8080_8080))));
    }
    for name in ["max_timeuuid", "maxtimeuuid"] {
        of_time(name, &[TZ], C::TimeUuid, |_, v| {
            Ok(Value::Uuid(time_uuid_at(micros(&v[0])?, 9_999, 0x7F7F_7F7F_7F7F_7F7F)))
        });
    }
    for name in ["to_unix_timestamp", "unixtimestampof", "tounixtimestamp"] {
        for parameters in [&[TZ] as &'static [Parameter], &[Is(C::Date)]] {
            of_time(name, parameters, C::BigInt, |_, v| Ok(Value::BigInt(micros(&v[0])?.div_euclid(1000))));
        }
    }
    let mut add = |name, parameters, returns, code: Code| all.push(Overload::new(name, parameters, returns, code));
    for name in ["to_timestamp", "dateof", "totimestamp"] {
        add(name, &[TU], C::Timestamp, |_, v| Ok(Value::Timestamp(time_of(&v[0])?)));
    }
    // CQL's now() is a timeuuid, here it is a timestamp.
    for name in ["dateof", "totimestamp"] {
        add(name, &[TZ], C::Timestamp, |_, v| Ok(v[0].clone()));
    }
    for name in ["to_unix_timestamp", "unixtimestampof", "tounixtimestamp"] {
        add(name, &[TU], C::BigInt, |_, v| Ok(Value::BigInt(time_of(&v[0])?.div_euclid(1000))));
    }
    for name in ["to_timestamp", "totimestamp"] {
        add(name, &[Is(C::Date)], C::Timestamp, |_, v| v[0].clone().cast(C::Timestamp));
    }
    for name in ["to_date", "todate"] {
        add(name, &[TU], C::Date, |_, v| Value::Timestamp(time_of(&v[0])?).cast(C::Date));
        add(name, &[TZ], C::Date, |_, v| v[0].clone().cast(C::Date));
    }
    add("host", &[IP], C::Text, |_, v| address(&v[0], |ip| ip.to_string()));
    add("family", &[IP], C::Int, |_, v| {
        Ok(match &v[0] {
            Value::Inet(ip) => Value::Int(if ip.is_ipv4() { 4 } else { 6 }),
            _ => Value::Null,
        })
    });
    add("masklen", &[IP], C::Int, |_, v| {
        Ok(match &v[0] {
            Value::Inet(ip) => Value::Int(if ip.is_ipv4() { 32 } else { 128 }),
            _ => Value::Null,
        })
    });
    add("inet_bytes", &[IP], C::Blob, |_, v| {
        Ok(match &v[0] {
            Value::Inet(std::net::IpAddr::V4(ip)) => Value::Blob([&[4][..], &ip.octets()[..]].concat()),
            Value::Inet(std::net::IpAddr::V6(ip)) => Value::Blob([&[6][..], &ip.octets()[..]].concat()),
            _ => Value::Null,
        })
    });
    // A timeuuid in its order: its time, then its bytes.
    add(TIMEUUID_ORDER, &[TU], C::Blob, |_, v| {
        Ok(match &v[0] {
            Value::Uuid(uuid) => Value::Blob([&timeuuid_time(uuid).to_be_bytes()[..], uuid.as_bytes()].concat()),
            _ => Value::Null,
        })
    });
    add("timeuuid_of_bytes", &[BLOB], C::TimeUuid, |_, v| {
        let uuid = bytes(&v[0])?.get(8..).and_then(|bytes| Uuid::from_slice(bytes).ok());
        Ok(uuid.map_or(Value::Null, Value::Uuid))
    });
    add("inet_of_bytes", &[BLOB], C::Inet, |_, v| {
        let address = bytes(&v[0])?.get(1..).unwrap_or_default();
        let v4 = <[u8; 4]>::try_from(address).ok().map(std::net::IpAddr::from);
        let address = v4.or_else(|| <[u8; 16]>::try_from(address).ok().map(std::net::IpAddr::from));
        Ok(address.map_or(Value::Null, Value::Inet))
    });
    all
}

/// A timeuuid of the clock's time, with a random node.
fn timeuuid_of_now() -> Uuid {
    let random = Uuid::new_v4().as_u64_pair().1 & 0x3FFF_FFFF_FFFF_FFFF;
    time_uuid(chrono::Utc::now().timestamp_micros(), random | 0x8000_0100_0000_0000)
}

fn address(value: &Value, function: impl Fn(&std::net::IpAddr) -> String) -> Result<Value> {
    Ok(match value {
        Value::Inet(ip) => Value::Text(function(ip)),
        _ => Value::Null,
    })
}

fn time_uuid(micros: i64, lower: u64) -> Uuid {
    time_uuid_at(micros, 0, lower)
}

/// A version 1 UUID of a time; its lower half as given. Cassandra keeps milliseconds, so `rest` fills one up.
fn time_uuid_at(micros: i64, rest: u64, lower: u64) -> Uuid {
    let micros = if rest > 0 { micros.div_euclid(1000) * 1000 } else { micros };
    let ticks = (micros.wrapping_mul(10) as u64).wrapping_add(GREGORIAN).wrapping_add(rest);
    let upper = (ticks & 0xFFFF_FFFF) << 32 | (ticks >> 32 & 0xFFFF) << 16 | 0x1000 | (ticks >> 48 & 0x0FFF);
    Uuid::from_u64_pair(upper, lower)
}

fn time_of(value: &Value) -> Result<i64> {
    let Value::Uuid(uuid) = value else { return Err(Error::internal("a timeuuid was expected")) };
    let ticks = keyspan_model::value::timeuuid_time(uuid);
    let since = i128::from(ticks) - i128::from(GREGORIAN);
    i64::try_from(since.div_euclid(10)).map_err(|_| Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range"))
}
