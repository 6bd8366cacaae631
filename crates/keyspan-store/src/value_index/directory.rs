//! The directory of a value index: where its blocks are, and their first values.

use keyspan_model::{ColumnId, ColumnType, Result, SegmentId};

use super::block::Block;
use super::{HEADER, MAGIC, TRAILER, VERSION};
use crate::files::{FileReader, corrupted};
use crate::sparse_keys::SparseKeys;
use crate::varint::{Input, put_bytes, put_varint};

/// What a value index is of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct About {
    /// Of a run in memory: 0.
    pub(crate) segment: SegmentId,
    pub(crate) column: ColumnId,
    pub(crate) ty: ColumnType,
    /// Rows of the run.
    pub(crate) rows: u64,
}

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BlockAt {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) crc: u32,
    pub(super) postings: u32,
}

/// Blocks of some rows: their values ascend.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Section {
    pub(super) firsts: SparseKeys,
    pub(super) blocks: Vec<BlockAt>,
}

/// All sections.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Directory {
    pub(super) sections: Vec<Section>,
}

impl Section {
    pub(super) fn add(&mut self, block: &Block, offset: u64) {
        self.firsts.push(&block.first);
        let (length, crc) = (block.bytes.len() as u32, crc32c::crc32c(&block.bytes));
        self.blocks.push(BlockAt { offset, length, crc, postings: block.postings });
    }
}

impl Directory {
    /// The bytes behind the blocks.
    pub(super) fn encode(&self, about: &About) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, about.segment.0);
        put_varint(&mut out, u64::from(about.column.0));
        put_bytes(&mut out, about.ty.name().as_bytes());
        put_varint(&mut out, about.rows);
        put_varint(&mut out, self.sections.len() as u64);
        for section in &self.sections {
            section.firsts.put(&mut out);
            for block in &section.blocks {
                put_varint(&mut out, u64::from(block.length));
                out.extend_from_slice(&block.crc.to_le_bytes());
                put_varint(&mut out, u64::from(block.postings));
            }
        }
        let length = out.len() as u32;
        out.extend_from_slice(&checksum(&out).to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(MAGIC);
        out
    }

    /// Reads the directory of a file that should be about this; damage, another version, or a file about something else
    /// is `Corrupted`.
    pub(super) fn read(file: &dyn FileReader, name: &str, about: &About) -> Result<Directory> {
        let damaged = |what: &str| corrupted(name, what);
        let end = file.len().checked_sub((HEADER + TRAILER) as u64).ok_or_else(|| damaged("it is too short"))?;
        let header = file.read_at(0, HEADER)?;
        if header[..8] != *MAGIC || header[8..] != VERSION.to_le_bytes() {
            return Err(damaged("it is no value index of this version"));
        }
        let trailer = file.read_at(file.len() - TRAILER as u64, TRAILER)?;
        let mut input = Input::new(&trailer);
        let fields = (input.fixed_u32(), input.fixed_u32(), input.take(8));
        let (Some(crc), Some(length), Some(magic)) = fields else { return Err(damaged("it is too short")) };
        if magic != MAGIC || u64::from(length) > end {
            return Err(damaged("it does not end as a value index does"));
        }
        let first = HEADER as u64 + end - u64::from(length);
        let bytes = file.read_at(first, length as usize)?;
        if checksum(&bytes) != crc {
            return Err(damaged("checksum mismatch"));
        }
        let mut input = Input::new(&bytes);
        let read = Directory::decode(&mut input, about, first).filter(|_| input.is_empty());
        read.ok_or_else(|| damaged("its directory is of something else"))
    }

    fn decode(input: &mut Input<'_>, about: &About, end: u64) -> Option<Directory> {
        let (segment, column) = (input.varint()?, input.small()?);
        let own = (segment, column) == (about.segment.0, about.column.0);
        let ty = input.bytes()? == about.ty.name().as_bytes();
        if !own || !ty || input.varint()? != about.rows {
            return None;
        }
        let mut offset = HEADER as u64;
        let sections = input.list(|input| {
            let firsts = SparseKeys::read(input)?;
            let block = |_| {
                let length = input.small()?;
                let at = BlockAt { offset, length, crc: input.fixed_u32()?, postings: input.small()? };
                offset += u64::from(length);
                Some(at)
            };
            let blocks = (0..firsts.len()).map(block).collect::<Option<Vec<_>>>()?;
            Some(Section { firsts, blocks })
        })?;
        (offset == end).then_some(Directory { sections })
    }

    /// Bytes in memory, about.
    pub(super) fn memory(&self) -> usize {
        let section = |section: &Section| section.firsts.memory() + section.blocks.len() * size_of::<BlockAt>();
        self.sections.iter().map(section).sum::<usize>() + 256
    }
}

fn checksum(directory: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&VERSION.to_le_bytes()), directory)
}
