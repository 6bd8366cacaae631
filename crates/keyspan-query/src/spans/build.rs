//! Boxes to spans: points on leading key columns, then at most one column of ranges.

use std::cmp::Ordering;
use std::ops::Bound;

use keyspan_model::{KeyColumn, Span, Value};

use super::domain::{Domain, Interval};
use super::region::{KeyBox, MOST};

/// The spans of one box.
pub struct BoxSpans {
    /// In no order; may meet those of other boxes.
    pub spans: Vec<Span>,
    /// How many leading key columns the spans answer exactly.
    pub used: usize,
}

/// The spans that hold a box's rows.
pub fn spans_of(key_box: &KeyBox, key: &[KeyColumn]) -> BoxSpans {
    let mut prefixes: Vec<Vec<Value>> = vec![Vec::new()];
    for (index, column) in key.iter().enumerate() {
        let Some(domain) = key_box.columns.get(&index) else {
            return BoxSpans { spans: prefixes.into_iter().map(Span::prefix).collect(), used: index };
        };
        if prefixes.len().saturating_mul(domain.intervals.len()) > MOST {
            return BoxSpans { spans: prefixes.into_iter().map(Span::prefix).collect(), used: index };
        }
        if !domain.is_points() {
            let spans = prefixes.iter().flat_map(|prefix| ranges_after(prefix, domain, column.descending)).collect();
            return BoxSpans { spans, used: index + 1 };
        }
        prefixes = prefixes.iter().flat_map(|prefix| points_after(prefix, domain)).collect();
    }
    BoxSpans { spans: prefixes.into_iter().map(Span::prefix).collect(), used: key.len() }
}

fn points_after(prefix: &[Value], domain: &Domain) -> Vec<Vec<Value>> {
    let points = domain.intervals.iter().filter_map(Interval::as_point);
    points.map(|point| prefix.iter().chain([point]).cloned().collect()).collect()
}

fn ranges_after(prefix: &[Value], domain: &Domain, descending: bool) -> Vec<Span> {
    let row = |bound: &Bound<Value>| bound.clone().map(|value| vec![value]);
    let range = |interval: &Interval| range_after(prefix, &row(&interval.lower), &row(&interval.upper), descending);
    domain.intervals.iter().map(range).collect()
}

/// The span of the keys that begin with `prefix` and then have a row of values between two bounds.
pub fn range_after(prefix: &[Value], lower: &Bound<Vec<Value>>, upper: &Bound<Vec<Value>>, descending: bool) -> Span {
    let (first, last) = if descending { (upper, lower) } else { (lower, upper) };
    Span { start: extend(prefix, first), end: extend(prefix, last) }
}

fn extend(prefix: &[Value], bound: &Bound<Vec<Value>>) -> Bound<Vec<Value>> {
    let with = |values: &[Value]| [prefix, values].concat();
    match bound {
        Bound::Included(values) => Bound::Included(with(values)),
        Bound::Excluded(values) => Bound::Excluded(with(values)),
        Bound::Unbounded if prefix.is_empty() => Bound::Unbounded,
        Bound::Unbounded => Bound::Included(prefix.to_vec()),
    }
}

/// A place between keys: before or after all keys that begin with these values.
type Place<'a> = (&'a [Value], bool);

fn start_place(span: &Span) -> Place<'_> {
    match &span.start {
        Bound::Included(values) => (values, false),
        Bound::Excluded(values) => (values, true),
        Bound::Unbounded => (&[], false),
    }
}

fn end_place(span: &Span) -> Place<'_> {
    match &span.end {
        Bound::Included(values) => (values, true),
        Bound::Excluded(values) => (values, false),
        Bound::Unbounded => (&[], true),
    }
}

fn compare_places(key: &[KeyColumn], a: Place<'_>, b: Place<'_>) -> Ordering {
    for ((left, right), column) in a.0.iter().zip(b.0).zip(key) {
        let order = Value::compare_as(column.ty, left, right);
        let order = if column.descending { order.reverse() } else { order };
        if order.is_ne() {
            return order;
        }
    }
    let side = |after: bool| if after { Ordering::Greater } else { Ordering::Less };
    match a.0.len().cmp(&b.0.len()) {
        Ordering::Equal => a.1.cmp(&b.1),
        Ordering::Less => side(a.1),
        Ordering::Greater => side(b.1).reverse(),
    }
}

/// Spans in key order, disjoint, those that meet made one.
pub fn merge(mut spans: Vec<Span>, key: &[KeyColumn]) -> Vec<Span> {
    spans.retain(|span| compare_places(key, start_place(span), end_place(span)).is_lt());
    spans.sort_by(|a, b| compare_places(key, start_place(a), start_place(b)));
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match merged.last_mut() {
            Some(last) if compare_places(key, start_place(&span), end_place(last)).is_le() => {
                if compare_places(key, end_place(&span), end_place(last)).is_gt() {
                    last.end = span.end;
                }
            }
            _ => merged.push(span),
        }
    }
    merged
}
