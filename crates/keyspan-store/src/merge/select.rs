//! The rows of a block inside a scan's ranges, evaluated on codes where the block has codes.
//!
//! Rows outside are dropped before anything else of them is read. Rule: value columns are tested only for rows that no
//! other run has. Such a row shows its value or, if the cell is dead, null, which is inside no range. A key column has
//! one value in all versions of a row.

use std::ops::Bound;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Scalar};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp::{gt, gt_eq, lt, lt_eq};
use arrow::datatypes::UInt8Type;
use keyspan_model::{ColumnRange, ColumnType, RelationDef, Result, Value, array_of};

use crate::run::{EncodedRange, Extent, RunBatch, Wanted};

/// The ranges of a scan whose columns are read.
#[derive(Debug)]
pub(crate) struct Selection {
    tests: Vec<Test>,
}

#[derive(Debug)]
struct Test {
    place: Place,
    lower: Bound<Scalar<ArrayRef>>,
    upper: Bound<Scalar<ArrayRef>>,
    /// Of a key column: the same range in the order of encoded values.
    encoded: Option<EncodedRange>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Key(usize),
    Value(usize),
}

impl Selection {
    /// `None` if there is nothing to test.
    pub(crate) fn new(relation: &RelationDef, wanted: &Wanted, ranges: &[ColumnRange]) -> Result<Option<Selection>> {
        let mut tests = Vec::new();
        for range in ranges {
            if let Some((place, ty)) = place(relation, wanted, range).filter(|(_, ty)| ty.arrow_order_is_key_order()) {
                let encoded = match place {
                    Place::Key(at) => Some(EncodedRange::new(&relation.key[at], range)?),
                    Place::Value(_) => None,
                };
                tests.push(Test { place, lower: bound(ty, &range.lower)?, upper: bound(ty, &range.upper)?, encoded });
            }
        }
        Ok((!tests.is_empty()).then_some(Selection { tests }))
    }

    /// The rows inside all ranges; `None`: all of them. `extent` is of rows among which these are: of a run that lies
    /// inside a range as a whole, rows are not asked.
    pub(crate) fn of(&self, batch: &RunBatch, extent: &Extent) -> Result<Option<BooleanBuffer>> {
        let mut inside: Option<BooleanBuffer> = None;
        for test in self.tests.iter().filter(|test| !test.holds_all(extent)) {
            let array = match test.place {
                Place::Key(at) => batch.keys[at].as_ref(),
                Place::Value(at) => batch.cells[at].values.as_ref(),
            };
            let own = match array {
                Some(array) => test.rows(array)?,
                // A column of nulls only.
                None => BooleanBuffer::new_unset(batch.rows),
            };
            if own.count_set_bits() < batch.rows {
                inside = Some(inside.map_or(own.clone(), |inside| &inside & &own));
            }
        }
        Ok(inside)
    }
}

fn place(relation: &RelationDef, wanted: &Wanted, range: &ColumnRange) -> Option<(Place, ColumnType)> {
    if let Some(at) = relation.key_index(range.column) {
        return wanted.keys.get(at).is_some_and(|wanted| *wanted).then(|| (Place::Key(at), relation.key[at].ty));
    }
    let at = wanted.values.iter().position(|id| *id == range.column)?;
    Some((Place::Value(at), relation.value(range.column)?.ty))
}

fn bound(ty: ColumnType, bound: &Bound<Value>) -> Result<Bound<Scalar<ArrayRef>>> {
    let scalar = |value: &Value| array_of(ty, std::slice::from_ref(value)).map(Scalar::new);
    Ok(match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(value) => Bound::Included(scalar(value)?),
        Bound::Excluded(value) => Bound::Excluded(scalar(value)?),
    })
}

impl Test {
    /// Whether every row of the extent is inside the range.
    fn holds_all(&self, extent: &Extent) -> bool {
        let (Place::Key(at), Some(range)) = (self.place, &self.encoded) else { return false };
        extent.columns.get(at).is_some_and(|(least, greatest)| range.holds(least, greatest))
    }

    /// Rows inside the range; a null is in none.
    fn rows(&self, array: &ArrayRef) -> Result<BooleanBuffer> {
        let Some(codes) = array.as_dictionary_opt::<UInt8Type>() else { return self.of_values(array) };
        let values = self.of_values(codes.values())?;
        let mut inside = [false; 256];
        (0..values.len()).for_each(|code| inside[code] = values.value(code));
        let of_codes = codes.keys().values();
        let rows = BooleanBuffer::collect_bool(of_codes.len(), |row| inside[usize::from(of_codes[row])]);
        Ok(match codes.keys().nulls() {
            Some(nulls) => &rows & nulls.inner(),
            None => rows,
        })
    }

    fn of_values(&self, array: &ArrayRef) -> Result<BooleanBuffer> {
        let above = match &self.lower {
            Bound::Unbounded => None,
            Bound::Included(least) => Some(gt_eq(array, least)?),
            Bound::Excluded(least) => Some(gt(array, least)?),
        };
        let below = match &self.upper {
            Bound::Unbounded => None,
            Bound::Included(greatest) => Some(lt_eq(array, greatest)?),
            Bound::Excluded(greatest) => Some(lt(array, greatest)?),
        };
        Ok(match (above, below) {
            (Some(above), Some(below)) => &is_true(&above) & &is_true(&below),
            (Some(one), None) | (None, Some(one)) => is_true(&one),
            (None, None) => BooleanBuffer::new_set(array.len()),
        })
    }
}

fn is_true(array: &BooleanArray) -> BooleanBuffer {
    match array.nulls() {
        Some(nulls) => array.values() & nulls.inner(),
        None => array.values().clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{DictionaryArray, Float64Array, UInt8Array};

    use super::*;

    fn inside(array: &ArrayRef, lower: Bound<f64>, upper: Bound<f64>) -> Vec<usize> {
        let ty = ColumnType::Double;
        let of = |side: Bound<f64>| bound(ty, &side.map(Value::Double)).expect("a double");
        let test = Test { place: Place::Value(0), lower: of(lower), upper: of(upper), encoded: None };
        test.rows(array).expect("doubles").set_indices().collect()
    }

    #[test]
    fn codes_and_plain_arrays_select_the_same_rows_and_never_a_null() {
        let values = Float64Array::from(vec![Some(1.0), None, Some(3.0), Some(2.0), Some(f64::NAN), Some(1.0)]);
        let codes = UInt8Array::from(vec![Some(0), None, Some(2), Some(1), Some(3), Some(0)]);
        let named = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, f64::NAN]));
        let coded: ArrayRef = Arc::new(DictionaryArray::try_new(codes, named).expect("codes of four values"));
        let plain: ArrayRef = Arc::new(values);
        for array in [&plain, &coded] {
            assert_eq!(inside(array, Bound::Included(2.0), Bound::Unbounded), [2, 3, 4], "NaN is the greatest");
            assert_eq!(inside(array, Bound::Excluded(2.0), Bound::Included(3.0)), [2]);
            assert_eq!(inside(array, Bound::Unbounded, Bound::Excluded(2.0)), [0, 5]);
            assert_eq!(inside(array, Bound::Excluded(3.0), Bound::Excluded(1.0)), Vec::<usize>::new());
        }
    }
}
