//! Runs that a scan for first rows need not read: those that come after others which have rows enough.
//!
//! ```text
//! 10:00–11:00   a b c d   read                          the newest row of each host
//! 09:00–10:00   a b c     each has a later row: left out
//! 08:00–09:00   a b   e   read, for e
//!
//! 10:00–11:00   a         read                          the newest row of host a
//! 09:00–10:00   a         left out
//! ```
//!
//! Rule: a run counts as having later rows only if all its rows are certainly live, whatever versions other runs have.

use std::ops::Bound;
use std::sync::Arc;

use keyspan_model::{Order, Result, Scan, Span, Value};

use super::ScanSource;
use super::plan::{Chosen, EncodedSpan};
use crate::run::{Extent, Prefixes};
use keyspan_seam::ScanCounters;

/// Up to so many prefixes their first rows are sought in every run, and no run is left out.
const FEW: usize = 64;

/// Whose first rows the scan wants.
#[derive(Clone, Copy)]
enum Asked {
    /// So many of each prefix.
    OfEach(usize),
    /// So many of all.
    OfAll(usize),
}

/// By how many leading columns all rows of the one span are alike; `None` for several spans.
fn alike(scan: &Scan) -> Option<usize> {
    let [span] = scan.spans.as_slice() else { return None };
    let (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) =
        (&span.start, &span.end)
    else {
        return Some(0);
    };
    Some(start.iter().zip(end).take_while(|(one, other)| one == other).count())
}

impl ScanSource {
    /// What a scan reads: the chosen runs without those that need not be read. Looks at keys, once for each run.
    pub(crate) fn choose_first(&self, scan: &Scan) -> Result<Chosen> {
        Ok(self.without_later(scan, self.choose(scan)?))
    }

    /// The chosen runs without those that need not be read since others come before them.
    pub(crate) fn without_later(&self, scan: &Scan, mut chosen: Chosen) -> Chosen {
        let Some((columns, asked)) = self.asked(scan) else { return chosen };
        let reverse = scan.order == Order::Reverse;
        let mut order = chosen.runs.clone();
        // Of two of which one comes before the other, that one ends first.
        order.sort_by(|one, other| {
            let (one, other) = (self.interval(*one, columns), self.interval(*other, columns));
            if reverse { other.0.cmp(one.0) } else { one.1.cmp(other.1) }
        });
        let before = |one: &usize, other: usize| {
            let (one, other) = (self.interval(*one, columns), self.interval(other, columns));
            if reverse { one.0 > other.1 } else { one.1 < other.0 }
        };
        let (mut certain, mut left_out) = (Vec::new(), Vec::new());
        let mut counts = vec![None; self.runs.len()];
        for at in order {
            let mut earlier = certain.iter().copied().filter(|one| before(one, at)).peekable();
            let enough = match asked {
                _ if earlier.peek().is_none() => false,
                Asked::OfEach(rows) => self.all_have_rows(at, &earlier.collect::<Vec<_>>(), columns, rows),
                Asked::OfAll(rows) => {
                    let count = |at: usize| *counts[at].get_or_insert_with(|| self.rows_within(&chosen.ranges, at));
                    self.have_rows(earlier, count, rows)
                }
            };
            if enough {
                left_out.push(at);
            } else if self.lives(at) {
                certain.push(at);
            }
        }
        if !left_out.is_empty() {
            chosen.runs.retain(|at| !left_out.contains(at));
            let by = match asked {
                Asked::OfEach(_) => "prefixes",
                Asked::OfAll(_) => "limit",
            };
            chosen.pruned.push((by, left_out.len()));
        }
        chosen
    }

