//! Correlated subqueries that DataFusion does not turn into joins, as joins.
//!
//! ```text
//! SELECT id, (SELECT count(*) FROM b WHERE b.at < a.at) FROM a
//!
//! outer values   SELECT DISTINCT at FROM a                                       of the columns that the subquery uses
//! subquery       … for each of them: GROUP BY outer.at, in outer values JOIN b ON b.at < outer.at
//! join           a LEFT JOIN subquery ON a.at IS NOT DISTINCT FROM outer.at
//! ```
//!
//! The outer values are pushed through the subquery's plan down to where it no longer depends on them ([`domain`]); each node
//! on the way keeps them as columns. So whatever the subquery does (LIMIT, inequalities, windows, DISTINCT), it does for
//! each outer value. (Neumann, Kemper: Unnesting Arbitrary Queries, BTW 2015.) What DataFusion can do by itself it does,
//! since it needs no outer values for equalities.
//!
//! - scalar subqueries anywhere in an expression; EXISTS and IN are made such first, where they need it; within a subquery
//!   they may refer to any query around it ([`nested`])
//! - LATERAL, as an inner or left join
//! - in the ON of a join, of one side or of both ([`join_condition`])
//!
//! Rule: a plan that cannot be pushed through stays as it is, and is refused later by name. A volatile outer side stays,
//! too, since it would be computed twice.

mod domain;
mod easy;
mod join_condition;
mod nested;
mod outer;

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::{count, first_value};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprSchemable, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator,
    Sort, SortExpr, Subquery, binary_expr, lit, when,
};

use crate::functions::list::single_row;
use crate::types::fail;
use domain::{Domain, Pushed};
pub use domain::{is_value, under_names, union_all};
use keyspan_model::Error;
use nested::refers_further_out;
pub use nested::with_references;
use outer::outer_columns;

/// Whether a node has a subquery that refers to it, or EXISTS and IN where DataFusion plans none.
pub fn is_correlated(node: &LogicalPlan) -> Result<bool> {
    if let LogicalPlan::Join(join) = node
        && (lateral(&join.right).is_some() || join_condition::has_subqueries(join)?)
    {
        return Ok(true);
    }
    let filters = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::TableScan(_));
    let asked = |part: &Expr| match part {
        Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        part => subquery_of(part).is_some_and(|subquery| !filters || !subquery.outer_ref_columns.is_empty()),
    };
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|part| Ok(asked(part)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The plan, which is one [`with_references`], with joins in the places of its correlated subqueries, but for those that
/// DataFusion makes joins of.
///
/// # Errors
/// 0A000 where a side of a FULL JOIN refers to an outer query: DataFusion would compare above the join, and lose the rows
/// of the other side that match none.
pub fn decorrelated(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = decorrelate(plan, &Names::default())?;
    plan.apply_with_subqueries(|node| match node {
        LogicalPlan::Join(Join { join_type: JoinType::Full, left, right, .. })
            if !(outer_columns(left)?.is_empty() && outer_columns(right)?.is_empty()) =>
        {
            let error = Error::not_supported("a FULL JOIN of a side that refers to an outer query is not supported");
            fail(error.with_hint("Join the tables first, and compare with the outer query in WHERE."))
        }
        _ => Ok(TreeNodeRecursion::Continue),
    })?;
    Ok(plan)
}

fn decorrelate(plan: LogicalPlan, names: &Names) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let node = node.recompute_schema()?;
        match &node {
            LogicalPlan::Join(join) if refers_to_left(join)? => {
                let joined = lateral_join(join, names)?;
                Ok(joined.map_or_else(|| Transformed::yes(node), Transformed::yes))
            }
            LogicalPlan::Join(join) if join_condition::has_subqueries(join)? => {
                Ok(Transformed::yes(join_condition::without_subqueries(join, names)?))
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) if is_correlated(&node)? => {
                Ok(Transformed::yes(distinct_by_columns(distinct, names)?))
            }
            LogicalPlan::Sort(sort) if is_correlated(&node)? => {
                let sorted = sorted_by_columns(sort)?;
                Ok(Transformed::yes(match sorted {
                    Some((below, sort)) => sort.over(with_joins(below, names)?)?,
                    None => with_joins(node, names)?,
                }))
            }
            _ => Ok(Transformed::yes(with_joins(node, names)?)),
        }
    })
    .data()
}

/// A sort by columns that its input is to have, and nobody else sees.
struct HiddenKeys {
    keys: Vec<SortExpr>,
    fetch: Option<usize>,
    shown: Vec<Column>,
}

