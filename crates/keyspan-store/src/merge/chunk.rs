//! A chunk: the rows of one output batch, first collected as row numbers of runs, then turned into arrays.
//!
//! A single stretch of one run is sliced; several long stretches are concatenated; otherwise rows are interleaved one
//! by one, through codes where a block has them. Only rows in several runs are resolved cell by cell
//! ([`super::resolve`]).
//!
//! When runs interleave, one batch seldom uses up a block, so the last block of each run is kept for the next batch.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, UInt8Array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::interleave;
use arrow::datatypes::UInt8Type;
use keyspan_model::{ColumnType, Result};

use super::resolve::{Place, ResolvedRow, resolve};
use super::select::{Selected, Selection};
use crate::row::CellStamp;
use crate::run::{Bits, CellColumn, Int64s, RowColumns, RunBatch, SortedRun, Wanted};
use keyspan_seam::ScanCounters;

/// Blocks that a chunk reads at most.
const MOST_SOURCES: usize = 64;
/// Average rows of a stretch from which stretches are concatenated, not interleaved.
const LONG_STRETCH: usize = 64;

/// Rows being collected.
#[derive(Debug, Default)]
pub(crate) struct RowChunk {
    /// Which rows of a stretch are left out.
    selection: Option<Arc<Selection>>,
    sources: Vec<Source>,
    /// Blocks without a row inside the selection: nothing else is read of them.
    passed: Vec<(Arc<dyn SortedRun>, Range<usize>)>,
    /// How many of the sources were taken over from the chunk before.
    known: usize,
    pieces: Vec<Piece>,
    rows: usize,
}

