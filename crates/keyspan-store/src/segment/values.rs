//! The value indexes of a segment: a file for each indexed column, made after the segment and independent of it.
//!
//! Rule: they are derived. A file that is missing is made, one that is damaged is noted and made anew; until then the
//! column is read. So no answer depends on them, and their files need no place in the manifest.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use keyspan_model::{ColumnId, Error, Result};
use parking_lot::Mutex;

use super::cache::VALUES;
use super::reader::Segment;
use super::record::values_path;
use crate::files::{FileWriter, io_error, is_refused};
use crate::run::{IndexedColumn, ValueRanges};
use crate::value_index::{About, ValueIndex, write_index};

/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 16;

/// What is known of the files; nothing of a column: not asked yet.
#[derive(Debug, Default)]
pub(super) struct KnownFiles(Mutex<BTreeMap<ColumnId, Known>>);

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Missing or damaged.
    unusable: bool,
    /// It was opened once.
    opened: bool,
    /// Counts the files that were written under this name, so that none is taken for another.
    generation: u32,
}

/// What an index answers: the rows, or that they are more than were asked for.
pub(super) type Answer = Option<Vec<u32>>;

impl Segment {
    fn known(&self, column: ColumnId) -> Known {
        self.values.0.lock().get(&column).copied().unwrap_or_default()
    }

    fn note(&self, column: ColumnId, change: impl FnOnce(&mut Known)) {
        change(self.values.0.lock().entry(column).or_default());
    }

    /// Whether the column has a file, as far as is known without reading it.
    pub(super) fn has_file_of_values(&self, column: ColumnId) -> bool {
        if self.known(column).unusable {
            return false;
        }
        let there = self.files.len(&values_path(self.id(), column)).is_ok_and(|length| length.is_some());
        if !there {
            self.note(column, |known| known.unusable = true);
        }
        there
    }

    /// What the column's value index answers; `None`: there is none that can be read.
    pub(super) fn indexed_rows(&self, wanted: &ValueRanges, most: usize) -> Result<Option<Answer>> {
        let Some(index) = self.value_index(&wanted.column)? else { return Ok(None) };
        match index.rows_with(wanted, most) {
            Ok(rows) => Ok(Some(rows)),
            Err(error) => self.unusable(wanted.column.id, error).map(|()| None),
        }
    }

    /// The value index of a column; `None`: there is none that can be read.
    fn value_index(&self, column: &IndexedColumn) -> Result<Option<Arc<ValueIndex>>> {
        let generation = self.known(column.id).generation;
        let key = self.key_of(VALUES | column.id.0, generation);
        if !self.has_file_of_values(column.id) {
            return Ok(None);
        }
        if let Some(index) = self.cache.get::<ValueIndex>(&key) {
            return Ok(Some(index));
        }
        let path = values_path(self.id(), column.id);
        let opened = self.files.open(&path);
        match opened.and_then(|file| ValueIndex::open(file, self.files.display(&path), &self.about(column))) {
            Ok(index) => {
                let index = Arc::new(index);
                self.cache.put(key, Arc::clone(&index), index.memory(), false);
                self.note(column.id, |known| known.opened = true);
                Ok(Some(index))
            }
            Err(error) => self.unusable(column.id, error).map(|()| None),
        }
    }

    /// Notes that a file cannot be used; an error only where the thread may not wait for the disk.
    fn unusable(&self, column: ColumnId, error: Error) -> Result<()> {
        if is_refused() {
            return Err(error);
        }
        tracing::warn!(%error, "an index cannot be read; the column is read instead, until the index is built anew");
        self.note(column, |known| known.unusable = true);
        Ok(())
    }

    fn about(&self, column: &IndexedColumn) -> About {
        About { segment: self.id(), column: column.id, ty: column.ty, rows: self.record().meta.all.rows }
    }

    /// Whether the column has a value index that can be opened, as far as is known.
    pub(crate) fn has_value_index(&self, column: &IndexedColumn) -> bool {
        let known = self.known(column.id);
        !known.unusable && (known.opened || self.value_index(column).is_ok_and(|index| index.is_some()))
    }

    /// Writes the value index of a column, in the place of one that cannot be used. `pause` is called now and then; its
    /// error ends the work, and leaves no file.
    pub(crate) fn write_value_index(&self, column: &IndexedColumn, pause: &dyn Fn() -> Result<()>) -> Result<()> {
        let path = values_path(self.id(), column.id);
        self.note(column.id, |known| known.unusable = true);
        self.files.remove(&path)?;
        let file = self.files.create(&path)?;
        let written = self.write_values(column, file, &path, pause);
        if written.is_err() {
            let _ = self.files.remove(&path);
        }
        written?;
        self.note(column.id, |known| *known = Known { generation: known.generation + 1, ..Known::default() });
        Ok(())
    }

    fn write_values(
        &self,
        column: &IndexedColumn,
        file: Box<dyn FileWriter>,
        path: &str,
        pause: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let name = self.files.display(path);
        let mut out = BufWriter::with_capacity(WRITE_BYTES, file);
        write_index(self, column, &self.about(column), (&mut out, &name), pause)?;
        out.flush().map_err(|error| io_error("write", &name, &error))?;
        out.get_mut().sync_data()
    }

    /// Reads all of a column's value index and checks it; `None`: there is none.
    pub(crate) fn verify_value_index(&self, column: &IndexedColumn) -> Option<Result<()>> {
        let path = values_path(self.id(), column.id);
        self.files.len(&path).ok().flatten()?;
        let opened = self.files.open(&path);
        let index = opened.and_then(|file| ValueIndex::open(file, self.files.display(&path), &self.about(column)));
        Some(index.and_then(|index| index.verify()))
    }

    /// Bytes of the value index of a column on disk.
    pub(crate) fn value_index_bytes(&self, column: ColumnId) -> u64 {
        self.files.len(&values_path(self.id(), column)).ok().flatten().unwrap_or(0)
    }
}
