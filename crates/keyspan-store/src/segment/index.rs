//! The index file of a segment: everything its reader must know, in one checksummed piece.
//!
//! ```text
//! KEYSPIDX  version u32  length u64  crc32c u32 │ body
//! body: segment, relation, schema version
//!       Parquet file: length, footer offset and crc32c
//!       columns: role, type, nullable              constants: role, number
//!       seq range
//!       row groups: extent │ rows of a block │ zones of value columns │ chunks: start, codec, dictionary, pages
//!       page: rows, length, crc32c                 (numbers are varints, checksums little-endian)
//!       first key of every block, front-coded      bloom filter of the partition keys
//! ```
//!
//! Rule: the crc covers version, length and body, and the manifest holds the crc of the whole file, so that no byte of
//! it can change unseen. A file of a newer version with a right crc is `FormatVersion`, never guessed at. Version 1 had
//! no codecs: all its pages are LZ4.

use keyspan_model::{ColumnId, ColumnType, RelationId, Result, SegmentId};

use super::BLOCK_ROWS;
use super::bloom::Bloom;
use super::leaf::Codec;
use super::pages::PageAt;
use super::role::Role;
use crate::files::corrupted;
use crate::format::newer;
use crate::run::{Extent, RunMeta};
use crate::sparse_keys::SparseKeys;
use crate::varint::{Input, put_bytes, put_option, put_signed, put_varint};

const MAGIC: &[u8; 8] = b"KEYSPIDX";
const VERSION: u32 = 2;
/// The first version whose chunks name their codec.
const WITH_CODECS: u32 = 2;
const HEADER: usize = 24;

/// A physical column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct IndexColumn {
    pub(super) role: Role,
    pub(super) ty: ColumnType,
    pub(super) nullable: bool,
}

/// Least and greatest value of a value column in a row group, encoded as a key of that one column, ascending.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ZoneMap {
    /// Not known.
    Unknown,
    /// No row has a value.
    Empty,
    /// Inclusive bounds.
    Range(Vec<u8>, Vec<u8>),
}

/// One page: how many rows of the group stand before it, and what it is in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Page {
    pub(super) first_row: u32,
    pub(super) len: u32,
    pub(super) crc: u32,
}

/// The pages of one column in one row group, one after another in the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ColumnChunk {
    pub(super) start: u64,
    pub(super) codec: Codec,
    /// Length and crc32c of the dictionary page, before the others.
    pub(super) dictionary: Option<(u32, u32)>,
    pub(super) pages: Vec<Page>,
    /// Rows of each page but the last, where there are several and these have as many.
    even: Option<u32>,
}

/// One row group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    pub(super) extent: Extent,
    /// Rows of every block but the last.
    pub(super) block_rows: u32,
    /// Number of its first block in the segment.
    pub(super) first_block: u32,
    pub(super) zones: Vec<(ColumnId, ZoneMap)>,
    /// One for each physical column.
    pub(super) chunks: Vec<ColumnChunk>,
}

/// The whole index of a segment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Index {
    pub(super) segment: SegmentId,
    pub(super) relation: RelationId,
    pub(super) schema_version: u32,
    pub(super) file_bytes: u64,
    pub(super) footer: (u64, u32),
    pub(super) columns: Vec<IndexColumn>,
    /// System columns that are one number throughout: 1 for a flag that all rows have.
    pub(super) constants: Vec<(Role, i64)>,
    pub(super) seq: (u64, u64),
    pub(super) groups: Vec<Group>,
    pub(super) block_keys: SparseKeys,
    pub(super) bloom: Bloom,
}

impl ColumnChunk {
    pub(super) fn new(start: u64, codec: Codec, dictionary: Option<(u32, u32)>, pages: Vec<Page>) -> ColumnChunk {
        let rows = pages.get(1).map(|page| page.first_row);
        let are_even =
            |rows: &u32| (0..).zip(&pages).all(|(at, page)| u64::from(page.first_row) == at * u64::from(*rows));
        let even = rows.filter(are_even);
        ColumnChunk { start, codec, dictionary, pages, even }
    }

    pub(super) fn dictionary_at(&self) -> Option<PageAt> {
        self.dictionary.map(|(len, crc)| PageAt { offset: self.start, len, crc })
    }