/// A block of a run, read as far as it is wanted.
#[derive(Debug)]
struct Source {
    run: Arc<dyn SortedRun>,
    block: Range<usize>,
    /// Rows that were read: all of the block, or those from the first to the last inside the selection.
    rows: Range<usize>,
    batch: RunBatch,
    /// Rows inside the selection.
    inside: Selected,
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
    /// Several long stretches of one, ascending.
    Parted {
        source: usize,
        parts: Vec<Range<usize>>,
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

impl RowChunk {
    /// A chunk that leaves out rows of stretches that are outside the selection.
    pub(crate) fn of_selected(selection: Option<Arc<Selection>>) -> RowChunk {
        RowChunk { selection, ..RowChunk::default() }
    }

    /// The chunk for the rows that follow, read in the same way.
    pub(crate) fn next(mut self) -> RowChunk {
        let mut last: Vec<Source> = Vec::with_capacity(self.sources.len());
        for source in self.sources.drain(..).rev() {
            if !last.iter().any(|later| Arc::ptr_eq(&later.run, &source.run)) {
                last.push(source);
            }
        }
        last.reverse();
        RowChunk { selection: self.selection, known: last.len(), sources: last, ..RowChunk::default() }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn is_full(&self, rows: usize) -> bool {
        self.rows >= rows || self.sources.len() + self.passed.len() - self.known >= MOST_SOURCES
    }

    /// Whether this chunk can be sliced, and could not with the next stretch.
    pub(crate) fn is_one_long_stretch(&self) -> bool {
        self.rows >= 1024 && matches!(self.pieces.as_slice(), [Piece::Stretch { .. } | Piece::Picked { .. }])
    }

    pub(crate) fn add_stretch(
        &mut self,
        run: &Arc<dyn SortedRun>,
        rows: Range<usize>,
        covered: Option<i64>,
        wanted: &Wanted,
        counters: &ScanCounters,
    ) -> Result<()> {
        let Some(source) = self.source_of_stretch(run, rows.start, wanted, counters)? else { return Ok(()) };
        let Source { rows: read, inside: Selected { all: inside, .. }, .. } = &self.sources[source];
        let part = rows.start.max(inside.rows.start)..rows.end.min(inside.rows.end);
        if part.is_empty() {
            return Ok(());
        }
        let row = part.start - read.start;
        let Some(bits) = inside.bits.as_ref() else {
            self.push(Piece::Stretch { source, row, rows: part.len(), covered });
            return Ok(());
        };
        let bits = bits.slice(part.start - inside.rows.start, part.len());
        let stretches: Vec<(usize, usize)> = bits.set_slices().collect();
        let rows: usize = stretches.iter().map(|(from, to)| to - from).sum();
        if rows < stretches.len() * LONG_STRETCH {
            let rows = bits.set_indices().map(|at| (row + at) as u32).collect();
            self.push(Piece::Picked { source, rows, covered });
            return Ok(());
        }
        let parts = stretches.into_iter().map(|(from, to)| row + from..row + to).collect();
        self.push(Piece::Parted { source, parts, covered });
        Ok(())
    }

    fn push(&mut self, piece: Piece) {
        self.rows += piece.rows();
        self.pieces.push(piece);
    }

    pub(crate) fn add_same(
        &mut self,
        rows: &[(Arc<dyn SortedRun>, usize)],
        covered: Option<i64>,
        wanted: &Wanted,
        counters: &ScanCounters,
    ) -> Result<()> {
        let places: Vec<Place> =
            rows.iter().map(|(run, row)| self.place(run, *row, wanted, counters)).collect::<Result<_>>()?;
        let outside = |((source, _), (_, row)): (&Place, &(_, usize))| !self.sources[*source].inside.keys.holds(*row);
        if places.first().zip(rows.first()).is_some_and(outside) {
            return Ok(());
        }
        self.pieces.push(Piece::Same { places, covered });
        self.rows += 1;
        Ok(())
    }

    /// Adds one row, reading only this row.
    pub(crate) fn add_point(
        &mut self,
        rows: &[(Arc<dyn SortedRun>, usize)],
        covered: Option<i64>,
        wanted: &Wanted,
        counters: &ScanCounters,
    ) -> Result<()> {
        let mut places = Vec::with_capacity(rows.len());
        for (run, row) in rows {
            let only = *row..row + 1;
            self.read(run, only.clone(), only.clone(), Selected::all(only), wanted, counters)?;
            places.push((self.sources.len() - 1, 0));
        }
        match places.as_slice() {
            [(source, row)] => {
                self.pieces.push(Piece::Stretch { source: *source, row: *row, rows: 1, covered });
            }
            _ => self.pieces.push(Piece::Same { places, covered }),
        }
        self.rows += 1;
        Ok(())
    }

    /// The block of a row, of which the rows inside the selection are read; `None`: it has none.
    fn source_of_stretch(
        &mut self,
        run: &Arc<dyn SortedRun>,
        row: usize,
        wanted: &Wanted,
        counters: &ScanCounters,
    ) -> Result<Option<usize>> {
        let known = |source: &Source| Arc::ptr_eq(&source.run, run) && source.block.contains(&row);
        if let Some(at) = self.sources.iter().rposition(known) {
            return Ok(Some(at));
        }
        if self.passed.iter().rev().any(|(passed, block)| Arc::ptr_eq(passed, run) && block.contains(&row)) {
            return Ok(None);
        }
        let block = run.block(row, wanted);
        let inside = self.inside(run, &block, counters)?;
        let own = &inside.all.rows;
        if own.is_empty() {
            self.passed.push((Arc::clone(run), block));
            return Ok(None);
        }
        // Of most of a block all of it is read, as a scan does that goes on behind it.
        let rows = if own.len() < block.len() / 2 { own.clone() } else { block.clone() };
        self.read(run, block, rows, inside, wanted, counters).map(Some)
    }

    /// Where a row stands that several runs have: it is read whatever the ranges of value columns are.
    fn place(
        &mut self,
        run: &Arc<dyn SortedRun>,
        row: usize,
        wanted: &Wanted,
        counters: &ScanCounters,
    ) -> Result<Place> {
        let known = |source: &Source| Arc::ptr_eq(&source.run, run) && source.rows.contains(&row);
        let at = match self.sources.iter().rposition(known) {
            Some(at) => at,
            None => {
                let block = run.block(row, wanted);
                let inside = self.inside(run, &block, counters)?;
                self.read(run, block.clone(), block, inside, wanted, counters)?
            }
        };
        Ok((at, row - self.sources[at].rows.start))
    }

    fn inside(&self, run: &Arc<dyn SortedRun>, block: &Range<usize>, counters: &ScanCounters) -> Result<Selected> {
        match &self.selection {
            Some(selection) => selection.of(run.as_ref(), block.clone(), counters),
            None => Ok(Selected::all(block.clone())),
        }
    }

    fn read(
        &mut self,
        run: &Arc<dyn SortedRun>,
        block: Range<usize>,
        rows: Range<usize>,
        inside: Selected,
        wanted: &Wanted,
        counters: &ScanCounters,
    ) -> Result<usize> {
        let batch = run.read(rows.clone(), wanted, counters)?;
        self.sources.push(Source { run: Arc::clone(run), block, rows, batch, inside });
        Ok(self.sources.len() - 1)
    }

    /// The rows as arrays, in the order they were collected, each stretch reversed if `reverse`.
    ///
    /// Codes stay codes only where long stretches pass one after another, and name few values.
    pub(crate) fn finish(&self, types: &[ColumnType], reverse: bool) -> Result<Gathered> {
        let covered = self.covered();
        if !reverse && let Some(batch) = self.joined()? {
            return Ok(Gathered { batch, covered });
        }
        let batches: Vec<&RunBatch> = self.sources.iter().map(|source| &source.batch).collect();
        let mut places = Vec::with_capacity(self.rows);
        let mut resolved = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Stretch { source, row, rows, .. } if reverse => {
                    places.extend((*row..row + rows).rev().map(|row| (*source, row)));
                }
                Piece::Stretch { source, row, rows, .. } => places.extend((*row..row + rows).map(|row| (*source, row))),
                Piece::Parted { source, parts, .. } if reverse => {
                    let rows = parts.iter().rev().flat_map(|part| part.clone().rev());
                    places.extend(rows.map(|row| (*source, row)));
                }
                Piece::Parted { source, parts, .. } => {
                    places.extend(parts.iter().flat_map(Range::clone).map(|row| (*source, row)));
                }
                Piece::Picked { source, rows, .. } if reverse => {
                    places.extend(rows.iter().rev().map(|row| (*source, *row as usize)));
                }
                Piece::Picked { source, rows, .. } => places.extend(rows.iter().map(|row| (*source, *row as usize))),
                Piece::Same { places: same, .. } => {
                    resolved.push((places.len(), resolve(&batches, same, types)?));
                    places.push(same[0]);
                }
            }
        }
        let batch = Picker { batches: &batches, places: &places, resolved: &resolved, types }.pick()?;
        Ok(Gathered { batch, covered })
    }

    /// The rows one stretch after another, if they are few and long.
    fn joined(&self) -> Result<Option<RunBatch>> {
        let mut stretches: Vec<(usize, usize, usize)> = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            match piece {
                Piece::Stretch { source, row, rows, .. } => stretches.push((*source, *row, *rows)),
                Piece::Parted { source, parts, .. } => {
                    stretches.extend(parts.iter().map(|part| (*source, part.start, part.len())));
                }
                Piece::Picked { .. } | Piece::Same { .. } => return Ok(None),
            }
        }
        if let [(source, row, rows)] = *stretches.as_slice() {
            return Ok(Some(self.sources[source].batch.slice(row, rows)));
        }
        let mut used = vec![0; self.sources.len()];
        stretches.iter().for_each(|(source, _, rows)| used[*source] += rows);
        let few = stretches.len() <= used.iter().filter(|used| **used > 0).count();
        if !few && self.rows < stretches.len() * LONG_STRETCH {
            return Ok(None);
        }
        let slice = |(source, row, rows): &(usize, usize, usize)| self.sources[*source].batch.slice(*row, *rows);
        let slices: Vec<RunBatch> = stretches.iter().map(slice).collect();
        RunBatch::concat(&slices).map(Some)
    }

