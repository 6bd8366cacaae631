//! `generate_series`: whole numbers, numerics and times; as a table where its arguments are constants, else as a list.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanBufferBuilder, Int64Array, ListArray, RecordBatch, TimestampMicrosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{MemTable, Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, TableType};
use datafusion::physical_plan::ExecutionPlan;
use keyspan_model::{ColumnType, Error, ErrorKind, Value, array_of};

use super::list::ListFunction;
use super::overload::{scalar_value, zone_of};
use super::time::{overflow, parts, to_instant, to_local};
use crate::error::external;
use crate::interrupt;
use crate::types::arithmetic::{Op, apply};
use crate::types::cast::cast_value;
use crate::types::{Ty, Zone, field_type};

/// Rows that a series may have.
const LONGEST: usize = 50_000_000;
/// Rows between two looks whether the statement has ended.
const BATCH: usize = 8192;

/// `generate_series(start, stop [, step])`.
#[derive(Debug)]
pub struct GenerateSeries;

impl TableFunctionImpl for GenerateSeries {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let scalars = args.exprs().iter().map(|expr| match expr {
            Expr::Literal(scalar, _) => Ok(scalar.clone()),
            other => {
                Err(external(Error::not_supported(format!("generate_series() in FROM needs constants, not {other}"))))
            }
        });
        let scalars = scalars.collect::<Result<Vec<ScalarValue>>>()?;
        let zone = zone_of(args.session().config_options())?;
        let given: Vec<Ty> = scalars.iter().map(|scalar| type_of(&scalar.data_type())).collect();
        let series = Series::of(&given).ok_or_else(missing)?;
        let schema = Arc::new(Schema::new(vec![series.ty.field("generate_series", true)]));
        let memory = MemoryConsumer::new("generate_series").register(&args.session().runtime_env().memory_pool);
        let rows = series.elements(&scalars, &given, zone, &|bytes| memory.try_grow(bytes))?;
        let rows = rows.map_or_else(|| series.nothing(), Ok)?;
        // One batch: several would be dealt out to partitions, and come in any order.
        let batch = RecordBatch::try_new(schema.clone(), vec![rows])?;
        Ok(Arc::new(SeriesTable { rows: MemTable::try_new(schema, vec![vec![batch]])?, _memory: memory }))
    }
}

/// The elements of a series as rows.
#[derive(Debug)]
struct SeriesTable {
    rows: MemTable,
    _memory: MemoryReservation,
}

#[async_trait]
impl TableProvider for SeriesTable {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.rows.scan(state, projection, filters, limit).await
    }
}

/// `generate_series` as a list, around which [`crate::semantics::expand`] puts `unnest`.
pub const AS_LIST: &str = "generate_series_list";

/// The function.
pub fn functions() -> [ListFunction; 1] {
    [ListFunction::new(AS_LIST, 2, returns, list).or_with(3)]
}

fn returns(name: &'static str, arguments: &[FieldRef]) -> Result<Field> {
    let given: Vec<Ty> = arguments.iter().map(|field| field_type(field)).collect();
    let series = Series::of(&given).ok_or_else(missing)?;
    Ok(Field::new(name, series.list_type(), true))
}

fn list(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let given: Vec<Ty> = args.arg_fields.iter().map(|field| field_type(field)).collect();
    let series = Series::of(&given).ok_or_else(missing)?;
    let zone = zone_of(&args.config_options)?;
    let columns = args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<Vec<ArrayRef>>>()?;
    let (mut items, mut lengths, mut valid) = (Vec::new(), Vec::new(), BooleanBufferBuilder::new(args.number_rows));
    for row in 0..args.number_rows {
        let scalars =
            columns.iter().map(|column| ScalarValue::try_from_array(column, row)).collect::<Result<Vec<_>>>()?;
        let elements = series.elements(&scalars, &given, zone, &|_| Ok(()))?;
        valid.append(elements.is_some());
        let elements = elements.map_or_else(|| series.nothing(), Ok)?;
        lengths.push(elements.len());
        items.push(elements);
    }
    let parts: Vec<&dyn Array> = items.iter().map(|array| array.as_ref()).collect();
    let items = if parts.is_empty() { series.nothing()? } else { concat(&parts)? };
    let offsets = OffsetBuffer::from_lengths(lengths);
    let DataType::List(item) = series.list_type() else { return Err(missing()) };
    Ok(ColumnarValue::Array(Arc::new(ListArray::try_new(item, offsets, items, Some(NullBuffer::new(valid.finish())))?)))
}

