//! The state of the manifest, edits of it, and both as items: a key and JSON.
//!
//! ```text
//! m                       marks, with the number of the edit
//! c                       catalog and the seq of the change that made it
//! r relation(u32)         seq up to which the relation is flushed
//! s segment(u64)          a live segment's record
//! t relation seq n        a span tombstone (u32, u64, u32), T: many (`pack`)
//! d segment(u64)          a segment that is dead and whose files may still be there
//! ```
//!
//! Numbers in keys are big endian, so that items are in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use keyspan_model::{Catalog, Error, RelationId, Result, SegmentId};
use serde::{Deserialize, Serialize};

use super::log::Items;
use super::pack::TombstonePack;
use crate::files::corrupted;
use crate::format::{named, newer, read_json};
use crate::run::Tombstone;
use crate::segment::SegmentRecord;

/// Counters that never decrease, over restarts too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Counts the times that the store was opened.
    pub epoch: u64,
    /// Next unused segment id.
    pub next_segment: u64,
    /// Greatest server timestamp given, in microseconds.
    pub timestamp: i64,
    /// Greatest time by which a snapshot judged expiry, in microseconds.
    pub read_time: i64,
    /// A batch known to be durable: the log must reach as far.
    pub durable_seq: u64,
    /// The first batch that the log must still hold.
    pub log_start: u64,
}

impl Marks {
    fn raise(&mut self, other: Marks) {
        self.epoch = self.epoch.max(other.epoch);
        self.next_segment = self.next_segment.max(other.next_segment);
        self.timestamp = self.timestamp.max(other.timestamp);
        self.read_time = self.read_time.max(other.read_time);
        self.durable_seq = self.durable_seq.max(other.durable_seq);
        self.log_start = self.log_start.max(other.log_start);
    }
}

/// Names a span tombstone: relation, seq, and its place among those of one batch.
pub type TombstoneKey = (RelationId, u64, u32);

/// The state of the manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct ManifestState {
    /// Number of the last edit.
    pub edit: u64,
    /// Numbers that only grow.
    pub marks: Marks,
    /// The catalog.
    pub catalog: Arc<Catalog>,
    /// The change of the catalog that made it; later ones stand in the log.
    pub catalog_seq: u64,
    /// Up to which seq each relation is flushed.
    pub flushed: BTreeMap<RelationId, u64>,
    /// Live segments.
    pub segments: BTreeMap<SegmentId, SegmentRecord>,
    /// Span tombstones that were flushed.
    pub tombstones: BTreeMap<TombstoneKey, TombstonePack>,
    /// Dead segments whose files may still be there.
    pub dead: BTreeSet<SegmentId>,
}

/// A change of the manifest.
#[derive(Clone, Debug, Default)]
pub struct Edit {
    /// A newer catalog and the seq of the change that made it.
    pub catalog: Option<(Arc<Catalog>, u64)>,
    /// Relations that are now flushed up to a seq.
    pub flushed: Vec<(RelationId, u64)>,
    /// New segments. Their files must be durable.
    pub add: Vec<SegmentRecord>,
    /// Segments that die: they are no longer read, and their files are to be deleted.
    pub remove: Vec<SegmentId>,
    /// Span tombstones that are flushed.
    pub add_tombstones: Vec<(RelationId, Vec<Arc<Tombstone>>)>,
    /// Span tombstones that cover nothing any more.
    pub remove_tombstones: BTreeSet<TombstoneKey>,
    /// Relations that no table names any more: their segments die, their tombstones go.
    pub drop: Vec<RelationId>,
    /// Dead segments whose files are gone.
    pub buried: Vec<SegmentId>,
    /// Marks to raise.
    pub marks: Marks,
}

/// A key and its bytes.
pub type Item = (Vec<u8>, Vec<u8>);

/// The number of the last edit, and the marks, as an item holds them.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarksItem {
    edit: u64,
    epoch: u64,
    next_segment: u64,
    timestamp: i64,
    read_time: i64,
    durable_seq: u64,
    log_start: u64,
}

