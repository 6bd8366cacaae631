//! The join's tree. `keyspan-cql` hands on DuckDB's spelling as a GLOBAL join, since `sqlparser` knows Snowflake's only.

use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, binary_expr};
use datafusion::sql::sqlparser::ast::{Join, JoinConstraint, JoinOperator, ObjectName, TableFactor, TableWithJoins};

use super::{MARK, condition};
use crate::functions::value_call;

/// Whether a join is an ASOF join.
fn is_asof(join: &Join) -> bool {
    join.global || matches!(join.join_operator, JoinOperator::AsOf { .. })
}

/// Puts each ASOF join, with what is to the left of it, into brackets of its own, where the planner of relations sees it.
pub fn nested(from: &mut TableWithJoins) {
    let mut joins = Vec::new();
    for join in std::mem::take(&mut from.joins) {
        if !is_asof(&join) {
            joins.push(join);
            continue;
        }
        let relation = std::mem::replace(&mut from.relation, join.relation.clone());
        let left = if joins.is_empty() { relation } else { bracketed(relation, std::mem::take(&mut joins)) };
        from.relation = bracketed(left, vec![join]);
    }
    from.joins = joins;
}

/// The same in brackets; a join that stands in them alone is left as it is.
pub fn nested_inside(from: &mut TableWithJoins) {
    if from.joins.len() > 1 {
        nested(from);
    }
}

fn bracketed(relation: TableFactor, joins: Vec<Join>) -> TableFactor {
    TableFactor::NestedJoin { table_with_joins: Box::new(TableWithJoins { relation, joins }), alias: None }
}

/// Plans an ASOF join that stands in brackets alone.
#[derive(Debug)]
pub struct AsOfRelation;

impl RelationPlanner for AsOfRelation {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let (from, alias) = match relation {
            TableFactor::NestedJoin { table_with_joins, alias }
                if table_with_joins.joins.len() == 1 && is_asof(&table_with_joins.joins[0]) =>
            {
                (*table_with_joins, alias)
            }
            other => return Ok(RelationPlanning::Original(Box::new(other))),
        };
        let TableWithJoins { relation, mut joins } = from;
        let Some(join) = joins.pop() else { return Err(condition("a join is missing")) };
        let left = context.plan(relation)?;
        let right = context.plan(join.relation)?;
        let (join_type, matched, constraint) = match join.join_operator {
            JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (JoinType::Inner, None, constraint),
            JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (JoinType::Left, None, constraint),
            JoinOperator::AsOf { match_condition, constraint } => (JoinType::Left, Some(match_condition), constraint),
            _ => return Err(condition("an ASOF join is an inner or a LEFT one")),
        };
        let schema = left.schema().join(right.schema())?;
        let matched = matched.map(|matched| context.sql_to_expr(matched, &schema)).transpose()?;
        let builder = LogicalPlanBuilder::from(left);
        let plan = match constraint {
            JoinConstraint::On(on) => {
                let on = context.sql_to_expr(on, &schema)?;
                let whole = match matched {
                    Some(matched) => on.and(matched),
                    None => on,
                };
                builder.join_on(right, join_type, [marked(whole)?])?.build()?
            }
            JoinConstraint::None => match matched {
                Some(matched) => builder.join_on(right, join_type, [marked(matched)?])?.build()?,
                None => return Err(condition("an ASOF join needs ON or USING")),
            },
            JoinConstraint::Using(names) => {
                let name = |name: &ObjectName| {
                    let ident = name.0.last().and_then(|part| part.as_ident()).cloned();
                    ident.map(|ident| context.normalize_ident(ident))
                };
                let names = names.iter().map(name).collect::<Option<Vec<_>>>();
                let names = names.ok_or_else(|| condition("USING takes names of columns"))?;
                using(builder.build()?, right, join_type, &names, matched)?
            }
            JoinConstraint::Natural => return Err(condition("an ASOF join cannot be NATURAL")),
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}

fn marked(condition: Expr) -> Result<Expr> {
    value_call(MARK, vec![condition], &[keyspan_model::ColumnType::Boolean])
}

/// A join by columns that both sides have, of which the left side's are kept. The last is the time, if no other condition
/// says what is nearest.
fn using(
    left: LogicalPlan,
    right: LogicalPlan,
    join_type: JoinType,
    names: &[String],
    matched: Option<Expr>,
) -> Result<LogicalPlan> {
    let column = |plan: &LogicalPlan, name: &str| -> Result<Column> {
        Ok(Column::from(plan.schema().qualified_field_with_unqualified_name(name)?))
    };
    let mut whole = matched;
    let mut dropped = Vec::new();
    for (at, name) in names.iter().enumerate().rev() {
        let (left, right) = (column(&left, name)?, column(&right, name)?);
        let is_time = whole.is_none() && at + 1 == names.len();
        let op = if is_time { Operator::GtEq } else { Operator::Eq };
        let compared = binary_expr(Expr::Column(left), op, Expr::Column(right.clone()));
        whole = Some(match whole {
            Some(whole) => compared.and(whole),
            None => compared,
        });
        dropped.push(right);
    }
    let whole = whole.ok_or_else(|| condition("USING takes names of columns"))?;
    let joined = LogicalPlanBuilder::from(left).join_on(right, join_type, [marked(whole)?])?.build()?;
    let kept = joined.schema().columns().into_iter().filter(|column| !dropped.contains(column)).map(Expr::Column);
    let kept: Vec<Expr> = kept.collect();
    LogicalPlanBuilder::from(joined).project(kept)?.build()
}
