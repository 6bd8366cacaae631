//! Which values of one column satisfy a predicate: a sorted list of disjoint intervals.
//!
//! Order is that of the column's keys ([`Value::compare_as`]), ascending, whatever the column's direction in the key.

use std::cmp::Ordering;
use std::ops::Bound;

use keyspan_model::{ColumnType, Value};

/// A contiguous set of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Least value.
    pub lower: Bound<Value>,
    /// Greatest value.
    pub upper: Bound<Value>,
}

/// Values of one column.
#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    /// The column's type.
    pub ty: ColumnType,
    /// Sorted and disjoint; none: no value.
    pub intervals: Vec<Interval>,
}

impl Interval {
    /// One value.
    pub fn point(value: Value) -> Interval {
        Interval { lower: Bound::Included(value.clone()), upper: Bound::Included(value) }
    }

    /// The value, if the interval holds just one.
    pub fn as_point(&self) -> Option<&Value> {
        match (&self.lower, &self.upper) {
            (Bound::Included(a), Bound::Included(b)) if a == b => Some(a),
            _ => None,
        }
    }
}

/// A bound as a place between values: the value, and whether the place is before (-1) or after (1) it; `None` is the
/// end of the line.
type Place<'a> = Option<(&'a Value, i8)>;

fn lower_place(bound: &Bound<Value>) -> Place<'_> {
    match bound {
        Bound::Included(value) => Some((value, -1)),
        Bound::Excluded(value) => Some((value, 1)),
        Bound::Unbounded => None,
    }
}

fn upper_place(bound: &Bound<Value>) -> Place<'_> {
    match bound {
        Bound::Included(value) => Some((value, 1)),
        Bound::Excluded(value) => Some((value, -1)),
        Bound::Unbounded => None,
    }
}

fn compare_places(ty: ColumnType, a: (&Value, i8), b: (&Value, i8)) -> Ordering {
    Value::compare_as(ty, a.0, b.0).then(a.1.cmp(&b.1))
}

fn compare_lower(ty: ColumnType, a: &Bound<Value>, b: &Bound<Value>) -> Ordering {
    match (lower_place(a), lower_place(b)) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(a), Some(b)) => compare_places(ty, a, b),
    }
}

fn compare_upper(ty: ColumnType, a: &Bound<Value>, b: &Bound<Value>) -> Ordering {
    match (upper_place(a), upper_place(b)) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(a), Some(b)) => compare_places(ty, a, b),
    }
}

/// Whether a lower bound lies before an upper one, so that something may be between (`touch`: or they meet).
fn opens(ty: ColumnType, lower: &Bound<Value>, upper: &Bound<Value>, touch: bool) -> bool {
    match (lower_place(lower), upper_place(upper)) {
        (Some(a), Some(b)) => match compare_places(ty, a, b) {
            Ordering::Less => true,
            Ordering::Equal => touch,
            Ordering::Greater => false,
        },
        _ => true,
    }
}

impl Domain {
    /// The union of any intervals.
    pub fn of(ty: ColumnType, mut intervals: Vec<Interval>) -> Domain {
        intervals.retain(|interval| opens(ty, &interval.lower, &interval.upper, false));
        intervals.sort_by(|a, b| compare_lower(ty, &a.lower, &b.lower));
        let mut merged: Vec<Interval> = Vec::with_capacity(intervals.len());
        for interval in intervals {
            match merged.last_mut() {
                Some(last) if opens(ty, &interval.lower, &last.upper, true) => {
                    if compare_upper(ty, &interval.upper, &last.upper) == Ordering::Greater {
                        last.upper = interval.upper;
                    }
                }
                _ => merged.push(interval),
            }
        }
        Domain { ty, intervals: merged }
    }

    /// Values in both.
    pub fn intersect(&self, other: &Domain) -> Domain {
        let ty = self.ty;
        let (mut i, mut j, mut both) = (0, 0, Vec::new());
        while let (Some(a), Some(b)) = (self.intervals.get(i), other.intervals.get(j)) {
            let lower = if compare_lower(ty, &a.lower, &b.lower).is_ge() { &a.lower } else { &b.lower };
            let a_ends_first = compare_upper(ty, &a.upper, &b.upper).is_le();
            let upper = if a_ends_first { &a.upper } else { &b.upper };
            if opens(ty, lower, upper, false) {
                both.push(Interval { lower: lower.clone(), upper: upper.clone() });
            }
            if a_ends_first { i += 1 } else { j += 1 }
        }
        Domain { ty, intervals: both }
    }

    /// Whether it holds only single values.
    pub fn is_points(&self) -> bool {
        self.intervals.iter().all(|interval| interval.as_point().is_some())
    }

    /// The smallest interval around all.
    pub fn hull(&self) -> Option<Interval> {
        let (first, last) = (self.intervals.first()?, self.intervals.last()?);
        Some(Interval { lower: first.lower.clone(), upper: last.upper.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(lower: i32, upper: i32) -> Interval {
        Interval { lower: Bound::Included(Value::Int(lower)), upper: Bound::Excluded(Value::Int(upper)) }
    }

    #[test]
    fn union_merges_what_touches_and_drops_what_is_empty() {
        let domain = Domain::of(ColumnType::Int, vec![interval(5, 7), interval(1, 3), interval(3, 5), interval(9, 9)]);
        assert_eq!(domain.intervals, vec![interval(1, 7)]);
    }

    #[test]
    fn intersection_walks_both_lists() {
        let a = Domain::of(ColumnType::Int, vec![interval(1, 4), interval(6, 9)]);
        let b = Domain::of(ColumnType::Int, vec![interval(3, 7), Interval::point(Value::Int(8))]);
        let both = a.intersect(&b);
        assert_eq!(both.intervals, vec![interval(3, 4), interval(6, 7), Interval::point(Value::Int(8))]);
    }
}
