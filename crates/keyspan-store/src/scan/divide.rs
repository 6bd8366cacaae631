//! Dividing a scan: disjoint ranges of keys of about equal size, or groups of overlapping runs where order does not
//! matter.

use keyspan_model::{ColumnId, KeyEncoder, Order, Scan, ScanColumn};

use super::ScanSource;
use super::overlap_groups::OverlapGroups;
use super::plan::{Chosen, Size, Sizes};
use super::split::{Means, PartRuns, SplitPart, encode_split};
use keyspan_seam::Split;

/// Sampled keys per split, from which its ends are taken.
const SAMPLES: u64 = 16;
/// Decoding so many values takes as long as reading a row of blocks that are decoded.
const VALUES_A_ROW: u64 = 4;
/// Most ranges of runs for which the rows to decode are counted.
const MOST_LOOKED_AT: usize = 512;

/// The work of a scan, to be divided among tasks.
pub(crate) struct ScanWork {
    pub(crate) sizes: Sizes,
    /// Of all runs together.
    pub(crate) rows: u64,
    /// Rows below which nothing is divided further.
    pub(crate) least: u64,
}

impl ScanSource {
    /// The work to divide among tasks. It is the rows of the scan; where those are few, the rows of blocks that must be
    /// decoded, if decoding them keeps several tasks busy.
    pub(crate) fn work(&self, scan: &Scan, chosen: &Chosen, sizes: Sizes, want: u64, least: u64) -> ScanWork {
        let rows = sizes.of(&chosen.runs).1;
        let columns = scan.columns.iter().filter_map(|column| match column {
            ScanColumn::Column(id) => self.relation.value(*id).map(|value| value.id),
            _ => None,
        });
        let columns: Vec<ColumnId> = columns.collect();
        let places: usize = chosen.runs.iter().map(|at| sizes.0[*at].places.len()).sum();
        if let Some(column) = columns.first().filter(|_| rows < least && want > 1 && places <= MOST_LOOKED_AT) {
            let undecoded = self.undecoded(*column, chosen, &sizes);
            let rows = undecoded.of(&chosen.runs).1;
            let tasks = (rows * columns.len() as u64 / (VALUES_A_ROW * least)).min(want);
            if tasks > 1 {
                return ScanWork { sizes: undecoded, rows, least: rows / tasks };
            }
        }
        ScanWork { sizes, rows, least }
    }

    /// Rows of the blocks in which the scan's rows are, and of which this column must be decoded.
    fn undecoded(&self, column: ColumnId, chosen: &Chosen, sizes: &Sizes) -> Sizes {
        let mut undecoded = vec![Size::default(); self.runs.len()];
        for at in &chosen.runs {
            if let Some(run) = self.runs[*at].sorted() {
                let rows = sizes.0[*at].places.iter().map(|rows| run.undecoded(column, rows.clone()));
                undecoded[*at].rows = rows.sum();
            }
        }
        Sizes(undecoded)
    }

    /// Disjoint ranges of keys, in the order of the scan.
    pub(crate) fn ordered_splits(
        &self,
        scan: &Scan,
        chosen: &Chosen,
        rows: u64,
        means: Means,
        parts: u64,
    ) -> Vec<Split> {
        let columns = self.whole_columns(scan);
        let cuts = if columns == 0 { Vec::new() } else { self.cuts(chosen, parts, rows, columns) };
        let mut splits = Vec::with_capacity(cuts.len() + 1);
        let each = rows / (cuts.len() as u64 + 1);
        for part in between(cuts, PartRuns::All) {
            splits.push(Split { payload: encode_split(means, &[part]), rows: each });
        }
        if scan.order == Order::Reverse {
            splits.reverse();
        }
        splits
    }