fn missing() -> datafusion::error::DataFusionError {
    let message = "function generate_series of these argument types does not exist";
    external(Error::new(ErrorKind::UndefinedFunction, message).with_hint(
        "Use (integer, integer [, integer]), the same of bigint or numeric, or (timestamp, timestamp, interval).",
    ))
}

fn type_of(ty: &DataType) -> Ty {
    match ty {
        DataType::Utf8 | DataType::Utf8View | DataType::Null => Ty::Unknown,
        ty => ColumnType::of_arrow(ty).map_or_else(|| Ty::Other(ty.clone()), Ty::Known),
    }
}

/// Which series some arguments ask for.
struct Series {
    /// Of its elements, and so of the first two arguments.
    ty: ColumnType,
    step: ColumnType,
}

impl Series {
    /// The series for arguments of these types; a literal of no type is whatever the others want.
    fn of(given: &[Ty]) -> Option<Series> {
        use ColumnType as C;
        if given.len() != 2 && given.len() != 3 {
            return None;
        }
        let known = |ty: &Ty| match ty {
            // A literal that was computed ahead has lost that it has no type.
            Ty::Known(C::Text) | Ty::Unknown => Some(None),
            Ty::Known(ty) => Some(Some(*ty)),
            Ty::Other(_) => None,
        };
        let types: Vec<Option<C>> = given.iter().map(known).collect::<Option<_>>()?;
        let of = |kind: &dyn Fn(C) -> bool| types.iter().flatten().all(|ty| kind(*ty));
        let ends = &types[..2];
        let moves_by_time = types.get(2) == Some(&Some(C::Duration));
        if ends.iter().flatten().next().is_none() && !moves_by_time {
            return None;
        }
        let timed = ends.iter().flatten().all(|ty| matches!(ty, C::Timestamp | C::LocalTimestamp | C::Date));
        if timed && given.len() == 3 && matches!(types[2], None | Some(C::Duration)) {
            let local = ends.contains(&Some(C::LocalTimestamp)) && !ends.contains(&Some(C::Timestamp));
            let ty = if local { C::LocalTimestamp } else { C::Timestamp };
            return Some(Series { ty, step: C::Duration });
        }
        let ty = if of(&|ty| matches!(ty, C::TinyInt | C::SmallInt | C::Int)) {
            C::Int
        } else if of(&|ty| matches!(ty, C::TinyInt | C::SmallInt | C::Int | C::BigInt)) {
            C::BigInt
        } else if of(&|ty| matches!(ty, C::TinyInt | C::SmallInt | C::Int | C::BigInt | C::Decimal { .. })) {
            let scale = types.iter().map(|ty| if let Some(C::Decimal { scale, .. }) = ty { *scale } else { 0 }).max();
            C::Decimal { precision: 38, scale: scale.unwrap_or(0) }
        } else {
            return None;
        };
        Some(Series { ty, step: ty })
    }

    fn list_type(&self) -> DataType {
        DataType::List(Arc::new(self.ty.field(Field::LIST_FIELD_DEFAULT_NAME, true)))
    }

    fn nothing(&self) -> Result<ArrayRef> {
        array_of(self.ty, &[]).map_err(external)
    }

    /// The elements; `None` if an argument is null. `grow` is asked for the bytes that they take.
    fn elements(
        &self,
        scalars: &[ScalarValue],
        given: &[Ty],
        zone: Zone,
        grow: &dyn Fn(usize) -> Result<()>,
    ) -> Result<Option<ArrayRef>> {
        let mut values = Vec::with_capacity(scalars.len());
        for (at, (scalar, given)) in scalars.iter().zip(given).enumerate() {
            if scalar.is_null() {
                return Ok(None);
            }
            let from = given.known().unwrap_or(ColumnType::Text);
            let to = if at == 2 { self.step } else { self.ty };
            let value = scalar_value(scalar, from)?;
            values.push(cast_value(value, from, to, zone).map_err(external)?);
        }
        let array = match self.ty {
            ColumnType::Int | ColumnType::BigInt => {
                let step = values.get(2).map_or(1, whole);
                let numbers = numbers(whole(&values[0]), whole(&values[1]), step, grow)?;
                match self.ty {
                    ColumnType::Int => cast(&Int64Array::from(numbers), &DataType::Int32)?,
                    _ => Arc::new(Int64Array::from(numbers)),
                }
            }
            ColumnType::Timestamp | ColumnType::LocalTimestamp => {
                let times = TimestampMicrosecondArray::from(times_between(&values, self.ty, zone, grow)?);
                cast(&times, &self.ty.arrow())?
            }
            _ => array_of(self.ty, &decimals(&values, self.ty, grow)?).map_err(external)?,
        };
        Ok(Some(array))
    }
}

