//! Planning a scan: from spans to runs, scan form and splits.

use std::ops::{Bound, Range};

use keyspan_model::key::successor;
use keyspan_model::{ColumnRange, KeyEncoder, Order, Result, Scan, Span, Value};

use super::divide::ScanWork;
use super::overlap_groups::OverlapGroups;
use super::split::Means;
use super::{Run, ScanSource};
use crate::merge::versions::VersionFilter;
use crate::run::{EncodedRange, Extent, WholeKey};
use keyspan_seam::{ScanForm, ScanPlan};

/// Rows below which a scan is not divided.
const SPLIT_ROWS: u64 = 65_536;
/// Most whole keys that are looked up in bounding boxes and bloom filters.
const MOST_PROBES: usize = 64;

/// A range of encoded keys: from the first, up to and without the second (`None`: to the end).
pub(crate) type EncodedSpan = (Vec<u8>, Option<Vec<u8>>);

/// Index of a key column, and what its values must be.
pub(crate) type KeyColumnRange = (usize, EncodedRange);

/// The first and the last of encoded values; `None`: no end.
type Ends = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Which runs a scan reads.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// Encoded spans, ascending.
    pub(crate) ranges: Vec<EncodedSpan>,
    /// Indexes of the runs that are read.
    pub(crate) runs: Vec<usize>,
    pub(crate) pruned: Vec<(&'static str, usize)>,
}

impl ScanSource {
    /// Divides a scan into about `want` parts, and says how it will be read.
    pub fn plan(&self, scan: &Scan, want: usize) -> Result<ScanPlan> {
        self.divide(scan, want, SPLIT_ROWS)
    }

    /// As [`ScanSource::plan`], with the number of rows below which nothing is divided.
    pub(crate) fn divide(&self, scan: &Scan, want: usize, least: u64) -> Result<ScanPlan> {
        let all = self.choose(scan)?;
        if let Some(found) = self.found(scan, &all)? {
            return self.plan_of_found(scan, &all, &found);
        }
        let sizes = self.sizes(&all);
        let statistics = self.statistics(scan, &all, sizes.of(&all.runs))?;
        let chosen = self.without_later(scan, all);
        let rows = sizes.of(&chosen.runs).1;
        // For few rows a merge costs less than comparing keys to find out whether one is needed.
        let look = rows >= least && scan.limit.is_none_or(|limit| limit as u64 >= least);
        let means = if look { Means::Keys } else { Means::Boxes };
        let groups = self.overlap_groups(&chosen, look)?;
        let form = self.form(scan, &chosen, &groups);
        let segments = chosen.runs.iter().filter(|at| self.runs[**at].is_segment()).count();
        let any_order = scan.order == Order::Any && !self.is_grouped(scan);
        let ScanWork { sizes, rows, least } = self.work(scan, &chosen, sizes, want as u64, least);
        let target = (rows / want.max(1) as u64).max(least);
        let splits = match form {
            ScanForm::Empty => Vec::new(),
            ScanForm::Unordered => self.group_splits(&chosen, &sizes, &groups, means, target),
            ScanForm::Merge if any_order && groups.are_several() => {
                self.group_splits(&chosen, &sizes, &groups, means, target)
            }
            _ => self.ordered_splits(scan, &chosen, rows, means, (want as u64).min(rows / least)),
        };
        Ok(ScanPlan {
            splits,
            form,
            memory_runs: chosen.runs.len() - segments,
            segments,
            pruned: chosen.pruned,
            statistics,
            found: None,
        })
    }

    /// The encoded spans, and the runs that may hold live rows in them.
    pub(crate) fn choose(&self, scan: &Scan) -> Result<Chosen> {
        let ranges = self.key_ranges(scan)?;
        let counts_versions = self.relation.counts_versions();
        let mut bounds = Vec::new();
        if !counts_versions {
            bounds = self.key_column_ranges(&scan.ranges)?;
            bounds.extend(self.columns_of_spans(&scan.spans)?);
        }
        // Newer versions count even where they are before the span.
        let group_start = |range: &EncodedSpan| (self.group_start(&range.0).to_vec(), range.1.clone());
        let reach = if counts_versions { ranges.iter().map(group_start).collect() } else { ranges.clone() };
        let keys = self.whole_keys(&reach);
        let mut pruned = [("spans", 0), ("ranges", 0), ("bloom", 0), ("expired", 0)];
        let mut runs = Vec::new();
        for (at, run) in self.runs.iter().enumerate() {
            let extent = &run.meta().all;
            let reason = if !reach.iter().any(|(start, end)| extent.overlaps(start, end.as_deref())) {
                0
            } else if !within(extent, &bounds) {
                1
            } else if keys.as_ref().is_some_and(|keys| !keys.iter().any(|key| run.may_contain(key))) {
                2
            } else if self.is_expired(at) {
                3
            } else {
                runs.push(at);
                continue;
            };
            pruned[reason].1 += usize::from(extent.rows > 0);
        }
        let pruned = pruned.into_iter().filter(|(_, count)| *count > 0).collect();
        Ok(Chosen { ranges, runs, pruned })
    }

