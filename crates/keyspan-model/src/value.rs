//! One typed value and the total order of values.
//!
//! The order is the order of row keys: [`crate::key`] writes bytes that sort as [`Value::compare_as`] says. Text forms
//! live in `text` and [`crate::display`], casts in `cast`.

use std::cmp::Ordering;
use std::net::IpAddr;

use uuid::Uuid;

use crate::number::{DecimalParts, fits_precision};
use crate::types::{ColumnType, DECIMAL_DIGITS, Nested};

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
    /// A list: each element a value of the list's element type, or null. A set: sorted, each element once, none null.
    List(Vec<Value>),
    /// A map: sorted by key, each key once; nothing is null.
    Map(Vec<(Value, Value)>),
    /// A tuple or a user type: a value, or null, for each of its types.
    Tuple(Vec<Value>),
    /// A variant: a value that keeps its own type ([`Value::into_variant`]); never null.
    Variant(Box<Value>),
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),* $(,)?) => {
        $(impl From<$from> for Value {
            fn from(value: $from) -> Value {
                Value::$variant(value.into())
            }
        })*
    };
}

value_from!(
    bool => Boolean, i8 => TinyInt, i16 => SmallInt, i32 => Int, i64 => BigInt, f32 => Real, f64 => Double,
    &str => Text, String => Text, &[u8] => Blob, Vec<u8> => Blob, Uuid => Uuid, IpAddr => Inet,
);

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

impl Value {
    /// Whether this is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The one form of a float: −0.0 becomes 0.0 and every NaN the same NaN. Other values are returned as they are.
    pub fn canonical(self) -> Value {
        match self {
            Value::Real(value) => Value::Real(canonical_real(value)),
            Value::Double(value) => Value::Double(canonical_double(value)),
            Value::List(elements) => Value::List(elements.into_iter().map(Value::canonical).collect()),
            Value::Tuple(fields) => Value::Tuple(fields.into_iter().map(Value::canonical).collect()),
            Value::Map(entries) => {
                Value::Map(entries.into_iter().map(|(key, value)| (key.canonical(), value.canonical())).collect())
            }
            other => other,
        }
    }

    /// The type that a value has when no column says otherwise; `None` for null.
    ///
    /// A text is `text`, a UUID `uuid`, an instant `timestamp`, a number with digits after the point `decimal(38, s)`. A
    /// list is of its first element that is not null; `text[]` if there is none.
    pub fn natural_type(&self) -> Option<ColumnType> {
        Some(match self {
            Value::Null => return None,
            Value::Boolean(_) => ColumnType::Boolean,
            Value::TinyInt(_) => ColumnType::TinyInt,
            Value::SmallInt(_) => ColumnType::SmallInt,
            Value::Int(_) => ColumnType::Int,
            Value::BigInt(_) => ColumnType::BigInt,
            Value::Decimal(_, scale) => ColumnType::Decimal { precision: DECIMAL_DIGITS, scale: *scale },
            Value::Real(_) => ColumnType::Real,
            Value::Double(_) => ColumnType::Double,
            Value::Text(_) => ColumnType::Text,
            Value::Blob(_) => ColumnType::Blob,
            Value::Uuid(_) => ColumnType::Uuid,
            Value::Date(_) => ColumnType::Date,
            Value::Time(_) => ColumnType::Time,
            Value::Timestamp(_) => ColumnType::Timestamp,
            Value::Duration(..) => ColumnType::Duration,
            Value::Inet(_) => ColumnType::Inet,
            Value::List(elements) => {
                ColumnType::frozen_list(elements.iter().find_map(Value::natural_type).unwrap_or(ColumnType::Text))
            }
            Value::Map(entries) => {
                let first = |part: fn(&(Value, Value)) -> &Value| {
                    entries.iter().map(part).find_map(Value::natural_type).unwrap_or(ColumnType::Text)
                };
                ColumnType::nested(Nested::Map(first(|(key, _)| key), first(|(_, value)| value)))
            }
            Value::Variant(_) => ColumnType::variant(),
            Value::Tuple(fields) => {
                let types = fields.iter().map(|field| field.natural_type().unwrap_or(ColumnType::Text));
                ColumnType::nested(Nested::Tuple(types.collect()))
            }
        })
    }

