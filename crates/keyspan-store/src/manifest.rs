//! The manifest: which segments are alive, up to where each relation is flushed, the catalog, and counters that never
//! decrease. It decides what exists; a file that it does not name is garbage.
//!
//! ```text
//! edit ──▶ checkpoint `manifest/<edit>` (put if absent), where asked for ──▶ manifest log (sled in `edits/`) ──▶ state
//! ```
//!
//! Rules: a segment is named here only after its files and their directory are synced. Files are deleted and the commit
//! log is shortened only after a checkpoint that no longer needs them was read back; so the newest checkpoint and the
//! commit log are always enough to recover, also when the manifest log is lost. Edit numbers only grow: a failed one is
//! never used again, since it may be on disk. There it does no harm: the next edit that succeeds is complete without
//! it.

mod checkpoint;
mod log;
mod pack;
mod state;

use std::sync::Arc;

use keyspan_model::Result;
use uuid::Uuid;

use crate::files::{Files, with_reserve};

pub use checkpoint::{
    checkpoints, decode as decode_checkpoint, encode as encode_checkpoint, read as read_checkpoint,
    store_of as checkpoint_store, write as write_checkpoint,
};
pub use log::Items;
pub use pack::TombstonePack;
pub use state::{Edit, ManifestState, Marks, TombstoneKey};

use checkpoint::{newest, write};
use log::ManifestLog;

/// Directory of the checkpoints.
pub const CHECKPOINT_DIRECTORY: &str = "manifest";
/// Checkpoints that are kept.
const CHECKPOINTS_KEPT: usize = 2;

/// The manifest of an open store.
#[derive(Debug)]
pub struct Manifest {
    files: Arc<dyn Files>,
    store: Uuid,
    /// None where there is no local disk, and after it has failed: then every edit is a checkpoint.
    log: Option<ManifestLog>,
    state: ManifestState,
    /// Number of the next edit, greater than any that may be on disk.
    next: u64,
    /// Number of the newest checkpoint that is known to be durable.
    checkpoint: u64,
    rebuilt: Option<String>,
}

impl Manifest {
    /// Reads what there is. A damaged manifest log is rebuilt from the newest checkpoint, which is never behind what
    /// the commit log still needs.
    ///
    /// Errors: a newest checkpoint that is damaged, and no manifest log that knows as much, is `Corrupted`: its
    /// contents are unknown, and an older state would delete live files as garbage.
    pub fn open(files: Arc<dyn Files>, store: Uuid) -> Result<Manifest> {
        with_reserve(files.as_ref(), || files.create_dir(CHECKPOINT_DIRECTORY))?;
        let newest = newest(files.as_ref(), store)?;
        let (log, items, rebuilt) = match files.local_root() {
            Some(root) => ManifestLog::open(files.clone(), root, newest.items)?,
            None => (None, newest.items.unwrap_or_default(), None),
        };
        if let Some((_, error)) = newest.damaged.filter(|(number, _)| *number > items.edit) {
            return Err(error);
        }
        let state = ManifestState::from_items(&items)?;
        let next = state.edit.max(newest.number) + 1;
        Ok(Manifest { files, store, log, state, next, checkpoint: newest.whole, rebuilt })
    }

    /// The current state.
    pub fn state(&self) -> &ManifestState {
        &self.state
    }

    /// Why the manifest log was rebuilt from a checkpoint when the manifest was opened, if it was.
    pub fn rebuilt(&self) -> Option<&str> {
        self.rebuilt.as_deref()
    }

    /// Number that the next edit will have.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Number of the newest checkpoint that is known to be durable.
    pub fn checkpoint(&self) -> u64 {
        self.checkpoint
    }

    /// Closes the manifest log, so that the store may be opened again before this one is dropped. No edit may follow.
    pub fn close(&mut self) {
        self.log = None;
    }

