//! Joins of the scan's rows with smaller tables: a row is looked up in each, so that columns there are as its own.
//!
//! ```text
//! trips JOIN zones z ON z.id = from_zone GROUP BY z.borough
//!
//! from_zone  0 0 1 2 1 of [7 9 4]     zones: 4 Bronx, 7 Queens, 9 Bronx     borough  0 0 1 2 1 of [Queens Bronx Bronx]
//! ```
//!
//! Codes stay codes: of a key that is codes each value is looked up once a batch, and only then the rows are.
//!
//! Rule: a row has at most one match. Where keys of a table repeat, the join is DataFusion's
//! ([`super::hash_aggregate`]), unless it asks only whether there is a match.

use std::fmt;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, NullArray, PrimitiveArray, RecordBatch, UInt32Array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat_batches, filter, take};
use arrow::datatypes::{ArrowDictionaryKeyType, DataType, Int64Type, TimeUnit, UInt8Type, UInt32Type};
use datafusion::common::{HashMap, internal_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use futures::TryStreamExt;
use keyspan_model::array::{batch_bytes, rows_of_codes};

use super::exec::Work;
use super::fold::whole_array;
use super::groups::{Column, Interner, Numbered};
use crate::coded_expr::CodedExpr;
use crate::scan::FilteredRows;

/// The row of a key that no row has.
const NONE: u32 = u32::MAX;
/// Values that codes can name, NULL among them. Wide codes are for texts, which are hashed: they are worth while as long
/// as they are no more than the rows of a batch.
const MOST_VALUES: usize = 256;
const MOST_TEXTS: usize = 4096;
/// How many numbers there may be between the least and the greatest for each key of a table, so that its rows are found
/// by an array.
const NUMBERS_OF_A_KEY: u64 = 8;

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// With a match it gets its columns, else it is left out.
    Inner,
    /// Without a match it gets NULLs.
    Outer,
    /// Without a match it is left out.
    Semi,
    /// With a match it is left out.
    Anti,
}

impl Kind {
    /// Whether rows without a match are left out.
    pub(super) fn leaves_out(self) -> bool {
        matches!(self, Kind::Inner | Kind::Semi)
    }
}

/// A table in which rows are looked up.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    pub(super) kind: Kind,
    /// What is looked up, over the scan's columns and those of the tables before.
    pub(super) key: CodedExpr,
    /// What it is equal to, over the table's columns.
    pub(super) table_key: Arc<dyn PhysicalExpr>,
    /// For each column of the table that rows get, whether it is asked for.
    pub(super) wanted: Vec<bool>,
    /// The columns before these that are still asked for once the rows are looked up.
    pub(super) kept: Vec<usize>,
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} = {}", self.kind, self.key.expr(), self.table_key)
    }
}

/// Whether keys of this type can be looked up.
pub(super) fn is_key(ty: &DataType) -> bool {
    is_number(ty) || matches!(ty, DataType::Utf8View | DataType::FixedSizeBinary(_))
}

fn is_number(ty: &DataType) -> bool {
    let whole = matches!(ty, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64);
    whole || matches!(ty, DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, _))
}

/// The rows of the tables.
pub(super) struct TableRows {
    batches: Vec<RecordBatch>,
    memory: MemoryReservation,
}

impl TableRows {
    /// Reads these plans, of one partition each.
    pub(super) async fn read(plans: &[Arc<dyn ExecutionPlan>], context: &Arc<TaskContext>) -> Result<TableRows> {
        let memory = MemoryConsumer::new("GroupedScan tables").register(context.memory_pool());
        let mut batches = Vec::with_capacity(plans.len());
        for plan in plans {
            let mut stream = plan.execute(0, context.clone())?;
            let mut read = Vec::new();
            while let Some(batch) = stream.try_next().await? {
                // Once as they come, once as one batch.
                memory.try_grow(2 * batch_bytes(&batch))?;
                read.push(batch);
            }
            batches.push(concat_batches(&plan.schema(), &read)?);
        }
        Ok(TableRows { batches, memory })
    }

