//! One argument of an aggregate in a batch, as codes or as it is, and what the values of some rows come to.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float64Type, Int32Type, Int64Type, UInt8Type};
use datafusion::error::Result;
use keyspan_model::{Error, ErrorKind};

use super::Function;
use crate::error::external;

/// What each code stands for: as long as there are codes, so that looking one up needs no check.
type Table<T> = Box<[<T as ArrowPrimitiveType>::Native; 256]>;

/// Rows of a run from which on its codes are counted.
const COUNTED_RUN: usize = 1024;

/// How often each code comes.
type Counts = [u32; 256];

/// How often each code comes in some runs.
type OfRuns = Rc<RefCell<Vec<(Range<usize>, Rc<Counts>)>>>;

/// How often each code comes, counted once for all aggregates over a column, or over what is computed of it.
#[derive(Default)]
pub(in crate::grouped) struct CodeCounts(Vec<(ScalarBuffer<u8>, OfRuns)>);

impl CodeCounts {
    fn of(&mut self, codes: &ScalarBuffer<u8>) -> OfRuns {
        let known = self.0.iter().find(|(known, _)| known.ptr_eq(codes));
        match known {
            Some((_, counts)) => counts.clone(),
            None => {
                let counts = OfRuns::default();
                self.0.push((codes.clone(), counts.clone()));
                counts
            }
        }
    }
}

/// A column as codes into a table, or as it is.
pub(in crate::grouped) struct Column<T: ArrowPrimitiveType> {
    pub(super) codes: Option<(ScalarBuffer<u8>, Table<T>)>,
    /// Of the codes, if there are any.
    counts: Option<OfRuns>,
    /// Whether the table ascends, so that the greatest code is that of the greatest value.
    ascending: bool,
    pub(super) values: ScalarBuffer<T::Native>,
    pub(super) nulls: Option<NullBuffer>,
}

impl<T: ArrowPrimitiveType<Native: From<i32>>> Column<T> {
    pub(super) fn new(array: &ArrayRef, among: Option<&NullBuffer>, counts: &mut CodeCounts) -> Result<Column<T>> {
        if let Some(codes) = array.as_dictionary_opt::<UInt8Type>() {
            let mut table = Box::new([T::Native::default(); 256]);
            let known = codes.values().len().min(256);
            match codes.values().as_primitive_opt::<Int32Type>() {
                Some(small) => table.iter_mut().zip(small.values()).for_each(|(own, value)| *own = (*value).into()),
                None => table[..known].copy_from_slice(&whole_array::<T>(codes.values())?.values()[..known]),
            }
            let ordered = |pair: &[T::Native]| matches!(pair[0].partial_cmp(&pair[1]), Some(o) if o.is_le());
            let single = known == 1 && table[0].partial_cmp(&table[0]).is_some();
            return Ok(Column {
                ascending: single || known > 1 && table[..known].windows(2).all(ordered),
                counts: Some(counts.of(codes.keys().values())),
                codes: Some((codes.keys().values().clone(), table)),
                values: ScalarBuffer::from(Vec::new()),
                nulls: some_null(NullBuffer::union(codes.logical_nulls().as_ref(), among)),
            });
        }
        let array = whole_array::<T>(array)?;
        let nulls = some_null(NullBuffer::union(array.nulls(), among));
        Ok(Column { codes: None, counts: None, ascending: false, values: array.values().clone(), nulls })
    }
}

impl<T: ArrowPrimitiveType> Column<T> {
    /// Calls with each value of the rows that is not null.
    fn each(&self, rows: Range<usize>, mut call: impl FnMut(T::Native)) {
        self.each_row(rows, |_, value| call(value));
    }

    /// Calls with each of the rows that is not null, and its value.
    pub(super) fn each_row(&self, rows: Range<usize>, mut call: impl FnMut(usize, T::Native)) {
        let valid = |row: &usize| self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
        match &self.codes {
            Some((codes, table)) if self.nulls.is_none() => {
                rows.clone().zip(&codes[rows]).for_each(|(row, code)| call(row, table[usize::from(*code)]));
            }
            Some((codes, table)) => rows.filter(valid).for_each(|row| call(row, table[usize::from(codes[row])])),
            None if self.nulls.is_none() => {
                rows.clone().zip(&self.values[rows]).for_each(|(row, value)| call(row, *value));
            }
            None => rows.filter(valid).for_each(|row| call(row, self.values[row])),
        }
    }

