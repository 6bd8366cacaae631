//! `row_number() OVER (PARTITION BY a ORDER BY b DESC)` of which only the first few are asked for: rows that cannot be among
//! the first of their partition are left out before they are sorted.
//!
//! ```text
//! Filter n <= 2
//!   Window row_number() PARTITION BY a ORDER BY b DESC
//!     Sort a, b DESC                                      a few rows of each a, where all rows would be
//!       PartitionTop: rows=2, partition=[a], by b DESC
//!         Scan
//! ```
//!
//! Of each partition as many ranks of the first ORDER BY expression are kept as rows are asked for, the first ones. A row
//! whose rank is behind all of these comes behind so many others, whatever the rest of the order is. Everything above stays
//! as it is, so that nothing depends on how many rows are left out.
//!
//! Rule: only where every function of the window node numbers rows (`row_number`, `rank`, `dense_rank`), since others may look
//! at rows that come later. It lets all rows pass once it has seen that it leaves out few although partitions have had rows
//! enough, or has no memory for more partitions.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::StreamExt;

use crate::grouped::{Groups, MOST_PARTS, Part, PartValue, Values, supports};
use crate::plan_text::expr_text;
use crate::scan::{is_ranked, ranks, with_input};

/// Most rows of a partition that are looked for.
const MOST_ROWS: usize = 64;
/// After so many rows each it is asked whether it is worth going on.
const ROWS_OF_A_TRIAL: usize = 1 << 16;
/// A partition has had a chance to leave rows out after this many times the rows that are looked for.
const TIMES_ROWS_OF_A_CHANCE: usize = 8;
/// Functions whose value for a row does not depend on rows behind it.
const NUMBERINGS: [&str; 3] = ["row_number", "rank", "dense_rank"];

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

/// The rule that puts the node in. It runs once sorts have been put in, since where none is needed nothing is gained.
#[derive(Debug, Default)]
pub struct PartitionTops;

impl PhysicalOptimizerRule for PartitionTops {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_down(|node| match narrowed(&node)? {
            Some(narrowed) => Ok(Transformed::yes(narrowed)),
            None => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "PartitionTops"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A filter of numbers of rows, over a sort that gets fewer of them; `None` for all else.
fn narrowed(node: &Plan) -> Result<Option<Plan>> {
    let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(None) };
    for condition in split_conjunction(filter.predicate()) {
        let Some((column, rows)) = most_rows(condition).filter(|(_, rows)| (1..=MOST_ROWS).contains(rows)) else {
            continue;
        };
        if let Some(input) = below_filter(filter.input(), column, rows)? {
            return with_input(node, input).map(Some);
        }
    }
    Ok(None)
}

/// The column of which a condition asks for numbers up to the second, counted from one.
fn most_rows(condition: &Expr) -> Option<(usize, usize)> {
    let comparison = condition.downcast_ref::<BinaryExpr>()?;
    let (left, right) = (comparison.left(), comparison.right());
    let (number, bound, operator) = match right.downcast_ref::<Literal>() {
        Some(bound) => (left, bound, *comparison.op()),
        None => (right, left.downcast_ref::<Literal>()?, comparison.op().swap()?),
    };
    let bound = bound.value();
    let Ok(ScalarValue::Int64(Some(most))) = bound.cast_to(&DataType::Int64) else { return None };
    let most = match operator {
        Operator::Lt => most.checked_sub(1)?,
        Operator::LtEq | Operator::Eq => most,
        _ => return None,
    };
    bound.data_type().is_integer().then_some((column_of(number)?, usize::try_from(most).ok()?))
}

/// The column that an expression is, or of whose whole numbers it makes others.
fn column_of(expr: &Expr) -> Option<usize> {
    let inner = expr.downcast_ref::<CastExpr>().filter(|cast| cast.cast_type().is_integer());
    Some(inner.map_or(expr, CastExpr::expr).downcast_ref::<Column>()?.index())
}

/// The input of a filter whose column numbers the rows of a partition, with fewer rows sorted below it.
fn below_filter(node: &Plan, column: usize, rows: usize) -> Result<Option<Plan>> {
    let (input, column) = if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let Some(column) = column_of(&projection.expr()[column].expr) else { return Ok(None) };
        (projection.input(), column)
    } else if let Some(repartition) = node.downcast_ref::<RepartitionExec>() {
        (repartition.input(), column)
    } else {
        return of_window(node, column, rows);
    };
    match below_filter(input, column, rows)? {
        Some(input) => with_input(node, input).map(Some),
        None => Ok(None),
    }
}

fn of_window(node: &Plan, column: usize, rows: usize) -> Result<Option<Plan>> {
    let (functions, input) = if let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() {
        (window.window_expr(), window.input())
    } else if let Some(window) = node.downcast_ref::<WindowAggExec>() {
        (window.window_expr(), window.input())
    } else {
        return Ok(None);
    };
    let Some(function) = column.checked_sub(input.schema().fields().len()).and_then(|place| functions.get(place))
    else {
        return Ok(None);
    };
    let numbered = functions.iter().all(|each| numbering(each).is_some())
        && matches!(numbering(function), Some("row_number" | "rank"));
    let Some(top) = PartitionTop::of(function, input, rows)?.filter(|_| numbered) else { return Ok(None) };
    match below_window(input, top)? {
        Some(input) => with_input(node, input).map(Some),
        None => Ok(None),
    }
}

/// The name of a function that numbers rows.
fn numbering(function: &Arc<dyn WindowExpr>) -> Option<&'static str> {
    let standard = function.as_any().downcast_ref::<StandardWindowExpr>()?;
    let name = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>()?.fun().name();
    NUMBERINGS.into_iter().find(|each| *each == name)
}

