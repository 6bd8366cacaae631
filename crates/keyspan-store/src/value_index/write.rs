//! Writing a value index: a column is read block by block, sorted section by section.

use std::io::Write;

use bytes::Bytes;
use keyspan_model::Result;

use super::block::{Block, BlockBuilder};
use super::directory::{About, Directory, Section};
use super::read::ValueIndex;
use super::{HEADER, MAGIC, SECTION_ROWS, VERSION};
use crate::files::io_error;
use crate::run::{IndexedColumn, SortedRun};
use keyspan_seam::ScanCounters;

/// Writes the index of a run's column to a new file called `name`. `pause` is called before each block of rows is read;
/// its error ends the work.
pub(crate) fn write_index(
    run: &dyn SortedRun,
    column: &IndexedColumn,
    about: &About,
    (out, name): (&mut dyn Write, &str),
    pause: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let mut file = Output { out, name, written: 0 };
    file.put(MAGIC)?;
    file.put(&VERSION.to_le_bytes())?;
    let (mut directory, mut next, rows) = (Directory::default(), 0, run.meta().all.rows as usize);
    while next < rows {
        let mut values = Values::default();
        let end = (next + SECTION_ROWS).min(rows);
        while next < end {
            pause()?;
            let part = next..run.block(next, &column.wanted()).end;
            next = part.end;
            column.each_value(run, part, &ScanCounters::default(), &mut |row, value| values.push(row, value))?;
        }
        directory.sections.push(file.section(&values)?);
    }
    file.put(&directory.encode(about))
}

/// The index of a column of a run in memory.
pub(crate) fn memory_index(run: &dyn SortedRun, column: &IndexedColumn, about: &About) -> Result<ValueIndex> {
    let mut bytes = Vec::new();
    write_index(run, column, about, (&mut bytes, "memory"), &|| Ok(()))?;
    ValueIndex::of_bytes(Bytes::from(bytes), about)
}

struct Output<'a> {
    out: &'a mut dyn Write,
    name: &'a str,
    written: u64,
}

impl Output<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|error| io_error("write", self.name, &error))?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    fn section(&mut self, values: &Values) -> Result<Section> {
        debug_assert!(self.written >= HEADER as u64);
        let (mut section, mut builder) = (Section::default(), BlockBuilder::default());
        for place in values.sorted() {
            let done = builder.push(values.get(place), values.rows[place as usize]);
            self.block(&mut section, done)?;
        }
        let last = builder.finish();
        self.block(&mut section, last)?;
        Ok(section)
    }

    fn block(&mut self, section: &mut Section, block: Option<Block>) -> Result<()> {
        let Some(block) = block else { return Ok(()) };
        section.add(&block, self.written);
        self.put(&block.bytes)
    }
}

/// The values of a section as they come, and their rows.
#[derive(Default)]
struct Values {
    ends: Vec<u32>,
    bytes: Vec<u8>,
    rows: Vec<u32>,
}

impl Values {
    fn push(&mut self, row: u32, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len() as u32);
        self.rows.push(row);
    }

    fn get(&self, place: u32) -> &[u8] {
        let place = place as usize;
        let start = if place == 0 { 0 } else { self.ends[place - 1] as usize };
        &self.bytes[start..self.ends[place] as usize]
    }

    /// Places by value, then by row. The first eight bytes decide most comparisons.
    fn sorted(&self) -> impl Iterator<Item = u32> {
        let head = |place: u32| {
            let (value, mut bytes) = (self.get(place), [0; 8]);
            let length = value.len().min(8);
            bytes[..length].copy_from_slice(&value[..length]);
            u64::from_be_bytes(bytes)
        };
        let mut heads: Vec<(u64, u32)> = (0..self.rows.len() as u32).map(|place| (head(place), place)).collect();
        heads.sort_unstable_by(|(a, one), (b, other)| {
            a.cmp(b).then_with(|| self.get(*one).cmp(self.get(*other))).then(one.cmp(other))
        });
        heads.into_iter().map(|(_, place)| place)
    }
}
