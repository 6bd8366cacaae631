//! The body of a record of the commit log: the mutations of one batch, or a new catalog and mutations.
//!
//! Keys are already encoded, values carry their own tag, and bulk writes go column by column ([`super::array_codec`]).
//! Stamps stay relative to the record's server timestamp, so that a body can be encoded before the batch has its place
//! in the commit order.
//!
//! ```text
//! body      = [catalog: bytes, JSON; only of a catalog change]  count  mutation*
//! mutation  = tag relation(u32) schema_version(u32) stamp  then, by tag
//!   1 row         ttl(u32) marker(u8) key(bytes) count { column(u32) cell }*
//!   2 bulk        ttl(u32) flags(u8: 1 marker, 2 null deletes) rows(varint) count { column(u32) array }*
//!   3 delete row  key(bytes)
//!   4 delete span start(bytes) ended(u8) [end(bytes)]
//!   5 load        parts(u32) segments(bytes, JSON: records as the manifest keeps them, without their place)
//! stamp     = 0 statement(u32) | 1 timestamp(i64)
//! cell      = 0 (tombstone) | value
//! value     = tag(u8) and bytes by type, see `put_value`
//! ```

use std::net::IpAddr;

use keyspan_model::types::NESTING_MAX;
use keyspan_model::{BatchWrite, Catalog, CellWrite, ColumnId, Error, ErrorKind, RelationId, Result, Stamp, Value};
use uuid::Uuid;

use super::array_codec::{get_batch, put_batch};
use super::frame::{COMPRESSED, KIND_BATCH, KIND_CHANGE};
use super::wire::{ByteReader, put_bytes, put_varint};
use crate::format::{bad, read_json, unknown};
use crate::segment::SegmentRecord;

/// One mutation as the log and the apply lane hold it.
#[derive(Clone, Debug, PartialEq)]
pub enum LoggedMutation {
    /// Cells of one row.
    Row {
        /// The relation.
        relation: RelationId,
        /// Version of the table's definition that it was written under.
        schema_version: u32,
        /// Encoded key.
        key: Vec<u8>,
        /// Whether a row marker is written.
        marker: bool,
        /// The cells.
        cells: Vec<(ColumnId, CellWrite)>,
        /// Write timestamp.
        stamp: Stamp,
        /// Seconds to live; 0: for ever.
        ttl: u32,
    },
    /// Many rows.
    Bulk {
        /// Version of the table's definition that it was written under.
        schema_version: u32,
        /// The rows.
        write: BatchWrite,
    },
    /// Segments begin to live: their files are durable, and nothing but this record names them until the manifest does.
    Load {
        /// The relation.
        relation: RelationId,
        /// Version of the table's definition that it was written under.
        schema_version: u32,
        /// Write timestamp of the first part.
        stamp: Stamp,
        /// How many statements the parts count for.
        parts: u32,
        /// The segments, their timestamps counted from 0.
        segments: Vec<SegmentRecord>,
    },
    /// One row deleted.
    DeleteRow {
        /// The relation.
        relation: RelationId,
        /// Version of the table's definition that it was written under.
        schema_version: u32,
        /// Encoded key.
        key: Vec<u8>,
        /// Write timestamp.
        stamp: Stamp,
    },
    /// A span deleted.
    DeleteSpan {
        /// The relation.
        relation: RelationId,
        /// Version of the table's definition that it was written under.
        schema_version: u32,
        /// First encoded key.
        start: Vec<u8>,
        /// First encoded key that is kept.
        end: Option<Vec<u8>>,
        /// Write timestamp.
        stamp: Stamp,
    },
}

impl LoggedMutation {
    /// The relation it changes.
    pub fn relation(&self) -> RelationId {
        match self {
            LoggedMutation::Row { relation, .. }
            | LoggedMutation::DeleteRow { relation, .. }
            | LoggedMutation::Load { relation, .. }
            | LoggedMutation::DeleteSpan { relation, .. } => *relation,
            LoggedMutation::Bulk { write, .. } => write.relation,
        }
    }

    /// Its write timestamp, as asked for.
    pub fn stamp(&self) -> Stamp {
        match self {
            LoggedMutation::Row { stamp, .. }
            | LoggedMutation::DeleteRow { stamp, .. }
            | LoggedMutation::Load { stamp, .. }
            | LoggedMutation::DeleteSpan { stamp, .. } => *stamp,
            LoggedMutation::Bulk { write, .. } => write.stamp,
        }
    }
}

