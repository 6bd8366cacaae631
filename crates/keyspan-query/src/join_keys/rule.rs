//! Which scans wait for which joins' keys.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use super::exec::JoinKeysExec;
use crate::grouped::GroupedScanExec;
use crate::scan::{AwaitedKeys, SpanScanExec, new_number};
use crate::widened::column_of;

/// See the module.
#[derive(Debug, Default)]
pub struct KeysAsSpans;

type Plan = Arc<dyn ExecutionPlan>;

impl PhysicalOptimizerRule for KeysAsSpans {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        let narrow = |node: Plan| {
            if node.is::<RecursiveQueryExec>() {
                return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
            }
            let narrowed = match (node.downcast_ref::<HashJoinExec>(), node.downcast_ref::<GroupedScanExec>()) {
                (Some(join), _) => narrowed(join)?,
                (_, Some(grouped)) => narrowed_groups(grouped),
                _ => None,
            };
            Ok(match narrowed {
                Some(join) => Transformed::yes(join),
                None => Transformed::no(node),
            })
        };
        plan.transform_down(narrow).data()
    }

    fn name(&self) -> &str {
        "keys_as_spans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The join whose probe side waits for the keys of its build side, if a scan there can use them.
fn narrowed(join: &HashJoinExec) -> Result<Option<Plan>> {
    let probe_may_lose_rows = matches!(
        join.join_type(),
        JoinType::Inner
            | JoinType::Left
            | JoinType::LeftSemi
            | JoinType::LeftAnti
            | JoinType::LeftMark
            | JoinType::RightSemi
    );
    if !probe_may_lose_rows || join.null_aware {
        return Ok(None);
    }
    let probe = join
        .on()
        .iter()
        .enumerate()
        .filter_map(|(place, (_, key))| Some((place, column_of(key, &join.right().schema())?)));
    let nulls = join.null_equality() == NullEquality::NullEqualsNull;
    let wanted = Wanted { join: new_number(), columns: probe.collect(), nulls };
    let Some(probe) = waiting(join.right(), &wanted)? else { return Ok(None) };
    let keys = join.on().iter().map(|(key, _)| key.clone()).collect();
    let Some(build) = noting(join, JoinKeysExec { join: wanted.join, keys, input: join.left().clone() })? else {
        return Ok(None);
    };
    join.builder().with_new_children(vec![build, probe])?.build_exec().map(Some)
}

/// The groups whose scan waits for the keys of the tables that its rows are looked up in.
fn narrowed_groups(grouped: &GroupedScanExec) -> Option<Plan> {
    let mut narrowed: Option<SpanScanExec> = None;
    let mut tables = Vec::new();
    for (table, column, key) in grouped.tables() {
        let wanted = Wanted {
            join: new_number(),
            columns: column.map(|column| (0, column)).into_iter().collect(),
            nulls: false,
        };
        let scan = narrowed.as_ref().unwrap_or(grouped.scan());
        let mut keys = awaited(scan, &wanted);
        // A look-up costs no more than a comparison: only what is sorted is worth being narrowed by bounds.
        keys.bounded.retain(|(_, column)| scan.plan.relation.key_index(*column).is_some());
        let scan = scan.awaiting(keys);
        tables.push(match scan {
            Some(scan) => {
                narrowed = Some(scan);
                Arc::new(JoinKeysExec { join: wanted.join, keys: vec![key.clone()], input: table.clone() }) as Plan
            }
            None => table.clone(),
        });
    }
    narrowed.map(|scan| Arc::new(grouped.over(scan).with_tables(tables)) as Plan)
}

/// The build side whose keys are noted: below a repartition, which deals its rows out to the join's partitions.
fn noting(join: &HashJoinExec, over: JoinKeysExec) -> Result<Option<Plan>> {
    match (join.partition_mode(), over.input.downcast_ref::<RepartitionExec>()) {
        (PartitionMode::CollectLeft, _) => Ok(Some(Arc::new(over))),
        (PartitionMode::Partitioned, Some(dealt)) => {
            let input = dealt.input().clone();
            let node = over.input.clone();
            with_children(&node, vec![Arc::new(JoinKeysExec { input, ..over })]).map(Some)
        }
        _ => Ok(None),
    }
}

/// What a join's keys are equal to in the rows of a node.
struct Wanted {
    join: u64,
    /// Pairs of a place in the keys and the column that is equal to it.
    columns: Vec<(usize, usize)>,
    /// Whether NULL is equal to NULL.
    nulls: bool,
}

impl Wanted {
    /// The same of a node below, whose columns stand where this function says.
    fn below(&self, column: impl Fn(usize) -> Option<usize>) -> Wanted {
        let columns = self.columns.iter().filter_map(|(key, place)| Some((*key, column(*place)?)));
        Wanted { columns: columns.collect(), ..*self }
    }
}

/// The node over scans that wait for the keys; `None` if none of them can use them.
fn waiting(plan: &Plan, wanted: &Wanted) -> Result<Option<Plan>> {
    if wanted.columns.is_empty() {
        return Ok(None);
    }
    if let Some(scan) = plan.downcast_ref::<SpanScanExec>() {
        return Ok(of_scan(scan, wanted).map(|scan| Arc::new(scan) as Plan));
    }
    if let Some(grouped) = plan.downcast_ref::<GroupedScanExec>() {
        if grouped.fetch().is_some() {
            return Ok(None);
        }
        let wanted = wanted.below(|place| grouped.column_of_group(place));
        return Ok(of_scan(grouped.scan(), &wanted).map(|scan| Arc::new(grouped.over(scan)) as Plan));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return of_join(join, wanted);
    }
    if plan.is::<UnionExec>() {
        let inputs = plan.children().into_iter().map(|input| Ok((input, waiting(input, wanted)?)));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        if inputs.iter().all(|(_, waiting)| waiting.is_none()) {
            return Ok(None);
        }
        let inputs = inputs.into_iter().map(|(input, waiting)| waiting.unwrap_or_else(|| input.clone()));
        return with_children(plan, inputs.collect()).map(Some);
    }
    let Some(below) = below(plan, wanted) else { return Ok(None) };
    let children = plan.children();
    let [input] = children.as_slice() else { return Ok(None) };
    waiting(input, &below)?.map(|input| with_children(plan, vec![input])).transpose()
}

/// What is wanted of the input of a node that leaves out no row because of another, and whose groups and windows lose all
/// of their rows or none.
fn below(plan: &Plan, wanted: &Wanted) -> Option<Wanted> {
    if plan.fetch().is_some() {
        return None;
    }
    let moved = plan.is::<CooperativeExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<BufferExec>()
        || plan.is::<SortExec>()
        || plan.is::<SortPreservingMergeExec>();
    if moved {
        return Some(wanted.below(Some));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return Some(
            wanted.below(|place| column_of(&projection.expr().get(place)?.expr, &projection.input().schema())),
        );
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return Some(wanted.below(|place| match filter.projection() {
            Some(projection) => projection.get(place).copied(),
            None => Some(place),
        }));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let plain = aggregate.group_expr().is_single() && aggregate.limit_options().is_none();
        let groups = aggregate.group_expr().expr();
        return plain.then(|| wanted.below(|place| column_of(&groups.get(place)?.0, &aggregate.input().schema())));
    }
    let windows = plan.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr);
    let windows = windows.or_else(|| plan.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr))?;
    let of_all = |place: usize| {
        let same = |key: &Arc<dyn PhysicalExpr>| key.downcast_ref::<Column>().is_some_and(|key| key.index() == place);
        windows.iter().all(|window| window.partition_by().iter().any(same))
    };
    Some(wanted.below(|place| of_all(place).then_some(place)))
}

