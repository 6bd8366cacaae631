//! The values that rows must have in one indexed column, encoded as value indexes hold them.
//!
//! A value is encoded as the only column of an ascending key, and cut behind [`VALUE_BYTES`]. Rule: a cut value is not
//! greater than one that was greater uncut, so a look-up may find rows that do not match, and never misses one.

use std::ops::{Bound, Range, RangeBounds};

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, StringViewArray};
use arrow::compute::{filter, is_not_null};
use keyspan_model::{ColumnId, ColumnRange, ColumnType, KeyColumn, KeyEncoder, RelationDef, Result, Value, decoded};

use super::{SortedRun, Wanted};
use keyspan_seam::ScanCounters;

/// Longest encoded value that is kept.
pub(crate) const VALUE_BYTES: usize = 128;

/// A range of encoded values: its least and its greatest.
pub(crate) type ValueRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Encodes values of one column for value indexes.
#[derive(Clone, Debug)]
pub(crate) struct ValueEncoder {
    ty: ColumnType,
    encoder: KeyEncoder,
}

/// A column of runs, wherever it stands there.
#[derive(Clone, Debug)]
pub struct IndexedColumn {
    pub(crate) id: ColumnId,
    pub(crate) ty: ColumnType,
    /// Its place in the key; `None`: a value column.
    key: Option<usize>,
    key_columns: usize,
    descending: bool,
}

/// Ranges of one column's values.
#[derive(Clone, Debug)]
pub struct ValueRanges {
    pub(crate) column: IndexedColumn,
    range: ColumnRange,
    encoder: ValueEncoder,
    /// Ascending and disjoint but for what cutting joins.
    ranges: Vec<ValueRange>,
}

impl ValueEncoder {
    pub(crate) fn new(id: ColumnId, ty: ColumnType) -> ValueEncoder {
        let column = KeyColumn { id, name: "value".into(), ty, descending: false };
        ValueEncoder { ty, encoder: KeyEncoder::new(&[column]) }
    }

    /// One value.
    pub(crate) fn value(&self, value: &Value) -> Result<Vec<u8>> {
        let short = match value {
            Value::Text(text) if text.len() > VALUE_BYTES => Some(Value::Text(beginning(text).into())),
            Value::Blob(bytes) if bytes.len() > VALUE_BYTES => Some(Value::Blob(bytes[..VALUE_BYTES].into())),
            _ => None,
        };
        let mut encoded = self.encoder.encode(std::slice::from_ref(short.as_ref().unwrap_or(value)))?;
        encoded.truncate(VALUE_BYTES);
        Ok(encoded)
    }

    /// The values of an array that are not null, to be cut by whoever reads them, and the places of these.
    fn array(&self, values: &ArrayRef) -> Result<(BinaryArray, Vec<u32>)> {
        let values = decoded(values)?;
        let places = |keep: &BooleanArray| keep.values().set_indices().map(|place| place as u32).collect();
        if values.null_count() == 0 {
            let all = (0..values.len() as u32).collect();
            return Ok((self.encoder.encode_batch(&[self.short(values)])?, all));
        }
        let keep = is_not_null(&values)?;
        Ok((self.encoder.encode_batch(&[self.short(filter(&values, &keep)?)])?, places(&keep)))
    }

    /// The values without what is cut anyway, so that none is too long for a key.
    fn short(&self, values: ArrayRef) -> ArrayRef {
        match self.ty {
            ColumnType::Text | ColumnType::Ascii => {
                let texts = values.as_string_view();
                if !texts.iter().flatten().any(|text| text.len() > VALUE_BYTES) {
                    return values;
                }
                std::sync::Arc::new(texts.iter().map(|text| text.map(beginning)).collect::<StringViewArray>())
            }
            ColumnType::Blob => {
                let blobs = values.as_binary::<i32>();
                if !blobs.iter().flatten().any(|blob| blob.len() > VALUE_BYTES) {
                    return values;
                }
                let short = blobs.iter().map(|blob| blob.map(|blob| &blob[..blob.len().min(VALUE_BYTES)]));
                std::sync::Arc::new(short.collect::<BinaryArray>())
            }
            _ => values,
        }
    }
}

/// The beginning of a text: whole characters, at least as many bytes as are kept.
fn beginning(text: &str) -> &str {
    let end = (VALUE_BYTES..text.len()).find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(text.len())]
}

fn cut(value: &[u8]) -> &[u8] {
    &value[..value.len().min(VALUE_BYTES)]
}

impl IndexedColumn {
    /// The column of a relation; `None`: it has none of this id.
    pub(crate) fn new(relation: &RelationDef, id: ColumnId) -> Option<IndexedColumn> {
        let key_columns = relation.key.len();
        if let Some(at) = relation.key_index(id) {
            let own = &relation.key[at];
            return Some(IndexedColumn { id, ty: own.ty, key: Some(at), key_columns, descending: own.descending });
        }
        let ty = relation.value(id)?.ty;
        Some(IndexedColumn { id, ty, key: None, key_columns, descending: false })
    }

