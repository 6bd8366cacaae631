//! A relation as the store sees it.

use serde::{Deserialize, Serialize};

use super::{ColumnId, Encoding, GcRule, KeyColumn, RelationId, RelationKind, Retention, TableId, ValueColumn};
use crate::types::ColumnType;

/// The id of the write timestamp as the last key column of every family relation.
pub const VERSION_COLUMN: ColumnId = ColumnId(u32::MAX);

/// The id of the *presence entry*, a column of the rows of a table with families. A write to a family sets it and never
/// lets it expire: it says that a row may live by a cell of a family, not that it does.
pub const PRESENCE_COLUMN: ColumnId = ColumnId(u32::MAX - 1);

/// One sorted map of a table, as the store sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelationDef {
    /// Never reused.
    pub id: RelationId,
    /// The table it belongs to.
    pub table: TableId,
    /// What it holds.
    pub kind: RelationKind,
    /// Version of the table's definition.
    pub schema_version: u32,
    /// Key columns in key order.
    pub key: Vec<KeyColumn>,
    /// How many leading key columns are the partition key.
    pub partition_len: usize,
    /// Value columns.
    pub values: Vec<ValueColumn>,
    /// Index in `key` of the column whose time divides the relation into windows.
    pub window: Option<usize>,
    /// Which versions are kept; only of a family.
    pub gc: GcRule,
    /// How long what is written is read.
    #[serde(default, skip_serializing_if = "Retention::is_unset")]
    pub retention: Retention,
    /// How values are written to disk.
    #[serde(default, skip_serializing_if = "Encoding::is_default")]
    pub encoding: Encoding,
    /// Seconds that tombstones are kept.
    pub gc_grace: u32,
    /// Columns whose values are indexed: value columns, and key columns but the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexed: Vec<ColumnId>,
}

impl RelationDef {
    /// The index of a key column.
    pub fn key_index(&self, id: ColumnId) -> Option<usize> {
        self.key.iter().position(|column| column.id == id)
    }

    /// The key columns that a write gives: all, but of a family not the write timestamp, which it gets.
    pub fn given_key(&self) -> &[KeyColumn] {
        match self.kind {
            RelationKind::Family => &self.key[..self.key.len() - 1],
            _ => &self.key,
        }
    }

    /// The value column with this id.
    pub fn value(&self, id: ColumnId) -> Option<&ValueColumn> {
        self.values.iter().find(|column| column.id == id)
    }

    /// Name and type of the key or value column with this id.
    pub fn column(&self, id: ColumnId) -> Option<(&str, ColumnType)> {
        match self.key_index(id) {
            Some(at) => Some((self.key[at].name.as_str(), self.key[at].ty)),
            None => self.value(id).map(|column| (column.name.as_str(), column.ty)),
        }
    }

    /// Whether it is a family of which not all versions are kept, so that a version's place among them decides.
    pub fn counts_versions(&self) -> bool {
        self.kind == RelationKind::Family && !self.gc.keeps_all()
    }
}