    fn covered(&self) -> Int64s {
        let of = |piece: &Piece| match piece {
            Piece::Picked { rows, covered, .. } => (rows.len(), *covered),
            Piece::Stretch { rows, covered, .. } => (*rows, *covered),
            Piece::Parted { covered, .. } => (piece.rows(), *covered),
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
            Piece::Parted { parts, .. } => parts.iter().map(Range::len).sum(),
            Piece::Same { .. } => 1,
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
            keys.push(self.column(|batch| batch.keys[at].as_ref(), &[])?);
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
        let resolved = self.resolved.iter().map(|(at, row)| {
            let cell = row.cells[column].filter(|cell| cell.tombstone.is_none());
            (*at, cell.map(|cell| cell.place))
        });
        self.column(|batch| batch.cells[column].values.as_ref(), &resolved.collect::<Vec<_>>())
    }

    /// A column of the rows; `None` where no batch has it. `resolved` are rows whose value stands elsewhere, or
    /// nowhere.
    fn column<'b>(
        &'b self,
        of: impl Fn(&'b RunBatch) -> Option<&'b ArrayRef>,
        resolved: &[(usize, Option<Place>)],
    ) -> Result<Option<ArrayRef>> {
        let named: Vec<Option<Named<'b>>> = self.batches.iter().map(|batch| of(batch).map(Named::new)).collect();
        let Some(any) = named.iter().flatten().next() else { return Ok(None) };
        let as_they_are = |named: &Option<Named<'_>>| named.as_ref().is_some_and(|named| named.codes.is_none());
        if resolved.is_empty() && named.iter().all(as_they_are) {
            let arrays: Vec<&dyn Array> = named.iter().flatten().map(|named| named.values.as_ref()).collect();
            return Ok(Some(interleave(&arrays, self.places)?));
        }
        let null = new_null_array(any.values.data_type(), 1);
        let nowhere = (named.len(), 0);
        let mut places: Vec<Place> = Vec::with_capacity(self.places.len());
        let mut any_null = false;
        for group in self.places.chunk_by(|one, next| one.0 == next.0) {
            any_null |= match &named[group[0].0] {
                Some(named) => named.places(group, nowhere, &mut places),
                None => {
                    places.extend(std::iter::repeat_n(nowhere, group.len()));
                    true
                }
            };
        }
        for (at, place) in resolved {
            let place = place.and_then(|place| Some((named[place.0].as_ref()?, place)));
            places[*at] = place.map_or(nowhere, |(named, place)| named.place(place, nowhere));
        }
        let mut arrays: Vec<&dyn Array> =
            named.iter().map(|named| named.as_ref().map_or(&null, |named| named.values).as_ref()).collect();
        if any_null || !resolved.is_empty() {
            arrays.push(null.as_ref());
        }
        Ok(Some(interleave(&arrays, &places)?))
    }
}

/// A column of a block: an array, or the array of its distinct values and for each row which it is.
struct Named<'a> {
    values: &'a ArrayRef,
    codes: Option<&'a UInt8Array>,
}

impl<'a> Named<'a> {
    fn new(array: &'a ArrayRef) -> Named<'a> {
        match array.as_dictionary_opt::<UInt8Type>() {
            Some(coded) => Named { values: coded.values(), codes: Some(coded.keys()) },
            None => Named { values: array, codes: None },
        }
    }

    /// Where the values of rows of this block stand; says whether some may be nowhere.
    fn places(&self, rows: &[Place], nowhere: Place, places: &mut Vec<Place>) -> bool {
        match self.codes {
            None => places.extend_from_slice(rows),
            Some(codes) if codes.null_count() == 0 => {
                let codes = codes.values();
                places.extend(rows.iter().map(|(block, row)| (*block, usize::from(codes[*row]))));
            }
            Some(_) => places.extend(rows.iter().map(|place| self.place(*place, nowhere))),
        }
        self.codes.is_some_and(|codes| codes.null_count() > 0)
    }

    fn place(&self, (block, row): Place, nowhere: Place) -> Place {
        match self.codes {
            None => (block, row),
            Some(codes) if codes.is_null(row) => nowhere,
            Some(codes) => (block, usize::from(codes.value(row))),
        }
    }
}
