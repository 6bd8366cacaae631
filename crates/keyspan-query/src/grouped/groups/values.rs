//! The values of a batch's rows, each as one word: a whole number itself, a text the number under which it is kept.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, FixedSizeBinaryArray, StringViewArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal128Type, Float64Type, Int64Type, TimestampMicrosecondType, UInt8Type, UInt32Type,
};
use datafusion::error::{DataFusionError, Result};
use keyspan_model::infinity::infinite_micros;
use keyspan_model::value::canonical_double;
use keyspan_model::{Error, ErrorKind};

use super::interner::Interner;
use super::{Part, PartValue, SHORT_RUN};
use crate::error::external;
use crate::functions::step::Step;

/// Average rows of a run of codes from which on each run is looked up.
const LONG_RUN: usize = 32;

/// What groups are made of in a batch, ready to be looked at.
pub(crate) struct Values {
    pub(super) columns: Vec<Column>,
}

/// The values of a batch's rows.
pub(in crate::grouped) struct Column {
    pub(super) of: Of,
    pub(super) nulls: Option<NullBuffer>,
}

pub(super) enum Of {
    Times(ScalarBuffer<i64>, Option<Step>),
    Numbers(ScalarBuffer<i64>),
    Floats(ScalarBuffer<f64>),
    /// Codes into what the second says, which has so many values.
    Codes(ScalarBuffer<u8>, Box<Column>, usize),
    /// The same of a table that rows are looked up in ([`crate::grouped`]): of more values.
    WideCodes(ScalarBuffer<u32>, Box<Column>, usize),
    /// Codes into words; those of nulls are none.
    Words(ScalarBuffer<u8>, Vec<Option<u64>>),
    Texts(StringViewArray),
    Bytes(FixedSizeBinaryArray),
    Decimals(Decimal128Array),
    /// Of no row.
    Nothing,
}

impl Values {
    /// Of a batch's inputs.
    pub(crate) fn new(parts: &[Part], inputs: &[ArrayRef]) -> Result<Values> {
        let column = |part: &Part| match part.value {
            PartValue::Input(place) => Column::new(&inputs[place], None),
            PartValue::Step(place, step) => Column::new(&inputs[place], Some(step)),
            PartValue::Set => Ok(Column { of: Of::Nothing, nulls: None }),
        };
        Ok(Values { columns: parts.iter().map(column).collect::<Result<_>>()? })
    }

    /// The one column, if it is of whole numbers or times without a null.
    pub(super) fn numbers(&self) -> Option<&[i64]> {
        match self.columns.as_slice() {
            [Column { of: Of::Times(numbers, None) | Of::Numbers(numbers), nulls: None }] => Some(numbers),
            _ => None,
        }
    }

    /// Where all columns are codes, and rows of the same ones stand together: these, where it is quicker to look up each than
    /// to combine the codes of all rows.
    pub(super) fn long_runs(&self, rows: usize) -> Option<Vec<Range<usize>>> {
        let mut differs = vec![false; rows.checked_sub(1)?];
        for column in &self.columns {
            match &column.of {
                Of::Codes(codes, ..) if column.nulls.is_none() => {
                    let pairs = differs.iter_mut().zip(codes.iter().zip(&codes[1..]));
                    pairs.for_each(|(differs, (code, next))| *differs |= code != next);
                }
                Of::Nothing => {}
                _ => return None,
            }
        }
        let ends = differs.iter().filter(|differs| **differs).count() + 1;
        if rows < LONG_RUN * ends {
            return None;
        }
        let mut runs = Vec::with_capacity(ends);
        let mut start = 0;
        for (row, _) in differs.iter().enumerate().filter(|(_, differs)| **differs) {
            runs.push(start..row + 1);
            start = row + 1;
        }
        runs.push(start..rows);
        Some(runs)
    }

    /// Whether rows of one number or time stand together, or most go up or down, as the times of several series do.
    pub(super) fn are_runs(&self) -> bool {
        let Some(numbers) = self.numbers() else { return false };
        let pairs = || numbers.windows(2);
        let rises = pairs().filter(|pair| pair[0] < pair[1]).count();
        let falls = pairs().filter(|pair| pair[0] > pair[1]).count();
        numbers.len() >= SHORT_RUN * (rises.min(falls) + 1)
    }

    /// How many rows behind this one are like it; rows of more than one column are not looked at.
    pub(super) fn same(&self, row: usize, rows: usize) -> usize {
        let Some(numbers) = self.numbers() else { return 0 };
        numbers[row + 1..rows].iter().take_while(|number| **number == numbers[row]).count()
    }
}

