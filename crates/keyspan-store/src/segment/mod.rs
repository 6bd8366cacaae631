//! Segments: runs on disk.
//!
//! A segment is two files. `seg/<id>.parquet` holds the rows in key order, typed, so that DuckDB, Spark and pandas
//! read it; `seg/<id>.index` is ours and holds what Parquet has no place for: boxes of encoded keys, zones, the first
//! key of every block, a bloom filter, constants, and the crc32c of every page and of the footer. Readers of ours need
//! no more of the Parquet file than its pages.
//!
//! ```text
//! record    (manifest)   counts, boxes, sizes, checksums of index and footer
//! index     (file)       row groups ▸ chunks ▸ pages; sparse keys; bloom        index, bloom, zone, role
//! data      (file)       row group (128 K rows) ▸ column chunk ▸ page (4,096)   layout, leaf, plan, encoding, writer
//! values    (files)      value indexes of columns: derived, and in nobody's way if missing      values
//! reading                block of one column ◂ cache ◂ codes ◂ checked pages     reader, cache, column, decode, pages
//!                        what stands in pages, packed                            hybrid, deltas
//! ```
//!
//! Rule: bytes are checked when they enter memory; damage is `Corrupted` naming the file, never a wrong row.

mod bloom;
mod cache;
mod column;
mod decode;
mod deltas;
mod encoding;
mod hybrid;
mod index;
mod layout;
mod leaf;
mod page_header;
mod pages;
mod plan;
mod reader;
mod record;
mod role;
mod salvage;
mod values;
mod verify;
mod writer;
mod zone;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

pub use cache::BlockCache;
pub use plan::SystemPlan;
pub use reader::Segment;
pub use record::{NO_SEQ, SEGMENT_DIRECTORY, SegmentRecord, data_path, index_path, segment_of, values_of, values_path};
pub use salvage::{LostRows, Salvage};
pub use verify::{Verified, verify_segment, verify_segment_bytes};
pub use writer::SegmentWriter;

/// Rows of a block: of a page in every column, of an entry in the sparse index, of what is decoded at once.
pub const BLOCK_ROWS: usize = 4096;
/// Rows of a row group.
pub const GROUP_ROWS: usize = 128 * 1024;
