//! A range of a column, asked of each row of a block: on codes and steps where the block has them.

use std::ops::{Bound, Range};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, Scalar};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp::{gt, gt_eq, lt, lt_eq};
use arrow::datatypes::{
    DataType, Date32Type, Int16Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, UInt8Type,
};
use keyspan_model::array::rows_of_codes;
use keyspan_model::{ColumnId, ColumnRange, ColumnType, KeyColumn, Result, Value, array_of};

use super::{EncodedRange, Extent, Wanted};
use crate::coded::Slopes;

/// The column that a row is tested by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tested {
    /// A key column, by its place in the key.
    Key(usize),
    /// A value column.
    Value(ColumnId),
}

/// A range of one column.
#[derive(Debug)]
pub struct RowTest {
    column: Tested,
    lower: Bound<Scalar<ArrayRef>>,
    upper: Bound<Scalar<ArrayRef>>,
    /// Of 64-bit numbers: the least and the greatest that are inside.
    numbers: Option<(i64, i64)>,
    /// Of a key column: the same range in the order of encoded values.
    encoded: Option<EncodedRange>,
}

/// Numbers of a block as steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps<'a> {
    pub(crate) base: i64,
    pub(crate) unit: i64,
    /// Of all rows of the block.
    pub(crate) offsets: &'a [u16],
    pub(crate) slopes: Option<&'a Slopes>,
}

/// Rows of a block that are inside of ranges.
#[derive(Clone, Debug)]
pub struct Inside {
    /// Those from the first to the last of them.
    pub rows: Range<usize>,
    /// Which of these; `None`: all.
    pub bits: Option<BooleanBuffer>,
}

impl RowTest {
    /// The range of a key column.
    pub(crate) fn of_key(key: &[KeyColumn], at: usize, range: &ColumnRange) -> Result<RowTest> {
        let encoded = Some(EncodedRange::new(&key[at], range)?);
        Ok(RowTest { encoded, ..RowTest::new(Tested::Key(at), key[at].ty, range)? })
    }

    /// The range of a value column.
    pub(crate) fn of_value(ty: ColumnType, range: &ColumnRange) -> Result<RowTest> {
        RowTest::new(Tested::Value(range.column), ty, range)
    }

    fn new(column: Tested, ty: ColumnType, range: &ColumnRange) -> Result<RowTest> {
        let (lower, upper) = (bound(ty, &range.lower)?, bound(ty, &range.upper)?);
        let numbers = numbers(&lower, &upper);
        Ok(RowTest { column, lower, upper, numbers, encoded: None })
    }

    /// The column.
    pub(crate) fn column(&self) -> Tested {
        self.column
    }

    /// What is to be read to test rows.
    pub(crate) fn wanted(&self) -> Wanted {
        let (keys, values) = match self.column {
            Tested::Key(at) => ((0..=at).map(|key| key == at).collect(), Vec::new()),
            Tested::Value(id) => (Vec::new(), vec![id]),
        };
        Wanted { keys, values, coded: true, ..Wanted::default() }
    }

    /// Whether every row of the extent is inside the range.
    pub(crate) fn holds_all(&self, extent: &Extent) -> bool {
        let (Tested::Key(at), Some(range)) = (self.column, &self.encoded) else { return false };
        extent.columns.get(at).is_some_and(|(least, greatest)| range.holds(least, greatest))
    }

    /// Which of these rows, whose values the array has, are inside; a null is not.
    pub(crate) fn of_array(&self, rows: Range<usize>, array: &ArrayRef) -> Result<Inside> {
        let Some(codes) = array.as_dictionary_opt::<UInt8Type>() else {
            return Ok(Inside::of(rows, self.of_values(array)?));
        };
        let values = self.of_values(codes.values())?;
        let mut inside = [false; 256];
        (0..values.len()).for_each(|code| inside[code] = values.value(code));
        Ok(Inside::of(rows, rows_of_codes(codes.keys(), &inside)))
    }