impl Column {
    /// Of an array of a type that groups can be made of; of times the beginnings of their steps.
    pub(in crate::grouped) fn new(array: &ArrayRef, step: Option<Step>) -> Result<Column> {
        let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        let of = if let Some(times) = array.as_primitive_opt::<TimestampMicrosecondType>() {
            Of::Times(times.values().clone(), step)
        } else if let Some(codes) = array.as_dictionary_opt::<UInt8Type>() {
            let values = codes.values();
            Of::Codes(codes.keys().values().clone(), Box::new(Column::new(values, step)?), values.len())
        } else if let Some(codes) = array.as_dictionary_opt::<UInt32Type>() {
            let values = codes.values();
            Of::WideCodes(codes.keys().values().clone(), Box::new(Column::new(values, step)?), values.len())
        } else if let Some(texts) = array.as_string_view_opt() {
            Of::Texts(texts.clone())
        } else if let Some(bytes) = array.as_fixed_size_binary_opt() {
            Of::Bytes(bytes.clone())
        } else if let Some(decimals) = array.as_primitive_opt::<Decimal128Type>() {
            Of::Decimals(decimals.clone())
        } else if array.data_type().is_floating() {
            Of::Floats(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().values().clone())
        } else {
            let numbers = if *array.data_type() == DataType::Date32 { &cast(array, &DataType::Int32)? } else { array };
            Of::Numbers(cast(numbers, &DataType::Int64)?.as_primitive::<Int64Type>().values().clone())
        };
        Ok(Column { of, nulls })
    }

    /// The code of each row, if there are codes; those of nulls mean nothing.
    pub(in crate::grouped) fn codes(&self) -> Option<&[u8]> {
        match &self.of {
            Of::Codes(codes, ..) => Some(codes),
            _ => None,
        }
    }

    /// Whether a row is null by itself; what its code stands for may be null, too.
    pub(in crate::grouped) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// The word of a row's value, or none.
    pub(in crate::grouped) fn word(&self, row: usize, kept: &mut Interner) -> Result<Option<u64>> {
        if self.is_null(row) {
            return Ok(None);
        }
        Ok(Some(match &self.of {
            Of::Times(times, None) => times[row] as u64,
            Of::Times(times, Some(step)) => step.start(times[row]).ok_or_else(out_of_range)? as u64,
            Of::Numbers(numbers) => numbers[row] as u64,
            Of::Floats(numbers) => float_word(numbers[row]),
            Of::Codes(codes, values, _) => return values.word(usize::from(codes[row]), kept),
            Of::WideCodes(codes, values, _) => return values.word(codes[row] as usize, kept),
            Of::Words(codes, words) => return Ok(words[usize::from(codes[row])]),
            Of::Texts(texts) => kept.number(texts.value(row).as_bytes()),
            Of::Bytes(bytes) => kept.number(bytes.value(row)),
            Of::Decimals(digits) => kept.number(&digits.value(row).to_le_bytes()),
            Of::Nothing => 0,
        }))
    }

    /// The same with words for what its codes stand for, if these are not more than so many rows: each value is looked up
    /// once, not for each row.
    pub(super) fn with_words(self, kept: &mut Interner, rows: usize) -> Result<Column> {
        let (codes, values, known) = match self.of {
            Of::Codes(codes, values, known) if known <= rows => (codes, values, known),
            of => return Ok(Column { of, ..self }),
        };
        let words = (0..known).map(|value| values.word(value, kept)).collect::<Result<_>>()?;
        Ok(Column { of: Of::Words(codes, words), nulls: self.nulls })
    }

    /// Whether a row's value is not null and has this word.
    pub(super) fn is(&self, row: usize, word: u64, kept: &Interner) -> bool {
        let kept_as = |value: &[u8]| (word as usize) < kept.len() && kept.value(word) == value;
        !self.is_null(row)
            && match &self.of {
                Of::Times(times, None) => times[row] as u64 == word,
                Of::Times(times, Some(step)) => {
                    let width = if infinite_micros(word as i64).is_some() { 1 } else { step.width as u64 };
                    (times[row] as u64).wrapping_sub(word) < width
                }
                Of::Numbers(numbers) => numbers[row] as u64 == word,
                Of::Floats(numbers) => float_word(numbers[row]) == word,
                Of::Codes(codes, values, _) => values.is(usize::from(codes[row]), word, kept),
                Of::WideCodes(codes, values, _) => values.is(codes[row] as usize, word, kept),
                Of::Words(codes, words) => words[usize::from(codes[row])] == Some(word),
                Of::Texts(texts) => kept_as(texts.value(row).as_bytes()),
                Of::Bytes(bytes) => kept_as(bytes.value(row)),
                Of::Decimals(digits) => kept_as(&digits.value(row).to_le_bytes()),
                Of::Nothing => word == 0,
            }
    }
}

/// The bits of a number: one zero, one NaN.
pub(super) fn float_word(number: f64) -> u64 {
    canonical_double(number).to_bits()
}

/// A step that begins before the first instant there is.
pub(in crate::grouped) fn out_of_range() -> DataFusionError {
    external(Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range"))
}
