//! The cells of a batch of rows: the newest version of each, as maps; of sets and lists as arrays.
//!
//! Few rows are read by a span each; where their cells lie close together, by one span over all of them.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, ListArray, MapArray, RecordBatch, StructArray, UInt32Array, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{DataType, Field};
use futures::TryStreamExt;
use keyspan_model::array::{array_of, value_at};
use keyspan_model::json::Json;
use keyspan_model::{
    ColumnBuilder, ColumnType, FamilyDef, FamilyKind, KeyEncoder, RelationDef, RelationKind, Result, Scan, ScanColumn,
    Span, Value,
};
use keyspan_seam::{Conditions, Known, ScanCounters, Snapshot};

use super::history::{self, History};
use super::{entries_field, family_field};
use crate::error::from_datafusion;
use crate::functions::json::{Form, value_text};
use crate::types::Zone;

/// Spans of one scan at most.
const SPANS_MAX: usize = 256;
/// One span over all rows is read where it has at most so many cells for each of them.
const CELLS_A_ROW: u64 = 64;

/// What is read of a family.
#[derive(Clone, Debug)]
pub struct FamilyRead {
    /// The family.
    pub family: FamilyDef,
    /// Its relation.
    pub relation: Arc<RelationDef>,
    /// Only cells of these qualifiers; `None`: all.
    pub only: Option<Vec<Value>>,
    /// Other versions than the newest.
    pub history: Option<Arc<History>>,
}

/// Cells with their paths: the encoded row key and qualifier.
pub(super) struct Cells {
    /// Key columns, then the value.
    pub(super) batch: RecordBatch,
    paths: BinaryArray,
}

impl FamilyRead {
    fn entries_field(&self) -> Field {
        entries_field(&self.family, self.history.as_deref())
    }

    /// Columns of the row key.
    fn row_key(&self) -> usize {
        self.path() - self.family.qualifier.len()
    }

    /// Columns of a cell's path: of its key without the version.
    fn path(&self) -> usize {
        self.relation.given_key().len()
    }

    /// The maps of rows that have no cells.
    pub fn no_cells(&self, rows: usize) -> MapArray {
        new_null_array(&DataType::Map(Arc::new(self.entries_field()), false), rows).as_map().clone()
    }

    /// The maps of rows that have these qualifiers and values, each qualifier once.
    pub fn of_values(&self, mut rows: Vec<Vec<(Value, Value)>>) -> Result<MapArray> {
        let encoder = KeyEncoder::new(&self.family.qualifier);
        for row in &mut rows {
            row.sort_by_cached_key(|(key, _)| encoder.encode(&self.family.qualifier_parts(key)).unwrap_or_default());
        }
        let entries_field = Arc::new(self.entries_field());
        let DataType::Struct(fields) = entries_field.data_type() else { unreachable!("entries are a struct") };
        let nulls: NullBuffer = rows.iter().map(|row| !row.is_empty()).collect();
        let offsets = OffsetBuffer::from_lengths(rows.iter().map(Vec::len));
        let (keys, values): (Vec<Value>, Vec<Value>) = rows.into_iter().flatten().unzip();
        let columns = vec![array_of(self.family.qualifier_type(), &keys)?, array_of(self.family.value.ty, &values)?];
        let entries = StructArray::try_new(fields.clone(), columns, None)?;
        Ok(MapArray::try_new(entries_field, offsets, entries, Some(nulls), false)?)
    }

    /// The family as a client gets it: a map is `jsonb`.
    pub fn answer(&self, maps: MapArray, zone: Zone) -> Result<ArrayRef> {
        if self.family.array_type().is_some() {
            return self.shown(maps);
        }
        let field = family_field(&self.family, self.history.as_deref());
        let maps: ArrayRef = Arc::new(maps);
        let text = |row| match maps.is_null(row) {
            true => Ok(Value::Null),
            false => {
                let json = value_text(&field, &maps, row, Form::Postgres(zone)).map_err(from_datafusion)?;
                Json::parse(&json).map(|json| Value::Text(json.to_string()))
            }
        };
        array_of(ColumnType::Jsonb, &(0..maps.len()).map(text).collect::<Result<Vec<_>>>()?)
    }

    /// The family as [`super::family_field`] has it.
    pub fn shown(&self, maps: MapArray) -> Result<ArrayRef> {
        let Some(ty) = self.family.array_type() else { return Ok(Arc::new(maps)) };
        let place = usize::from(self.family.kind != FamilyKind::Set);
        let DataType::List(item) = ty.arrow() else { return self.packed(&maps, place, ty) };
        let (_, offsets, entries, nulls, _) = maps.into_parts();
        let elements = entries.column(place);
        Ok(Arc::new(ListArray::try_new(item, offsets, elements.clone(), nulls)?))
    }

