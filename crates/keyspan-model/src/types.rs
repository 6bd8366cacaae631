//! Column types: one enum, its names in CQL and in Postgres, and its Arrow form.
//!
//! The Arrow field of a column carries the Keyspan type in its metadata under [`TYPE_KEY`], so that layers which see
//! only a schema (the wire encoders, the shell) still know `uuid` from `timeuuid` and `json` from `text`.

mod element;
mod nested;
mod variant;
mod vector;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result, nearest};

pub use element::ElementType;
pub use nested::{NESTING_MAX, Nested, NestedType, TypeField, TypeId, TypeName, UserType};
pub use vector::{DIMENSIONS_MAX, Similarity};

/// The key of the Arrow field metadata that holds the name of the Keyspan type.
pub const TYPE_KEY: &str = "keyspan.type";

/// Largest number of decimal digits that `decimal` and `varint` hold; ADR 3.
pub const DECIMAL_DIGITS: u8 = 38;
/// Digits after the point of a `decimal` that names none; ADR 3.
pub const DECIMAL_SCALE: i8 = 10;

/// The type of a column or value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// True or false.
    Boolean,
    /// 8-bit signed integer.
    TinyInt,
    /// 16-bit signed integer.
    SmallInt,
    /// 32-bit signed integer.
    Int,
    /// 64-bit signed integer.
    BigInt,
    /// Integer of up to 38 digits (ADR 3).
    VarInt,
    /// 4-byte float: Postgres' `real`.
    Real,
    /// 8-byte float: `double` and, as in Postgres, `float`.
    Double,
    /// Fixed-point number: up to 38 digits, `scale` of them after the point.
    Decimal {
        /// Digits in all, 1 to 38.
        precision: u8,
        /// Digits after the point, 0 to precision.
        scale: i8,
    },
    /// UTF-8 text, ordered by bytes.
    Text,
    /// Text of ASCII characters only.
    Ascii,
    /// Bytes.
    Blob,
    /// 16 bytes, ordered as bytes.
    Uuid,
    /// Version 1 UUID, ordered by its time, then by bytes.
    TimeUuid,
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since midnight.
    Time,
    /// An instant: microseconds since 1970-01-01 UTC.
    Timestamp,
    /// A wall-clock time without zone, in microseconds: `timestamp without time zone`.
    LocalTimestamp,
    /// Months, days and nanoseconds. Not allowed in a key.
    Duration,
    /// IPv4 or IPv6 address.
    Inet,
    /// JSON text, as it was written.
    Json,
    /// JSON in one form: keys in order and unique, numbers as numeric ([`crate::json`]).
    Jsonb,
    /// A list whose elements may be null: Postgres' array of one dimension, CQL's frozen list of scalars.
    List(ElementType),
    /// A frozen set or map, a tuple, a user type, a list of such.
    Nested(NestedType),
}

impl ColumnType {
    /// The list of elements of this type.
    pub fn list(element: ColumnType) -> ColumnType {
        ColumnType::List(ElementType::new(element))
    }

    /// The type of the elements of an array, or of a set or vector that is one in Arrow; `None` for other types.
    pub fn element(self) -> Option<ColumnType> {
        match self {
            ColumnType::List(element) => Some(element.get()),
            ColumnType::Nested(nested) => match nested.get() {
                Nested::Set(element) => Some(*element).filter(|element| element.is_scalar()),
                Nested::Vector(_) => Some(ColumnType::Real),
                _ => None,
            },
            _ => None,
        }
    }

    /// The array that a set of scalars or a vector is read as; other types as they are.
    pub fn as_array(self) -> ColumnType {
        self.element().map_or(self, ColumnType::list)
    }

    /// The type's canonical name, as DESCRIBE and `\d` show it.
    pub fn name(self) -> String {
        match self {
            ColumnType::Boolean => "boolean".into(),
            ColumnType::TinyInt => "tinyint".into(),
            ColumnType::SmallInt => "smallint".into(),
            ColumnType::Int => "int".into(),
            ColumnType::BigInt => "bigint".into(),
            ColumnType::VarInt => "varint".into(),
            ColumnType::Real => "real".into(),
            ColumnType::Double => "double".into(),
            ColumnType::Decimal { precision: DECIMAL_DIGITS, scale: DECIMAL_SCALE } => "decimal".into(),
            ColumnType::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
            ColumnType::Text => "text".into(),
            ColumnType::Ascii => "ascii".into(),
            ColumnType::Blob => "blob".into(),
            ColumnType::Uuid => "uuid".into(),
            ColumnType::TimeUuid => "timeuuid".into(),
            ColumnType::Date => "date".into(),
            ColumnType::Time => "time".into(),
            ColumnType::Timestamp => "timestamp".into(),
            ColumnType::LocalTimestamp => "timestamp without time zone".into(),
            ColumnType::Duration => "duration".into(),
            ColumnType::Inet => "inet".into(),
            ColumnType::Json => "json".into(),
            ColumnType::Jsonb => "jsonb".into(),
            ColumnType::List(element) => format!("{}[]", element.get().name()),
            ColumnType::Nested(nested) => ColumnType::nested_name(nested),
        }
    }

