//! Which buckets of a materialized view are stale on a snapshot.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::error::Result as PlanResult;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{Expr, lit};
use keyspan_model::{ColumnId, ColumnType, Error, RelationId, Result, RollupDef, ScanColumn, TableDef, Value};
use keyspan_seam::{Changes, Snapshot};

use super::Definition;
use crate::error::{external, from_datafusion};
use crate::functions::bucket::{Bucket, units_of, value_of_units};
use crate::gapfill::constant;
use crate::types::literal;

/// More ranges than this are taken as one, from the first to the last.
const RANGES: usize = 16;

/// How far the kept rows of a view are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The source's relation when they were computed.
    pub relation: RelationId,
    /// The batch up to which they are right.
    pub seq: u64,
}

/// How far a view's rows are right on this snapshot; `None`: nothing is computed yet.
pub async fn progress(snapshot: &dyn Snapshot, rollup: &RollupDef) -> Result<Option<Progress>> {
    let columns: Vec<ColumnId> = rollup.progress.columns.iter().filter(|c| !c.is_key()).map(|c| c.id).collect();
    let columns: Vec<ScanColumn> = columns.into_iter().map(ScanColumn::Column).collect();
    let row = snapshot.get(rollup.progress.rows, &[vec![Value::Int(0)]], &columns).await?;
    if row.num_rows() == 0 {
        return Ok(None);
    }
    let number = |at: usize| row.column(at).as_primitive_opt::<Int64Type>().map(|numbers| numbers.value(0));
    match (number(0).and_then(|id| u32::try_from(id).ok()), number(1).and_then(|seq| u64::try_from(seq).ok())) {
        (Some(relation), Some(seq)) => Ok(Some(Progress { relation: RelationId(relation), seq })),
        _ => Err(Error::internal("the progress of a materialized view is no pair of numbers")),
    }
}

/// Ranges of the time column, in its units, whole buckets each: first included, last not. Sorted, disjoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    ty: ColumnType,
    ranges: Vec<(i64, i64)>,
}

impl Stale {
    /// What is stale on the snapshot.
    pub async fn of(
        definition: &Definition,
        rollup: &RollupDef,
        snapshot: &dyn Snapshot,
        state: &SessionState,
    ) -> Result<Stale> {
        let source = &definition.source;
        let ty = source.column_by_id(definition.time).map(|column| column.ty);
        let ty = ty.ok_or_else(|| Error::internal("the source has lost the column of its time"))?;
        let bucket = bucket(&definition.bucket, state).map_err(from_datafusion)?;
        let progress = progress(snapshot, rollup).await?;
        let changes = match progress {
            Some(progress) if progress.relation == source.rows => {
                snapshot.changed(source.rows, definition.time, progress.seq)?
            }
            _ => Changes::Anywhere,
        };
        let mut ranges = match changes {
            Changes::Anywhere => vec![(i64::MIN, i64::MAX)],
            Changes::Within(values) => {
                // Where there is no such time, there is no bound.
                let start = |at: i64| bucket.start(at).unwrap_or(i64::MIN);
                let whole = |(first, last): (Value, Value)| -> Result<(i64, i64)> {
                    let end = bucket.next(start(units_of(&last)?)).unwrap_or(i64::MAX);
                    Ok((start(units_of(&first)?), end))
                };
                joined(values.into_iter().map(whole).collect::<Result<_>>()?)
            }
        };
        if progress.is_some()
            && let Some(end) = final_before(&bucket, source, ty, snapshot.now())?
        {
            ranges.iter_mut().for_each(|range| range.0 = range.0.max(end));
            ranges.retain(|(first, last)| first < last);
        }
        Ok(Stale { ty, ranges })
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether a time, or a bucket, is in a stale bucket.
    pub fn holds(&self, time: &Expr) -> PlanResult<Expr> {
        let within = self.ranges.iter().map(|(first, last)| {
            let from = self.bound(*first)?.map(|first| time.clone().gt_eq(first));
            let to = self.bound(*last)?.map(|last| time.clone().lt(last));
            Ok(conjunction(from.into_iter().chain(to)).unwrap_or_else(|| lit(true)))
        });
        Ok(disjunction(within.collect::<PlanResult<Vec<Expr>>>()?).unwrap_or_else(|| lit(false)))
    }

    /// Whether it is in none.
    pub fn spares(&self, time: &Expr) -> PlanResult<Expr> {
        Ok(!self.holds(time)?)
    }

    /// The literal of a bound; `None` for none.
    fn bound(&self, units: i64) -> PlanResult<Option<Expr>> {
        if units == i64::MIN || units == i64::MAX {
            return Ok(None);
        }
        literal(&value_of_units(units, self.ty).map_err(external)?, self.ty).map(Some)
    }
}

/// The buckets of a call, from its constant arguments.
fn bucket(call: &Expr, state: &SessionState) -> PlanResult<Bucket> {
    let Expr::ScalarFunction(function) = call else { return Err(external(Error::internal("a bucket without a call"))) };
    let mut constants = Vec::new();
    for (at, argument) in function.args.iter().enumerate() {
        if at != 1 {
            let missing = || external(Error::not_supported("the arguments of a view's bucket must not be null"));
            constants.push(constant(argument, state)?.ok_or_else(missing)?);
        }
    }
    let missing = || external(Error::internal("a bucket without a length"));
    let ((step, _), rest) = constants.split_first().ok_or_else(missing)?;
    Bucket::new(step, rest).map_err(external)
}

/// The end of the buckets that are final: the first begin of a bucket none of whose rows has expired, if all were written
/// when they happened. `None` where rows are kept for ever, or time is no time.
fn final_before(bucket: &Bucket, source: &TableDef, ty: ColumnType, now: i64) -> Result<Option<i64>> {
    let timed = matches!(ty, ColumnType::Timestamp | ColumnType::LocalTimestamp | ColumnType::Date);
    let expired = (source.default_ttl > 0).then(|| now.saturating_sub(i64::from(source.default_ttl) * 1_000_000));
    let Some(oldest) = expired.max(source.retention.horizon(now)).filter(|_| timed) else { return Ok(None) };
    let start = bucket.start(oldest)?;
    if start < oldest { bucket.next(start).map(Some) } else { Ok(Some(start)) }
}

/// The ranges in order, those that touch made one.
fn joined(mut ranges: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    match (joined.first(), joined.last()) {
        (Some(first), Some(last)) if joined.len() > RANGES => vec![(first.0, last.1)],
        _ => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        assert_eq!(joined(vec![(5, 6), (1, 3), (3, 4), (2, 3)]), [(1, 4), (5, 6)]);
        assert_eq!(joined(Vec::new()), []);
        assert_eq!(joined((0..40).map(|at| (at * 2, at * 2 + 1)).collect()), [(0, 79)]);
    }
}
