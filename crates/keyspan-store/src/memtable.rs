//! The memtable: the mutable newest part of a relation, for single rows.
//!
//! A skip list keyed (encoded key, seq descending). One writer (the apply lane) inserts; readers see the entries up to
//! their own seq and fold the entries of one key by the rules of [`crate::merge`].
//!
//! Rule: it is frozen at [`FREEZE_ROWS`] or [`FREEZE_BYTES`], and turned into a [`MemoryRun`] only once all it holds
//! may be seen by everyone (its greatest seq is acknowledged), since the rows of a memory run have no seq of their own.

use std::cmp::Reverse;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_skiplist::SkipMap;
use keyspan_model::{KeyEncoder, RelationDef, Result};
use parking_lot::Mutex;

use crate::memory_run::{MemoryRun, RowsBuilder};
use crate::row::RowEntry;
use crate::run::{Extent, RunMeta, ValueRanges, WholeKey};

/// Rows after which a memtable is frozen.
pub const FREEZE_ROWS: usize = 65_536;
/// Bytes after which a memtable is frozen.
pub const FREEZE_BYTES: usize = 8 << 20;

type Rows = SkipMap<(Vec<u8>, Reverse<u64>), RowEntry>;

/// The mutable newest part of a relation.
pub struct Memtable {
    key: KeyEncoder,
    rows: Rows,
    extent: Mutex<Extent>,
    bytes: AtomicUsize,
    entries: AtomicUsize,
    first_seq: AtomicU64,
    last_seq: AtomicU64,
}

impl std::fmt::Debug for Memtable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memtable").field("entries", &self.entries).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Memtable {
    /// An empty memtable of a relation.
    pub fn new(relation: &RelationDef) -> Memtable {
        Memtable {
            key: KeyEncoder::new(&relation.key),
            rows: SkipMap::new(),
            extent: Mutex::new(Extent::default()),
            bytes: AtomicUsize::new(0),
            entries: AtomicUsize::new(0),
            first_seq: AtomicU64::new(u64::MAX),
            last_seq: AtomicU64::new(0),
        }
    }

    /// Adds what a batch with this seq does to a row. Only one thread inserts, in the order of seq; what one batch
    /// does twice to a key is folded.
    pub fn insert(&self, key: Vec<u8>, seq: u64, entry: RowEntry) -> Result<()> {
        self.note(&key, &entry);
        self.first_seq.fetch_min(seq, Ordering::Relaxed);
        self.last_seq.fetch_max(seq, Ordering::Relaxed);
        let place = (key, Reverse(seq));
        let entry = match self.rows.get(&place) {
            Some(earlier) => earlier.value().clone().merged(entry),
            None => {
                self.entries.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(place.0.len() + ENTRY_OVERHEAD, Ordering::Relaxed);
                entry
            }
        };
        self.bytes.fetch_add(entry.bytes(), Ordering::Relaxed);
        self.rows.insert(place, entry);
        Ok(())
    }

    fn note(&self, key: &[u8], entry: &RowEntry) {
        self.extent.lock().add_row(&WholeKey::new(&self.key, key), &entry.extent());
    }

    /// What is known of everything inserted so far.
    pub fn extent(&self) -> Extent {
        self.extent.lock().clone()
    }

    /// Bytes in memory, estimated.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Number of entries; a key written by several batches counts several times.
    pub fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Whether nothing was inserted.
    pub fn is_empty(&self) -> bool {
        self.entries() == 0
    }

    /// Whether it is time to begin a new memtable.
    pub fn is_full(&self) -> bool {
        self.entries() >= FREEZE_ROWS || self.bytes() >= FREEZE_BYTES
    }

    /// Least and greatest seq inserted; `None` when empty.
    pub fn seqs(&self) -> Option<(u64, u64)> {
        (!self.is_empty()).then(|| (self.first_seq.load(Ordering::Relaxed), self.last_seq.load(Ordering::Relaxed)))
    }

    /// The greatest seq that touched a key in `[start, end)`, as preconditions ask; `None`: untouched.
    pub fn last_touch(&self, start: &[u8], end: Option<&[u8]>) -> Option<u64> {
        self.range(start, end).map(|entry| entry.key().1.0).max()
    }

    /// All rows as columns: what a frozen memtable becomes. `relation` is the newest definition.
    pub fn freeze(self: &Arc<Self>, relation: &Arc<RelationDef>) -> Result<MemoryRun> {
        self.view(u64::MAX, Arc::clone(relation)).columns(&[], None)
    }

    /// The memtable as of a seq.
    pub fn view(self: &Arc<Self>, seq: u64, relation: Arc<RelationDef>) -> MemtableView {
        MemtableView { table: Arc::clone(self), relation, seq, meta: Arc::default(), whole: Arc::default() }
    }

    fn range(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> impl Iterator<Item = crossbeam_skiplist::map::Entry<'_, (Vec<u8>, Reverse<u64>), RowEntry>> {
        let start = Bound::Included((start.to_vec(), Reverse(u64::MAX)));
        let end = match end {
            // Invariant: within a key the greatest seq comes first, so this excludes every entry of `end`.
            Some(end) => Bound::Excluded((end.to_vec(), Reverse(u64::MAX))),
            None => Bound::Unbounded,
        };
        let empty = matches!((&start, &end), (Bound::Included(start), Bound::Excluded(end)) if start >= end);
        let range = (!empty).then(|| self.rows.range((start, end)));
        range.into_iter().flatten()
    }
}

