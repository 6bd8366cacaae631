//! Span tombstones: deletions of contiguous ranges of keys, kept apart from runs since they cover rows beyond them.

use serde::{Deserialize, Serialize};

use super::{Extent, RunMeta};

/// A deleted span: covers every cell and marker in its keys that was written at or before `ts`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpanTombstone {
    /// First encoded key covered.
    pub start: Vec<u8>,
    /// First encoded key no longer covered; `None`: to the end.
    pub end: Option<Vec<u8>>,
    /// Write timestamp of the deletion, in microseconds since 1970.
    pub ts: i64,
    /// Server clock at the deletion, in microseconds since 1970: `gc_grace` counts from here.
    pub deleted_at: i64,
    /// Commit order of the deletion.
    pub seq: u64,
}

impl SpanTombstone {
    /// Whether the tombstone may be forgotten at `now`: its grace (in microseconds) has passed, and every run that
    /// overlaps it, in memory or not, has only younger writes there.
    pub fn may_go<'a>(&self, runs: impl IntoIterator<Item = &'a RunMeta>, now: i64, grace: i64) -> bool {
        let younger = |extent: &Extent| {
            let apart = extent.rows == 0
                || extent.key.1 < self.start
                || self.end.as_ref().is_some_and(|end| extent.key.0 >= *end);
            apart || extent.ts.is_none_or(|ts| ts.0 > self.ts)
        };
        let all_younger =
            |run: &RunMeta| younger(&run.all) || (!run.groups.is_empty() && run.groups.iter().all(younger));
        now >= self.deleted_at.saturating_add(grace) && runs.into_iter().all(all_younger)
    }

    /// Whether the tombstone overlaps the keys `[start, end)`.
    pub fn overlaps(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        end.is_none_or(|end| self.start.as_slice() < end) && self.end.as_deref().is_none_or(|own| own > start)
    }
}

/// Span tombstones as a step function: the keys at which the covering timestamp changes, and the timestamp from there
/// on.
///
/// ```text
/// tombstones   a|────7────|e       from: a  c  e  g
///                  c|──────9──────|g ts: 7  9  9  -
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cover {
    steps: Vec<(Vec<u8>, Option<i64>)>,
}

impl Cover {
    /// The step function of these tombstones, and of a `horizon` that covers all keys.
    pub fn new<'a>(tombstones: impl IntoIterator<Item = &'a SpanTombstone>, horizon: Option<i64>) -> Cover {
        let tombstones: Vec<&SpanTombstone> = tombstones.into_iter().collect();
        let mut events: Vec<(&[u8], bool, i64)> = Vec::with_capacity(tombstones.len() * 2 + 1);
        events.extend(horizon.map(|ts| (&[][..], true, ts)));
        for tombstone in &tombstones {
            if tombstone.end.as_ref().is_some_and(|end| *end <= tombstone.start) {
                continue;
            }
            events.push((&tombstone.start, true, tombstone.ts));
            events.extend(tombstone.end.as_ref().map(|end| (end.as_slice(), false, tombstone.ts)));
        }
        events.sort();
        let mut open = std::collections::BTreeMap::<i64, usize>::new();
        let mut steps: Vec<(Vec<u8>, Option<i64>)> = Vec::new();
        for (at, (key, begins, ts)) in events.iter().enumerate() {
            if *begins {
                *open.entry(*ts).or_default() += 1;
            } else if let Some(count) = open.get_mut(ts) {
                *count -= 1;
                if *count == 0 {
                    open.remove(ts);
                }
            }
            if events.get(at + 1).is_some_and(|next| next.0 == *key) {
                continue;
            }
            let now = open.keys().next_back().copied();
            if steps.last().and_then(|step| step.1) != now {
                steps.push((key.to_vec(), now));
            }
        }
        Cover { steps }
    }

    /// Whether nothing is covered.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The greatest timestamp that covers this key.
    pub fn at(&self, key: &[u8]) -> Option<i64> {
        match self.steps.partition_point(|step| step.0.as_slice() <= key) {
            0 => None,
            place => self.steps[place - 1].1,
        }
    }

    /// The first key after `key` at which the covering timestamp changes.
    pub fn next_change(&self, key: &[u8]) -> Option<&[u8]> {
        let place = self.steps.partition_point(|step| step.0.as_slice() <= key);
        self.steps.get(place).map(|step| step.0.as_slice())
    }

    /// The last key not after `key` at which the covering timestamp changed.
    pub fn last_change(&self, key: &[u8]) -> Option<&[u8]> {
        let place = self.steps.partition_point(|step| step.0.as_slice() <= key);
        place.checked_sub(1).map(|place| self.steps[place].0.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tombstone(start: &str, end: Option<&str>, ts: i64) -> SpanTombstone {
        SpanTombstone { start: start.into(), end: end.map(Into::into), ts, deleted_at: ts, seq: 0 }
    }

    #[test]
    fn the_greatest_covering_timestamp_is_found_everywhere() {
        let all = [tombstone("a", Some("e"), 7), tombstone("c", Some("g"), 9), tombstone("x", None, 1)];
        let cover = Cover::new(&all, None);
        let at: Vec<Option<i64>> =
            ["0", "a", "b", "c", "f", "g", "x", "z"].iter().map(|key| cover.at(key.as_bytes())).collect();
        assert_eq!(at, [None, Some(7), Some(7), Some(9), Some(9), None, Some(1), Some(1)]);
        assert_eq!(cover.next_change(b"a"), Some(b"c".as_slice()));
        assert_eq!(cover.last_change(b"b"), Some(b"a".as_slice()));
        let at = |horizon| {
            let cover = Cover::new(&all, Some(horizon));
            ["", "a", "c", "g", "x"].map(|key| cover.at(key.as_bytes()).unwrap_or_default())
        };
        assert_eq!((at(8), at(0)), ([8, 8, 9, 8, 8], [0, 7, 9, 0, 1]));
    }
}