impl MarksItem {
    fn new(edit: u64, marks: Marks) -> MarksItem {
        let Marks { epoch, next_segment, timestamp, read_time, durable_seq, log_start } = marks;
        MarksItem { edit, epoch, next_segment, timestamp, read_time, durable_seq, log_start }
    }

    fn parts(self) -> (u64, Marks) {
        let MarksItem { edit, epoch, next_segment, timestamp, read_time, durable_seq, log_start } = self;
        (edit, Marks { epoch, next_segment, timestamp, read_time, durable_seq, log_start })
    }
}

impl ManifestState {
    /// The manifest of an empty store.
    fn empty() -> ManifestState {
        ManifestState {
            edit: 0,
            marks: Marks { next_segment: 1, ..Marks::default() },
            catalog: Arc::new(Catalog::initial()),
            catalog_seq: 0,
            flushed: BTreeMap::new(),
            segments: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            dead: BTreeSet::new(),
        }
    }

    /// Reads items back.
    pub fn from_items(items: &Items) -> Result<ManifestState> {
        let mut state = ManifestState::empty();
        for (key, value) in &items.items {
            state.read_item(key, value)?;
        }
        if state.edit != items.edit {
            return Err(corrupted(
                "manifest",
                format!("its marks are of edit {}, its newest item of edit {}", state.edit, items.edit),
            ));
        }
        Ok(state)
    }

