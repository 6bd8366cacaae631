//! `generate_series` in FROM: whole numbers, numerics and times.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::catalog::{MemTable, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use keyspan_model::{ColumnType, Error, ErrorKind, Value, array_of};

use super::overload::{scalar_value, zone_of};
use super::time::{parts, to_instant, to_local};
use crate::error::external;
use crate::interrupt;
use crate::types::Zone;
use crate::types::arithmetic::{Op, apply};

/// Rows that a series may have.
const LONGEST: usize = 50_000_000;
/// Rows of a batch, and between two looks whether the statement has ended.
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
        let (ty, values) = series(&scalars, zone)?;
        let schema = Arc::new(Schema::new(vec![ty.field("generate_series", true)]));
        let batches = values.chunks(BATCH).map(|chunk| {
            interrupt::check().map_err(external)?;
            let array = array_of(ty, chunk).map_err(external)?;
            Ok(RecordBatch::try_new(schema.clone(), vec![array])?)
        });
        let batches = batches.collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(MemTable::try_new(schema, vec![batches])?))
    }
}

fn missing() -> Error {
    let message = "function generate_series of these argument types does not exist";
    Error::new(ErrorKind::UndefinedFunction, message).with_hint(
        "Use (integer, integer [, integer]), the same of bigint or numeric, or (timestamp, timestamp, interval).",
    )
}

fn series(scalars: &[ScalarValue], zone: Zone) -> Result<(ColumnType, Vec<Value>)> {
    let types = scalars.iter().map(|scalar| ColumnType::of_arrow(&scalar.data_type())).collect::<Option<Vec<_>>>();
    let types = types.filter(|types| types.len() == 2 || types.len() == 3).ok_or_else(|| external(missing()))?;
    let values =
        scalars.iter().zip(&types).map(|(scalar, ty)| scalar_value(scalar, *ty)).collect::<Result<Vec<_>>>()?;
    use ColumnType as C;
    let whole = |ty: &C| matches!(ty, C::TinyInt | C::SmallInt | C::Int | C::BigInt);
    let ty = if types.iter().all(|ty| matches!(ty, C::TinyInt | C::SmallInt | C::Int)) {
        C::Int
    } else if types.iter().all(whole) {
        C::BigInt
    } else if types.iter().all(|ty| whole(ty) || matches!(ty, C::Decimal { .. })) {
        let scale = types.iter().map(|ty| if let C::Decimal { scale, .. } = ty { *scale } else { 0 }).max();
        C::Decimal { precision: 38, scale: scale.unwrap_or(0) }
    } else {
        match (types[0], types[1], types.get(2)) {
            (C::Timestamp, C::Timestamp, Some(C::Duration)) => C::Timestamp,
            (C::LocalTimestamp | C::Date, C::LocalTimestamp | C::Date, Some(C::Duration)) => C::LocalTimestamp,
            (C::Timestamp | C::Date, C::Timestamp | C::Date, Some(C::Duration)) => C::Timestamp,
            _ => return Err(external(missing())),
        }
    };
    if values.iter().any(Value::is_null) {
        return Ok((ty, Vec::new()));
    }
    let rows =
        if matches!(ty, C::Timestamp | C::LocalTimestamp) { times(&values, ty, zone) } else { numbers(&values, ty) };
    Ok((ty, rows.map_err(external)?))
}

fn numbers(values: &[Value], ty: ColumnType) -> keyspan_model::Result<Vec<Value>> {
    let cast = |value: &Value| value.clone().cast(ty);
    let (mut at, stop) = (cast(&values[0])?, cast(&values[1])?);
    let step = values.get(2).map_or_else(|| Value::Int(1).cast(ty), cast)?;
    let zero = Value::Int(0).cast(ty)?;
    let direction = step.compare(&zero);
    if direction.is_eq() {
        return Err(Error::new(ErrorKind::InvalidParameter, "step size cannot equal zero"));
    }
    let mut rows = Vec::new();
    while at.compare(&stop) != direction {
        rows.push(at.clone());
        check(rows.len())?;
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
    if rows.is_multiple_of(BATCH) { interrupt::check() } else { Ok(()) }
}

fn times(values: &[Value], ty: ColumnType, zone: Zone) -> keyspan_model::Result<Vec<Value>> {
    let at = |value: &Value| crate::functions::time::micros(value);
    let (start, stop) = (at(&values[0])?, at(&values[1])?);
    let (months, days, nanos) = parts(&values[2]);
    let length = (i128::from(months) * 30 + i128::from(days)) * 86_400_000_000_000 + i128::from(nanos);
    if length == 0 {
        return Err(Error::new(ErrorKind::InvalidParameter, "step size cannot equal zero"));
    }
    let zoned = ty == ColumnType::Timestamp;
    let (mut rows, mut at) = (Vec::new(), start);
    while if length > 0 { at <= stop } else { at >= stop } {
        rows.push(Value::Timestamp(at));
        check(rows.len())?;
        let local = if zoned { to_local(at, zone) } else { at };
        let local = super::time::by_calendar(local, i64::from(months), i64::from(days))?;
        let moved = if zoned && (months != 0 || days != 0) {
            to_instant(local, zone)
        } else if zoned {
            at
        } else {
            local
        };
        at = moved + nanos / 1000;
    }
    Ok(rows)
}