    /// What tells the whole type: its name, or of a nested one JSON, which has the fields of user types.
    pub fn code(self) -> String {
        match self {
            ColumnType::Nested(nested) if *nested.get() != Nested::Variant => {
                serde_json::to_string(&nested).unwrap_or_default()
            }
            ty => ty.name(),
        }
    }

    /// Metadata of an Arrow field of this type.
    pub fn metadata(self) -> (String, String) {
        (TYPE_KEY.to_owned(), self.code())
    }

    /// The type called `name` in CQL or Postgres, with its arguments: `decimal(10,2)` is `("decimal", &[10, 2])`.
    ///
    /// Length arguments of `varchar(n)` and fractional-second precisions are accepted; the caller keeps lengths. The
    /// arguments of an array are those of its elements.
    pub fn parse(name: &str, arguments: &[i64]) -> Result<ColumnType> {
        let lower = name.to_lowercase();
        let words = lower.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(element) = words.strip_suffix("[]") {
            return ColumnType::parse(element, arguments)?.into_list();
        }
        Ok(match words.as_str() {
            "boolean" | "bool" => ColumnType::Boolean,
            "tinyint" | "int1" => ColumnType::TinyInt,
            "smallint" | "int2" => ColumnType::SmallInt,
            "int" | "integer" | "int4" => ColumnType::Int,
            "bigint" | "int8" | "oid" => ColumnType::BigInt,
            "varint" => ColumnType::VarInt,
            "real" | "float4" => ColumnType::Real,
            "float" => match arguments {
                [bits] if *bits <= 24 => ColumnType::Real,
                _ => ColumnType::Double,
            },
            "double" | "double precision" | "float8" => ColumnType::Double,
            "decimal" | "numeric" | "dec" => decimal(arguments)?,
            "text" | "varchar" | "character varying" | "char" | "character" | "bpchar" | "name" | "string" => {
                ColumnType::Text
            }
            "ascii" => ColumnType::Ascii,
            "blob" | "bytea" => ColumnType::Blob,
            "uuid" => ColumnType::Uuid,
            "timeuuid" => ColumnType::TimeUuid,
            "date" => ColumnType::Date,
            "time" | "time without time zone" => ColumnType::Time,
            "timestamp" | "timestamptz" | "timestamp with time zone" => ColumnType::Timestamp,
            "timestamp without time zone" | "localtimestamp" => ColumnType::LocalTimestamp,
            "duration" | "interval" => ColumnType::Duration,
            "inet" => ColumnType::Inet,
            "vector" => ColumnType::vector_of(arguments)?,
            "json" => ColumnType::Json,
            "jsonb" => ColumnType::Jsonb,
            other => {
                let error = Error::new(ErrorKind::UndefinedObject, format!("type \"{other}\" does not exist"));
                return Err(match nearest(other, NAMES.iter().copied()) {
                    Some(near) => error.with_hint(format!("Perhaps you meant \"{near}\".")),
                    None => error,
                });
            }
        })
    }

    /// The list of elements of this type, as a type's name asks for it; 0A000 for lists of lists.
    pub fn into_list(self) -> Result<ColumnType> {
        match self {
            ColumnType::List(_) => Err(Error::not_supported("arrays of more than one dimension are not supported")),
            element => Ok(ColumnType::frozen_list(element)),
        }
    }