    /// Which of these rows are inside, a part of a block whose values are `base + unit × offset`; `None` if the range is
    /// not one of such numbers.
    pub(crate) fn of_steps(&self, rows: Range<usize>, part: Range<usize>, steps: &Steps<'_>) -> Option<Inside> {
        let (least, greatest) = self.numbers?;
        // The offsets of the least and the greatest number inside.
        let (base, unit) = (i128::from(steps.base), i128::from(steps.unit.max(1)));
        let low = (i128::from(least) - base + unit - 1).div_euclid(unit).max(0);
        let high = (i128::from(greatest) - base).div_euclid(unit).min(i128::from(u16::MAX));
        let (Ok(low), Ok(high)) = (u16::try_from(low), u16::try_from(high)) else { return Some(Inside::nothing(rows)) };
        let Some(slopes) = steps.slopes else {
            let offsets = &steps.offsets[part];
            let bits = BooleanBuffer::collect_bool(offsets.len(), |row| (low..=high).contains(&offsets[row]));
            return Some(Inside::of(rows, bits));
        };
        let mut found: Vec<Range<usize>> = Vec::new();
        for slope in slopes.rows(steps.offsets.len()) {
            let own = slope.start.max(part.start)..slope.end.min(part.end);
            let Some(offsets) = steps.offsets.get(own.clone()) else { continue };
            let (from, to) = match slopes.descending {
                true => {
                    (boundary(offsets, high, |offset| offset > high), boundary(offsets, low, |offset| offset >= low))
                }
                false => {
                    (boundary(offsets, low, |offset| offset < low), boundary(offsets, high, |offset| offset <= high))
                }
            };
            if from < to {
                found.push(own.start - part.start + from..own.start - part.start + to);
            }
        }
        Some(Inside::of_ranges(rows, &found))
    }

    fn of_values(&self, array: &ArrayRef) -> Result<BooleanBuffer> {
        if let Some(found) = self.numbers.and_then(|range| of_numbers(array, range)) {
            return Ok(found);
        }
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

/// Which whole numbers, times or dates lie in a range, both ends of which are inside; `None` for other arrays. Arrow takes
/// several times as long.
fn of_numbers(array: &ArrayRef, range: (i64, i64)) -> Option<BooleanBuffer> {
    let found = match array.data_type() {
        DataType::Int16 => within(array.as_primitive::<Int16Type>().values(), range),
        DataType::Int32 => within(array.as_primitive::<Int32Type>().values(), range),
        DataType::Int64 => within(array.as_primitive::<Int64Type>().values(), range),
        DataType::Date32 => within(array.as_primitive::<Date32Type>().values(), range),
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            within(array.as_primitive::<TimestampMicrosecondType>().values(), range)
        }
        _ => return None,
    };
    Some(match array.nulls() {
        Some(valid) => &found & valid.inner(),
        None => found,
    })
}

fn within<N: Copy + Into<i64>>(numbers: &[N], (least, greatest): (i64, i64)) -> BooleanBuffer {
    let number = |row: usize| -> i64 { numbers[row].into() };
    let rows = numbers.len();
    match (least == greatest, least == i64::MIN, greatest == i64::MAX) {
        (true, ..) => BooleanBuffer::collect_bool(rows, |row| number(row) == least),
        (_, true, _) => BooleanBuffer::collect_bool(rows, |row| number(row) <= greatest),
        (.., true) => BooleanBuffer::collect_bool(rows, |row| number(row) >= least),
        _ => BooleanBuffer::collect_bool(rows, |row| (number(row) >= least) & (number(row) <= greatest)),
    }
}

/// How many offsets of a slope are before a bound. They mostly go on evenly: looked for from where it would be then, few
/// places of memory are touched.
fn boundary(offsets: &[u16], bound: u16, before: impl Fn(u16) -> bool) -> usize {
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return 0 };
    if !before(*first) || before(*last) {
        return if before(*last) { offsets.len() } else { 0 };
    }
    let (way, whole) = (usize::from(bound.abs_diff(*first)), usize::from(last.abs_diff(*first)));
    let guess = way.min(whole) * (offsets.len() - 1) / whole.max(1);
    let (mut from, mut to) = (guess, guess);
    let mut step = 1;
    if before(offsets[guess]) {
        while to < offsets.len() && before(offsets[to]) {
            (from, to, step) = (to + 1, (to + step).min(offsets.len()), step * 2);
        }
    } else {
        while from > 0 && !before(offsets[from - 1]) {
            (from, to, step) = (from.saturating_sub(step), from - 1, step * 2);
        }
    }
    from + offsets[from..to].partition_point(|offset| before(*offset))
}

