//! Sort orders over columns that stand in other places.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

/// The order with its columns where `place` says, up to the first expression of which a column is not there. Expressions
/// may be more than columns: a timeuuid is sorted by `timeuuid_bytes(id)`.
pub fn moved<'a>(
    order: impl IntoIterator<Item = &'a PhysicalSortExpr>,
    place: impl Fn(&Column) -> Option<Column>,
) -> Vec<PhysicalSortExpr> {
    let kept = order.into_iter().map_while(|sort| {
        let mut lost = false;
        let expr = Arc::clone(&sort.expr).transform(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
            match place(column) {
                Some(column) => Ok(Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>)),
                None => {
                    lost = true;
                    Ok(Transformed::no(expr))
                }
            }
        });
        expr.ok().filter(|_| !lost).map(|expr| PhysicalSortExpr::new(expr.data, sort.options))
    });
    kept.collect()
}
