//! EXPLAIN: the lines of a physical plan, a node a line, in the words of the statement.
//!
//! The rule: what a node does and with what is said as SQL says it, as far as names of expressions tell; how DataFusion
//! spells it, EXPLAIN VERBOSE shows. Functions that the binder has put in keep their own names.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::sort_expr::LexOrdering;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, JoinOnRef, NestedLoopJoinExec, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, WindowExpr};

use crate::plan_text::{expr_text, join_condition_text, line_text, name_text, sort_text};

/// The lines of a plan; with what its nodes have counted, if it has run.
pub(crate) fn lines(plan: &Arc<dyn ExecutionPlan>, with_metrics: bool) -> Vec<String> {
    let mut lines = Vec::new();
    add(plan, with_metrics, 0, &mut lines);
    lines
}

fn add(plan: &Arc<dyn ExecutionPlan>, with_metrics: bool, depth: usize, lines: &mut Vec<String>) {
    let children = plan.children();
    // It only lets other tasks run.
    if plan.is::<CooperativeExec>()
        && let [child] = children.as_slice()
    {
        return add(child, with_metrics, depth, lines);
    }
    let metrics = if with_metrics { metrics(plan.as_ref()) } else { String::new() };
    lines.push(format!("{:indent$}{}{metrics}", "", node(plan), indent = depth * 2));
    for child in children {
        add(child, with_metrics, depth + 1, lines);
    }
}

/// What a node has counted, over all partitions.
fn metrics(plan: &dyn ExecutionPlan) -> String {
    match plan.metrics() {
        Some(metrics) => {
            let metrics = metrics.aggregate_by_name().sorted_for_display().timestamps_removed();
            format!(", metrics=[{metrics}]")
        }
        None => ", metrics=[]".to_owned(),
    }
}

/// What a node does.
fn node(plan: &Arc<dyn ExecutionPlan>) -> String {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let columns = projection.expr().iter().map(|column| projected(&column.expr, &column.alias));
        return named("Projection", columns.collect());
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return format!("Filter: {}", expr_text(filter.predicate()));
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return format!("Sort: {}{}", order(sort.expr()), limit(sort.fetch()));
    }
    if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        return format!("Merge: {}{}", order(merge.expr()), limit(merge.fetch()));
    }
    if let Some(gather) = plan.downcast_ref::<CoalescePartitionsExec>() {
        return format!("Gather{}", limit(gather.fetch()).replacen(',', ":", 1));
    }
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        let rows = limit.fetch().map(|rows| rows.to_string());
        let skip = (limit.skip() > 0).then(|| format!("offset={}", limit.skip()));
        return named("Limit", rows.into_iter().chain(skip).collect());
    }
    if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        return format!("Limit: {} of each partition", limit.fetch());
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return aggregated(aggregate);
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let partitioned = if *join.partition_mode() == PartitionMode::Partitioned { ", partitioned" } else { "" };
        let (kind, filter) = (join_type(*join.join_type()), join_filter(join.filter()));
        return format!("HashJoin: {kind}, on=[{}]{filter}{partitioned}", equal_keys(join.on()));
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        let (kind, filter) = (join_type(join.join_type()), join_filter(join.filter().as_ref()));
        return format!("MergeJoin: {kind}, on=[{}]{filter}", equal_keys(join.on()));
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        return format!("NestedLoopJoin: {}{}", join_type(*join.join_type()), join_filter(join.filter()));
    }
    if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
        return match repartition.partitioning() {
            Partitioning::Hash(keys, partitions) => {
                let keys: Vec<String> = keys.iter().map(expr_text).collect();
                format!("Repartition: by [{}], partitions={partitions}", keys.join(", "))
            }
            other => format!("Repartition: partitions={}", other.partition_count()),
        };
    }
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        return windows(window.window_expr());
    }
    if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        return windows(window.window_expr());
    }
    other(plan)
}

/// A node of ours, which says itself what it does, or one of DataFusion's that is seldom.
fn other(plan: &Arc<dyn ExecutionPlan>) -> String {
    let line = DisplayableExecutionPlan::new(plan.as_ref()).one_line().to_string();
    let line = line.trim_end();
    match plan.name() {
        "PlaceholderRowExec" => "OneRow".to_owned(),
        "DataSourceExec" => "Values".to_owned(),
        name => match line.strip_prefix(name) {
            Some(rest) => format!("{}{}", name.trim_end_matches("Exec"), line_text(rest)),
            None => line_text(line),
        },
    }
}

fn named(node: &str, parts: Vec<String>) -> String {
    if parts.is_empty() { node.to_owned() } else { format!("{node}: {}", parts.join(", ")) }
}

/// A column of a projection. The name of what is computed is told only where the statement has said one.
fn projected(expr: &Arc<dyn PhysicalExpr>, alias: &str) -> String {
    let (text, alias) = (expr_text(expr), name_text(alias));
    let is_said = alias.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_column = expr.downcast_ref::<Column>().is_some_and(|column| name_text(column.name()) == alias);
    if !is_said || is_column || text == alias { text } else { format!("{text} AS {alias}") }
}

fn order(keys: &LexOrdering) -> String {
    keys.iter().map(sort_text).collect::<Vec<_>>().join(", ")
}

fn limit(rows: Option<usize>) -> String {
    rows.map_or_else(String::new, |rows| format!(", limit={rows}"))
}

fn join_type(kind: JoinType) -> &'static str {
    match kind {
        JoinType::Inner => "inner",
        JoinType::Left => "left",
        JoinType::Right => "right",
        JoinType::Full => "full",
        JoinType::LeftSemi => "left semi",
        JoinType::RightSemi => "right semi",
        JoinType::LeftAnti => "left anti",
        JoinType::RightAnti => "right anti",
        JoinType::LeftMark => "left mark",
        JoinType::RightMark => "right mark",
    }
}

fn equal_keys(pairs: JoinOnRef<'_>) -> String {
    let pairs = pairs.iter().map(|(left, right)| format!("{} = {}", expr_text(left), expr_text(right)));
    pairs.collect::<Vec<_>>().join(", ")
}

fn join_filter(filter: Option<&JoinFilter>) -> String {
    filter.map_or_else(String::new, |filter| format!(", filter={}", join_condition_text(filter)))
}

fn aggregated(aggregate: &AggregateExec) -> String {
    let step = match aggregate.mode() {
        AggregateMode::Partial | AggregateMode::PartialReduce => "partial, ",
        AggregateMode::Final | AggregateMode::FinalPartitioned => "final, ",
        AggregateMode::Single | AggregateMode::SinglePartitioned => "",
    };
    let groups: Vec<String> = aggregate.group_expr().expr().iter().map(|(expr, _)| expr_text(expr)).collect();
    let sets = aggregate.group_expr().groups();
    let sets = if sets.len() > 1 { format!(", grouping_sets={}", sets.len()) } else { String::new() };
    let calls: Vec<String> = aggregate.aggr_expr().iter().map(|call| name_text(call.name())).collect();
    let limit = limit(aggregate.limit_options().map(|options| options.limit()));
    format!("Aggregate: {step}groups=[{}]{sets}, aggregates=[{}]{limit}", groups.join(", "), calls.join(", "))
}

fn windows(calls: &[Arc<dyn WindowExpr>]) -> String {
    named("Window", calls.iter().map(|call| name_text(call.name())).collect())
}
