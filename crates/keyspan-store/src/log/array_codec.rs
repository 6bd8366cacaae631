//! The rows of a bulk write in the log: one array after another, each as plain as Arrow allows.
//!
//! ```text
//! batch  = rows(varint) count { column(u32) array }*
//! array  = type  nulls(u8: 0 none, 1 some, 2 all) [bitmap]  data
//! type   = tag(u8, see `TYPES`) | 255 precision(u8) scale(i8): decimal | 254 type: list of these
//! data   = boolean: bitmap | fixed width: rows * width bytes, zero where null
//!        | varlen: rows * length(u32), then the bytes one after another; those of a list are its cell's
//! ```

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayDataBuilder, ArrayRef, AsArray, BinaryArray, BooleanArray, GenericByteBuilder, RecordBatch,
    RecordBatchOptions, StringViewBuilder, make_array, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{BinaryType, DataType, Field, Schema};
use keyspan_model::{ColumnId, ColumnType, Error, Result, cells_of_lists, lists_of_cells};

use super::wire::{ByteReader, put_varint};
use crate::format::{bad, unknown};

/// Appends the columns of a batch.
pub fn put_batch(out: &mut Vec<u8>, columns: &[ColumnId], batch: &RecordBatch) -> Result<()> {
    put_varint(out, batch.num_rows() as u64);
    put_varint(out, columns.len() as u64);
    for (column, array) in columns.iter().zip(batch.columns()) {
        out.extend_from_slice(&column.0.to_le_bytes());
        put_array(out, array)?;
    }
    Ok(())
}

/// Reads the columns of a batch. Fields are named by their column's id.
pub fn get_batch(reader: &mut ByteReader<'_>) -> Result<(Vec<ColumnId>, RecordBatch)> {
    let rows = usize::try_from(reader.varint()?).map_err(|_| bad("a batch has too many rows"))?;
    if rows / 64 > reader.remaining() {
        return Err(bad("a batch has more rows than bytes follow"));
    }
    let count = reader.count()?;
    let (mut columns, mut fields, mut arrays) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        let column = ColumnId(reader.u32()?);
        let array = get_array(reader, rows)?;
        fields.push(Field::new(column.to_string(), array.data_type().clone(), true));
        columns.push(column);
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?;
    Ok((columns, batch))
}

fn put_array(out: &mut Vec<u8>, array: &ArrayRef) -> Result<()> {
    put_type(out, array.data_type())?;
    let rows = array.len();
    let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    match &nulls {
        None => out.push(0),
        Some(nulls) if nulls.null_count() == rows => {
            out.push(2);
            return Ok(());
        }
        Some(nulls) => {
            out.push(1);
            put_bits(out, nulls.inner());
        }
    }
    match array.data_type() {
        DataType::Boolean => put_bits(out, array.as_boolean().values()),
        DataType::Utf8View => {
            put_varlen(out, array.as_string_view().iter().map(|value| value.unwrap_or("").as_bytes()))
        }
        DataType::Binary => put_varlen(out, array.as_binary::<i32>().iter().map(Option::unwrap_or_default)),
        ty @ DataType::List(_) => {
            let cells = cells_of_lists(array, list_type(ty)?)?;
            put_varlen(out, cells.iter().map(Option::unwrap_or_default));
        }
        ty => {
            let width = fixed_width(ty)?;
            let data = array.to_data();
            let start = data.offset() * width;
            let bytes = &data.buffers()[0].as_slice()[start..start + rows * width];
            put_fixed(out, bytes, width, nulls.as_ref());
        }
    }
    Ok(())
}

fn put_fixed(out: &mut Vec<u8>, bytes: &[u8], width: usize, nulls: Option<&NullBuffer>) {
    let start = out.len();
    out.extend_from_slice(bytes);
    // The value under a null is arbitrary; zeroes compress best.
    for row in nulls.into_iter().flat_map(|nulls| (0..nulls.len()).filter(|row| nulls.is_null(*row))) {
        out[start + row * width..start + (row + 1) * width].fill(0);
    }
}

fn put_bits(out: &mut Vec<u8>, bits: &BooleanBuffer) {
    let packed = bits.sliced();
    out.extend_from_slice(&packed.as_slice()[..bits.len().div_ceil(8)]);
}

fn put_varlen<'a>(out: &mut Vec<u8>, values: impl Iterator<Item = &'a [u8]> + Clone) {
    for value in values.clone() {
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    }
    for value in values {
        out.extend_from_slice(value);
    }
}

