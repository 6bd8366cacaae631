//! How many rows a table has, and how many a join of two gives.

use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue};
use datafusion::error::Result;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use super::Plan;
use crate::scan::{SpanScanExec, whole_number};
use crate::widened::column_of;

/// How many values a column has, if nobody knows, at most.
const VALUES: f64 = 200.0;
/// Of pairs of rows, how many meet a condition that is no equality.
const MET: f64 = 1.0 / 3.0;

/// What is known of a table.
pub(super) struct Guess {
    /// The rows expected.
    pub(super) rows: f64,
    /// Those there are without its filter.
    all: f64,
    /// For each column how many values it has, in all rows.
    values: Vec<f64>,
}

impl Guess {
    /// Of what a node gives; `None` if it does not know.
    pub(super) fn of(plan: &Plan) -> Result<Option<Guess>> {
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let Some(input) = Guess::of(projection.input())? else { return Ok(None) };
            let schema = projection.input().schema();
            let values = projection.expr().iter().map(|each| match column_of(&each.expr, &schema) {
                Some(place) => input.values[place],
                None => VALUES.min(input.all),
            });
            return Ok(Some(Guess { values: values.collect(), ..input }));
        }
        let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?;
        let Some(rows) = statistics.num_rows.get_value().map(|rows| (*rows as f64).max(1.0)) else { return Ok(None) };
        let scan = plan.downcast_ref::<SpanScanExec>();
        let all = scan.and_then(SpanScanExec::estimated_rows).map_or(rows, |all| (all as f64).max(rows));
        let values = statistics.column_statistics.iter().enumerate().map(|(place, column)| {
            let known = distinct(column).or_else(|| span(column));
            let is_key = scan.is_none_or(|scan| scan.is_key(place));
            known.unwrap_or(if is_key { all } else { VALUES }).clamp(1.0, all)
        });
        Ok(Some(Guess { rows, all, values: values.collect() }))
    }
}

fn distinct(column: &ColumnStatistics) -> Option<f64> {
    column.distinct_count.get_value().map(|count| *count as f64)
}

/// How many whole numbers or dates there are between the least and the greatest.
fn span(column: &ColumnStatistics) -> Option<f64> {
    let number = |bound: &Precision<ScalarValue>| bound.get_value().and_then(whole_number);
    Some(number(&column.max_value)? - number(&column.min_value)? + 1.0)
}

/// The rows of a join of so many and so many, by the columns that it compares of pairs of tables, and by other conditions:
/// the values of the side with fewer are those of the other one (Selinger et al., "Access path selection", 1979). Several
/// columns of one pair have no more values together than the larger table has rows.
pub(super) fn rows_of_join<'a>(
    (left, right): (f64, f64),
    equal: impl Iterator<Item = ([usize; 2], [(&'a Guess, usize); 2])>,
    conditions: usize,
) -> f64 {
    let mut pairs: Vec<([usize; 2], f64, f64)> = Vec::new();
    for (mut tables, [(one, of_one), (other, of_other)]) in equal {
        tables.sort_unstable();
        let (values, most) = (one.values[of_one].max(other.values[of_other]), one.all.max(other.all));
        match pairs.iter_mut().find(|(known, ..)| *known == tables) {
            Some((_, known, _)) => *known *= values,
            None => pairs.push((tables, values, most)),
        }
    }
    let values: f64 = pairs.into_iter().map(|(_, values, most)| values.min(most)).product();
    (left * right / values * MET.powi(conditions as i32)).max(1.0)
}
