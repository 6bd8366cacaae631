//! Which orders a scan can deliver: row-key order, forward or backward, key columns with one value left aside.

use std::ops::Bound;

use arrow::compute::SortOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalSortExpr, ScalarFunctionExpr};
use keyspan_model::{Order, ScanColumn, Span};

use super::exec::SpanScanExec;
use super::read::ReadColumn;
use crate::types::sortable_form;

/// Most spans that are merged: each is a partition of its own.
const MOST_MERGED: usize = 64;

/// How an order is delivered.
pub(super) struct Delivery {
    /// Row-key order, in which direction.
    pub order: Order,
    /// Each span has the order, but only a merge of the spans has it as a whole.
    pub by_span: bool,
}

/// How the scan can deliver an order; `None` if it cannot.
///
/// A scan that already has an order keeps it, or its parents would be deceived.
pub(super) fn direction(scan: &SpanScanExec, order: &[PhysicalSortExpr]) -> Option<Delivery> {
    let whole = |place: usize| scan.plan.constant.get(place).copied().unwrap_or(false);
    if scan.is_by_span() {
        return None;
    }
    if let Some(found) = along_key(scan, order, &whole) {
        let kept = scan.ordering.is_none() || scan.scan.order == found;
        return kept.then_some(Delivery { order: found, by_span: false });
    }
    let spans = &scan.scan.spans;
    if scan.ordering.is_some() || spans.len() < 2 || spans.len() > MOST_MERGED {
        return None;
    }
    let fixed = spans.iter().map(fixed_columns).min().unwrap_or(0);
    let within = |place: usize| place < fixed || whole(place);
    along_key(scan, order, &within).map(|order| Delivery { order, by_span: true })
}

/// How many leading key columns have one value within a span.
pub(super) fn fixed_columns(span: &Span) -> usize {
    match (&span.start, &span.end) {
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => {
            a.iter().zip(b).take_while(|(a, b)| a == b).count()
        }
        _ => 0,
    }
}

/// The direction in which row-key order is the order asked for, some key columns being constant.
fn along_key(scan: &SpanScanExec, order: &[PhysicalSortExpr], constant: &dyn Fn(usize) -> bool) -> Option<Order> {
    let key = &scan.plan.relation.key;
    let (mut next, mut direction) = (0, None);
    for sort in order {
        while next < key.len() && constant(next) {
            next += 1;
        }
        if next == key.len() {
            // The whole key is in order, so no two rows are equal in what came before.
            break;
        }
        let (place, sorts) = key_place(scan, sort)?;
        // A constant, or one that came before and so is constant among equals.
        if constant(place) || place < next {
            continue;
        }
        if place != next || !sorts {
            return None;
        }
        let wanted = asked(sort.options, key[place].descending);
        if *direction.get_or_insert(wanted) != wanted {
            return None;
        }
        next += 1;
    }
    Some(direction.unwrap_or(Order::Forward))
}

fn asked(options: SortOptions, descending_key: bool) -> Order {
    if options.descending == descending_key { Order::Forward } else { Order::Reverse }
}

/// The place in the key of the column that a sort expression is of, and whether the key is in the expression's order: the
/// column itself, or the form by which its type is sorted.
fn key_place(scan: &SpanScanExec, sort: &PhysicalSortExpr) -> Option<(usize, bool)> {
    let (expr, form) = match sort.expr.downcast_ref::<ScalarFunctionExpr>() {
        Some(call) => match call.args() {
            [argument] => (argument, Some(call.name())),
            _ => return None,
        },
        None => (&sort.expr, None),
    };
    let column = expr.downcast_ref::<Column>()?;
    let ReadColumn::Scan(ScanColumn::Column(id)) = scan.plan.read[*scan.output.get(column.index())?] else {
        return None;
    };
    let place = scan.plan.relation.key_index(id)?;
    let ty = scan.plan.relation.key[place].ty;
    let sorts = match form {
        None => ty.arrow_order_is_key_order(),
        Some(form) => sortable_form(ty) == Some(form),
    };
    Some((place, sorts))
}
