//! Which orders a scan can deliver: row-key order, forward or backward, key columns with one value left aside.

use arrow::compute::SortOptions;
use datafusion::physical_expr::PhysicalSortExpr;
use datafusion::physical_expr::expressions::Column;
use keyspan_model::{Order, ScanColumn};

use super::exec::SpanScanExec;
use super::read::ReadColumn;

/// The direction in which row-key order is the order asked for; `None` if it is in neither.
pub(super) fn direction(scan: &SpanScanExec, order: &[PhysicalSortExpr]) -> Option<Order> {
    let key = &scan.plan.relation.key;
    let constant = |place: usize| scan.plan.constant.get(place).copied().unwrap_or(false);
    let (mut next, mut direction) = (0, None);
    for sort in order {
        while next < key.len() && constant(next) {
            next += 1;
        }
        if next == key.len() {
            // The whole key is in order, so no two rows are equal in what came before.
            break;
        }
        let place = key_place(scan, sort)?;
        if constant(place) {
            continue;
        }
        if place != next || !key[place].ty.arrow_order_is_key_order() {
            return None;
        }
        let wanted = asked(sort.options, key[place].descending);
        if *direction.get_or_insert(wanted) != wanted {
            return None;
        }
        next += 1;
    }
    let direction = direction.unwrap_or(Order::Forward);
    // A scan that already has an order keeps it, or its parents would be deceived.
    (scan.scan.order == Order::Any || scan.scan.order == direction || scan.ordering.is_none()).then_some(direction)
}

fn asked(options: SortOptions, descending_key: bool) -> Order {
    if options.descending == descending_key { Order::Forward } else { Order::Reverse }
}

/// The place in the key of a sort expression that is a key column.
fn key_place(scan: &SpanScanExec, sort: &PhysicalSortExpr) -> Option<usize> {
    let column = sort.expr.downcast_ref::<Column>()?;
    match scan.plan.read[*scan.output.get(column.index())?] {
        ReadColumn::Scan(ScanColumn::Column(id)) => scan.plan.relation.key_index(id),
        _ => None,
    }
}