    /// The same as inputs of joins, which count their memory by themselves.
    pub(super) fn into_plans(self) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        self.memory.free();
        let plan = |batch: RecordBatch| {
            let schema = batch.schema();
            Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None)? as Arc<dyn ExecutionPlan>)
        };
        self.batches.into_iter().map(plan).collect()
    }
}

/// What has become of the rows of the tables.
pub(super) enum Prepared {
    Tables(Tables),
    /// A key repeats: the rows again.
    Repeated(TableRows),
}

/// The tables, ready for rows to be looked up.
pub(super) struct Tables {
    tables: Vec<Table>,
    rows: TableRows,
}

impl Tables {
    /// The tables of these rows.
    pub(super) fn prepared(lookups: &[Lookup], rows: TableRows) -> Result<Prepared> {
        let tables = lookups.iter().zip(&rows.batches).map(|(lookup, batch)| Table::new(lookup, batch));
        let Some(tables) = tables.collect::<Result<Option<Vec<_>>>>()? else { return Ok(Prepared::Repeated(rows)) };
        let keys: usize = rows.batches.iter().map(|batch| batch.num_rows() * size_of::<(u64, u32)>()).sum();
        rows.memory.try_grow(keys)?;
        Ok(Prepared::Tables(Tables { tables, rows }))
    }

    /// The rows that they are made of.
    pub(super) fn into_rows(self) -> TableRows {
        self.rows
    }

    /// The scan's rows with the columns of the tables behind their own. Columns that nobody asks for may be of any length,
    /// and of no rows there may be fewer.
    pub(super) fn joined(&self, work: &Work, scanned: FilteredRows) -> Result<FilteredRows> {
        let FilteredRows { mut columns, mut rows } = scanned;
        for (lookup, table) in work.lookups.iter().zip(&self.tables) {
            if rows == 0 {
                break;
            }
            let key = lookup.key.evaluate(&columns, rows)?;
            let mut found = table.find(&key)?;
            if let Some(left) = found.left(lookup.kind) {
                let left = BooleanArray::new(left, None);
                for place in &lookup.kept {
                    columns[*place] = filter(&columns[*place], &left)?;
                }
                found = found.among(&left)?;
                rows = left.true_count();
            }
            for column in &table.columns {
                columns.push(match column {
                    Some(column) => found.column(column)?,
                    None => Arc::new(NullArray::new(rows)),
                });
            }
        }
        Ok(FilteredRows { columns, rows })
    }
}

struct Table {
    rows: RowOfKey,
    /// Those that are asked for.
    columns: Vec<Option<TableColumn>>,
}

struct TableColumn {
    values: ArrayRef,
    /// A code for each row, and what they stand for, where values are few.
    codes: Option<(Codes, ArrayRef)>,
}

#[derive(Debug, PartialEq)]
enum Codes {
    Narrow(Vec<u8>),
    Wide(Vec<u32>),
}

impl Table {
    /// `None` where a key repeats whose row's columns are asked for.
    fn new(lookup: &Lookup, batch: &RecordBatch) -> Result<Option<Table>> {
        let keys = lookup.table_key.evaluate(batch)?.into_array(batch.num_rows())?;
        let may_repeat = matches!(lookup.kind, Kind::Semi | Kind::Anti);
        let Some(rows) = RowOfKey::new(&keys, may_repeat)? else { return Ok(None) };
        let columns = lookup.wanted.iter().zip(batch.columns()).map(|(wanted, values)| {
            let column = || Ok(TableColumn { values: values.clone(), codes: codes(values)? });
            wanted.then(column).transpose()
        });
        Ok(Some(Table { rows, columns: columns.collect::<Result<_>>()? }))
    }

    /// The rows of keys.
    fn find(&self, keys: &ArrayRef) -> Result<Found> {
        if let Some(coded) = keys.as_dictionary_opt::<UInt8Type>() {
            return Ok(Found::OfCodes(coded.clone(), self.rows.of_keys(coded.values())?));
        }
        let Some(coded) = keys.as_dictionary_opt::<UInt32Type>() else {
            return Ok(Found::OfRows(self.rows.of_keys(keys)?));
        };
        let rows = self.rows.of_keys(coded.values())?;
        Ok(Found::OfRows(coded.keys().iter().map(|code| code.map_or(NONE, |code| rows[code as usize])).collect()))
    }
}

