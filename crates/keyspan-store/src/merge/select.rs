//! The rows of a block inside a scan's ranges.
//!
//! Rows outside are dropped before anything else of them is read. A key column has one value in all versions of a row: so
//! those of key columns are tested for every row. Rule: value columns are tested only for rows that no other run has. Such
//! a row shows its value or, if the cell is dead, null, which is inside no range.

use std::ops::Range;

use keyspan_model::{ColumnRange, ColumnType, RelationDef, Result};

use crate::run::{Inside, RowTest, SortedRun, Wanted};
use keyspan_seam::ScanCounters;

/// The ranges of a scan that rows are asked about.
#[derive(Debug)]
pub(crate) struct Selection {
    /// Those of key columns, whether these are read or not.
    keys: Vec<RowTest>,
    /// Those of value columns that are read.
    values: Vec<RowTest>,
}

/// Rows of a block that are inside.
#[derive(Debug)]
pub(crate) struct Selected {
    /// The ranges of key columns.
    pub(crate) keys: Inside,
    /// All ranges: those rows that no other run has.
    pub(crate) all: Inside,
}

impl Selection {
    /// `None` if there is nothing to test.
    pub(crate) fn new(relation: &RelationDef, wanted: &Wanted, ranges: &[ColumnRange]) -> Result<Option<Selection>> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for range in ranges {
            if let Some(at) = relation.key_index(range.column) {
                if relation.key[at].ty.arrow_order_is_key_order() {
                    keys.push(RowTest::of_key(&relation.key, at, range)?);
                }
            } else if let Some(value) = relation.value(range.column).filter(|value| wanted.values.contains(&value.id))
                && value.ty.arrow_order_is_key_order()
            {
                values.push(RowTest::of_value(value.ty, range)?);
            }
        }
        let is_empty = keys.is_empty() && values.is_empty();
        Ok((!is_empty).then_some(Selection { keys, values }))
    }

    /// Whether each of the ranges that is of a key column can be tested.
    pub(crate) fn holds_keys(relation: &RelationDef, ranges: &[ColumnRange]) -> bool {
        let types = ranges.iter().filter_map(|range| Some(relation.key[relation.key_index(range.column)?].ty));
        types.into_iter().all(ColumnType::arrow_order_is_key_order)
    }

    /// Those of the rows, which are of one block of a run, that are inside. Of a run that lies inside a range as a whole, rows
    /// are not asked.
    pub(crate) fn of(&self, run: &dyn SortedRun, rows: Range<usize>, counters: &ScanCounters) -> Result<Selected> {
        let keys = tested(&self.keys, run, Inside::all(rows), counters)?;
        let all = tested(&self.values, run, keys.clone(), counters)?;
        Ok(Selected { keys, all })
    }
}

impl Selected {
    /// All of these rows.
    pub(crate) fn all(rows: Range<usize>) -> Selected {
        Selected { keys: Inside::all(rows.clone()), all: Inside::all(rows) }
    }
}

fn tested(tests: &[RowTest], run: &dyn SortedRun, mut inside: Inside, counters: &ScanCounters) -> Result<Inside> {
    for test in tests.iter().filter(|test| !test.holds_all(&run.meta().all)) {
        if inside.rows.is_empty() {
            break;
        }
        let own = run.inside(inside.rows.clone(), test, counters)?;
        inside = inside.and(own);
    }
    Ok(inside)
}
