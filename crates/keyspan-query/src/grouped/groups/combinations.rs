//! Which group has which values, in a table: quicker than to hash the values of each row.
//!
//! Each part numbers the values that it has seen. Numbers of all parts together are a place in the table:
//!
//! ```text
//! place = number of the first part × its stride + number of the second part × its stride + …
//! ```
//!
//! Numbers last from batch to batch, whatever the codes of each are. The table is bounded: where there are more
//! combinations than it has places, all numbers are forgotten and given anew. Columns without codes have each row's value
//! looked up; where most of these are new, or stand together in runs, other ways are quicker.

use arrow::buffer::NullBuffer;
use datafusion::common::HashMap;
use datafusion::error::Result;

use super::interner::Interner;
use super::values::{Column, Of, Values, float_word};

/// Places of the table.
const MOST_PLACES: usize = 1 << 17;
/// Values of a part that are found without hashing.
const RECENT: usize = 1024;
/// Of so many rows one may have a value that was not seen lately, besides as many as are kept.
const ROWS_OF_A_MISS: usize = 8;
/// Batches that are passed by where one has too many combinations.
const PASSED: usize = 32;
/// The number of NULL.
const NULL: u32 = 0;
/// In the table: not looked up yet.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// The table, and the numbers of all parts.
#[derive(Debug, Default)]
pub(super) struct Combinations {
    parts: Vec<Numbered>,
    /// For each place the number of its group.
    pub(super) groups: Vec<u32>,
    /// Whether values without codes turned out to be too many.
    only_codes: bool,
    /// So many batches are passed by, since those of one were too many.
    passed: usize,
}

/// The numbers of a part's values; NULL's is 0.
#[derive(Debug, Default)]
pub(in crate::grouped) struct Numbered {
    numbers: HashMap<u64, u32>,
    /// Words and their numbers, by some bits of the word.
    recent: Vec<(u64, u32)>,
    /// Numbers that the table has places for.
    room: usize,
}

impl Numbered {
    pub(in crate::grouped) fn of(&mut self, word: Option<u64>) -> u32 {
        let Some(word) = word else { return NULL };
        let next = self.numbers.len() as u32 + 1;
        *self.numbers.entry(word).or_insert(next)
    }

    /// As [`Numbered::of`]; counts words that were not seen lately.
    fn of_recent(&mut self, word: u64, misses: &mut usize) -> u32 {
        // Fibonacci hashing: Knuth, The Art of Computer Programming, 6.4.
        let slot = (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT.trailing_zeros())) as usize;
        if let Some((known, number)) = self.recent.get(slot)
            && *known == word
            && *number != UNKNOWN
        {
            return *number;
        }
        *misses += 1;
        let number = self.of(Some(word));
        self.recent.resize(RECENT, (0, UNKNOWN));
        self.recent[slot] = (word, number);
        number
    }

    /// The numbers of a batch's words; `None` if most were not seen lately.
    fn of_words(&mut self, words: impl ExactSizeIterator<Item = u64>, nulls: Option<&NullBuffer>) -> Option<Vec<u32>> {
        let (rows, mut misses) = (words.len(), 0);
        let is_null = |row: usize| nulls.is_some_and(|nulls| nulls.is_null(row));
        let number = |(row, word)| if is_null(row) { NULL } else { self.of_recent(word, &mut misses) };
        let numbers = words.enumerate().map(number).collect();
        (misses <= rows / ROWS_OF_A_MISS + RECENT).then_some(numbers)
    }

    /// How many numbers there are.
    fn len(&self) -> usize {
        self.numbers.len() + 1
    }
}

/// What a column says of a batch's rows.
enum Rows<'a> {
    /// A code for each, and the number of what it stands for.
    Codes(&'a [u8], Box<[u32; 256]>),
    Numbers(Vec<u32>),
}

impl Combinations {
    /// For each row the place of its combination in the table; `None`: they are to be found otherwise.
    pub(super) fn places(&mut self, values: &Values, kept: &mut [Interner], rows: usize) -> Result<Option<Vec<u32>>> {
        if self.passed > 0 {
            self.passed -= 1;
            return Ok(None);
        }
        let columns = || values.columns.iter().filter(|column| !matches!(column.of, Of::Nothing));
        if columns().count() == 0 || !columns().all(|column| self.takes(column)) || values.are_runs() {
            return Ok(None);
        }
        self.parts.resize_with(values.columns.len(), Numbered::default);
        for again in [false, true] {
            let Some(found) = self.numbered(values, kept)? else { return Ok(None) };
            if self.make_room(again) {
                return Ok(Some(self.placed(&found, rows)));
            }
        }
        Ok(None)
    }

