//! Zones: least and greatest value of a value column, in the order of row keys.
//!
//! Rule: bounds are exact and computed by us, never taken from Parquet's statistics, which truncate text, drop NaN and
//! use other orders for some types. A column whose bounds would be long has none.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BooleanArray, PrimitiveArray, StringViewArray,
};
use arrow::compute::kernels::aggregate::{max, max_boolean, max_string_view, min, min_boolean, min_string_view};
use arrow::compute::{filter, is_not_null};
use arrow::downcast_primitive_array;
use keyspan_model::{ColumnId, ColumnType, KeyColumn, KeyEncoder, Result, ValueColumn};

use super::index::ZoneMap;

/// Longest bound that is kept, in bytes.
const MAX_BOUND: usize = 256;

/// A value column as the only column of an ascending key.
pub(super) fn value_as_key(id: ColumnId, ty: ColumnType) -> KeyColumn {
    KeyColumn { id, name: "value".into(), ty, descending: false }
}

/// Encodes its values.
pub(super) fn value_encoder(id: ColumnId, ty: ColumnType) -> KeyEncoder {
    KeyEncoder::new(&[value_as_key(id, ty)])
}

/// Gathers the zone of one value column.
#[derive(Debug)]
pub(super) struct ZoneBuilder {
    ty: ColumnType,
    encoder: KeyEncoder,
    zone: ZoneMap,
}

impl ZoneBuilder {
    pub(super) fn new(column: &ValueColumn) -> ZoneBuilder {
        ZoneBuilder { ty: column.ty, encoder: value_encoder(column.id, column.ty), zone: first(column.ty) }
    }

    /// Widens the zone by these values; `None`: all null.
    pub(super) fn add(&mut self, values: Option<&ArrayRef>) {
        let Some(values) = values.filter(|values| values.null_count() < values.len()) else { return };
        if self.zone == ZoneMap::Unknown {
            return;
        }
        // A value beyond the length limit of keys cannot be encoded: then the zone is unknown.
        let found = match self.ty.arrow_order_is_key_order().then(|| extremes(values)).flatten() {
            Some((least, greatest)) => self.encode(&least).ok().zip(self.encode(&greatest).ok()),
            None => self.encoded_extremes(values).unwrap_or(None),
        };
        self.zone = match (std::mem::replace(&mut self.zone, ZoneMap::Unknown), found) {
            (_, Some((least, greatest))) if least.len().max(greatest.len()) > MAX_BOUND => ZoneMap::Unknown,
            (ZoneMap::Empty, Some((least, greatest))) => ZoneMap::Range(least, greatest),
            (ZoneMap::Range(own, owns), Some((least, greatest))) => ZoneMap::Range(own.min(least), owns.max(greatest)),
            _ => ZoneMap::Unknown,
        };
    }

    /// The zone gathered; begins the next one.
    pub(super) fn take(&mut self) -> ZoneMap {
        std::mem::replace(&mut self.zone, first(self.ty))
    }

    fn encode(&self, one: &ArrayRef) -> Result<Vec<u8>> {
        Ok(self.encoder.encode_batch(std::slice::from_ref(one))?.value(0).to_vec())
    }

    fn encoded_extremes(&self, values: &ArrayRef) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let present = filter(values, &is_not_null(values)?)?;
        let encoded: BinaryArray = self.encoder.encode_batch(&[present])?;
        let least = encoded.iter().flatten().min();
        let greatest = encoded.iter().flatten().max();
        Ok(least.zip(greatest).map(|(least, greatest)| (least.to_vec(), greatest.to_vec())))
    }
}

/// The zone of no values. Nested values have none: no query asks for a range of them, and it would cost more than it
/// saves.
fn first(ty: ColumnType) -> ZoneMap {
    if ty.is_scalar() && ty.allowed_in_key().is_ok() { ZoneMap::Empty } else { ZoneMap::Unknown }
}

/// Least and greatest value, each as an array of one; `None` where there is no quick way to them.
fn extremes(values: &ArrayRef) -> Option<(ArrayRef, ArrayRef)> {
    fn primitive<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>) -> Option<(ArrayRef, ArrayRef)>
    where
        T::Native: arrow::datatypes::ArrowNativeType + PartialOrd,
    {
        let one = |value: T::Native| -> ArrayRef {
            Arc::new(PrimitiveArray::<T>::from_value(value, 1).with_data_type(array.data_type().clone()))
        };
        Some((one(min(array)?), one(max(array)?)))
    }
    let array = values.as_ref();
    if let Some(texts) = array.as_string_view_opt() {
        let one = |text: &str| -> ArrayRef { Arc::new(StringViewArray::from(vec![text])) };
        return Some((one(min_string_view(texts)?), one(max_string_view(texts)?)));
    }
    if let Some(flags) = array.as_boolean_opt() {
        let one = |flag: bool| -> ArrayRef { Arc::new(BooleanArray::from(vec![flag])) };
        return Some((one(min_boolean(flags)?), one(max_boolean(flags)?)));
    }
    downcast_primitive_array! {
        array => primitive(array),
        _ => None,
    }
}
