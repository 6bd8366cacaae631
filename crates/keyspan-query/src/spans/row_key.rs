//! Predicates on the pseudo column `row_key`: HBase's prefix scans, as regions of typed key columns.
//!
//! A prefix means what HBase users mean by it: complete parts are values of their columns. `STC#22#` is the span of
//! `('STC', 22)`, whatever texts with `#` inside other rows may hold. A prefix that is not made of values of the
//! columns' types is compared as text, row by row.

use keyspan_model::{ColumnType, RelationDef, Value};

use super::domain::{Domain, Interval};
use super::predicate::prefix_domain;
use super::region::{KeyBox, Region};

const SEPARATOR: char = '#';

/// Rows whose key's text begins so.
pub fn prefix(text: &str, relation: &RelationDef) -> Region {
    let mut key_box = KeyBox::default();
    let mut rest = text;
    for (place, column) in relation.key.iter().enumerate() {
        if rest.is_empty() {
            break;
        }
        let is_text = matches!(column.ty, ColumnType::Text | ColumnType::Ascii);
        let takes_rest = is_text && place + 1 == relation.key.len();
        match rest.split_once(SEPARATOR).filter(|_| !takes_rest) {
            Some((part, after)) => match point(part, column.ty) {
                Some(domain) => {
                    key_box.columns.insert(place, domain);
                    rest = after;
                }
                None => return Region { boxes: vec![key_box], exact: false },
            },
            None if is_text => {
                key_box.columns.insert(place, prefix_domain(column.ty, rest));
                rest = "";
            }
            None => return Region { boxes: vec![key_box], exact: false },
        }
    }
    Region { boxes: vec![key_box], exact: rest.is_empty() }
}

/// Rows whose key's text is this.
pub fn equal(text: &str, relation: &RelationDef) -> Region {
    let parts: Vec<&str> = text.splitn(relation.key.len().max(1), SEPARATOR).collect();
    if parts.len() != relation.key.len() {
        return Region::unknown();
    }
    let mut key_box = KeyBox::default();
    for (place, (part, column)) in parts.iter().zip(&relation.key).enumerate() {
        match point(part, column.ty) {
            Some(domain) => key_box.columns.insert(place, domain),
            None => return Region::unknown(),
        };
    }
    Region { boxes: vec![key_box], exact: true }
}

/// The value whose text is just this one.
fn point(part: &str, ty: ColumnType) -> Option<Domain> {
    let value = Value::parse(part, ty).ok()?.canonical();
    (value.to_text(ty) == part).then(|| Domain::of(ty, vec![Interval::point(value)]))
}
