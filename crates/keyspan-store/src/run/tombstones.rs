//! The span tombstones of a relation, so that a read finds those over its keys without looking at the others.
//!
//! They are kept in sorted parts whose sizes at least halve from one to the next, as in an LSM tree: a new one is a part
//! of its own, and parts are merged until the sizes are right again. A part is an interval tree without pointers: a
//! sorted list whose middle is the root, with the furthest end below each node.

use std::sync::Arc;

use super::{Cover, SpanTombstone};

/// A span tombstone, and its place among those of one batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Tombstone {
    /// Its place in its batch.
    pub number: u32,
    /// The tombstone.
    pub span: SpanTombstone,
}

/// Span tombstones. Clones are cheap and share their parts.
#[derive(Clone, Debug, Default)]
pub struct SpanTombstones {
    parts: Vec<Arc<Part>>,
}

#[derive(Debug)]
struct Part {
    /// By start.
    sorted: Vec<Arc<Tombstone>>,
    /// For each node of the tree which tombstone below it ends last.
    furthest: Vec<u32>,
    /// Least and greatest commit order.
    seqs: (u64, u64),
}

impl SpanTombstones {
    /// Adds tombstones.
    pub fn extend(&mut self, tombstones: impl IntoIterator<Item = Arc<Tombstone>>) {
        let tombstones: Vec<Arc<Tombstone>> = tombstones.into_iter().collect();
        if tombstones.is_empty() {
            return;
        }
        self.parts.push(Arc::new(Part::new(tombstones)));
        while let [.., before, last] = self.parts.as_slice()
            && before.sorted.len() < last.sorted.len() * 2
        {
            let both = before.sorted.iter().chain(&last.sorted).cloned().collect();
            self.parts.truncate(self.parts.len() - 2);
            self.parts.push(Arc::new(Part::new(both)));
        }
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Tombstone>> {
        self.parts.iter().flat_map(|part| &part.sorted)
    }

    /// Those of batches after `seq`.
    pub fn after(&self, seq: u64) -> impl Iterator<Item = &Arc<Tombstone>> {
        let parts = self.parts.iter().filter(move |part| part.seqs.1 > seq);
        parts.flat_map(|part| &part.sorted).filter(move |tombstone| tombstone.span.seq > seq)
    }

    /// Those that cover keys in `[start, end)`, of batches up to `seq`.
    pub fn over(&self, start: &[u8], end: Option<&[u8]>, seq: u64) -> Vec<&SpanTombstone> {
        let mut found = Vec::new();
        for part in self.parts.iter().filter(|part| part.seqs.0 <= seq) {
            part.over(0..part.sorted.len(), start, end, &mut |tombstone| {
                found.extend(Some(tombstone).filter(|tombstone| tombstone.seq <= seq));
                true
            });
        }
        found
    }

    /// Whether there is one that covers keys in `[start, end)`, of a batch up to `seq`.
    pub fn any_over(&self, start: &[u8], end: Option<&[u8]>, seq: u64) -> bool {
        let mut parts = self.parts.iter().filter(|part| part.seqs.0 <= seq);
        parts.any(|part| !part.over(0..part.sorted.len(), start, end, &mut |tombstone| tombstone.seq > seq))
    }

    /// Keeps those for which this is true.
    pub fn retain(&mut self, keep: impl Fn(&Tombstone) -> bool) {
        let kept: Vec<Arc<Tombstone>> = self.iter().filter(|tombstone| keep(tombstone)).cloned().collect();
        self.parts.clear();
        self.extend(kept);
    }
}

impl Part {
    fn new(mut sorted: Vec<Arc<Tombstone>>) -> Part {
        sorted.sort_by(|a, b| a.span.start.cmp(&b.span.start));
        let seqs = sorted.iter().map(|tombstone| tombstone.span.seq);
        let seqs = seqs.fold((u64::MAX, 0), |(least, greatest), seq| (least.min(seq), greatest.max(seq)));
        let mut part = Part { furthest: vec![0; sorted.len()], sorted, seqs };
        part.find_furthest(0..part.sorted.len());
        part
    }

    /// Whether the first of two tombstones ends after the second.
    fn ends_later(&self, one: u32, other: u32) -> bool {
        let end = |at: u32| self.sorted[at as usize].span.end.as_deref();
        match (end(one), end(other)) {
            (_, None) => false,
            (None, _) => true,
            (Some(one), Some(other)) => one > other,
        }
    }

    fn find_furthest(&mut self, nodes: std::ops::Range<usize>) -> Option<u32> {
        if nodes.is_empty() {
            return None;
        }
        let middle = middle(&nodes);
        let mut furthest = middle as u32;
        for below in [nodes.start..middle, middle + 1..nodes.end] {
            furthest = match self.find_furthest(below) {
                Some(other) if self.ends_later(other, furthest) => other,
                _ => furthest,
            };
        }
        self.furthest[middle] = furthest;
        Some(furthest)
    }

