//! The layout of a segment's Parquet file: its columns, their names, types and encodings.
//!
//! Columns carry their [`keyspan_model::ColumnId`] as `field_id`. In each row group a column begins with a dictionary
//! and, where there are too many distinct values for one, goes on with what suits the type: integers and times by
//! delta, texts by length, floats split by bytes. Where that is known to be better ([`super::encoding`]) there is no
//! dictionary from the start, and never one for times of the key. Pages are LZ4, but ZSTD for split floats that never had
//! a dictionary.

use std::collections::HashSet;

use arrow::datatypes::FieldRef;
use keyspan_model::{ColumnType, RelationDef, Result};
use parquet::basic::Encoding;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, TypePtr};
use std::sync::Arc;

use super::index::IndexColumn;
use super::leaf::{Codec, parquet_schema, parquet_type, stored_field};
use super::plan::SystemPlan;
use super::role::Role;

/// A dictionary larger than this is given up for the rest of its row group: who reads one row decodes all of it, unless
/// it is in the cache.
pub(super) const DICTIONARY_BYTES: usize = 64 * 1024;
/// As [`DICTIONARY_BYTES`], of floats: theirs is decoded fast, and without one they take more time and mostly more room.
pub(super) const FLOAT_DICTIONARY_BYTES: usize = 128 * 1024;
/// A page of large values is cut here, before its block is full.
const PAGE_BYTES: usize = 1 << 20;

/// The columns of a segment in their order in the file.
pub(super) struct SegmentLayout {
    pub(super) columns: Vec<IndexColumn>,
    pub(super) fields: Vec<FieldRef>,
    parquet: Vec<TypePtr>,
}

impl SegmentLayout {
    pub(super) fn new(relation: &RelationDef, plan: &SystemPlan) -> Result<SegmentLayout> {
        let mut layout = SegmentLayout { columns: Vec::new(), fields: Vec::new(), parquet: Vec::new() };
        let mut names = HashSet::new();
        for column in &relation.key {
            let name = unique(&mut names, column.name.clone());
            layout.push(&name, Role::Key(column.id), column.ty, false, Some(column.id.0 as i32))?;
        }
        for column in &relation.values {
            let name = unique(&mut names, column.name.clone());
            layout.push(&name, Role::Value(column.id), column.ty, true, Some(column.id.0 as i32))?;
        }
        for role in plan.columns() {
            let column = match role {
                Role::Cell(id, _) => relation.value(id).map_or("", |column| column.name.as_str()),
                _ => "",
            };
            let name = unique(&mut names, role.system_name(column));
            let ty = role.system_type();
            layout.push(&name, role, ty, ty != ColumnType::Boolean, None)?;
        }
        Ok(layout)
    }

    fn push(&mut self, name: &str, role: Role, ty: ColumnType, nullable: bool, id: Option<i32>) -> Result<()> {
        self.columns.push(IndexColumn { role, ty, nullable });
        self.fields.push(Arc::new(stored_field(name, ty, nullable)));
        self.parquet.push(parquet_type(name, ty, nullable, id)?);
        Ok(())
    }

    /// The root of the Parquet schema.
    pub(super) fn root(&self) -> Result<TypePtr> {
        Ok(parquet_schema(self.parquet.clone())?.root_schema_ptr())
    }

    /// How the Parquet writer is to encode the columns, with dictionaries where there may be some, or without any, in
    /// pages of so many rows.
    pub(super) fn properties(&self, dictionaries: bool, page_rows: usize) -> WriterProperties {
        let mut builder = WriterProperties::builder()
            .set_created_by("keyspan".to_string())
            .set_compression(Codec::Lz4.parquet())
            .set_data_page_row_count_limit(page_rows)
            .set_write_batch_size(page_rows)
            .set_data_page_size_limit(PAGE_BYTES)
            .set_dictionary_enabled(dictionaries)
            .set_dictionary_page_size_limit(DICTIONARY_BYTES)
            .set_statistics_enabled(EnabledStatistics::Chunk);
        for (column, field) in self.columns.iter().zip(&self.fields) {
            let path = ColumnPath::new(vec![field.name().clone()]);
            let is_key = matches!(column.role, Role::Key(_));
            if is_float(column.ty) {
                builder = builder.set_column_dictionary_page_size_limit(path.clone(), FLOAT_DICTIONARY_BYTES);
            }
            if let Some(encoding) = fallback(column.ty) {
                builder = builder.set_column_encoding(path.clone(), encoding);
            }
            if is_key && is_time(column.ty) {
                builder = builder.set_column_dictionary_enabled(path.clone(), false);
            }
            if !dictionaries && is_float(column.ty) {
                builder = builder.set_column_compression(path, Codec::Zstd.parquet());
            }
        }
        builder.build()
    }
}

fn is_time(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Timestamp | ColumnType::LocalTimestamp | ColumnType::Date | ColumnType::Time)
}

fn is_float(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Real | ColumnType::Double)
}

/// The encoding of values that have no dictionary; `None`: plain.
fn fallback(ty: ColumnType) -> Option<Encoding> {
    match ty {
        ColumnType::TinyInt | ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt => {
            Some(Encoding::DELTA_BINARY_PACKED)
        }
        time if is_time(time) => Some(Encoding::DELTA_BINARY_PACKED),
        float if is_float(float) => Some(Encoding::BYTE_STREAM_SPLIT),
        ColumnType::Text | ColumnType::Ascii => Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
        _ => None,
    }
}

/// The name, or one like it that no column has yet: a family's own columns may be called like those of its table.
fn unique(names: &mut HashSet<String>, name: String) -> String {
    let mut candidate = name.clone();
    let mut number = 2;
    while !names.insert(candidate.to_lowercase()) {
        candidate = format!("{name}_{number}");
        number += 1;
    }
    candidate
}