/// A record with its place in the commit order and its body as it is written.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Place in the commit order.
    pub seq: u64,
    /// What `Stamp::Server(0)` means, in microseconds.
    pub timestamp: i64,
    /// Clock when it was applied, in microseconds: expiry and tombstone grace count from here.
    pub clock: i64,
    /// What it is, as frames say it.
    pub kind: u8,
    /// How the body is to be read, as frames say it.
    pub flags: u8,
    /// The body.
    pub bytes: Vec<u8>,
}

/// A decoded record body.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordBody {
    /// The new catalog of a change.
    pub catalog: Option<Catalog>,
    /// The mutations, in order.
    pub mutations: Vec<LoggedMutation>,
}

/// Bodies shorter than this are not worth compressing.
const COMPRESS_FROM: usize = 4096;

/// Makes a record of a batch; its place, timestamp and clock are filled in by the apply lane.
pub fn encode_body(catalog: Option<&Catalog>, mutations: &[LoggedMutation]) -> Result<Record> {
    let mut raw = Vec::new();
    if let Some(catalog) = catalog {
        let json = serde_json::to_vec(catalog)
            .map_err(|error| Error::internal(format!("a catalog cannot be written: {error}")))?;
        put_bytes(&mut raw, &json);
    }
    put_varint(&mut raw, mutations.len() as u64);
    for mutation in mutations {
        put_mutation(&mut raw, mutation)?;
    }
    let kind = if catalog.is_some() { KIND_CHANGE } else { KIND_BATCH };
    if raw.len() >= COMPRESS_FROM && u32::try_from(raw.len()).is_ok() {
        let bytes = lz4_flex::block::compress_prepend_size(&raw);
        if bytes.len() < raw.len() {
            return Ok(Record { kind, flags: COMPRESSED, bytes, ..Record::default() });
        }
    }
    Ok(Record { kind, bytes: raw, ..Record::default() })
}

/// Reads a record's body.
pub fn decode_body(kind: u8, flags: u8, bytes: &[u8]) -> Result<RecordBody> {
    if flags & COMPRESSED != 0 {
        let raw = lz4_flex::block::decompress_size_prepended(bytes)
            .map_err(|error| bad(format!("a body is not LZ4: {error}")))?;
        return decode_body(kind, flags & !COMPRESSED, &raw);
    }
    let mut reader = ByteReader::new(bytes);
    let catalog = match kind {
        KIND_BATCH => None,
        KIND_CHANGE => Some(read_json(reader.bytes()?)?),
        other => return Err(unknown(format!("a record of kind {other}"))),
    };
    let mutations = (0..reader.count()?).map(|_| get_mutation(&mut reader)).collect::<Result<_>>()?;
    if !reader.is_empty() {
        return Err(bad("a record goes on after its end"));
    }
    Ok(RecordBody { catalog, mutations })
}

fn put_head(out: &mut Vec<u8>, tag: u8, relation: RelationId, schema_version: u32, stamp: Stamp) {
    out.push(tag);
    out.extend_from_slice(&relation.0.to_le_bytes());
    out.extend_from_slice(&schema_version.to_le_bytes());
    match stamp {
        Stamp::Server(statement) => {
            out.push(0);
            out.extend_from_slice(&statement.to_le_bytes());
        }
        Stamp::At(timestamp) => {
            out.push(1);
            out.extend_from_slice(&timestamp.to_le_bytes());
        }
    }
}

fn put_mutation(out: &mut Vec<u8>, mutation: &LoggedMutation) -> Result<()> {
    match mutation {
        LoggedMutation::Row { relation, schema_version, key, marker, cells, stamp, ttl } => {
            put_head(out, 1, *relation, *schema_version, *stamp);
            out.extend_from_slice(&ttl.to_le_bytes());
            out.push(u8::from(*marker));
            put_bytes(out, key);
            put_varint(out, cells.len() as u64);
            for (column, cell) in cells {
                out.extend_from_slice(&column.0.to_le_bytes());
                match cell {
                    CellWrite::Tombstone => out.push(0),
                    CellWrite::Value(value) => put_value(out, value)?,
                }
            }
        }
        LoggedMutation::Bulk { schema_version, write } => {
            put_head(out, 2, write.relation, *schema_version, write.stamp);
            out.extend_from_slice(&write.ttl.to_le_bytes());
            out.push(u8::from(write.marker) | u8::from(write.null_deletes) << 1);
            put_batch(out, &write.columns, &write.batch)?;
        }
        LoggedMutation::Load { relation, schema_version, stamp, parts, segments } => {
            put_head(out, 5, *relation, *schema_version, *stamp);
            out.extend_from_slice(&parts.to_le_bytes());
            let json = serde_json::to_vec(segments)
                .map_err(|error| Error::internal(format!("a segment's record cannot be written: {error}")))?;
            put_bytes(out, &json);
        }
        LoggedMutation::DeleteRow { relation, schema_version, key, stamp } => {
            put_head(out, 3, *relation, *schema_version, *stamp);
            put_bytes(out, key);
        }
        LoggedMutation::DeleteSpan { relation, schema_version, start, end, stamp } => {
            put_head(out, 4, *relation, *schema_version, *stamp);
            put_bytes(out, start);
            out.push(u8::from(end.is_some()));
            if let Some(end) = end {
                put_bytes(out, end);
            }
        }
    }
    Ok(())
}

