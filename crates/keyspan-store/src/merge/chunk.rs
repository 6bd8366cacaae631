//! The rows of one output batch while they are collected: which rows of which runs, and then all of them as arrays.
//!
//! One stretch of one run passes as a slice; several long ones are joined; everything else is picked row by row.
//! Only rows that several runs hold are looked at cell by cell ([`super::resolve`]).

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, UInt32Array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::interleave;
use keyspan_model::{ColumnType, Result};

use super::resolve::{Place, ResolvedRow, resolve};
use super::select::Selection;
use crate::row::CellStamp;
use crate::run::{Bits, CellColumn, Int64s, RowColumns, RunBatch, SortedRun, Wanted};
use crate::seam::ScanCounters;

/// Blocks that a chunk holds in memory at most.
const MOST_SOURCES: usize = 64;
/// Of a block of which less than this part is used, only the rows used are decoded.
const SPARSE: usize = 4;
/// Rows a stretch on average must have for stretches to be joined, not picked.
const LONG_STRETCH: usize = 64;

/// Rows as they are collected.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    /// Which rows of a stretch are left out.
    selection: Option<Arc<Selection>>,
    sources: Vec<Source>,
    pieces: Vec<Piece>,
    rows: usize,
    stretches: usize,
}

/// A block of a run, read.
#[derive(Debug)]
struct Source {
    run: Arc<dyn SortedRun>,
    block: Range<usize>,
    batch: RunBatch,
    /// Rows inside the selection; `None`: all.
    selected: Option<BooleanBuffer>,
}

#[derive(Debug)]
enum Piece {
    /// Some rows of a stretch, ascending.
    Picked {
        source: usize,
        rows: Vec<u32>,
        covered: Option<i64>,
    },
    Stretch {
        source: usize,
        row: usize,
        rows: usize,
        covered: Option<i64>,
    },
    Same {
        places: Vec<Place>,
        covered: Option<i64>,
    },
}

/// Collected rows as arrays, and for each row the timestamp of the span tombstone that covers it.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) batch: RunBatch,
    pub(crate) covered: Int64s,
}

