//! Vectors, whole arrays at once: their cells, and other lists of numbers as vectors.
//!
//! ```text
//! cell = f32*     big endian, as Cassandra's serialization of vector<float, n> has them
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Float32Array, ListArray};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float32Type};

use crate::error::{Error, ErrorKind, Result};
use crate::value::canonical_real;

const WIDTH: usize = size_of::<f32>();

/// Each vector as the bytes of a cell.
pub(super) fn cells_of_vectors(array: &ArrayRef) -> Result<BinaryArray> {
    let lists = array.as_list_opt::<i32>().filter(|lists| lists.value_type() == DataType::Float32);
    let lists = lists.ok_or_else(|| Error::internal(format!("vectors in an array of {}", array.data_type())))?;
    let floats = lists.values().as_primitive::<Float32Type>().values();
    let offsets = lists.value_offsets();
    let mut bytes = Vec::with_capacity((offsets[lists.len()] - offsets[0]) as usize * WIDTH);
    let mut ends = Vec::with_capacity(lists.len() + 1);
    ends.push(0_i32);
    for (row, pair) in offsets.windows(2).enumerate() {
        if lists.is_valid(row) {
            let own = &floats[pair[0] as usize..pair[1] as usize];
            bytes.extend(own.iter().flat_map(|value| canonical_real(*value).to_be_bytes()));
        }
        ends.push(i32::try_from(bytes.len()).map_err(|_| too_many())?);
    }
    Ok(BinaryArray::new(OffsetBuffer::new(ends.into()), Buffer::from_vec(bytes), lists.nulls().cloned()))
}

/// The vectors that these cells hold; `None` if one is not of so many elements.
pub(super) fn vectors_of_cells(cells: &BinaryArray, dimension: usize) -> Option<ArrayRef> {
    let offsets = cells.value_offsets();
    let length = |row: usize| (offsets[row + 1] - offsets[row]) as usize;
    let fits = |row: usize| cells.is_null(row) || length(row) == dimension * WIDTH;
    if !(0..cells.len()).all(fits) {
        return None;
    }
    let bytes = &cells.value_data()[offsets[0] as usize..offsets[cells.len()] as usize];
    let floats: Vec<f32> = match (bytes.len().is_multiple_of(WIDTH), cells.null_count()) {
        (true, 0) => bytes.chunks_exact(WIDTH).map(float).collect(),
        _ => {
            let valid = (0..cells.len()).filter(|row| cells.is_valid(*row));
            valid.flat_map(|row| cells.value(row).chunks_exact(WIDTH).map(float)).collect()
        }
    };
    let lengths = (0..cells.len()).map(|row| if cells.is_null(row) { 0 } else { dimension });
    Some(Arc::new(lists(OffsetBuffer::from_lengths(lengths), Float32Array::from(floats), cells)))
}

fn float(bytes: &[u8]) -> f32 {
    f32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn lists(offsets: OffsetBuffer<i32>, floats: Float32Array, nulls: &dyn Array) -> ListArray {
    let field = Arc::new(Field::new_list_field(DataType::Float32, true));
    ListArray::new(field, offsets, Arc::new(floats), nulls.nulls().cloned())
}

/// Lists of floats, of any of Arrow's forms, as vectors of so many elements; `None` for what is to be cast value by
/// value, for its errors' sake as well.
pub(super) fn coerced(array: &ArrayRef, dimension: usize) -> Option<Result<ArrayRef>> {
    let (DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item)) = array.data_type()
    else {
        return None;
    };
    if !matches!(item.data_type(), DataType::Float16 | DataType::Float32) {
        return None;
    }
    let list = DataType::List(Arc::new(Field::new_list_field(DataType::Float32, true)));
    let plain = match cast(array, &list) {
        Ok(plain) => plain,
        Err(error) => return Some(Err(error.into())),
    };
    let plain = plain.as_list_opt::<i32>()?;
    let floats = plain.values().as_primitive_opt::<Float32Type>()?;
    let offsets = plain.value_offsets();
    for row in (0..plain.len()).filter(|row| plain.is_valid(*row)) {
        let own = offsets[row] as usize..offsets[row + 1] as usize;
        let whole = floats.null_count() == 0 || own.clone().all(|place| floats.is_valid(place));
        if own.len() != dimension || !whole || !floats.values()[own].iter().all(|value| value.is_finite()) {
            return None;
        }
    }
    Some(Ok(Arc::new(lists(plain.offsets().clone(), floats.unary::<_, Float32Type>(canonical_real), plain))))
}