    pub(crate) fn encoder(&self) -> ValueEncoder {
        ValueEncoder::new(self.id, self.ty)
    }

    /// Takes the rows of one block that have a value, and the values as they are kept.
    pub(crate) fn each_value<R: SortedRun + ?Sized>(
        &self,
        run: &R,
        rows: Range<usize>,
        counters: &ScanCounters,
        each: &mut dyn FnMut(u32, &[u8]),
    ) -> Result<()> {
        let batch = run.read(rows.clone(), &self.wanted(), counters)?;
        let array = match self.key {
            Some(at) => batch.keys[at].as_ref(),
            None => batch.cells[0].values.as_ref(),
        };
        let Some(array) = array else { return Ok(()) };
        let (values, places) = self.encoder().array(array)?;
        for (at, place) in places.iter().enumerate() {
            each(rows.start as u32 + place, cut(values.value(at)));
        }
        Ok(())
    }

    /// What is read of a run.
    pub(crate) fn wanted(&self) -> Wanted {
        let mut wanted = Wanted { keys: vec![false; self.key_columns], ..Wanted::default() };
        match self.key {
            Some(at) => wanted.keys[at] = true,
            None => wanted.values = vec![self.id],
        }
        wanted
    }

    /// Its place in the key; `None`: a value column.
    pub(crate) fn place_in_key(&self) -> Option<usize> {
        self.key
    }
}

impl ValueRanges {
    /// The values of a range; `None` where the relation has no such column, or a bound is not of its type.
    pub(crate) fn new(relation: &RelationDef, range: &ColumnRange) -> Option<ValueRanges> {
        let column = IndexedColumn::new(relation, range.column)?;
        let encoder = column.encoder();
        let bound = |bound: &Bound<Value>| {
            Some(match bound {
                Bound::Unbounded => Bound::Unbounded,
                Bound::Included(value) => Bound::Included(encoder.value(value).ok()?),
                Bound::Excluded(value) => match encoder.value(value).ok()? {
                    // What was cut may stand for values inside.
                    cut if cut.len() == VALUE_BYTES => Bound::Included(cut),
                    whole => Bound::Excluded(whole),
                },
            })
        };
        let ranges = range.intervals();
        let ranges = ranges.iter().map(|(lower, upper)| Some((bound(lower)?, bound(upper)?)));
        let mut ranges: Vec<_> = ranges.collect::<Option<_>>()?;
        // Values of a list that are cut alike are looked for once.
        ranges.dedup();
        Some(ValueRanges { ranges, range: range.clone(), encoder, column })
    }

    /// In encoded values.
    pub(crate) fn ranges(&self) -> &[ValueRange] {
        &self.ranges
    }

    /// Whether an encoded value is inside; it may be one that was cut.
    pub(crate) fn contain(&self, value: &[u8]) -> bool {
        let behind = |upper: &Bound<Vec<u8>>| match upper {
            Bound::Unbounded => false,
            Bound::Included(last) => last.as_slice() < value,
            Bound::Excluded(end) => end.as_slice() <= value,
        };
        let first = self.ranges.partition_point(|(_, upper)| behind(upper));
        self.ranges.get(first).is_some_and(|range| inside(range, value))
    }

    /// Whether a value is inside.
    pub(crate) fn contain_value(&self, value: &Value) -> bool {
        self.encoder.value(value).is_ok_and(|value| self.contain(&value))
    }

    /// Whether the column's part of an encoded key is inside.
    pub(crate) fn contain_part(&self, part: &[u8]) -> bool {
        let ascending: Vec<u8> = match self.column.descending {
            true => part.iter().map(|byte| !byte).collect(),
            false => part.to_vec(),
        };
        self.contain(cut(&ascending))
    }

    /// Looks through a run: its rows with a value inside, ascending; `None`: more than `most`.
    pub(crate) fn look_through<R: SortedRun + ?Sized>(
        &self,
        run: &R,
        most: usize,
        counters: &ScanCounters,
    ) -> Result<Option<Vec<u32>>> {
        let mut found = Vec::new();
        // What is asked here is what the run's own cells are, so its zones may leave out some whatever other runs say.
        for kept in run.keep(std::slice::from_ref(&self.range), 0..run.meta().all.rows as usize, true) {
            let mut next = kept.start;
            while next < kept.end {
                let part = next..run.block(next, &self.column.wanted()).end.min(kept.end);
                next = part.end;
                let mut inside = |row: u32, value: &[u8]| {
                    if self.contain(value) {
                        found.push(row);
                    }
                };
                self.column.each_value(run, part, counters, &mut inside)?;
                if found.len() > most {
                    return Ok(None);
                }
            }
        }
        Ok(Some(found))
    }
}

/// Whether a range holds a value.
pub(crate) fn inside((lower, upper): &ValueRange, value: &[u8]) -> bool {
    RangeBounds::<[u8]>::contains(&(lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice)), value)
}
