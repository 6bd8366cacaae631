//! The rows of a block that are inside a scan's ranges and meet its conditions.
//!
//! Others are dropped before anything else of them is read. A key column has one value in all versions of a row: so what is
//! said of key columns is tested for every row. Rule: value columns are tested only for rows that no other run has. Such a
//! row shows its value or, if the cell is dead, null, which is inside no range; but it may meet a condition, so these are
//! tested only where every cell lives. A condition that most rows meet, here and there, is not worth the test; nor is one
//! where nothing else is read than what the test itself reads.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, new_null_array};
use keyspan_model::{ColumnId, ColumnRange, ColumnType, RelationDef, Result};

use crate::run::{Inside, RowTest, SortedRun, Tested, Wanted};
use keyspan_seam::{RowCondition, ScanCounters};

/// Rows after which it is asked whether a condition leaves enough out.
const LOOKS: usize = 16_384;

/// What rows are asked about.
#[derive(Debug)]
pub(crate) struct Selection {
    /// What is said of key columns, whether these are read or not.
    keys: Tests,
    /// What is said of value columns that are read, or of key columns together with these.
    values: Tests,
}

#[derive(Debug, Default)]
struct Tests {
    ranges: Vec<RowTest>,
    conditions: Vec<ConditionTest>,
}

/// A condition, and what is read to test it.
#[derive(Debug)]
struct ConditionTest {
    condition: Arc<dyn RowCondition>,
    relation: Arc<RelationDef>,
    /// Where its columns are, and their types.
    columns: Vec<(Tested, ColumnType)>,
    wanted: Wanted,
    /// Whether it is no longer asked once most rows meet it.
    gives_up: bool,
    /// Of blocks some of whose rows meet it: rows asked, and those that meet it.
    asked: AtomicUsize,
    met: AtomicUsize,
}

/// Rows of a block that are inside.
#[derive(Debug)]
pub(crate) struct Selected {
    /// What is said of key columns.
    pub(crate) keys: Inside,
    /// All that is said: of those rows that no other run has.
    pub(crate) all: Inside,
}