    /// A row's value; `None` where it is null.
    pub(super) fn value(&self, row: usize) -> Option<T::Native> {
        let valid = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        valid.then(|| match &self.codes {
            Some((codes, table)) => table[usize::from(codes[row])],
            None => self.values[row],
        })
    }

    pub(super) fn count(&self, rows: &Range<usize>) -> i64 {
        valid_rows(self.nulls.as_ref(), rows)
    }

    /// How often each code comes in a long run of rows without a null, with what it stands for.
    fn counted(&self, rows: &Range<usize>) -> Option<impl Iterator<Item = (u32, T::Native)> + use<'_, T>> {
        let (codes, table) = self.codes.as_ref().filter(|_| self.nulls.is_none() && rows.len() >= COUNTED_RUN)?;
        let mut of_runs = self.counts.as_ref()?.borrow_mut();
        let known = of_runs.iter().find(|(known, _)| known == rows).map(|(_, counts)| counts.clone());
        let counts = known.unwrap_or_else(|| {
            let counts = Rc::new(counts_of(&codes[rows.clone()]));
            of_runs.push((rows.clone(), counts.clone()));
            counts
        });
        let each = table.iter().enumerate().map(move |(code, value)| (counts[code], *value));
        Some(each.filter(|(count, _)| *count > 0))
    }

    /// The least or greatest of the rows by their codes, where codes tell.
    fn extreme_by_code(&self, rows: &Range<usize>, greatest: bool) -> Option<T::Native> {
        let (codes, table) = self.codes.as_ref().filter(|_| self.ascending && self.nulls.is_none())?;
        let codes = &codes[rows.clone()];
        let code =
            if greatest { codes.iter().fold(0, |a, b| a.max(*b)) } else { codes.iter().fold(255, |a, b| a.min(*b)) };
        Some(table[usize::from(code)])
    }
}

/// Whole numbers, dates and times as numbers of this type.
pub(in crate::grouped) fn whole_array<T: ArrowPrimitiveType>(array: &ArrayRef) -> Result<PrimitiveArray<T>> {
    let cast = match (array.data_type(), &T::DATA_TYPE) {
        // Dates are no whole numbers of 64 bits to Arrow.
        (DataType::Date32, to) => cast(&cast(array, &DataType::Int32)?, to)?,
        (from, to) if from == to => Arc::clone(array),
        (_, to) => cast(array, to)?,
    };
    Ok(cast.as_primitive::<T>().clone())
}

pub(super) fn some_null(nulls: Option<NullBuffer>) -> Option<NullBuffer> {
    nulls.filter(|nulls| nulls.null_count() > 0)
}

pub(super) fn valid_rows(nulls: Option<&NullBuffer>, rows: &Range<usize>) -> i64 {
    let Some(nulls) = nulls else { return rows.len() as i64 };
    match rows.len() {
        1 => i64::from(nulls.is_valid(rows.start)),
        _ => nulls.inner().slice(rows.start, rows.len()).count_set_bits() as i64,
    }
}

pub(super) fn float(function: Function, column: &Column<Float64Type>, rows: Range<usize>) -> f64 {
    match function {
        Function::Least | Function::Greatest => {
            let greatest = function == Function::Greatest;
            if let Some(found) = column.extreme_by_code(&rows, greatest) {
                return found;
            }
            if let Some(counted) = column.counted(&rows) {
                return counted.map(|(_, value)| value).reduce(|a, b| joined(function, a, b)).unwrap_or_default();
            }
            if column.codes.is_none() && column.nulls.is_none() {
                return four(&column.values[rows], |value| *value, |a, b| joined(function, a, b));
            }
            let mut found: Option<f64> = None;
            column.each(rows, |value| found = Some(found.map_or(value, |own| joined(function, own, value))));
            found.unwrap_or_default()
        }
        _ => sum(column, rows, |value| value),
    }
}

