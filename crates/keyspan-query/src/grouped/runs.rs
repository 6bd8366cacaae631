//! Where runs of equal group end.
//!
//! Within a batch rows are in key order, as a store promises that keeps orders (no other is read so); the next batch may
//! begin anew. So in a batch rows that agree in the first key columns stand together, and among them the next key column
//! ascends or descends: an end is found by doubling steps, then halving.

use std::ops::Range;

use arrow::array::{ArrayRef, AsArray, make_comparator};
use arrow::buffer::ScalarBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType, UInt8Type};
use datafusion::error::Result;
use keyspan_model::decoded;
use keyspan_model::infinity::infinite_micros;

use super::groups::out_of_range;
use crate::error::external;
use crate::functions::step::Step;

/// The key columns that decide where a run ends, by their places in a batch.
#[derive(Clone, Debug)]
pub(super) struct Fences {
    /// A change of any of these ends a run; the first key columns, in their order.
    pub(super) equal: Vec<usize>,
    /// The next key column, a time: leaving the step of any of these ends a run.
    pub(super) steps: Option<(usize, Vec<Step>)>,
}

/// Whether two rows of one column have the same value.
type Same<'a> = Box<dyn Fn(usize, usize) -> bool + 'a>;

impl Fences {
    /// Calls with each run of the batch.
    pub(super) fn each(
        &self,
        columns: &[ArrayRef],
        rows: usize,
        mut call: impl FnMut(Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let equal: Vec<Same<'_>> = self.equal.iter().map(|place| same(&columns[*place])).collect::<Result<_>>()?;
        let times = match &self.steps {
            Some((place, steps)) => Some((times(&columns[*place])?, steps.as_slice())),
            None => None,
        };
        let mut start = 0;
        while start < rows {
            let end = equal.iter().fold(rows, |end, same| gallop(start, end, |row| same(start, row)));
            match &times {
                None => call(start..end)?,
                Some((times, steps)) => {
                    let mut first = start;
                    while first < end {
                        let last = step_end(times, first, end, steps)?;
                        call(first..last)?;
                        first = last;
                    }
                }
            }
            start = end;
        }
        Ok(())
    }
}

/// The numbers of a column of times, which is coded where many rows have few times.
fn times(array: &ArrayRef) -> Result<ScalarBuffer<i64>> {
    let times = decoded(array).map_err(external)?;
    Ok(times.as_primitive::<TimestampMicrosecondType>().values().clone())
}

fn step_end(times: &[i64], first: usize, end: usize, steps: &[Step]) -> Result<usize> {
    steps.iter().try_fold(end, |end, step| {
        let start = step.start(times[first]).ok_or_else(out_of_range)?;
        // As an unsigned distance one comparison tells both sides. Behind infinity there is nothing, -infinity least of all.
        let width = if infinite_micros(start).is_some() { 1 } else { step.width as u64 };
        Ok(gallop(first, end, |row| (times[row].wrapping_sub(start) as u64) < width))
    })
}

/// The first row of `first..end` that is no longer like `first`; those that are stand together.
fn gallop(first: usize, end: usize, like: impl Fn(usize) -> bool) -> usize {
    let mut step = 1;
    let mut low = first;
    while low + step < end && like(low + step) {
        low += step;
        step *= 2;
    }
    let mut high = (low + step).min(end);
    low += 1;
    while low < high {
        let middle = low + (high - low) / 2;
        if like(middle) { low = middle + 1 } else { high = middle }
    }
    low.min(end)
}

fn same(array: &ArrayRef) -> Result<Same<'_>> {
    if let Some(codes) = array.as_dictionary_opt::<UInt8Type>() {
        let codes = codes.keys().values();
        return Ok(Box::new(|a, b| codes[a] == codes[b]));
    }
    if let Some(texts) = array.as_string_view_opt() {
        return Ok(Box::new(|a, b| texts.value(a) == texts.value(b)));
    }
    if let Some(numbers) = array.as_primitive_opt::<Int64Type>() {
        return Ok(Box::new(|a, b| numbers.value(a) == numbers.value(b)));
    }
    if let Some(numbers) = array.as_primitive_opt::<Int32Type>() {
        return Ok(Box::new(|a, b| numbers.value(a) == numbers.value(b)));
    }
    let compare = make_comparator(array, array, SortOptions::default())?;
    Ok(Box::new(move |a, b| compare(a, b).is_eq()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn galloping_ends_where_likeness_does() {
        for rows in 1..40 {
            for end in 1..=rows {
                assert_eq!(gallop(0, rows, |row| row < end), end);
            }
        }
        assert_eq!(gallop(5, 6, |_| true), 6);
    }
}