fn get_mutation(reader: &mut ByteReader<'_>) -> Result<LoggedMutation> {
    let tag = reader.u8()?;
    let relation = RelationId(reader.u32()?);
    let schema_version = reader.u32()?;
    let stamp = match reader.u8()? {
        0 => Stamp::Server(reader.u32()?),
        1 => Stamp::At(reader.i64()?),
        other => return Err(unknown(format!("a stamp of kind {other}"))),
    };
    Ok(match tag {
        1 => {
            let (ttl, marker, key) = (reader.u32()?, reader.u8()? != 0, reader.bytes()?.to_vec());
            let cells = (0..reader.count()?).map(|_| get_cell(reader)).collect::<Result<_>>()?;
            LoggedMutation::Row { relation, schema_version, key, marker, cells, stamp, ttl }
        }
        2 => {
            let (ttl, flags) = (reader.u32()?, reader.u8()?);
            let (columns, batch) = get_batch(reader)?;
            let (marker, null_deletes) = (flags & 1 != 0, flags & 2 != 0);
            let write = BatchWrite { relation, columns, batch, marker, null_deletes, stamp, ttl };
            LoggedMutation::Bulk { schema_version, write }
        }
        3 => LoggedMutation::DeleteRow { relation, schema_version, key: reader.bytes()?.to_vec(), stamp },
        4 => {
            let start = reader.bytes()?.to_vec();
            let end = if reader.u8()? != 0 { Some(reader.bytes()?.to_vec()) } else { None };
            LoggedMutation::DeleteSpan { relation, schema_version, start, end, stamp }
        }
        5 => {
            let parts = reader.u32()?;
            let segments = read_json(reader.bytes()?)?;
            LoggedMutation::Load { relation, schema_version, stamp, parts, segments }
        }
        other => return Err(unknown(format!("a mutation of kind {other}"))),
    })
}

fn get_cell(reader: &mut ByteReader<'_>) -> Result<(ColumnId, CellWrite)> {
    let column = ColumnId(reader.u32()?);
    let tag = reader.u8()?;
    let cell = if tag == 0 { CellWrite::Tombstone } else { CellWrite::Value(get_value(tag, reader)?) };
    Ok((column, cell))
}

fn put_value(out: &mut Vec<u8>, value: &Value) -> Result<()> {
    let mut fixed = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend_from_slice(bytes);
    };
    match value {
        Value::Null => return Err(Error::new(ErrorKind::Internal, "a cell cannot be written as null")),
        Value::Boolean(value) => fixed(1, &[u8::from(*value)]),
        Value::TinyInt(value) => fixed(2, &value.to_le_bytes()),
        Value::SmallInt(value) => fixed(3, &value.to_le_bytes()),
        Value::Int(value) => fixed(4, &value.to_le_bytes()),
        Value::BigInt(value) => fixed(5, &value.to_le_bytes()),
        Value::Decimal(digits, scale) => {
            fixed(6, &scale.to_le_bytes());
            out.extend_from_slice(&digits.to_le_bytes());
        }
        Value::Real(value) => fixed(7, &value.to_le_bytes()),
        Value::Double(value) => fixed(8, &value.to_le_bytes()),
        Value::Text(value) => {
            out.push(9);
            put_bytes(out, value.as_bytes());
        }
        Value::Blob(value) => {
            out.push(10);
            put_bytes(out, value);
        }
        Value::Uuid(value) => fixed(11, value.as_bytes()),
        Value::Date(value) => fixed(12, &value.to_le_bytes()),
        Value::Time(value) => fixed(13, &value.to_le_bytes()),
        Value::Timestamp(value) => fixed(14, &value.to_le_bytes()),
        Value::Duration(months, days, nanoseconds) => {
            fixed(15, &months.to_le_bytes());
            out.extend_from_slice(&days.to_le_bytes());
            out.extend_from_slice(&nanoseconds.to_le_bytes());
        }
        Value::Inet(IpAddr::V4(address)) => fixed(16, &address.octets()),
        Value::Inet(IpAddr::V6(address)) => fixed(17, &address.octets()),
        Value::List(elements) => put_parts(out, 18, elements.len(), elements.iter())?,
        Value::Map(entries) => {
            put_parts(out, 19, entries.len(), entries.iter().flat_map(|(key, value)| [key, value]))?;
        }
        Value::Tuple(fields) => put_parts(out, 20, fields.len(), fields.iter())?,
        Value::Variant(held) => {
            out.push(21);
            put_value(out, held)?;
        }
    }
    Ok(())
}