    /// The elements of each row, which nest, as one value.
    fn packed(&self, maps: &MapArray, place: usize, ty: ColumnType) -> Result<ArrayRef> {
        let element = if place == 0 { self.family.qualifier_type() } else { self.family.value.ty };
        let elements = maps.entries().column(place);
        let mut lists = ColumnBuilder::with_capacity(ty, maps.len());
        for (row, bounds) in maps.offsets().windows(2).enumerate() {
            if maps.is_null(row) {
                lists.append_null();
                continue;
            }
            let items = bounds[0] as usize..bounds[1] as usize;
            let items = items.map(|item| value_at(elements, item, element)).collect::<Result<_>>()?;
            lists.append(&Value::List(items))?;
        }
        Ok(lists.finish())
    }

    /// The map of each row: null where a row has no cells. `keys` are the row's key columns, in key order.
    pub async fn maps(&self, snapshot: &Arc<dyn Snapshot>, keys: &[ArrayRef], rows: usize) -> Result<MapArray> {
        let own = KeyEncoder::new(&self.relation.key[..self.row_key()]);
        let encoded = own.encode_batch(keys)?;
        let mut order: Vec<usize> = (0..rows).collect();
        order.sort_by(|a, b| encoded.value(*a).cmp(encoded.value(*b)));
        let mut found = Vec::new();
        for spans in self.scans(snapshot, keys, &order).await? {
            found.extend(self.read(snapshot, spans).await?);
        }
        let cells = self.cells(snapshot, found)?;
        let kept = self.newest(&cells)?;
        if !self.history.as_ref().is_some_and(|history| history.arrays) {
            let values = cells.batch.column(self.relation.key.len());
            return self.as_maps(&cells, &kept, |taken| Ok(take(values, taken, None)?), &encoded, &order);
        }
        let path = |cell: u32| cells.paths.value(cell as usize);
        let (newest, groups) = history::grouped(&kept, |a, b| path(a) == path(b));
        let values = |taken: &UInt32Array| history::arrays(&self.family, &cells, &groups, taken);
        self.as_maps(&cells, &newest, values, &encoded, &order)
    }

    /// The spans to read, scan by scan.
    async fn scans(&self, snapshot: &Arc<dyn Snapshot>, keys: &[ArrayRef], order: &[usize]) -> Result<Vec<Vec<Span>>> {
        let key = |row: usize| -> Result<Vec<Value>> {
            let values = keys.iter().zip(&self.relation.key);
            values.map(|(array, column)| value_at(array, row, column.ty)).collect()
        };
        let (Some(first), Some(last)) = (order.first(), order.last()) else { return Ok(Vec::new()) };
        let spans_of_a_row = self.only.as_ref().map_or(1, Vec::len);
        if order.len() * spans_of_a_row > SPANS_MAX {
            let whole = Span { start: Bound::Included(key(*first)?), end: Bound::Included(key(*last)?) };
            let scan = self.scan(vec![whole.clone()]);
            let planned = snapshot.plan(&scan, 1).await?;
            let (Known::Exact(cells) | Known::Estimate(cells)) = planned.statistics.rows else {
                return Ok(vec![vec![whole]]);
            };
            if cells <= CELLS_A_ROW * order.len() as u64 {
                return Ok(vec![vec![whole]]);
            }
        }
        let mut spans = Vec::with_capacity(order.len() * spans_of_a_row);
        for row in order {
            let key = key(*row)?;
            match self.sorted_only()? {
                None => spans.push(Span::prefix(key)),
                Some(only) => spans.extend(only.iter().map(|qualifier| {
                    Span::prefix(key.iter().cloned().chain(self.family.qualifier_parts(qualifier)).collect())
                })),
            }
        }
        Ok(spans.chunks(SPANS_MAX).map(<[Span]>::to_vec).collect())
    }

    /// The wanted qualifiers in key order, each once.
    fn sorted_only(&self) -> Result<Option<Vec<Value>>> {
        let Some(only) = &self.only else { return Ok(None) };
        let encoder = KeyEncoder::new(&self.family.qualifier);
        let mut encoded = Vec::with_capacity(only.len());
        for qualifier in only {
            encoded.push((encoder.encode(&self.family.qualifier_parts(qualifier))?, qualifier.clone()));
        }
        encoded.sort_by(|a, b| a.0.cmp(&b.0));
        encoded.dedup_by(|a, b| a.0 == b.0);
        Ok(Some(encoded.into_iter().map(|(_, qualifier)| qualifier).collect()))
    }

    /// The newest versions in these spans: all key columns, then the value.
    fn scan(&self, spans: Vec<Span>) -> Scan {
        let key = self.relation.key.iter().map(|column| ScanColumn::Column(column.id));
        let columns = key.chain([ScanColumn::Column(self.family.value.id)]).collect();
        let per_prefix = (self.has_versions() && self.history.is_none()).then(|| (self.path(), 1));
        Scan { per_prefix, ..Scan::new(self.relation.id, spans, columns) }
    }

