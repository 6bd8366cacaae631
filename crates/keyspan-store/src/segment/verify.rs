//! Verification of a segment: every byte of both files, and every bound that pruning relies on.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use keyspan_model::{Error, KeyEncoder, RelationDef, Result};

use super::BlockCache;
use super::bloom::{self, Bloom};
use super::index::{Group, Index, ZoneMap};
use super::pages::{CheckedFile, PageAt};
use super::reader::{Segment, read_index};
use super::record::{SegmentRecord, data_path};
use super::zone::value_encoder;
use crate::files::{Files, corrupted};
use crate::run::{ExtentBuilder, RunBatch, SortedRun, Wanted};
use keyspan_seam::ScanCounters;

/// What was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Rows read.
    pub rows: u64,
    /// Bytes of both files.
    pub bytes: u64,
}

/// Reads all of a segment and checks it: checksums of every page, footer and index; no byte between pages; number of
/// rows; keys strictly ascending and as the sparse index and bloom filter say; boxes, zones and counts of every row
/// group. The first thing wrong is `Corrupted` naming the file.
pub fn verify_segment(files: &Arc<dyn Files>, relation: &RelationDef, record: &SegmentRecord) -> Result<Verified> {
    let index = verify_bytes(files.as_ref(), record)?;
    let name = files.display(&data_path(record.id));
    let mut claims = record.corrected(index.meta());
    claims.groups.clear();
    if claims != record.meta {
        return Err(corrupted(&name, "counts and boxes are not those of the manifest"));
    }
    // With a cache of its own: what is verified is what is on disk now.
    let segment = Segment::new(Arc::clone(files), BlockCache::new(16 << 20), relation, record.clone());
    let mut check = Check { relation, name: &name, encoder: KeyEncoder::new(&relation.key), last_key: None };
    for group in &index.groups {
        check.group(&segment, group, &index.bloom)?;
    }
    Ok(Verified { rows: record.meta.all.rows, bytes: record.disk_bytes() })
}

/// Checks all bytes of a segment against their checksums, without decoding them.
pub fn verify_segment_bytes(files: &dyn Files, record: &SegmentRecord) -> Result<()> {
    verify_bytes(files, record).map(drop)
}

fn verify_bytes(files: &dyn Files, record: &SegmentRecord) -> Result<Index> {
    let index = read_index(files, record)?;
    let path = data_path(record.id);
    let file = CheckedFile { file: files.open(&path)?, name: files.display(&path).into() };
    if file.file.len() != record.file_bytes {
        return Err(corrupted(&file.name, format!("{} bytes long, not {}", file.file.len(), record.file_bytes)));
    }
    check_bytes(&file, &index, record)?;
    Ok(index)
}

/// Every byte of the Parquet file belongs to its magic, a page, or the footer, and is as it was written.
fn check_bytes(file: &CheckedFile, index: &Index, record: &SegmentRecord) -> Result<()> {
    if *file.read(0, 4)? != *b"PAR1" {
        return Err(corrupted(&file.name, "it is not a Parquet file"));
    }
    let mut at = 4;
    for chunk in index.groups.iter().flat_map(|group| &group.chunks) {
        if chunk.start != at {
            return Err(corrupted(&file.name, format!("bytes at {at} belong to no page")));
        }
        let pages = chunk.pages.iter().map(|page| (page.len, page.crc));
        for (len, crc) in chunk.dictionary.into_iter().chain(pages) {
            file.read_checked(PageAt { offset: at, len, crc })?;
            at += u64::from(len);
        }
    }
    let (offset, crc) = index.footer;
    if offset != at || crc != record.footer_crc {
        return Err(corrupted(&file.name, "its footer is not where the index says"));
    }
    let footer = file.read(offset, index.file_bytes - offset)?;
    if crc32c::crc32c(&footer) != crc {
        return Err(corrupted(&file.name, "checksum mismatch in its footer"));
    }
    Ok(())
}

struct Check<'a> {
    relation: &'a RelationDef,
    name: &'a str,
    encoder: KeyEncoder,
    last_key: Option<Vec<u8>>,
}

impl Check<'_> {
    fn group(&mut self, segment: &Segment, group: &Group, bloom: &Bloom) -> Result<()> {
        let wanted = Wanted::everything(self.relation);
        let mut extent = ExtentBuilder::new(self.relation, group.extent.first_row);
        let mut row = group.extent.first_row as usize;
        let end = row + group.extent.rows as usize;
        while row < end {
            let block = segment.block(row, &wanted);
            row = block.end;
            let batch = segment.read(block, &wanted, &ScanCounters::default())?;
            self.keys(&batch, bloom)?;
            self.zones(&batch, group)?;
            extent.add(&batch)?;
        }
        if !claims_hold(&group.extent.clone().shifted(segment.record().ts_base), &extent.finish()) {
            return Err(self.wrong("counts or boxes of a row group are wrong"));
        }
        Ok(())
    }

    fn keys(&mut self, batch: &RunBatch, bloom: &Bloom) -> Result<()> {
        let Some(encoded) = &batch.encoded else { return Err(self.wrong("it has no keys")) };
        for key in encoded.iter().flatten() {
            if self.last_key.as_deref().is_some_and(|last| last >= key) {
                return Err(self.wrong("keys do not ascend"));
            }
            let partition = &key[..self.encoder.prefix_len(key, self.relation.partition_len)];
            if !bloom.may_contain(bloom::hash(partition)) {
                return Err(self.wrong("its bloom filter denies a key that it holds"));
            }
            self.last_key = Some(key.to_vec());
        }
        Ok(())
    }

    fn zones(&self, batch: &RunBatch, group: &Group) -> Result<()> {
        for (value, cells) in self.relation.values.iter().zip(&batch.cells) {
            let Some(values) = cells.values.as_ref().filter(|values| values.null_count() < values.len()) else {
                continue;
            };
            let bound = match group.zones.iter().find(|zone| zone.0 == value.id) {
                Some((_, ZoneMap::Range(least, greatest))) => (least.as_slice(), greatest.as_slice()),
                Some((_, ZoneMap::Empty)) => return Err(self.wrong("a zone says that a column has no values")),
                _ => continue,
            };
            let present: ArrayRef = arrow::compute::filter(values, &arrow::compute::is_not_null(values)?)?;
            let encoded = value_encoder(value.id, value.ty).encode_batch(&[present])?;
            if encoded.iter().flatten().any(|value| value < bound.0 || value > bound.1) {
                return Err(self.wrong("a value lies outside its zone"));
            }
        }
        Ok(())
    }

    fn wrong(&self, what: &str) -> Error {
        corrupted(self.name, what)
    }
}

/// Whether what was found is what was claimed. Columns dropped since it was written are not looked at any more, so
/// the claims may be wider in what counts cells.
fn claims_hold(claim: &crate::run::Extent, found: &crate::run::Extent) -> bool {
    let within = |claim: Option<(i64, i64)>, found: Option<(i64, i64)>| match (claim, found) {
        (_, None) => true,
        (Some(claim), Some(found)) => claim.0 <= found.0 && found.1 <= claim.1,
        (None, Some(_)) => false,
    };
    claim.rows == found.rows
        && claim.key == found.key
        && claim.columns == found.columns
        && claim.cell_tombstones >= found.cell_tombstones
        && claim.row_tombstones == found.row_tombstones
        && claim.markerless == found.markerless
        && (claim.own_stamps || !found.own_stamps)
        && (claim.everlasting || !found.everlasting)
        && within(claim.ts, found.ts)
        && within(claim.expires, found.expires)
        && within(claim.deleted_at, found.deleted_at)
}
