//! `ORDER BY v DESC LIMIT 10` over a scan: rows that cannot be among the first are left out before anything else of them is
//! looked at.
//!
//! Of the first column of the order as many values are kept, the first ones. A row whose value is behind all of these comes
//! behind so many others; one that equals the last of them may still be among the first. Where the column is
//! codes, values are compared once a batch.

use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt8Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type, UInt8Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use keyspan_model::array::rows_of_codes;
use keyspan_model::value::double_rank;

use super::exec::SpanScanExec;

/// Most rows for which it is worth to keep values.
const MOST_ROWS: usize = 4096;

type Plan = Arc<dyn ExecutionPlan>;

/// Which rows a sort with a limit takes, by the first of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Top {
    /// Place of the column among those read.
    pub(super) column: usize,
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
    pub(super) rows: usize,
}

/// The rule that tells scans what is taken of them. It runs when nothing else changes them.
#[derive(Debug, Default)]
pub struct TopRows;

impl PhysicalOptimizerRule for TopRows {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_down(|node| match top(&node)? {
            Some(told) => Ok(Transformed::yes(told)),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "TopRows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A sort with a limit over a scan that knows of it; `None` for all else.
fn top(node: &Plan) -> Result<Option<Plan>> {
    let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(None) };
    let Some(rows) = sort.fetch().filter(|rows| (1..=MOST_ROWS).contains(rows)) else { return Ok(None) };
    let first = sort.expr().first();
    let Some(column) = first.expr.downcast_ref::<Column>().map(Column::index) else { return Ok(None) };
    let top =
        |column| Top { column, descending: first.options.descending, nulls_first: first.options.nulls_first, rows };
    Ok(match told(sort.input(), column, top)? {
        Some(input) => Some(with_input(node, input)?),
        None => None,
    })
}

/// The same node over a scan that knows what is taken, by an output column of the node.
fn told(node: &Plan, column: usize, top: impl Fn(usize) -> Top) -> Result<Option<Plan>> {
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let Some(below) = projection.expr()[column].expr.downcast_ref::<Column>() else { return Ok(None) };
        return match told(projection.input(), below.index(), top)? {
            Some(input) => with_input(node, input).map(Some),
            None => Ok(None),
        };
    }
    let Some(scan) = node.downcast_ref::<SpanScanExec>() else { return Ok(None) };
    let plain = scan.fetch.is_none() && scan.top.is_none() && is_compared(scan.schema.field(column).data_type());
    Ok(plain.then(|| Arc::new(scan.with_top(Some(top(scan.output[column])))) as Plan))
}

fn with_input(node: &Plan, input: Plan) -> Result<Plan> {
    node.clone().replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

/// Whether values of this type are compared as numbers of 64 bits.
fn is_compared(ty: &DataType) -> bool {
    matches!(
        ty,
        DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
            | DataType::Date32
            | DataType::Timestamp(..)
    )
}

/// The first values so far, as ranks: the lower the earlier.
#[derive(Debug, Default)]
pub(super) struct TopValues {
    ranks: BinaryHeap<u64>,
}

impl TopValues {
    /// Of the rows that `among` has (`None`: of all), those that may be taken, as far as is known after them.
    pub(super) fn narrowed(
        &mut self,
        top: &Top,
        column: &ArrayRef,
        among: Option<BooleanArray>,
    ) -> Result<BooleanArray> {
        let ranked = Ranked::new(top, column)?;
        let mut among = match among {
            Some(among) => among.values().clone(),
            None => BooleanBuffer::new_set(column.len()),
        };
        let before = self.last(top);
        if let Some(last) = before {
            among = &among & &ranked.up_to(last);
        }
        for row in among.set_indices() {
            self.add(ranked.rank(row), top);
        }
        if let Some(last) = self.last(top).filter(|last| before != Some(*last)) {
            among = &among & &ranked.up_to(last);
        }
        Ok(BooleanArray::new(among, None))
    }

    /// The last of the values kept, once they are as many as rows are taken.
    fn last(&self, top: &Top) -> Option<u64> {
        self.ranks.peek().copied().filter(|_| self.ranks.len() >= top.rows)
    }

    fn add(&mut self, rank: u64, top: &Top) {
        if self.ranks.len() < top.rows {
            self.ranks.push(rank);
        } else if let Some(mut last) = self.ranks.peek_mut()
            && rank < *last
        {
            *last = rank;
        }
    }
}

/// The ranks of a batch's rows.
struct Ranked<'a> {
    rows: usize,
    /// Of rows, or of what codes stand for.
    ranks: Vec<u64>,
    codes: Option<&'a UInt8Array>,
    null: u64,
}

impl<'a> Ranked<'a> {
    fn new(top: &Top, column: &'a ArrayRef) -> Result<Ranked<'a>> {
        let coded = column.as_dictionary_opt::<UInt8Type>();
        let ranks = top.ranks(coded.map_or(column, |coded| coded.values()))?;
        Ok(Ranked { rows: column.len(), ranks, codes: coded.map(|coded| coded.keys()), null: top.null() })
    }

    fn rank(&self, row: usize) -> u64 {
        match self.codes {
            None => self.ranks[row],
            Some(codes) if codes.is_null(row) => self.null,
            Some(codes) => self.ranks[usize::from(codes.value(row))],
        }
    }

    /// Rows of this rank or a lower one.
    fn up_to(&self, most: u64) -> BooleanBuffer {
        let Some(codes) = self.codes else {
            return BooleanBuffer::collect_bool(self.rows, |row| self.ranks[row] <= most);
        };
        let mut taken = [false; 256];
        taken.iter_mut().zip(&self.ranks).for_each(|(taken, rank)| *taken = *rank <= most);
        let found = match taken.contains(&true) {
            true => rows_of_codes(codes, &taken),
            false => BooleanBuffer::new_unset(self.rows),
        };
        match codes.nulls() {
            Some(valid) if self.null <= most => &found | &!valid.inner(),
            _ => found,
        }
    }
}

impl Top {
    /// The rank of NULL.
    fn null(&self) -> u64 {
        if self.nulls_first { 0 } else { u64::MAX }
    }

