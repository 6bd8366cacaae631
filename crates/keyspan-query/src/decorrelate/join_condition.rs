//! Subqueries in the ON of a join.
//!
//! ```text
//! a LEFT JOIN b ON b.g = a.g AND NOT EXISTS (SELECT 1 FROM b AS c WHERE c.g = b.g AND c.id > b.id)
//!
//! of one side only, where ON may filter it    a LEFT JOIN (b WHERE NOT EXISTS …) ON b.g = a.g
//! of the side that an outer join preserves    (SELECT a.*, EXISTS … AS mark FROM a) LEFT JOIN b ON … AND mark
//! of one side, compared with the other        (SELECT a.*, (SELECT max(id) …) AS mark FROM a) LEFT JOIN b ON b.id = mark
//! of both sides of an inner join              a JOIN b ON b.g = a.g WHERE …
//! ```
//!
//! DataFusion counts only the columns that a condition names outside of its subqueries, and so moves it to a side that has
//! not what the subquery refers to.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder};
use keyspan_model::Error;

use super::outer::{outer_columns, subquery_plan};
use super::{Names, is_volatile, subquery_of};
use crate::error::external;

/// Whether the ON of a join has subqueries.
pub fn has_subqueries(join: &Join) -> Result<bool> {
    join.filter.as_ref().map_or(Ok(false), has_subquery)
}

fn has_subquery(condition: &Expr) -> Result<bool> {
    condition.exists(|part| Ok(subquery_of(part).is_some()))
}

/// The join without subqueries in its ON.
///
/// # Errors
/// 0A000 for one that refers to both sides of an outer join.
pub fn without_subqueries(join: &Join, names: &Names) -> Result<LogicalPlan> {
    let (mut left, mut right) = (Side::of(&join.left), Side::of(&join.right));
    let (mut on, mut above) = (Vec::new(), Vec::new());
    for part in join.filter.iter().flat_map(split_conjunction) {
        if !has_subquery(part)? {
            on.push(part.clone());
            continue;
        }
        let of_left = match sides_of(part, join)? {
            (true, true) if join.join_type == JoinType::Inner => {
                above.push(part.clone());
                continue;
            }
            (true, true) => {
                on.push(computed_before(part, join, (&mut left, &mut right), names)?);
                continue;
            }
            (true, false) => true,
            (false, true) => false,
            (false, false) => join.join_type == JoinType::Right,
        };
        let side = if of_left { &mut left } else { &mut right };
        match may_filter(join.join_type, of_left) {
            true => side.filters.push(part.clone()),
            false => on.push(side.mark(part, names)),
        }
    }
    let shown = join.left.schema().columns().into_iter().chain(join.right.schema().columns());
    let marked = !left.marks.is_empty() || !right.marks.is_empty();
    let (left, right) = (left.plan(names)?, right.plan(names)?);
    let joined = Join::try_new(
        left.into(),
        right.into(),
        join.on.clone(),
        conjunction(on),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let mut plan = LogicalPlanBuilder::from(LogicalPlan::Join(joined));
    if let Some(above) = conjunction(above) {
        plan = LogicalPlanBuilder::from(super::with_joins(plan.filter(above)?.build()?, names)?);
    }
    if marked {
        plan = plan.project(shown.map(Expr::Column))?;
    }
    plan.build()
}

/// Whether a condition of one side in ON means a filter of it.
fn may_filter(join: JoinType, left: bool) -> bool {
    match join {
        JoinType::Inner => true,
        JoinType::Left => !left,
        JoinType::Right => left,
        _ => false,
    }
}

/// The condition with its subqueries computed before, each of the side that it refers to.
fn computed_before<'a>(
    condition: &Expr,
    join: &Join,
    sides: (&mut Side<'a>, &mut Side<'a>),
    names: &Names,
) -> Result<Expr> {
    let computed = condition.clone().transform_down(|part| {
        if subquery_of(&part).is_none() {
            return Ok(Transformed::no(part));
        }
        let side = match sides_of(&part, join)? {
            (true, true) => {
                let message = "a subquery in the ON of an outer join that refers to both of its sides is not supported";
                return Err(external(Error::not_supported(message)));
            }
            (false, true) => &mut *sides.1,
            (_, false) => &mut *sides.0,
        };
        Ok(Transformed::new(side.mark(&part, names), true, TreeNodeRecursion::Jump))
    });
    Ok(computed?.data)
}

/// Whether a condition uses columns of the left and of the right side, in its subqueries, too.
fn sides_of(condition: &Expr, join: &Join) -> Result<(bool, bool)> {
    let used = used_columns(condition, join)?;
    let of = |schema: &DFSchema| used.iter().any(|column| schema.has_column(column));
    Ok((of(join.left.schema()), of(join.right.schema())))
}

fn used_columns(condition: &Expr, join: &Join) -> Result<Vec<Column>> {
    let mut used: Vec<Column> = condition.column_refs().into_iter().cloned().collect();
    condition.apply(|part| {
        if let Some(plan) = subquery_plan(part) {
            let outer = outer_columns(plan)?.into_iter().map(|(_, column)| column);
            used.extend(outer.filter(|column| join.schema.has_column(column)));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(used)
}

/// One side of the join, and what is computed of it before.
struct Side<'a> {
    input: &'a LogicalPlan,
    filters: Vec<Expr>,
    /// Conditions as columns.
    marks: Vec<Expr>,
}

impl<'a> Side<'a> {
    fn of(input: &'a LogicalPlan) -> Side<'a> {
        Side { input, filters: Vec::new(), marks: Vec::new() }
    }

    /// The column that says whether the condition is met.
    fn mark(&mut self, condition: &Expr, names: &Names) -> Expr {
        let name = names.next();
        self.marks.push(condition.clone().alias(name.clone()));
        Expr::Column(Column::from_name(name))
    }

    fn plan(self, names: &Names) -> Result<LogicalPlan> {
        let mut plan = self.input.clone();
        if let Some(filter) = conjunction(self.filters) {
            plan = super::with_joins(LogicalPlanBuilder::from(plan).filter(filter)?.build()?, names)?;
        }
        if !self.marks.is_empty() {
            if is_volatile(&plan)? {
                let message = "a subquery in the ON of an outer join over random values is not supported";
                return Err(external(Error::not_supported(message)));
            }
            let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).chain(self.marks).collect();
            plan = super::with_joins(LogicalPlanBuilder::from(plan).project(columns)?.build()?, names)?;
        }
        Ok(plan)
    }
}