    /// Visits those over `[start, end)` until `visit` says no; whether it never did.
    fn over<'a>(
        &'a self,
        nodes: std::ops::Range<usize>,
        start: &[u8],
        end: Option<&[u8]>,
        visit: &mut impl FnMut(&'a SpanTombstone) -> bool,
    ) -> bool {
        let reaches = |at: usize| self.sorted[at].span.end.as_deref().is_none_or(|end| end > start);
        if nodes.is_empty() || !reaches(self.furthest[middle(&nodes)] as usize) {
            return true;
        }
        let middle = middle(&nodes);
        if !self.over(nodes.start..middle, start, end, visit) {
            return false;
        }
        let own = &self.sorted[middle].span;
        if end.is_some_and(|end| own.start.as_slice() >= end) {
            return true;
        }
        let covers = reaches(middle) && own.end.as_ref().is_none_or(|end| *end > own.start);
        if covers && !visit(own) {
            return false;
        }
        self.over(middle + 1..nodes.end, start, end, visit)
    }
}

fn middle(nodes: &std::ops::Range<usize>) -> usize {
    nodes.start + nodes.len() / 2
}

/// The span tombstones of a relation that a snapshot shows.
#[derive(Clone, Debug)]
pub struct ShownTombstones {
    committed: SpanTombstones,
    /// The snapshot's seq.
    seq: u64,
    /// Those of a transaction that has not ended.
    own: SpanTombstones,
}

impl ShownTombstones {
    /// Those up to `seq`.
    pub fn new(committed: SpanTombstones, seq: u64) -> ShownTombstones {
        ShownTombstones { committed, seq, own: SpanTombstones::default() }
    }

    /// Adds those of a transaction's own writes.
    pub fn add_own(&mut self, tombstones: Vec<SpanTombstone>) {
        self.own.extend(tombstones.into_iter().map(|span| Arc::new(Tombstone { number: 0, span })));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.own.parts.is_empty() && self.committed.iter().all(|tombstone| tombstone.span.seq > self.seq)
    }

    /// Whether any key in `[start, end)` is covered.
    pub fn cover_any(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        self.committed.any_over(start, end, self.seq) || self.own.any_over(start, end, u64::MAX)
    }

    /// What covers the keys in `[start, end)`, with all that was written up to `horizon`. Beyond these keys it may say
    /// too little.
    pub fn cover(&self, start: &[u8], end: Option<&[u8]>, horizon: Option<i64>) -> Cover {
        let own = self.own.over(start, end, u64::MAX);
        Cover::new(self.committed.over(start, end, self.seq).into_iter().chain(own), horizon)
    }

    /// The greatest timestamp that covers a key.
    pub fn at(&self, key: &[u8]) -> Option<i64> {
        let next = [key, &[0]].concat();
        let own = self.own.over(key, Some(&next), u64::MAX);
        self.committed.over(key, Some(&next), self.seq).into_iter().chain(own).map(|tombstone| tombstone.ts).max()
    }
}

impl From<Vec<SpanTombstone>> for ShownTombstones {
    fn from(tombstones: Vec<SpanTombstone>) -> ShownTombstones {
        let mut shown = ShownTombstones::new(SpanTombstones::default(), 0);
        shown.add_own(tombstones);
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn tombstone(random: &mut Random) -> Tombstone {
        let start = random.below(256) as u8;
        let end = (!random.chance(10)).then(|| vec![start.saturating_add(random.below(40) as u8)]);
        let span = SpanTombstone { start: vec![start], end, ts: 0, deleted_at: 0, seq: random.below(50) };
        Tombstone { number: 0, span }
    }

    fn sorted<'a>(found: impl IntoIterator<Item = &'a SpanTombstone>) -> Vec<SpanTombstone> {
        let mut found: Vec<SpanTombstone> = found.into_iter().cloned().collect();
        found.sort_by(|a, b| (a.seq, &a.start, &a.end).cmp(&(b.seq, &b.start, &b.end)));
        found
    }

    #[test]
    fn those_over_keys_are_those_that_a_look_at_all_finds() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut index, mut all) = (SpanTombstones::default(), Vec::new());
            for _ in 0..random.below(40) {
                let batch: Vec<Tombstone> = (0..random.below(6)).map(|_| tombstone(&mut random)).collect();
                all.extend(batch.iter().map(|each| each.span.clone()));
                index.extend(batch.into_iter().map(Arc::new));
            }
            assert_eq!(index.iter().count(), all.len());
            assert!(index.parts.len() <= 9, "parts of doubling sizes");
            for seq in [0, 10, 49] {
                let asked = tombstone(&mut random).span;
                let (start, end) = (asked.start.as_slice(), asked.end.as_deref());
                let wanted = all.iter().filter(|each| {
                    let has_keys = each.end.as_ref().is_none_or(|end| *end > each.start);
                    has_keys && each.seq <= seq && each.overlaps(start, end)
                });
                let wanted: Vec<&SpanTombstone> = wanted.collect();
                assert_eq!(index.any_over(start, end, seq), !wanted.is_empty(), "seed {seed}");
                assert_eq!(sorted(index.over(start, end, seq)), sorted(wanted), "seed {seed}");
                let after = all.iter().filter(|each| each.seq > seq);
                assert_eq!(sorted(index.after(seq).map(|each| &each.span)), sorted(after), "seed {seed}");
            }
            index.retain(|each| each.span.seq % 2 == 0);
            assert_eq!(
                sorted(index.iter().map(|each| &each.span)),
                sorted(all.iter().filter(|each| each.seq % 2 == 0))
            );
        }
    }
}
