//! Predicates to spans of row keys.
//!
//! ```text
//! filters ─▶ regions (predicate) ─▶ boxes (region) ─▶ spans (build) + ranges of other columns
//!            per column: sorted intervals (domain)
//! ```
//!
//! - [`Pushed`]: what a list of filters becomes, and which of them the spans answer exactly.
//! - [`key_of`]: recognition of whole keys and single spans in a WHERE, for the point path and for blind writes.

mod build;
mod domain;
mod key_match;
mod predicate;
mod region;
mod row_key;
mod show;
#[cfg(test)]
mod tests;

use std::ops::Bound;

use datafusion::logical_expr::Expr;
use keyspan_model::{ColumnRange, RelationDef, Span, Value};
use keyspan_seam::Accepted;

pub use key_match::{Constants, KeyMatch, KeyPart, KeyRanges, compares_alike, key_of, no_constants};
pub use predicate::{CTID, ROW_KEY};
pub use show::{ranges_text, spans_text};

use domain::{Domain, Interval};
use region::{KeyBox, MOST, Region};

/// What a list of filters becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Pushed {
    /// Sorted and disjoint.
    pub spans: Vec<Span>,
    /// Bounds of further columns.
    pub ranges: Vec<ColumnRange>,
    /// For each filter, whether the spans answer it exactly.
    pub exact: Vec<bool>,
    /// For each filter, whether the spans and ranges of key columns together do.
    exact_in_ranges: Vec<bool>,
    /// Key columns that have one value in all spans.
    pub constant: Vec<bool>,
}

impl Pushed {
    /// For each filter, whether a store that accepts this of the scan answers it.
    pub fn answered<'a>(&'a self, accepted: &Accepted) -> impl Iterator<Item = bool> + use<'a> {
        let Accepted { spans, ranges, .. } = *accepted;
        let exact = self.exact.iter().zip(&self.exact_in_ranges);
        exact.map(move |(exact, in_ranges)| spans && (*exact || ranges && *in_ranges))
    }

    /// The filters that are left to check on each row.
    pub fn residual(&self, filters: &[&Expr], accepted: &Accepted) -> Vec<Expr> {
        let left = filters.iter().zip(self.answered(accepted)).filter(|(_, answered)| !answered);
        left.map(|(filter, _)| (*filter).clone()).collect()
    }
}

/// A box of the conjunction, and for each filter how many leading columns its part in the box speaks of.
struct Joint {
    key_box: KeyBox,
    reach: Vec<usize>,
}

/// Plans the spans of a conjunction of filters.
pub fn push(filters: &[&Expr], relation: &RelationDef) -> Pushed {
    let regions: Vec<Region> = filters.iter().map(|filter| predicate::region_of(filter, relation)).collect();
    let mut order: Vec<usize> = (0..regions.len()).collect();
    // Small regions first: they narrow the boxes before larger ones multiply them.
    order.sort_by_key(|index| regions[*index].boxes.len());
    // A filter that is left out reaches beyond any span.
    let mut joints = vec![Joint { key_box: KeyBox::default(), reach: vec![usize::MAX; regions.len()] }];
    for index in order {
        let boxes = &regions[index].boxes;
        if joints.len().saturating_mul(boxes.len()) <= MOST {
            joints = joints.iter().flat_map(|joint| boxes.iter().filter_map(|each| joint.with(index, each))).collect();
        }
    }
    finish(&regions, joints, relation)
}

impl Joint {
    fn with(&self, filter: usize, key_box: &KeyBox) -> Option<Joint> {
        let both = self.key_box.intersect(key_box)?;
        let mut reach = self.reach.clone();
        reach[filter] = key_box.columns.keys().next_back().map_or(0, |last| last + 1);
        Some(Joint { key_box: both, reach })
    }

