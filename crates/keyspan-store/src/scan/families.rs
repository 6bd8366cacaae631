//! Rows that live by a cell of a family only.
//!
//! A presence entry says that a row may live so. Families are looked into for those rows alone that neither their marker
//! nor a column keeps alive.

use std::sync::Arc;

use arrow::buffer::BooleanBuffer;
use keyspan_model::{KeyEncoder, Result, Scan, Span, Value};

use super::split::{Means, PartRuns, SplitPart, encode_split};
use super::{Run, ScanSource};
use crate::merge::chunk::Gathered;
use crate::merge::live::{Live, ScanOutput};
use keyspan_seam::{Conditions, Split};

impl ScanSource {
    /// Which rows live; `None`: all.
    pub(crate) fn live(&self, output: &ScanOutput, rows: &Gathered) -> Result<Option<BooleanBuffer>> {
        let Some(Live { rows: live, perhaps }) = output.live(rows, self.now) else { return Ok(None) };
        if perhaps.is_empty() {
            return Ok(Some(live));
        }
        let keys = rows.batch.encoded.as_ref().expect("encoded keys are asked for where rows have presence entries");
        let encoder = KeyEncoder::new(&self.relation.key);
        let mut by_family = vec![false; rows.batch.rows];
        for row in perhaps {
            by_family[row] = self.lives_in_a_family(&encoder.decode(keys.value(row))?)?;
        }
        let live = &live | &BooleanBuffer::from(by_family);
        Ok((live.count_set_bits() < rows.batch.rows).then_some(live))
    }

    fn lives_in_a_family(&self, key: &[Value]) -> Result<bool> {
        for family in &self.families {
            if family.has_cell(key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a family has a live cell in the row with this key.
    fn has_cell(self: &Arc<Self>, key: &[Value]) -> Result<bool> {
        // What is read of a memtable is copied first, so its first cell is tried alone: most likely it lives.
        let encoder = KeyEncoder::new(&self.relation.key);
        let (start, end) = encoder.span_bytes(&Span::prefix(key.to_vec()))?;
        for run in &self.runs {
            if let Run::Memtable(view) = run
                && let Some(first) = view.first_key(&start, end.as_deref())
            {
                let mut path = encoder.decode(&first)?;
                path.pop();
                if self.has_row(path)? {
                    return Ok(true);
                }
            }
        }
        self.has_row(key.to_vec())
    }

    /// Whether there is a live cell whose key begins so.
    fn has_row(self: &Arc<Self>, prefix: Vec<Value>) -> Result<bool> {
        let scan = Scan { limit: Some(1), ..Scan::new(self.relation.id, vec![Span::prefix(prefix)], Vec::new()) };
        let everything = SplitPart { runs: PartRuns::All, start: Vec::new(), end: None };
        let split = Split { payload: encode_split(Means::Boxes, &[everything]), rows: 1 };
        let mut reader = self.reader(&scan, &split, &Conditions::default(), Arc::default())?;
        while let Some(batch) = reader.next_batch()? {
            if batch.num_rows() > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
