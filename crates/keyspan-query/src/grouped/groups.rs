//! The groups found so far: each a number, found by its values.
//!
//! A value is one word: a whole number itself, a text the number under which it is kept. So a group's values are a few
//! words, compared and hashed as such.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, FixedSizeBinaryArray, Int64Array, StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type, TimestampMicrosecondType, UInt8Type};
use datafusion::common::HashMap;
use datafusion::error::{DataFusionError, Result};
use keyspan_model::{Error, ErrorKind};

use crate::error::external;
use crate::functions::step::Step;

/// Most columns of a group.
pub(super) const MOST_PARTS: usize = 4;

/// A group's values as words; those beyond its parts are zero.
pub(super) type Words = [u64; MOST_PARTS];

/// One expression of GROUP BY.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Place of its key column in a batch.
    pub(super) place: usize,
    /// The step into which the column's times fall; `None`: the column itself.
    pub(super) step: Option<Step>,
    /// Name and type.
    pub(super) field: FieldRef,
}

/// Whether groups can be made of values of this type.
pub(super) fn supports(ty: &DataType) -> bool {
    let whole = matches!(ty, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Boolean);
    whole || matches!(ty, DataType::Date32 | DataType::Timestamp(..)) || is_interned(ty)
}

/// Whether values of this type are kept aside, for a word to name them.
fn is_interned(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8View | DataType::FixedSizeBinary(_))
}

/// Values that words name, each once.
#[derive(Debug, Default)]
struct Interner {
    numbers: HashMap<Box<[u8]>, u64>,
    values: Vec<Box<[u8]>>,
    /// In memory, about.
    bytes: usize,
}

impl Interner {
    fn number(&mut self, value: &[u8]) -> u64 {
        if let Some(number) = self.numbers.get(value) {
            return *number;
        }
        let number = self.values.len() as u64;
        self.numbers.insert(value.into(), number);
        self.values.push(value.into());
        self.bytes += 2 * value.len() + 64;
        number
    }
}

/// The groups found so far.
#[derive(Debug)]
pub(super) struct Groups {
    parts: Arc<[Part]>,
    kept: Vec<Interner>,
    numbers: HashMap<Words, usize>,
    words: Vec<Words>,
}

/// The columns of a batch that groups are made of, ready to be looked at.
pub(super) struct Values<'a> {
    columns: Vec<Column<'a>>,
}

