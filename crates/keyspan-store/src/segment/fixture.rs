//! Rows to test segments with.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, StringViewArray, TimestampMicrosecondArray,
};
use keyspan_model::array::array_of;
use keyspan_model::types::{Nested, TypeField, TypeId, UserType};
use keyspan_model::{
    ColumnId, ColumnType, Encoding, GcRule, KeyColumn, KeyEncoder, RelationDef, RelationId, RelationKind, Result,
    Retention, SegmentId, TableId, Value, ValueColumn,
};

use super::{BlockCache, Segment, SegmentRecord, SegmentWriter, SystemPlan};
use crate::files::{Files, MemoryFiles};
use crate::run::{Bits, CellColumn, Int64s, RowColumns, RunBatch};

/// A relation with these key and value columns, numbered from 1; the last key column is the window's if it is a time.
pub(crate) fn relation(key: &[(&str, ColumnType, bool)], values: &[(&str, ColumnType)]) -> Arc<RelationDef> {
    let key_column = |(at, (name, ty, descending)): (usize, &(&str, ColumnType, bool))| KeyColumn {
        id: ColumnId(at as u32 + 1),
        name: name.to_string(),
        ty: *ty,
        descending: *descending,
    };
    let value_column = |(at, (name, ty)): (usize, &(&str, ColumnType))| ValueColumn {
        id: ColumnId((key.len() + at) as u32 + 1),
        name: name.to_string(),
        ty: *ty,
    };
    Arc::new(RelationDef {
        id: RelationId(1),
        table: TableId(1),
        kind: RelationKind::Rows,
        schema_version: 1,
        key: key.iter().enumerate().map(key_column).collect(),
        partition_len: 1,
        values: values.iter().enumerate().map(value_column).collect(),
        window: key.iter().rposition(|column| column.1 == ColumnType::Timestamp),
        gc: GcRule::default(),
        retention: Retention::default(),
        encoding: Encoding::default(),
        gc_grace: 864_000,
        indexed: vec![],
    })
}

/// Rows of (host, ts): `hosts` × `points`, one point every ten seconds.
pub(crate) fn readings() -> Arc<RelationDef> {
    relation(
        &[("host", ColumnType::Text, false), ("ts", ColumnType::Timestamp, false)],
        &[("usage", ColumnType::Double), ("region", ColumnType::Text), ("count", ColumnType::BigInt)],
    )
}

/// Plain rows of [`readings`], inserted at `ts`.
pub(crate) fn reading_rows(hosts: usize, points: usize, ts: i64) -> RunBatch {
    let rows = hosts * points;
    let host: StringViewArray = (0..rows).map(|row| Some(format!("host_{:05}", row / points))).collect();
    let time = TimestampMicrosecondArray::from_iter_values((0..rows).map(|row| (row % points) as i64 * 10_000_000));
    let usage = Float64Array::from_iter((0..rows).map(|row| (row % 7 != 0).then_some((row * 31 % 101) as f64)));
    let region: StringViewArray = (0..rows).map(|row| Some(format!("region-number-{}", row % 9))).collect();
    let count =
        Int64Array::from_iter_values((0..rows).map(|row| (row as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15u64 as i64)));
    plain(
        &readings(),
        vec![Arc::new(host), Arc::new(time.with_timezone("UTC"))],
        vec![Arc::new(usage), Arc::new(region), Arc::new(count)],
        ts,
    )
}

/// Rows inserted whole at `ts`.
pub(crate) fn plain(relation: &RelationDef, keys: Vec<ArrayRef>, values: Vec<ArrayRef>, ts: i64) -> RunBatch {
    let encoded = KeyEncoder::new(&relation.key).encode_batch(&keys).expect("keys of the relation");
    let cells = values.into_iter().map(|values| CellColumn { values: Some(values), ..CellColumn::default() });
    RunBatch {
        rows: encoded.len(),
        keys: keys.into_iter().map(Some).collect(),
        encoded: Some(encoded),
        row: RowColumns { marker: Bits::All, ts: Int64s::Constant(ts), ..RowColumns::default() },
        cells: cells.collect(),
    }
}

