//! Families of dynamic columns and collections as SQL sees them.
//!
//! ```text
//! t.f                 a map from qualifier to value: the newest version of each cell        jsonb in the answer
//! t.s                 a set or list: an array
//! t.f['q']            family_value(t.f, 'q')
//! t(as_of => …)       the table, its families as they were
//! cells('t', 'f')     the family's relation as a table: key, qualifier, written_at, value; every version
//! ```
//!
//! A scan reads the rows, then the cells of each batch of them ([`FamilyExec`]). Where a plan asks for nothing but values of
//! named qualifiers, [`named_only`] tells the scan which, and only these cells are read.
//!
//! - `value`: `family_value` and the mark that tells a scan which qualifiers are wanted.
//! - `cells`: the cells of a batch of rows.
//! - `exec`: the node.
//! - `found`: rows that indexes of collections find.
//! - `history`: versions in the table's own form: `FROM t(with_history => true)`.

mod cells;
mod exec;
mod found;
mod history;
mod value;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use keyspan_model::{ColumnDef, ColumnId, ColumnRole, ColumnType, FamilyDef, TableDef, TextType};
use keyspan_model::{FamilyKind, schema::VERSION_COLUMN};

pub use cells::FamilyRead;
pub use exec::{FamilyExec, FamilyOutput};
pub use found::{found, is_found_mark, marked};
pub use history::{ARGUMENTS, HISTORY, History};
pub use value::{VALUES, functions, named_only, only_of, slice_call, value_call};

use crate::types::field_of;

/// The name of the relation of a family's cells, as a function.
pub const CELLS: &str = "cells";

/// The key of a field's metadata that says that the array is a set: compared, it has no order.
const SET_KEY: &str = "keyspan.set";

/// Whether a column is a set, of which clients get an array.
pub fn is_set(field: &Field) -> bool {
    field.metadata().contains_key(SET_KEY)
}

/// A family's column: a map, or an array of the elements of a set or list; null where a row has no cells.
pub fn family_field(family: &FamilyDef, history: Option<&History>) -> Field {
    match family.array_type() {
        Some(ty) if family.kind == FamilyKind::Set => {
            let field = field_of(ty, &family.name, true);
            let mut metadata = field.metadata().clone();
            metadata.insert(SET_KEY.to_owned(), String::new());
            field.with_metadata(metadata)
        }
        Some(ty) => field_of(ty, &family.name, true),
        None => {
            let map = Field::new(&family.name, DataType::Map(Arc::new(entries_field(family, history)), false), true);
            // With history a cell has a list of versions.
            if family.known.is_empty() || history.is_some_and(|history| history.shows_versions(family)) {
                return map;
            }
            let known = family.known.iter().map(|known| (known_key(&known.name), known.ty.name()));
            map.with_metadata(known.collect())
        }
    }
}

/// The key of a family's field under which the type of a single qualifier stands.
fn known_key(qualifier: &str) -> String {
    format!("keyspan.known_cell.{qualifier}")
}

/// The type that cells of this qualifier were declared with, by the field of their family.
pub fn known_type(family: &Field, qualifier: &str) -> Option<ColumnType> {
    ColumnType::parse(family.metadata().get(&known_key(qualifier))?, &[]).ok()
}

fn entries_field(family: &FamilyDef, history: Option<&History>) -> Field {
    let versions = history.is_some_and(|history| history.shows_versions(family));
    let value = if versions { ColumnType::Jsonb } else { family.value.ty };
    let fields = vec![field_of(family.qualifier_type(), "key", false), field_of(value, "value", true)];
    Field::new("entries", DataType::Struct(Fields::from(fields)), false)
}

/// When a cell expires: a column of a family's cells that `*` leaves out.
pub const EXPIRES_AT: &str = "expires_at";

/// Whether a table is the cells of a family.
pub fn is_cells(table: &TableDef) -> bool {
    table.column_by_id(VERSION_COLUMN).is_some()
}

/// The cells of a family as a table: the row key, the qualifier, when a version was written, its value. A collection has
/// no versions.
pub fn cells_table(table: &TableDef, family: &FamilyDef) -> TableDef {
    let column = |id: ColumnId, name: &str, ty: ColumnType, role: ColumnRole| ColumnDef {
        id,
        name: name.to_owned(),
        ty,
        role,
        not_null: role != ColumnRole::Regular,
        default: None,
        max_length: None,
        text_type: TextType::Text,
        hidden: false,
        counter: false,
        identity: None,
    };
    let mut columns: Vec<ColumnDef> = table.key().cloned().collect();
    let taken = |name: &str| table.key().any(|column| column.name == name);
    let free = |name: &str| if taken(name) { format!("{name}_") } else { name.to_owned() };
    for part in &family.qualifier {
        let role = ColumnRole::Clustering { descending: part.descending };
        columns.push(column(part.id, &free(&part.name), part.ty, role));
    }
    if !family.kind.is_collection() {
        let newest_first = ColumnRole::Clustering { descending: true };
        columns.push(column(VERSION_COLUMN, &free("written_at"), ColumnType::Timestamp, newest_first));
    }
    columns.push(column(family.value.id, &free(&family.value.name), family.value.ty, ColumnRole::Regular));
    let of_cells = |column: &ColumnId| family.has_column(*column);
    TableDef {
        columns,
        rows: family.relation,
        name: format!("{}.{}", table.name, family.name),
        statics: None,
        families: Vec::new(),
        checks: Vec::new(),
        indexes: table.indexes.iter().filter(|index| index.columns.iter().any(of_cells)).cloned().collect(),
        foreign_keys: Vec::new(),
        ..table.clone()
    }
}