    /// The pages from the one that holds row `first` of the group up to the one before row `end`, and the rows of the
    /// first of them that stand before `first`.
    pub(super) fn pages_of(&self, first: u32, end: u32) -> (Vec<PageAt>, usize) {
        let from = self.pages.partition_point(|page| page.first_row <= first).saturating_sub(1);
        let skipped: u64 = self.pages[..from].iter().map(|page| u64::from(page.len)).sum();
        let mut offset = self.start + self.dictionary.map_or(0, |(len, _)| u64::from(len)) + skipped;
        let wanted = self.pages[from..].iter().take_while(|page| page.first_row < end || page.first_row <= first);
        let pages = wanted.map(|page| {
            let at = PageAt { offset, len: page.len, crc: page.crc };
            offset += u64::from(page.len);
            at
        });
        let pages = pages.collect();
        (pages, self.pages.get(from).map_or(0, |page| (first - page.first_row) as usize))
    }

    /// The first byte behind the chunk.
    pub(super) fn end(&self) -> u64 {
        let pages: u64 = self.pages.iter().map(|page| u64::from(page.len)).sum();
        self.start + self.dictionary.map_or(0, |(len, _)| u64::from(len)) + pages
    }
}

impl Group {
    /// How many blocks of one of its columns are decoded together, and whether these are a page: one block, or several
    /// where pages have several.
    pub(super) fn blocks_of_page(&self, chunk: &ColumnChunk) -> (u32, bool) {
        let most = BLOCK_ROWS as u32;
        let rows = if chunk.pages.len() == 1 { Some(most) } else { chunk.even };
        let are_whole = |rows: &u32| (1..=most).contains(rows) && rows.is_multiple_of(self.block_rows);
        let are_all = |rows: &u32| chunk.pages.len() as u64 == self.extent.rows.div_ceil(u64::from(*rows));
        match rows.filter(are_whole).filter(are_all) {
            Some(rows) => (rows / self.block_rows, true),
            None => (1, false),
        }
    }

    pub(super) fn blocks(&self) -> u32 {
        (self.extent.rows as u32).div_ceil(self.block_rows)
    }
}

impl Index {
    /// What is known of the run, groups included.
    pub(super) fn meta(&self) -> RunMeta {
        let mut all = Extent::default();
        self.groups.iter().for_each(|group| all.widen(&group.extent));
        let groups = self.groups.iter().map(|group| group.extent.clone()).collect();
        RunMeta { all, groups, seq: self.seq, bytes: self.file_bytes }
    }

    /// The group that holds a row; the last one if the row is behind all.
    pub(super) fn group_of(&self, row: u64) -> &Group {
        let at = self.groups.partition_point(|group| group.extent.first_row <= row);
        &self.groups[at.saturating_sub(1)]
    }

    /// The physical column with this role.
    pub(super) fn column(&self, role: Role) -> Option<usize> {
        self.columns.iter().position(|column| column.role == role)
    }

    /// The number that a system column is throughout.
    pub(super) fn constant(&self, role: Role) -> Option<i64> {
        self.constants.iter().find(|constant| constant.0 == role).map(|constant| constant.1)
    }

    /// Bytes in memory, about.
    pub(super) fn memory(&self) -> usize {
        let chunks = self.groups.iter().flat_map(|group| &group.chunks);
        let pages: usize = chunks.map(|chunk| 56 + chunk.pages.len() * size_of::<Page>()).sum();
        self.block_keys.memory() + self.bloom.memory() + pages + self.groups.len() * 512
    }

