//! Looking values up. Only the directory stays in memory; blocks are read one by one, and checked.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use keyspan_model::{Error, Result};

use super::block::{read_block, unpacked};
use super::directory::{About, BlockAt, Directory, Section};
use crate::files::{FileReader, corrupted};
use crate::run::{ValueRange, ValueRanges, inside};

/// The value index of one column of one run.
#[derive(Debug)]
pub(crate) struct ValueIndex {
    file: Arc<dyn FileReader>,
    name: String,
    rows: u64,
    directory: Directory,
}

/// A block that was read.
struct Loaded {
    at: BlockAt,
    bytes: Bytes,
}

impl ValueIndex {
    /// Opens a file. Damage, or that it is of something else, is `Corrupted`.
    pub(crate) fn open(file: Arc<dyn FileReader>, name: String, about: &About) -> Result<ValueIndex> {
        let directory = Directory::read(file.as_ref(), &name, about)?;
        Ok(ValueIndex { file, name, rows: about.rows, directory })
    }

    /// The index in these bytes.
    pub(super) fn of_bytes(bytes: Bytes, about: &About) -> Result<ValueIndex> {
        ValueIndex::open(Arc::new(InMemory(bytes)), "memory".into(), about)
    }

    /// Bytes in memory, about.
    pub(crate) fn memory(&self) -> usize {
        self.directory.memory()
    }

    /// The rows with one of these values, ascending; `None`: more than `most`.
    pub(crate) fn rows_with(&self, wanted: &ValueRanges, most: usize) -> Result<Option<Vec<u32>>> {
        let (mut found, mut loaded) = (Vec::new(), None);
        for section in &self.directory.sections {
            for range in wanted.ranges() {
                let blocks = blocks_of(section, range);
                // All postings of the blocks between the first and the last are inside.
                let between = blocks.clone().skip(1).take(blocks.len().saturating_sub(2));
                let sure: usize = between.map(|at| section.blocks[at].postings as usize).sum();
                if found.len() + sure > most {
                    return Ok(None);
                }
                for at in blocks {
                    self.take(section.blocks[at], range, &mut loaded, &mut found)?;
                    if found.len() > most {
                        return Ok(None);
                    }
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        if found.last().is_some_and(|row| u64::from(*row) >= self.rows) {
            return Err(self.damaged());
        }
        Ok(Some(found))
    }

    /// Reads and checks every block.
    pub(crate) fn verify(&self) -> Result<()> {
        let blocks = self.directory.sections.iter().flat_map(|section| &section.blocks);
        for at in blocks {
            read_block(&self.bytes(*at)?, &mut |_, _| {}).ok_or_else(|| self.damaged())?;
        }
        Ok(())
    }

    fn take(&self, at: BlockAt, range: &ValueRange, loaded: &mut Option<Loaded>, found: &mut Vec<u32>) -> Result<()> {
        let bytes = match loaded {
            Some(last) if last.at == at => last.bytes.clone(),
            _ => self.bytes(at)?,
        };
        let mut each = |value: &[u8], rows: &[u32]| {
            if inside(range, value) {
                found.extend_from_slice(rows);
            }
        };
        read_block(&bytes, &mut each).ok_or_else(|| self.damaged())?;
        *loaded = Some(Loaded { at, bytes });
        Ok(())
    }

    /// A block, checked.
    fn bytes(&self, at: BlockAt) -> Result<Bytes> {
        let packed = self.file.read_at(at.offset, at.length as usize)?;
        let whole = crc32c::crc32c(&packed) == at.crc;
        let bytes = if whole { unpacked(&packed) } else { None };
        bytes.map(Bytes::from).ok_or_else(|| self.damaged())
    }

    fn damaged(&self) -> Error {
        corrupted(&self.name, "a block of values is not as it was written")
    }
}

/// The blocks that may hold values of a range.
fn blocks_of(section: &Section, (lower, upper): &ValueRange) -> std::ops::Range<usize> {
    let firsts = &section.firsts;
    let start = match lower {
        Bound::Unbounded => 0,
        // The value may begin in the block before, and go on in several.
        Bound::Included(value) | Bound::Excluded(value) => firsts.count_below(value, false).saturating_sub(1),
    };
    let end = match upper {
        Bound::Unbounded => firsts.len(),
        Bound::Included(value) => firsts.count_below(value, true),
        Bound::Excluded(value) => firsts.count_below(value, false),
    };
    start..end.max(start)
}

/// A file in one piece of memory.
#[derive(Debug)]
struct InMemory(Bytes);

impl FileReader for InMemory {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        let whole = self.0.len() as u64;
        if offset + length as u64 > whole {
            return Err(corrupted("memory", "it ends too early"));
        }
        Ok(self.0.slice(offset as usize..offset as usize + length))
    }
}