    /// A number for each value, lower where it comes earlier.
    fn ranks(&self, values: &ArrayRef) -> Result<Vec<u64>> {
        let numbers: Vec<u64> = if values.data_type().is_floating() {
            let floats = cast(values, &DataType::Float64)?;
            floats.as_primitive::<Float64Type>().values().iter().map(|number| double_rank(*number)).collect()
        } else {
            let whole = match values.data_type() {
                DataType::Date32 => cast(&cast(values, &DataType::Int32)?, &DataType::Int64)?,
                _ => cast(values, &DataType::Int64)?,
            };
            whole.as_primitive::<Int64Type>().values().iter().map(|number| *number as u64 ^ 1 << 63).collect()
        };
        let ordered = numbers.into_iter().map(|number| if self.descending { !number } else { number });
        Ok(match values.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => ordered.collect(),
            Some(valid) => of_valid(ordered, valid, self.null()),
        })
    }
}

fn of_valid(ranks: impl Iterator<Item = u64>, valid: &NullBuffer, null: u64) -> Vec<u64> {
    ranks.zip(valid).map(|(rank, valid)| if valid { rank } else { null }).collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Float64Array, TimestampMicrosecondArray};

    use keyspan_model::{ColumnType, Value};

    use super::*;
    use crate::testing::{Bench, Rows};

    fn kept(top: &Top, batches: &[ArrayRef]) -> Vec<Vec<usize>> {
        let mut values = TopValues::default();
        let kept = |batch: &ArrayRef| {
            let mask = values.narrowed(top, batch, None).expect("a mask");
            mask.values().set_indices().collect()
        };
        batches.iter().map(kept).collect()
    }