impl Chunk {
    /// A chunk that leaves out rows of stretches that are outside the selection.
    pub(crate) fn of_selected(selection: Option<Arc<Selection>>) -> Chunk {
        Chunk { selection, ..Chunk::default() }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn is_full(&self, rows: usize) -> bool {
        self.rows >= rows || self.sources.len() >= MOST_SOURCES
    }

    /// Whether the next stretch could no longer pass as a slice although this chunk could.
    pub(crate) fn is_one_long_stretch(&self) -> bool {
        self.pieces.len() == 1 && self.stretches == 1 && self.rows >= 1024
    }

    pub(crate) fn add_stretch(
        &mut self,
        run: &Arc<dyn SortedRun>,
        rows: Range<usize>,
        covered: Option<i64>,
        wanted: &Wanted,
        counters: &ScanCounters,
    ) -> Result<()> {
        let (source, row) = self.source(run, rows.start, wanted, counters)?;
        let picked = self.sources[source].selected.as_ref().map(|selected| {
            let inside = selected.slice(row, rows.len());
            inside.set_indices().map(|at| (row + at) as u32).collect::<Vec<u32>>()
        });
        let piece = match picked {
            Some(picked) if picked.is_empty() => return Ok(()),
            Some(picked) if picked.len() < rows.len() => Piece::Picked { source, rows: picked, covered },
            _ => Piece::Stretch { source, row, rows: rows.len(), covered },
        };
        self.rows += piece.rows();
        self.pieces.push(piece);
        self.stretches += 1;
        Ok(())
    }

    pub(crate) fn add_same(
        &mut self,
        rows: &[(Arc<dyn SortedRun>, usize)],
        covered: Option<i64>,
        wanted: &Wanted,
        counters: &ScanCounters,
    ) -> Result<()> {
        let places = rows.iter().map(|(run, row)| self.source(run, *row, wanted, counters)).collect::<Result<_>>()?;
        self.pieces.push(Piece::Same { places, covered });
        self.rows += 1;
        Ok(())
    }

    /// Adds one row, reading nothing around it.
    pub(crate) fn add_point(
        &mut self,
        rows: &[(Arc<dyn SortedRun>, usize)],
        covered: Option<i64>,
        wanted: &Wanted,
        counters: &ScanCounters,
    ) -> Result<()> {
        let mut places = Vec::with_capacity(rows.len());
        for (run, row) in rows {
            let batch = run.read(*row..row + 1, wanted, counters)?;
            self.sources.push(Source { run: Arc::clone(run), block: *row..row + 1, batch, selected: None });
            places.push((self.sources.len() - 1, 0));
        }
        match places.as_slice() {
            [(source, row)] => {
                self.pieces.push(Piece::Stretch { source: *source, row: *row, rows: 1, covered });
                self.stretches += 1;
            }
            _ => self.pieces.push(Piece::Same { places, covered }),
        }
        self.rows += 1;
        Ok(())
    }

    fn source(
        &mut self,
        run: &Arc<dyn SortedRun>,
        row: usize,
        wanted: &Wanted,
        counters: &ScanCounters,
    ) -> Result<Place> {
        let known = |source: &Source| Arc::ptr_eq(&source.run, run) && source.block.contains(&row);
        let at = match self.sources.iter().rposition(known) {
            Some(at) => at,
            None => {
                let block = run.block(row);
                let batch = run.read(block.clone(), wanted, counters)?;
                let selected = self.selection.as_ref().map_or(Ok(None), |selection| selection.of(&batch))?;
                self.sources.push(Source { run: Arc::clone(run), block, batch, selected });
                self.sources.len() - 1
            }
        };
        Ok((at, row - self.sources[at].block.start))
    }

    /// The rows as arrays, in the order they were collected, each stretch reversed if `reverse`.
    ///
    /// Codes stay codes only where one stretch passes as it is.
    pub(crate) fn finish(mut self, types: &[ColumnType], reverse: bool) -> Result<Gathered> {
        let covered = self.covered();
        if reverse || !matches!(self.pieces.as_slice(), [Piece::Stretch { .. }]) {
            self.decode()?;
        }
        let batches: Vec<&RunBatch> = self.sources.iter().map(|source| &source.batch).collect();
        let long = self.pieces.len() <= self.sources.len() || self.rows >= self.stretches * LONG_STRETCH;
        if !reverse && self.pieces.len() == self.stretches && long {
            let slices: Vec<RunBatch> = self.pieces.iter().filter_map(|piece| piece.slice(&batches)).collect();
            return Ok(Gathered { batch: RunBatch::concat(&slices)?, covered });
        }
        let mut places = Vec::with_capacity(self.rows);
        let mut resolved = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Stretch { source, row, rows, .. } if reverse => {
                    places.extend((*row..row + rows).rev().map(|row| (*source, row)));
                }
                Piece::Stretch { source, row, rows, .. } => places.extend((*row..row + rows).map(|row| (*source, row))),
                // Decoding has made stretches of them.
                Piece::Picked { .. } => {}
                Piece::Same { places: same, .. } => {
                    resolved.push((places.len(), resolve(&batches, same, types)?));
                    places.push(same[0]);
                }
            }
        }
        let batch = Picker { batches: &batches, places: &places, resolved: &resolved, types }.pick()?;
        Ok(Gathered { batch, covered })
    }

    /// Looks codes up: of whole blocks where most of a block is used, else only of the rows used. Picked rows become
    /// stretches of what is left of their block.
    fn decode(&mut self) -> Result<()> {
        let mut used = vec![0; self.sources.len()];
        let mut sparse = vec![false; self.sources.len()];
        for piece in &self.pieces {
            piece.each_source(|source, rows| used[source] += rows);
            if let Piece::Picked { source, .. } = piece {
                sparse[*source] = true;
            }
        }
        for ((sparse, source), used) in sparse.iter_mut().zip(&self.sources).zip(used) {
            *sparse |= used < source.batch.rows / SPARSE;
        }
        let mut picked: Vec<Vec<u32>> = vec![Vec::new(); self.sources.len()];
        for piece in &mut self.pieces {
            piece.gather(&sparse, &mut picked);
        }
        for ((source, sparse), rows) in self.sources.iter_mut().zip(sparse).zip(picked) {
            source.batch =
                if sparse { source.batch.pick(&UInt32Array::from(rows))? } else { source.batch.decoded()? };
        }
        Ok(())
    }

    fn covered(&self) -> Int64s {
        let of = |piece: &Piece| match piece {
            Piece::Picked { rows, covered, .. } => (rows.len(), *covered),
            Piece::Stretch { rows, covered, .. } => (*rows, *covered),
            Piece::Same { covered, .. } => (1, *covered),
        };
        if self.pieces.iter().all(|piece| of(piece).1.is_none()) {
            return Int64s::Null;
        }
        let rows = self.pieces.iter().flat_map(|piece| {
            let (rows, covered) = of(piece);
            std::iter::repeat_n(covered, rows)
        });
        Int64s::from_options(rows.collect())
    }
}

