//! Joins with a relation of exactly one row, whose columns nothing but conditions use: these get its values as scalar
//! subqueries, which run first and bound spans ([`crate::session`]).
//!
//! ```text
//! FROM cpu, (SELECT max(ts) AS newest FROM cpu) AS n WHERE ts > n.newest - INTERVAL '1 hour'
//! ─▶  FROM cpu WHERE ts > (SELECT newest FROM (SELECT max(ts) AS newest FROM cpu) AS n) - INTERVAL '1 hour'
//! ```
//!
//! Rule: an aggregate without GROUP BY, or a SELECT without FROM, has one row, whatever it reads.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, JoinType, Spans};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Subquery};
use datafusion::optimizer::AnalyzerRule;

use crate::plan_cache::subqueries::{has_part, runs_ahead};

/// See the module.
#[derive(Debug)]
pub struct OneRowJoins;

impl AnalyzerRule for OneRowJoins {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewrite = |mut node: LogicalPlan| {
            let mut changed = false;
            while let Some(next) = without_join(&node)? {
                (node, changed) = (next, true);
            }
            Ok(Transformed::new_transformed(node, changed))
        };
        plan.transform_up_with_subqueries(rewrite).data()
    }

    fn name(&self) -> &str {
        "one_row_joins"
    }
}

/// A join tree without its relation of one row, and the conditions that stood where it was joined.
struct Parted {
    rest: LogicalPlan,
    one_row: Arc<LogicalPlan>,
    conditions: Vec<Expr>,
}

impl Parted {
    fn uses(&self, expr: &Expr) -> bool {
        expr.column_refs().iter().any(|column| self.one_row.schema().has_column(column))
    }

    /// Whether a subquery or a LATERAL of the node names a column, which then cannot become another subquery.
    fn is_named_within(&self, node: &LogicalPlan) -> bool {
        has_part(node, |part| match part {
            Expr::OuterReferenceColumn(_, column) => self.one_row.schema().has_column(column),
            _ => false,
        })
    }
}

/// The node, which has columns of its own, without such a join below it; `None`: there is none.
fn without_join(node: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let input = match node {
        LogicalPlan::Projection(projection) => &projection.input,
        LogicalPlan::Aggregate(aggregate) => &aggregate.input,
        _ => return Ok(None),
    };
    let (join, predicate) = match input.as_ref() {
        LogicalPlan::Filter(filter) => (filter.input.as_ref(), Some(&filter.predicate)),
        other => (other, None),
    };
    let LogicalPlan::Join(join) = join else { return Ok(None) };
    let Some(mut parted) = parted(join)? else { return Ok(None) };
    parted.conditions.extend(predicate.cloned().into_iter().flat_map(split_conjunction_owned));
    let used_above = node.expressions().iter().any(|expr| parted.uses(expr));
    if used_above || !parted.conditions.iter().any(|condition| parted.uses(condition)) || parted.is_named_within(node) {
        return Ok(None);
    }
    let conditions = parted.conditions.iter().map(|condition| with_subqueries(condition.clone(), &parted.one_row));
    let input = match conjunction(conditions.collect::<Result<Vec<_>>>()?) {
        Some(predicate) => LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(parted.rest))?),
        None => parted.rest,
    };
    node.with_new_exprs(node.expressions(), vec![input]).map(Some)
}

fn parted(join: &Join) -> Result<Option<Parted>> {
    if join.join_type != JoinType::Inner {
        return Ok(None);
    }
    let (left, right) = (&join.left, &join.right);
    let of = |rest: &Arc<LogicalPlan>, one_row: &Arc<LogicalPlan>| Parted {
        rest: rest.as_ref().clone(),
        one_row: one_row.clone(),
        conditions: join.filter.clone().into_iter().flat_map(split_conjunction_owned).collect(),
    };
    if join.on.is_empty() && is_one_row(right) {
        return Ok(Some(of(left, right)));
    }
    if join.on.is_empty() && is_one_row(left) {
        return Ok(Some(of(right, left)));
    }
    // Further down, where this join does not ask for its columns.
    for (own, other_is_right) in [(left, true), (right, false)] {
        let LogicalPlan::Join(below) = own.as_ref() else { continue };
        let Some(parted) = parted(below)? else { continue };
        let node = LogicalPlan::Join(join.clone());
        if node.expressions().iter().any(|expr| parted.uses(expr)) {
            continue;
        }
        let inputs = match other_is_right {
            true => vec![parted.rest.clone(), right.as_ref().clone()],
            false => vec![left.as_ref().clone(), parted.rest.clone()],
        };
        let rest = node.with_new_exprs(node.expressions(), inputs)?;
        return Ok(Some(Parted { rest, ..parted }));
    }
    Ok(None)
}