fn put_parts<'a>(out: &mut Vec<u8>, tag: u8, count: usize, parts: impl Iterator<Item = &'a Value>) -> Result<()> {
    out.push(tag);
    put_varint(out, count as u64);
    for part in parts {
        match part {
            Value::Null => out.push(0),
            part => put_value(out, part)?,
        }
    }
    Ok(())
}

/// A value, or null, inside of another one.
fn get_part(reader: &mut ByteReader<'_>, depth: usize) -> Result<Value> {
    match reader.u8()? {
        0 => Ok(Value::Null),
        18..=21 if depth == 0 => Err(unknown("a value nested too deeply")),
        tag => get_nested(tag, reader, depth),
    }
}

fn get_parts(reader: &mut ByteReader<'_>, depth: usize) -> Result<Vec<Value>> {
    (0..reader.count()?).map(|_| get_part(reader, depth - 1)).collect()
}

fn get_value(tag: u8, reader: &mut ByteReader<'_>) -> Result<Value> {
    get_nested(tag, reader, NESTING_MAX)
}

/// The value, which may hold others so deep.
fn get_nested(tag: u8, reader: &mut ByteReader<'_>, depth: usize) -> Result<Value> {
    Ok(match tag {
        1 => Value::Boolean(reader.u8()? != 0),
        2 => Value::TinyInt(i8::from_le_bytes(reader.array()?)),
        3 => Value::SmallInt(i16::from_le_bytes(reader.array()?)),
        4 => Value::Int(i32::from_le_bytes(reader.array()?)),
        5 => Value::BigInt(reader.i64()?),
        6 => {
            let scale = i8::from_le_bytes(reader.array()?);
            Value::Decimal(i128::from_le_bytes(reader.array()?), scale)
        }
        7 => Value::Real(f32::from_le_bytes(reader.array()?)),
        8 => Value::Double(f64::from_le_bytes(reader.array()?)),
        9 => Value::Text(reader.text()?.to_string()),
        10 => Value::Blob(reader.bytes()?.to_vec()),
        11 => Value::Uuid(Uuid::from_bytes(reader.array()?)),
        12 => Value::Date(i32::from_le_bytes(reader.array()?)),
        13 => Value::Time(reader.i64()?),
        14 => Value::Timestamp(reader.i64()?),
        15 => {
            let (months, days) = (i32::from_le_bytes(reader.array()?), i32::from_le_bytes(reader.array()?));
            Value::Duration(months, days, reader.i64()?)
        }
        16 => Value::Inet(IpAddr::from(reader.array::<4>()?)),
        17 => Value::Inet(IpAddr::from(reader.array::<16>()?)),
        18 => Value::List(get_parts(reader, depth)?),
        19 => {
            let count = reader.count()?;
            let entry = |_| Ok((get_part(reader, depth - 1)?, get_part(reader, depth - 1)?));
            Value::Map((0..count).map(entry).collect::<Result<_>>()?)
        }
        20 => Value::Tuple(get_parts(reader, depth)?),
        21 => match get_part(reader, depth - 1)? {
            Value::Null => return Err(unknown("a variant of nothing")),
            held => Value::Variant(Box::new(held)),
        },
        other => return Err(unknown(format!("a value of kind {other}"))),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};

    use super::*;

    fn row(value: Value) -> LoggedMutation {
        LoggedMutation::Row {
            relation: RelationId(7),
            schema_version: 2,
            key: b"key".to_vec(),
            marker: true,
            cells: vec![(ColumnId(3), CellWrite::Value(value)), (ColumnId(4), CellWrite::Tombstone)],
            stamp: Stamp::Server(1),
            ttl: 60,
        }
    }

    #[test]
    fn every_mutation_is_read_back() {
        let values = [
            Value::Boolean(true),
            Value::TinyInt(-1),
            Value::SmallInt(-2),
            Value::Int(-3),
            Value::BigInt(i64::MIN),
            Value::Decimal(-12345, 2),
            Value::Real(1.5),
            Value::Double(-2.5),
            Value::Text("é".repeat(5000)),
            Value::Blob(vec![0, 255]),
            Value::Uuid(Uuid::max()),
            Value::Date(-1),
            Value::Time(1),
            Value::Timestamp(-5),
            Value::Duration(1, -2, 3),
            Value::List(vec![]),
            Value::List(vec![Value::Int(7), Value::Null, Value::Int(-1)]),
            Value::Map(vec![(Value::Int(7), Value::List(vec![Value::Int(1)])), (Value::Int(8), Value::List(vec![]))]),
            Value::Tuple(vec![Value::Null, Value::Tuple(vec![Value::Text("é".into())])]),
            Value::Variant(Box::new(Value::Int(7))),
            Value::Inet(IpAddr::from([1, 2, 3, 4])),
            Value::Inet(IpAddr::from([7; 16])),
        ];
        let mut mutations: Vec<LoggedMutation> = values.into_iter().map(row).collect();
        let (relation, schema_version) = (RelationId(9), 1);
        mutations.push(LoggedMutation::DeleteRow { relation, schema_version, key: vec![], stamp: Stamp::At(-9) });
        for end in [None, Some(b"z".to_vec())] {
            let stamp = Stamp::Server(0);
            mutations.push(LoggedMutation::DeleteSpan { relation, schema_version, start: b"a".to_vec(), end, stamp });
        }
        for (marker, null_deletes) in [(false, false), (true, false), (false, true), (true, true)] {
            // The log has ids in place of names.
            let column = ("3", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef, true);
            let batch = RecordBatch::try_from_iter_with_nullable([column]);
            let (columns, stamp) = (vec![ColumnId(3)], Stamp::At(5));
            let write =
                BatchWrite { relation, columns, batch: batch.expect("a batch"), marker, null_deletes, stamp, ttl: 7 };
            mutations.push(LoggedMutation::Bulk { schema_version, write });
        }
        let loaded =
            LoggedMutation::Load { relation, schema_version, stamp: Stamp::Server(2), parts: 3, segments: vec![] };
        mutations.push(loaded);
        for catalog in [None, Some(Catalog::initial())] {
            let record = encode_body(catalog.as_ref(), &mutations).expect("encodes");
            let body = decode_body(record.kind, record.flags, &record.bytes).expect("decodes");
            assert_eq!(body, RecordBody { catalog, mutations: mutations.clone() });
        }
    }

    #[test]
    fn long_bodies_are_compressed_if_that_makes_them_shorter() {
        let noise: Vec<u8> = {
            let mut random = crate::random::Random::new(1);
            (0..2 * COMPRESS_FROM).map(|_| random.below(256) as u8).collect()
        };
        for (content, flags) in [(vec![7; COMPRESS_FROM / 2], 0), (vec![7; 2 * COMPRESS_FROM], COMPRESSED), (noise, 0)]
        {
            let length = content.len();
            let mutation = row(Value::Blob(content));
            let record = encode_body(None, std::slice::from_ref(&mutation)).expect("encodes");
            assert_eq!((record.flags, record.bytes.len() < length), (flags, flags == COMPRESSED));
            let body = decode_body(record.kind, record.flags, &record.bytes).expect("decodes");
            assert_eq!(body.mutations, [mutation]);
        }
    }

    #[test]
    fn what_a_newer_program_wrote_is_no_damage() {
        let change = encode_body(Some(&Catalog::initial()), &[]).expect("encodes");
        let mut bytes = Vec::new();
        let json = ByteReader::new(&change.bytes).bytes().expect("a catalog").to_vec();
        put_bytes(&mut bytes, &[&b"{\"from_the_future\":7,"[..], &json[1..]].concat());
        put_varint(&mut bytes, 0);
        for (kind, bytes, what) in [(change.kind, bytes, "from_the_future"), (99, change.bytes, "kind 99")] {
            let error = decode_body(kind, 0, &bytes).expect_err("unknown");
            assert!(error.kind == ErrorKind::FormatVersion && error.message.contains(what), "{error:?}");
        }
    }

    #[test]
    fn bytes_that_end_early_or_late_are_an_error_not_a_panic() {
        let record = encode_body(None, &[row(Value::Text("abc".into()))]).expect("encodes");
        let longer = [&record.bytes[..], &[0]].concat();
        decode_body(record.kind, record.flags, &longer).expect_err("too long");
        for length in 0..record.bytes.len() {
            decode_body(record.kind, record.flags, &record.bytes[..length]).expect_err("too short");
        }
    }
}