    /// The Arrow type that holds values of this type.
    pub fn arrow(self) -> DataType {
        match self {
            ColumnType::Boolean => DataType::Boolean,
            ColumnType::TinyInt => DataType::Int8,
            ColumnType::SmallInt => DataType::Int16,
            ColumnType::Int => DataType::Int32,
            ColumnType::BigInt => DataType::Int64,
            ColumnType::VarInt => DataType::Decimal128(DECIMAL_DIGITS, 0),
            ColumnType::Real => DataType::Float32,
            ColumnType::Double => DataType::Float64,
            ColumnType::Decimal { precision, scale } => DataType::Decimal128(precision, scale),
            ColumnType::Text | ColumnType::Ascii | ColumnType::Inet => DataType::Utf8View,
            ColumnType::Json | ColumnType::Jsonb => DataType::Utf8View,
            ColumnType::Blob => DataType::Binary,
            ColumnType::Uuid | ColumnType::TimeUuid => DataType::FixedSizeBinary(16),
            ColumnType::Date => DataType::Date32,
            ColumnType::Time => DataType::Time64(TimeUnit::Microsecond),
            ColumnType::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
            ColumnType::LocalTimestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            ColumnType::Duration => DataType::Interval(IntervalUnit::MonthDayNano),
            ColumnType::List(element) => DataType::new_list(element.get().arrow(), true),
            ColumnType::Nested(_) => match self.element() {
                Some(element) => DataType::new_list(element.arrow(), true),
                None => DataType::Binary,
            },
        }
    }

    /// An Arrow field of this type that carries the Keyspan type in its metadata.
    pub fn field(self, name: &str, nullable: bool) -> Field {
        Field::new(name, self.arrow(), nullable).with_metadata(HashMap::from([self.metadata()]))
    }

    /// The Keyspan type of an Arrow field: from its metadata, else the natural one of its Arrow type.
    ///
    /// `None` for types that Keyspan has no name for (lists of lists, maps, structs, …), and for lists that are of one
    /// of Postgres' own types, such as `int2vector`.
    pub fn of_field(field: &Field) -> Option<ColumnType> {
        let name = field.metadata().get(TYPE_KEY);
        let named = name.and_then(|name| ColumnType::parse_code(name));
        match named {
            // Names, metadata and nullability of a list's items say nothing.
            Some(ty) if is_same_form(&ty.arrow(), field.data_type()) => Some(ty),
            None if name.is_some() && matches!(field.data_type(), DataType::List(_)) => None,
            _ => ColumnType::of_arrow(field.data_type()),
        }
    }

    /// [`ColumnType::of_field`] for a shared field.
    pub fn of_field_ref(field: &FieldRef) -> Option<ColumnType> {
        ColumnType::of_field(field.as_ref())
    }