/// A join that keeps all rows of one of its sides that the other does not drop: that side may lose rows.
fn of_join(join: &HashJoinExec, wanted: &Wanted) -> Result<Option<Plan>> {
    if join.fetch().is_some() {
        return Ok(None);
    }
    let (left, right) = (join.left(), join.right());
    let (_, places) = build_join_schema(&left.schema(), &right.schema(), join.join_type());
    let of_side = |side: JoinSide| {
        wanted.below(|place| {
            let place = join.projection.as_ref().map_or(Some(place), |kept| kept.get(place).copied())?;
            places.get(place).filter(|column| column.side == side).map(|column| column.index)
        })
    };
    use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    let of_left = match join.join_type() {
        Inner | Left | LeftSemi | LeftAnti | LeftMark => waiting(left, &of_side(JoinSide::Left))?,
        _ => None,
    };
    let of_right = match join.join_type() {
        Inner | Right | RightSemi | RightAnti | RightMark => waiting(right, &of_side(JoinSide::Right))?,
        _ => None,
    };
    if of_left.is_none() && of_right.is_none() {
        return Ok(None);
    }
    let children = vec![of_left.unwrap_or_else(|| left.clone()), of_right.unwrap_or_else(|| right.clone())];
    join.builder().with_new_children(children)?.build_exec().map(Some)
}

/// The scan that waits for the keys, if with them its spans begin with more key columns of one value, or it has narrower
/// ranges.
fn of_scan(scan: &SpanScanExec, wanted: &Wanted) -> Option<SpanScanExec> {
    scan.awaiting(awaited(scan, wanted))
}

/// The keys, and which of the scan's columns they are for.
fn awaited(scan: &SpanScanExec, wanted: &Wanted) -> AwaitedKeys {
    let columns = wanted.columns.iter().filter_map(|(key, place)| Some((*key, scan.looked_up(*place)?)));
    // No key column is NULL, whether it is equal to NULL or not.
    let bounded = wanted.columns.iter().filter_map(|(key, place)| Some((*key, scan.bounded(*place, wanted.nulls)?)));
    AwaitedKeys { join: wanted.join, columns: columns.collect(), bounded: bounded.collect() }
}

fn with_children(node: &Plan, children: Vec<Plan>) -> Result<Plan> {
    node.clone().replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}