    /// Whether one of the ranges holds just the values that this key column may have; so it is where it may have any.
    fn is_ranged(&self, at: usize, ranges: &[ColumnRange], relation: &RelationDef) -> bool {
        let Some(domain) = self.key_box.columns.get(&at) else { return true };
        let [Interval { lower, upper }] = domain.intervals.as_slice() else { return false };
        let same = |range: &ColumnRange| range.lower == *lower && range.upper == *upper;
        ranges.iter().any(|range| range.column == relation.key[at].id && same(range))
    }
}

fn finish(regions: &[Region], joints: Vec<Joint>, relation: &RelationDef) -> Pushed {
    let (mut spans, mut used) = (Vec::new(), Vec::with_capacity(joints.len()));
    for joint in &joints {
        let part = build::spans_of(&joint.key_box, &relation.key);
        spans.extend(part.spans);
        used.push(part.used);
    }
    if spans.len() > MOST {
        (spans, used) = (vec![Span::all()], vec![0; joints.len()]);
    }
    let boxes: Vec<KeyBox> = joints.iter().map(|joint| joint.key_box.clone()).collect();
    let ranges = ranges(&boxes, used.iter().copied().min().unwrap_or(0), relation);
    let exact = |covers: &dyn Fn(&Joint, usize, usize) -> bool| {
        let covered =
            |filter: usize| joints.iter().zip(&used).all(|(joint, used)| covers(joint, *used, joint.reach[filter]));
        regions.iter().enumerate().map(|(filter, region)| region.exact && covered(filter)).collect()
    };
    let in_spans = |_: &Joint, used: usize, reach: usize| reach <= used;
    let in_ranges = |joint: &Joint, used: usize, reach: usize| {
        reach <= used || reach <= relation.key.len() && (used..reach).all(|at| joint.is_ranged(at, &ranges, relation))
    };
    Pushed {
        exact: exact(&in_spans),
        exact_in_ranges: exact(&in_ranges),
        spans: build::merge(spans, &relation.key),
        ranges,
        constant: constants(&boxes, relation),
    }
}

/// Bounds of the columns that every box bounds, beyond those the spans answer.
fn ranges(boxes: &[KeyBox], used: usize, relation: &RelationDef) -> Vec<ColumnRange> {
    let Some(first) = boxes.first() else { return Vec::new() };
    let beyond = first.columns.keys().filter(|column| **column >= used);
    let mut ranges = Vec::new();
    for column in beyond {
        let domains: Option<Vec<&Domain>> = boxes.iter().map(|key_box| key_box.columns.get(column)).collect();
        let Some(domains) = domains else { continue };
        let intervals = domains.iter().flat_map(|domain| domain.intervals.clone()).collect();
        let values = Domain::of(domains[0].ty, intervals);
        let hull = values.hull();
        let bounded = |hull: &Interval| hull.lower != Bound::Unbounded || hull.upper != Bound::Unbounded;
        if let Some(hull) = hull.filter(bounded) {
            let id = match relation.key.get(*column) {
                Some(key) => key.id,
                None => relation.values[column - relation.key.len()].id,
            };
            ranges.push(ColumnRange { column: id, lower: hull.lower, upper: hull.upper, parts: parts(values) });
        }
    }
    ranges
}

/// The intervals of a domain that has several.
fn parts(values: Domain) -> Vec<(Bound<Value>, Bound<Value>)> {
    match values.intervals.len() {
        0 | 1 => Vec::new(),
        _ => values.intervals.into_iter().map(|interval| (interval.lower, interval.upper)).collect(),
    }
}

/// Which key columns have the same single value in every box *and* are answered by spans or re-checked by the scan.
fn constants(boxes: &[KeyBox], relation: &RelationDef) -> Vec<bool> {
    let single = |place: usize| {
        let domain = &boxes.first()?.columns.get(&place)?.intervals;
        let point = (domain.len() == 1).then(|| domain[0].as_point()).flatten()?;
        let same = |key_box: &KeyBox| {
            key_box
                .columns
                .get(&place)
                .is_some_and(|d| d.intervals.len() == 1 && d.intervals[0].as_point() == Some(point))
        };
        boxes.iter().all(same).then_some(())
    };
    (0..relation.key.len()).map(|place| single(place).is_some()).collect()
}
