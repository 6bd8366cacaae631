//! Dividing a scan: disjoint ranges of keys of about equal size, or runs on their own where order does not matter.

use keyspan_model::{KeyEncoder, Order, Scan};

use super::ScanSource;
use super::plan::Chosen;
use super::split::{Part, encode_split};
use crate::seam::Split;

/// Sampled keys a split, from which its ends are taken.
const SAMPLES: u64 = 16;

impl ScanSource {
    /// Disjoint ranges of keys, in the order of the scan.
    pub(crate) fn ordered_splits(&self, scan: &Scan, chosen: &Chosen, parts: u64, rows: u64) -> Vec<Split> {
        let columns = self.whole_columns(scan);
        let cuts = if columns == 0 { Vec::new() } else { self.cuts(chosen, parts, rows, columns) };
        let mut splits = Vec::with_capacity(cuts.len() + 1);
        let mut start = Vec::new();
        let each = rows / (cuts.len() as u64 + 1);
        for end in cuts.into_iter().map(Some).chain([None]) {
            let part = Part { run: None, start, end: end.clone() };
            splits.push(Split { payload: encode_split(&[part]), rows: each });
            start = end.unwrap_or_default();
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
                samples.extend(self.samples(*at, start, end.as_deref(), step));
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

    /// Each run on its own, large ones divided, put together into splits of about `target` rows.
    pub(crate) fn unordered_splits(&self, chosen: &Chosen, target: u64) -> Vec<Split> {
        let mut splits: Vec<(Vec<Part>, u64)> = Vec::new();
        for at in &chosen.runs {
            let one = Chosen { ranges: chosen.ranges.clone(), runs: vec![*at], pruned: Vec::new() };
            let run_rows = self.rows_in(&one).1;
            let parts = run_rows.div_ceil(target).max(1);
            let cuts = self.cuts(&one, parts, run_rows, self.relation.key.len());
            let each = run_rows / (cuts.len() as u64 + 1);
            let mut start = Vec::new();
            for end in cuts.into_iter().map(Some).chain([None]) {
                let part = Part { run: Some(*at as u32), start, end: end.clone() };
                match splits.last_mut() {
                    Some((parts, rows)) if *rows + each <= target => {
                        parts.push(part);
                        *rows += each;
                    }
                    _ => splits.push((vec![part], each)),
                }
                start = end.unwrap_or_default();
            }
        }
        splits.into_iter().map(|(parts, rows)| Split { payload: encode_split(&parts), rows }).collect()
    }
}
