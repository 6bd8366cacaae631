//! What an aggregate reads, as one scan: its rows may pass projections, and joins with smaller tables.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use super::exec::Work;
use super::lookup::{Kind, Lookup, is_key};
use crate::coded_expr::CodedExpr;
use crate::scan::SpanScanExec;
use crate::widened::unwidened;

type Plan = Arc<dyn ExecutionPlan>;
type Expr = Arc<dyn PhysicalExpr>;

/// Rows of a table up to which it is small beside any other, and rows up to which it may be.
const FEW_ROWS: usize = 1024;
const MOST_ROWS: usize = 1 << 20;
/// How many times as many rows the scan must have.
const PART_OF_SCAN: usize = 4;

/// A scan, and what happens to its rows.
pub(super) struct Source<'a> {
    pub(super) scan: &'a SpanScanExec,
    /// The scan's columns, then those of the tables that it is joined with, in the order of the joins.
    pub(super) schema: SchemaRef,
    /// What the columns of the node above are over these.
    columns: Vec<Expr>,
    joins: Vec<Join>,
    /// The nodes over the scan, the lowest first; a join has the table on its left.
    pub(super) nodes: Vec<Plan>,
}

struct Join {
    kind: Kind,
    key: Expr,
    table: Plan,
    table_key: Expr,
    /// Places of its columns in the schema.
    columns: std::ops::Range<usize>,
}

impl<'a> Source<'a> {
    /// Of the node under an aggregate.
    pub(super) fn of(plan: &'a Plan) -> Result<Option<Source<'a>>> {
        match largest(plan) {
            Some(scan) => Source::over(plan, scan),
            None => Ok(None),
        }
    }

    fn over(plan: &'a Plan, scan: &'a SpanScanExec) -> Result<Option<Source<'a>>> {
        if let Some(own) = plan.downcast_ref::<SpanScanExec>() {
            let fields = own.schema.fields().iter().enumerate();
            let columns = fields.map(|(place, field)| Arc::new(Column::new(field.name(), place)) as Expr).collect();
            let (schema, joins, nodes) = (own.schema.clone(), Vec::new(), Vec::new());
            return Ok(std::ptr::eq(own, scan).then_some(Source { scan, schema, columns, joins, nodes }));
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let Some(mut below) = Source::over(projection.input(), scan)? else { return Ok(None) };
            // What has another value each time is computed once a row, there.
            if projection.expr().iter().any(|each| is_volatile(&each.expr)) {
                return Ok(None);
            }
            let columns = projection.expr().iter().map(|each| below.over_scan(&each.expr));
            below.columns = columns.collect::<Result<_>>()?;
            below.nodes.push(plan.clone());
            return Ok(Some(below));
        }
        match plan.downcast_ref::<HashJoinExec>() {
            Some(join) => Source::over_join(join, scan),
            None => Ok(None),
        }
    }

    fn over_join(join: &'a HashJoinExec, scan: &'a SpanScanExec) -> Result<Option<Source<'a>>> {
        let (_, order) = build_join_schema(&join.left().schema(), &join.right().schema(), join.join_type());
        let ([(left_key, right_key)], true) = (join.on(), is_plain(join)) else { return Ok(None) };
        let of_left = largest(join.left()).is_some_and(|largest| std::ptr::eq(largest, scan));
        let (side, table, key, table_key) = match of_left {
            true => (join.left(), join.right(), left_key, right_key),
            false => (join.right(), join.left(), right_key, left_key),
        };
        let Some(kind) = kind_of(*join.join_type(), of_left) else { return Ok(None) };
        let Some(mut below) = Source::over(side, scan)? else { return Ok(None) };
        // Numbers are looked up as they are.
        let key = unwidened(&below.over_scan(key)?, &below.schema)?.clone();
        let table_key = unwidened(table_key, &table.schema())?;
        let types = (key.data_type(&below.schema)?, table_key.data_type(&table.schema())?);
        let same = types.0 == types.1 || types.0.is_signed_integer() && types.1.is_signed_integer();
        let once = !is_volatile(&key) && !is_volatile(table_key);
        if !same || !is_key(&types.0) || !once || !is_small(table, scan)? {
            return Ok(None);
        }
        let first = below.schema.fields().len();
        if matches!(kind, Kind::Inner | Kind::Outer) {
            below.schema = with_columns(&below.schema, &table.schema());
        }
        let (schema, last) = (below.schema.clone(), below.schema.fields().len());
        let side_of_scan = if of_left { JoinSide::Left } else { JoinSide::Right };
        let column = |place: usize| match &order[place] {
            column if column.side == side_of_scan => below.columns[column.index].clone(),
            column => {
                let place = first + column.index;
                Arc::new(Column::new(schema.field(place).name(), place))
            }
        };
        let columns = match &join.projection {
            Some(places) => places.iter().map(|place| column(*place)).collect(),
            None => (0..order.len()).map(column).collect(),
        };
        below.columns = columns;
        below.nodes.extend(with_table_first(join, of_left)?);
        let (table, table_key) = (table.clone(), table_key.clone());
        below.joins.push(Join { kind, key, table, table_key, columns: first..last });
        Ok(Some(below))
    }

    /// Whether rows are looked up in tables.
    pub(super) fn has_joins(&self) -> bool {
        !self.joins.is_empty()
    }

    /// The expression over the schema that this one over the columns of the node is.
    pub(super) fn over_scan(&self, expr: &Expr) -> Result<Expr> {
        let over = |part: Expr| match part.downcast_ref::<Column>() {
            Some(column) => Ok(Transformed::yes(Arc::clone(&self.columns[column.index()]))),
            None => Ok(Transformed::no(part)),
        };
        Arc::clone(expr).transform_up(over).data()
    }

    /// The tables that rows are looked up in, and which of their columns this work asks for.
    pub(super) fn lookups(&self, work: &Work) -> Result<(Vec<Lookup>, Vec<Plan>)> {
        let mut asked = vec![false; self.schema.fields().len()];
        work.expressions().flat_map(CodedExpr::places).for_each(|place| asked[*place] = true);
        let mut lookups = Vec::with_capacity(self.joins.len());
        for join in self.joins.iter().rev() {
            let key = CodedExpr::new(&join.key, &self.schema)?;
            let kept = (0..join.columns.start).filter(|place| asked[*place]).collect();
            let wanted = asked[join.columns.clone()].to_vec();
            key.places().iter().for_each(|place| asked[*place] = true);
            lookups.push(Lookup { kind: join.kind, key, table_key: join.table_key.clone(), wanted, kept });
        }
        lookups.reverse();
        Ok((lookups, self.joins.iter().map(|join| join.table.clone()).collect()))
    }
}

