//! Write timestamps from the future: those that somebody has given with USING TIMESTAMP.

use keyspan_model::{KeyEncoder, Result, Span, Value};

use super::{Run, ScanSource};
use crate::run::{RunBatch, SortedRun, Wanted};
use keyspan_seam::ScanCounters;

/// Rows that are looked at together.
const ROWS: usize = 4096;

impl ScanSource {
    /// Whether there may be a timestamp later than this one.
    pub fn may_be_ahead(&self, clock: i64) -> bool {
        !self.tombstones.is_empty() || self.runs.iter().any(|run| is_ahead(run, clock))
    }

    /// Of each of these keys, or of what begins with it, the newest timestamp, if it is later than this one.
    pub fn stamps_ahead(&self, keys: &[Vec<Value>], clock: i64) -> Result<Vec<Option<i64>>> {
        let encoder = KeyEncoder::new(&self.relation.key);
        let newest = |key: &Vec<Value>| {
            let (start, end) = encoder.span_bytes(&Span::prefix(key.clone()))?;
            let mut newest = self.tombstones.at(&start);
            for run in self.runs.iter().filter(|run| is_ahead(run, clock)) {
                let found = match run {
                    Run::Memtable(view) => view.columns(&start, end.as_deref())?.meta().all.ts.map(|ts| ts.1),
                    Run::Memory(run) => self.newest_in(run.as_ref(), &start, end.as_deref())?,
                    Run::Segment(run) => self.newest_in(run.as_ref(), &start, end.as_deref())?,
                };
                newest = newest.max(found);
            }
            Ok(newest.filter(|ts| *ts > clock))
        };
        keys.iter().map(newest).collect()
    }

    /// The newest timestamp of a run's rows within these bounds.
    fn newest_in(&self, run: &dyn SortedRun, start: &[u8], end: Option<&[u8]>) -> Result<Option<i64>> {
        let counters = ScanCounters::default();
        let from = run.lower_bound(start, &counters)?;
        let to = match end {
            Some(end) => run.lower_bound(end, &counters)?,
            None => run.meta().all.rows as usize,
        };
        let wanted = Wanted { keys: vec![false; self.relation.key.len()], ..Wanted::everything(&self.relation) };
        let wanted = Wanted { encoded: false, ..wanted };
        let mut newest = None;
        for first in (from..to).step_by(ROWS) {
            let batch = run.read(first..to.min(first + ROWS), &wanted, &counters)?;
            newest = newest.max((0..batch.rows).filter_map(|row| newest_of(&batch, row)).max());
        }
        Ok(newest)
    }
}

fn is_ahead(run: &Run, clock: i64) -> bool {
    run.meta().all.ts.is_some_and(|ts| ts.1 > clock)
}

/// The newest timestamp in a row: of its marker, its cells and its deletion.
fn newest_of(batch: &RunBatch, row: usize) -> Option<i64> {
    let cells = batch.cells.iter().map(|cells| cells.ts.get(row)).max().flatten();
    batch.row.ts.get(row).max(batch.row.deleted_ts.get(row)).max(cells)
}