fn get_array(reader: &mut ByteReader<'_>, rows: usize) -> Result<ArrayRef> {
    let ty = get_type(reader)?;
    let nulls = match reader.u8()? {
        0 => None,
        1 => Some(NullBuffer::new(get_bits(reader, rows)?)),
        2 => return Ok(new_null_array(&ty, rows)),
        other => return Err(unknown(format!("an array with nulls of kind {other}"))),
    };
    Ok(match &ty {
        DataType::Boolean => Arc::new(BooleanArray::new(get_bits(reader, rows)?, nulls)),
        DataType::Utf8View => get_text(reader, rows, nulls.as_ref())?,
        DataType::Binary => Arc::new(get_binary(reader, rows, nulls.as_ref())?),
        DataType::List(_) => {
            let cells = get_binary(reader, rows, nulls.as_ref())?;
            lists_of_cells(&cells, list_type(&ty)?).ok_or_else(|| bad("a list is damaged"))?
        }
        fixed => {
            let length = rows.checked_mul(fixed_width(fixed)?).ok_or_else(|| bad("an array is too long"))?;
            let buffer = Buffer::from_slice_ref(reader.take(length)?);
            let builder = ArrayDataBuilder::new(ty.clone()).len(rows).nulls(nulls).add_buffer(buffer);
            let data: ArrayData = builder.build()?;
            make_array(data)
        }
    })
}

fn get_bits(reader: &mut ByteReader<'_>, rows: usize) -> Result<BooleanBuffer> {
    let buffer = Buffer::from_slice_ref(reader.take(rows.div_ceil(8))?);
    Ok(BooleanBuffer::new(buffer, 0, rows))
}

fn get_lengths<'a>(reader: &mut ByteReader<'a>, rows: usize) -> Result<impl Iterator<Item = usize> + 'a> {
    let lengths = reader.take(rows.checked_mul(4).ok_or_else(|| bad("an array is too long"))?)?;
    let lengths = lengths.chunks_exact(4);
    Ok(lengths.map(|length| u32::from_le_bytes(length.try_into().expect("four bytes")) as usize))
}

fn get_text(reader: &mut ByteReader<'_>, rows: usize, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
    let lengths = get_lengths(reader, rows)?;
    let mut builder = StringViewBuilder::with_capacity(rows);
    for (row, length) in lengths.enumerate() {
        let text = std::str::from_utf8(reader.take(length)?).map_err(|_| bad("a text is not UTF-8"))?;
        builder.append_option(nulls.is_none_or(|nulls| nulls.is_valid(row)).then_some(text));
    }
    Ok(Arc::new(builder.finish()))
}

fn get_binary(reader: &mut ByteReader<'_>, rows: usize, nulls: Option<&NullBuffer>) -> Result<BinaryArray> {
    let lengths = get_lengths(reader, rows)?;
    let mut builder = GenericByteBuilder::<BinaryType>::new();
    for (row, length) in lengths.enumerate() {
        let bytes = reader.take(length)?;
        builder.append_option(nulls.is_none_or(|nulls| nulls.is_valid(row)).then_some(bytes));
    }
    Ok(builder.finish())
}

fn fixed_width(ty: &DataType) -> Result<usize> {
    match ty {
        DataType::FixedSizeBinary(width) if *width >= 0 => Ok(*width as usize),
        ty => ty.primitive_width().ok_or_else(|| Error::internal(format!("the log cannot hold arrays of {ty}"))),
    }
}

/// The types that columns have, by their tag.
const TYPES: [ColumnType; 19] = [
    ColumnType::Boolean,
    ColumnType::TinyInt,
    ColumnType::SmallInt,
    ColumnType::Int,
    ColumnType::BigInt,
    ColumnType::VarInt,
    ColumnType::Real,
    ColumnType::Double,
    ColumnType::Text,
    ColumnType::Blob,
    ColumnType::Uuid,
    ColumnType::Date,
    ColumnType::Time,
    ColumnType::Timestamp,
    ColumnType::LocalTimestamp,
    ColumnType::Duration,
    ColumnType::Inet,
    ColumnType::TimeUuid,
    ColumnType::Ascii,
];
const DECIMAL: u8 = 255;
const LIST: u8 = 254;

/// A type whose lists have this Arrow type. Several types share one; their cells are the same.
fn list_type(ty: &DataType) -> Result<ColumnType> {
    ColumnType::of_arrow(ty).ok_or_else(|| Error::internal(format!("the log cannot hold arrays of {ty}")))
}