    #[test]
    fn rows_behind_the_best_are_left_out() {
        let floats = |values: &[Option<f64>]| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
        let batches = [
            floats(&[Some(1.0), Some(-5.0), Some(f64::NAN), Some(3.0)]),
            floats(&[Some(2.0), None, Some(3.0), Some(-0.0)]),
        ];
        let top = |descending, nulls_first| Top { column: 0, descending, nulls_first, rows: 2 };
        assert_eq!(kept(&top(true, false), &batches), [vec![2, 3], vec![2]]);
        assert_eq!(kept(&top(true, true), &batches), [vec![2, 3], vec![1]]);
        assert_eq!(kept(&top(false, false), &batches), [vec![0, 1], vec![3]]);
        assert_eq!(kept(&top(false, true), &batches), [vec![0, 1], vec![1]]);
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![5, -7, 3, 5, i64::MAX]));
        assert_eq!(kept(&top(true, false), std::slice::from_ref(&times)), [vec![0, 3, 4]]);
        assert_eq!(kept(&top(false, false), &[times]), [vec![1, 2]]);
    }

    #[test]
    fn codes_are_compared_by_their_values() {
        let coded = |codes: Vec<Option<u8>>, values: Vec<f64>| {
            let values = Arc::new(Float64Array::from(values));
            Arc::new(DictionaryArray::new(UInt8Array::from(codes), values)) as ArrayRef
        };
        let batches = [
            coded(vec![Some(0), Some(1), Some(1), Some(0)], vec![1.0, 4.0]),
            coded(vec![Some(1), Some(0), None, Some(1)], vec![2.0, 3.0]),
            coded(vec![Some(0), None, Some(1)], vec![4.0, 9.0]),
        ];
        let top = Top { column: 0, descending: true, nulls_first: false, rows: 2 };
        assert_eq!(kept(&top, &batches), [vec![1, 2], vec![], vec![0, 2]]);
        let top = Top { nulls_first: true, ..top };
        assert_eq!(kept(&top, &batches), [vec![1, 2], vec![2], vec![1]]);
        let mut values = TopValues::default();
        let among = BooleanArray::from(vec![true, false, false, true]);
        let mask = values.narrowed(&top, &batches[0], Some(among)).expect("a mask");
        assert_eq!(mask.values().set_indices().collect::<Vec<_>>(), [0, 3]);
    }

    #[tokio::test]
    async fn scans_under_a_sort_with_a_limit_know_what_it_takes() {
        let columns = [("k", ColumnType::Int, 'p'), ("t", ColumnType::Text, '-'), ("v", ColumnType::Double, '-')];
        let row = |n: i32| vec![Value::Int(n), Value::Text(format!("t{n}")), Value::Double(f64::from(n * 37 % 101))];
        let mut rows = Rows::default();
        rows.create("m", &columns, (0..1000).map(row).collect());
        let bench = Bench::new(rows);
        for (sql, top) in [
            ("SELECT t FROM m WHERE k > 7 ORDER BY v DESC, k LIMIT 2", Some("top=2 by v DESC")),
            ("SELECT t, v + 1 FROM m ORDER BY v LIMIT 5 OFFSET 5", Some("top=10 by v")),
            ("SELECT * FROM m ORDER BY v + 1 LIMIT 5", None),
            ("SELECT * FROM m ORDER BY t LIMIT 5", None),
            ("SELECT * FROM m ORDER BY k LIMIT 5", None),
            ("SELECT * FROM m ORDER BY v LIMIT 5000", None),
            ("SELECT * FROM (SELECT * FROM m LIMIT 10) AS q ORDER BY v LIMIT 5", None),
        ] {
            let plan = bench.explain(sql, false).await.expect("a plan");
            assert_eq!(plan.contains("top="), top.is_some(), "{sql}\n{plan}");
            assert!(top.is_none_or(|top| plan.contains(top)), "{sql}\n{plan}");
        }
        let found = bench.query("SELECT k FROM m WHERE k > 7 ORDER BY v DESC, k LIMIT 2").await.expect("rows");
        assert_eq!(found.1, [["30"], ["131"]]);
    }
}
