//! `ORDER BY v DESC LIMIT 10` over a scan: rows that cannot be among the first are left out before anything else of them is
//! looked at.
//!
//! Of the first expression of the order as many values are kept, the first ones. A row whose value is behind all of these
//! comes behind so many others; one that equals the last of them may still be among the first. The store is told
//! ([`TopCondition`]): it leaves out rows, and by a column of the key blocks and whole segments, beginning with those that
//! have the first values.

use std::collections::BinaryHeap;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, UInt8Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::SortOptions;
use arrow::datatypes::{Float64Type, UInt8Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use keyspan_model::array::rows_of_codes;
use keyspan_model::value::double_of_rank;
use keyspan_model::{ColumnId, ColumnRange, ColumnType, Value};
use keyspan_seam::{End, RowCondition};
use parking_lot::Mutex;

use super::conditions::StoredColumns;
use super::exec::{ReadPlan, SpanScanExec};
use super::rank::{is_ranked, null_rank, ranks};
use crate::coded_expr::CodedExpr;

/// Most rows for which it is worth to keep values.
const MOST_ROWS: usize = 4096;

type Plan = Arc<dyn ExecutionPlan>;

/// Which rows a sort with a limit takes, by the first of its expressions.
#[derive(Clone, Debug)]
pub(crate) struct Top {
    /// Over the columns read.
    pub(super) by: CodedExpr,
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
    if is_volatile(&first.expr) {
        return Ok(None);
    }
    let top = |by| Top { by, descending: first.options.descending, nulls_first: first.options.nulls_first, rows };
    Ok(match told(sort.input(), &first.expr, top)? {
        Some(input) => Some(with_input(node, input)?),
        None => None,
    })
}

/// The same node over a scan that knows what is taken, by an expression over the node's output.
fn told(node: &Plan, by: &Arc<dyn PhysicalExpr>, top: impl Fn(CodedExpr) -> Top) -> Result<Option<Plan>> {
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let below = over(by, |column| Ok(projection.expr()[column].expr.clone()))?;
        if is_volatile(&below) {
            return Ok(None);
        }
        return match told(projection.input(), &below, top)? {
            Some(input) => with_input(node, input).map(Some),
            None => Ok(None),
        };
    }
    let Some(scan) = node.downcast_ref::<SpanScanExec>() else { return Ok(None) };
    if scan.fetch.is_some() || scan.top.is_some() || !is_ranked(&by.data_type(&scan.schema)?) {
        return Ok(None);
    }
    let schema = &scan.plan.read_schema;
    let of_read = over(by, |column| {
        let place = scan.output[column];
        Ok(Arc::new(Column::new(schema.field(place).name(), place)))
    })?;
    Ok(Some(Arc::new(scan.with_top(Some(top(CodedExpr::new(&of_read, schema)?))))))
}

/// The expression with others in the place of its columns.
fn over(
    expr: &Arc<dyn PhysicalExpr>,
    column: impl Fn(usize) -> Result<Arc<dyn PhysicalExpr>>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = |each: Arc<dyn PhysicalExpr>| match each.downcast_ref::<Column>() {
        Some(own) => Ok(Transformed::new(column(own.index())?, true, TreeNodeRecursion::Jump)),
        None => Ok(Transformed::no(each)),
    };
    Arc::clone(expr).transform_down(replaced).data()
}

