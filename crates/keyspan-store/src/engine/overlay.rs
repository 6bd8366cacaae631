//! The overlay: a scan source with a transaction's own uncommitted writes on top.

use std::sync::Arc;

use keyspan_model::{KeyEncoder, Mutation, RelationDef, RelationKind, Result, Stamp, Value, WriteBatch};

use super::load::Loaded;
use super::staging::{add_version, single_rows};
use crate::memory_run::MemoryRun;
use crate::memtable::Memtable;
use crate::row::RowEntry;
use crate::run::{SortedRun, SpanTombstone};
use crate::scan::{Run, ScanSource};

/// The source with those of the batch's mutations that touch its relation. `timestamp` is what `Stamp::Server(0)`
/// stands for, in microseconds; it should be greater than that of anything committed.
pub fn with_writes(source: &ScanSource, batch: &WriteBatch, timestamp: i64) -> Result<ScanSource> {
    let mut source = source.clone();
    let relation = Arc::clone(&source.relation);
    let encoder = KeyEncoder::new(&relation.key);
    let memtable = Arc::new(Memtable::new(&relation));
    let mut deleted = Vec::new();
    let mine = batch.mutations.iter().filter(|mutation| mutation.relation() == relation.id);
    for (order, mutation) in mine.enumerate() {
        // Rank in the batch: of two equal stamps the tie rules decide, so the order only keeps entries apart.
        let seq = order as u64 + 1;
        match mutation {
            Mutation::Row(write) => {
                let ts = stamp(write.stamp, timestamp);
                memtable.insert(
                    key_of(&relation, &encoder, &write.key, ts)?,
                    seq,
                    RowEntry::written(write, ts, source.now),
                )?;
            }
            Mutation::DeleteRow(delete) => {
                let entry = RowEntry::deleted(stamp(delete.stamp, timestamp), source.now);
                memtable.insert(encoder.encode(&delete.key)?, seq, entry)?;
            }
            Mutation::Batch(write) if relation.kind == RelationKind::Family => {
                let ts = stamp(write.stamp, timestamp);
                for row in single_rows(&relation, write)? {
                    let key = key_of(&relation, &encoder, &row.key, ts)?;
                    memtable.insert(key, seq, RowEntry::written(&row, ts, source.now))?;
                }
            }
            Mutation::Batch(write) => {
                let ts = stamp(write.stamp, timestamp);
                let run = MemoryRun::from_write(&relation, write, ts, source.now, seq)?;
                source.runs.push(Run::Memory(Arc::new(run)));
            }
            Mutation::Load(rows) => {
                let segments = Loaded::of(rows)?.segments(&relation, stamp(rows.stamp, timestamp), seq);
                source.runs.extend(segments.into_iter().map(|segment| Run::Segment(segment as Arc<dyn SortedRun>)));
            }
            Mutation::DeleteSpan(delete) => {
                let (start, end) = encoder.span_bytes(&delete.span)?;
                let ts = stamp(delete.stamp, timestamp);
                deleted.push(SpanTombstone { start, end, ts, deleted_at: source.now, seq });
            }
        }
    }
    source.tombstones.add_own(deleted);
    if !memtable.is_empty() {
        source.runs.push(Run::Memtable(memtable.view(u64::MAX, relation)));
    }
    Ok(source)
}

fn key_of(relation: &RelationDef, encoder: &KeyEncoder, given: &[Value], ts: i64) -> Result<Vec<u8>> {
    let mut key = encoder.encode(given)?;
    add_version(relation, &mut key, ts);
    Ok(key)
}

/// The write timestamp, in microseconds, that a stamp stands for where `Stamp::Server(0)` is `timestamp`.
pub fn stamp(stamp: Stamp, timestamp: i64) -> i64 {
    match stamp {
        Stamp::Server(statement) => timestamp.saturating_add(i64::from(statement)),
        Stamp::At(ts) => ts,
    }
}