/// The input of a window node with the node put in below its sort, and below what deals out rows; `None` if nothing is
/// sorted.
fn below_window(node: &Plan, top: PartitionTop) -> Result<Option<Plan>> {
    let dealt = |mut node: &Plan| {
        let mut above = Vec::new();
        while let Some(repartition) = node.downcast_ref::<RepartitionExec>() {
            above.push(Arc::clone(node));
            node = repartition.input();
        }
        (above, Arc::clone(node))
    };
    let Some(sort) = node.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()) else { return Ok(None) };
    let (mut above, input) = dealt(sort.input());
    above.insert(0, Arc::clone(node));
    let narrowed: Plan = Arc::new(PartitionTopExec::new(input, top));
    above.into_iter().rev().try_fold(narrowed, |input, node| with_input(&node, input)).map(Some)
}

/// What is looked for, by expressions over the node's input.
#[derive(Clone, Debug)]
struct PartitionTop {
    partition: Vec<Expr>,
    by: PhysicalSortExpr,
    rows: usize,
    /// The expressions of the partition as parts of groups.
    parts: Arc<[Part]>,
}

impl PartitionTop {
    /// Of a function's partitions, if there is code for their types.
    fn of(function: &Arc<dyn WindowExpr>, input: &Plan, rows: usize) -> Result<Option<PartitionTop>> {
        let schema = input.schema();
        let partition = function.partition_by().to_vec();
        let Some(by) = function.order_by().first().cloned() else { return Ok(None) };
        if !(1..=MOST_PARTS).contains(&partition.len()) || partition.iter().chain([&by.expr]).any(is_volatile) {
            return Ok(None);
        }
        let part = |(place, expr): (usize, &Expr)| {
            let field = Arc::new(Field::new("", expr.data_type(&schema)?, true));
            Ok(Part { value: PartValue::Input(place), field })
        };
        let parts = partition.iter().enumerate().map(part).collect::<Result<Arc<[Part]>>>()?;
        // Of floats, 0 and -0 are one group, but two partitions to the window node.
        let is_exact = |ty: &DataType| supports(ty) && !ty.is_floating();
        let supported = parts.iter().all(|part| is_exact(part.field.data_type()));
        let ranked = is_ranked(&by.expr.data_type(&schema)?);
        Ok((supported && ranked).then_some(PartitionTop { partition, by, rows, parts }))
    }
}

/// The node: its input without rows that come too late.
#[derive(Debug)]
pub struct PartitionTopExec {
    input: Plan,
    top: PartitionTop,
    metrics: ExecutionPlanMetricsSet,
}

impl PartitionTopExec {
    fn new(input: Plan, top: PartitionTop) -> PartitionTopExec {
        PartitionTopExec { input, top, metrics: ExecutionPlanMetricsSet::new() }
    }

    fn over(&self, mut children: Vec<Plan>) -> Plan {
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        Arc::new(PartitionTopExec::new(input, self.top.clone()))
    }
}

