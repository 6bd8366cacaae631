//! A system column: numbers that are left out when they are all null, and one number when they are all the same.

use arrow::array::{Array, Int64Array};
use arrow::compute::{max, min};
use arrow::error::ArrowError;

/// A column of optional 64-bit numbers. Rule: whatever is constant is not an array.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Int64s {
    /// Null in every row.
    #[default]
    Null,
    /// This number in every row.
    Constant(i64),
    /// One a row.
    Array(Int64Array),
}

impl Int64s {
    /// The number in a row.
    #[inline]
    pub fn get(&self, row: usize) -> Option<i64> {
        match self {
            Int64s::Null => None,
            Int64s::Constant(value) => Some(*value),
            Int64s::Array(array) => array.is_valid(row).then(|| array.value(row)),
        }
    }

    /// Whether every row is null, as far as can be seen without looking at rows.
    pub fn is_null(&self) -> bool {
        matches!(self, Int64s::Null)
    }

    /// The rows from `offset` on; copies nothing.
    pub fn slice(&self, offset: usize, length: usize) -> Int64s {
        match self {
            Int64s::Array(array) => Int64s::Array(array.slice(offset, length)),
            other => other.clone(),
        }
    }

    /// Least and greatest number, nulls left aside; `None` when all are null.
    pub fn min_max(&self) -> Option<(i64, i64)> {
        match self {
            Int64s::Null => None,
            Int64s::Constant(value) => Some((*value, *value)),
            Int64s::Array(array) => min(array).zip(max(array)),
        }
    }

    /// The numbers with `base` added; null stays null.
    pub fn shifted(self, base: i64) -> Int64s {
        match self {
            Int64s::Constant(value) => Int64s::Constant(value.saturating_add(base)),
            Int64s::Array(array) if base != 0 => Int64s::Array(array.unary(|value| value.saturating_add(base))),
            same => same,
        }
    }

    /// The column of these numbers, constant if they are.
    pub fn from_options(values: Vec<Option<i64>>) -> Int64s {
        match values.first() {
            None | Some(None) if values.iter().all(Option::is_none) => Int64s::Null,
            Some(Some(first)) if values.iter().all(|value| *value == Some(*first)) => Int64s::Constant(*first),
            _ => Int64s::Array(Int64Array::from(values)),
        }
    }

    /// The same column, constant if all rows are the same.
    pub fn compact(self) -> Int64s {
        let Int64s::Array(array) = &self else { return self };
        if array.null_count() == array.len() {
            return Int64s::Null;
        }
        match (array.null_count(), min(array), max(array)) {
            (0, Some(least), Some(greatest)) if least == greatest => Int64s::Constant(least),
            _ => self,
        }
    }

    /// One number a row, as an array.
    pub fn to_array(&self, rows: usize) -> Int64Array {
        match self {
            Int64s::Null => Int64Array::new_null(rows),
            Int64s::Constant(value) => Int64Array::from_value(*value, rows),
            Int64s::Array(array) => array.clone(),
        }
    }

    /// Several columns, each with its number of rows, one after another.
    pub fn concat(parts: &[(&Int64s, usize)]) -> Result<Int64s, ArrowError> {
        let Some((first, _)) = parts.first() else { return Ok(Int64s::Null) };
        if !matches!(first, Int64s::Array(_)) && parts.iter().all(|(part, _)| part == first) {
            return Ok((*first).clone());
        }
        let arrays: Vec<Int64Array> = parts.iter().map(|(part, rows)| part.to_array(*rows)).collect();
        let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array as &dyn Array).collect();
        let whole = arrow::compute::concat(&arrays)?;
        Ok(Int64s::Array(Int64Array::from(whole.to_data())))
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        match self {
            Int64s::Array(array) => array.len() * 8,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_constant_is_not_an_array() {
        assert_eq!(Int64s::from_options(vec![None, None]), Int64s::Null);
        assert_eq!(Int64s::from_options(vec![Some(3), Some(3)]), Int64s::Constant(3));
        let mixed = Int64s::from_options(vec![Some(3), None, Some(-1)]);
        assert_eq!((mixed.get(0), mixed.get(1), mixed.min_max()), (Some(3), None, Some((-1, 3))));
        assert_eq!(mixed.slice(0, 1).compact(), Int64s::Constant(3));
        let same = Int64s::concat(&[(&Int64s::Constant(3), 2), (&Int64s::Constant(3), 1)]).expect("same types");
        assert_eq!(same, Int64s::Constant(3));
        let joined = Int64s::concat(&[(&Int64s::Constant(3), 1), (&Int64s::Null, 1)]).expect("same types");
        assert_eq!((joined.get(0), joined.get(1)), (Some(3), None));
    }
}
