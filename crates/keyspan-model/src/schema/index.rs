//! Secondary indexes, those that are unique among them: how they are declared.

use serde::{Deserialize, Serialize};

use super::{ColumnId, RelationId, TableId};
use crate::types::Similarity;

/// A secondary index: runs of the table get value indexes of its columns. A unique one refuses rows, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexDef {
    /// Never reused.
    pub id: TableId,
    /// Unique in the table's keyspace, tables, views and sequences included.
    pub name: String,
    /// Its columns, each indexed on its own; at least one.
    pub columns: Vec<ColumnId>,
    /// Of a unique index: what holds it. A program that knows no unique indexes refuses the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<UniqueDef>,
    /// Of an index on a vector: what ANN OF sorts by. Nothing is built for it: the search is exact. A program that
    /// knows no vectors refuses the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<Similarity>,
}

/// What holds a unique index: a relation from values to the row that has them. An entry whose row is gone, or has other
/// values now, says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UniqueDef {
    /// The relation of the entries.
    pub entries: RelationId,
    /// Whether it was declared as a constraint, not as an index.
    pub constraint: bool,
}

impl IndexDef {
    /// Whether it was declared as a constraint.
    pub fn is_constraint(&self) -> bool {
        self.unique.as_ref().is_some_and(|unique| unique.constraint)
    }
}
