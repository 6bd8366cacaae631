//! Reading one relation of a snapshot: what a [`crate::seam::Snapshot`] delegates to.

mod divide;
mod first_rows;
mod get;
mod orders;
mod overlap_groups;
mod overlay;
mod plan;
mod reader;
mod split;
mod statistics;
mod stream;

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use keyspan_model::{ColumnId, Error, ErrorKind, Order, RelationDef, Result, Scan, ScanColumn};

pub use overlay::stamp;

use crate::run::{Run, SpanTombstone};
use crate::seam::Accepted;

/// One relation as a snapshot sees it.
#[derive(Clone, Debug)]
pub struct ScanSource {
    /// The relation as of the snapshot's catalog.
    pub relation: Arc<RelationDef>,
    /// Every run that the snapshot shows, in any order. Those that begin after the snapshot's seq are not listed.
    pub runs: Vec<Run>,
    /// Every span tombstone of the relation that the snapshot shows.
    pub tombstones: Vec<SpanTombstone>,
    /// The time by which expiry is judged, in microseconds since 1970.
    pub now: i64,
}

impl ScanSource {
    /// What of a scan is answered exactly.
    pub fn accept(scan: &Scan) -> Accepted {
        Accepted { spans: true, order: scan.order != Order::Any, limit: true }
    }

    /// The Arrow schema of a scan's output: the columns' types, key columns not null.
    pub fn schema(&self, columns: &[ScanColumn]) -> Result<SchemaRef> {
        output_schema(&self.relation, columns)
    }
}

/// The Arrow schema of a scan of `relation`.
pub fn output_schema(relation: &RelationDef, columns: &[ScanColumn]) -> Result<SchemaRef> {
    let fields: Vec<Field> = columns.iter().map(|column| output_field(relation, *column)).collect::<Result<_>>()?;
    Ok(Arc::new(Schema::new(fields)))
}

fn output_field(relation: &RelationDef, column: ScanColumn) -> Result<Field> {
    use arrow::datatypes::DataType;
    match column {
        ScanColumn::Column(id) => match (relation.key_index(id), relation.value(id)) {
            (Some(at), _) => Ok(relation.key[at].ty.field(&relation.key[at].name, false)),
            (None, Some(column)) => Ok(column.ty.field(&column.name, true)),
            (None, None) => Err(no_column(relation, id)),
        },
        ScanColumn::WriteTime(id) => {
            Ok(Field::new(format!("writetime({})", value_name(relation, id)?), DataType::Int64, true))
        }
        ScanColumn::Ttl(id) => Ok(Field::new(format!("ttl({})", value_name(relation, id)?), DataType::Int32, true)),
    }
}

fn value_name(relation: &RelationDef, id: ColumnId) -> Result<&str> {
    relation.value(id).map(|column| column.name.as_str()).ok_or_else(|| no_column(relation, id))
}

fn no_column(relation: &RelationDef, id: ColumnId) -> Error {
    Error::new(ErrorKind::UndefinedColumn, format!("relation {} has no column {id}", relation.id))
}

#[cfg(test)]
mod tests;