    fn key_ranges(&self, scan: &Scan) -> Result<Vec<EncodedSpan>> {
        let encoder = KeyEncoder::new(&self.relation.key);
        let mut ranges = Vec::with_capacity(scan.spans.len());
        for span in &scan.spans {
            let (start, end) = encoder.span_bytes(span)?;
            if end.as_ref().is_none_or(|end| start < *end) {
                ranges.push((start, end));
            }
        }
        ranges.sort();
        // Spans come disjoint; were they not, a row would be read twice.
        let mut disjoint: Vec<EncodedSpan> = Vec::with_capacity(ranges.len());
        for (start, end) in ranges {
            match disjoint.last_mut() {
                Some((_, Some(before))) if start < *before => {
                    if end.as_ref().is_none_or(|end| end > before) {
                        match end {
                            Some(end) => *before = end,
                            None => disjoint.last_mut().expect("there is a last one").1 = None,
                        }
                    }
                }
                Some((_, None)) => {}
                _ => disjoint.push((start, end)),
            }
        }
        Ok(disjoint)
    }

    /// Those of the scan's ranges that are of key columns.
    pub(crate) fn key_column_ranges(&self, ranges: &[ColumnRange]) -> Result<Vec<KeyColumnRange>> {
        let of_key = ranges.iter().filter_map(|range| Some((self.relation.key_index(range.column)?, range)));
        of_key.map(|(at, range)| Ok((at, EncodedRange::new(&self.relation.key[at], range)?))).collect()
    }

    /// The bounds that all spans together set for key columns after the first: `('a', [1 .. 2])` and `('z', [2 .. 3])`
    /// keep the second column between 1 and 3. Most runs are slices of time, which the first columns do not prune.
    fn columns_of_spans(&self, spans: &[Span]) -> Result<Vec<KeyColumnRange>> {
        let encoder = KeyEncoder::new(&self.relation.key);
        let mut bounds = Vec::new();
        for (at, column) in self.relation.key.iter().enumerate().skip(1) {
            let own = KeyEncoder::new(std::slice::from_ref(column));
            let mut hull: Option<Ends> = None;
            for span in spans {
                let (start, end) = (values(&span.start), values(&span.end));
                if start.len().min(end.len()) < at || encoder.encode(&start[..at])? != encoder.encode(&end[..at])? {
                    return Ok(bounds);
                }
                let of = |values: &[Value]| values.get(at..=at).map(|value| own.encode(value)).transpose();
                let (lower, upper) = (of(start)?, of(end)?);
                hull = Some(match hull {
                    None => (lower, upper),
                    Some((least, most)) => (least.min(lower), most.zip(upper).map(|(most, upper)| most.max(upper))),
                });
            }
            let Some((lower, upper)) = hull else { break };
            bounds.push((at, EncodedRange::between(lower, upper)));
        }
        Ok(bounds)
    }