impl HiddenKeys {
    fn over(self, input: LogicalPlan) -> Result<LogicalPlan> {
        let sorted = LogicalPlanBuilder::from(input).sort_with_limit(self.keys, self.fetch)?;
        sorted.project(self.shown.into_iter().map(Expr::Column))?.build()
    }
}

/// A sort by subqueries over a SELECT list: the list with the subqueries in it, where all columns are known that they refer
/// to, and the sort by these columns.
fn sorted_by_columns(sort: &Sort) -> Result<Option<(LogicalPlan, HiddenKeys)>> {
    let LogicalPlan::Projection(projection) = sort.input.as_ref() else { return Ok(None) };
    let shown = projection.schema.columns();
    let (mut exprs, mut keys) = (projection.expr.clone(), sort.expr.clone());
    for (place, key) in keys.iter_mut().enumerate() {
        if key.expr.exists(|part| Ok(subquery_of(part).is_some()))? {
            let key_name = format!("__sort_{place}");
            // What it takes from the SELECT list is there under its own name.
            let inner = key.expr.clone().transform(|part| match &part {
                Expr::Column(column) => {
                    let at = projection.schema.maybe_index_of_column(column);
                    Ok(at.map_or(Transformed::no(part), |at| Transformed::yes(projection.expr[at].clone().unalias())))
                }
                _ => Ok(Transformed::no(part)),
            })?;
            exprs.push(inner.data.alias(key_name.clone()));
            key.expr = Expr::Column(Column::from_name(key_name));
        }
    }
    let below = LogicalPlanBuilder::from(projection.input.clone()).project(exprs)?.build()?;
    Ok(Some((below, HiddenKeys { keys, fetch: sort.fetch, shown })))
}

/// DISTINCT ON over a SELECT list that has its subqueries' values as columns.
fn distinct_by_columns(distinct: &DistinctOn, names: &Names) -> Result<LogicalPlan> {
    let mut below: Vec<Expr> = distinct.input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut lifted = |expr: &Expr| -> Result<Expr> {
        if !expr.exists(|part| Ok(subquery_of(part).is_some()))? {
            return Ok(expr.clone());
        }
        let name = names.next();
        below.push(expr.clone().unalias().alias(name.clone()));
        Ok(Expr::Column(Column::from_name(name)))
    };
    let on = distinct.on_expr.iter().map(&mut lifted).collect::<Result<Vec<_>>>()?;
    let named = |(expr, old): (Expr, &Expr)| {
        let (relation, name) = old.qualified_name();
        if expr == *old { expr } else { expr.alias_qualified(relation, name) }
    };
    let select = distinct.select_expr.iter().map(&mut lifted).collect::<Result<Vec<_>>>()?;
    let select = select.into_iter().zip(&distinct.select_expr).map(named).collect();
    let mut sorts = distinct.sort_expr.clone();
    for sort in sorts.iter_mut().flatten() {
        sort.expr = lifted(&sort.expr)?;
    }
    let below = LogicalPlanBuilder::from(distinct.input.clone()).project(below)?.build()?;
    let input = Arc::new(with_joins(below, names)?);
    Ok(LogicalPlan::Distinct(Distinct::On(DistinctOn::try_new(on, select, sorts, input)?)))
}

/// Names for the relations that are made.
#[derive(Default)]
struct Names(Cell<usize>);

impl Names {
    fn next(&self) -> String {
        self.0.set(self.0.get() + 1);
        format!("__outer_{}", self.0.get())
    }
}

fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(within) => Some(&within.subquery),
        _ => None,
    }
}

/// The correlated subquery on the right side of a join.
fn lateral(right: &LogicalPlan) -> Option<&Subquery> {
    match right {
        LogicalPlan::Subquery(subquery) if !subquery.outer_ref_columns.is_empty() => Some(subquery),
        LogicalPlan::SubqueryAlias(alias) => lateral(&alias.input),
        _ => None,
    }
}

/// Whether the right side of a join is LATERAL, be it only by subqueries within it, of which DataFusion does not say so.
fn refers_to_left(join: &Join) -> Result<bool> {
    let left = join.left.schema();
    Ok(outer_columns(&join.right)?.iter().any(|(_, column)| left.has_column(column)))
}

/// Whether a plan has other rows each time.
pub fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut volatile = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            volatile |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(volatile)
}

