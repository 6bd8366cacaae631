//! One typed value: text form, order, and the casts between types.

use std::net::IpAddr;

use uuid::Uuid;

/// A value of some [`crate::ColumnType`], or null.
///
/// Invariant: a double's −0.0 is stored as 0.0 and NaN is one value ([`Value::canonical`]).
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// boolean
    Boolean(bool),
    /// tinyint
    TinyInt(i8),
    /// smallint
    SmallInt(i16),
    /// int
    Int(i32),
    /// bigint
    BigInt(i64),
    /// varint, decimal: digits without the point, and how many of them stand after it.
    Decimal(i128, i8),
    /// real
    Real(f32),
    /// double
    Double(f64),
    /// text, ascii, json
    Text(String),
    /// blob
    Blob(Vec<u8>),
    /// uuid, timeuuid
    Uuid(Uuid),
    /// Days since 1970-01-01.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// timestamp and timestamp without time zone: microseconds since 1970-01-01.
    Timestamp(i64),
    /// Months, days, nanoseconds.
    Duration(i32, i32, i64),
    /// inet
    Inet(IpAddr),
}