impl DisplayAs for PartitionTopExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partition: Vec<String> = self.top.partition.iter().map(expr_text).collect();
        let by = expr_text(&self.top.by.expr);
        let order = if self.top.by.options.descending { " DESC" } else { "" };
        write!(f, "PartitionTop: rows={}, partition=[{}], by {by}{order}", self.top.rows, partition.join(", "))
    }
}

impl ExecutionPlan for PartitionTopExec {
    fn name(&self) -> &str {
        "PartitionTop"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn apply_expressions(&self, f: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion>) -> Result<TreeNodeRecursion> {
        for expr in self.top.partition.iter().chain([&self.top.by.expr]) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(self: Arc<Self>, children: Vec<Plan>, _: ReplaceChildrenOptions) -> Result<Plan> {
        Ok(self.over(children))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        Ok(self.over(children))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context.clone())?;
        let memory = MemoryConsumer::new("PartitionTop").register(context.memory_pool());
        let mut so_far = SoFar::new(self.top.clone(), memory);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = input.map(move |batch| {
            let _timer = metrics.elapsed_compute().timer();
            let batch = so_far.narrowed(batch?)?;
            metrics.record_output(batch.num_rows());
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// What one partition of the plan has seen.
struct SoFar {
    top: PartitionTop,
    memory: MemoryReservation,
    /// `None`: all rows pass.
    partitions: Option<Partitions>,
    /// Rows seen so far.
    seen: usize,
    /// Since it was last asked whether it is worth it.
    trial: Trial,
}

#[derive(Default)]
struct Trial {
    seen: usize,
    passed: usize,
    /// The partitions that there were before.
    partitions: usize,
}

/// The first ranks of each partition so far.
struct Partitions {
    groups: Groups,
    /// Of each group as many as rows are looked for, ascending; those not known yet are the greatest.
    first: Vec<u64>,
}

impl SoFar {
    fn new(top: PartitionTop, memory: MemoryReservation) -> SoFar {
        let partitions = Partitions { groups: Groups::new(Arc::clone(&top.parts)), first: Vec::new() };
        SoFar { top, memory, partitions: Some(partitions), seen: 0, trial: Trial::default() }
    }

    /// The rows that may be among the first, as far as is known after them.
    fn narrowed(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let Some(partitions) = &mut self.partitions else { return Ok(batch) };
        let among = partitions.among(&self.top, &batch)?;
        let passed = among.count_set_bits();
        self.seen += batch.num_rows();
        self.trial.seen += batch.num_rows();
        self.trial.passed += passed;
        let known = partitions.groups.len();
        let asked = self.trial.seen >= ROWS_OF_A_TRIAL;
        let fails = asked && self.trial.leaves_out_few(known, self.seen / (self.top.rows * TIMES_ROWS_OF_A_CHANCE));
        if fails || self.memory.try_resize(partitions.bytes()).is_err() {
            self.partitions = None;
            self.memory.free();
        }
        if asked {
            self.trial = Trial { partitions: known, ..Trial::default() };
        }
        match passed == batch.num_rows() {
            true => Ok(batch),
            false => Ok(filter_record_batch(&batch, &BooleanArray::new(among, None))?),
        }
    }
}

impl Trial {
    /// Whether most rows pass, and will: most are of partitions of their own, or no more partitions are known than have
    /// had their chance.
    fn leaves_out_few(&self, known: usize, most_with_chance: usize) -> bool {
        let most = self.seen / 4 * 3;
        self.passed > most && (known - self.partitions > most || known <= most_with_chance)
    }
}

impl Partitions {
    fn bytes(&self) -> usize {
        self.groups.bytes() + self.first.capacity() * size_of::<u64>()
    }

    fn among(&mut self, top: &PartitionTop, batch: &RecordBatch) -> Result<BooleanBuffer> {
        let rows = batch.num_rows();
        let array = |expr: &Expr| expr.evaluate(batch)?.into_array(rows);
        let parts: Vec<ArrayRef> = top.partition.iter().map(array).collect::<Result<_>>()?;
        let groups = self.groups.of_rows(Values::new(&top.parts, &parts)?, rows)?;
        let (groups, _) = groups.of_each(rows);
        let ranks = ranks(&array(&top.by.expr)?, top.by.options)?;
        self.first.resize(self.groups.len() * top.rows, u64::MAX);
        for (group, rank) in groups.iter().zip(&ranks) {
            let first = &mut self.first[group * top.rows..(group + 1) * top.rows];
            let behind = first.partition_point(|known| known <= rank);
            if behind < top.rows {
                first[behind..].rotate_right(1);
                first[behind] = *rank;
            }
        }
        Ok(BooleanBuffer::collect_bool(rows, |row| ranks[row] <= self.first[(groups[row] + 1) * top.rows - 1]))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::{Array, AsArray, Float64Array, Int32Array, StringViewArray};
    use arrow::compute::SortOptions;
    use arrow::datatypes::{Float64Type, Int32Type, Schema};
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use datafusion::physical_expr::expressions::col;
    use keyspan_model::{ColumnType, Value};

    use super::*;
    use crate::testing::{Bench, Rows};

    fn bench() -> Bench {
        let columns = [
            ("k", ColumnType::Int, 'p'),
            ("shop", ColumnType::Text, '-'),
            ("v", ColumnType::Double, '-'),
            ("u", ColumnType::Uuid, '-'),
        ];
        let row = |n: i32| {
            let shop = Value::Text(format!("s{}", n % 7));
            vec![Value::Int(n), shop, Value::Double(f64::from(n * 37 % 101)), Value::Null]
        };
        let mut rows = Rows::default();
        rows.create("m", &columns, (0..500).map(row).collect());
        Bench::new(rows)
    }

    #[tokio::test]
    async fn few_rows_are_sorted_where_only_the_first_of_each_are_asked_for() {
        let bench = bench();
        let numbered = |function: &str, over: &str| format!("SELECT *, {function}() OVER ({over}) AS n FROM m");
        let by_v = "PARTITION BY shop ORDER BY v DESC, k";
        for (inner, condition, top) in [
            (numbered("row_number", by_v), "n <= 2", Some("rows=2, partition=[shop], by v DESC")),
            (numbered("row_number", by_v), "3 > n AND v > 4", Some("rows=2")),
            (numbered("rank", by_v), "n = 3", Some("rows=3")),
            (numbered("rank", by_v), "n BETWEEN 1 AND 4", Some("rows=4")),
            (numbered("row_number", "PARTITION BY shop, k % 2 ORDER BY k % 5"), "n < 2", Some("rows=1")),
            (numbered("dense_rank", by_v), "n <= 2", None),
            (numbered("row_number", by_v), "n > 2", None),
            (numbered("row_number", by_v), "n <= 65", None),
            (numbered("row_number", by_v), "n <= 1 OR v > 99", None),
            (numbered("row_number", "PARTITION BY u ORDER BY v"), "n <= 1", Some("rows=1")),
            (numbered("row_number", "PARTITION BY shop ORDER BY u"), "n <= 1", None),
            (numbered("row_number", "PARTITION BY shop ORDER BY random()"), "n <= 1", None),
            (numbered("row_number", "ORDER BY v"), "n <= 1", None),
            ("SELECT k, rank() OVER w AS n, sum(v) OVER w AS s FROM m WINDOW w AS (PARTITION BY shop ORDER BY v)".into(), "n <= 1", None),
            ("SELECT k, rank() OVER w AS n, dense_rank() OVER w AS s FROM m WINDOW w AS (PARTITION BY shop ORDER BY v)".into(), "n <= 1", Some("rows=1")),
        ] {
            let sql = format!("SELECT * FROM ({inner}) AS q WHERE {condition}");
            let plan = bench.explain(&sql, false).await.expect("a plan");
            assert_eq!(plan.contains("PartitionTop"), top.is_some(), "{sql}\n{plan}");
            assert!(top.is_none_or(|top| plan.contains(top)), "{sql}\n{plan}");
        }
        let sql =
            format!("SELECT shop, k, v FROM ({}) AS q WHERE n = 2 ORDER BY shop LIMIT 2", numbered("row_number", by_v));
        assert_eq!(bench.query(&sql).await.expect("rows").1, [["s0", "161", "99"], ["s1", "393", "98"]]);
    }

    /// Batches of a shop, a value and a number each.
    fn batches(rows: usize, of: usize, value: impl Fn(usize) -> Option<f64>) -> Vec<RecordBatch> {
        let schema = Schema::new(vec![
            Field::new("shop", DataType::Utf8View, true),
            Field::new("v", DataType::Float64, true),
            Field::new("k", DataType::Int32, false),
        ]);
        let schema = Arc::new(schema);
        let batch = |numbers: std::ops::Range<usize>| {
            let shops: StringViewArray =
                numbers.clone().map(|n| (!n.is_multiple_of(5)).then(|| format!("s{}", n * 31 % of))).collect();
            let values: Float64Array = numbers.clone().map(&value).collect();
            let keys: Int32Array = numbers.map(|n| Some(n as i32)).collect();
            RecordBatch::try_new(schema.clone(), vec![Arc::new(shops), Arc::new(values), Arc::new(keys)])
                .expect("a batch")
        };
        (0..rows).step_by(1000).map(|from| batch(from..rows.min(from + 1000))).collect()
    }

    fn so_far(schema: &Arc<Schema>, rows: usize, bytes: usize) -> SoFar {
        let by =
            PhysicalSortExpr::new(col("v", schema).expect("v"), SortOptions { descending: true, nulls_first: false });
        let parts = Arc::new([Part { value: PartValue::Input(0), field: Arc::new(schema.field(0).clone()) }]);
        let top = PartitionTop { partition: vec![col("shop", schema).expect("shop")], by, rows, parts };
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        SoFar::new(top, MemoryConsumer::new("PartitionTop").register(&pool))
    }

    #[test]
    fn no_row_is_left_out_that_is_among_the_first() {
        let scattered = |n: usize| (!n.is_multiple_of(13)).then_some((n * 7919 % 1009) as f64);
        for (of, rows) in [(3, 1), (40, 2), (40, 20)] {
            let batches = batches(20_000, of, scattered);
            let mut so_far = so_far(&batches[0].schema(), rows, 1 << 20);
            let narrowed: Vec<RecordBatch> =
                batches.iter().map(|batch| so_far.narrowed(batch.clone()).expect("rows")).collect();
            assert_eq!(first(&narrowed, rows), first(&batches, rows), "{of} {rows}");
            assert!(narrowed.iter().map(RecordBatch::num_rows).sum::<usize>() < 20_000 / 4, "{of} {rows}");
        }
    }

    /// Of each shop the values that are not behind so many others.
    fn first(batches: &[RecordBatch], rows: usize) -> BTreeMap<Option<String>, Vec<(i64, i32)>> {
        let mut found = BTreeMap::<_, Vec<(i64, i32)>>::new();
        for batch in batches {
            let (shops, values) = (batch.column(0).as_string_view(), batch.column(1).as_primitive::<Float64Type>());
            let keys = batch.column(2).as_primitive::<Int32Type>();
            for row in 0..batch.num_rows() {
                let shop = shops.is_valid(row).then(|| shops.value(row).to_owned());
                let value = if values.is_valid(row) { -values.value(row) as i64 } else { i64::MAX };
                found.entry(shop).or_default().push((value, keys.value(row)));
            }
        }
        for values in found.values_mut() {
            values.sort_unstable();
            let last = values[rows.min(values.len()) - 1].0;
            values.retain(|value| value.0 <= last);
        }
        found
    }

    #[test]
    fn all_rows_pass_where_few_come_too_late_or_memory_is_short() {
        let ascending = |n: usize| Some(n as f64);
        let descending = |n: usize| Some(-(n as f64));
        let passed = |batches: &[RecordBatch], rows: usize, bytes: usize| {
            let mut so_far = so_far(&batches[0].schema(), rows, bytes);
            batches.iter().map(|batch| so_far.narrowed(batch.clone()).expect("rows").num_rows()).collect::<Vec<_>>()
        };
        let own = batches(80_000, 100_003, ascending);
        assert_eq!(passed(&own, 1, 1 << 26)[70..], [1000; 10], "most shops have one row");
        let up = batches(80_000, 3_001, |n| (n < 70_000).then_some(n as f64));
        assert_eq!(passed(&up, 1, 1 << 20)[70..], [1000; 10], "each of 65,536 rows came before those that were known");
        // Most of the first 65,536 rows are the first or second of their shop, but no later ones.
        let many = batches(400_000, 40_009, descending);
        assert_eq!(passed(&many, 2, 1 << 26)[300..], [0; 100], "shops had no chance yet");
        let down = batches(80_000, 700, descending);
        assert_eq!(passed(&down, 1, 1 << 20)[1..], [0; 79]);
        assert_eq!(passed(&down, 1, 1 << 10)[1..], [1000; 79], "there is no memory for 560 shops");
    }
}