/// Codes of a column's values, if these are few.
fn codes(values: &ArrayRef) -> Result<Option<(Codes, ArrayRef)>> {
    let is_text = *values.data_type() == DataType::Utf8View;
    if !is_text && !is_number(values.data_type()) {
        return Ok(None);
    }
    let most = if is_text { MOST_TEXTS } else { MOST_VALUES };
    let (column, mut kept, mut numbered) = (Column::new(values, None)?, Interner::default(), Numbered::default());
    let mut codes = Vec::with_capacity(values.len());
    // The first number is NULL's, which has a code only where there is one.
    let unused = u32::from(values.null_count() == 0);
    let mut firsts: Vec<Option<u32>> = if unused == 0 { vec![None] } else { Vec::new() };
    for row in 0..values.len() {
        let code = numbered.of(column.word(row, &mut kept)?) - unused;
        if code as usize == firsts.len() {
            if firsts.len() == most {
                return Ok(None);
            }
            firsts.push(Some(row as u32));
        }
        codes.push(code);
    }
    let codes = match firsts.len() {
        ..=MOST_VALUES => Codes::Narrow(codes.iter().map(|code| *code as u8).collect()),
        _ => Codes::Wide(codes),
    };
    Ok(Some((codes, take(values, &UInt32Array::from(firsts), None)?)))
}

/// Which row has a key.
enum RowOfKey {
    /// Of numbers from this one on.
    Array(i64, Vec<u32>),
    Numbers(HashMap<i64, u32>),
    Bytes(HashMap<Box<[u8]>, u32>),
}

impl RowOfKey {
    /// `None` where a key repeats, and may not. No key is NULL.
    fn new(keys: &ArrayRef, may_repeat: bool) -> Result<Option<RowOfKey>> {
        let valid = (0..keys.len()).filter(|row| keys.is_valid(*row));
        if !is_number(keys.data_type()) {
            let mut rows = HashMap::with_capacity(keys.len());
            for row in valid {
                if rows.insert(Box::from(bytes(keys, row)?), row as u32).is_some() && !may_repeat {
                    return Ok(None);
                }
            }
            return Ok(Some(RowOfKey::Bytes(rows)));
        }
        let numbers = whole_array::<Int64Type>(keys)?;
        let numbers = numbers.values();
        let bounds = valid.clone().map(|row| numbers[row]).fold(None, |bounds: Option<(i64, i64)>, number| {
            Some(bounds.map_or((number, number), |(least, greatest)| (least.min(number), greatest.max(number))))
        });
        let (least, greatest) = bounds.unwrap_or_default();
        let span = greatest.abs_diff(least);
        if span >= NUMBERS_OF_A_KEY * keys.len() as u64 + MOST_VALUES as u64 {
            let mut rows = HashMap::with_capacity(keys.len());
            for row in valid {
                if rows.insert(numbers[row], row as u32).is_some() && !may_repeat {
                    return Ok(None);
                }
            }
            return Ok(Some(RowOfKey::Numbers(rows)));
        }
        let mut rows = vec![NONE; span as usize + 1];
        for row in valid {
            let place = numbers[row].abs_diff(least) as usize;
            if std::mem::replace(&mut rows[place], row as u32) != NONE && !may_repeat {
                return Ok(None);
            }
        }
        Ok(Some(RowOfKey::Array(least, rows)))
    }

