//! Reading pages: bytes are read by whole pages, each checked against its crc32c before anything of it is looked at,
//! and decompressed.
//!
//! Pages that follow each other are read together, up to [`READ_AHEAD`] bytes, so that a scan costs few system calls
//! and holds little. Where they are and how long is known from our index, so Parquet's own page reader is not needed; it
//! would also make a context for compressing for each column it opens. Rule: a page whose crc differs is `Corrupted`
//! naming the file; its bytes are never decoded.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use keyspan_model::{Error, Result};
use parking_lot::Mutex;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as PageResult};
use zstd::bulk::Decompressor;

use super::leaf::Codec;
use super::page_header::{PageHeader, PageKind};
use crate::files::{FileReader, corrupted};

/// Most bytes of one column that are read at once.
pub(super) const READ_AHEAD: u64 = 64 * 1024;

/// A file whose damage is reported by name, and what was read of it.
#[derive(Clone, Debug)]
pub(super) struct CheckedFile {
    pub(super) file: Arc<dyn FileReader>,
    /// As errors name it.
    pub(super) name: Arc<str>,
}

/// Counters of what was read from the files of segments, not from the cache.
#[derive(Debug, Default)]
pub(super) struct ReadCounts {
    pub(super) bytes: AtomicU64,
    pub(super) pages: AtomicU64,
}

impl CheckedFile {
    /// These bytes, or `Corrupted` if the file ends before.
    pub(super) fn read(&self, offset: u64, len: u64) -> Result<Bytes> {
        if offset.checked_add(len).is_none_or(|end| end > self.file.len()) {
            return Err(corrupted(&self.name, format!("it ends before byte {}", offset.saturating_add(len))));
        }
        self.file.read_at(offset, len as usize)
    }

    /// A page's bytes, checked.
    pub(super) fn read_checked(&self, page: PageAt) -> Result<Bytes> {
        let bytes = self.read(page.offset, u64::from(page.len))?;
        self.check(&bytes, page.offset, page.crc)?;
        Ok(bytes)
    }

    fn check(&self, bytes: &[u8], offset: u64, crc: u32) -> Result<()> {
        if crc32c::crc32c(bytes) == crc {
            return Ok(());
        }
        Err(corrupted(&self.name, format!("checksum mismatch in {} bytes at {offset}", bytes.len())))
    }
}

/// One page in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageAt {
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) crc: u32,
}

/// The wanted pages of a chunk, one after another.
pub(super) struct FilePages {
    file: CheckedFile,
    codec: Codec,
    pages: Vec<PageAt>,
    /// Number of the next page.
    next: usize,
    /// The bytes read ahead, from the next page on.
    loaded: Bytes,
    /// What went wrong with the file, for who gets Parquet's error.
    pub(super) failure: Arc<Mutex<Option<Error>>>,
    pub(super) counts: Arc<ReadCounts>,
}

impl FilePages {
    pub(super) fn new(file: CheckedFile, codec: Codec, pages: Vec<PageAt>) -> FilePages {
        let (failure, counts) = (Arc::default(), Arc::default());
        FilePages { file, codec, pages, next: 0, loaded: Bytes::new(), failure, counts }
    }

    /// The bytes of the next page; `None`: there is none.
    fn peek(&mut self) -> PageResult<Option<Bytes>> {
        let Some(page) = self.pages.get(self.next) else { return Ok(None) };
        if self.loaded.is_empty() {
            self.loaded = self.load().map_err(|error| {
                let text = error.to_string();
                self.failure.lock().get_or_insert(error);
                ParquetError::General(text)
            })?;
        }
        Ok(Some(self.loaded.slice(..page.len as usize)))
    }

    /// The next page and those right behind it in the file, up to one that is damaged: that is an error to who asks for
    /// it, not to who reads what stands before.
    fn load(&self) -> Result<Bytes> {
        let first = self.pages[self.next];
        let mut end = first.offset + u64::from(first.len);
        let mut count = 1;
        for next in &self.pages[self.next + 1..] {
            let next_end = next.offset + u64::from(next.len);
            if next.offset != end || next_end - first.offset > READ_AHEAD || next_end > self.file.file.len() {
                break;
            }
            end = next_end;
            count += 1;
        }
        let bytes = self.file.read(first.offset, end - first.offset)?;
        self.counts.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.counts.pages.fetch_add(count as u64, Ordering::Relaxed);
        let mut sound = 0;
        for part in &self.pages[self.next..self.next + count] {
            let own = &bytes[sound..sound + part.len as usize];
            match self.file.check(own, part.offset, part.crc) {
                Ok(()) => sound += own.len(),
                Err(_) if sound > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(bytes.slice(..sound))
    }

    fn pass(&mut self) {
        if let Some(page) = self.pages.get(self.next) {
            self.loaded = self.loaded.slice((page.len as usize).min(self.loaded.len())..);
            self.next += 1;
        }
    }
}

impl PageReader for FilePages {
    fn get_next_page(&mut self) -> PageResult<Option<Page>> {
        let Some(bytes) = self.peek()? else { return Ok(None) };
        let (header, body) = header_of(&bytes)?;
        let buf = decompressed(self.codec, body, header.bytes)?;
        self.pass();
        let num_values = header.values;
        Ok(Some(match header.kind {
            PageKind::Dictionary => {
                Page::DictionaryPage { buf, num_values, encoding: Encoding::PLAIN, is_sorted: false }
            }
            PageKind::Data { encoding, levels } => Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding: levels,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            },
        }))
    }

    fn peek_next_page(&mut self) -> PageResult<Option<PageMetadata>> {
        let Some(bytes) = self.peek()? else { return Ok(None) };
        let (header, _) = header_of(&bytes)?;
        let is_dict = header.kind == PageKind::Dictionary;
        Ok(Some(PageMetadata { num_rows: None, num_levels: Some(header.values as usize), is_dict }))
    }

    fn skip_next_page(&mut self) -> PageResult<()> {
        self.peek()?;
        self.pass();
        Ok(())
    }
}

impl Iterator for FilePages {
    type Item = PageResult<Page>;

    fn next(&mut self) -> Option<PageResult<Page>> {
        self.get_next_page().transpose()
    }
}

fn header_of(page: &[u8]) -> PageResult<(PageHeader, &[u8])> {
    PageHeader::read(page).ok_or_else(|| ParquetError::General("a page has no right header".to_string()))
}

thread_local! {
    /// A context is larger than most pages.
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// The page of so many bytes that these are the compressed form of.
fn decompressed(codec: Codec, body: &[u8], bytes: usize) -> PageResult<Bytes> {
    let page = match codec {
        _ if bytes == 0 => Ok(Vec::new()),
        Codec::Lz4 => lz4_flex::block::decompress(body, bytes).map_err(|error| error.to_string()),
        Codec::Zstd => DECOMPRESSOR.with_borrow_mut(|known| {
            let decompressor = match known {
                Some(decompressor) => decompressor,
                None => known.insert(Decompressor::new().map_err(|error| error.to_string())?),
            };
            decompressor.decompress(body, bytes).map_err(|error| error.to_string())
        }),
    };
    let page = page.map_err(|error| ParquetError::General(format!("a page cannot be decompressed: {error}")))?;
    match page.len() == bytes {
        true => Ok(page.into()),
        false => Err(ParquetError::General("a page is not as long as its header says".to_string())),
    }
}