    /// Makes an edit durable. With `checkpoint`, as a checkpoint that was read back.
    ///
    /// Errors: the state is as before, and a later edit may succeed. The failed one may be on disk all the same: so
    /// nothing that it names may be removed before a later checkpoint.
    pub fn commit(&mut self, edit: Edit, checkpoint: bool) -> Result<()> {
        let number = self.next;
        self.next += 1;
        let (puts, removes) = self.state.changes(&edit, number)?;
        let mut next = self.state.clone();
        next.apply(edit, number);
        if checkpoint || self.log.is_none() {
            self.write_checkpoint(&next)?;
        }
        if let Some(Err(error)) = self.log.as_mut().map(|log| log.commit(number, &puts, &removes)) {
            // Its contents are unknown now. The checkpoint is newer, and wins when the store is opened.
            tracing::warn!(%error, "the manifest log failed: every edit is a checkpoint until the next start");
            self.log = None;
            if self.checkpoint < number {
                self.write_checkpoint(&next)?;
            }
        }
        self.state = next;
        Ok(())
    }

    fn write_checkpoint(&mut self, state: &ManifestState) -> Result<()> {
        let items = Items { edit: state.edit, items: state.items()? };
        with_reserve(self.files.as_ref(), || write(self.files.as_ref(), self.store, &items))?;
        self.checkpoint = state.edit;
        let old = checkpoints(self.files.as_ref());
        for (_, path) in old.unwrap_or_default().iter().rev().skip(CHECKPOINTS_KEPT) {
            if let Err(error) = self.files.remove(path) {
                tracing::warn!(%error, "an old checkpoint could not be removed");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{LocalFiles, MemoryFiles};
    use crate::random::Random;
    use crate::run::{RunMeta, SpanTombstone, Tombstone};
    use crate::segment::SegmentRecord;
    use keyspan_model::{Catalog, ErrorKind, RelationId, SegmentId};

    fn edit(at: u32) -> Edit {
        let marks = Marks { timestamp: i64::from(at), ..Marks::default() };
        Edit { flushed: vec![(RelationId(at), u64::from(at) * 10)], marks, ..Edit::default() }
    }

    fn reopened(files: &Arc<dyn Files>, store: Uuid) -> ManifestState {
        Manifest::open(files.clone(), store).expect("opens").state().clone()
    }

    #[test]
    fn edits_are_there_after_reopening_on_disk_and_in_memory() {
        let dir = tempfile::tempdir().expect("a directory");
        let local: Arc<dyn Files> = Arc::new(LocalFiles::new(dir.path()).expect("opens"));
        for files in [local, Arc::new(MemoryFiles::new())] {
            let store = Uuid::new_v4();
            let mut manifest = Manifest::open(files.clone(), store).expect("opens");
            let mut catalog = Catalog::initial();
            catalog.version = 3;
            for at in 0..2000 {
                let options = [(format!("option {at}"), "v".repeat(20))].into();
                let keyspace = keyspan_model::KeyspaceDef { name: format!("k{at}"), options, attached: false };
                if at % 100 == 0 {
                    catalog.keyspaces.insert(keyspace.name.clone(), keyspace);
                }
            }
            let large = Edit { catalog: Some((Arc::new(catalog.clone()), 5)), ..Edit::default() };
            manifest.commit(large, false).expect("commits");
            let before = manifest.state().clone();
            drop(manifest);
            assert_eq!(reopened(&files, store), before, "an item in many pieces");
            let mut manifest = Manifest::open(files.clone(), store).expect("opens");
            for at in 1..20 {
                manifest.commit(edit(at), at == 10).expect("commits");
            }
            let small = Edit { catalog: Some((Arc::new(Catalog::initial()), 6)), ..edit(20) };
            manifest.commit(small, false).expect("commits");
            let before = manifest.state().clone();
            drop(manifest);
            assert_eq!(reopened(&files, store), before);
            assert_eq!((before.edit, before.marks.timestamp, before.catalog_seq), (21, 20, 6));
        }
    }

    /// sled writes its snapshots under such names first, and does not open where one is left.
    #[test]
    fn what_a_kill_leaves_of_a_snapshot_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let files: Arc<dyn Files> = Arc::new(LocalFiles::new(dir.path()).expect("opens"));
        let store = Uuid::new_v4();
        let mut manifest = Manifest::open(files.clone(), store).expect("opens");
        manifest.commit(edit(1), false).expect("commits");
        let before = manifest.state().clone();
        drop(manifest);
        let of = |name: &str| dir.path().join("edits").join(name);
        let (left, others) = (of("snap.00000001.generating"), [of("snap.txt"), of("x.generating")]);
        others.iter().chain([&left]).for_each(|path| std::fs::write(path, "half").expect("writes"));
        log::remove_leftovers(files.as_ref()).expect("removes");
        assert!(!left.exists() && others.iter().all(|path| path.exists()));
        others.iter().for_each(|path| std::fs::remove_file(path).expect("removes"));
        assert_eq!(reopened(&files, store), before);
    }

    #[test]
    fn a_lost_manifest_log_is_rebuilt_from_the_newest_checkpoint() {
        let dir = tempfile::tempdir().expect("a directory");
        let files: Arc<dyn Files> = Arc::new(LocalFiles::new(dir.path()).expect("opens"));
        let store = Uuid::new_v4();
        let mut manifest = Manifest::open(files.clone(), store).expect("opens");
        (1..5).for_each(|at| manifest.commit(edit(at), true).expect("commits"));
        let before = manifest.state().clone();
        drop(manifest);
        assert_eq!(checkpoints(files.as_ref()).expect("lists").len(), CHECKPOINTS_KEPT);
        let db = dir.path().join("edits/db");
        std::fs::write(&db, vec![0xa5; 100_000]).expect("damages");
        assert_eq!(reopened(&files, store), before);
        std::fs::remove_dir_all(dir.path().join("edits")).expect("removes");
        assert_eq!(reopened(&files, store), before);
        let db = sled::open(dir.path().join("edits")).expect("opens");
        let (key, _) = db.last().expect("reads").expect("a piece");
        db.remove(key).expect("removes");
        drop(db);
        let manifest = Manifest::open(files.clone(), store).expect("opens");
        assert!(manifest.rebuilt().is_some() && *manifest.state() == before, "{:?}", manifest.rebuilt());
        drop(manifest);
        std::fs::remove_dir_all(dir.path().join("manifest")).expect("removes");
        assert_eq!(reopened(&files, store), before, "from the new manifest log alone");
    }

    #[test]
    fn a_damaged_checkpoint_does_no_harm_where_the_manifest_log_knows_as_much() {
        let dir = tempfile::tempdir().expect("a directory");
        let files: Arc<dyn Files> = Arc::new(LocalFiles::new(dir.path()).expect("opens"));
        let store = Uuid::new_v4();
        let mut manifest = Manifest::open(files.clone(), store).expect("opens");
        (1..5).for_each(|at| manifest.commit(edit(at), true).expect("commits"));
        let before = manifest.state().clone();
        drop(manifest);
        let (_, newest) = checkpoints(files.as_ref()).expect("lists").pop().expect("a checkpoint");
        let mut bytes = std::fs::read(dir.path().join(&newest)).expect("reads");
        *bytes.last_mut().expect("a byte") ^= 1;
        std::fs::write(dir.path().join(&newest), bytes).expect("damages");
        assert_eq!(reopened(&files, store), before);
        std::fs::remove_dir_all(dir.path().join("edits")).expect("removes");
        let error = Manifest::open(files, store).expect_err("nobody knows what it said");
        assert!(error.kind == ErrorKind::Corrupted && error.message.contains(&newest), "{error}");
    }

    fn record(id: u64, relation: RelationId) -> SegmentRecord {
        let (file_bytes, index_bytes) = (id * 7, id * 3);
        let meta = RunMeta { seq: (id, id), ..RunMeta::default() };
        let (id, schema_version) = (SegmentId(id), 1);
        SegmentRecord {
            id,
            relation,
            schema_version,
            file_bytes,
            footer_crc: 1,
            index_bytes,
            index_crc: 2,
            meta,
            ts_base: 0,
        }
    }

    fn tombstone(seq: u64) -> SpanTombstone {
        SpanTombstone { start: vec![1], end: None, ts: 5, deleted_at: 6, seq }
    }

    /// One of all that an edit can do, to one of four relations, of which a segment, a tombstone and a mark may be
    /// there.
    fn random_edit(random: &mut Random, state: &ManifestState, at: u64) -> Edit {
        let relation = RelationId(random.below(4) as u32);
        let some = |random: &mut Random, count: usize| random.below(count as u64 + 1) as usize;
        match random.below(7) {
            0 => Edit { flushed: vec![(relation, at)], ..Edit::default() },
            1 => Edit { add: vec![record(at, relation), record(at + 1000, relation)], ..Edit::default() },
            2 => {
                let remove = state.segments.keys().skip(some(random, state.segments.len())).take(2).copied();
                Edit { remove: remove.collect(), add: vec![record(at, relation)], ..Edit::default() }
            }
            3 => {
                let many = if random.chance(50) { 1 } else { 40 };
                let tombstone = |number| Arc::new(Tombstone { number, span: tombstone(at) });
                Edit { add_tombstones: vec![(relation, (0..many).map(tombstone).collect())], ..Edit::default() }
            }
            4 => {
                let skip = some(random, state.tombstones.len());
                let all = state.tombstones.iter().skip(skip).take(1).flat_map(|((relation, ..), pack)| {
                    pack.tombstones().iter().map(|each| (*relation, each.span.seq, each.number))
                });
                let part = random.below(3) as u32;
                let remove = all.filter(|(.., number)| part == 0 || number % 3 != part).collect();
                Edit { remove_tombstones: remove, ..Edit::default() }
            }
            5 => Edit { drop: vec![relation], ..Edit::default() },
            _ => Edit { buried: state.dead.iter().take(3).copied().collect(), ..Edit::default() },
        }
    }

    /// What an edit should make of the state, said in another way: from the old state and the edit, item by item.
    fn expected(state: &ManifestState, edit: &Edit) -> ManifestState {
        let mut next = state.clone();
        next.edit += 1;
        let dropped = |relation: &RelationId| edit.drop.contains(relation);
        let dies = |record: &SegmentRecord| dropped(&record.relation) || edit.remove.contains(&record.id);
        next.dead.extend(state.segments.values().filter(|record| dies(record)).map(|record| record.id));
        next.dead.retain(|id| !edit.buried.contains(id));
        next.segments.retain(|_, record| !dies(record));
        next.segments.extend(edit.add.iter().map(|record| (record.id, record.clone())));
        next.flushed.retain(|relation, _| !dropped(relation));
        next.flushed.extend(edit.flushed.iter().copied());
        let packs = std::mem::take(&mut next.tombstones);
        for ((relation, ..), pack) in packs.into_iter().filter(|(key, _)| !dropped(&key.0)) {
            let gone = |each: &Tombstone| edit.remove_tombstones.contains(&(relation, each.span.seq, each.number));
            let kept = pack.keep(|each| !gone(each));
            next.tombstones.extend(kept.map(|pack| (pack.name(relation), pack)));
        }
        for (relation, tombstones) in &edit.add_tombstones {
            next.tombstones.extend(TombstonePack::packs(*relation, tombstones));
        }
        next
    }

    /// The state after each edit is the expected one, and the one that is read back: from the manifest log, from one
    /// that a crash has left behind the checkpoint, and from the checkpoint alone.
    #[test]
    fn random_edits_do_what_they_say_and_are_read_back_from_log_and_checkpoint() {
        let dir = tempfile::tempdir().expect("a directory");
        let files: Arc<dyn Files> = Arc::new(LocalFiles::new(dir.path()).expect("opens"));
        let (edits, aside) = (dir.path().join("edits"), dir.path().join("aside"));
        let store = Uuid::new_v4();
        let mut random = Random::new(3);
        let mut most = [0; 4];
        let mut manifest = Manifest::open(files.clone(), store).expect("opens");
        for at in 1..=200 {
            let behind = at % 10 == 7;
            if behind {
                manifest.close();
                std::fs::rename(&edits, &aside).expect("renames");
                manifest = Manifest::open(files.clone(), store).expect("opens");
            }
            let edit = random_edit(&mut random, manifest.state(), at);
            let wanted = expected(manifest.state(), &edit);
            manifest.commit(edit, behind || at % 10 == 6).expect("commits");
            assert_eq!(*manifest.state(), wanted, "edit {at}");
            let there = [wanted.flushed.len(), wanted.segments.len(), wanted.tombstones.len(), wanted.dead.len()];
            most = std::array::from_fn(|at| most[at].max(there[at]));
            if behind {
                manifest.close();
                std::fs::remove_dir_all(&edits).expect("removes");
                std::fs::rename(&aside, &edits).expect("renames");
            }
            if behind || at % 10 == 9 {
                manifest.close();
                manifest = Manifest::open(files.clone(), store).expect("opens");
                assert_eq!(*manifest.state(), wanted, "edit {at}, read back");
            }
        }
        assert!(most.iter().all(|most| *most > 3), "{most:?}");
    }
}
