//! Which plans can be cached, by their nodes.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use keyspan_model::TableDef;

use crate::optimizer::is_plain;
use crate::table::KeyspanTable;

/// The tables that a plan reads; `None` if it has another node than those of cached plans, or reads something else.
pub fn tables(plan: &LogicalPlan) -> Option<Vec<Arc<TableDef>>> {
    let mut tables = Some(Vec::new());
    let walked = plan.apply_with_subqueries(|node| {
        let table = match node {
            // Plans are not told apart by which versions they show.
            LogicalPlan::TableScan(scan) => {
                let table = KeyspanTable::of_scan(scan).filter(|table| !table.has_history());
                table.map(|table| Some(table.definition().clone()))
            }
            node => is_cacheable(node).then_some(None),
        };
        match (&mut tables, table) {
            (Some(tables), Some(table)) => tables.extend(table),
            _ => tables = None,
        }
        Ok(if tables.is_some() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.ok()?;
    tables
}

/// Whether a cached plan may hold such a node before it is optimized. Nodes of our own are no part of one.
pub fn is_cacheable(node: &LogicalPlan) -> bool {
    use LogicalPlan::{Join, Subquery, Union, Window};
    is_plain(node) || matches!(node, Join(_) | Union(_) | Window(_) | Subquery(_))
}