    /// The tag that the value has in a variant, and its type; `None` if a variant does not hold it.
    pub(crate) fn variant_tag(&self) -> Option<(u8, ColumnType)> {
        let ty = self.natural_type()?;
        Some((ty.variant_tag()?, ty))
    }

    /// Whether a column of type `ty` can hold this value exactly as it is. Null fits every type.
    ///
    /// A decimal must have the column's scale and at most its digits, an ascii text only ASCII characters, a timeuuid
    /// version 1. That a json text is JSON is checked where text becomes json ([`Value::cast`], [`Value::parse`]).
    pub fn fits(&self, ty: ColumnType) -> bool {
        match (self, ty) {
            (Value::Null, _) => true,
            (Value::Decimal(digits, 0), ColumnType::VarInt) => fits_precision(*digits, DECIMAL_DIGITS),
            (Value::Decimal(digits, own), ColumnType::Decimal { precision, scale }) => {
                *own == scale && fits_precision(*digits, precision)
            }
            (Value::Text(text), ColumnType::Ascii) => text.is_ascii(),
            (Value::Text(_), ColumnType::Text | ColumnType::Json | ColumnType::Jsonb) => true,
            (Value::Uuid(uuid), ColumnType::TimeUuid) => is_timeuuid(uuid),
            (Value::Timestamp(_), ColumnType::LocalTimestamp) => true,
            (Value::List(elements), ColumnType::List(element)) => {
                elements.iter().all(|value| value.fits(element.get()))
            }
            (value, ColumnType::Nested(nested)) => value.fits_nested(nested.get()),
            (Value::Decimal(..) | Value::List(_) | Value::Map(_) | Value::Tuple(_) | Value::Variant(_), _) => false,
            (value, ty) => value.natural_type() == Some(ty),
        }
    }

    fn fits_nested(&self, ty: &Nested) -> bool {
        let ascend = |keys: &mut dyn Iterator<Item = &Value>, ty: ColumnType| {
            keys.map(Some)
                .try_fold(None::<&Value>, |before, key| {
                    let key = key?;
                    let after = before.is_none_or(|before| Value::compare_as(ty, before, key).is_lt());
                    (after && !key.is_null() && key.fits(ty)).then_some(Some(key))
                })
                .is_some()
        };
        match (self, ty) {
            (Value::List(elements), Nested::List(element)) => elements.iter().all(|value| value.fits(*element)),
            (Value::List(elements), Nested::Set(element)) => ascend(&mut elements.iter(), *element),
            (Value::Map(entries), Nested::Map(key, value)) => {
                let fits = |(_, each): &(Value, Value)| !each.is_null() && each.fits(*value);
                entries.iter().all(fits) && ascend(&mut entries.iter().map(|(key, _)| key), *key)
            }
            (Value::Variant(held), Nested::Variant) => held.variant_tag().is_some(),
            (Value::List(elements), Nested::Vector(dimension)) => {
                let finite = |value: &Value| matches!(value, Value::Real(value) if value.is_finite());
                elements.len() == usize::from(*dimension) && elements.iter().all(finite)
            }
            (Value::Tuple(fields), ty) => ty.fields().is_some_and(|types| {
                // A user type may have got fields since the value was made.
                let all = types.len() == fields.len() || matches!(ty, Nested::User(_)) && fields.len() < types.len();
                all && fields.iter().zip(types).all(|(field, ty)| field.fits(ty))
            }),
            _ => false,
        }
    }