impl ValueRanges {
    /// Whether the row with this key has a value inside, as one entry of it says.
    fn are_in(&self, encoder: &KeyEncoder, key: &[u8], entry: &RowEntry) -> bool {
        if let Some(place) = self.column.place_in_key() {
            return encoder.columns(key).nth(place).is_some_and(|part| self.contain_part(part));
        }
        let mut own = entry.cells.iter().filter(|(column, _)| *column == self.column.id);
        own.any(|(_, cell)| cell.content.as_ref().is_ok_and(|value| self.contain_value(value)))
    }
}

/// Estimated bytes of a skip list node.
const ENTRY_OVERHEAD: usize = 96;

/// A memtable as of a seq.
#[derive(Clone, Debug)]
pub struct MemtableView {
    table: Arc<Memtable>,
    relation: Arc<RelationDef>,
    seq: u64,
    meta: Arc<OnceLock<RunMeta>>,
    whole: Arc<OnceLock<Arc<MemoryRun>>>,
}

impl MemtableView {
    /// What is known of the memtable; it may include rows written after the view's seq.
    pub fn meta(&self) -> &RunMeta {
        self.meta.get_or_init(|| RunMeta {
            all: self.table.extent(),
            groups: Vec::new(),
            seq: self.table.seqs().unwrap_or((0, 0)),
            bytes: self.table.bytes() as u64,
        })
    }

    /// What the memtable says of one key.
    pub fn get(&self, key: &[u8]) -> Option<RowEntry> {
        let start = Bound::Included((key.to_vec(), Reverse(self.seq)));
        let end = Bound::Included((key.to_vec(), Reverse(0)));
        let entries = self.table.rows.range((start, end)).map(|entry| entry.value().clone());
        entries.reduce(RowEntry::merged)
    }

    /// The first key in `[start, end)`.
    pub fn first_key(&self, start: &[u8], end: Option<&[u8]>) -> Option<Vec<u8>> {
        let first = self.table.range(start, end).find(|entry| entry.key().1.0 <= self.seq);
        first.map(|entry| entry.key().0.clone())
    }

    /// The keys of rows in which a column may have one of these values, ascending; `None`: more than `most`.
    pub(crate) fn keys_with(&self, wanted: &ValueRanges, most: usize) -> Option<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for entry in self.table.range(&[], None).filter(|entry| entry.key().1.0 <= self.seq) {
            let key = &entry.key().0;
            if keys.last() != Some(key) && wanted.are_in(&self.table.key, key, entry.value()) {
                keys.push(key.clone());
                if keys.len() > most {
                    return None;
                }
            }
        }
        Some(keys)
    }

    /// The keys of rows in `[start, end)`, ascending.
    pub(crate) fn keys_within(&self, start: &[u8], end: Option<&[u8]>) -> Vec<Vec<u8>> {
        let seen = self.table.range(start, end).filter(|entry| entry.key().1.0 <= self.seq);
        let mut keys: Vec<Vec<u8>> = seen.map(|entry| entry.key().0.clone()).collect();
        keys.dedup();
        keys
    }

    /// The rows with these keys, which ascend, as columns.
    pub(crate) fn rows_of(&self, keys: &[Vec<u8>]) -> Result<MemoryRun> {
        let mut builder = RowsBuilder::new(&self.relation);
        for key in keys {
            if let Some(row) = self.get(key) {
                builder.push(key.clone(), row)?;
            }
        }
        builder.finish(self.seqs())
    }

    fn seqs(&self) -> (u64, u64) {
        self.table.seqs().map_or((0, 0), |seqs| (seqs.0, seqs.1.min(self.seq)))
    }

    /// All rows as columns, made once.
    pub fn whole(&self) -> Result<Arc<MemoryRun>> {
        if let Some(known) = self.known_whole() {
            return Ok(known);
        }
        let whole = Arc::new(self.columns(&[], None)?);
        Ok(Arc::clone(self.whole.get_or_init(|| whole)))
    }

    /// All rows as columns, if they were made.
    pub fn known_whole(&self) -> Option<Arc<MemoryRun>> {
        self.whole.get().cloned()
    }

    /// The rows in `[start, end)` as columns.
    pub fn columns(&self, start: &[u8], end: Option<&[u8]>) -> Result<MemoryRun> {
        let mut builder = RowsBuilder::new(&self.relation);
        let mut current: Option<(Vec<u8>, RowEntry)> = None;
        for entry in self.table.range(start, end).filter(|entry| entry.key().1.0 <= self.seq) {
            match &mut current {
                Some((key, row)) if *key == entry.key().0 => {
                    *row = std::mem::take(row).merged(entry.value().clone());
                }
                _ => {
                    if let Some((key, row)) = current.replace((entry.key().0.clone(), entry.value().clone())) {
                        builder.push(key, row)?;
                    }
                }
            }
        }
        if let Some((key, row)) = current {
            builder.push(key, row)?;
        }
        builder.finish(self.seqs())
    }
}
