//! The cache of decoded blocks, shared by all segments of a store and bounded in bytes.
//!
//! A block is up to 4,096 rows of one column of one segment, decoded and checked; the encoded keys of a block, the
//! dictionary of a row group and the index of a segment are kept under the same budget. The oldest untouched entries go
//! first: each shard is a clock (second chance), so that a hit costs one hash look-up and one flag. Rule: the sum of the
//! entries' bytes never exceeds the budget; an entry larger than half a shard is not kept. Blocks read by long scans
//! have a part of their own, an eighth of the whole, so that they never evict what point reads need. The open column
//! readers of scans are kept there too.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use foldhash::fast::FixedState;
use keyspan_model::SegmentId;
use parking_lot::Mutex;

use super::column::ColumnReader;

const SHARDS: usize = 8;
/// Most places at which scans are remembered to go on.
const MAX_STREAMS: usize = 256;

/// What an entry is a decoded form of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct BlockKey {
    /// The segment.
    pub(super) segment: SegmentId,
    /// Position of the column in the segment's file, alone or with [`DICTIONARY`], or [`ENCODED_KEYS`] or [`INDEX`], or
    /// [`VALUES`] and a column's id.
    pub(super) column: u32,
    /// The block, counted from the segment's start; of a dictionary the first of its row group.
    pub(super) block: u32,
}

/// In place of a column: the encoded keys of a block.
pub(super) const ENCODED_KEYS: u32 = u32::MAX;
/// In place of a column: the segment's index.
pub(super) const INDEX: u32 = u32::MAX - 1;
/// Added to a column's id: its value index.
pub(super) const VALUES: u32 = 1 << 31;
/// Added to a column's position: the dictionary of a row group.
pub(super) const DICTIONARY: u32 = 1 << 30;

type Entry = Arc<dyn Any + Send + Sync>;

struct Cached {
    entry: Entry,
    bytes: usize,
    touched: AtomicBool,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<BlockKey, Cached, FixedState>,
    clock: VecDeque<BlockKey>,
    bytes: usize,
    hits: u64,
}

/// How a scan will go on at a block of a column.
pub(super) enum Stream {
    /// The block before was read to its end: the scan may go on forward.
    Forward,
    /// The block behind was read from its start: the scan may go on backward.
    Backward,
    /// The scan went on forward before; this reader decodes the block next.
    Reader(Box<ColumnReader>),
}

/// Decoded blocks, bounded in bytes.
pub struct BlockCache {
    shards: Vec<Mutex<Shard>>,
    shard_budget: usize,
    passing: Mutex<Shard>,
    passing_budget: usize,
    streams: Mutex<VecDeque<(BlockKey, Stream)>>,
    bytes: AtomicUsize,
    misses: AtomicU64,
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockCache").field("bytes", &self.bytes()).field("budget", &self.budget()).finish()
    }
}

impl BlockCache {
    /// A cache that holds at most `budget` bytes.
    pub fn new(budget: usize) -> Arc<BlockCache> {
        Arc::new(BlockCache {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            shard_budget: (budget - budget / 8) / SHARDS,
            passing: Mutex::default(),
            passing_budget: budget / 8,
            streams: Mutex::default(),
            bytes: AtomicUsize::new(0),
            misses: AtomicU64::new(0),
        })
    }

    /// Bytes held now.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Most bytes it will hold.
    pub fn budget(&self) -> usize {
        self.shard_budget * SHARDS + self.passing_budget
    }

