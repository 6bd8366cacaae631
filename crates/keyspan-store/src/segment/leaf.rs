//! Leaves: how a column of a Keyspan type is stored in a Parquet file, and how its pages become Arrow blocks again.
//!
//! Every column is one Parquet leaf with a plain logical type, so that DuckDB, Spark and pandas read it: UTC
//! microseconds, decimals, strings, UUIDs. A duration has no lossless Parquet type and stands as 16 bytes (months,
//! days, nanoseconds; big-endian); a list is one value, its cell's bytes ([`cells_of_lists`]). The reader needs neither
//! the Parquet footer nor its indexes: a leaf is known from the column's type alone, where its pages lie from our own
//! index file.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray, FixedSizeBinaryBuilder, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, Field, Fields, IntervalMonthDayNano, IntervalMonthDayNanoType, Schema};
use keyspan_model::{ColumnType, Error, Result, cells_of_lists, lists_of_cells};
use parquet::arrow::{ArrowSchemaConverter, FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::file::metadata::{FileMetaData, ParquetMetaData};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

/// The codec of a chunk's pages. The numbers stand in index files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    /// The default: fastest to read.
    Lz4 = 0,
    /// For floats split by bytes, which compress well: many of the bytes hardly differ.
    Zstd = 1,
}

impl Codec {
    /// The codec of this number.
    pub(super) fn of(number: u8) -> Option<Codec> {
        [Codec::Lz4, Codec::Zstd].into_iter().find(|codec| *codec as u8 == number)
    }

    /// The codec that is Parquet's.
    pub(super) fn of_parquet(compression: Compression) -> Option<Codec> {
        match compression {
            Compression::LZ4_RAW => Some(Codec::Lz4),
            Compression::ZSTD(_) => Some(Codec::Zstd),
            _ => None,
        }
    }

    /// As Parquet calls it, and how hard it tries.
    pub(super) fn parquet(self) -> Compression {
        match self {
            Codec::Lz4 => Compression::LZ4_RAW,
            Codec::Zstd => Compression::ZSTD(ZstdLevel::default()),
        }
    }
}

const DURATION_BYTES: i32 = 16;

/// The Arrow type in which a column is handed to the Parquet writer and comes back from its reader.
fn stored(ty: ColumnType) -> DataType {
    match ty {
        ColumnType::Duration => DataType::FixedSizeBinary(DURATION_BYTES),
        ty if ty.element().is_some() => DataType::Binary,
        other => other.arrow(),
    }
}

/// The Arrow field that the Parquet writer is given.
pub(super) fn stored_field(name: &str, ty: ColumnType, nullable: bool) -> Field {
    Field::new(name, stored(ty), nullable)
}

/// The array as it is handed to the Parquet writer.
pub(super) fn to_stored(ty: ColumnType, array: &ArrayRef) -> Result<ArrayRef> {
    match ty {
        ty if ty.element().is_some() => return Ok(Arc::new(cells_of_lists(array, ty)?)),
        ColumnType::Duration => {}
        _ => return Ok(Arc::clone(array)),
    }
    let durations = array
        .as_primitive_opt::<IntervalMonthDayNanoType>()
        .ok_or_else(|| Error::internal(format!("a duration column holds {}", array.data_type())))?;
    let mut out = FixedSizeBinaryBuilder::with_capacity(array.len(), DURATION_BYTES);
    for duration in durations {
        match duration {
            None => out.append_null(),
            Some(value) => {
                let mut bytes = [0u8; DURATION_BYTES as usize];
                bytes[..4].copy_from_slice(&value.months.to_be_bytes());
                bytes[4..8].copy_from_slice(&value.days.to_be_bytes());
                bytes[8..].copy_from_slice(&value.nanoseconds.to_be_bytes());
                out.append_value(bytes)?;
            }
        }
    }
    Ok(Arc::new(out.finish()))
}

/// The array as the column's type wants it, from what the Parquet reader gave.
pub(super) fn from_stored(ty: ColumnType, array: ArrayRef) -> Option<ArrayRef> {
    match ty {
        ty if ty.element().is_some() => return lists_of_cells(array.as_binary_opt::<i32>()?, ty),
        ColumnType::Duration => {}
        _ => return (*array.data_type() == ty.arrow()).then_some(array),
    }
    let bytes = array.as_any().downcast_ref::<FixedSizeBinaryArray>()?;
    let duration = |value: &[u8]| -> Option<IntervalMonthDayNano> {
        let months = i32::from_be_bytes(value.get(..4)?.try_into().ok()?);
        let days = i32::from_be_bytes(value.get(4..8)?.try_into().ok()?);
        let nanoseconds = i64::from_be_bytes(value.get(8..)?.try_into().ok()?);
        Some(IntervalMonthDayNano::new(months, days, nanoseconds))
    };
    let durations: IntervalMonthDayNanoArray = bytes.iter().map(|value| value.and_then(duration)).collect();
    Some(Arc::new(durations))
}

/// The Parquet type of a column. `id` becomes its `field_id`.
pub(super) fn parquet_type(name: &str, ty: ColumnType, nullable: bool, id: Option<i32>) -> Result<TypePtr> {
    let repetition = if nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    if matches!(ty, ColumnType::Uuid | ColumnType::TimeUuid) {
        let uuid = Type::primitive_type_builder(name, PhysicalType::FIXED_LEN_BYTE_ARRAY)
            .with_length(16)
            .with_logical_type(Some(LogicalType::Uuid))
            .with_repetition(repetition)
            .with_id(id)
            .build();
        return uuid.map(Arc::new).map_err(schema_error);
    }
    let mut field = stored_field(name, ty, nullable);
    if let Some(id) = id {
        let key = parquet::arrow::PARQUET_FIELD_ID_META_KEY.to_string();
        field = field.with_metadata([(key, id.to_string())].into());
    }
    let schema = Schema::new(vec![field]);
    let descriptor = ArrowSchemaConverter::new().convert(&schema).map_err(schema_error)?;
    Ok(descriptor.root_schema().get_fields()[0].clone())
}

/// The Parquet schema of these columns.
pub(super) fn parquet_schema(columns: Vec<TypePtr>) -> Result<SchemaDescriptor> {
    let root = Type::group_type_builder("keyspan").with_fields(columns).build().map_err(schema_error)?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

fn schema_error(error: parquet::errors::ParquetError) -> Error {
    Error::internal(format!("the schema of a segment could not be built: {error}"))
}

/// One column on its own, ready to be decoded.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) ty: ColumnType,
    pub(super) nullable: bool,
    pub(super) levels: FieldLevels,
    pub(super) metadata: ParquetMetaData,
}

impl Leaf {
    /// The leaf of a column of this type.
    pub(super) fn new(ty: ColumnType, nullable: bool) -> Result<Leaf> {
        let schema = Arc::new(parquet_schema(vec![parquet_type("c", ty, nullable, None)?])?);
        let hint = Fields::from(vec![stored_field("c", ty, nullable)]);
        let levels =
            parquet_to_arrow_field_levels(&schema, ProjectionMask::all(), Some(&hint)).map_err(schema_error)?;
        let file = FileMetaData::new(2, 0, None, None, schema, None);
        Ok(Leaf { ty, nullable, levels, metadata: ParquetMetaData::new(file, Vec::new()) })
    }
}
