//! Decoding pages into what the cache keeps: codes stay codes, so that no value is made that is coded again at once.
//!
//! What is not decoded here, other encodings and types, goes through Parquet's own reader, page by page.
//!
//! Rule: pages here hold the rows of one block each; the caller checks that ([`ColumnRead::is_aligned`]).
//!
//! [`ColumnRead::is_aligned`]: super::column::ColumnRead::is_aligned

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float32Array, Float64Array, new_empty_array};
use arrow::buffer::NullBuffer;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

use super::column::read_rows;
use super::hybrid::{codes, levels};
use super::leaf::{Leaf, from_stored};
use crate::coded::Coded;
use keyspan_model::ColumnType;

/// The blocks of one column of one row group, one after another.
pub(super) struct PageBlocks<R> {
    leaf: Arc<Leaf>,
    pages: R,
    dictionary: Option<Dictionary>,
}

struct Dictionary {
    page: Page,
    values: ArrayRef,
}

fn broken(what: &str) -> ParquetError {
    ParquetError::General(what.to_string())
}

impl<R: PageReader> PageBlocks<R> {
    pub(super) fn new(leaf: Arc<Leaf>, pages: R) -> PageBlocks<R> {
        PageBlocks { leaf, pages, dictionary: None }
    }

    /// The next block.
    pub(super) fn next(&mut self, rows: usize) -> Result<Coded> {
        let page = loop {
            match self.pages.get_next_page()? {
                Some(page) if page.is_dictionary_page() => {
                    let values = dictionary_values(&self.leaf, &page)?;
                    self.dictionary = Some(Dictionary { page, values });
                }
                Some(page) => break page,
                None => return Err(broken("pages hold fewer rows than the index says")),
            }
        };
        if page.num_values() as usize != rows {
            return Err(broken("a page holds another number of rows than the index says"));
        }
        match self.decoded(&page, rows)? {
            Some(block) => Ok(block),
            None => self.by_parquet(page, rows),
        }
    }

    /// The rows of a page; `None` if it is not decoded here.
    fn decoded(&self, page: &Page, rows: usize) -> Result<Option<Coded>> {
        let Page::DataPage { buf, encoding, def_level_encoding: Encoding::RLE, .. } = page else { return Ok(None) };
        let (nulls, bytes) = match self.leaf.nullable {
            true => levels(buf, rows).ok_or_else(|| broken("a page has no right levels"))?,
            false => (None, buf.as_ref()),
        };
        let present = rows - nulls.as_ref().map_or(0, NullBuffer::null_count);
        if present == 0 {
            return Ok(None);
        }
        match (encoding, &self.dictionary, self.leaf.ty) {
            (Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, Some(dictionary), _) => {
                let codes = codes(bytes, present).ok_or_else(|| broken("a page has no right codes"))?;
                let known = dictionary.values.len();
                if codes.iter().max().is_some_and(|code| usize::from(*code) >= known) {
                    return Err(broken("a page has a code that its dictionary has not"));
                }
                let codes = spread(codes, nulls.as_ref());
                Coded::of_codes(&dictionary.values, &codes, nulls).map(Some).map_err(|error| broken(&error.to_string()))
            }
            (Encoding::BYTE_STREAM_SPLIT, _, ColumnType::Double) => {
                let values = joined_doubles(bytes, present)?;
                of_split(Arc::new(Float64Array::new(spread(values, nulls.as_ref()).into(), nulls)))
            }
            (Encoding::BYTE_STREAM_SPLIT, _, ColumnType::Real) => {
                let values = joined_reals(bytes, present)?;
                of_split(Arc::new(Float32Array::new(spread(values, nulls.as_ref()).into(), nulls)))
            }
            _ => Ok(None),
        }
    }

    fn by_parquet(&self, page: Page, rows: usize) -> Result<Coded> {
        let dictionary = self.dictionary.as_ref().map(|dictionary| dictionary.page.clone());
        let array = array_of(&self.leaf, dictionary.into_iter().chain([page]), rows)?;
        Coded::new(array).map_err(|error| broken(&error.to_string()))
    }
}

fn of_split(array: ArrayRef) -> Result<Option<Coded>> {
    Coded::of_split(array).map(Some).map_err(|error| broken(&error.to_string()))
}