/// A node of one input, over another one with the same properties.
pub(crate) fn with_input(node: &Plan, input: Plan) -> Result<Plan> {
    node.clone().replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

/// What one reader has seen of the values that decide.
#[derive(Debug)]
pub(super) struct TopSoFar {
    top: Top,
    values: Mutex<TopValues>,
}

impl TopSoFar {
    pub(super) fn new(top: Top) -> TopSoFar {
        TopSoFar { top, values: Mutex::default() }
    }

    /// Of the rows that `among` has (`None`: of all), those that may be taken, as far as is known after them. Where the
    /// expression fails, the sort will say so, if it looks at that row.
    pub(super) fn narrowed(
        &self,
        columns: &[ArrayRef],
        rows: usize,
        among: Option<BooleanArray>,
    ) -> Result<Option<BooleanArray>> {
        match self.top.by.evaluate(columns, rows) {
            Ok(values) => self.values.lock().narrowed(&self.top, &values, among).map(Some),
            Err(_) => Ok(among),
        }
    }

    /// The same as a condition that the store is told, if it has the columns.
    pub(super) fn condition(self: &Arc<Self>, plan: &ReadPlan) -> Option<Arc<TopCondition>> {
        let by = &self.top.by;
        let columns = StoredColumns::new(by.places(), &plan.read)?;
        let column = by.column().and_then(|_| {
            let id = columns.ids[0];
            let (_, ty) = plan.relation.column(id)?;
            Some(OneColumn { id, ty, has_nulls: plan.relation.key_index(id).is_none() })
        });
        Some(Arc::new(TopCondition { so_far: Arc::clone(self), columns, column }))
    }
}

/// Rows that may still be taken.
#[derive(Debug)]
pub(super) struct TopCondition {
    so_far: Arc<TopSoFar>,
    columns: StoredColumns,
    /// The column that the expression is, if it is one.
    column: Option<OneColumn>,
}

#[derive(Debug)]
struct OneColumn {
    id: ColumnId,
    ty: ColumnType,
    has_nulls: bool,
}

impl TopCondition {
    /// The rank of the last of the first values; `None` if all rows may be taken, as they may where it is that of a null
    /// behind all values.
    fn last(&self) -> Option<u64> {
        self.so_far.values.lock().last(&self.so_far.top).filter(|last| *last < u64::MAX)
    }
}

impl RowCondition for TopCondition {
    fn columns(&self) -> &[ColumnId] {
        &self.columns.ids
    }

    fn met(&self, columns: &[ArrayRef], rows: usize) -> Option<BooleanBuffer> {
        let (top, last) = (&self.so_far.top, self.last()?);
        let values = top.by.evaluate(&self.columns.among_read(columns), rows).ok()?;
        match values.as_primitive_opt::<Float64Type>() {
            Some(floats) if floats.null_count() == 0 => Some(top.floats_up_to(floats, last)),
            _ => Some(Ranked::new(top, &values).ok()?.up_to(last)),
        }
    }

    fn range(&self) -> Option<ColumnRange> {
        let (top, column) = (&self.so_far.top, self.column.as_ref()?);
        let last = self.last().filter(|_| !(column.has_nulls && top.nulls_first))?;
        let number = (if top.descending { !last } else { last } ^ 1 << 63) as i64;
        let value = match column.ty {
            ColumnType::TinyInt => Value::TinyInt(number.try_into().ok()?),
            ColumnType::SmallInt => Value::SmallInt(number.try_into().ok()?),
            ColumnType::Int => Value::Int(number.try_into().ok()?),
            ColumnType::BigInt => Value::BigInt(number),
            ColumnType::Date => Value::Date(number.try_into().ok()?),
            ColumnType::Timestamp | ColumnType::LocalTimestamp => Value::Timestamp(number),
            _ => return None,
        };
        Some(match top.descending {
            true => ColumnRange::between(column.id, Bound::Included(value), Bound::Unbounded),
            false => ColumnRange::between(column.id, Bound::Unbounded, Bound::Included(value)),
        })
    }

    fn narrows(&self) -> bool {
        true
    }

    fn first(&self) -> Option<(ColumnId, End)> {
        let end = if self.so_far.top.descending { End::Greatest } else { End::Least };
        self.column.as_ref().map(|column| (column.id, end))
    }
}

/// The first values so far, as ranks: the lower the earlier.
#[derive(Debug, Default)]
struct TopValues {
    ranks: BinaryHeap<u64>,
}

impl TopValues {
    /// Of the rows that `among` has (`None`: of all), those that may be taken, as far as is known after them.
    fn narrowed(&mut self, top: &Top, column: &ArrayRef, among: Option<BooleanArray>) -> Result<BooleanArray> {
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
        let ranks = ranks(coded.map_or(column, |coded| coded.values()), top.order())?;
        let null = null_rank(top.order());
        Ok(Ranked { rows: column.len(), ranks, codes: coded.map(|coded| coded.keys()), null })
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
    fn order(&self) -> SortOptions {
        SortOptions { descending: self.descending, nulls_first: self.nulls_first }
    }

    /// Which floats have this rank or a lower one.
    fn floats_up_to(&self, floats: &Float64Array, last: u64) -> BooleanBuffer {
        let values: &[f64] = floats.values();
        let end = double_of_rank(if self.descending { !last } else { last });
        // NaN is the greatest, and neither below nor above another float.
        match (self.descending, end.is_nan()) {
            (true, true) => BooleanBuffer::collect_bool(values.len(), |row| values[row].is_nan()),
            (true, false) => {
                BooleanBuffer::collect_bool(values.len(), |row| values[row] >= end || values[row].is_nan())
            }
            (false, true) => BooleanBuffer::new_set(values.len()),
            (false, false) => BooleanBuffer::collect_bool(values.len(), |row| values[row] <= end),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, TimestampMicrosecondArray};
    use arrow::datatypes::{DataType, Field, Schema};

    use arrow::array::new_null_array;
    use keyspan_model::{ScanColumn, array_of};

    use super::super::read::ReadColumn;
    use super::*;
    use crate::testing::{Bench, Rows};

    /// The first two rows by the one column of this type.
    fn top_two(ty: &DataType, descending: bool, nulls_first: bool) -> Top {
        let schema = Arc::new(Schema::new(vec![Field::new("v", ty.clone(), true)]));
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("v", 0));
        Top { by: CodedExpr::new(&column, &schema).expect("a column"), descending, nulls_first, rows: 2 }
    }

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
        let top = |descending, nulls_first| top_two(&DataType::Float64, descending, nulls_first);
        assert_eq!(kept(&top(true, false), &batches), [vec![2, 3], vec![2]]);
        assert_eq!(kept(&top(true, true), &batches), [vec![2, 3], vec![1]]);
        assert_eq!(kept(&top(false, false), &batches), [vec![0, 1], vec![3]]);
        assert_eq!(kept(&top(false, true), &batches), [vec![0, 1], vec![1]]);
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![5, -7, 3, 5, i64::MAX]));
        let top = |descending| top_two(times.data_type(), descending, false);
        assert_eq!(kept(&top(true), std::slice::from_ref(&times)), [vec![0, 3, 4]]);
        assert_eq!(kept(&top(false), std::slice::from_ref(&times)), [vec![1, 2]]);
    }

    #[test]
    fn the_store_is_told_what_may_still_be_taken() {
        let (ty, times) = (ColumnType::Timestamp, TimestampMicrosecondArray::from(vec![5, -7, 9, 8]));
        let times: ArrayRef = Arc::new(times.with_timezone("UTC"));
        let first = || StoredColumns::new(&[0], &[ReadColumn::Scan(ScanColumn::Column(ColumnId(3)))]).expect("stored");
        for (descending, range, expected) in [
            (true, (Bound::Included(Value::Timestamp(8)), Bound::Unbounded), [false, false, true, true]),
            (false, (Bound::Unbounded, Bound::Included(Value::Timestamp(5))), [true, true, false, false]),
        ] {
            let top = top_two(&ty.arrow(), descending, false);
            let so_far = Arc::new(TopSoFar::new(top));
            let column = Some(OneColumn { id: ColumnId(3), ty, has_nulls: false });
            let condition = TopCondition { so_far: so_far.clone(), columns: first(), column };
            let met = || condition.met(std::slice::from_ref(&times), 4);
            assert!(met().is_none() && condition.range().is_none(), "before any value came");
            so_far.narrowed(std::slice::from_ref(&times), 4, None).expect("times");
            assert_eq!(condition.range(), Some(ColumnRange::between(ColumnId(3), range.0, range.1)));
            assert_eq!(met().expect("two values are known").iter().collect::<Vec<_>>(), expected);
        }
        let top = top_two(&DataType::Float64, true, true);
        let so_far = Arc::new(TopSoFar::new(top));
        let doubles: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(2.5), Some(-0.0)]));
        so_far.narrowed(std::slice::from_ref(&doubles), 4, None).expect("doubles");
        let column = || Some(OneColumn { id: ColumnId(3), ty: ColumnType::Double, has_nulls: true });
        let condition = TopCondition { so_far, columns: first(), column: column() };
        let met = condition.met(std::slice::from_ref(&doubles), 4).expect("two values are known");
        assert_eq!(met.iter().collect::<Vec<_>>(), [false, true, true, false], "null comes first");
        assert_eq!(condition.range(), None, "null is in no range");
        for (ty, descending) in [(ColumnType::Double, true), (ColumnType::Int, false), (ColumnType::Date, true)] {
            let so_far = Arc::new(TopSoFar::new(top_two(&ty.arrow(), descending, false)));
            let nulls = new_null_array(&ty.arrow(), 3);
            so_far.narrowed(&[nulls], 3, None).expect("nulls");
            let condition =
                TopCondition { so_far, columns: first(), column: Some(OneColumn { ty, ..column().expect("one") }) };
            let values = array_of(ty, &[Value::Null]).expect("an array");
            assert_eq!((condition.met(&[values], 1), condition.range()), (None, None), "all come before nulls: {ty}");
        }
    }

    #[test]
    fn floats_up_to_a_rank_are_those_that_are_ranked_so() {
        let numbers = [1.5, -0.0, 0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.5, 5e-324];
        let floats: ArrayRef = Arc::new(Float64Array::from(numbers.to_vec()));
        for descending in [false, true] {
            let top = top_two(&DataType::Float64, descending, false);
            let ranked = Ranked::new(&top, &floats).expect("floats");
            for row in 0..numbers.len() {
                let last = ranked.rank(row);
                assert_eq!(top.floats_up_to(floats.as_primitive(), last), ranked.up_to(last), "{descending} {row}");
            }
        }
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
        let top = top_two(&DataType::Float64, true, false);
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
            ("SELECT * FROM m ORDER BY v + 1 LIMIT 5", Some("top=5 by v + 1")),
            (
                "SELECT * FROM (SELECT k, v * 2 AS w FROM m) AS q ORDER BY w DESC, k LIMIT 3",
                Some("top=3 by v * 2 DESC"),
            ),
            ("SELECT * FROM m ORDER BY random() LIMIT 5", None),
            ("SELECT * FROM m ORDER BY v + random() LIMIT 5", None),
            ("SELECT * FROM m ORDER BY t LIMIT 5", Some("top=5 by t")),
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