/// LATERAL, the right side being a relation of all that it is for any outer values.
fn lateral_join(join: &Join, names: &Names) -> Result<Option<LogicalPlan>> {
    let kind = matches!(join.join_type, JoinType::Inner | JoinType::Left);
    if !kind || !join.on.is_empty() || easy::is_lateral(join) || is_volatile(&join.left)? {
        return Ok(None);
    }
    let Some(domain) = Domain::of(&join.left, &join.right, names)? else { return Ok(None) };
    let Some(Pushed { plan: right, .. }) = pushed(&domain, &join.right, names)? else { return Ok(None) };
    let filter = join.filter.clone();
    let joined = domain.joined_to(&join.left, right, join.join_type, filter)?;
    let columns = join.left.schema().columns().into_iter().chain(join.right.schema().columns());
    LogicalPlanBuilder::from(joined).project(columns.map(Expr::Column))?.build().map(Some)
}

/// The plan for each outer value, and joins in the places of subqueries that have come to refer to them.
fn pushed(domain: &Domain<'_>, plan: &LogicalPlan, names: &Names) -> Result<Option<Pushed>> {
    let nested = refers_further_out(plan)?;
    let Some(mut pushed) = domain.push(plan)? else { return Ok(None) };
    if nested {
        pushed.plan = decorrelate(pushed.plan, names)?;
    }
    Ok(Some(pushed))
}

/// The node over an input that has the values of its scalar subqueries as columns.
fn with_joins(node: LogicalPlan, names: &Names) -> Result<LogicalPlan> {
    let fits = matches!(
        node,
        LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Window(_)
    );
    let [input] = node.inputs()[..] else { return Ok(node) };
    if !fits || !is_correlated(&node)? || is_volatile(input)? {
        return Ok(node);
    }
    let node = plain_conditions_first(node)?;
    let [input] = node.inputs()[..] else { return Ok(node) };
    let (mut below, before) = (input.clone(), node.schema().columns());
    let mut changed = false;
    let mut exprs = Vec::new();
    for expr in node.expressions() {
        let name = expr.name_for_alias()?;
        let beneath = easy::beneath_others(&expr)?;
        let replaced = expr.transform_up(|part| {
            let hard = beneath.contains(&part);
            let scalar = as_scalar(&part, &node, below.schema(), hard)?;
            let made = hard || scalar.is_some();
            changed |= scalar.is_some();
            match scalar.unwrap_or(part) {
                Expr::ScalarSubquery(subquery) if made || !easy::is_scalar(&subquery, &node) => {
                    match joined_scalar(&below, &subquery, names)? {
                        Some((plan, column)) => {
                            below = plan;
                            changed = true;
                            Ok(Transformed::yes(column))
                        }
                        None => Ok(Transformed::no(Expr::ScalarSubquery(subquery))),
                    }
                }
                other => Ok(Transformed::no(other)),
            }
        })?;
        let named = !matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Sort(_));
        exprs.push(if named { replaced.data.alias_if_changed(name)? } else { replaced.data });
    }
    if !changed {
        return Ok(node);
    }
    let with_columns = node.with_new_exprs(exprs, vec![below])?;
    if with_columns.schema().fields().len() == before.len() {
        return Ok(with_columns);
    }
    // Filters and sorts pass on what their input has.
    LogicalPlanBuilder::from(with_columns).project(before.into_iter().map(Expr::Column))?.build()
}

/// A filter by subqueries over one by all other conditions: subqueries are computed for the rows that these leave, and for no
/// others, for which they might fail.
fn plain_conditions_first(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Filter(filter) = &node else { return Ok(node) };
    let (mut plain, mut others) = (Vec::new(), Vec::new());
    for condition in split_conjunction(&filter.predicate) {
        let waits = condition.is_volatile() || condition.exists(|part| Ok(subquery_of(part).is_some()))?;
        if waits { &mut others } else { &mut plain }.push(condition.clone());
    }
    match (conjunction(plain), conjunction(others)) {
        (Some(plain), Some(others)) => {
            LogicalPlanBuilder::from(filter.input.clone()).filter(plain)?.filter(others)?.build()
        }
        _ => Ok(node),
    }
}

