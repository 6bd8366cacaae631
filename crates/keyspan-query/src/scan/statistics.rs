//! What the optimizer is told of a scan's rows: exact only where the snapshot says so and the spans answer every filter.

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::error::Result;
use keyspan_model::{ScanColumn, Value};
use keyspan_seam::{Known, ScanStatistics};

use super::exec::SpanScanExec;
use super::read::ReadColumn;
use super::selectivity::selectivity;
use crate::types::scalar_of;

/// Rows below which a scan is one partition: a second task costs more than it saves.
const FEW_ROWS: u64 = 32_768;

/// Whether so few rows are expected that a second task costs more than it saves.
pub(super) fn is_few(statistics: &ScanStatistics) -> bool {
    estimated_rows(statistics).is_some_and(|rows| rows < FEW_ROWS)
}

/// Whether so many rows are few.
pub(super) fn are_few(rows: usize) -> bool {
    (rows as u64) < FEW_ROWS
}

/// The rows expected, if the store says.
pub(super) fn estimated_rows(statistics: &ScanStatistics) -> Option<u64> {
    match statistics.rows {
        Known::Exact(rows) | Known::Estimate(rows) => Some(rows),
        Known::Unknown => None,
    }
}

/// Statistics of the whole scan; of one partition only guesses.
pub(super) fn statistics(exec: &SpanScanExec, partition: Option<usize>) -> Result<Statistics> {
    if exec.scan.per_prefix.is_some() {
        return Ok(Statistics::new_unknown(&exec.schema));
    }
    let inexact = exec.plan.filter.is_some() || partition.is_some();
    let estimate = &exec.estimate;
    let weaken = |precision: Precision<usize>| if inexact { precision.to_inexact() } else { precision };
    // Of no rows there is nothing to guess.
    let part = if inexact { selectivity(exec) } else { 1.0 };
    let kept = |count: &u64| usize::try_from(if *count == 0 { 0 } else { ((*count as f64 * part) as u64).max(1) }).ok();
    let num_rows = weaken(precision(&estimate.rows, kept));
    let bytes = weaken(precision(&estimate.bytes, kept));
    let columns = exec.output.iter().map(|place| column(exec, *place, inexact, &num_rows));
    let statistics = Statistics { num_rows, total_byte_size: bytes, column_statistics: columns.collect() };
    statistics.with_fetch(exec.fetch, 0, 1)
}

fn precision<T, P: Clone + std::fmt::Debug + PartialEq + Eq + PartialOrd>(
    known: &Known<T>,
    convert: impl Fn(&T) -> Option<P>,
) -> Precision<P> {
    match known {
        Known::Exact(value) => convert(value).map_or(Precision::Absent, Precision::Exact),
        Known::Estimate(value) => convert(value).map_or(Precision::Absent, Precision::Inexact),
        Known::Unknown => Precision::Absent,
    }
}

/// How far apart the least and the greatest whole number or date of an output column may be, if the store knows.
pub(super) fn span_of_values(exec: &SpanScanExec, output: usize) -> Option<u64> {
    let ReadColumn::Scan(column) = exec.plan.read[*exec.output.get(output)?] else { return None };
    let index = exec.scan.columns.iter().position(|each| *each == column)?;
    let number = |value: &Value| match value {
        Value::SmallInt(number) => Some(i64::from(*number)),
        Value::Int(number) | Value::Date(number) => Some(i64::from(*number)),
        Value::BigInt(number) => Some(*number),
        _ => None,
    };
    match exec.estimate.ranges.get(index)? {
        Known::Exact((least, greatest)) | Known::Estimate((least, greatest)) => {
            Some(number(greatest)?.abs_diff(number(least)?))
        }
        Known::Unknown => None,
    }
}

fn column(exec: &SpanScanExec, place: usize, inexact: bool, rows: &Precision<usize>) -> ColumnStatistics {
    let mut statistics = ColumnStatistics::new_unknown();
    let ReadColumn::Scan(ScanColumn::Column(id)) = exec.plan.read[place] else { return statistics };
    let relation = &exec.plan.relation;
    let Some(index) = exec.scan.columns.iter().position(|column| *column == ScanColumn::Column(id)) else {
        return statistics;
    };
    if relation.key_index(id).is_some() {
        statistics.null_count = match rows {
            Precision::Exact(_) => Precision::Exact(0),
            _ => Precision::Inexact(0),
        };
    }
    let key = relation.key.iter().map(|column| (column.id, column.ty));
    let values = relation.values.iter().map(|column| (column.id, column.ty));
    let ty = key.chain(values).find(|(each, _)| *each == id).map(|(_, ty)| ty);
    let Some(ty) = ty.filter(|ty| ty.arrow_order_is_key_order()) else { return statistics };
    let scalar = |value: &Value| scalar_of(value, ty).ok().filter(|scalar: &ScalarValue| !scalar.is_null());
    if let Some(range) = exec.estimate.ranges.get(index) {
        let weaken = |precision: Precision<ScalarValue>| if inexact { precision.to_inexact() } else { precision };
        statistics.min_value = weaken(precision(range, |(least, _)| scalar(least)));
        statistics.max_value = weaken(precision(range, |(_, greatest)| scalar(greatest)));
    }
    statistics
}