    /// The natural Keyspan type of an Arrow type.
    pub fn of_arrow(ty: &DataType) -> Option<ColumnType> {
        Some(match ty {
            DataType::Boolean => ColumnType::Boolean,
            DataType::Int8 => ColumnType::TinyInt,
            DataType::Int16 | DataType::UInt8 => ColumnType::SmallInt,
            DataType::Int32 | DataType::UInt16 => ColumnType::Int,
            DataType::Int64 | DataType::UInt32 => ColumnType::BigInt,
            DataType::UInt64 => ColumnType::VarInt,
            DataType::Float16 | DataType::Float32 => ColumnType::Real,
            DataType::Float64 => ColumnType::Double,
            DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) => {
                ColumnType::Decimal { precision: *p, scale: *s }
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ColumnType::Text,
            DataType::Dictionary(_, value) => return ColumnType::of_arrow(value),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => ColumnType::Blob,
            DataType::FixedSizeBinary(16) => ColumnType::Uuid,
            DataType::Date32 | DataType::Date64 => ColumnType::Date,
            DataType::Time32(_) | DataType::Time64(_) => ColumnType::Time,
            DataType::Timestamp(_, Some(_)) => ColumnType::Timestamp,
            DataType::Timestamp(_, None) => ColumnType::LocalTimestamp,
            DataType::Interval(_) | DataType::Duration(_) => ColumnType::Duration,
            DataType::FixedSizeList(item, dimension)
                if matches!(item.data_type(), DataType::Float16 | DataType::Float32) =>
            {
                return ColumnType::vector(i64::from(*dimension)).ok();
            }
            DataType::List(item) => match ColumnType::of_field(item)? {
                element if element.is_scalar() => ColumnType::list(element),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Whether the type may stand in a row key, and why not if it may not.
    pub fn allowed_in_key(self) -> Result<()> {
        match self {
            ColumnType::Duration => Err(Error::new(
                ErrorKind::InvalidTableDefinition,
                "duration type is not supported for PRIMARY KEY columns",
            )
            .with_detail("a month has no fixed length, so durations have no order")),
            ColumnType::Json | ColumnType::Jsonb => {
                let message = format!("{} type is not supported for PRIMARY KEY columns", self.name());
                Err(Error::new(ErrorKind::InvalidTableDefinition, message))
            }
            ColumnType::List(element) => element.get().allowed_in_key(),
            ColumnType::Nested(nested) => nested.get().parts().into_iter().try_for_each(ColumnType::allowed_in_key),
            _ => Ok(()),
        }
    }

    /// Whether Arrow's order of the type is the row key's order, so that a scan may declare it.
    pub fn arrow_order_is_key_order(self) -> bool {
        use ColumnType as C;
        !matches!(self, C::TimeUuid | C::Inet | C::Duration | C::Json | C::Jsonb | C::List(_) | C::Nested(_))
    }

    /// The type that [`ColumnType::metadata`] tells.
    pub fn parse_code(code: &str) -> Option<ColumnType> {
        match code.starts_with('{') {
            true => serde_json::from_str(code).ok().map(ColumnType::Nested),
            false if code == "variant" => Some(ColumnType::variant()),
            false => ColumnType::parse_canonical(code),
        }
    }

    /// The type with this canonical name ([`ColumnType::name`]).
    pub fn parse_canonical(name: &str) -> Option<ColumnType> {
        if let Some(element) = name.strip_suffix("[]") {
            return ColumnType::parse_canonical(element)?.into_list().ok();
        }
        match name.split_once('(') {
            Some((base, rest)) => {
                let arguments: Vec<i64> =
                    rest.trim_end_matches(')').split(',').filter_map(|part| part.trim().parse().ok()).collect();
                ColumnType::parse(base, &arguments).ok()
            }
            None => ColumnType::parse(name, &[]).ok(),
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Whether two Arrow types hold the same values in the same form.
fn is_same_form(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::List(a), DataType::List(b)) => is_same_form(a.data_type(), b.data_type()),
        (a, b) => a == b,
    }
}

const NAMES: &[&str] = &[
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "bytea",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "integer",
    "interval",
    "json",
    "jsonb",
    "numeric",
    "real",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "timeuuid",
    "tinyint",
    "uuid",
    "varchar",
    "varint",
    "vector",
];

fn decimal(arguments: &[i64]) -> Result<ColumnType> {
    let (precision, scale) = match arguments {
        [] => return Ok(ColumnType::Decimal { precision: DECIMAL_DIGITS, scale: DECIMAL_SCALE }),
        [precision] => (*precision, 0),
        [precision, scale, ..] => (*precision, *scale),
    };
    if !(1..=i64::from(DECIMAL_DIGITS)).contains(&precision) {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("NUMERIC precision {precision} must be between 1 and {DECIMAL_DIGITS}"),
        ));
    }
    if !(0..=precision).contains(&scale) {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("NUMERIC scale {scale} must be between 0 and precision {precision}"),
        ));
    }
    Ok(ColumnType::Decimal { precision: precision as u8, scale: scale as i8 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_canonical_name_parses_back_and_survives_a_field() {
        let types = [
            ColumnType::Boolean,
            ColumnType::TinyInt,
            ColumnType::VarInt,
            ColumnType::Real,
            ColumnType::Double,
            ColumnType::Decimal { precision: 10, scale: 2 },
            ColumnType::Decimal { precision: 38, scale: 10 },
            ColumnType::Ascii,
            ColumnType::TimeUuid,
            ColumnType::LocalTimestamp,
            ColumnType::Inet,
            ColumnType::Json,
            ColumnType::Jsonb,
            ColumnType::list(ColumnType::Int),
            ColumnType::list(ColumnType::TimeUuid),
            ColumnType::list(ColumnType::Decimal { precision: 10, scale: 2 }),
            ColumnType::list(ColumnType::LocalTimestamp),
        ];
        for ty in types {
            assert_eq!(ColumnType::of_field(&ty.field("c", true)), Some(ty));
        }
    }

    #[test]
    fn a_list_is_kept_by_its_elements_and_has_one_dimension() {
        let ty = ColumnType::list(ColumnType::Decimal { precision: 10, scale: 2 });
        let json = serde_json::to_string(&ty).expect("a type has JSON");
        assert_eq!(json, r#"{"list":{"decimal":{"precision":10,"scale":2}}}"#);
        assert_eq!(serde_json::from_str::<ColumnType>(&json).expect("the type"), ty);
        assert_eq!(ColumnType::parse("numeric[]", &[10, 2]), Ok(ty));
        assert_eq!(ColumnType::parse("int[][]", &[]).expect_err("two dimensions").sqlstate(), "0A000");
    }

    #[test]
    fn unknown_type_names_the_nearest() {
        let error = ColumnType::parse("timestmp", &[]).expect_err("no such type");
        assert_eq!(error.hint.as_deref(), Some("Perhaps you meant \"timestamp\"."));
    }
}
