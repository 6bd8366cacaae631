//! What a predicate says of a row: a union of boxes, each a set of values per column.
//!
//! Columns are counted as the table is scanned: key columns first, in key order, then value columns. A predicate that
//! cannot be expressed is a wider region that says it is not exact.

use std::collections::BTreeMap;

use super::domain::Domain;

/// Most boxes (and spans) that are worth keeping; beyond it a predicate is checked row by row.
pub const MOST: usize = 10_000;

/// Rows whose columns are each in a set of values; a column not named may have any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyBox {
    /// By column.
    pub columns: BTreeMap<usize, Domain>,
}

/// A union of boxes.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// The boxes; none: no row.
    pub boxes: Vec<KeyBox>,
    /// Whether the rows of the boxes are just those that satisfy the predicate; else they are more.
    pub exact: bool,
}

impl KeyBox {
    /// Rows with one column in a set.
    pub fn of(column: usize, domain: Domain) -> KeyBox {
        KeyBox { columns: BTreeMap::from([(column, domain)]) }
    }

    /// Rows in both; `None` when there can be none.
    pub fn intersect(&self, other: &KeyBox) -> Option<KeyBox> {
        let mut columns = self.columns.clone();
        for (column, domain) in &other.columns {
            let both = match columns.get(column) {
                Some(mine) => mine.intersect(domain),
                None => domain.clone(),
            };
            if both.intervals.is_empty() {
                return None;
            }
            columns.insert(*column, both);
        }
        Some(KeyBox { columns })
    }

    fn single_column(&self) -> Option<usize> {
        let mut columns = self.columns.keys();
        columns.next().copied().filter(|_| columns.next().is_none())
    }
}

impl Region {
    /// Every row, because the predicate says nothing that can be used.
    pub fn unknown() -> Region {
        Region { boxes: vec![KeyBox::default()], exact: false }
    }

    /// Every row.
    pub fn all() -> Region {
        Region { boxes: vec![KeyBox::default()], exact: true }
    }

    /// No row.
    pub fn none() -> Region {
        Region { boxes: Vec::new(), exact: true }
    }

    /// Rows with one column in a set.
    pub fn of(column: usize, domain: Domain, exact: bool) -> Region {
        if domain.intervals.is_empty() {
            return Region::none();
        }
        Region { boxes: vec![KeyBox::of(column, domain)], exact }
    }

    /// Rows in both. Too many boxes: the larger part is left out and checked row by row.
    pub fn intersect(self, other: Region) -> Region {
        let (small, large) = if self.boxes.len() <= other.boxes.len() { (self, other) } else { (other, self) };
        if small.boxes.len().saturating_mul(large.boxes.len()) > MOST.max(large.boxes.len()) {
            return Region { boxes: small.boxes, exact: false };
        }
        let pairs = small.boxes.iter().flat_map(|a| large.boxes.iter().filter_map(|b| a.intersect(b)));
        Region { boxes: pairs.collect(), exact: small.exact && large.exact }
    }

    /// Rows in any of the regions. Boxes over the same single column become one.
    pub fn union(regions: Vec<Region>) -> Region {
        let exact = regions.iter().all(|region| region.exact);
        let mut singles: BTreeMap<usize, Vec<Domain>> = BTreeMap::new();
        let mut boxes = Vec::new();
        for each in regions.into_iter().flat_map(|region| region.boxes) {
            match each.single_column() {
                Some(column) => singles.entry(column).or_default().extend(each.columns.into_values()),
                None if each.columns.is_empty() => return Region { boxes: vec![KeyBox::default()], exact },
                None => boxes.push(each),
            }
        }
        for (column, domains) in singles {
            let ty = domains[0].ty;
            let intervals = domains.into_iter().flat_map(|domain| domain.intervals).collect();
            boxes.push(KeyBox::of(column, Domain::of(ty, intervals)));
        }
        if boxes.len() > MOST { Region::unknown() } else { Region { boxes, exact } }
    }
}