fn whole(value: &Value) -> i64 {
    match value {
        Value::Int(value) => i64::from(*value),
        Value::BigInt(value) => *value,
        _ => 0,
    }
}

/// From one number to the other by steps.
fn numbers(start: i64, stop: i64, step: i64, grow: &dyn Fn(usize) -> Result<()>) -> Result<Vec<i64>> {
    if step == 0 {
        return Err(external(Error::new(ErrorKind::InvalidParameter, "step size cannot equal zero")));
    }
    let away = (i128::from(stop) - i128::from(start)) / i128::from(step);
    let ahead = if step > 0 { start <= stop } else { start >= stop };
    let count = if ahead { usize::try_from(away + 1).unwrap_or(usize::MAX) } else { 0 };
    check(count).map_err(external)?;
    grow(count * size_of::<i64>())?;
    let mut numbers = Vec::with_capacity(count);
    let mut at = start;
    for place in 0..count {
        if place.is_multiple_of(BATCH) {
            interrupt::check().map_err(external)?;
        }
        numbers.push(at);
        at = at.wrapping_add(step);
    }
    Ok(numbers)
}

fn decimals(values: &[Value], ty: ColumnType, grow: &dyn Fn(usize) -> Result<()>) -> Result<Vec<Value>> {
    let cast = |value: &Value| value.clone().cast(ty).map_err(external);
    let (mut at, stop) = (cast(&values[0])?, cast(&values[1])?);
    let step = values.get(2).map_or_else(|| cast(&Value::Int(1)), cast)?;
    let zero = cast(&Value::Int(0))?;
    let direction = step.compare(&zero);
    if direction.is_eq() {
        return Err(external(Error::new(ErrorKind::InvalidParameter, "step size cannot equal zero")));
    }
    let mut rows = Vec::new();
    while at.compare(&stop) != direction {
        more(rows.len(), size_of::<Value>(), grow)?;
        rows.push(at.clone());
        // Past the last number of the type there is none.
        match apply(Op::Add, &at, &step, ty) {
            Ok(next) => at = next,
            Err(_) => break,
        }
    }
    Ok(rows)
}

fn check(rows: usize) -> keyspan_model::Result<()> {
    if rows > LONGEST {
        return Err(Error::new(ErrorKind::LimitExceeded, format!("generate_series() is limited to {LONGEST} rows")));
    }
    Ok(())
}

/// Before one more element of this size is kept beside so many.
fn more(rows: usize, size: usize, grow: &dyn Fn(usize) -> Result<()>) -> Result<()> {
    if rows.is_multiple_of(BATCH) {
        interrupt::check().map_err(external)?;
        grow(BATCH * size)?;
    }
    check(rows + 1).map_err(external)
}

fn times_between(values: &[Value], ty: ColumnType, zone: Zone, grow: &dyn Fn(usize) -> Result<()>) -> Result<Vec<i64>> {
    let at = |value: &Value| crate::functions::time::micros(value).map_err(external);
    let (start, stop) = (at(&values[0])?, at(&values[1])?);
    let (months, days, nanos) = parts(&values[2]);
    let length = (i128::from(months) * 30 + i128::from(days)) * 86_400_000_000_000 + i128::from(nanos);
    if length == 0 {
        return Err(external(Error::new(ErrorKind::InvalidParameter, "step size cannot equal zero")));
    }
    let zoned = ty == ColumnType::Timestamp;
    let (mut rows, mut at) = (Vec::new(), start);
    while if length > 0 { at <= stop } else { at >= stop } {
        more(rows.len(), size_of::<i64>(), grow)?;
        rows.push(at);
        let local = if zoned { to_local(at, zone) } else { at };
        let local = super::time::by_calendar(local, i64::from(months), i64::from(days)).map_err(external)?;
        let moved = if zoned && (months != 0 || days != 0) {
            to_instant(local, zone)
        } else if zoned {
            at
        } else {
            local
        };
        at = moved.checked_add(nanos / 1000).ok_or_else(|| external(overflow("timestamp out of range")))?;
    }
    Ok(rows)
}
