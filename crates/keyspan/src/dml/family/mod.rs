//! What statements write to families and collections.
//!
//! ```text
//! SET list, VALUES ─▶ assign: what is written, expressions compiled ─▶ for each row ─▶ cells ─▶ mutations
//!                       ▲ of each row the families that expressions read: read
//! ```
//!
//! - `assign`: `f['q'] = …`, `f = {…}`, `s = s + {…}`, `l[0] = …`, DELETE f['q'].
//! - `cells`: the cells that one row gets, and their mutations.
//! - `input`: families beside the columns of the rows that a statement reads.
//! - `position`: positions of a list's elements.

mod assign;
mod cells;
mod input;
mod position;

use keyspan_cql::ColumnName;
use keyspan_model::{ColumnType, FamilyDef, FamilyKind, TableDef};

pub(crate) use assign::{FamilyAssignments, changed};
pub(crate) use cells::FamilyCells;
pub(crate) use input::{FamilyInput, FamilyRows, proposed};

/// The family that a name in a statement means, if it is one.
pub(crate) fn family_of<'a>(table: &'a TableDef, target: &ColumnName) -> Option<&'a FamilyDef> {
    table.family(&target.name)
}

/// The type of what is written to a column, a cell of a family, or a family as a whole.
pub(crate) fn written_type(table: &TableDef, target: &ColumnName) -> Option<ColumnType> {
    match (family_of(table, target), &target.qualifier) {
        (Some(family), Some(_)) => Some(family.value.ty),
        (Some(family), None) => Some(family.whole_type()),
        (None, _) => table.column(&target.name).map(|column| column.ty),
    }
}

/// The type of what stands between the brackets of `family[…]`.
pub(crate) fn qualifier_type(family: &FamilyDef) -> ColumnType {
    match family.kind {
        FamilyKind::List => ColumnType::Int,
        FamilyKind::Family | FamilyKind::Map | FamilyKind::Set => family.qualifier_type(),
    }
}
