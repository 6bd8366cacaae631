//! The sweep: a merge of sorted runs as a sequence of steps, each a stretch of rows that only one run has, or a row
//! that several have.
//!
//! All four scan forms are this one sweep. Where runs are disjoint a stretch ends at a block's end and no key is looked
//! at (concatenate); where they are disjoint in a later column stretches end where the leading columns change
//! (interleave); rows are compared cell by cell only where keys are equal (merge).

use std::ops::Range;
use std::sync::Arc;

use keyspan_model::Result;

use super::cursor::{RunCursor, Skip, Which};
use crate::run::{Cover, SortedRun, Wanted};
use keyspan_seam::ScanCounters;

/// What comes next in key order.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing.
    End,
    /// The next row lies beyond the fence, the key at which the caller wants to stop.
    Fence,
    /// Rows of one run, within one of its blocks of what is wanted, ascending also when the sweep goes backward.
    Stretch { run: Arc<dyn SortedRun>, rows: Range<usize>, covered: Option<i64> },
    /// The same row in several runs.
    Same { rows: Vec<(Arc<dyn SortedRun>, usize)>, covered: Option<i64> },
}

/// A merge in progress.
#[derive(Debug)]
pub(crate) struct Sweep {
    cursors: Vec<RunCursor>,
    cover: Arc<Cover>,
    reverse: bool,
}

impl Sweep {
    /// A merge of these rows of these runs over the keys `[start, end)`.
    pub(crate) fn open(
        runs: impl IntoIterator<Item = (Arc<dyn SortedRun>, Which)>,
        cover: Arc<Cover>,
        keys: (&[u8], Option<&[u8]>),
        reverse: bool,
        skip: &Skip,
        counters: &ScanCounters,
    ) -> Result<Sweep> {
        let mut cursors = Vec::new();
        for run in runs {
            cursors.extend(RunCursor::open(run, keys, reverse, skip, counters)?);
        }
        Ok(Sweep { cursors, cover, reverse })
    }

    /// The next step: at most `max` rows (at least 1), none of them beyond the fence (forward: not less than it;
    /// backward: less than it). `wanted`: what will be read of them.
    pub(crate) fn next(
        &mut self,
        max: usize,
        fence: Option<&[u8]>,
        wanted: &Wanted,
        counters: &ScanCounters,
    ) -> Result<Step> {
        loop {
            self.cursors.retain(|cursor| !cursor.is_done());
            let Some(first) = self.first() else { return Ok(Step::End) };
            let bound = self.cursors[first].bound();
            if fence.is_some_and(|fence| if self.reverse { bound < fence } else { bound >= fence }) {
                return Ok(Step::Fence);
            }
            if self.cursors[first].is_known() {
                let tied: Vec<usize> =
                    (0..self.cursors.len()).filter(|at| self.cursors[*at].bound() == bound).collect();
                if let Some(unknown) = tied.iter().find(|at| !self.cursors[**at].is_known()) {
                    self.cursors[*unknown].look(counters)?;
                    continue;
                }
                if tied.len() > 1 {
                    return Ok(self.same(&tied));
                }
            }
            let limit = self.limit(first, fence);
            let rows = self.cursors[first].stretch(limit.as_deref(), max, wanted);
            if rows.is_empty() {
                self.cursors[first].look(counters)?;
                continue;
            }
            let covered = self.cover.at(self.cursors[first].bound());
            self.cursors[first].pass(&rows);
            return Ok(Step::Stretch { run: Arc::clone(self.cursors[first].run()), rows, covered });
        }
    }

    /// The key of the next row; `None` at the end.
    pub(crate) fn peek(&mut self, counters: &ScanCounters) -> Result<Option<&[u8]>> {
        self.cursors.retain(|cursor| !cursor.is_done());
        loop {
            let Some(first) = self.first() else { return Ok(None) };
            if self.cursors[first].is_known() {
                return Ok(Some(self.cursors[first].bound()));
            }
            self.cursors[first].look(counters)?;
        }
    }

    /// Goes on at the first row not less than `key` (backward: at the last row less than it).
    pub(crate) fn seek(&mut self, key: &[u8], counters: &ScanCounters) -> Result<()> {
        self.cursors.iter_mut().try_for_each(|cursor| cursor.seek(key, counters))
    }

    /// Ends the sweep.
    pub(crate) fn close(&mut self) {
        self.cursors.clear();
    }

    fn first(&self) -> Option<usize> {
        let order = |a: &usize, b: &usize| self.cursors[*a].bound().cmp(self.cursors[*b].bound());
        if self.reverse { (0..self.cursors.len()).max_by(order) } else { (0..self.cursors.len()).min_by(order) }
    }

    fn same(&mut self, tied: &[usize]) -> Step {
        let covered = self.cover.at(self.cursors[tied[0]].bound());
        let mut rows = Vec::with_capacity(tied.len());
        for at in tied {
            let row = self.cursors[*at].next_row();
            rows.push((Arc::clone(self.cursors[*at].run()), row));
            self.cursors[*at].pass(&(row..row + 1));
        }
        Step::Same { rows, covered }
    }

    /// How far the first cursor's rows are its alone, under one covering tombstone, within the fence.
    fn limit(&self, first: usize, fence: Option<&[u8]>) -> Option<Vec<u8>> {
        let bound = self.cursors[first].bound();
        let others = self.cursors.iter().enumerate().filter(|(at, _)| *at != first).map(|(_, other)| other.bound());
        if self.reverse {
            // What is greater than the other's bound is not less than that bound with a zero byte after it.
            let other = others.max().map(|key| [key, &[0]].concat());
            let change = self.cover.last_change(bound).map(<[u8]>::to_vec);
            return [other, change, fence.map(<[u8]>::to_vec)].into_iter().flatten().max();
        }
        others.chain(self.cover.next_change(bound)).chain(fence).min().map(<[u8]>::to_vec)
    }
}