    /// The bytes of the index file.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER];
        put_varint(&mut out, self.segment.0);
        put_varint(&mut out, u64::from(self.relation.0));
        put_varint(&mut out, u64::from(self.schema_version));
        put_varint(&mut out, self.file_bytes);
        put_varint(&mut out, self.footer.0);
        out.extend_from_slice(&self.footer.1.to_le_bytes());
        put_varint(&mut out, self.columns.len() as u64);
        for column in &self.columns {
            column.role.put(&mut out);
            put_bytes(&mut out, column.ty.code().as_bytes());
            out.push(u8::from(column.nullable));
        }
        put_varint(&mut out, self.constants.len() as u64);
        for (role, number) in &self.constants {
            role.put(&mut out);
            put_signed(&mut out, *number);
        }
        put_varint(&mut out, self.seq.0);
        put_varint(&mut out, self.seq.1);
        put_varint(&mut out, self.groups.len() as u64);
        self.groups.iter().for_each(|group| group.put(&mut out));
        self.block_keys.put(&mut out);
        put_bytes(&mut out, &self.bloom.to_bytes());
        out[..8].copy_from_slice(MAGIC);
        let length = (out.len() - HEADER) as u64;
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..20].copy_from_slice(&length.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&out[8..20]), &out[HEADER..]);
        out[20..24].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The index in these bytes of the file called `name`.
    pub(super) fn decode(bytes: &[u8], name: &str) -> Result<Index> {
        let (version, body) = checked_body(bytes, name)?;
        let mut input = Input::new(body);
        let index = Index::read(&mut input, version).filter(|_| input.is_empty());
        let index = index.ok_or_else(|| corrupted(name, "its contents do not fit together"))?;
        index.check().map_err(|what| corrupted(name, what))?;
        Ok(index)
    }

    fn read(input: &mut Input<'_>, version: u32) -> Option<Index> {
        let segment = SegmentId(input.varint()?);
        let relation = RelationId(input.small()?);
        let schema_version = input.small()?;
        let file_bytes = input.varint()?;
        let footer = (input.varint()?, input.fixed_u32()?);
        let columns = input.list(|input| {
            let role = Role::read(input)?;
            let ty = parse_type(std::str::from_utf8(input.bytes()?).ok()?)?;
            Some(IndexColumn { role, ty, nullable: input.byte()? != 0 })
        })?;
        let constants = input.list(|input| Some((Role::read(input)?, input.signed()?)))?;
        let seq = (input.varint()?, input.varint()?);
        let (mut row, mut block) = (0, 0);
        let groups = input.list(|input| {
            let group = Group::read(input, version, (row, block), columns.len())?;
            row += group.extent.rows;
            block += group.blocks();
            Some(group)
        })?;
        let block_keys = SparseKeys::read(input)?;
        let bloom = Bloom::from_bytes(input.bytes()?)?;
        Some(Index {
            segment,
            relation,
            schema_version,
            file_bytes,
            footer,
            columns,
            constants,
            seq,
            groups,
            block_keys,
            bloom,
        })
    }

    /// Invariants that the reader relies on, so that no damage can make it panic.
    fn check(&self) -> Result<(), &'static str> {
        if self.groups.is_empty() {
            return Err("it has no row groups");
        }
        let blocks: u64 = self.groups.iter().map(|group| u64::from(group.blocks())).sum();
        if blocks != self.block_keys.len() as u64 {
            return Err("it has not one key for each block");
        }
        let inside = |chunk: &ColumnChunk| chunk.end() <= self.footer.0 && !chunk.pages.is_empty();
        if !self.groups.iter().flat_map(|group| &group.chunks).all(inside) || self.footer.0 > self.file_bytes {
            return Err("a page lies outside the Parquet file");
        }
        Ok(())
    }
}

/// The version and what follows the header.
fn checked_body<'a>(bytes: &'a [u8], name: &str) -> Result<(u32, &'a [u8])> {
    let Some((header, body)) = bytes.split_at_checked(HEADER).filter(|(header, _)| header.starts_with(MAGIC)) else {
        return Err(corrupted(name, "it is not an index file"));
    };
    let mut input = Input::new(&header[8..]);
    let fields = (input.fixed_u32(), input.fixed_u64(), input.fixed_u32());
    let (Some(version), Some(length), Some(crc)) = fields else {
        return Err(corrupted(name, "it is not an index file"));
    };
    if length != body.len() as u64 || crc32c::crc32c_append(crc32c::crc32c(&header[8..20]), body) != crc {
        return Err(corrupted(name, "checksum mismatch"));
    }
    if !(1..=VERSION).contains(&version) {
        return Err(newer(name, format!("it has index format {version}, and this program reads up to {VERSION}")));
    }
    Ok((version, body))
}

/// The type with this code.
fn parse_type(name: &str) -> Option<ColumnType> {
    if name.starts_with('{') || name == ColumnType::variant().code() {
        return ColumnType::parse_code(name);
    }
    if let Some(element) = name.strip_suffix("[]") {
        return parse_type(element)?.into_list().ok();
    }
    let (base, arguments) = match name.split_once('(') {
        None => (name, Vec::new()),
        Some((base, rest)) => {
            let arguments = rest.strip_suffix(')')?.split(',').map(|argument| argument.parse().ok());
            (base, arguments.collect::<Option<Vec<i64>>>()?)
        }
    };
    ColumnType::parse(base, &arguments).ok().filter(|ty| ty.name() == name)
}

