//! What DataFusion plans to another answer than Postgres', put right in the plan before it is analyzed.
//!
//! One walk finds whether there is anything; most plans are left as they are.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;

use super::lateral;
use super::nullable::{has_wrong_subquery, with_nulls};
use super::row_order::{is_sorted_subquery, sorted_where_shown};
use super::sort_key::{functions_need_columns, sort_needs_columns, sorted_by_columns};
use super::union::{coerce_unions, is_union};
use crate::decorrelate::{decorrelated, is_correlated, with_references};
use crate::repeated::{repeats, without_keys};
use crate::shared::{computed_once, is_marked};

/// What is to be put right.
#[derive(Default)]
struct Needs {
    unions: bool,
    nulls: bool,
    sorts: bool,
    laterals: bool,
    repeated: bool,
    correlated: bool,
    shared: bool,
    orders: bool,
}

impl Needs {
    fn of(plan: &LogicalPlan) -> Result<Needs> {
        let mut needs = Needs::default();
        plan.apply_with_subqueries(|node| {
            needs.correlated |= is_correlated(node)?;
            needs.orders |= is_sorted_subquery(node);
            match node {
                node if is_union(node) => needs.unions = true,
                node if lateral::is_lateral(node) => needs.laterals = true,
                node if repeats(node) => needs.repeated = true,
                node if is_marked(node) => needs.shared = true,
                // LATERAL: it has columns of the enclosing query.
                LogicalPlan::Subquery(_) => needs.nulls = true,
                LogicalPlan::Sort(sort) => needs.sorts |= sort_needs_columns(sort),
                LogicalPlan::Window(window) => needs.sorts |= functions_need_columns(&window.window_expr),
                LogicalPlan::Aggregate(aggregate) => needs.sorts |= functions_need_columns(&aggregate.aggr_expr),
                _ => {}
            }
            node.apply_expressions(|expr| {
                needs.nulls |= has_wrong_subquery(expr)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(needs)
    }
}

/// The plan with CTEs computed once, with what LATERAL computes, with the types of its unions, with NULL where it may be,
/// and with sorts that its partitions can be merged by.
pub fn corrected(mut plan: LogicalPlan) -> Result<LogicalPlan> {
    let needs = Needs::of(&plan)?;
    if needs.shared {
        plan = computed_once(plan)?;
    }
    if needs.laterals {
        plan = lateral::computed_on_left(plan)?;
    }
    if needs.unions {
        plan = coerce_unions(plan)?;
    }
    if needs.nulls || needs.correlated {
        plan = with_references(plan)?;
    }
    if needs.nulls {
        plan = with_nulls(plan)?;
    }
    if needs.orders {
        plan = sorted_where_shown(plan)?;
    }
    if needs.correlated {
        plan = decorrelated(plan)?;
    }
    if needs.repeated || needs.laterals {
        plan = without_keys(plan)?;
    }
    if needs.sorts {
        plan = sorted_by_columns(plan)?;
    }
    Ok(plan)
}
