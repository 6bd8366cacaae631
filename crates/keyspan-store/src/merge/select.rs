//! The rows of a block inside a scan's ranges.
//!
//! Rows outside are dropped before anything else of them is read. Rule: value columns are tested only for rows that no
//! other run has. Such a row shows its value or, if the cell is dead, null, which is inside no range. A key column has
//! one value in all versions of a row.

use std::ops::Range;

use keyspan_model::{ColumnRange, RelationDef, Result};

use crate::run::{Inside, RowTest, SortedRun, Wanted};
use keyspan_seam::ScanCounters;

/// The ranges of a scan whose columns are read.
#[derive(Debug)]
pub(crate) struct Selection {
    /// Those of key columns first: they leave few rows side by side.
    tests: Vec<RowTest>,
}

impl Selection {
    /// `None` if there is nothing to test.
    pub(crate) fn new(relation: &RelationDef, wanted: &Wanted, ranges: &[ColumnRange]) -> Result<Option<Selection>> {
        let (mut tests, mut of_values) = (Vec::new(), Vec::new());
        for range in ranges {
            if let Some(at) = relation.key_index(range.column) {
                let is_read = wanted.keys.get(at).is_some_and(|wanted| *wanted);
                if is_read && relation.key[at].ty.arrow_order_is_key_order() {
                    tests.push(RowTest::of_key(&relation.key, at, range)?);
                }
            } else if let Some(value) = relation.value(range.column).filter(|value| wanted.values.contains(&value.id))
                && value.ty.arrow_order_is_key_order()
            {
                of_values.push(RowTest::of_value(value.ty, range)?);
            }
        }
        tests.extend(of_values);
        Ok((!tests.is_empty()).then_some(Selection { tests }))
    }

    /// Those of the rows, which are of one block of a run, that are inside all ranges. Of a run that lies inside a range
    /// as a whole, rows are not asked.
    pub(crate) fn of(&self, run: &dyn SortedRun, rows: Range<usize>, counters: &ScanCounters) -> Result<Inside> {
        let mut inside = Inside::all(rows);
        for test in self.tests.iter().filter(|test| !test.holds_all(&run.meta().all)) {
            if inside.rows.is_empty() {
                break;
            }
            let own = run.inside(inside.rows.clone(), test, counters)?;
            inside = inside.and(own);
        }
        Ok(inside)
    }
}