fn too_many() -> Error {
    Error::new(ErrorKind::LimitExceeded, "the vectors of a batch have too many elements")
}

#[cfg(test)]
mod tests {
    use arrow::array::FixedSizeListArray;

    use super::*;
    use crate::array::{array_of, cells_of_lists, coerce, lists_of_cells, value_at};
    use crate::types::ColumnType;
    use crate::value::Value;

    fn vector(elements: &[f32]) -> Value {
        Value::List(elements.iter().map(|each| Value::Real(*each)).collect())
    }

    #[test]
    fn cells_hold_four_bytes_for_each_element() {
        let ty = ColumnType::vector(3).expect("a type");
        let values = [vector(&[1.0, -2.5, 0.0]), Value::Null, vector(&[3.0, 4.0, 5.0])];
        let array = array_of(ty, &values).expect("an array");
        let cells = cells_of_lists(&array, ty).expect("cells");
        assert_eq!((cells.value(0).len(), cells.value_length(1)), (12, 0));
        assert_eq!(cells.value(0)[..4], 1.0_f32.to_be_bytes());
        for (from, count) in [(0, 3), (1, 2), (2, 1)] {
            let read = lists_of_cells(&cells.slice(from, count), ty).expect("vectors");
            assert_eq!(&read, &array.slice(from, count));
            let again = cells_of_lists(&array.slice(from, count), ty).expect("cells");
            assert_eq!(again, cells.slice(from, count));
        }
        assert_eq!(lists_of_cells(&cells, ColumnType::vector(2).expect("a type")), None);
        assert_eq!(value_at(&array, 2, ty), Ok(values[2].clone()));
    }

    #[test]
    fn lists_of_floats_become_vectors() {
        let ty = ColumnType::vector(2).expect("a type");
        let item = Arc::new(Field::new("x", DataType::Float32, false));
        let floats = Arc::new(Float32Array::from(vec![1.0, 2.0, -0.0, 4.0]));
        let fixed: ArrayRef = Arc::new(FixedSizeListArray::new(item, 2, floats, None));
        let vectors = coerce(&fixed, ty).expect("vectors");
        assert_eq!(vectors.data_type(), &ty.arrow());
        assert_eq!(value_at(&vectors, 1, ty), Ok(vector(&[0.0, 4.0])));
        let wider = ColumnType::vector(3).expect("a type");
        let error = coerce(&fixed, wider).expect_err("too few");
        assert_eq!((error.sqlstate(), error.message.as_str()), ("22000", "expected 3 dimensions, not 2"));
        let doubles = array_of(ColumnType::list(ColumnType::Double), &[Value::List(vec![Value::Double(1.5); 2])]);
        let vectors = coerce(&doubles.expect("an array"), ty).expect("vectors");
        assert_eq!(value_at(&vectors, 0, ty), Ok(vector(&[1.5, 1.5])));
    }

    #[test]
    fn texts_are_read_and_errors_tell_both_numbers() {
        let ty = ColumnType::vector(2).expect("a type");
        for text in ["[1, 2.5]", "{1,2.5}"] {
            let value = Value::parse(text, ty).expect(text);
            assert_eq!(value.to_text(ty), "[1, 2.5]");
            assert!(value.fits(ty));
        }
        let error = |text: &str| Value::parse(text, ty).expect_err(text).sqlstate();
        assert_eq!(
            ["[1]", "[1, null]", "[1, \"NaN\"]", "{1,NULL}", "x"].map(error),
            ["22000", "22004", "22000", "22004", "22P02"]
        );
        assert_eq!(ColumnType::vector(0).expect_err("none").sqlstate(), "22023");
        assert_eq!(ColumnType::parse_code(&ty.code()), Some(ty));
        assert_eq!(ty.name(), "vector<float, 2>");
    }
}