/// EXISTS and IN as scalar subqueries, where DataFusion makes no join of them: the three values of IN are those of an OR of
/// comparisons.
fn as_scalar(expr: &Expr, node: &LogicalPlan, input: &DFSchema, hard: bool) -> Result<Option<Expr>> {
    match expr {
        Expr::Exists(Exists { subquery, negated }) if hard || !easy::is_predicate(subquery, node) => {
            let counted = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
                .aggregate(Vec::<Expr>::new(), vec![count(lit(1_i64)).alias("rows")])?
                .project(vec![binary_expr(
                    Expr::Column(Column::from_name("rows")),
                    if *negated { Operator::Eq } else { Operator::Gt },
                    lit(0_i64),
                )])?
                .build()?;
            Ok(Some(Expr::ScalarSubquery(Subquery { subquery: Arc::new(counted), ..subquery.clone() })))
        }
        Expr::InSubquery(InSubquery { expr: value, subquery, negated })
            if hard || !easy::is_predicate(subquery, node) =>
        {
            let plan = subquery.subquery.as_ref().clone();
            let Some(column) = plan.schema().columns().into_iter().next() else { return Ok(None) };
            let mut outer = subquery.outer_ref_columns.clone();
            let value = value.as_ref().clone().transform(|part| match part {
                Expr::Column(column) => {
                    let field = input.field_from_column(&column)?.as_ref().clone();
                    let reference = Expr::OuterReferenceColumn(Arc::new(field), column);
                    outer.push(reference.clone());
                    Ok(Transformed::yes(reference))
                }
                other => Ok(Transformed::no(other)),
            })?;
            let equal = binary_expr(value.data, Operator::Eq, Expr::Column(column));
            let yes = when(equal.clone(), lit(1_i64)).end()?;
            let known = equal;
            let named = |name: &str| Expr::Column(Column::from_name(name));
            let answer = when(named("found").gt(lit(0_i64)), lit(!*negated))
                .when(named("all").gt(named("known")), lit(ScalarValue::Boolean(None)))
                .otherwise(lit(*negated))?;
            let counted = LogicalPlanBuilder::from(plan)
                .project(vec![yes.alias("yes"), known.alias("known")])?
                .aggregate(
                    Vec::<Expr>::new(),
                    vec![
                        count(named("yes")).alias("found"),
                        count(named("known")).alias("known"),
                        count(lit(1_i64)).alias("all"),
                    ],
                )?
                .project(vec![answer])?
                .build()?;
            let subquery = Subquery { subquery: Arc::new(counted), outer_ref_columns: outer, ..subquery.clone() };
            Ok(Some(Expr::ScalarSubquery(subquery)))
        }
        _ => Ok(None),
    }
}

/// The input with the subquery's value for each of its rows, and the column that has it.
fn joined_scalar(input: &LogicalPlan, subquery: &Subquery, names: &Names) -> Result<Option<(LogicalPlan, Expr)>> {
    if subquery.outer_ref_columns.is_empty() {
        return Ok(None);
    }
    let plan = subquery.subquery.as_ref();
    let Some(domain) = Domain::of(input, plan, names)? else { return Ok(None) };
    let Some(pushed) = pushed(&domain, plan, names)? else { return Ok(None) };
    let Some(value) = plan.schema().columns().into_iter().next() else { return Ok(None) };
    let (name, alias) = ("__value", names.next());
    let one = pushed.one_row;
    let pushed = LogicalPlanBuilder::from(pushed.plan);
    let values = if one {
        pushed.project(domain.columns().chain([Expr::Column(value).alias(name)]))?
    } else {
        let values = pushed.project(domain.columns().chain([Expr::Column(value).alias(name)]))?;
        let value = Expr::Column(Column::from_name(name));
        let counted = vec![count(lit(1_i64)).alias("rows"), first_value(value, Vec::new()).alias("first")];
        let grouped = values.aggregate(domain.columns(), counted)?;
        let checked = single_row(Expr::Column(Column::from_name("rows")), Expr::Column(Column::from_name("first")));
        grouped.project(domain.columns().chain([checked.alias(name)]))?
    };
    let value = Expr::Column(Column::from_name(name)).alias_qualified(Some(alias.clone()), name);
    let right = values.project(domain.columns().chain([value]))?.build()?;
    let joined = domain.joined_to(input, right, JoinType::Left, None)?;
    let column = Column::new(Some(alias), name);
    // The set that a group belongs to is known to an aggregate only: DataFusion resolves grouping() later.
    let before = input.schema().columns().into_iter().filter(|column| column.name != Aggregate::INTERNAL_GROUPING_ID);
    let kept = before.chain([column.clone()]).map(Expr::Column);
    let joined = LogicalPlanBuilder::from(joined).project(kept)?.build()?;
    Ok(Some((joined, Expr::Column(column))))
}

/// Whether a join of these columns must match NULLs.
fn null_equality(columns: &[Expr], plan: &LogicalPlan) -> Result<NullEquality> {
    for column in columns {
        if column.nullable(plan.schema())? {
            return Ok(NullEquality::NullEqualsNull);
        }
    }
    Ok(NullEquality::NullEqualsNothing)
}
