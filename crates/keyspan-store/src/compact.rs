//! Flush and compaction: merged rows become new segments, divided by window and cut by size.
//!
//! ```text
//! merged batches in key order ─▶ split by window ─▶ one writer a window ─▶ cut at 192 MB ─▶ records for one manifest edit
//! ```
//!
//! Rule: on any error, and when asked to stop, no file of an unfinished output is left. The inputs are not touched: the
//! manifest edit that adds the outputs removes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::buffer::BooleanBuffer;
use keyspan_model::{Error, RelationDef, Result, SegmentId};

use crate::files::Files;
use crate::merge::Compaction;
use crate::run::RunBatch;
use crate::segment::{SegmentRecord, SegmentWriter, SystemPlan, data_path, index_path};
use crate::window::{WHOLE, Window, times};

/// Bytes at which a segment is cut.
pub const SEGMENT_BYTES: u64 = 192 << 20;
/// How often an output is begun again with wider columns before all of them are written.
const ATTEMPTS: usize = 3;

/// Where and how merged rows are written.
pub struct MergeOutput<'a> {
    /// The files.
    pub files: &'a Arc<dyn Files>,
    /// The newest definition of the relation.
    pub relation: &'a Arc<RelationDef>,
    /// What the inputs' system columns look like ([`crate::segment::Segment::observe`], [`SystemPlan::observe`]).
    pub plan: SystemPlan,
    /// Level of the windows to divide by ([`crate::policy::output_level`]).
    pub level: u32,
    /// Least and greatest commit order of the inputs.
    pub seq: (u64, u64),
    /// Bytes at which a segment is cut: [`SEGMENT_BYTES`], less in tests.
    pub segment_bytes: u64,
    /// A segment id that was never used.
    pub new_id: &'a dyn Fn() -> SegmentId,
    /// Called after every batch; an error ends the work. A background thread yields or waits here.
    pub pause: &'a dyn Fn() -> Result<()>,
}

/// Merges and writes; returns the records of the new segments, whose files are durable. `open` begins the merge; it is
/// called again where rows turn out to need system columns that no input had.
pub fn write_merged(
    output: &MergeOutput<'_>,
    mut open: impl FnMut() -> Result<Compaction>,
) -> Result<Vec<SegmentRecord>> {
    write_batches(output, || {
        let mut merge = open()?;
        Ok(move || merge.next_batch())
    })
}

/// As [`write_merged`], of batches from anywhere: in key order, with encoded keys, all key columns, and the cells of
/// all of the relation's value columns in order.
pub fn write_batches<S>(output: &MergeOutput<'_>, mut open: impl FnMut() -> Result<S>) -> Result<Vec<SegmentRecord>>
where
    S: FnMut() -> Result<Option<RunBatch>>,
{
    let mut plan = output.plan.clone();
    for attempt in 0..=ATTEMPTS {
        if attempt == ATTEMPTS {
            plan.widen_all(output.relation);
        }
        let mut work = Work { output, plan, writers: BTreeMap::new(), records: Vec::new(), done: false };
        if work.run(open()?)? {
            return work.finish();
        }
        plan = work.plan.clone();
    }
    Err(Error::internal("a segment whose columns hold everything refused a batch"))
}

struct Work<'a> {
    output: &'a MergeOutput<'a>,
    plan: SystemPlan,
    writers: BTreeMap<Window, SegmentWriter>,
    records: Vec<SegmentRecord>,
    done: bool,
}

impl Work<'_> {
    /// Writes all batches; false: one did not fit the plan, which is now wider.
    fn run(&mut self, mut next: impl FnMut() -> Result<Option<RunBatch>>) -> Result<bool> {
        while let Some(batch) = next()? {
            if !self.plan.fits(self.output.relation, &batch) {
                self.plan.observe(self.output.relation, &batch);
                if !self.writers.is_empty() || !self.records.is_empty() {
                    return Ok(false);
                }
            }
            for (window, part) in split(self.output.relation, batch, self.output.level)? {
                self.write(window, part)?;
            }
            (self.output.pause)()?;
        }
        Ok(true)
    }

    fn write(&mut self, window: Window, batch: RunBatch) -> Result<()> {
        if batch.rows == 0 {
            return Ok(());
        }
        if !self.writers.contains_key(&window) {
            let MergeOutput { files, relation, seq, new_id, .. } = self.output;
            let writer =
                SegmentWriter::new(Arc::clone(files), new_id(), Arc::clone(relation), self.plan.clone(), *seq)?;
            self.writers.insert(window, writer);
        }
        let writer = self.writers.get_mut(&window).expect("inserted above");
        writer.write(batch)?;
        if writer.bytes() >= self.output.segment_bytes
            && let Some(writer) = self.writers.remove(&window)
        {
            self.records.extend(writer.finish()?);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<SegmentRecord>> {
        while let Some((_, writer)) = self.writers.pop_first() {
            self.records.extend(writer.finish()?);
            (self.output.pause)()?;
        }
        self.done = true;
        Ok(std::mem::take(&mut self.records))
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        for record in &self.records {
            // Best effort: recovery removes files that no manifest names.
            let _ = self.output.files.remove(&data_path(record.id));
            let _ = self.output.files.remove(&index_path(record.id));
        }
    }
}

/// The rows of each window, in key order.
fn split(relation: &RelationDef, batch: RunBatch, level: u32) -> Result<Vec<(Window, RunBatch)>> {
    let whole = Window { level: WHOLE, number: 0 };
    let Some(at) = relation.window.filter(|_| level < WHOLE && batch.rows > 0) else { return Ok(vec![(whole, batch)]) };
    let column = batch.keys.get(at).and_then(Option::as_ref);
    let times = times(column.ok_or_else(|| Error::internal("a batch without its window column"))?)?;
    let windows: Vec<Window> = times.iter().map(|time| Window::of(*time, level)).collect();
    let mut distinct = windows.clone();
    distinct.sort_unstable();
    distinct.dedup();
    if let [one] = distinct.as_slice() {
        return Ok(vec![(*one, batch)]);
    }
    let part = |window: Window| {
        let mask = BooleanBuffer::collect_bool(batch.rows, |row| windows[row] == window);
        Ok((window, batch.filter(&mask)?))
    };
    distinct.into_iter().map(part).collect()
}

#[cfg(test)]
#[path = "compact_tests.rs"]
mod tests;