    fn has_versions(&self) -> bool {
        self.relation.kind == RelationKind::Family
    }

    async fn read(&self, snapshot: &Arc<dyn Snapshot>, spans: Vec<Span>) -> Result<Vec<RecordBatch>> {
        let scan = self.scan(spans);
        let planned = snapshot.plan(&scan, 1).await?;
        let counters = Arc::new(ScanCounters::default());
        let mut batches = Vec::new();
        for split in &planned.splits {
            let stream = snapshot.scan(&scan, split, Conditions::default(), counters.clone())?;
            batches.extend(stream.try_collect::<Vec<_>>().await?);
        }
        Ok(batches)
    }

    fn cells(&self, snapshot: &Arc<dyn Snapshot>, batches: Vec<RecordBatch>) -> Result<Cells> {
        let schema = snapshot.schema(self.relation.id, &self.scan(Vec::new()).columns)?;
        let batch = concat_batches(&schema, &batches)?;
        let path = self.path();
        let paths = KeyEncoder::new(&self.relation.key[..path]).encode_batch(&batch.columns()[..path]);
        Ok(Cells { paths: paths?, batch })
    }

    /// Cells by path, the newest version of each. Of a store that does all it is asked for, these are all in their order.
    fn newest(&self, cells: &Cells) -> Result<Vec<u32>> {
        let path = |cell: &u32| cells.paths.value(*cell as usize);
        let mut order: Vec<u32> = (0..cells.batch.num_rows() as u32).collect();
        if !order.is_sorted_by(|a, b| path(a) < path(b)) {
            let written = self.has_versions().then(|| history::written(cells)).flatten();
            let written = |cell: &u32| written.as_ref().map(|written| written(*cell));
            order.sort_by(|a, b| path(a).cmp(path(b)).then(written(b).cmp(&written(a))));
            if self.history.is_none() {
                order.dedup_by(|a, b| path(a) == path(b));
            }
        }
        if let Some(history) = &self.history
            && let Some(written) = history::written(cells)
        {
            order = history.kept(order, written, |a, b| path(&a) == path(&b));
        }
        let Some(only) = &self.only else { return Ok(order) };
        let encoder = KeyEncoder::new(&self.family.qualifier);
        let wanted = only.iter().map(|qualifier| encoder.encode(&self.family.qualifier_parts(qualifier)));
        let wanted = wanted.collect::<Result<BTreeSet<_>>>()?;
        let own = KeyEncoder::new(&self.relation.key);
        order.retain(|cell| {
            let path = path(cell);
            wanted.contains(&path[own.prefix_len(path, self.row_key())..])
        });
        Ok(order)
    }

    /// The cells of each row as its map. Rows in key order meet cells in key order.
    fn as_maps(
        &self,
        cells: &Cells,
        newest: &[u32],
        values: impl Fn(&UInt32Array) -> Result<ArrayRef>,
        keys: &BinaryArray,
        order: &[usize],
    ) -> Result<MapArray> {
        let mut places = vec![0..0; keys.len()];
        let mut next = 0;
        for row in order {
            let key = keys.value(*row);
            let path = |cell: u32| cells.paths.value(cell as usize);
            while next < newest.len() && path(newest[next]) < key {
                next += 1;
            }
            let first = next;
            while next < newest.len() && path(newest[next]).starts_with(key) {
                next += 1;
            }
            places[*row] = first..next;
        }
        let taken: UInt32Array = places.iter().flat_map(|place| newest[place.clone()].iter().copied()).collect();
        let nulls: NullBuffer = places.iter().map(|place| !place.is_empty()).collect();
        let offsets = OffsetBuffer::from_lengths(places.iter().map(|place| place.len()));
        let entries_field = Arc::new(self.entries_field());
        let DataType::Struct(fields) = entries_field.data_type() else { unreachable!("entries are a struct") };
        let columns = vec![self.qualifiers(cells, &taken)?, values(&taken)?];
        let entries = StructArray::try_new(fields.clone(), columns, None)?;
        Ok(MapArray::try_new(entries_field, offsets, entries, Some(nulls), false)?)
    }

    /// The qualifiers of cells, each as one value.
    fn qualifiers(&self, cells: &Cells, taken: &UInt32Array) -> Result<ArrayRef> {
        let first = self.row_key();
        if !self.family.several_parts {
            return Ok(take(cells.batch.column(first), taken, None)?);
        }
        let mut qualifiers = ColumnBuilder::with_capacity(self.family.qualifier_type(), taken.len());
        for cell in taken.values() {
            let parts = self.family.qualifier.iter().zip(&cells.batch.columns()[first..]);
            let parts = parts.map(|(part, array)| value_at(array, *cell as usize, part.ty));
            qualifiers.append(&Value::Tuple(parts.collect::<Result<_>>()?))?;
        }
        Ok(qualifiers.finish())
    }
}