    /// What is asked for, and by how many leading columns the rows in question are alike; `None` where runs of what
    /// comes later may have to be read.
    fn asked(&self, scan: &Scan) -> Option<(usize, Asked)> {
        let plain = scan.ranges.is_empty() && self.tombstones.is_empty() && !self.relation.counts_versions();
        if scan.order == Order::Any || !plain {
            return None;
        }
        let asked = match (scan.per_prefix, scan.limit, alike(scan)) {
            (Some((columns, rows)), _, Some(alike)) if alike >= columns => Some((alike, Asked::OfAll(rows))),
            (None, Some(rows), Some(alike)) => Some((alike, Asked::OfAll(rows))),
            _ => self.first_rows(scan).map(|(columns, rows)| (columns, Asked::OfEach(rows))),
        };
        asked.filter(|(columns, _)| *columns < self.relation.key.len())
    }

    /// How many rows of how many leading columns are asked for, where all rows of more than a few prefixes are in
    /// question.
    fn first_rows(&self, scan: &Scan) -> Option<(usize, usize)> {
        let (columns, rows) = scan.per_prefix?;
        let one = |span: &Span| match (&span.start, &span.end) {
            (Bound::Included(first), Bound::Included(last)) => first == last && first.len() >= columns,
            _ => false,
        };
        if scan.spans.len() <= FEW && scan.spans.iter().all(one) {
            return None;
        }
        let short = |bound: &Bound<Vec<Value>>| match bound {
            Bound::Included(values) | Bound::Excluded(values) => values.len() <= columns,
            Bound::Unbounded => true,
        };
        let whole = |span: &Span| short(&span.start) && short(&span.end);
        scan.spans.iter().all(whole).then_some((columns, rows))
    }

    /// Whether runs have so many rows together, none of them counted in two versions: of overlapping runs the first counts.
    /// Most often the first run alone has them.
    fn have_rows(&self, runs: impl Iterator<Item = usize>, mut count: impl FnMut(usize) -> usize, rows: usize) -> bool {
        let (mut apart, mut sum): (Vec<usize>, usize) = (Vec::new(), 0);
        for at in runs {
            let own = count(at);
            if own > 0 && apart.iter().all(|other| self.extent(*other).disjoint(self.extent(at))) {
                apart.push(at);
                sum += own;
            }
            if sum >= rows {
                return true;
            }
        }
        false
    }

    /// How many rows a run has in these ranges. A run that cannot be read counts as empty: the scan that reads it gets
    /// the error.
    fn rows_within(&self, ranges: &[EncodedSpan], at: usize) -> usize {
        let Some(run) = self.runs[at].sorted() else { return 0 };
        let (counters, all) = (ScanCounters::default(), run.meta().all.rows as usize);
        let count = |(start, end): &EncodedSpan| {
            let end = end.as_ref().map_or(Ok(all), |end| run.lower_bound(end, &counters))?;
            Ok(end - run.lower_bound(start, &counters)?)
        };
        ranges.iter().map(count).sum::<Result<usize>>().unwrap_or(0)
    }

    fn extent(&self, at: usize) -> &Extent {
        &self.runs[at].meta().all
    }

    /// Least and greatest value of a key column in a run.
    fn interval(&self, at: usize, column: usize) -> (&[u8], &[u8]) {
        let interval = self.extent(at).columns.get(column);
        interval.map_or((&[], &[]), |(least, greatest)| (least, greatest))
    }

    /// Whether every row of a run is live, whatever versions it has in others.
    fn lives(&self, at: usize) -> bool {
        let own = self.extent(at);
        let harmless = |other: &Extent| other.is_plain(self.now) || other.disjoint(own);
        self.runs[at].sorted().is_some() && self.is_plain(own) && self.runs.iter().all(|run| harmless(&run.meta().all))
    }

    /// Whether each prefix in a run has so many rows in one of the others. False where keys cannot be read: the scan
    /// that reads these rows gets the error.
    fn all_have_rows(&self, at: usize, others: &[usize], columns: usize, rows: usize) -> bool {
        let prefixes = |at: usize| Prefixes::of(self.runs[at].sorted()?, &self.relation, columns).ok()?;
        let Some(own) = prefixes(at) else { return false };
        let others: Vec<Arc<Prefixes>> = others.iter().filter_map(|other| prefixes(*other)).collect();
        own.are_within(&others, rows)
    }
}