    fn read_item(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let unknown = || newer("manifest", format!("it has an item of kind {}", key.escape_ascii()));
        let (kind, rest) = key.split_first().ok_or_else(unknown)?;
        match (kind, rest.len()) {
            (b'm', 0) => {
                let item: MarksItem = read(value)?;
                (self.edit, self.marks) = item.parts();
            }
            (b'c', 0) => {
                let (catalog, seq): (Catalog, u64) = read(value)?;
                (self.catalog, self.catalog_seq) = (Arc::new(catalog), seq);
            }
            (b'r', 4) => {
                self.flushed.insert(RelationId(be32(rest)), read(value)?);
            }
            (b's', 8) => {
                self.segments.insert(SegmentId(be64(rest)), read(value)?);
            }
            (b't' | b'T', 16) => {
                let name = (RelationId(be32(rest)), be64(&rest[4..]), be32(&rest[12..]));
                self.tombstones.insert(name, TombstonePack::read(*kind == b'T', name, value)?);
            }
            (b'd', 8) => {
                self.dead.insert(SegmentId(be64(rest)));
            }
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// All of it as items, in the order of their keys.
    pub fn items(&self) -> Result<Vec<Item>> {
        let mut items = vec![(b"c".to_vec(), json(&(self.catalog.as_ref(), self.catalog_seq))?)];
        items.extend(self.dead.iter().map(|id| (dead_key(*id), Vec::new())));
        items.push((b"m".to_vec(), json(&MarksItem::new(self.edit, self.marks))?));
        for (relation, seq) in &self.flushed {
            items.push((flushed_key(*relation), json(seq)?));
        }
        for (id, record) in &self.segments {
            items.push((segment_key(*id), json(record)?));
        }
        for ((relation, ..), pack) in &self.tombstones {
            items.push(pack.item(*relation)?);
        }
        Ok(items)
    }

    /// Which items an edit of this number puts and which it removes.
    pub fn changes(&self, edit: &Edit, number: u64) -> Result<(Vec<Item>, Vec<Vec<u8>>)> {
        let mut marks = self.marks;
        marks.raise(edit.marks);
        let mut puts = vec![(b"m".to_vec(), json(&MarksItem::new(number, marks))?)];
        if let Some((catalog, seq)) = &edit.catalog {
            puts.push((b"c".to_vec(), json(&(catalog.as_ref(), seq))?));
        }
        for (relation, seq) in &edit.flushed {
            puts.push((flushed_key(*relation), json(seq)?));
        }
        for record in &edit.add {
            puts.push((segment_key(record.id), json(record)?));
        }
        for (relation, tombstones) in &edit.add_tombstones {
            for (_, pack) in TombstonePack::packs(*relation, tombstones) {
                puts.push(pack.item(*relation)?);
            }
        }
        let dying = self.dying(edit);
        puts.extend(dying.iter().map(|id| (dead_key(*id), Vec::new())));
        let mut removes: Vec<Vec<u8>> = dying.into_iter().map(segment_key).collect();
        removes.extend(edit.buried.iter().map(|id| dead_key(*id)));
        removes.extend(edit.drop.iter().filter(|id| self.flushed.contains_key(id)).map(|id| flushed_key(*id)));
        for ((relation, ..), pack, left) in self.changed_tombstones(edit) {
            let left = left.map(|left| left.item(relation)).transpose()?;
            let key = pack.key(relation);
            if left.as_ref().is_none_or(|left| left.0 != key) {
                removes.push(key);
            }
            puts.extend(left);
        }
        Ok((puts, removes))
    }

    /// Makes the change.
    pub fn apply(&mut self, edit: Edit, number: u64) {
        self.edit = number;
        self.marks.raise(edit.marks);
        for id in self.dying(&edit) {
            self.segments.remove(&id);
            self.dead.insert(id);
        }
        let changed = self.changed_tombstones(&edit).into_iter().map(|(name, _, left)| (name, left));
        for (name, left) in changed.collect::<Vec<_>>() {
            self.tombstones.remove(&name);
            self.tombstones.extend(left.map(|left| (left.name(name.0), left)));
        }
        self.flushed.retain(|relation, _| !edit.drop.contains(relation));
        self.dead.retain(|id| !edit.buried.contains(id));
        self.flushed.extend(edit.flushed);
        self.segments.extend(edit.add.into_iter().map(|record| (record.id, record)));
        for (relation, tombstones) in &edit.add_tombstones {
            self.tombstones.extend(TombstonePack::packs(*relation, tombstones));
        }
        if let Some((catalog, seq)) = edit.catalog {
            (self.catalog, self.catalog_seq) = (catalog, seq);
        }
    }

    fn dying(&self, edit: &Edit) -> Vec<SegmentId> {
        let dropped =
            self.segments.values().filter(|record| edit.drop.contains(&record.relation)).map(|record| record.id);
        let removed = edit.remove.iter().copied().filter(|id| self.segments.contains_key(id));
        dropped.chain(removed).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Packs that lose tombstones, and what is left of each.
    fn changed_tombstones(&self, edit: &Edit) -> Vec<(TombstoneKey, &TombstonePack, Option<TombstonePack>)> {
        if edit.drop.is_empty() && edit.remove_tombstones.is_empty() {
            return Vec::new();
        }
        let gone = |relation: RelationId, each: &Tombstone| {
            edit.drop.contains(&relation) || edit.remove_tombstones.contains(&(relation, each.span.seq, each.number))
        };
        let packs = self.tombstones.iter();
        let changed = packs.filter(|((relation, ..), pack)| pack.tombstones().iter().any(|each| gone(*relation, each)));
        changed.map(|(name, pack)| (*name, pack, pack.keep(|each| !gone(name.0, each)))).collect()
    }
}

pub(super) fn json<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::internal(format!("the manifest cannot be written: {error}")))
}

pub(super) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    read_json(bytes).map_err(|error| named("manifest", error))
}

fn be32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().expect("the length was checked"))
}

fn be64(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().expect("the length was checked"))
}

fn flushed_key(relation: RelationId) -> Vec<u8> {
    [b"r".as_slice(), &relation.0.to_be_bytes()].concat()
}

fn segment_key(id: SegmentId) -> Vec<u8> {
    [b"s".as_slice(), &id.0.to_be_bytes()].concat()
}

fn dead_key(id: SegmentId) -> Vec<u8> {
    [b"d".as_slice(), &id.0.to_be_bytes()].concat()
}
