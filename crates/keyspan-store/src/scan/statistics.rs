//! Statistics of a scan, without reading rows: exact only where everything in the spans is settled.

use keyspan_model::{ColumnId, Result, Scan, ScanColumn, Value};

use super::plan::Chosen;
use super::{Run, ScanSource};
use crate::run::{Extent, Overlap};
use keyspan_seam::{Known, ScanStatistics};

/// Rows of a scan from which on the ranges of its value columns are looked up: they bound how many values a column has,
/// which tells how many rows a join gives.
const MANY_ROWS: u64 = 4_096;

impl ScanSource {
    /// Statistics of a scan without its limit. `(counted, rows)`: how many rows the chosen runs have in the spans, and
    /// whether that is exact.
    pub(crate) fn statistics(
        &self,
        scan: &Scan,
        chosen: &Chosen,
        (counted, rows): (bool, u64),
    ) -> Result<ScanStatistics> {
        // Runs left out by the ranges may hold rows in the spans: the count is then of what is delivered at most.
        let all_count = counted && scan.ranges.is_empty() && scan.per_prefix.is_none();
        let exact = all_count && self.is_settled(chosen);
        let whole = exact && chosen.ranges == [(Vec::new(), None)];
        let width: u64 = scan.columns.iter().map(|column| self.width(*column)).sum();
        let of_values = whole || rows >= MANY_ROWS;
        let range = |column: &ScanColumn| self.range(*column, chosen, whole, of_values);
        let ranges = scan.columns.iter().map(range).collect::<Result<_>>()?;
        Ok(ScanStatistics {
            rows: if exact { Known::Exact(rows) } else { Known::Estimate(rows) },
            bytes: Known::Estimate(rows * width),
            ranges,
        })
    }

    /// Whether every row of the chosen runs in the spans is live and in one run only.
    fn is_settled(&self, chosen: &Chosen) -> bool {
        let extents: Vec<&Extent> = chosen.runs.iter().map(|at| &self.runs[*at].meta().all).collect();
        let in_memtable = chosen.runs.iter().any(|at| matches!(self.runs[*at], Run::Memtable(_)));
        let covered = chosen.ranges.iter().any(|(start, end)| self.tombstones.cover_any(start, end.as_deref()));
        let plain = extents.iter().all(|extent| self.is_plain(extent));
        plain && !in_memtable && !covered && !self.relation.counts_versions() && self.known_apart(chosen)
    }

    /// Whether no row is in two of the chosen runs, as far as is known without reading.
    fn known_apart(&self, chosen: &Chosen) -> bool {
        let runs: Vec<&Run> = chosen.runs.iter().map(|at| &self.runs[*at]).collect();
        let apart = |one: &Run, other: &Run| match (one.whole(), other.whole()) {
            (Ok(one), Ok(other)) => Overlap::known(&one, &other) == Some(Overlap::Disjoint),
            _ => false,
        };
        runs.iter().enumerate().all(|(at, one)| runs[at + 1..].iter().all(|other| apart(one, other)))
    }

    fn width(&self, column: ScanColumn) -> u64 {
        let ScanColumn::Column(id) = column else { return 8 };
        let key = self.relation.key_index(id).map(|at| self.relation.key[at].ty);
        let ty = key.or_else(|| self.relation.value(id).map(|column| column.ty));
        ty.and_then(|ty| ty.arrow().primitive_width()).map_or(24, |width| width as u64)
    }

    /// The least and the greatest value of a column in all of the chosen runs. Of a value column only with `of_values`.
    fn range(
        &self,
        column: ScanColumn,
        chosen: &Chosen,
        whole: bool,
        of_values: bool,
    ) -> Result<Known<(Value, Value)>> {
        let ScanColumn::Column(id) = column else { return Ok(Known::Unknown) };
        if !of_values && self.relation.key_index(id).is_none() {
            return Ok(Known::Unknown);
        }
        let Some((least, greatest)) = self.encoded_range(id, chosen) else { return Ok(Known::Unknown) };
        let column = match self.relation.key_index(id) {
            Some(at) => self.relation.key[at].clone(),
            None => match self.relation.value(id) {
                Some(value) => {
                    keyspan_model::KeyColumn { id, name: value.name.clone(), ty: value.ty, descending: false }
                }
                None => return Ok(Known::Unknown),
            },
        };
        let bounds = column.decoded_bounds((&least, &greatest))?;
        Ok(if whole { Known::Exact(bounds) } else { Known::Estimate(bounds) })
    }

    /// The encoded extremes of a column over the chosen runs, where each run knows its own.
    fn encoded_range(&self, id: ColumnId, chosen: &Chosen) -> Option<(Vec<u8>, Vec<u8>)> {
        let at = self.relation.key_index(id);
        let mut range: Option<(Vec<u8>, Vec<u8>)> = None;
        for run in chosen.runs.iter().map(|at| &self.runs[*at]) {
            let own = match at {
                Some(at) => run.meta().all.columns.get(at)?.clone(),
                None => run.sorted()?.zone(id)?,
            };
            range = Some(match range {
                Some((least, greatest)) => (least.min(own.0), greatest.max(own.1)),
                None => own,
            });
        }
        range
    }
}
