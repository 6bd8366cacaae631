//! `count(DISTINCT x)`: the different values of each group, as words ([`super::groups`]).
//!
//! Over codes a run of rows asks once for each code that it has.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, ListArray, UInt64Array};
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, UInt64Type};
use datafusion::common::HashSet;
use datafusion::error::Result;

use super::groups::{Column, Interner, RowGroups, Run};

/// Rows of a run from which on its codes are noted before they are asked for.
const LONG_RUN: usize = 16;

/// The values of a batch's rows, and which rows count, if not all.
pub(super) struct Asked {
    column: Column,
    among: Option<BooleanBuffer>,
}

impl Asked {
    pub(super) fn new(array: &ArrayRef, among: Option<BooleanBuffer>) -> Result<Asked> {
        Ok(Asked { column: Column::new(array, None)?, among })
    }

    fn counts(&self, row: usize) -> bool {
        self.among.as_ref().is_none_or(|among| among.value(row))
    }
}

/// The different values of all groups.
#[derive(Debug, Default)]
pub(super) struct DistinctCounts {
    /// Whether a word is the number of a value, not the value.
    named: bool,
    names: Interner,
    /// Groups and their words.
    seen: HashSet<(usize, u64)>,
    counts: Vec<i64>,
}

impl DistinctCounts {
    /// Of values of this type.
    pub(super) fn new(ty: &DataType) -> DistinctCounts {
        DistinctCounts { named: is_named(ty), ..DistinctCounts::default() }
    }

    /// The type of the column that keeps what there is of a group: a list of its values.
    pub(super) fn state_type(ty: &DataType) -> DataType {
        DataType::List(item(is_named(ty)))
    }

    /// Bytes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        self.counts.len() * size_of::<i64>()
            + self.seen.capacity() * (size_of::<(usize, u64)>() + 1)
            + self.names.bytes()
    }

    /// Makes room for so many groups.
    pub(super) fn resize(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
    }

    fn note(&mut self, group: usize, word: u64) {
        self.counts[group] += i64::from(self.seen.insert((group, word)));
    }

    /// Adds the rows of a batch.
    pub(super) fn add(&mut self, asked: &Asked, rows: &RowGroups) -> Result<()> {
        let mut words = WordsOfCodes::default();
        match rows {
            RowGroups::Runs(runs) => runs.iter().try_for_each(|Run { group, rows }| match asked.column.codes() {
                Some(codes) if rows.len() >= LONG_RUN => {
                    let mut firsts = [None; 256];
                    for row in rows.clone().filter(|row| asked.counts(*row) && !asked.column.is_null(*row)) {
                        firsts[usize::from(codes[row])].get_or_insert(row);
                    }
                    firsts.into_iter().flatten().try_for_each(|row| self.add_row(*group, asked, row, &mut words))
                }
                _ => rows.clone().try_for_each(|row| self.add_row(*group, asked, row, &mut words)),
            }),
            RowGroups::Ascending(runs) => runs.iter().try_for_each(|Run { group, rows }| {
                rows.clone().zip(*group..).try_for_each(|(row, group)| self.add_row(group, asked, row, &mut words))
            }),
            RowGroups::Rows(groups) => {
                let mut each = groups.iter().enumerate();
                each.try_for_each(|(row, group)| self.add_row(*group, asked, row, &mut words))
            }
        }
    }

    fn add_row(&mut self, group: usize, asked: &Asked, row: usize, words: &mut WordsOfCodes) -> Result<()> {
        if !asked.counts(row) {
            return Ok(());
        }
        if let Some(word) = words.of(&asked.column, row, &mut self.names)? {
            self.note(group, word);
        }
        Ok(())
    }

    /// For each group the list of its values; afterwards nothing is kept.
    pub(super) fn take_states(&mut self, groups: usize) -> ArrayRef {
        let named = self.named;
        let DistinctCounts { names, seen, .. } =
            std::mem::replace(self, DistinctCounts { named, ..DistinctCounts::default() });
        let mut seen: Vec<(usize, u64)> = seen.into_iter().collect();
        seen.sort_unstable();
        let mut lengths = vec![0; groups];
        seen.iter().for_each(|(group, _)| lengths[*group] += 1);
        let words = seen.into_iter().map(|(_, word)| word);
        let values: ArrayRef = match named {
            true => Arc::new(BinaryArray::from_iter_values(words.map(|word| names.value(word)))),
            false => Arc::new(UInt64Array::from_iter_values(words)),
        };
        Arc::new(ListArray::new(item(named), OffsetBuffer::from_lengths(lengths), values, None))
    }

    /// Takes over the values of others, whose groups have these numbers here.
    pub(super) fn join(&mut self, states: &ArrayRef, numbers: &[usize]) {
        let lists = states.as_list::<i32>();
        let ranges = lists.value_offsets().windows(2).map(|ends| ends[0] as usize..ends[1] as usize);
        for (range, group) in ranges.zip(numbers) {
            for place in range {
                let word = match lists.values().as_primitive_opt::<UInt64Type>() {
                    Some(words) => words.value(place),
                    None => self.names.number(lists.values().as_binary::<i32>().value(place)),
                };
                self.note(*group, word);
            }
        }
    }

    /// How many values each group has; afterwards nothing is kept.
    pub(super) fn finish(&mut self) -> Vec<i64> {
        let named = self.named;
        std::mem::replace(self, DistinctCounts { named, ..DistinctCounts::default() }).counts
    }
}

/// Words of a batch's codes, each looked up once.
#[derive(Default)]
struct WordsOfCodes(Vec<Option<u64>>);

impl WordsOfCodes {
    /// The word of a row's value, or none of a null.
    fn of(&mut self, column: &Column, row: usize, names: &mut Interner) -> Result<Option<u64>> {
        let Some(codes) = column.codes().filter(|_| !column.is_null(row)) else { return column.word(row, names) };
        let code = usize::from(codes[row]);
        if let Some(Some(word)) = self.0.get(code) {
            return Ok(Some(*word));
        }
        let word = column.word(row, names)?;
        self.0.resize(self.0.len().max(code + 1), None);
        self.0[code] = word;
        Ok(word)
    }
}

/// Whether words of values of this type are numbers of names.
fn is_named(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8View | DataType::FixedSizeBinary(_) | DataType::Decimal128(..))
}

fn item(named: bool) -> Arc<Field> {
    Arc::new(Field::new_list_field(if named { DataType::Binary } else { DataType::UInt64 }, false))
}