/// The scan with the most rows among those that projections and joins read.
fn largest(plan: &Plan) -> Option<&SpanScanExec> {
    if let Some(scan) = plan.downcast_ref::<SpanScanExec>() {
        return Some(scan);
    }
    if plan.is::<ProjectionExec>() || plan.is::<HashJoinExec>() {
        let scans = plan.children().into_iter().filter_map(largest);
        return scans.max_by_key(|scan| scan.estimated_rows());
    }
    None
}

/// Whether a join compares its keys and nothing else, and NULL is equal to nothing.
fn is_plain(join: &HashJoinExec) -> bool {
    join.filter().is_none()
        && join.null_equality() == NullEquality::NullEqualsNothing
        && !join.null_aware
        && join.fetch().is_none()
}

/// The columns with those of a table behind them.
fn with_columns(schema: &Schema, table: &Schema) -> SchemaRef {
    let mut fields = schema.fields().to_vec();
    for field in table.fields() {
        // Expressions find their columns by name.
        let is_taken = fields.iter().any(|known| known.name() == field.name());
        let name = if is_taken { format!("{}:{}", field.name(), fields.len()) } else { field.name().clone() };
        // Of a code that no row has the value is NULL.
        fields.push(Arc::new(field.as_ref().clone().with_name(name).with_nullable(true)));
    }
    Arc::new(Schema::new(fields))
}

/// What a join does with the rows of one of its sides.
fn kind_of(join: JoinType, of_left: bool) -> Option<Kind> {
    match (join, of_left) {
        (JoinType::Inner, _) => Some(Kind::Inner),
        (JoinType::Left, true) | (JoinType::Right, false) => Some(Kind::Outer),
        (JoinType::LeftSemi, true) | (JoinType::RightSemi, false) => Some(Kind::Semi),
        (JoinType::LeftAnti, true) | (JoinType::RightAnti, false) => Some(Kind::Anti),
        _ => None,
    }
}

/// Whether a table is small beside the scan, as far as is known.
fn is_small(table: &Plan, scan: &SpanScanExec) -> Result<bool> {
    let statistics = StatisticsContext::new().compute(table.as_ref(), &StatisticsArgs::new())?;
    let Some(rows) = statistics.num_rows.get_value().copied() else { return Ok(false) };
    let of_scan = scan.estimated_rows().map_or(0, |rows| rows as usize);
    // What makes few rows of many had better wait for the keys of the others.
    let reads_less = rows_read(table).is_some_and(|read| read <= of_scan);
    Ok(reads_less && (rows <= FEW_ROWS || rows <= MOST_ROWS.min(of_scan / PART_OF_SCAN)))
}

/// The rows that the scans of a plan read, if that is known of all.
fn rows_read(plan: &Plan) -> Option<usize> {
    if let Some(scan) = plan.downcast_ref::<SpanScanExec>() {
        return scan.estimated_rows().map(|rows| rows as usize);
    }
    plan.children().into_iter().try_fold(0_usize, |sum, child| Some(sum.saturating_add(rows_read(child)?)))
}

/// The join with the table on its left, and what stands above it to have its columns in their order.
fn with_table_first(join: &HashJoinExec, of_left: bool) -> Result<Vec<Plan>> {
    if !of_left {
        return Ok(vec![join.builder().with_partition_mode(PartitionMode::CollectLeft).build_exec()?]);
    }
    let swapped = join.swap_inputs(PartitionMode::CollectLeft)?;
    match swapped.downcast_ref::<ProjectionExec>() {
        Some(projection) => Ok(vec![projection.input().clone(), swapped.clone()]),
        None => Ok(vec![swapped]),
    }
}