impl Piece {
    fn rows(&self) -> usize {
        match self {
            Piece::Picked { rows, .. } => rows.len(),
            Piece::Stretch { rows, .. } => *rows,
            Piece::Same { .. } => 1,
        }
    }

    /// Calls with each source that is used, and how many of its rows.
    fn each_source(&self, mut call: impl FnMut(usize, usize)) {
        match self {
            Piece::Picked { source, .. } | Piece::Stretch { source, .. } => call(*source, self.rows()),
            Piece::Same { places, .. } => places.iter().for_each(|(source, _)| call(*source, 1)),
        }
    }

    /// Adds the rows of sparse sources to what is picked of them, and speaks of them by their places there.
    fn gather(&mut self, sparse: &[bool], picked: &mut [Vec<u32>]) {
        match self {
            Piece::Picked { source, rows, covered } => {
                let (row, count) = (picked[*source].len(), rows.len());
                picked[*source].append(rows);
                *self = Piece::Stretch { source: *source, row, rows: count, covered: *covered };
            }
            Piece::Stretch { source, row, rows, .. } if sparse[*source] => {
                let first = picked[*source].len();
                picked[*source].extend((*row..*row + *rows).map(|row| row as u32));
                *row = first;
            }
            Piece::Same { places, .. } => {
                for (source, row) in places.iter_mut().filter(|(source, _)| sparse[*source]) {
                    picked[*source].push(*row as u32);
                    *row = picked[*source].len() - 1;
                }
            }
            Piece::Stretch { .. } => {}
        }
    }

    fn slice(&self, batches: &[&RunBatch]) -> Option<RunBatch> {
        match self {
            Piece::Stretch { source, row, rows, .. } => Some(batches[*source].slice(*row, *rows)),
            Piece::Picked { .. } | Piece::Same { .. } => None,
        }
    }
}

/// Picks rows out of batches, with resolved rows in the place of what the batches say.
struct Picker<'a> {
    batches: &'a [&'a RunBatch],
    places: &'a [Place],
    resolved: &'a [(usize, ResolvedRow)],
    types: &'a [ColumnType],
}