/// What values come to one by one, four such side by side, so that one need not wait for the one before; 0 if there are
/// none.
fn four<V>(values: &[V], number: impl Fn(&V) -> f64, join: impl Fn(f64, f64) -> f64) -> f64 {
    let (fours, rest) = values.as_chunks::<4>();
    let rest = rest.iter().map(&number);
    let Some((first, fours)) = fours.split_first() else { return rest.reduce(join).unwrap_or_default() };
    let mut found = first.each_ref().map(&number);
    for four in fours {
        found.iter_mut().zip(four).for_each(|(own, value)| *own = join(*own, number(value)));
    }
    found.into_iter().chain(rest).reduce(join).unwrap_or_default()
}

pub(super) fn sum(column: &Column<Float64Type>, rows: Range<usize>, of: impl Fn(f64) -> f64) -> f64 {
    if let Some(counted) = column.counted(&rows) {
        return counted.map(|(count, value)| f64::from(count) * of(value)).sum();
    }
    let add = |a, b| a + b;
    match (&column.codes, &column.nulls) {
        (Some((codes, table)), None) => four(&codes[rows], |code| of(table[usize::from(*code)]), add),
        (None, None) => four(&column.values[rows], |value| of(*value), add),
        _ => {
            let mut total = 0.0;
            column.each(rows, |value| total += of(value));
            total
        }
    }
}

pub(super) fn whole(function: Function, column: &Column<Int64Type>, rows: Range<usize>) -> i64 {
    match function {
        Function::Least | Function::Greatest => {
            let greatest = function == Function::Greatest;
            if let Some(found) = column.extreme_by_code(&rows, greatest) {
                return found;
            }
            let (mut least, mut most) = (i64::MAX, i64::MIN);
            column.each(rows, |value| (least, most) = (least.min(value), most.max(value)));
            if greatest { most } else { least }
        }
        // Of numbers of at most 32 bits a batch has too few to overflow.
        _ => {
            if let Some(counted) = column.counted(&rows) {
                return counted.map(|(count, value)| i64::from(count) * value).sum();
            }
            let mut total = 0i64;
            column.each(rows, |value| total += value);
            total
        }
    }
}

/// The sum of whole numbers of 64 bits.
pub(super) fn wide_sum(column: &Column<Int64Type>, rows: Range<usize>) -> i128 {
    if let Some(counted) = column.counted(&rows) {
        return counted.map(|(count, value)| i128::from(count) * i128::from(value)).sum();
    }
    match (&column.codes, &column.nulls) {
        (None, None) => column.values[rows].chunks(u32::MAX as usize).map(halves_sum).sum(),
        _ => {
            let mut total = 0i128;
            column.each(rows, |value| total += i128::from(value));
            total
        }
    }
}

/// How often each code comes: in four tables, so that of equal codes one behind the other none waits for the one before.
fn counts_of(codes: &[u8]) -> Counts {
    let (fours, rest) = codes.as_chunks::<4>();
    let mut counts = [[0u32; 256]; 4];
    for four in fours {
        counts.iter_mut().zip(four).for_each(|(counts, code)| counts[usize::from(*code)] += 1);
    }
    rest.iter().for_each(|code| counts[0][usize::from(*code)] += 1);
    std::array::from_fn(|code| counts.iter().map(|counts| counts[code]).sum())
}

/// The sum of not more than 2³² numbers: their lower and upper halves do not overflow, and are added up by wide
/// instructions.
fn halves_sum(numbers: &[i64]) -> i128 {
    let (mut low, mut high) = (0u64, 0i64);
    for number in numbers {
        low += *number as u64 & u64::from(u32::MAX);
        high += number >> u32::BITS;
    }
    (i128::from(high) << u32::BITS) + i128::from(low)
}

