//! Parts that stand in a plan several times, computed once.
//!
//! ```text
//! WITH q AS (SELECT day, sum(v) AS v FROM a JOIN b … GROUP BY day)
//! SELECT … FROM q JOIN q AS before ON before.day = q.day - 1
//!
//! Aggregate: day, sum(v) ─▶ Shared: 0, twice
//! ```
//!
//! This comes after the optimizer: only where all places want the same rows and columns are the parts equal. What groups
//! rows or computes windows costs more than to hold its rows; what only joins or filters may be narrowed by the joins
//! above each place, and is left where it is.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;

use super::{Shared, is_volatile, shared, shared_of};
use crate::table::{KeyspanTable, is_of_one_row};

/// The plan whose equal parts are computed once.
pub fn equal_parts_once(mut plan: LogicalPlan) -> Result<LogicalPlan> {
    if !reads_a_table_twice(&plan)? {
        return Ok(plan);
    }
    let mut number = next_number(&plan)?;
    while let Some(part) = repeated_part(&plan)? {
        plan = plan
            .transform_down_with_subqueries(|node| match &node {
                LogicalPlan::RecursiveQuery(_) => Ok(Transformed::new(node, false, TreeNodeRecursion::Jump)),
                _ if is_same(&node, &part) => {
                    Ok(Transformed::new(shared(Shared { input: node, number }), true, TreeNodeRecursion::Jump))
                }
                _ => Ok(Transformed::no(node)),
            })
            .data()?;
        number += 1;
    }
    Ok(plan)
}

pub(super) fn reads_a_table_twice(plan: &LogicalPlan) -> Result<bool> {
    let mut names = Vec::new();
    let mut twice = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            twice |= names.contains(&scan.table_name);
            names.push(scan.table_name.clone());
        }
        Ok(if twice { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(twice)
}

/// A number that no shared rows of the plan have.
pub(super) fn next_number(plan: &LogicalPlan) -> Result<u64> {
    let mut next = 0;
    plan.apply_with_subqueries(|node| {
        if let Some(shared) = shared_of(node) {
            next = next.max(shared.number + 1);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(next)
}

/// A part that is computed several times. What is in shared rows is computed once, however often these stand in the plan.
fn repeated_part(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let (mut parts, mut known): (Vec<LogicalPlan>, Vec<u64>) = Default::default();
    let mut repeated = None;
    plan.apply_with_subqueries(|node| {
        if let Some(shared) = shared_of(node) {
            if known.contains(&shared.number) {
                return Ok(TreeNodeRecursion::Jump);
            }
            known.push(shared.number);
        }
        match node {
            // It is run several times, each time over other rows.
            LogicalPlan::RecursiveQuery(_) => return Ok(TreeNodeRecursion::Jump),
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Distinct(_) if may_be_shared(node)? => {}
            _ => return Ok(TreeNodeRecursion::Continue),
        }
        if parts.iter().any(|part| is_same(part, node)) {
            repeated = Some(node.clone());
            return Ok(TreeNodeRecursion::Stop);
        }
        parts.push(node.clone());
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(repeated)
}

/// Whether a part reads tables, and gives the same rows wherever it stands and however often it is run.
pub(super) fn may_be_shared(part: &LogicalPlan) -> Result<bool> {
    let (mut tables, mut same) = (0, !is_volatile(part)?);
    part.apply(|node| {
        match node {
            LogicalPlan::TableScan(scan) if KeyspanTable::of_scan(scan).is_some() => tables += 1,
            LogicalPlan::TableScan(_) | LogicalPlan::RecursiveQuery(_) | LogicalPlan::Subquery(_) => same = false,
            _ => {}
        }
        node.apply_expressions(|expr| {
            same &= is_of_one_row(expr);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if same { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(same && tables > 0)
}

/// Whether two parts are equal, and read the same: what is equal to DataFusion may read two tables of one name.
pub(super) fn is_same(one: &LogicalPlan, other: &LogicalPlan) -> bool {
    one == other
        && tables_of(one)
            .zip(tables_of(other))
            .is_some_and(|(one, other)| one.iter().zip(&other).all(|(one, other)| one.reads_as(other)))
}

fn tables_of(part: &LogicalPlan) -> Option<Vec<KeyspanTable>> {
    let mut tables = Some(Vec::new());
    let walked = part.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            match (&mut tables, KeyspanTable::of_scan(scan)) {
                (Some(tables), Some(table)) => tables.push(table),
                _ => tables = None,
            }
        }
        Ok(if tables.is_some() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.ok()?;
    tables
}