    /// The total order of values of one type, which is the order of row keys for every type but timeuuid
    /// ([`Value::compare_as`]).
    ///
    /// NaN is the greatest number, as in Postgres; numbers of different types and scales compare by value; durations
    /// compare as Postgres' intervals do (a month is 30 days, a day 24 hours); null is greater than all. Values of
    /// types that have nothing in common are ordered by type, so that sorting never fails. Lists compare element by
    /// element, a longer one after its own beginning, as in Postgres; maps so by their keys and values. In a tuple null
    /// comes first, as in Cassandra.
    pub fn compare(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Null, Value::Null) => Ordering::Equal,
            (Value::Boolean(a), Value::Boolean(b)) => a.cmp(b),
            (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Value::Blob(a), Value::Blob(b)) => a.cmp(b),
            (Value::Uuid(a), Value::Uuid(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Value::Date(a), Value::Date(b)) => a.cmp(b),
            (Value::Time(a), Value::Time(b)) | (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
            (Value::Duration(am, ad, an), Value::Duration(bm, bd, bn)) => {
                interval_length(*am, *ad, *an).cmp(&interval_length(*bm, *bd, *bn))
            }
            (Value::Inet(a), Value::Inet(b)) => a.cmp(b),
            (Value::List(a), Value::List(b)) => compare_lists(a, b, Value::compare),
            (Value::Map(a), Value::Map(b)) => compare_lists(a, b, |(a, x), (b, y)| a.compare(b).then(x.compare(y))),
            (Value::Tuple(a), Value::Tuple(b)) => compare_fields(a, b, |_, a, b| a.compare(b)),
            (Value::Variant(a), Value::Variant(b)) => {
                let tag = |value: &Value| value.variant_tag().map(|(tag, _)| tag);
                tag(a).cmp(&tag(b)).then_with(|| a.compare(b))
            }
            (a, b) => match (a.number(), b.number()) {
                (Some(a), Some(b)) => a.compare(b),
                _ => a.rank().cmp(&b.rank()),
            },
        }
    }

    /// The order of two values of a column of type `ty`, equal to the order of their key bytes: as
    /// [`Value::compare`], but a timeuuid is ordered by its time, then by its bytes.
    pub fn compare_as(ty: ColumnType, a: &Value, b: &Value) -> Ordering {
        match (ty, a, b) {
            (ColumnType::TimeUuid, Value::Uuid(a), Value::Uuid(b)) => {
                timeuuid_time(a).cmp(&timeuuid_time(b)).then_with(|| a.as_bytes().cmp(b.as_bytes()))
            }
            (ColumnType::List(element), Value::List(a), Value::List(b)) => {
                compare_lists(a, b, |a, b| Value::compare_as(element.get(), a, b))
            }
            (ColumnType::Nested(nested), a, b) => Value::compare_nested(nested.get(), a, b),
            _ => a.compare(b),
        }
    }

    fn compare_nested(ty: &Nested, a: &Value, b: &Value) -> Ordering {
        match (ty, a, b) {
            (Nested::List(element) | Nested::Set(element), Value::List(a), Value::List(b)) => {
                compare_lists(a, b, |a, b| Value::compare_as(*element, a, b))
            }
            (Nested::Map(key, value), Value::Map(a), Value::Map(b)) => compare_lists(a, b, |(a, x), (b, y)| {
                Value::compare_as(*key, a, b).then_with(|| Value::compare_as(*value, x, y))
            }),
            (Nested::Tuple(_) | Nested::User(_), Value::Tuple(a), Value::Tuple(b)) => {
                let types = ty.parts();
                compare_fields(a, b, |at, a, b| match types.get(at) {
                    Some(ty) => Value::compare_as(*ty, a, b),
                    None => a.compare(b),
                })
            }
            _ => a.compare(b),
        }
    }