/// NaN is the greatest number, as in Postgres.
pub(super) fn joined(function: Function, a: f64, b: f64) -> f64 {
    match function {
        Function::Least if b < a || a.is_nan() => b,
        Function::Greatest if b > a || b.is_nan() => b,
        Function::Least | Function::Greatest => a,
        _ => a + b,
    }
}

pub(super) fn joined_whole(function: Function, a: i64, b: i64) -> Result<i64> {
    match function {
        Function::Least => Ok(a.min(b)),
        Function::Greatest => Ok(a.max(b)),
        _ => a.checked_add(b).ok_or_else(|| external(Error::new(ErrorKind::NumericOverflow, "bigint out of range"))),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Int64Array, UInt8Array};

    use super::*;

    #[test]
    fn whole_numbers_add_up_whatever_their_form() {
        let extremes = [i64::MIN, i64::MAX, -1, 0, 1, i64::MIN, -1 << 32, (1 << 32) - 1, i64::MAX];
        let number = |row: usize| extremes[row * 7 % extremes.len()].wrapping_add((row / 100) as i64);
        let null = |row: usize| row % 6 == 5;
        let values: Vec<i64> = (0..256).map(number).collect();
        for (from, to) in [(0, 0), (3, 4), (0, 255), (1, 256), (0, 4_096), (17, 4_001)] {
            let code = |row: usize| (row * 31 % 256) as u8;
            let plain: ArrayRef =
                Arc::new(Int64Array::from_iter_values((0..4_096).map(|row| values[code(row) as usize])));
            let codes = UInt8Array::from_iter_values((0..4_096).map(code));
            let coded: ArrayRef = Arc::new(DictionaryArray::new(codes, Arc::new(Int64Array::from(values.clone()))));
            let among = NullBuffer::from((0..4_096).map(|row| !null(row)).collect::<Vec<bool>>());
            for array in [&plain, &coded] {
                let sum = |rows: &mut dyn Iterator<Item = usize>| -> i128 {
                    rows.map(|row| i128::from(values[code(row) as usize])).sum()
                };
                let all = Column::<Int64Type>::new(array, None, &mut CodeCounts::default()).expect("numbers");
                assert_eq!(wide_sum(&all, from..to), sum(&mut (from..to)));
                let some = Column::<Int64Type>::new(array, Some(&among), &mut CodeCounts::default()).expect("numbers");
                assert_eq!(wide_sum(&some, from..to), sum(&mut (from..to).filter(|row| !null(*row))));
            }
        }
    }

    #[test]
    fn codes_are_counted_once_for_all_that_is_computed_of_them() {
        let codes = UInt8Array::from_iter_values((0..4_096).map(|row| (row * 31 % 200) as u8));
        let of = |number: fn(usize) -> f64| -> ArrayRef {
            let values: arrow::array::Float64Array = (0..200).map(|code| Some(number(code))).collect();
            Arc::new(DictionaryArray::new(codes.clone(), Arc::new(values)))
        };
        let falling = of(|code| 100.0 - code as f64);
        let rising = of(|code| code as f64 * 0.5);
        let mut counts = CodeCounts::default();
        for (array, number) in [(&falling, (|code| 100.0 - code) as fn(f64) -> f64), (&rising, |code| code * 0.5)] {
            let column = Column::<Float64Type>::new(array, None, &mut counts).expect("numbers");
            for rows in [0..4_096, 1_000..3_000, 0..COUNTED_RUN, 5..9, 0..4_096] {
                let numbers = rows.clone().map(|row| number(f64::from(codes.value(row))));
                let sum: f64 = numbers.clone().sum();
                assert_eq!(float(Function::Sum, &column, rows.clone()), sum);
                for (function, extreme) in
                    [(Function::Least, f64::min as fn(f64, f64) -> f64), (Function::Greatest, f64::max)]
                {
                    let found = numbers.clone().reduce(extreme);
                    assert_eq!(Some(float(function, &column, rows.clone())), found);
                }
            }
        }
        assert_eq!(counts.0.len(), 1, "both have the same codes");
        assert_eq!(counts.0[0].1.borrow().len(), 3, "of each long run");
    }
}