    /// The row of each key.
    fn of_keys(&self, keys: &ArrayRef) -> Result<Vec<u32>> {
        let mut rows: Vec<u32> = match self {
            RowOfKey::Bytes(rows) => {
                let row = |row| Ok(rows.get(bytes(keys, row)?).copied().unwrap_or(NONE));
                (0..keys.len()).map(row).collect::<Result<_>>()?
            }
            RowOfKey::Array(least, rows) => {
                // A number before the first is far behind the last.
                let place = |key: &i64| key.wrapping_sub(*least) as usize;
                let row = |key: &i64| rows.get(place(key)).copied().unwrap_or(NONE);
                whole_array::<Int64Type>(keys)?.values().iter().map(row).collect()
            }
            RowOfKey::Numbers(rows) => {
                let row = |key: &i64| rows.get(key).copied().unwrap_or(NONE);
                whole_array::<Int64Type>(keys)?.values().iter().map(row).collect()
            }
        };
        if let Some(nulls) = keys.nulls().filter(|nulls| nulls.null_count() > 0) {
            rows.iter_mut().zip(nulls).filter(|(_, valid)| !valid).for_each(|(row, _)| *row = NONE);
        }
        Ok(rows)
    }
}

fn bytes(keys: &ArrayRef, row: usize) -> Result<&[u8]> {
    if let Some(texts) = keys.as_string_view_opt() {
        return Ok(texts.value(row).as_bytes());
    }
    match keys.as_fixed_size_binary_opt() {
        Some(bytes) => Ok(bytes.value(row)),
        None => internal_err!("no rows are looked up by {}", keys.data_type()),
    }
}

/// The rows of a table that a batch's rows match.
enum Found {
    /// Codes, and the row of each.
    OfCodes(DictionaryArray<UInt8Type>, Vec<u32>),
    OfRows(Vec<u32>),
}

impl Found {
    /// Which of the batch's rows are left; `None`: all.
    fn left(&self, kind: Kind) -> Option<BooleanBuffer> {
        if kind == Kind::Outer {
            return None;
        }
        let matched = match self {
            Found::OfCodes(coded, rows) => {
                if coded.keys().null_count() == 0 && !rows.contains(&NONE) {
                    BooleanBuffer::new_set(coded.len())
                } else {
                    let mut known = [false; MOST_VALUES];
                    known.iter_mut().zip(rows).for_each(|(known, row)| *known = *row != NONE);
                    rows_of_codes(coded.keys(), &known)
                }
            }
            Found::OfRows(rows) => BooleanBuffer::collect_bool(rows.len(), |row| rows[row] != NONE),
        };
        let left = if kind == Kind::Anti { !&matched } else { matched };
        (left.count_set_bits() < left.len()).then_some(left)
    }

    /// Of these rows.
    fn among(self, left: &BooleanArray) -> Result<Found> {
        Ok(match self {
            Found::OfCodes(coded, rows) => {
                let coded = filter(&coded, left)?;
                Found::OfCodes(coded.as_dictionary::<UInt8Type>().clone(), rows)
            }
            Found::OfRows(rows) => Found::OfRows(left.values().set_indices().map(|row| rows[row]).collect()),
        })
    }

    /// A column of the table for the rows.
    fn column(&self, column: &TableColumn) -> Result<ArrayRef> {
        match (self, &column.codes) {
            (Found::OfCodes(coded, rows), _) => Ok(Arc::new(coded.with_values(taken(&column.values, rows)?))),
            (Found::OfRows(rows), Some((Codes::Narrow(codes), values))) => coded::<UInt8Type>(codes, rows, values),
            (Found::OfRows(rows), Some((Codes::Wide(codes), values))) => coded::<UInt32Type>(codes, rows, values),
            (Found::OfRows(rows), None) => taken(&column.values, rows),
        }
    }
}

/// The codes of rows, NULL where there is none.
fn coded<T: ArrowDictionaryKeyType>(codes: &[T::Native], rows: &[u32], values: &ArrayRef) -> Result<ArrayRef> {
    let codes: PrimitiveArray<T> = match rows.contains(&NONE) {
        true => rows.iter().map(|row| codes.get(*row as usize).copied()).collect(),
        false => PrimitiveArray::from_iter_values(rows.iter().map(|row| codes[*row as usize])),
    };
    Ok(Arc::new(DictionaryArray::try_new(codes, values.clone())?))
}