/// The values of a dictionary page, which stand there as in a plain data page.
fn dictionary_values(leaf: &Leaf, page: &Page) -> Result<ArrayRef> {
    let count = page.num_values();
    if count == 0 {
        // All rows so far are null.
        return Ok(new_empty_array(&leaf.ty.arrow()));
    }
    if leaf.ty == ColumnType::Double && page.buffer().len() == count as usize * 8 {
        let values = page.buffer().as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
        return Ok(Arc::new(Float64Array::from_iter_values(values)));
    }
    let mut bytes = Vec::with_capacity(page.buffer().len() + 16);
    if leaf.nullable {
        // One run: all rows have a value.
        let mut run = Vec::new();
        crate::varint::put_varint(&mut run, u64::from(count) << 1);
        run.push(1);
        bytes.extend_from_slice(&(run.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&run);
    }
    bytes.extend_from_slice(page.buffer());
    let plain = Page::DataPage {
        buf: bytes.into(),
        num_values: count,
        encoding: Encoding::PLAIN,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    array_of(leaf, [plain], count as usize)
}

/// The rows of pages, as Parquet's reader decodes them.
fn array_of(leaf: &Leaf, pages: impl IntoIterator<Item = Page>, rows: usize) -> Result<ArrayRef> {
    let pages = PagesInMemory(pages.into_iter().collect());
    let batch = read_rows(leaf, Box::new(pages), rows)?.next().transpose()?;
    let array = batch.filter(|batch| batch.num_rows() == rows).map(|batch| Arc::clone(batch.column(0)));
    let array = array.and_then(|array| from_stored(leaf.ty, array));
    array.ok_or_else(|| broken("a page does not hold what the index says"))
}

/// Values at the places of the rows that have one.
fn spread<T: Copy + Default>(values: Vec<T>, nulls: Option<&NullBuffer>) -> Vec<T> {
    let Some(nulls) = nulls else { return values };
    let mut rows = vec![T::default(); nulls.len()];
    nulls.valid_indices().zip(values).for_each(|(row, value)| rows[row] = value);
    rows
}

/// Values whose first bytes stand together, then their second bytes, and so on: eight streams of `count` bytes.
fn joined_doubles(bytes: &[u8], count: usize) -> Result<Vec<f64>> {
    let streams = streams::<8>(bytes, count)?;
    let mut values = Vec::with_capacity(count + 8);
    for first in (0..count).step_by(8) {
        // The last rows are filled up with zeros, and cut off again below.
        let row = |stream: &[u8]| match stream[first..].first_chunk::<8>() {
            Some(eight) => u64::from_le_bytes(*eight),
            None => stream[first..].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        values.extend(transposed(streams.map(row)).map(f64::from_bits));
    }
    values.truncate(count);
    Ok(values)
}

/// As [`joined_doubles`], of four streams.
fn joined_reals(bytes: &[u8], count: usize) -> Result<Vec<f32>> {
    let [a, b, c, d] = streams::<4>(bytes, count)?;
    let low = a.iter().zip(b);
    let high = c.iter().zip(d);
    Ok(low.zip(high).map(|((a, b), (c, d))| f32::from_le_bytes([*a, *b, *c, *d])).collect())
}

fn streams<const WIDTH: usize>(bytes: &[u8], count: usize) -> Result<[&[u8]; WIDTH]> {
    if bytes.len() != count * WIDTH {
        return Err(broken("split floats of another length than their number"));
    }
    Ok(std::array::from_fn(|at| &bytes[at * count..(at + 1) * count]))
}

/// Byte `b` of word `w` becomes byte `w` of word `b`: halves of words change places with those of the words four
/// further on, then quarters two further on, then bytes of neighbours.
fn transposed(mut words: [u64; 8]) -> [u64; 8] {
    let steps = [(4, 0x0000_0000_ffff_ffff), (2, 0x0000_ffff_0000_ffff), (1, 0x00ff_00ff_00ff_00ff)];
    for (apart, low) in steps {
        for at in (0..8).filter(|at| at & apart == 0) {
            let other = ((words[at] >> (8 * apart)) ^ words[at + apart]) & low;
            words[at + apart] ^= other;
            words[at] ^= other << (8 * apart);
        }
    }
    words
}

/// Pages that were read before.
struct PagesInMemory(VecDeque<Page>);

impl Iterator for PagesInMemory {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.0.pop_front().map(Ok)
    }
}

impl PageReader for PagesInMemory {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        Ok(self.0.pop_front())
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        let metadata = |page: &Page| PageMetadata {
            num_rows: None,
            num_levels: Some(page.num_values() as usize),
            is_dict: page.is_dictionary_page(),
        };
        Ok(self.0.front().map(metadata))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.pop_front();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn split_floats_come_back_to_the_bit() {
        let mut random = Random::new(11);
        for count in [1, 3, 7, 8, 9, 64, 1003] {
            let words: Vec<u64> = (0..count).map(|_| random.below(u64::MAX)).collect();
            let split = |width: usize| -> Vec<u8> {
                (0..width).flat_map(|byte| words.iter().map(move |word| word.to_le_bytes()[byte])).collect()
            };
            let doubles = joined_doubles(&split(8), count).expect("doubles");
            assert_eq!(doubles.into_iter().map(f64::to_bits).collect::<Vec<_>>(), words);
            let reals = joined_reals(&split(4), count).expect("reals");
            let low: Vec<u32> = words.iter().map(|word| *word as u32).collect();
            assert_eq!(reals.into_iter().map(f32::to_bits).collect::<Vec<_>>(), low);
        }
        assert!(joined_doubles(&[0; 15], 2).is_err() && joined_reals(&[0; 9], 2).is_err());
    }
}
