//! Rows that names stand for in the statements of one WITH or MERGE.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use keyspan_cql::WithPart;
use keyspan_model::Result;
use keyspan_query::GivenRelation;

/// The rows of a part under its name, its columns called as it says.
pub(crate) fn named_rows(part: &WithPart, schema: &SchemaRef, batches: Vec<RecordBatch>) -> Result<GivenRelation> {
    let named = |(place, field): (usize, &Arc<Field>)| {
        let name = part.columns.get(place).unwrap_or(field.name());
        field.as_ref().clone().with_name(name).with_nullable(true)
    };
    let fields: Vec<Field> = schema.fields().iter().enumerate().map(named).collect();
    relation(&part.name, fields, batches)
}

/// Rows under a name, with these fields.
pub(crate) fn relation(name: &str, fields: Vec<Field>, batches: Vec<RecordBatch>) -> Result<GivenRelation> {
    let schema = Arc::new(Schema::new(fields));
    let batches = batches.into_iter().map(|batch| {
        let (_, columns, rows) = batch.into_parts();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?)
    });
    let batches = batches.collect::<Result<_>>()?;
    Ok(GivenRelation { name: name.to_owned(), schema, batches })
}
