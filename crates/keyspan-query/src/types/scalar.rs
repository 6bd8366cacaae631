//! DataFusion's scalars and Keyspan's values, each into the other.
//!
//! The rule kept: a scalar becomes a value only if the value is exactly the scalar, in the column's own type.

use std::sync::Arc;

use arrow::array::Array;
use datafusion::common::ScalarValue;
use keyspan_model::{ColumnType, Result, Value, array_of, value_at};

use crate::error::from_datafusion;

/// The scalar as a value of a column of type `ty`; `None` if it is of another type or does not fit exactly.
pub fn value_of(scalar: &ScalarValue, ty: ColumnType) -> Option<Value> {
    if scalar.is_null() {
        return Some(Value::Null);
    }
    let value = match (scalar, ty) {
        (
            ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) | ScalarValue::LargeUtf8(Some(text)),
            ty,
        ) => text_value(text, ty)?,
        (ScalarValue::Binary(Some(bytes)) | ScalarValue::BinaryView(Some(bytes)), ColumnType::Blob) => {
            Value::Blob(bytes.clone())
        }
        (ScalarValue::Dictionary(_, inner), ty) => return value_of(inner, ty),
        (scalar, ty) if scalar.data_type() == ty.arrow() => {
            let array = scalar.to_array().ok()?;
            value_at(array.as_ref(), 0, ty).ok()?
        }
        (scalar, ColumnType::Timestamp | ColumnType::LocalTimestamp) => instant(scalar, ty)?,
        _ => return None,
    };
    value.fits(ty).then(|| value.canonical())
}

fn text_value(text: &str, ty: ColumnType) -> Option<Value> {
    match ty {
        ColumnType::Text | ColumnType::Ascii | ColumnType::Json | ColumnType::Jsonb => {
            Some(Value::Text(text.to_owned()))
        }
        ColumnType::Inet => Value::parse(text, ty).ok(),
        _ => None,
    }
}

/// Instants of another unit, as long as nothing is lost and both have a zone or both have none.
fn instant(scalar: &ScalarValue, ty: ColumnType) -> Option<Value> {
    let (micros, zoned) = match scalar {
        ScalarValue::TimestampSecond(Some(v), zone) => (v.checked_mul(1_000_000)?, zone.is_some()),
        ScalarValue::TimestampMillisecond(Some(v), zone) => (v.checked_mul(1000)?, zone.is_some()),
        ScalarValue::TimestampMicrosecond(Some(v), zone) => (*v, zone.is_some()),
        ScalarValue::TimestampNanosecond(Some(v), zone) if v % 1000 == 0 => (v / 1000, zone.is_some()),
        _ => return None,
    };
    (zoned == (ty == ColumnType::Timestamp)).then_some(Value::Timestamp(micros))
}

/// The value as a scalar of the type's Arrow form; a value of another type is cast first.
pub fn scalar_of(value: &Value, ty: ColumnType) -> Result<ScalarValue> {
    if value.is_null() {
        return ScalarValue::try_from(&ty.arrow()).map_err(from_datafusion);
    }
    let value = if value.fits(ty) { value.clone() } else { value.clone().cast(ty)? };
    let array: Arc<dyn Array> = array_of(ty, std::slice::from_ref(&value))?;
    ScalarValue::try_from_array(&array, 0).map_err(from_datafusion)
}