/// The values of rows, NULL where there is none.
fn taken(values: &ArrayRef, rows: &[u32]) -> Result<ArrayRef> {
    let rows = match rows.contains(&NONE) {
        true => rows.iter().map(|row| (*row != NONE).then_some(*row)).collect(),
        false => PrimitiveArray::from(rows.to_vec()),
    };
    let rows: UInt32Array = rows;
    Ok(take(values, &rows, None)?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, Int64Array, StringViewArray};

    use super::*;

    fn rows(keys: ArrayRef, may_repeat: bool) -> Option<RowOfKey> {
        RowOfKey::new(&keys, may_repeat).expect("keys")
    }

    #[test]
    fn a_key_has_one_row_or_none() {
        let near =
            rows(Arc::new(Int64Array::from(vec![Some(7), None, Some(-3), Some(9)])), false).expect("no key twice");
        assert!(matches!(near, RowOfKey::Array(-3, _)));
        let far = rows(Arc::new(Int64Array::from(vec![Some(7), None, Some(i64::MIN), Some(i64::MAX)])), false);
        let far = far.expect("no key twice");
        assert!(matches!(far, RowOfKey::Numbers(_)));
        let keys: ArrayRef =
            Arc::new(Int64Array::from(vec![None, Some(7), Some(i64::MIN), Some(-4), Some(10), Some(9)]));
        assert_eq!(near.of_keys(&keys).expect("rows"), [NONE, 0, NONE, NONE, NONE, 3]);
        assert_eq!(far.of_keys(&keys).expect("rows"), [NONE, 0, 2, NONE, NONE, NONE]);
        // Keys of another width are the same numbers.
        let narrow: ArrayRef = Arc::new(Int32Array::from(vec![Some(9), None, Some(-3)]));
        assert_eq!(near.of_keys(&narrow).expect("rows"), [3, NONE, 2]);
        let texts =
            rows(Arc::new(StringViewArray::from(vec![Some("a"), None, Some("")])), false).expect("no key twice");
        let keys: ArrayRef = Arc::new(StringViewArray::from(vec![Some(""), Some("b"), None, Some("a")]));
        assert_eq!(texts.of_keys(&keys).expect("rows"), [2, NONE, NONE, 0]);
    }

    #[test]
    fn keys_that_repeat_are_seen() {
        let repeated: [ArrayRef; 3] = [
            Arc::new(Int64Array::from(vec![1, 2, 1])),
            Arc::new(Int64Array::from(vec![1, i64::MAX, 1])),
            Arc::new(StringViewArray::from(vec!["a", "b", "a"])),
        ];
        for keys in repeated {
            assert!(rows(keys.clone(), false).is_none());
            assert!(rows(keys, true).is_some());
        }
        assert!(rows(Arc::new(Int64Array::from(vec![None, None, Some(1)])), false).is_some(), "NULL is no key");
    }

    #[test]
    fn few_values_have_codes() {
        let texts: ArrayRef =
            Arc::new(StringViewArray::from(vec![Some("b"), Some("b"), None, Some("a"), None, Some("b")]));
        let (codes_of_rows, values) = codes(&texts).expect("codes").expect("few");
        assert_eq!(codes_of_rows, Codes::Narrow(vec![1, 1, 0, 2, 0, 1]));
        assert_eq!(values.as_string_view().iter().collect::<Vec<_>>(), [None, Some("b"), Some("a")]);
        let numbers = |count: i64| Arc::new(Int64Array::from_iter_values(0..count)) as ArrayRef;
        assert!(codes(&numbers(256)).expect("codes").is_some());
        assert!(codes(&numbers(257)).expect("codes").is_none());
        let texts = |count: usize| Arc::new(StringViewArray::from_iter_values((0..count).map(|n| n.to_string())));
        let (wide, _) = codes(&(texts(MOST_TEXTS) as ArrayRef)).expect("codes").expect("few");
        assert_eq!(wide, Codes::Wide((0..MOST_TEXTS as u32).collect()));
        assert!(codes(&(texts(MOST_TEXTS + 1) as ArrayRef)).expect("codes").is_none());
    }
}