impl Group {
    fn put(&self, out: &mut Vec<u8>) {
        put_extent(out, &self.extent);
        put_varint(out, u64::from(self.block_rows));
        put_varint(out, self.zones.len() as u64);
        for (column, zone) in &self.zones {
            put_varint(out, u64::from(column.0));
            match zone {
                ZoneMap::Unknown => out.push(0),
                ZoneMap::Empty => out.push(1),
                ZoneMap::Range(least, greatest) => {
                    out.push(2);
                    put_bytes(out, least);
                    put_bytes(out, greatest);
                }
            }
        }
        for chunk in &self.chunks {
            put_varint(out, chunk.start);
            out.push(chunk.codec as u8);
            put_option(out, chunk.dictionary, |out, (len, crc)| put_page(out, len, crc));
            put_varint(out, chunk.pages.len() as u64);
            for (at, page) in chunk.pages.iter().enumerate() {
                let next = chunk.pages.get(at + 1).map_or(self.extent.rows as u32, |next| next.first_row);
                put_varint(out, u64::from(next - page.first_row));
                put_page(out, page.len, page.crc);
            }
        }
    }

    fn read(
        input: &mut Input<'_>,
        version: u32,
        (first_row, first_block): (u64, u32),
        columns: usize,
    ) -> Option<Group> {
        let extent = Extent { first_row, ..read_extent(input)? };
        let rows = u32::try_from(extent.rows).ok().filter(|rows| *rows > 0)?;
        let block_rows = input.small().filter(|rows| *rows > 0)?;
        first_block.checked_add(rows.div_ceil(block_rows))?;
        let zones = input.list(|input| {
            let column = ColumnId(input.small()?);
            let zone = match input.byte()? {
                0 => ZoneMap::Unknown,
                1 => ZoneMap::Empty,
                2 => ZoneMap::Range(input.bytes()?.to_vec(), input.bytes()?.to_vec()),
                _ => return None,
            };
            Some((column, zone))
        })?;
        let chunks = (0..columns).map(|_| read_chunk(input, version, rows)).collect::<Option<Vec<_>>>()?;
        Some(Group { extent, block_rows, first_block, zones, chunks })
    }
}

fn put_page(out: &mut Vec<u8>, len: u32, crc: u32) {
    put_varint(out, u64::from(len));
    out.extend_from_slice(&crc.to_le_bytes());
}

fn read_chunk(input: &mut Input<'_>, version: u32, rows: u32) -> Option<ColumnChunk> {
    let start = input.varint().filter(|start| *start < 1 << 62)?;
    let codec = if version < WITH_CODECS { Codec::Lz4 } else { Codec::of(input.byte()?)? };
    let dictionary = input.option(|input| Some((input.small()?, input.fixed_u32()?)))?;
    let mut first_row = 0u32;
    let pages = input.list(|input| {
        let count = input.small()?;
        let page = Page { first_row, len: input.small()?, crc: input.fixed_u32()? };
        first_row = first_row.checked_add(count)?;
        Some(page)
    })?;
    (first_row == rows).then(|| ColumnChunk::new(start, codec, dictionary, pages))
}

fn put_extent(out: &mut Vec<u8>, extent: &Extent) {
    put_varint(out, extent.rows);
    put_bytes(out, &extent.key.0);
    put_bytes(out, &extent.key.1);
    put_varint(out, extent.columns.len() as u64);
    for (least, greatest) in &extent.columns {
        put_bytes(out, least);
        put_bytes(out, greatest);
    }
    put_varint(out, extent.cell_tombstones);
    put_varint(out, extent.row_tombstones);
    put_varint(out, extent.markerless);
    out.push(u8::from(extent.own_stamps) | u8::from(extent.everlasting) << 1);
    for range in [extent.ts, extent.expires, extent.deleted_at] {
        put_option(out, range, |out, (least, greatest)| {
            put_signed(out, least);
            put_signed(out, greatest);
        });
    }
}

fn read_extent(input: &mut Input<'_>) -> Option<Extent> {
    let rows = input.varint()?;
    let pair = |input: &mut Input<'_>| Some((input.bytes()?.to_vec(), input.bytes()?.to_vec()));
    let key = pair(input)?;
    let columns = input.list(pair)?;
    let cell_tombstones = input.varint()?;
    let row_tombstones = input.varint()?;
    let markerless = input.varint()?;
    let flags = input.byte().filter(|flags| *flags < 4)?;
    let range = |input: &mut Input<'_>| input.option(|input| Some((input.signed()?, input.signed()?)));
    Some(Extent {
        first_row: 0,
        rows,
        key,
        columns,
        cell_tombstones,
        row_tombstones,
        markerless,
        own_stamps: flags & 1 != 0,
        everlasting: flags & 2 != 0,
        ts: range(input)?,
        expires: range(input)?,
        deleted_at: range(input)?,
    })
}