/// Whether a plan has one row, and may run ahead of the rest.
fn is_one_row(plan: &Arc<LogicalPlan>) -> bool {
    fn has_one(plan: &LogicalPlan) -> bool {
        match plan {
            LogicalPlan::SubqueryAlias(alias) => has_one(&alias.input),
            LogicalPlan::Projection(projection) => has_one(&projection.input),
            LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
            LogicalPlan::EmptyRelation(relation) => relation.produce_one_row,
            _ => false,
        }
    }
    let depends = || has_part(plan, |part| matches!(part, Expr::OuterReferenceColumn(..)));
    has_one(plan) && !depends() && runs_ahead(&subquery(plan.as_ref().clone()))
}

fn subquery(plan: LogicalPlan) -> Subquery {
    Subquery { subquery: Arc::new(plan), outer_ref_columns: Vec::new(), spans: Spans::new() }
}

/// An expression with subqueries in the places of the columns of a plan of one row.
fn with_subqueries(expr: Expr, one_row: &Arc<LogicalPlan>) -> Result<Expr> {
    let value = |column: &Column| {
        let own =
            LogicalPlanBuilder::from(one_row.as_ref().clone()).project([Expr::Column(column.clone())])?.build()?;
        Ok(Transformed::yes(Expr::ScalarSubquery(subquery(own))))
    };
    let put = |expr: Expr| match &expr {
        Expr::Column(column) if one_row.schema().has_column(column) => value(column),
        _ => Ok(Transformed::no(expr)),
    };
    expr.transform_up(put).data()
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn a_relation_of_one_row_goes_where_only_conditions_of_its_own_level_use_it() {
        let session = SessionContext::new();
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 7]));
        let rows = RecordBatch::try_from_iter([("v", numbers)]).expect("a batch");
        session.register_batch("m", rows).expect("a table");
        for (sql, goes) in [
            ("SELECT v FROM m, (SELECT 5 AS least) AS n WHERE v > least", true),
            ("SELECT count(*) FROM (SELECT 5 AS least) AS n JOIN m ON v > least", true),
            ("SELECT v, least FROM m, (SELECT 5 AS least) AS n WHERE v > least", false),
            ("SELECT v FROM m, (SELECT 5 AS least) AS n WHERE v > 3", false),
            ("SELECT v FROM m LEFT JOIN (SELECT 5 AS least) AS n ON v > least", false),
            (
                "SELECT v FROM m, (SELECT 5 AS least) AS n
                WHERE v > least AND EXISTS (SELECT 1 FROM m AS o WHERE o.v > n.least)",
                false,
            ),
            (
                "SELECT (SELECT max(o.v) FROM m AS o WHERE o.v > n.least) FROM m, (SELECT 5 AS least) AS n
                WHERE m.v > least",
                false,
            ),
            (
                "SELECT l.v FROM (SELECT 5 AS least) AS n, LATERAL (SELECT v FROM m WHERE v > n.least) AS l
                WHERE l.v > least",
                false,
            ),
        ] {
            let plan = session.state().create_logical_plan(sql).await.expect(sql);
            let plan = OneRowJoins.analyze(plan, &ConfigOptions::default()).expect(sql);
            let has_join = plan.exists(|node| Ok(matches!(node, LogicalPlan::Join(_)))).expect("walks");
            assert_eq!(has_join, !goes, "{sql}\n{}", plan.display_indent());
        }
    }
}