impl Inside {
    /// All of these rows.
    pub(crate) fn all(rows: Range<usize>) -> Inside {
        Inside { rows, bits: None }
    }

    /// None of these rows.
    pub(crate) fn nothing(rows: Range<usize>) -> Inside {
        Inside { rows: rows.start..rows.start, bits: None }
    }

    /// Those of these rows whose bits are set.
    pub(crate) fn of(rows: Range<usize>, bits: BooleanBuffer) -> Inside {
        let mut slices = bits.set_slices();
        let Some((from, first_end)) = slices.next() else { return Inside::nothing(rows) };
        let (to, one) = match slices.last() {
            Some((_, to)) => (to, false),
            None => (first_end, true),
        };
        Inside { rows: rows.start + from..rows.start + to, bits: (!one).then(|| bits.slice(from, to - from)) }
    }

    /// Those of these rows in ranges of their places, which ascend.
    fn of_ranges(rows: Range<usize>, ranges: &[Range<usize>]) -> Inside {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Inside::nothing(rows) };
        let inside = rows.start + first.start..rows.start + last.end;
        if let [_] = ranges {
            return Inside::all(inside);
        }
        let mut bits = BooleanBufferBuilder::new(inside.len());
        for range in ranges {
            bits.append_n(range.start - first.start - bits.len(), false);
            bits.append_n(range.len(), true);
        }
        Inside { rows: inside, bits: Some(bits.finish()) }
    }

    /// Those that are inside of a part of these rows, too.
    pub(crate) fn and(self, part: Inside) -> Inside {
        let Some(bits) = self.bits else { return part };
        let own = bits.slice(part.rows.start - self.rows.start, part.rows.len());
        match part.bits {
            Some(bits) => Inside::of(part.rows, &own & &bits),
            None => Inside::of(part.rows, own),
        }
    }

    /// Whether this row is inside.
    pub(crate) fn holds(&self, row: usize) -> bool {
        self.rows.contains(&row) && self.bits.as_ref().is_none_or(|bits| bits.value(row - self.rows.start))
    }

    /// The rows, as ranges.
    pub(crate) fn ranges(self) -> Vec<Range<usize>> {
        match self.bits {
            Some(bits) => bits.set_slices().map(|(from, to)| self.rows.start + from..self.rows.start + to).collect(),
            None if self.rows.is_empty() => Vec::new(),
            None => vec![self.rows],
        }
    }
}

fn bound(ty: ColumnType, bound: &Bound<Value>) -> Result<Bound<Scalar<ArrayRef>>> {
    let scalar = |value: &Value| array_of(ty, std::slice::from_ref(value)).map(Scalar::new);
    Ok(match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(value) => Bound::Included(scalar(value)?),
        Bound::Excluded(value) => Bound::Excluded(scalar(value)?),
    })
}