    fn takes(&self, column: &Column) -> bool {
        match column.of {
            Of::Codes(..) | Of::WideCodes(..) => true,
            Of::Times(_, None) | Of::Numbers(_) | Of::Floats(_) => !self.only_codes,
            _ => false,
        }
    }

    /// The numbers of all rows' values, for each column; `None` if too many of these are new.
    fn numbered<'a>(&mut self, values: &'a Values, kept: &mut [Interner]) -> Result<Option<Vec<(usize, Rows<'a>)>>> {
        let mut found = Vec::with_capacity(values.columns.len());
        for (part, (column, kept)) in values.columns.iter().zip(kept).enumerate() {
            let numbered = &mut self.parts[part];
            let of_rows = match &column.of {
                Of::Nothing => continue,
                Of::Codes(codes, of_codes, known) => {
                    let mut numbers = Box::new([NULL; 256]);
                    for (code, number) in numbers.iter_mut().enumerate().take(*known) {
                        *number = numbered.of(of_codes.word(code, kept)?);
                    }
                    match &column.nulls {
                        None => Rows::Codes(codes, numbers),
                        Some(nulls) => {
                            let number =
                                |(code, valid): (&u8, bool)| if valid { numbers[usize::from(*code)] } else { NULL };
                            Rows::Numbers(codes.iter().zip(nulls).map(number).collect())
                        }
                    }
                }
                Of::WideCodes(codes, of_codes, known) => {
                    let number = |code| Ok(numbered.of(of_codes.word(code, kept)?));
                    let numbers = (0..*known).map(number).collect::<Result<Vec<u32>>>()?;
                    let of_row = |(row, code): (usize, &u32)| match column.is_null(row) {
                        true => NULL,
                        false => numbers[*code as usize],
                    };
                    Rows::Numbers(codes.iter().enumerate().map(of_row).collect())
                }
                of => {
                    let nulls = column.nulls.as_ref();
                    let found = match of {
                        Of::Times(numbers, _) | Of::Numbers(numbers) => {
                            numbered.of_words(numbers.iter().map(|number| *number as u64), nulls)
                        }
                        Of::Floats(numbers) => numbered.of_words(numbers.iter().map(|n| float_word(*n)), nulls),
                        _ => None,
                    };
                    let Some(numbers) = found else {
                        self.only_codes = true;
                        self.forget();
                        return Ok(None);
                    };
                    Rows::Numbers(numbers)
                }
            };
            found.push((part, of_rows));
        }
        Ok(Some(found))
    }

    /// Makes the table large enough for all numbers; says whether it is. If not, all are forgotten, so that those of one
    /// batch may fit; if these were all, some batches are passed by.
    fn make_room(&mut self, of_one_batch: bool) -> bool {
        if self.parts.iter().all(|part| part.len() <= part.room) {
            return true;
        }
        let mut places = 1;
        for part in &mut self.parts {
            if part.len() > part.room {
                part.room = part.len() + part.len() / 4;
            }
            places *= part.room;
        }
        if places <= MOST_PLACES {
            self.groups.clear();
            self.groups.resize(places, UNKNOWN);
            return true;
        }
        self.only_codes |= of_one_batch;
        self.passed = if of_one_batch { PASSED } else { 0 };
        self.forget();
        false
    }

    fn forget(&mut self) {
        self.parts.iter_mut().for_each(|part| *part = Numbered::default());
        self.groups = Vec::new();
    }

    fn placed(&self, found: &[(usize, Rows<'_>)], rows: usize) -> Vec<u32> {
        let mut places = vec![0u32; rows];
        let mut stride = 1;
        for (part, of_rows) in found {
            match of_rows {
                Rows::Codes(codes, numbers) => {
                    let of_codes = numbers.map(|number| number * stride);
                    places.iter_mut().zip(*codes).for_each(|(place, code)| *place += of_codes[usize::from(*code)]);
                }
                Rows::Numbers(numbers) => {
                    places.iter_mut().zip(numbers).for_each(|(place, number)| *place += number * stride);
                }
            }
            stride *= self.parts[*part].room as u32;
        }
        places
    }

    /// Bytes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let numbered = |part: &Numbered| part.numbers.capacity() * 17 + part.recent.len() * size_of::<(u64, u32)>();
        self.groups.len() * size_of::<u32>() + self.parts.iter().map(numbered).sum::<usize>()
    }
}
