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

use datafusion::logical_expr::Expr;
use keyspan_model::{ColumnRange, RelationDef, Span};

pub use key_match::{KeyMatch, KeyPart, KeyRange, key_of};
pub use predicate::ROW_KEY;
pub use show::spans_text;

use domain::Domain;
use region::{KeyBox, MOST, Region};

/// What a list of filters becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Pushed {
    /// Sorted and disjoint.
    pub spans: Vec<Span>,
    /// Bounds of further columns, only for skipping data.
    pub ranges: Vec<ColumnRange>,
    /// For each filter, whether the spans answer it exactly.
    pub exact: Vec<bool>,
    /// Key columns that have one value in all spans.
    pub constant: Vec<bool>,
}

/// Plans the spans of a conjunction of filters.
pub fn push(filters: &[&Expr], relation: &RelationDef) -> Pushed {
    let regions: Vec<Region> = filters.iter().map(|filter| predicate::region_of(filter, relation)).collect();
    let mut order: Vec<usize> = (0..regions.len()).collect();
    // Small regions first: they narrow the boxes before larger ones multiply them.
    order.sort_by_key(|index| regions[*index].boxes.len());
    let mut boxes = vec![KeyBox::default()];
    let mut included = vec![false; regions.len()];
    for index in order {
        let region = &regions[index];
        if boxes.len().saturating_mul(region.boxes.len()) > MOST {
            continue;
        }
        let pairs = boxes.iter().flat_map(|a| region.boxes.iter().filter_map(|b| a.intersect(b)));
        boxes = pairs.collect();
        included[index] = true;
    }
    finish(&regions, &included, &boxes, relation)
}

fn finish(regions: &[Region], included: &[bool], boxes: &[KeyBox], relation: &RelationDef) -> Pushed {
    let (mut spans, mut used) = (Vec::new(), usize::MAX);
    for key_box in boxes {
        let part = build::spans_of(key_box, &relation.key);
        spans.extend(part.spans);
        used = used.min(part.used);
    }
    if spans.len() > MOST {
        (spans, used) = (vec![Span::all()], 0);
    }
    let covered = |region: &Region| {
        region.boxes.iter().all(|key_box| key_box.columns.keys().all(|column| *column < used))
    };
    let exact = regions.iter().zip(included).map(|(region, included)| {
        region.exact && (boxes.is_empty() || (*included && covered(region)))
    });
    Pushed {
        exact: exact.collect(),
        spans: build::merge(spans, &relation.key),
        ranges: ranges(boxes, used, relation),
        constant: constants(boxes, relation),
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
        let intervals = domains.iter().filter_map(|domain| domain.hull()).collect();
        if let Some(hull) = Domain::of(domains[0].ty, intervals).hull() {
            let id = match relation.key.get(*column) {
                Some(key) => key.id,
                None => relation.values[column - relation.key.len()].id,
            };
            ranges.push(ColumnRange { column: id, lower: hull.lower, upper: hull.upper });
        }
    }
    ranges
}

/// Which key columns have the same single value in every box *and* are answered by spans or re-checked by the scan.
fn constants(boxes: &[KeyBox], relation: &RelationDef) -> Vec<bool> {
    let single = |place: usize| {
        let domain = &boxes.first()?.columns.get(&place)?.intervals;
        let point = (domain.len() == 1).then(|| domain[0].as_point()).flatten()?;
        let same = |key_box: &KeyBox| {
            key_box.columns.get(&place).is_some_and(|d| d.intervals.len() == 1 && d.intervals[0].as_point() == Some(point))
        };
        boxes.iter().all(same).then_some(())
    };
    (0..relation.key.len()).map(|place| single(place).is_some()).collect()
}
