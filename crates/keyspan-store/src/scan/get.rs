//! The point path: whole keys, straight from the runs that may have them, with no plan.

use std::cmp::Reverse;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use keyspan_model::{KeyEncoder, Result, Scan, ScanColumn, Span, Value};

use super::split::{Means, PartRuns, SplitPart, encode_split};
use super::{Run, ScanSource};
use crate::memory_run::RowsBuilder;
use crate::merge::chunk::RowChunk;
use crate::merge::live::{Depth, ScanOutput};
use crate::run::{Extent, SortedRun, WholeKey};
use keyspan_seam::{Conditions, ScanCounters, Split};

impl ScanSource {
    /// The live rows with these whole keys, in the keys' order, missing ones left out.
    pub fn get(
        self: &Arc<Self>,
        keys: &[Vec<Value>],
        columns: &[ScanColumn],
        counters: &ScanCounters,
    ) -> Result<RecordBatch> {
        if self.relation.counts_versions() {
            return self.get_versions(keys, columns);
        }
        let encoder = KeyEncoder::new(&self.relation.key);
        let mut output = None;
        let mut chunk = RowChunk::default();
        for key in keys {
            let bytes = encoder.encode(key)?;
            let found = self.find(&WholeKey::new(&encoder, &bytes), counters)?;
            if found.is_empty() {
                continue;
            }
            if output.is_none() {
                output = Some(ScanOutput::new(&self.relation, columns, self.point_depth(), false)?);
            }
            if let Some(output) = &output {
                chunk.add_point(&found, self.cover_at(&bytes), &output.wanted, counters)?;
            }
        }
        let Some(output) = output else {
            return Ok(RecordBatch::new_empty(self.schema(columns)?));
        };
        let rows = chunk.finish(&output.types, false)?;
        let live = self.live(&output, &rows)?;
        output.batch(&rows, live.as_ref(), self.now)
    }

    /// Runs that may hold the key, by the newest write in them, so that what is read first is most likely all there is.
    /// Those left out cost a comparison with their box. Runs older than a tombstone that covers the key are not asked.
    fn candidates(&self, key: &WholeKey<'_>) -> Vec<&Run> {
        let covered = self.cover_at(key.bytes);
        let deleted = |extent: &Extent| covered.is_some_and(|covered| extent.ts.is_some_and(|ts| ts.1 <= covered));
        let may_hold = |run: &&Run| !deleted(&run.meta().all) && run.may_contain(key);
        let mut runs: Vec<&Run> = self.runs.iter().filter(may_hold).collect();
        runs.sort_by_key(|run| Reverse(run.meta().all.ts.map(|ts| ts.1)));
        runs
    }

    /// The runs that have the key, and its row in each.
    fn find(&self, key: &WholeKey<'_>, counters: &ScanCounters) -> Result<Vec<(Arc<dyn SortedRun>, usize)>> {
        let mut found: Vec<(Arc<dyn SortedRun>, usize)> = Vec::new();
        for run in self.candidates(key) {
            match run {
                Run::Memtable(view) => {
                    if let Some(row) = view.get(key.bytes) {
                        let mut builder = RowsBuilder::new(&self.relation);
                        builder.push(key.bytes.to_vec(), row)?;
                        found.push((Arc::new(builder.finish((0, 0))?), 0));
                    }
                }
                Run::Memory(run) => {
                    if let Some(row) = run.find(key.bytes, counters)? {
                        found.push((Arc::clone(run) as Arc<dyn SortedRun>, row));
                    }
                }
                Run::Segment(run) => {
                    if let Some(row) = run.find(key.bytes, counters)? {
                        found.push((Arc::clone(run), row));
                    }
                }
            }
        }
        Ok(found)
    }

    /// The timestamp up to which all writes of a key are deleted by span tombstones, or too old.
    fn cover_at(&self, key: &[u8]) -> Option<i64> {
        self.tombstones.at(key).max(self.horizon())
    }

    fn point_depth(&self) -> Depth {
        let simple = |run: &Run| {
            let extent = &run.meta().all;
            extent.markerless == 0 && !extent.own_stamps && extent.expires.is_none_or(|expires| self.now < expires.0)
        };
        if self.runs.iter().all(simple) { Depth::Marker } else { Depth::Cells }
    }

    /// Whether a version is kept depends on the newer ones, so each key is a scan.
    fn get_versions(self: &Arc<Self>, keys: &[Vec<Value>], columns: &[ScanColumn]) -> Result<RecordBatch> {
        let mut parts = Vec::new();
        for key in keys {
            let scan = Scan::new(self.relation.id, vec![Span::prefix(key.clone())], columns.to_vec());
            let everything = SplitPart { runs: PartRuns::All, start: Vec::new(), end: None };
            let split = Split { payload: encode_split(Means::Boxes, &[everything]), rows: 1 };
            let mut reader = self.reader(&scan, &split, &Conditions::default(), Arc::default())?;
            while let Some(batch) = reader.next_batch()? {
                parts.push(batch);
            }
        }
        Ok(concat_batches(&self.schema(columns)?, &parts)?)
    }
}