#[cfg(test)]
mod tests {
    use keyspan_model::ErrorKind;

    use super::*;

    fn small(codec: Codec) -> Index {
        let extent = Extent {
            rows: 2,
            key: (vec![1], vec![9]),
            columns: vec![(vec![1], vec![9])],
            everlasting: true,
            ts: Some((5, 5)),
            ..Extent::default()
        };
        let page = Page { first_row: 0, len: 7, crc: 0x0102_0304 };
        let chunk = ColumnChunk::new(4, codec, Some((3, 0x0a0b_0c0d)), vec![page]);
        let id = ColumnId(1);
        let zones = vec![
            (ColumnId(2), ZoneMap::Range(vec![1], vec![2])),
            (ColumnId(3), ZoneMap::Empty),
            (ColumnId(4), ZoneMap::Unknown),
        ];
        let mut block_keys = SparseKeys::default();
        block_keys.push(&[1]);
        Index {
            segment: SegmentId(300),
            relation: RelationId(2),
            schema_version: 3,
            file_bytes: 50,
            footer: (14, 0xffff_0000),
            columns: vec![IndexColumn {
                role: Role::Key(id),
                ty: ColumnType::Decimal { precision: 9, scale: 2 },
                nullable: false,
            }],
            constants: vec![(Role::Row(super::super::role::RowSystem::Ts), 5)],
            seq: (1, 2),
            groups: vec![Group { extent, block_rows: 4096, first_block: 0, zones, chunks: vec![chunk] }],
            block_keys,
            bloom: Bloom::build(&[1]),
        }
    }

    /// Changing these bytes is a new version.
    #[test]
    fn golden_bytes_of_version_2() {
        let bytes = small(Codec::Zstd).encode();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, VERSION_2);
        assert_eq!(Index::decode(&bytes, "x").expect("own bytes"), small(Codec::Zstd));
    }

    #[test]
    fn version_1_is_read() {
        let digit = |at: usize| u8::from_str_radix(&VERSION_1[at..at + 2], 16).expect("hexadecimal");
        let bytes: Vec<u8> = (0..VERSION_1.len()).step_by(2).map(digit).collect();
        assert_eq!(Index::decode(&bytes, "x").expect("an old file"), small(Codec::Lz4));
    }

    const VERSION_2: &str = concat!(
        "4b45595350494458020000007600000000000000adeab773ac020203320e0000ffff0100010c646563696d616c28392c3229000102010a",
        "0102010201010109010101010900000002010a0a000080200302020101010203010400040101030d0c0b0a010207040302010100010120",
        "0001000000010000000002000000100000400000200000000000080000080000",
    );

    const VERSION_1: &str = concat!(
        "4b45595350494458010000007500000000000000572737a9ac020203320e0000ffff0100010c646563696d616c28392c3229000102010a",
        "0102010201010109010101010900000002010a0a0000802003020201010102030104000401030d0c0b0a01020704030201",
        "01000101200001000000010000000002000000100000400000200000000000080000080000",
    );

    #[test]
    fn a_newer_version_is_refused_by_name_and_damage_is_damage() {
        let mut bytes = small(Codec::Lz4).encode();
        bytes[8] = 3;
        assert_eq!(Index::decode(&bytes, "x").expect_err("wrong crc").kind, ErrorKind::Corrupted);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[8..20]), &bytes[24..]);
        bytes[20..24].copy_from_slice(&crc.to_le_bytes());
        let error = Index::decode(&bytes, "seg/300.index").expect_err("newer");
        assert!(error.kind == ErrorKind::FormatVersion && error.message.contains("seg/300.index"));
        for at in 0..small(Codec::Lz4).encode().len() {
            let mut bytes = small(Codec::Lz4).encode();
            bytes[at] ^= 0x10;
            assert_eq!(Index::decode(&bytes, "x").expect_err("a bit is wrong").kind, ErrorKind::Corrupted);
            assert!(Index::decode(&bytes[..at], "x").is_err());
        }
    }
}