    /// The ranges as whole keys, where they are a few of those: boxes and bloom filters are asked for each.
    pub(crate) fn whole_keys<'a>(&self, ranges: &'a [EncodedSpan]) -> Option<Vec<WholeKey<'a>>> {
        let encoder = KeyEncoder::new(&self.relation.key);
        let whole = |range: &EncodedSpan| range.1 == successor(&range.0) && encoder.decode(&range.0).is_ok();
        let are_whole = ranges.len() <= MOST_PROBES && ranges.iter().all(whole);
        are_whole.then(|| ranges.iter().map(|(key, _)| WholeKey::new(&encoder, key)).collect())
    }

    /// Whether all of a run is too old, or has expired and shadows nothing: a version hides older ones of its cell that its
    /// family's rule does not keep.
    fn is_expired(&self, at: usize) -> bool {
        let extent = &self.runs[at].meta().all;
        if self.horizon().is_some_and(|horizon| extent.ts.is_some_and(|ts| ts.1 <= horizon)) {
            return true;
        }
        let expired = !extent.everlasting && extent.expires.is_some_and(|expires| expires.1 <= self.now);
        let newest = extent.ts.map(|ts| ts.1);
        let shadows_nothing = |(other, run): (usize, &Run)| {
            let others = &run.meta().all;
            other == at || extent.disjoint(others) || others.ts.map(|ts| ts.0) > newest
        };
        expired
            && !self.relation.counts_versions()
            && extent.row_tombstones == 0
            && self.runs.iter().enumerate().all(shadows_nothing)
    }

    fn form(&self, scan: &Scan, chosen: &Chosen, groups: &OverlapGroups) -> ScanForm {
        if chosen.runs.is_empty() {
            return ScanForm::Empty;
        }
        let extents: Vec<&Extent> = chosen.runs.iter().map(|at| &self.runs[*at].meta().all).collect();
        if self.one_after_another(&extents) {
            ScanForm::Concatenate
        } else if !groups.all_disjoint() {
            ScanForm::Merge
        } else if scan.order == Order::Any && !self.is_grouped(scan) {
            ScanForm::Unordered
        } else {
            ScanForm::Interleave
        }
    }

    fn one_after_another(&self, extents: &[&Extent]) -> bool {
        let mut keys: Vec<_> = extents.iter().map(|extent| &extent.key).collect();
        keys.sort();
        keys.windows(2).all(|pair| pair[0].1 < pair[1].0)
    }

    /// Whether rows of one group must be read together.
    fn is_grouped(&self, scan: &Scan) -> bool {
        scan.per_prefix.is_some() || VersionFilter::new(&self.relation, self.now).is_some()
    }

    /// How many leading key columns a split's end must not cut through.
    pub(crate) fn whole_columns(&self, scan: &Scan) -> usize {
        let versions = VersionFilter::new(&self.relation, self.now).map(|_| self.relation.key.len() - 1);
        let prefix = scan.per_prefix.map(|(columns, _)| columns);
        versions.into_iter().chain(prefix).min().unwrap_or(self.relation.key.len())
    }

    /// Rows of the chosen runs in the spans.
    pub(crate) fn sizes(&self, chosen: &Chosen) -> Sizes {
        let mut sizes = vec![Size::default(); self.runs.len()];
        for at in &chosen.runs {
            sizes[*at] = rows_in(&self.runs[*at], &chosen.ranges);
        }
        Sizes(sizes)
    }
}

/// Rows of each run in the spans of a scan; none of runs that were not chosen.
#[derive(Debug)]
pub(crate) struct Sizes(pub(crate) Vec<Size>);

/// Rows of a run in the spans of a scan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Size {
    /// Whether there may be more or fewer than `rows`.
    vague: bool,
    pub(crate) rows: u64,
    /// Between which rows of the run they are, if that is known.
    pub(crate) places: Vec<Range<usize>>,
}

impl Sizes {
    /// Rows of these runs together, and whether that is exact.
    pub(crate) fn of(&self, runs: &[usize]) -> (bool, u64) {
        let add = |(exact, rows), own: &Size| (exact && !own.vague, rows + own.rows);
        runs.iter().map(|at| &self.0[*at]).fold((true, 0), add)
    }
}

fn values(bound: &Bound<Vec<Value>>) -> &[Value] {
    match bound {
        Bound::Unbounded => &[],
        Bound::Included(values) | Bound::Excluded(values) => values,
    }
}

/// Whether the box of some rows touches these ranges.
pub(crate) fn within(extent: &Extent, ranges: &[KeyColumnRange]) -> bool {
    ranges
        .iter()
        .all(|(at, range)| extent.columns.get(*at).is_none_or(|(least, greatest)| range.overlaps(least, greatest)))
}

/// Rows of a run in these ranges, which ascend and are disjoint.
fn rows_in(run: &Run, ranges: &[EncodedSpan]) -> Size {
    let extent = &run.meta().all;
    let overlapping: Vec<&EncodedSpan> =
        ranges.iter().filter(|(start, end)| extent.overlaps(start, end.as_deref())).collect();
    let Some(sorted) = run.sorted() else {
        let rows = extent.rows * overlapping.len() as u64;
        return Size { vague: !overlapping.is_empty(), rows, places: Vec::new() };
    };
    let holds_all =
        |(start, end): &EncodedSpan| start <= &extent.key.0 && end.as_ref().is_none_or(|end| extent.key.1 < *end);
    let all = extent.rows as usize;
    match overlapping.as_slice() {
        [] => return Size::default(),
        [range] if holds_all(range) => {
            return Size { vague: false, rows: extent.rows, places: std::iter::once(0..all).collect() };
        }
        _ => {}
    }
    let starts: Vec<&[u8]> = overlapping.iter().map(|(start, _)| start.as_slice()).collect();
    let ends: Vec<&[u8]> = overlapping.iter().filter_map(|(_, end)| end.as_deref()).collect();
    // Only the last range may have no end: it goes on to the last row.
    let lasts = sorted.estimates(&ends).into_iter().chain([(all, all)]);
    let mut size = Size { places: Vec::with_capacity(overlapping.len()), ..Size::default() };
    let middle = |(low, high): (usize, usize)| low + (high - low) / 2;
    for (first, last) in sorted.estimates(&starts).into_iter().zip(lasts) {
        size.vague |= first.0 != first.1 || last.0 != last.1;
        size.rows += middle(last).saturating_sub(middle(first)) as u64;
        size.places.push(first.0..last.1.max(first.0));
    }
    size
}
