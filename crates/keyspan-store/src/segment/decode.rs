//! Decoding pages into what the cache keeps: codes stay codes, so that no value is made that is coded again at once.
//!
//! What is not decoded here, other encodings and types, goes through Parquet's own reader, page by page.
//!
//! Rule: pages here hold the rows of one block each; the caller checks that ([`ColumnRead::is_aligned`]).
//!
//! [`ColumnRead::is_aligned`]: super::column::ColumnRead::is_aligned

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Float32Array, Float64Array, Int64Array, make_array, new_empty_array, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Int8Type, Int16Type, Int32Type};
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};

use super::column::read_rows;
use super::deltas::numbers;
use super::hybrid::{codes, levels};
use super::leaf::{Leaf, from_stored};
use crate::coded::Coded;
use keyspan_model::ColumnType;

/// The blocks of one column of one row group, one after another.
pub(super) struct PageBlocks<R> {
    leaf: Arc<Leaf>,
    pages: R,
    /// The values that codes name.
    dictionary: Option<ArrayRef>,
    /// Whether it was read here and nobody has asked for it.
    is_new: bool,
}

fn broken(what: &str) -> ParquetError {
    ParquetError::General(what.to_string())
}

impl<R: PageReader> PageBlocks<R> {
    /// `dictionary`: that of the row group, if it is known and not among the pages.
    pub(super) fn new(leaf: Arc<Leaf>, pages: R, dictionary: Option<ArrayRef>) -> PageBlocks<R> {
        PageBlocks { leaf, pages, dictionary, is_new: false }
    }

    /// The dictionary, once after it was read.
    pub(super) fn take_new_dictionary(&mut self) -> Option<ArrayRef> {
        std::mem::take(&mut self.is_new).then(|| self.dictionary.clone()).flatten()
    }

    /// The next block. `shared`: blocks before it or behind it are kept too.
    pub(super) fn next(&mut self, rows: usize, shared: bool) -> Result<Coded> {
        let page = loop {
            match self.pages.get_next_page()? {
                Some(page) if page.is_dictionary_page() => {
                    self.dictionary = Some(dictionary_values(&self.leaf, &page)?);
                    self.is_new = true;
                }
                Some(page) => break page,
                None => return Err(broken("pages hold fewer rows than the index says")),
            }
        };
        if page.num_values() as usize != rows {
            return Err(broken("a page holds another number of rows than the index says"));
        }
        match self.decoded(&page, rows, shared)? {
            Some(block) => Ok(block),
            None => coded(array_of(&self.leaf, page, rows)?),
        }
    }

    /// The rows of a page; `None` if it is not decoded here.
    fn decoded(&self, page: &Page, rows: usize, shared: bool) -> Result<Option<Coded>> {
        let Page::DataPage { buf, encoding, def_level_encoding: Encoding::RLE, .. } = page else { return Ok(None) };
        let (nulls, bytes) = match self.leaf.nullable {
            true => levels(buf, rows).ok_or_else(|| broken("a page has no right levels"))?,
            false => (None, buf.as_ref()),
        };
        let present = rows - nulls.as_ref().map_or(0, NullBuffer::null_count);
        if present == 0 {
            return coded(new_null_array(&self.leaf.ty.arrow(), rows)).map(Some);
        }
        match (encoding, &self.dictionary, self.leaf.ty) {
            (Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, Some(dictionary), _) => {
                let codes = codes(bytes, present).ok_or_else(|| broken("a page has no right codes"))?;
                // The loop is one of wide instructions, which `max` is not.
                if usize::from(codes.iter().fold(0, |most, code| *code.max(&most))) >= dictionary.len() {
                    return Err(broken("a page has a code that its dictionary has not"));
                }
                let codes = spread(codes, nulls.as_ref());
                let block = Coded::of_codes(dictionary, codes, nulls, shared);
                block.map(Some).map_err(|error| broken(&error.to_string()))
            }
            (Encoding::BYTE_STREAM_SPLIT, _, ColumnType::Double) => {
                let values = joined_doubles(bytes, present)?;
                of_split(Arc::new(Float64Array::new(spread(values, nulls.as_ref()).into(), nulls)))
            }
            (Encoding::BYTE_STREAM_SPLIT, _, ColumnType::Real) => {
                let values = joined_reals(bytes, present)?;
                of_split(Arc::new(Float32Array::new(spread(values, nulls.as_ref()).into(), nulls)))
            }
            (Encoding::DELTA_BINARY_PACKED, _, ty) => {
                let numbers = numbers(bytes, present).ok_or_else(|| broken("a page has no right differences"))?;
                let numbers = Int64Array::new(spread(numbers, nulls.as_ref()).into(), nulls);
                coded(whole_numbers(numbers, &ty.arrow())?).map(Some)
            }
            _ => Ok(None),
        }
    }
}

fn coded(array: ArrayRef) -> Result<Coded> {
    Coded::new(array).map_err(|error| broken(&error.to_string()))
}

/// Numbers as a type has them, which may be narrower.
fn whole_numbers(numbers: Int64Array, ty: &DataType) -> Result<ArrayRef> {
    let data = match ty {
        DataType::Int32 | DataType::Date32 => numbers.unary::<_, Int32Type>(|number| number as i32).into_data(),
        DataType::Int16 => numbers.unary::<_, Int16Type>(|number| number as i16).into_data(),
        DataType::Int8 => numbers.unary::<_, Int8Type>(|number| number as i8).into_data(),
        _ => numbers.into_data(),
    };
    let data = data.into_builder().data_type(ty.clone()).build();
    data.map(make_array).map_err(|error| broken(&error.to_string()))
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
    array_of(leaf, plain, count as usize)
}

/// The rows of a page without codes, as Parquet's reader decodes them.
fn array_of(leaf: &Leaf, page: Page, rows: usize) -> Result<ArrayRef> {
    let batch = read_rows(leaf, Box::new(PageInMemory(Some(page))), rows)?.next().transpose()?;
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
    let [a, b, c, d, e, f, g, h] = streams::<8>(bytes, count)?;
    let low = a.iter().zip(b).zip(c.iter().zip(d));
    let high = e.iter().zip(f).zip(g.iter().zip(h));
    let joined = low.zip(high).map(|(((a, b), (c, d)), ((e, f), (g, h)))| [a, b, c, d, e, f, g, h].map(|byte| *byte));
    Ok(joined.map(f64::from_le_bytes).collect())
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

/// A page that was read before.
struct PageInMemory(Option<Page>);

impl Iterator for PageInMemory {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.0.take().map(Ok)
    }
}

impl PageReader for PageInMemory {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        Ok(self.0.take())
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        let metadata = |page: &Page| PageMetadata {
            num_rows: None,
            num_levels: Some(page.num_values() as usize),
            is_dict: page.is_dictionary_page(),
        };
        Ok(self.0.as_ref().map(metadata))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.take();
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