    /// Keys that divide the scan into parts of about equal size, ascending.
    fn cuts(&self, chosen: &Chosen, parts: u64, rows: u64, columns: usize) -> Vec<Vec<u8>> {
        if parts <= 1 {
            return Vec::new();
        }
        let encoder = KeyEncoder::new(&self.relation.key);
        let step = (rows / (parts * SAMPLES)).max(1) as usize;
        let mut samples: Vec<Vec<u8>> = Vec::new();
        for at in &chosen.runs {
            if self.runs[*at].sorted().is_none() {
                continue;
            }
            for (start, end) in &chosen.ranges {
                let before = samples.len();
                samples.extend(self.samples(*at, start, end.as_deref(), step));
                if samples.len() == before {
                    samples.extend(self.begin_of_slice(*at, start, end.as_deref()));
                }
            }
        }
        samples.sort();
        let mut cuts: Vec<Vec<u8>> = (1..parts as usize)
            .filter_map(|part| samples.get(part * samples.len() / parts as usize))
            .map(|key| key[..encoder.prefix_len(key, columns)].to_vec())
            .filter(|key| !key.is_empty())
            .collect();
        cuts.dedup();
        cuts
    }

    /// The first key of a time slice within the one series of this span, where it has less than a block of rows and so
    /// no sample.
    fn begin_of_slice(&self, at: usize, start: &[u8], end: Option<&[u8]>) -> Option<Vec<u8>> {
        let encoder = KeyEncoder::new(&self.relation.key);
        let end = end?;
        let shared = |columns: &usize| {
            let length = encoder.prefix_len(start, *columns);
            length < start.len() && end.starts_with(&start[..length])
        };
        let columns = (1..self.relation.key.len()).take_while(shared).last()?;
        let (least, _) = self.runs[at].meta().all.columns.get(columns)?;
        let key = [&start[..encoder.prefix_len(start, columns)], least].concat();
        (key.as_slice() > start && key.as_slice() < end).then_some(key)
    }

    fn samples(&self, at: usize, start: &[u8], end: Option<&[u8]>, step: usize) -> Vec<Vec<u8>> {
        let Some(run) = self.runs[at].sorted() else { return Vec::new() };
        let first = run.estimate(start).0;
        let last = end.map_or(run.meta().all.rows as usize, |end| run.estimate(end).1);
        (first..last)
            .step_by(step)
            .skip(1)
            .filter_map(|row| run.sample(row))
            .filter(|key| key.as_slice() >= start)
            .collect()
    }

    /// The merge groups, large ones divided, and the shared groups, put together into splits of about `target` rows.
    pub(crate) fn group_splits(
        &self,
        chosen: &Chosen,
        sizes: &Sizes,
        groups: &OverlapGroups,
        means: Means,
        target: u64,
    ) -> Vec<Split> {
        let mut splits = Packed { target, splits: Vec::new() };
        for group in groups.merge_groups() {
            let runs = groups.runs_merged_in(group).map(|member| chosen.runs[member]).collect();
            let members = Chosen { ranges: chosen.ranges.clone(), runs, pruned: Vec::new() };
            let rows = sizes.of(&members.runs).1;
            let cuts = self.cuts(&members, rows.div_ceil(target).max(1), rows, self.relation.key.len());
            let each = rows / (cuts.len() as u64 + 1);
            between(cuts, PartRuns::Group(group as u32)).into_iter().for_each(|part| splits.push(part, each));
        }
        for (group, rows) in groups.shared_groups() {
            splits.push(SplitPart { runs: PartRuns::Shared(group as u32), start: Vec::new(), end: None }, rows);
        }
        let encoded = splits.splits.into_iter();
        encoded.map(|(parts, rows)| Split { payload: encode_split(means, &parts), rows }).collect()
    }
}

/// Splits that are filled up to about `target` rows, one after another.
struct Packed {
    target: u64,
    splits: Vec<(Vec<SplitPart>, u64)>,
}

impl Packed {
    fn push(&mut self, part: SplitPart, rows: u64) {
        match self.splits.last_mut() {
            Some((parts, taken)) if *taken + rows <= self.target => {
                parts.push(part);
                *taken += rows;
            }
            _ => self.splits.push((vec![part], rows)),
        }
    }
}

/// The keys before, between and after these cuts.
fn between(cuts: Vec<Vec<u8>>, runs: PartRuns) -> Vec<SplitPart> {
    let mut start = Vec::new();
    let part = |end: Option<Vec<u8>>| {
        let next = end.clone().unwrap_or_default();
        SplitPart { runs, start: std::mem::replace(&mut start, next), end }
    };
    cuts.into_iter().map(Some).chain([None]).map(part).collect()
}