    /// Look-ups that found their entry, and those that did not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        // Counted for each shard: a count for all would go back and forth between the cores.
        let hits = self.shards.iter().chain([&self.passing]).map(|shard| shard.lock().hits).sum();
        (hits, self.misses.load(Ordering::Relaxed))
    }

    /// Forgets everything of a segment; called when its file is deleted.
    pub fn forget(&self, segment: SegmentId) {
        self.streams.lock().retain(|(key, _)| key.segment != segment);
        for shard in self.shards.iter().chain([&self.passing]) {
            let mut shard = shard.lock();
            let before = shard.bytes;
            let keys: Vec<BlockKey> = shard.entries.keys().filter(|key| key.segment == segment).copied().collect();
            for key in &keys {
                if let Some(kept) = shard.entries.remove(key) {
                    shard.bytes -= kept.bytes;
                }
            }
            shard.clock.retain(|key| key.segment != segment);
            self.bytes.fetch_sub(before - shard.bytes, Ordering::Relaxed);
        }
    }

    pub(super) fn get<T: Any + Send + Sync>(&self, key: &BlockKey) -> Option<Arc<T>> {
        let own = self.shard(key).lock().get(key);
        let found = own.or_else(|| self.passing.lock().get(key));
        if found.is_none() {
            self.misses.fetch_add(1, Ordering::Relaxed);
        }
        found.and_then(|entry| entry.downcast().ok())
    }

    /// Whether there is an entry, without counting a look-up.
    pub(super) fn holds(&self, key: &BlockKey) -> bool {
        self.shard(key).lock().entries.contains_key(key) || self.passing.lock().entries.contains_key(key)
    }

    /// Adds an entry. `passing`: it belongs to a long scan and evicts only entries of other scans.
    pub(super) fn put<T: Any + Send + Sync>(&self, key: BlockKey, entry: Arc<T>, bytes: usize, passing: bool) {
        let shard = self.shard(&key);
        if !passing {
            return self.put_into(&mut shard.lock(), self.shard_budget, key, entry, bytes);
        }
        let mut shard = shard.lock();
        if shard.bytes + bytes <= self.shard_budget {
            return self.put_into(&mut shard, self.shard_budget, key, entry, bytes);
        }
        drop(shard);
        self.put_into(&mut self.passing.lock(), self.passing_budget, key, entry, bytes);
    }

    fn put_into(&self, shard: &mut Shard, budget: usize, key: BlockKey, entry: Entry, bytes: usize) {
        if bytes > budget / 2 || shard.entries.contains_key(&key) {
            return;
        }
        let before = shard.bytes;
        shard.make_room(budget - bytes);
        shard.bytes += bytes;
        shard.clock.push_back(key);
        shard.entries.insert(key, Cached { entry, bytes, touched: AtomicBool::new(false) });
        // One step for the sum, under the shard's lock: `bytes()` never shows more than the budget.
        if shard.bytes >= before {
            self.bytes.fetch_add(shard.bytes - before, Ordering::Relaxed);
        } else {
            self.bytes.fetch_sub(before - shard.bytes, Ordering::Relaxed);
        }
    }

    /// Whether, and how, a scan was to go on at this block.
    pub(super) fn take_stream(&self, key: &BlockKey) -> Option<Stream> {
        let mut streams = self.streams.lock();
        let at = streams.iter().position(|(own, _)| own == key)?;
        streams.remove(at).map(|(_, stream)| stream)
    }

    /// Remembers that a scan will go on at this block.
    pub(super) fn put_stream(&self, key: BlockKey, stream: Stream) {
        let mut streams = self.streams.lock();
        if streams.len() >= MAX_STREAMS {
            streams.pop_front();
        }
        streams.push_back((key, stream));
    }

    fn shard(&self, key: &BlockKey) -> &Mutex<Shard> {
        let mixed = (key.segment.0 ^ (u64::from(key.column) << 40) ^ (u64::from(key.block) << 20))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 61) as usize % SHARDS]
    }
}

impl Shard {
    fn get(&mut self, key: &BlockKey) -> Option<Entry> {
        let kept = self.entries.get(key)?;
        self.hits += 1;
        kept.touched.store(true, Ordering::Relaxed);
        Some(Arc::clone(&kept.entry))
    }

    fn make_room(&mut self, limit: usize) {
        while self.bytes > limit {
            let Some(key) = self.clock.pop_front() else { return };
            let Some(kept) = self.entries.get(&key) else { continue };
            if kept.touched.swap(false, Ordering::Relaxed) {
                self.clock.push_back(key);
                continue;
            }
            self.bytes -= kept.bytes;
            self.entries.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(block: u32) -> BlockKey {
        BlockKey { segment: SegmentId(1), column: 0, block }
    }

    #[test]
    fn the_budget_is_kept_and_touched_blocks_stay() {
        let cache = BlockCache::new(80_000);
        for block in 0..10_000 {
            cache.put(key(block), Arc::new(block), 100, false);
            assert!(cache.bytes() <= cache.budget());
            assert!(cache.get::<u32>(&key(0)).is_some_and(|value| *value == 0), "touched after each put");
        }
        assert!(cache.bytes() > 60_000);
        assert!(cache.get::<u32>(&key(9_999)).is_some());
        assert!(cache.get::<u32>(&key(1)).is_none());
    }

    #[test]
    fn a_passing_scan_pushes_out_nothing() {
        let cache = BlockCache::new(80_000);
        (0..600).for_each(|block| cache.put(key(block), Arc::new(block), 100, false));
        (1_000..9_000).for_each(|block| cache.put(key(block), Arc::new(block), 100, true));
        assert!((0..600).all(|block| cache.get::<u32>(&key(block)).is_some()));
        assert!(cache.get::<u32>(&key(8_999)).is_some() && cache.bytes() <= cache.budget());
    }

    #[test]
    fn oversize_entries_are_not_kept_and_a_segment_can_be_forgotten() {
        let cache = BlockCache::new(8_000);
        cache.put(key(1), Arc::new(1u32), 900, false);
        assert_eq!(cache.bytes(), 0);
        cache.put(key(2), Arc::new(2u32), 100, false);
        cache.forget(SegmentId(1));
        assert_eq!(cache.bytes(), 0);
        assert!(cache.get::<u32>(&key(2)).is_none());
    }
}