    fn number(&self) -> Option<Number> {
        Some(match self {
            Value::TinyInt(value) => Number::Exact(i128::from(*value), 0),
            Value::SmallInt(value) => Number::Exact(i128::from(*value), 0),
            Value::Int(value) => Number::Exact(i128::from(*value), 0),
            Value::BigInt(value) => Number::Exact(i128::from(*value), 0),
            Value::Decimal(digits, scale) => Number::Exact(*digits, *scale),
            Value::Real(value) => Number::Float(f64::from(*value)),
            Value::Double(value) => Number::Float(*value),
            _ => return None,
        })
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Boolean(_) => 0,
            Value::TinyInt(_) | Value::SmallInt(_) | Value::Int(_) | Value::BigInt(_) | Value::Decimal(..) => 1,
            Value::Real(_) | Value::Double(_) => 1,
            Value::Text(_) => 2,
            Value::Blob(_) => 3,
            Value::Uuid(_) => 4,
            Value::Date(_) => 5,
            Value::Time(_) => 6,
            Value::Timestamp(_) => 7,
            Value::Duration(..) => 8,
            Value::Inet(_) => 9,
            Value::List(_) => 10,
            Value::Map(_) => 11,
            Value::Tuple(_) => 12,
            Value::Variant(_) => 13,
            Value::Null => 14,
        }
    }
}

fn compare_lists<T>(a: &[T], b: &[T], compare: impl Fn(&T, &T) -> Ordering) -> Ordering {
    let differing = a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|order| order.is_ne());
    differing.unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// Fields that are missing at the end are null, and null comes first.
fn compare_fields(a: &[Value], b: &[Value], compare: impl Fn(usize, &Value, &Value) -> Ordering) -> Ordering {
    let each = (0..a.len().max(b.len())).map(|at| {
        let (a, b) = (a.get(at).unwrap_or(&Value::Null), b.get(at).unwrap_or(&Value::Null));
        b.is_null().cmp(&a.is_null()).then_with(|| compare(at, a, b))
    });
    each.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

enum Number {
    Exact(i128, i8),
    Float(f64),
}

impl Number {
    fn compare(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Exact(a, sa), Number::Exact(b, sb)) if sa == sb => a.cmp(&b),
            (Number::Exact(a, sa), Number::Exact(b, sb)) => DecimalParts::of(a, sa).cmp(&DecimalParts::of(b, sb)),
            (Number::Float(a), Number::Float(b)) => canonical_double(a).total_cmp(&canonical_double(b)),
            (Number::Float(a), Number::Exact(b, scale)) => float_against_exact(a, b, scale),
            (Number::Exact(a, scale), Number::Float(b)) => float_against_exact(b, a, scale).reverse(),
        }
    }
}

fn float_against_exact(float: f64, digits: i128, scale: i8) -> Ordering {
    if float.is_nan() || float >= i128::MAX as f64 {
        return Ordering::Greater;
    }
    if float <= i128::MIN as f64 {
        return Ordering::Less;
    }
    let exact = DecimalParts::of(digits, scale);
    let floor = float.floor();
    (floor as i128).cmp(&exact.floor).then_with(|| (float - floor).total_cmp(&exact.fraction_as_double()))
}

/// Nanoseconds, a month being 30 days and a day 24 hours: by it Postgres compares intervals.
pub fn interval_length(months: i32, days: i32, nanoseconds: i64) -> i128 {
    let days = i128::from(months) * 30 + i128::from(days);
    days * 86_400_000_000_000 + i128::from(nanoseconds)
}

/// The one form of a 4-byte float: see [`Value::canonical`].
pub fn canonical_real(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value + 0.0 }
}

