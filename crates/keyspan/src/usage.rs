//! How the rows of each table have been read since the database was opened, for ADVISE.
//!
//! The rule: what it costs is bounded: a few numbers for each relation, and for each of its columns that is asked for
//! one value. Nothing of it is kept on disk.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use keyspan_model::{ColumnId, ColumnRange, RelationId, Scan, Span};
use parking_lot::Mutex;

/// Relations that are remembered.
const RELATIONS: usize = 4_096;

/// All that is remembered.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    relations: Mutex<HashMap<RelationId, Reads>>,
}

/// The reads of one relation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// Look-ups of keys.
    pub(crate) lookups: u64,
    /// Scans.
    pub(crate) scans: u64,
    /// Scans of all keys that do not end early.
    pub(crate) whole: u64,
    /// Scans that ask for one value of a column, by column.
    pub(crate) by_value: BTreeMap<ColumnId, u64>,
    /// Those among them of all keys.
    pub(crate) whole_by_value: BTreeMap<ColumnId, u64>,
}

impl Usage {
    /// Notes a look-up of keys.
    pub(crate) fn looked_up(&self, relation: RelationId) {
        self.note(relation, |reads| reads.lookups += 1);
    }

    /// Notes a scan.
    pub(crate) fn scanned(&self, scan: &Scan) {
        let is_whole = scan.spans.iter().any(Span::is_all) && scan.limit.is_none() && scan.per_prefix.is_none();
        self.note(scan.relation, |reads| {
            reads.scans += 1;
            reads.whole += u64::from(is_whole);
            for range in scan.ranges.iter().filter(|range| is_one_value(range)) {
                *reads.by_value.entry(range.column).or_default() += 1;
                *reads.whole_by_value.entry(range.column).or_default() += u64::from(is_whole);
            }
        });
    }

    fn note(&self, relation: RelationId, change: impl FnOnce(&mut Reads)) {
        let mut relations = self.relations.lock();
        if relations.len() < RELATIONS || relations.contains_key(&relation) {
            change(relations.entry(relation).or_default());
        }
    }

    /// What is known of a relation.
    pub(crate) fn of(&self, relation: RelationId) -> Reads {
        self.relations.lock().get(&relation).cloned().unwrap_or_default()
    }
}

/// Whether a range has one value.
fn is_one_value(range: &ColumnRange) -> bool {
    matches!((&range.lower, &range.upper), (Bound::Included(least), Bound::Included(greatest)) if least == greatest)
}

#[cfg(test)]
mod tests {
    use keyspan_model::Value;

    use super::*;

    const TABLE: RelationId = RelationId(1);

    fn scan(span: Span, value: Option<i32>) -> Scan {
        let bound = |value| Bound::Included(Value::Int(value));
        let range = |value| ColumnRange::between(ColumnId(2), bound(value), bound(value));
        Scan { ranges: value.map(range).into_iter().collect(), ..Scan::new(TABLE, vec![span], Vec::new()) }
    }

    #[test]
    fn scans_of_all_keys_and_values_asked_for_are_told_apart() {
        let usage = Usage::default();
        usage.scanned(&scan(Span::all(), Some(7)));
        usage.scanned(&scan(Span::prefix(vec![Value::Int(1)]), Some(7)));
        usage.scanned(&Scan { limit: Some(1), ..scan(Span::all(), None) });
        usage.scanned(&Scan {
            ranges: vec![ColumnRange::between(ColumnId(2), Bound::Included(Value::Int(1)), Bound::Unbounded)],
            ..scan(Span::all(), None)
        });
        usage.looked_up(TABLE);
        let reads = usage.of(TABLE);
        assert_eq!((reads.lookups, reads.scans, reads.whole), (1, 4, 2));
        assert_eq!((reads.by_value[&ColumnId(2)], reads.whole_by_value[&ColumnId(2)]), (2, 1));
        assert_eq!(usage.of(RelationId(2)), Reads::default());
    }

    #[test]
    fn relations_beyond_the_bound_are_not_remembered() {
        let usage = Usage::default();
        (0..2 * RELATIONS as u32).for_each(|relation| usage.looked_up(RelationId(relation)));
        assert_eq!(usage.relations.lock().len(), RELATIONS);
        usage.looked_up(RelationId(0));
        assert_eq!(usage.of(RelationId(0)).lookups, 2);
    }
}