/// Writes one segment of these batches.
pub(crate) fn write(
    files: &Arc<dyn Files>,
    id: u64,
    relation: &Arc<RelationDef>,
    batches: &[RunBatch],
) -> Result<SegmentRecord> {
    let mut plan = SystemPlan::default();
    batches.iter().for_each(|batch| plan.observe(relation, batch));
    let mut writer = SegmentWriter::new(Arc::clone(files), SegmentId(id), Arc::clone(relation), plan, (1, 9))?;
    for batch in batches {
        writer.write(batch.clone())?;
    }
    Ok(writer.finish()?.expect("there are rows"))
}

/// In-memory files with the segments' directory.
pub(crate) fn memory() -> Arc<dyn Files> {
    let files: Arc<dyn Files> = Arc::new(MemoryFiles::default());
    files.create_dir(super::SEGMENT_DIRECTORY).expect("in memory");
    files
}

/// Opens a segment with a cache of `budget` bytes.
pub(crate) fn open(files: &Arc<dyn Files>, relation: &RelationDef, record: &SegmentRecord, budget: usize) -> Segment {
    Segment::new(Arc::clone(files), BlockCache::new(budget), relation, record.clone())
}

/// One value column of every type, with nulls.
pub(crate) fn column_of(ty: ColumnType, rows: usize) -> ArrayRef {
    let value = |row: usize| match row % 5 {
        0 => Value::Null,
        _ => sample(ty, row as i64 * 7919 % 1000),
    };
    array_of(ty, &(0..rows).map(value).collect::<Vec<_>>()).expect("values of the type")
}

/// A value of a type, different for different numbers below 1,000 (but boolean).
pub(crate) fn sample(ty: ColumnType, number: i64) -> Value {
    let mut uuid = [0u8; 16];
    uuid[..8].copy_from_slice(&number.to_be_bytes());
    match ty {
        ColumnType::Boolean => Value::Boolean(number % 2 == 0),
        ColumnType::TinyInt => Value::TinyInt((number % 100) as i8),
        ColumnType::SmallInt => Value::SmallInt(number as i16 - 500),
        ColumnType::Int => Value::Int(number as i32 * -1_000_003),
        ColumnType::BigInt => Value::BigInt(number * -1_000_000_000_003),
        ColumnType::VarInt => Value::Decimal(i128::from(number) * 1_000_000_000_000_000_000_000, 0),
        ColumnType::Decimal { scale, .. } => Value::Decimal(i128::from(number) - 300, scale),
        ColumnType::Real => Value::Real(number as f32 / 3.0),
        ColumnType::Double => Value::Double(if number == 7 { f64::NAN } else { number as f64 / -3.0 }),
        ColumnType::Text | ColumnType::Ascii => {
            Value::Text(format!("text {number} {}", "x".repeat(number as usize % 40)))
        }
        ColumnType::Json | ColumnType::Jsonb => Value::Text(format!("{{\"n\": {number}}}")),
        ColumnType::Blob => Value::Blob(number.to_be_bytes().to_vec()),
        ColumnType::Uuid => uuid_of(uuid),
        ColumnType::TimeUuid => {
            uuid[6] = 0x10;
            uuid[7] = (number % 251) as u8;
            uuid[8] = 0x80;
            uuid_of(uuid)
        }
        ColumnType::Date => Value::Date(number as i32 - 500),
        ColumnType::Time => Value::Time(number * 1_000_000),
        ColumnType::Timestamp | ColumnType::LocalTimestamp => Value::Timestamp(number * 1_000_000_007 - 5),
        ColumnType::Duration => Value::Duration(number as i32, -3, number * 1_000),
        ColumnType::List(element) => {
            let elements = (0..number % 4).map(|index| match index {
                1 => Value::Null,
                index => sample(element.get(), number + index),
            });
            Value::List(elements.collect())
        }
        ColumnType::Nested(nested) => nested_sample(nested.get(), number),
        ColumnType::Inet => Value::Inet(std::net::IpAddr::from([10, 0, (number / 250) as u8, (number % 250) as u8])),
    }
}

fn uuid_of(bytes: [u8; 16]) -> Value {
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Value::Uuid(text.parse().expect("32 digits"))
}