impl Selection {
    /// `None` if there is nothing to test. `alive`: every cell lives.
    pub(crate) fn new(
        relation: &Arc<RelationDef>,
        wanted: &Wanted,
        ranges: &[ColumnRange],
        conditions: &[Arc<dyn RowCondition>],
        alive: bool,
    ) -> Result<Option<Selection>> {
        let (mut keys, mut values) = (Tests::default(), Tests::default());
        for range in ranges {
            if let Some(at) = relation.key_index(range.column) {
                if relation.key[at].ty.arrow_order_is_key_order() {
                    keys.ranges.push(RowTest::of_key(&relation.key, at, range)?);
                }
            } else if let Some(value) = relation.value(range.column).filter(|value| wanted.values.contains(&value.id))
                && value.ty.arrow_order_is_key_order()
            {
                values.ranges.push(RowTest::of_value(value.ty, range)?);
            }
        }
        let narrows = conditions.iter().any(|condition| condition.narrows());
        for test in conditions.iter().filter_map(|condition| ConditionTest::new(condition, relation, alive)) {
            if test.wanted.values.is_empty() {
                keys.conditions.push(test);
            } else if alive && test.wanted.values.iter().all(|column| wanted.values.contains(column)) {
                // Of rows that are left out here nothing else is read, nor asked by a condition that narrows. What nothing
                // else is read besides, is asked above.
                let tested = values.conditions.iter().chain([&test]).collect::<Vec<_>>();
                if narrows || reads_more(wanted, &tested) {
                    values.conditions.push(test);
                }
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
        let keys = self.keys.of(run, Inside::all(rows), counters)?;
        let all = self.values.of(run, keys.clone(), counters)?;
        Ok(Selected { keys, all })
    }
}

/// Whether columns are wanted that these tests do not read.
fn reads_more(wanted: &Wanted, tests: &[&ConditionTest]) -> bool {
    let of_key = |(at, wanted): (usize, &bool)| *wanted && !tests.iter().any(|test| test.wanted.keys[at]);
    let of_values = |column: &ColumnId| !tests.iter().any(|test| test.wanted.values.contains(column));
    wanted.keys.iter().enumerate().any(of_key) || wanted.values.iter().any(of_values)
}

impl Selected {
    /// All of these rows.
    pub(crate) fn all(rows: Range<usize>) -> Selected {
        Selected { keys: Inside::all(rows.clone()), all: Inside::all(rows) }
    }
}

impl Tests {
    fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.conditions.is_empty()
    }

    /// Those that are inside of rows, too.
    fn of(&self, run: &dyn SortedRun, mut inside: Inside, counters: &ScanCounters) -> Result<Inside> {
        for test in self.ranges.iter().filter(|test| !test.holds_all(&run.meta().all)) {
            if inside.rows.is_empty() {
                return Ok(inside);
            }
            let own = run.inside(inside.rows.clone(), test, counters)?;
            inside = inside.and(own);
        }
        for test in &self.conditions {
            if inside.rows.is_empty() {
                return Ok(inside);
            }
            let own = test.of(run, inside.rows.clone(), counters)?;
            inside = inside.and(own);
        }
        Ok(inside)
    }
}

impl ConditionTest {
    /// `None` if it looks at no column, or at one that there is not.
    fn new(condition: &Arc<dyn RowCondition>, relation: &Arc<RelationDef>, alive: bool) -> Option<ConditionTest> {
        let mut wanted = Wanted { coded: true, keys: vec![false; relation.key.len()], ..Wanted::default() };
        let place = |column| match relation.key_index(column) {
            Some(at) => {
                wanted.keys[at] = true;
                Some((Tested::Key(at), relation.key[at].ty))
            }
            None => {
                wanted.values.push(column);
                Some((Tested::Value(column), relation.value(column)?.ty))
            }
        };
        let columns = condition.columns().iter().copied().map(place).collect::<Option<Vec<_>>>()?;
        let condition = Arc::clone(condition);
        let relation = Arc::clone(relation);
        let gives_up = alive && !condition.narrows();
        let (asked, met) = Default::default();
        (!columns.is_empty()).then_some(ConditionTest { condition, relation, columns, wanted, gives_up, asked, met })
    }

    /// Those of the rows, which are of one block, that meet the condition by now.
    fn of(&self, run: &dyn SortedRun, rows: Range<usize>, counters: &ScanCounters) -> Result<Inside> {
        if let Some(range) = self.condition.range() {
            let test = match self.relation.key_index(range.column) {
                Some(at) => Some(RowTest::of_key(&self.relation.key, at, &range)?),
                None => {
                    self.relation.value(range.column).map(|value| RowTest::of_value(value.ty, &range)).transpose()?
                }
            };
            if let Some(test) = test {
                return run.inside(rows, &test, counters);
            }
        }
        let (asked, met) = (self.asked.load(Ordering::Relaxed), self.met.load(Ordering::Relaxed));
        if self.gives_up && asked >= LOOKS && met * 2 > asked {
            return Ok(Inside::all(rows));
        }
        let batch = run.read(rows.clone(), &self.wanted, counters)?;
        let array = |(column, ty): &(Tested, ColumnType)| -> ArrayRef {
            let array = match column {
                Tested::Key(at) => batch.keys[*at].as_ref(),
                Tested::Value(id) => {
                    let place = self.wanted.values.iter().position(|own| own == id);
                    place.and_then(|place| batch.cells[place].values.as_ref())
                }
            };
            array.map_or_else(|| new_null_array(&ty.arrow(), rows.len()), Arc::clone)
        };
        let columns: Vec<ArrayRef> = self.columns.iter().map(array).collect();
        let Some(met) = self.condition.met(&columns, rows.len()) else { return Ok(Inside::all(rows)) };
        let kept = met.count_set_bits();
        if kept > 0 && kept < rows.len() {
            self.asked.fetch_add(rows.len(), Ordering::Relaxed);
            self.met.fetch_add(kept, Ordering::Relaxed);
        }
        Ok(Inside::of(rows, met))
    }
}
