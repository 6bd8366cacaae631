//! Which whole numbers, dates or times a join's keys are, as a condition of a scan: `HashJoin store = id` reads nothing else
//! of a row whose `store` is no key of the build side.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, UInt8Type};
use keyspan_model::ColumnId;
use keyspan_model::array::rows_of_codes;
use keyspan_seam::RowCondition;

/// How far apart the least and the greatest key may be: a set takes a bit for each number between.
const MOST_NUMBERS: i64 = 1 << 23;
/// Of numbers between, more than three of four: then the bounds say it all.
const MOST_PART: (u64, u64) = (3, 4);

/// A set of whole numbers that are not far apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct KeySet {
    /// The number of the first bit, divided by 64.
    first: i64,
    words: Vec<u64>,
}

impl KeySet {
    /// Adds those of the values that are not null; they lie between these two. Whether they are still near each other.
    pub(super) fn add(&mut self, values: &ArrayRef, (least, greatest): (i64, i64)) -> bool {
        let (mut first, mut last) = (least >> 6, greatest >> 6);
        if !self.words.is_empty() {
            first = first.min(self.first);
            last = last.max(self.first + self.words.len() as i64 - 1);
        }
        let near = last - first < MOST_NUMBERS >> 6;
        let Some(values) = numbers(values).filter(|_| near) else { return false };
        if !self.words.is_empty() && first < self.first {
            self.words.splice(0..0, std::iter::repeat_n(0, (self.first - first) as usize));
        }
        self.first = first;
        self.words.resize((last - first + 1) as usize, 0);
        for number in values.as_primitive::<Int64Type>().iter().flatten() {
            self.words[((number >> 6) - first) as usize] |= 1 << (number & 63);
        }
        true
    }

    /// Whether it says more than the bounds of its numbers do.
    pub(super) fn has_gaps(&self) -> bool {
        let held: u64 = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
        held * MOST_PART.1 < self.words.len() as u64 * 64 * MOST_PART.0
    }

    fn holds(&self, number: i64) -> bool {
        let word = usize::try_from((number >> 6) - self.first).ok().and_then(|word| self.words.get(word));
        word.is_some_and(|word| word >> (number & 63) & 1 == 1)
    }

    /// The rows whose value is one of the numbers; `None` for values that are none.
    fn rows(&self, values: &ArrayRef) -> Option<BooleanBuffer> {
        let numbers = numbers(values)?;
        let numbers = numbers.as_primitive::<Int64Type>();
        let found = BooleanBuffer::collect_bool(numbers.len(), |row| self.holds(numbers.value(row)));
        Some(match numbers.nulls() {
            Some(valid) => &found & valid.inner(),
            None => found,
        })
    }
}

fn numbers(values: &ArrayRef) -> Option<ArrayRef> {
    cast(values, &DataType::Int64).ok()
}

/// The condition: a column is one of the keys.
#[derive(Debug)]
pub(super) struct IsKey {
    pub(super) column: [ColumnId; 1],
    pub(super) keys: Arc<KeySet>,
}

impl RowCondition for IsKey {
    fn columns(&self) -> &[ColumnId] {
        &self.column
    }

    fn met(&self, columns: &[ArrayRef], _: usize) -> Option<BooleanBuffer> {
        let Some(coded) = columns[0].as_dictionary_opt::<UInt8Type>() else { return self.keys.rows(&columns[0]) };
        let found = self.keys.rows(coded.values())?;
        let mut wanted = [false; 256];
        wanted.iter_mut().zip(&found).for_each(|(wanted, found)| *wanted = found);
        Some(rows_of_codes(coded.keys(), &wanted))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, DictionaryArray, Int64Array, TimestampMicrosecondArray, UInt8Array};

    use super::*;

    fn set(batches: &[&[Option<i64>]]) -> KeySet {
        let mut keys = KeySet::default();
        for batch in batches {
            let bounds = |numbers: Vec<i64>| numbers.iter().min().copied().zip(numbers.iter().max().copied());
            let bounds = bounds(batch.iter().copied().flatten().collect()).expect("numbers");
            assert!(keys.add(&(Arc::new(Int64Array::from(batch.to_vec())) as ArrayRef), bounds));
        }
        keys
    }

    #[test]
    fn it_holds_what_was_added_in_whatever_order() {
        let numbers = [7, -1, -64, -65, 1_000, 63, 64, 128, -1_000_000];
        let keys = set(&[&[Some(7), None, Some(-1)], &[Some(-64), Some(-65)], &[Some(1_000), Some(63), Some(64)]]);
        let keys_of_all = set(&[&numbers.map(Some)]);
        for number in -2_000..2_000 {
            let is_held = numbers[..7].contains(&number);
            assert_eq!(keys.holds(number), is_held, "{number}");
            assert_eq!(keys_of_all.holds(number), numbers.contains(&number), "{number}");
        }
        for number in [i64::MIN, i64::MAX, -1_000_001] {
            assert!(!keys.holds(number) && !keys_of_all.holds(number), "{number}");
        }
        assert!(keys_of_all.holds(-1_000_000) && keys_of_all.has_gaps());
        assert!(!set(&[&(0..640).map(Some).collect::<Vec<_>>()]).has_gaps());
    }

    #[test]
    fn numbers_far_apart_are_no_set() {
        let mut keys = set(&[&[Some(1)]]);
        for far in [MOST_NUMBERS + 64, -MOST_NUMBERS, i64::MAX, i64::MIN] {
            assert!(!keys.add(&(Arc::new(Int64Array::from(vec![far])) as ArrayRef), (far, far)), "{far}");
        }
    }

    #[test]
    fn rows_are_those_of_keys_by_value_and_by_code() {
        let is_key = IsKey { column: [ColumnId(3)], keys: Arc::new(set(&[&[Some(2), Some(5), Some(300)]])) };
        let met = |array: ArrayRef| is_key.met(&[array], 4).expect("numbers").iter().collect::<Vec<_>>();
        let dates = Date32Array::from(vec![Some(2), None, Some(5), Some(4)]);
        let times = TimestampMicrosecondArray::from(vec![Some(300), Some(2), None, Some(1)]).with_timezone("UTC");
        let codes = UInt8Array::from(vec![Some(0), Some(1), None, Some(0)]);
        let coded = DictionaryArray::new(codes, Arc::new(Int64Array::from(vec![5, 6])));
        assert_eq!(met(Arc::new(dates)), [true, false, true, false]);
        assert_eq!(met(Arc::new(times)), [true, true, false, false]);
        assert_eq!(met(Arc::new(coded)), [true, false, false, true]);
    }
}