fn nested_sample(ty: &Nested, number: i64) -> Value {
    let numbers = number..number + number % 4;
    match ty {
        Nested::List(element) => Value::List(numbers.map(|each| sample(*element, each)).collect()),
        Nested::Set(element) => {
            Value::set(numbers.map(|each| sample(*element, each)).collect(), *element).expect("a set")
        }
        Nested::Map(key, value) => {
            Value::map(numbers.map(|each| (sample(*key, each), sample(*value, each))).collect(), *key).expect("a map")
        }
        Nested::Vector(dimension) => {
            let elements = (0..i64::from(*dimension)).map(|at| Value::Real((number + at) as f32 / 4.0));
            Value::List(elements.collect())
        }
        Nested::Variant => Value::BigInt(number).into_variant().expect("a variant"),
        ty => {
            let field = |(at, ty)| if (number + at) % 3 == 0 { Value::Null } else { sample(ty, number + at) };
            Value::Tuple((0..).zip(ty.parts()).map(field).collect())
        }
    }
}

/// Every type that a column can have.
pub(crate) fn types() -> Vec<ColumnType> {
    let scalar = [
        ColumnType::Boolean,
        ColumnType::TinyInt,
        ColumnType::SmallInt,
        ColumnType::Int,
        ColumnType::BigInt,
        ColumnType::VarInt,
        ColumnType::Real,
        ColumnType::Double,
        ColumnType::Decimal { precision: 8, scale: 2 },
        ColumnType::Decimal { precision: 18, scale: 3 },
        ColumnType::Decimal { precision: 38, scale: 10 },
        ColumnType::Decimal { precision: 1, scale: 0 },
        ColumnType::Text,
        ColumnType::Ascii,
        ColumnType::Blob,
        ColumnType::Uuid,
        ColumnType::TimeUuid,
        ColumnType::Date,
        ColumnType::Time,
        ColumnType::Timestamp,
        ColumnType::LocalTimestamp,
        ColumnType::Duration,
        ColumnType::Inet,
        ColumnType::Json,
        ColumnType::Jsonb,
    ];
    let lists = [ColumnType::Int, ColumnType::Text, ColumnType::Decimal { precision: 8, scale: 2 }];
    let field = |name: &str, ty| TypeField { name: name.into(), ty };
    let user = UserType {
        id: TypeId(9),
        keyspace: "k".into(),
        name: "address".into(),
        fields: vec![field("street", ColumnType::Text), field("zips", ColumnType::list(ColumnType::Int))],
    };
    let user = ColumnType::nested(Nested::User(user));
    let tuple = ColumnType::nested(Nested::Tuple(vec![ColumnType::Int, ColumnType::Duration, user]));
    let nested = [
        ColumnType::nested(Nested::Set(ColumnType::Text)),
        ColumnType::nested(Nested::Set(ColumnType::list(ColumnType::Int))),
        ColumnType::nested(Nested::Map(ColumnType::Timestamp, tuple)),
        ColumnType::frozen_list(tuple),
        user,
        tuple,
        ColumnType::vector(3).expect("a type"),
        ColumnType::frozen_list(ColumnType::vector(2).expect("a type")),
    ];
    scalar.into_iter().chain(lists.map(ColumnType::list)).chain(nested).collect()
}

/// Rows with markers here and there, tombstones of rows and cells, own stamps and expiries.
pub(crate) fn mixed_rows(relation: &RelationDef, keys: Vec<ArrayRef>, values: Vec<ArrayRef>) -> RunBatch {
    let mut batch = plain(relation, keys, values, 100);
    let rows = batch.rows;
    let some = |every: usize, number: i64| {
        Int64s::from_options((0..rows).map(|row| (row % every == 1).then_some(number + row as i64)).collect())
    };
    let flags =
        |every: usize| Bits::new(BooleanArray::from_iter((0..rows).map(|row| Some(row % every == 0))).values().clone());
    batch.row = RowColumns {
        marker: flags(3),
        ts: Int64s::from_options((0..rows).map(|row| Some(100 + row as i64 / 10)).collect()),
        ttl: some(4, 60),
        expires: some(4, 1_000_000),
        deleted_ts: some(11, 50),
        deleted_at: some(11, 77),
    };
    for cells in batch.cells.iter_mut().step_by(2) {
        let values = cells.values.clone().expect("given above");
        let tombstones = (0..rows).map(|row| Some(values.is_null(row) && row % 2 == 0));
        cells.tombstones = Bits::new(BooleanArray::from_iter(tombstones).values().clone());
        cells.ts = some(5, 200);
        cells.ttl = some(5, 30);
        cells.expires = some(5, 2_000_000);
        cells.deleted_at = some(2, 88);
    }
    batch
}