enum Column<'a> {
    Times(&'a [i64], Option<Step>),
    Numbers(Int64Array),
    /// Codes into what the second says.
    Codes(&'a [u8], Box<Column<'a>>),
    Texts(&'a StringViewArray),
    Bytes(&'a FixedSizeBinaryArray),
}

impl<'a> Values<'a> {
    pub(super) fn new(parts: &[Part], columns: &'a [ArrayRef]) -> Result<Values<'a>> {
        let column = |part: &Part| Column::new(&columns[part.place], part.step);
        Ok(Values { columns: parts.iter().map(column).collect::<Result<_>>()? })
    }
}

impl<'a> Column<'a> {
    fn new(array: &'a ArrayRef, step: Option<Step>) -> Result<Column<'a>> {
        if let Some(times) = array.as_primitive_opt::<TimestampMicrosecondType>() {
            return Ok(Column::Times(times.values(), step));
        }
        if let Some(codes) = array.as_dictionary_opt::<UInt8Type>() {
            return Ok(Column::Codes(codes.keys().values(), Box::new(Column::new(codes.values(), step)?)));
        }
        if let Some(texts) = array.as_string_view_opt() {
            return Ok(Column::Texts(texts));
        }
        if let Some(bytes) = array.as_fixed_size_binary_opt() {
            return Ok(Column::Bytes(bytes));
        }
        let numbers = cast(array, &DataType::Int64)?;
        Ok(Column::Numbers(numbers.as_primitive::<Int64Type>().clone()))
    }

    fn word(&self, row: usize, kept: &mut Interner) -> Result<u64> {
        Ok(match self {
            Column::Times(times, None) => times[row] as u64,
            Column::Times(times, Some(step)) => step.start(times[row]).ok_or_else(out_of_range)? as u64,
            Column::Numbers(numbers) => numbers.value(row) as u64,
            Column::Codes(codes, values) => values.word(usize::from(codes[row]), kept)?,
            Column::Texts(texts) => kept.number(texts.value(row).as_bytes()),
            Column::Bytes(bytes) => kept.number(bytes.value(row)),
        })
    }
}

impl Groups {
    pub(super) fn new(parts: Arc<[Part]>) -> Groups {
        let kept = parts.iter().map(|_| Interner::default()).collect();
        Groups { parts, kept, numbers: HashMap::default(), words: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// Bytes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let texts: usize = self.kept.iter().map(|kept| kept.bytes).sum();
        self.words.capacity() * size_of::<Words>() + self.numbers.capacity() * (size_of::<(Words, usize)>() + 1) + texts
    }

    /// The number of the group that this row belongs to.
    pub(super) fn of(&mut self, values: &Values<'_>, row: usize) -> Result<usize> {
        let mut words = Words::default();
        for ((word, column), kept) in words.iter_mut().zip(&values.columns).zip(&mut self.kept) {
            *word = column.word(row, kept)?;
        }
        Ok(self.number(words))
    }

    /// Makes the one group of all rows, if there was no row.
    pub(super) fn whole(&mut self) {
        self.number(Words::default());
    }

    fn number(&mut self, words: Words) -> usize {
        let next = self.words.len();
        let number = *self.numbers.entry(words).or_insert(next);
        if number == next {
            self.words.push(words);
        }
        number
    }

    /// Takes over another's groups: for each of them its number here.
    pub(super) fn join(&mut self, other: &Groups) -> Vec<usize> {
        let moved: Vec<Vec<u64>> = other
            .kept
            .iter()
            .zip(&mut self.kept)
            .map(|(theirs, own)| theirs.values.iter().map(|value| own.number(value)).collect())
            .collect();
        let here = |mut words: Words| {
            // Whole numbers are their own words: nothing of them is kept, nothing moves.
            for (word, moved) in words.iter_mut().zip(&moved) {
                *word = moved.get(*word as usize).copied().unwrap_or(*word);
            }
            words
        };
        other.words.iter().map(|words| self.number(here(*words))).collect()
    }

    /// The groups' numbers in the order of these parts: (part, descending).
    pub(super) fn sorted(&self, order: &[(usize, bool)]) -> Vec<usize> {
        let ranks: Vec<Vec<u64>> = self.kept.iter().map(ranks).collect();
        let rank = |group: usize, part: usize| {
            let word = self.words[group][part];
            match ranks[part].is_empty() {
                true => (word as i64).wrapping_sub(i64::MIN) as u64,
                false => ranks[part][word as usize],
            }
        };
        let mut keyed: Vec<(Words, usize)> = (0..self.len())
            .map(|group| {
                let mut key = Words::default();
                for (slot, (part, descending)) in key.iter_mut().zip(order) {
                    let rank = rank(group, *part);
                    *slot = if *descending { !rank } else { rank };
                }
                (key, group)
            })
            .collect();
        keyed.sort_unstable();
        keyed.into_iter().map(|(_, group)| group).collect()
    }

    /// Whether all rows are of one group, since there is no GROUP BY.
    pub(super) fn are_whole(&self) -> bool {
        self.parts.is_empty()
    }

    /// Forgets all groups.
    pub(super) fn clear(&mut self) {
        *self = Groups::new(self.parts.clone());
    }

    /// The values of all parts in these groups.
    pub(super) fn columns(&self, groups: &[usize]) -> Result<Vec<ArrayRef>> {
        (0..self.parts.len()).map(|part| self.column(part, groups)).collect()
    }

    /// The values of a part in these groups.
    fn column(&self, part: usize, groups: &[usize]) -> Result<ArrayRef> {
        let words = groups.iter().map(|group| self.words[*group][part]);
        let kept = &self.kept[part].values;
        let value = |word: u64| kept[word as usize].as_ref();
        let ty = self.parts[part].field.data_type();
        Ok(match ty {
            DataType::Utf8View => {
                let text = |word| std::str::from_utf8(value(word)).map_err(|e| DataFusionError::External(Box::new(e)));
                Arc::new(words.map(text).map(|text| text.map(Some)).collect::<Result<StringViewArray>>()?)
            }
            DataType::FixedSizeBinary(_) => Arc::new(FixedSizeBinaryArray::try_from_iter(words.map(value))?),
            DataType::Boolean => Arc::new(words.map(|word| Some(word != 0)).collect::<BooleanArray>()),
            DataType::Timestamp(_, zone) => {
                let times = TimestampMicrosecondArray::from_iter_values(words.map(|word| word as i64));
                Arc::new(times.with_timezone_opt(zone.clone()))
            }
            DataType::Date32 => {
                let days = cast(&Int64Array::from_iter_values(words.map(|word| word as i64)), &DataType::Int32)?;
                cast(&days, ty)?
            }
            _ => cast(&Int64Array::from_iter_values(words.map(|word| word as i64)), ty)?,
        })
    }
}

/// For each kept value its place among them, ascending by bytes.
fn ranks(kept: &Interner) -> Vec<u64> {
    let mut order: Vec<usize> = (0..kept.values.len()).collect();
    order.sort_unstable_by_key(|number| &kept.values[*number]);
    let mut ranks = vec![0; order.len()];
    order.into_iter().enumerate().for_each(|(rank, number)| ranks[number] = rank as u64);
    ranks
}

/// A step that begins before the first instant there is.
pub(super) fn out_of_range() -> DataFusionError {
    external(Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range"))
}
