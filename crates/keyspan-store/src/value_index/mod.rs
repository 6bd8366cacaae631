//! Value indexes: which rows of one run have which values in one column.
//!
//! ```text
//! KEYSPVAL  version u32                                                                           12 bytes
//! blocks of the 1st section, then of the 2nd, …, each LZ4 behind its length:
//!     per value  shared varint │ rest bytes │ number of rows varint │ first row, steps to the next varints
//! directory: segment, column, type, rows; sections: first value of every block │ length, crc32c, postings of each
//! crc32c of version and directory u32 │ length of the directory u32 │ KEYSPVAL                     16 bytes
//! ```
//!
//! A **section** is of some row groups' rows, so that writing one never sorts more than [`SECTION_ROWS`]; inside a
//! section values ascend, and the rows of one value. A value is encoded as a key of that one column, cut
//! ([`crate::run::ValueRanges`]). Rows without a value are left out.
//!
//! Rule: the file is derived data. Nothing names it, and it may be missing, old or damaged: then the column is read. It
//! says where to look, never what is true: the row may be overwritten, deleted or expired.

mod block;
mod directory;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use directory::About;
pub(crate) use read::ValueIndex;
pub(crate) use write::{memory_index, write_index};

/// Rows of a section.
const SECTION_ROWS: usize = 512 * 1024;
/// Postings of a block, and bytes of it, after which it ends.
const BLOCK_POSTINGS: usize = 2048;
const BLOCK_BYTES: usize = 32 << 10;

const MAGIC: &[u8; 8] = b"KEYSPVAL";
const VERSION: u32 = 1;
const HEADER: usize = 12;
const TRAILER: usize = 16;