/// The one form of an 8-byte float: see [`Value::canonical`].
pub fn canonical_double(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

/// A number for each 8-byte float, the larger the greater it is: NaN is the greatest.
pub fn double_rank(value: f64) -> u64 {
    let bits = canonical_double(value).to_bits();
    if bits >> 63 == 1 { !bits } else { bits ^ 1 << 63 }
}

/// The inverse of [`double_rank`].
pub fn double_of_rank(rank: u64) -> f64 {
    f64::from_bits(if rank >> 63 == 1 { rank ^ 1 << 63 } else { !rank })
}

/// The 60-bit time of a version 1 UUID: units of 100 ns since 1582-10-15.
pub fn timeuuid_time(uuid: &Uuid) -> u64 {
    let b = uuid.as_bytes();
    u64::from_be_bytes([b[6] & 0x0f, b[7], b[4], b[5], b[0], b[1], b[2], b[3]])
}

/// Whether a UUID is a timeuuid: version 1.
pub fn is_timeuuid(uuid: &Uuid) -> bool {
    uuid.get_version_num() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_nan_have_one_form() {
        let Value::Double(zero) = Value::Double(-0.0).canonical() else { panic!("not a double") };
        assert!(zero.is_sign_positive());
        assert_eq!(canonical_double(-f64::NAN).to_bits(), f64::NAN.to_bits());
        assert_eq!(canonical_real(-f32::NAN).to_bits(), f32::NAN.to_bits());
    }

    #[test]
    fn numbers_compare_by_value_whatever_their_type() {
        let sorted = [
            Value::Double(f64::NEG_INFINITY),
            Value::Decimal(i128::MIN + 1, 0),
            Value::Int(-2),
            Value::Decimal(-15, 1),
            Value::Double(-1.25),
            Value::Decimal(0, 3),
            Value::Decimal(101, 2),
            Value::BigInt(9_007_199_254_740_993),
            Value::Double(f64::INFINITY),
            Value::Double(f64::NAN),
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(a.compare(b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
        assert_eq!(Value::Decimal(10, 1).compare(&Value::Decimal(100, 2)), Ordering::Equal);
        assert_eq!(
            Value::BigInt(9_007_199_254_740_993).compare(&Value::Double(9_007_199_254_740_992.0)),
            Ordering::Greater
        );
    }

    #[test]
    fn timeuuids_are_ordered_by_time_first() {
        let early: Uuid = "ffffffff-0000-1000-8000-000000000000".parse().expect("a uuid");
        let late: Uuid = "00000000-0001-1000-8000-000000000000".parse().expect("a uuid");
        let (early, late) = (Value::Uuid(early), Value::Uuid(late));
        assert_eq!(Value::compare_as(ColumnType::TimeUuid, &early, &late), Ordering::Less);
        assert_eq!(Value::compare_as(ColumnType::Uuid, &early, &late), Ordering::Greater);
    }

    #[test]
    fn lists_are_ordered_by_their_elements_then_by_length() {
        let list = |elements: &[Option<i32>]| {
            Value::List(elements.iter().map(|element| element.map_or(Value::Null, Value::Int)).collect())
        };
        let sorted = [&[][..], &[Some(1)], &[Some(1), Some(5)], &[Some(1), None], &[Some(2)], &[None]].map(list);
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                assert_eq!(a.compare(b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn a_value_fits_only_its_type() {
        let list = Value::List(vec![Value::Int(1), Value::Null]);
        assert!(list.fits(ColumnType::list(ColumnType::Int)));
        assert!(!list.fits(ColumnType::list(ColumnType::BigInt)));
        assert!(Value::Decimal(12345, 2).fits(ColumnType::Decimal { precision: 5, scale: 2 }));
        assert!(!Value::Decimal(123456, 2).fits(ColumnType::Decimal { precision: 5, scale: 2 }));
        assert!(!Value::Decimal(12345, 1).fits(ColumnType::Decimal { precision: 5, scale: 2 }));
        assert!(!Value::Text("é".into()).fits(ColumnType::Ascii));
        assert!(!Value::Int(1).fits(ColumnType::BigInt));
        assert!(!Value::Uuid(Uuid::nil()).fits(ColumnType::TimeUuid));
    }
}
