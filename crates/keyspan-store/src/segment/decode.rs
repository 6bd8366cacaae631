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

/// Values whose bytes are joined at a time.
const TILE: usize = 512;

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
                let values = joined::<8>(bytes, present)?.into_iter().map(f64::from_le_bytes).collect();
                of_split(Arc::new(Float64Array::new(spread(values, nulls.as_ref()).into(), nulls)))
            }
            (Encoding::BYTE_STREAM_SPLIT, _, ColumnType::Real) => {
                let values = joined::<4>(bytes, present)?.into_iter().map(f32::from_le_bytes).collect();
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

/// Values whose first bytes stand together, then their second bytes, and so on.
fn joined<const WIDTH: usize>(bytes: &[u8], count: usize) -> Result<Vec<[u8; WIDTH]>> {
    if bytes.len() != count * WIDTH {
        return Err(broken("split floats of another length than their number"));
    }
    let mut values = vec![[0; WIDTH]; count];
    // Tiles stay in the nearest cache while a stream after the other is put into them.
    for (tile, values) in values.chunks_mut(TILE).enumerate() {
        for byte in 0..WIDTH {
            let stream = &bytes[byte * count + tile * TILE..][..values.len()];
            values.iter_mut().zip(stream).for_each(|(value, part)| value[byte] = *part);
        }
    }
    Ok(values)
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