fn put_type(out: &mut Vec<u8>, ty: &DataType) -> Result<()> {
    if let DataType::Decimal128(precision, scale) = ty {
        out.extend_from_slice(&[DECIMAL, *precision, scale.to_le_bytes()[0]]);
        return Ok(());
    }
    if let DataType::List(item) = ty {
        out.push(LIST);
        return put_type(out, item.data_type());
    }
    let tag = TYPES.iter().position(|known| known.arrow() == *ty);
    out.push(tag.ok_or_else(|| Error::internal(format!("the log cannot hold arrays of {ty}")))? as u8);
    Ok(())
}

fn get_type(reader: &mut ByteReader<'_>) -> Result<DataType> {
    let tag = reader.u8()?;
    if tag == DECIMAL {
        return Ok(DataType::Decimal128(reader.u8()?, i8::from_le_bytes(reader.array()?)));
    }
    if tag == LIST {
        return match get_type(reader)? {
            DataType::List(_) => Err(unknown("a list of lists")),
            item => Ok(DataType::new_list(item, true)),
        };
    }
    TYPES.get(usize::from(tag)).map(|ty| ty.arrow()).ok_or_else(|| unknown(format!("an array of type {tag}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Decimal128Array, FixedSizeBinaryArray, Float64Array, Int8Array, Int64Array, ListArray, StringViewArray,
        TimestampMicrosecondArray,
    };
    use arrow::datatypes::Int32Type;

    #[test]
    fn every_array_is_read_back_also_from_a_slice() {
        let uuids = FixedSizeBinaryArray::try_from_sparse_iter_with_size(
            [Some([1u8; 16]), None, Some([3; 16])].into_iter(),
            16,
        );
        let decimals = Decimal128Array::from(vec![Some(1), None, Some(-3)]).with_precision_and_scale(10, 2);
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
            Arc::new(Int8Array::from(vec![1, 2, 3])),
            Arc::new(Float64Array::from(vec![Some(0.5), None, Some(f64::NAN)])),
            Arc::new(StringViewArray::from(vec![Some("a"), None, Some("longer than twelve bytes")])),
            Arc::new(BinaryArray::from(vec![Some(b"".as_slice()), Some(b"xy"), None])),
            Arc::new(uuids.expect("sixteen bytes each")),
            Arc::new(decimals.expect("fits")),
            Arc::new(TimestampMicrosecondArray::from(vec![1, 2, 3]).with_timezone("UTC")),
            new_null_array(&DataType::Utf8View, 3),
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
                Some(vec![Some(1), None]),
                None,
                Some(vec![]),
            ])),
            new_null_array(&DataType::new_list(DataType::Utf8View, true), 3),
        ];
        let columns: Vec<ColumnId> = (0..arrays.len() as u32).map(ColumnId).collect();
        let fields: Vec<Field> = columns
            .iter()
            .zip(&arrays)
            .map(|(id, array)| Field::new(id.to_string(), array.data_type().clone(), true))
            .collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("equal lengths");
        let twice = arrow::compute::concat_batches(&batch.schema(), [&batch, &batch]).expect("one schema");
        for batch in [batch.clone(), batch.slice(1, 2), batch.slice(0, 0), twice.slice(1, 5), twice] {
            let mut bytes = Vec::new();
            put_batch(&mut bytes, &columns, &batch).expect("encodes");
            let (read, decoded) = get_batch(&mut ByteReader::new(&bytes)).expect("decodes");
            assert_eq!((read, &decoded), (columns.clone(), &batch));
            for length in 0..bytes.len() {
                get_batch(&mut ByteReader::new(&bytes[..length])).expect_err("too short");
            }
        }
    }

    #[test]
    fn what_stands_under_a_null_is_not_written() {
        let nulls = NullBuffer::from(vec![true, false, true]);
        let written = |under: i64| {
            let array: ArrayRef = Arc::new(Int64Array::new(vec![1, under, 3].into(), Some(nulls.clone())));
            let mut out = Vec::new();
            put_array(&mut out, &array).expect("encodes");
            out
        };
        assert_eq!(written(7), written(i64::MIN));
    }

    #[test]
    fn a_batch_that_claims_more_rows_than_there_can_be_is_refused_before_any_memory_is_taken() {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, 1 << 40);
        put_varint(&mut bytes, 1);
        bytes.extend_from_slice(&1u32.to_le_bytes());
        put_type(&mut bytes, &DataType::Int64).expect("a type");
        bytes.push(2);
        let error = get_batch(&mut ByteReader::new(&bytes)).expect_err("no such batch");
        assert!(error.message.contains("more rows than bytes"), "{error}");
    }
}