impl Picker<'_> {
    fn pick(&self) -> Result<RunBatch> {
        let bases: Vec<Option<CellStamp>> = self.resolved.iter().map(|(_, row)| row.marker).collect();
        let key_columns = self.batches.first().map_or(0, |batch| batch.keys.len());
        let mut keys = Vec::with_capacity(key_columns);
        for at in 0..key_columns {
            let arrays: Option<Vec<&dyn Array>> = self.batches.iter().map(|batch| batch.keys[at].as_deref()).collect();
            keys.push(arrays.map(|arrays| interleave(&arrays, self.places)).transpose()?);
        }
        let encoded: Option<Vec<&dyn Array>> =
            self.batches.iter().map(|batch| batch.encoded.as_ref().map(|encoded| encoded as &dyn Array)).collect();
        let encoded = encoded.map(|arrays| interleave(&arrays, self.places)).transpose()?;
        let cells = (0..self.types.len()).map(|column| self.cells(column, &bases)).collect::<Result<_>>()?;
        Ok(RunBatch {
            rows: self.places.len(),
            keys,
            encoded: encoded.map(|array| BinaryArray::from(array.to_data())),
            row: self.row(&bases),
            cells,
        })
    }

    fn row(&self, bases: &[Option<CellStamp>]) -> RowColumns {
        let base =
            |get: fn(&CellStamp) -> Option<i64>| move |at: usize, _: &ResolvedRow| bases[at].as_ref().and_then(get);
        RowColumns {
            marker: self.marker(),
            ts: self.numbers(|batch| &batch.row.ts, base(|base| Some(base.ts))),
            ttl: self.numbers(|batch| &batch.row.ttl, base(|base| base.ttl)),
            expires: self.numbers(|batch| &batch.row.expires, base(|base| base.expires)),
            deleted_ts: self.numbers(|batch| &batch.row.deleted_ts, |_, row| row.deleted.map(|deleted| deleted.ts)),
            deleted_at: self.numbers(|batch| &batch.row.deleted_at, |_, row| row.deleted.map(|deleted| deleted.at)),
        }
    }

    fn marker(&self) -> Bits {
        self.bits(|batch| &batch.row.marker, |row| row.marker.is_some())
    }

    fn bits<'b>(&'b self, of: impl Fn(&'b RunBatch) -> &'b Bits, resolved: impl Fn(&ResolvedRow) -> bool) -> Bits {
        let mut columns = self.batches.iter().map(|batch| of(batch));
        let first = columns.next().cloned().unwrap_or_default();
        let constant = !matches!(first, Bits::Some(_)) && columns.all(|column| *column == first);
        if constant && self.resolved.iter().all(|(_, row)| resolved(row) == (first == Bits::All)) {
            return first;
        }
        let mut bits: Vec<bool> = self.places.iter().map(|(batch, row)| of(self.batches[*batch]).get(*row)).collect();
        for (at, row) in self.resolved {
            bits[*at] = resolved(row);
        }
        Bits::new(BooleanBuffer::from(bits))
    }

    fn numbers<'b>(
        &'b self,
        of: impl Fn(&'b RunBatch) -> &'b Int64s,
        resolved: impl Fn(usize, &ResolvedRow) -> Option<i64>,
    ) -> Int64s {
        let mut columns = self.batches.iter().map(|batch| of(batch));
        let first = columns.next().cloned().unwrap_or_default();
        let constant = !matches!(first, Int64s::Array(_)) && columns.all(|column| *column == first);
        let same = |(at, (_, row)): (usize, &(usize, ResolvedRow))| resolved(at, row) == first.get(0);
        if constant && self.resolved.iter().enumerate().all(same) {
            return first;
        }
        let mut numbers: Vec<Option<i64>> =
            self.places.iter().map(|(batch, row)| of(self.batches[*batch]).get(*row)).collect();
        for (at, (place, row)) in self.resolved.iter().enumerate() {
            numbers[*place] = resolved(at, row);
        }
        Int64s::from_options(numbers)
    }

    fn cells(&self, column: usize, bases: &[Option<CellStamp>]) -> Result<CellColumn> {
        let own = |get: fn(&CellStamp) -> Option<i64>| {
            move |at: usize, row: &ResolvedRow| {
                let stamp = row.cells[column].map(|cell| cell.stamp).filter(|stamp| Some(*stamp) != bases[at]);
                stamp.as_ref().and_then(get)
            }
        };
        Ok(CellColumn {
            values: self.values(column)?,
            tombstones: self.bits(
                |batch| &batch.cells[column].tombstones,
                |row| row.cells[column].is_some_and(|cell| cell.tombstone.is_some()),
            ),
            ts: self.numbers(|batch| &batch.cells[column].ts, own(|stamp| Some(stamp.ts))),
            ttl: self.numbers(|batch| &batch.cells[column].ttl, own(|stamp| stamp.ttl)),
            expires: self.numbers(|batch| &batch.cells[column].expires, own(|stamp| stamp.expires)),
            deleted_at: self.numbers(
                |batch| &batch.cells[column].deleted_at,
                |_, row| row.cells[column].and_then(|cell| cell.tombstone),
            ),
        })
    }

    fn values(&self, column: usize) -> Result<Option<ArrayRef>> {
        if self.batches.iter().all(|batch| batch.cells[column].values.is_none()) {
            return Ok(None);
        }
        let null = new_null_array(&self.types[column].arrow(), 1);
        let nowhere = (self.batches.len(), 0);
        let values = |batch: usize| self.batches[batch].cells[column].values.as_ref();
        let mut arrays: Vec<&dyn Array> =
            (0..self.batches.len()).map(|at| values(at).unwrap_or(&null).as_ref()).collect();
        arrays.push(null.as_ref());
        let place = |place: Place| if values(place.0).is_some() { place } else { nowhere };
        let mut places: Vec<Place> = self.places.iter().map(|at| place(*at)).collect();
        for (at, row) in self.resolved {
            let cell = row.cells[column].filter(|cell| cell.tombstone.is_none());
            places[*at] = cell.map_or(nowhere, |cell| place(cell.place));
        }
        Ok(Some(interleave(&arrays, &places)?))
    }
}