/// The least and the greatest whole number, time or date inside, perhaps the other way round; `None` for other values.
fn numbers(lower: &Bound<Scalar<ArrayRef>>, upper: &Bound<Scalar<ArrayRef>>) -> Option<(i64, i64)> {
    let number = |scalar: &Scalar<ArrayRef>| {
        let array = scalar.clone().into_inner();
        Some(match array.data_type() {
            DataType::Int16 => array.as_primitive::<Int16Type>().value(0).into(),
            DataType::Int32 => array.as_primitive::<Int32Type>().value(0).into(),
            DataType::Int64 => array.as_primitive::<Int64Type>().value(0),
            DataType::Date32 => array.as_primitive::<Date32Type>().value(0).into(),
            DataType::Timestamp(TimeUnit::Microsecond, _) => array.as_primitive::<TimestampMicrosecondType>().value(0),
            _ => return None,
        })
    };
    let least = match lower {
        Bound::Unbounded => i64::MIN,
        Bound::Included(least) => number(least)?,
        Bound::Excluded(least) => number(least)?.checked_add(1)?,
    };
    let greatest = match upper {
        Bound::Unbounded => i64::MAX,
        Bound::Included(greatest) => number(greatest)?,
        Bound::Excluded(greatest) => number(greatest)?.checked_sub(1)?,
    };
    Some((least, greatest))
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

    use arrow::array::{DictionaryArray, Float64Array, Int64Array, UInt8Array};

    use super::*;
    use crate::random::Random;

    fn test(ty: ColumnType, lower: Bound<Value>, upper: Bound<Value>) -> RowTest {
        RowTest::of_value(ty, &ColumnRange::between(ColumnId(1), lower, upper)).expect("a range")
    }

    fn rows(inside: Inside) -> Vec<usize> {
        inside.ranges().into_iter().flatten().collect()
    }

    #[test]
    fn codes_and_plain_arrays_select_the_same_rows_and_never_a_null() {
        let values = Float64Array::from(vec![Some(1.0), None, Some(3.0), Some(2.0), Some(f64::NAN), Some(1.0)]);
        let codes = UInt8Array::from(vec![Some(0), None, Some(2), Some(1), Some(3), Some(0)]);
        let named = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, f64::NAN]));
        let coded: ArrayRef = Arc::new(DictionaryArray::try_new(codes, named).expect("codes of four values"));
        let plain: ArrayRef = Arc::new(values);
        for array in [&plain, &coded] {
            let inside = |lower: Bound<f64>, upper: Bound<f64>| {
                let test = test(ColumnType::Double, lower.map(Value::Double), upper.map(Value::Double));
                rows(test.of_array(0..6, array).expect("doubles"))
            };
            assert_eq!(inside(Bound::Included(2.0), Bound::Unbounded), [2, 3, 4], "NaN is the greatest");
            assert_eq!(inside(Bound::Excluded(2.0), Bound::Included(3.0)), [2]);
            assert_eq!(inside(Bound::Unbounded, Bound::Excluded(2.0)), [0, 5]);
            assert_eq!(inside(Bound::Excluded(3.0), Bound::Excluded(1.0)), Vec::<usize>::new());
        }
    }

    #[test]
    fn steps_in_any_order_and_plain_numbers_select_the_same_rows() {
        let mut random = Random::new(11);
        for round in 0..3_000 {
            let (base, unit) = (random.below(1_000) as i64 - 500, 1 + random.below(50) as i64);
            let mut offsets: Vec<u16> = (0..1 + random.below(200)).map(|_| random.below(60) as u16).collect();
            // One series and several, up and down, and times in no order.
            let series = [offsets.len(), 1 + random.below(40) as usize, 1][round % 3];
            let falls = random.below(2) == 1;
            offsets.chunks_mut(series).for_each(|of_series| {
                of_series.sort();
                if falls {
                    of_series.reverse();
                }
            });
            let mut bound = || {
                let number = Value::BigInt(base + random.below(4_000) as i64 - 500);
                match random.below(5) {
                    0 => Bound::Unbounded,
                    1 | 2 => Bound::Included(number),
                    _ => Bound::Excluded(number),
                }
            };
            let range = ColumnRange::between(ColumnId(1), bound(), bound());
            let test = RowTest::of_value(ColumnType::BigInt, &range).expect("a range");
            let part = random.below(offsets.len() as u64) as usize..offsets.len();
            let all = 100 + part.start..100 + part.end;
            let numbers = offsets[part.clone()].iter().map(|offset| base + unit * i64::from(*offset));
            let inside = |number: i64| range.contains(ColumnType::BigInt, &Value::BigInt(number));
            let expected: Vec<usize> =
                all.clone().zip(numbers.clone()).filter(|(_, number)| inside(*number)).map(|(row, _)| row).collect();
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
            assert_eq!(rows(test.of_array(all.clone(), &numbers).expect("numbers")), expected, "{range:?}");
            let slopes = Slopes::of(&offsets);
            for slopes in [slopes.as_ref(), None] {
                let steps = Steps { base, unit, offsets: &offsets, slopes };
                let found = test.of_steps(all.clone(), part.clone(), &steps).expect("bounds are numbers");
                assert_eq!(rows(found), expected, "{test:?} of {numbers:?}");
            }
        }
        for lower in [Bound::Excluded(i64::MAX), Bound::Included(i64::MIN), Bound::Included(i64::MAX)] {
            let test = test(ColumnType::BigInt, lower.map(Value::BigInt), Bound::Unbounded);
            let numbers: ArrayRef = Arc::new(Int64Array::from(vec![0, 1]));
            let expected = rows(test.of_array(0..2, &numbers).expect("numbers"));
            let steps = Steps { base: 0, unit: 1, offsets: &[0, 1], slopes: None };
            let found = test.of_steps(0..2, 0..2, &steps);
            assert!(found.is_none_or(|found| rows(found) == expected));
        }
    }

    #[test]
    fn whole_numbers_and_dates_of_every_width_are_inside_of_what_holds_them() {
        let numbers =
            [i64::MIN, i32::MIN.into(), i16::MIN.into(), -7, 0, 1, 7, i16::MAX.into(), i32::MAX.into(), i64::MAX];
        for ty in [ColumnType::SmallInt, ColumnType::Int, ColumnType::BigInt, ColumnType::Date] {
            let value = |number: i64| match ty {
                ColumnType::SmallInt => number.try_into().ok().map(Value::SmallInt),
                ColumnType::Int => number.try_into().ok().map(Value::Int),
                ColumnType::Date => number.try_into().ok().map(Value::Date),
                _ => Some(Value::BigInt(number)),
            };
            let values: Vec<Value> = numbers.iter().filter_map(|number| value(*number)).chain([Value::Null]).collect();
            let array = array_of(ty, &values).expect("an array");
            let bounds: Vec<Bound<Value>> = values[..values.len() - 1]
                .iter()
                .flat_map(|value| [Bound::Included(value.clone()), Bound::Excluded(value.clone())])
                .chain([Bound::Unbounded])
                .collect();
            for (lower, upper) in bounds.iter().flat_map(|lower| bounds.iter().map(move |upper| (lower, upper))) {
                let range = ColumnRange::between(ColumnId(1), lower.clone(), upper.clone());
                let test = RowTest::of_value(ty, &range).expect("a range");
                let inside = |row: &usize| !values[*row].is_null() && range.contains(ty, &values[*row]);
                let expected: Vec<usize> = (0..values.len()).filter(inside).collect();
                let found = rows(test.of_array(0..values.len(), &array).expect("numbers"));
                assert_eq!(found, expected, "{ty} {range:?}");
            }
        }
    }

    #[test]
    fn parts_of_what_is_inside_are_inside_of_both() {
        let bits = |text: &str| BooleanBuffer::from_iter(text.chars().map(|bit| bit == '1'));
        let first = Inside::of(10..18, bits("01101100"));
        assert_eq!(first.rows, 11..16);
        let second = Inside::of(first.rows.clone(), bits("01111"));
        assert_eq!(rows(first.clone().and(second)), [12, 14, 15]);
        assert_eq!(rows(first.clone().and(Inside::nothing(11..16))), Vec::<usize>::new());
        assert_eq!(rows(first.and(Inside::all(12..14))), [12]);
        assert_eq!(rows(Inside::all(3..5).and(Inside::all(4..5))), [4]);
    }
}
