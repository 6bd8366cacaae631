//! Batches of rows written to files: CSV, NDJSON, Parquet, Arrow.
//!
//! The rule: whoever has batches, of a directory or of a server, gets the same file.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::BytesMut;
use keyspan::CopyOptions;
use keyspan::copy::CopyEncoder;
use keyspan::text::{ArrayText, TextStyle, json_string};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::failure::Result;
use crate::source::FileFormat;

/// Writes the batches of one file.
pub trait BatchWriter {
    /// Writes rows.
    fn write(&mut self, batch: &RecordBatch) -> Result<()>;
    /// The rows have ended.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// A writer of rows with this schema; instants are shown in `zone`.
pub fn batch_writer<'a>(
    format: FileFormat,
    schema: &SchemaRef,
    csv: &CopyOptions,
    zone: &str,
    out: &'a mut (dyn Write + Send),
) -> Result<Box<dyn BatchWriter + 'a>> {
    Ok(match format {
        FileFormat::Csv => {
            let encoder = CopyEncoder::new(schema.clone(), csv, TextStyle::in_zone(zone))?;
            let mut bytes = BytesMut::new();
            encoder.begin(&mut bytes);
            out.write_all(&bytes)?;
            Box::new(Csv { encoder, out })
        }
        FileFormat::Ndjson => Box::new(Ndjson { style: TextStyle::in_zone(zone), out }),
        FileFormat::Parquet => {
            let schema = plain_schema(schema);
            let level = ZstdLevel::try_new(3)?;
            let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
            Box::new(Parquet { writer: ArrowWriter::try_new(out, schema.clone(), Some(properties))?, schema })
        }
        FileFormat::Arrow => {
            let schema = plain_schema(schema);
            Box::new(Arrow { writer: arrow::ipc::writer::FileWriter::try_new(out, &schema)?, schema })
        }
    })
}

struct Csv<'a> {
    encoder: CopyEncoder,
    out: &'a mut (dyn Write + Send),
}

impl BatchWriter for Csv<'_> {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut bytes = BytesMut::new();
        self.encoder.rows(batch, &mut bytes)?;
        Ok(self.out.write_all(&bytes)?)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct Ndjson<'a> {
    style: TextStyle,
    out: &'a mut (dyn Write + Send),
}

impl BatchWriter for Ndjson<'_> {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let schema = batch.schema();
        let pairs = schema.fields().iter().zip(batch.columns());
        let cells: Vec<ArrayText> =
            pairs.map(|(field, array)| ArrayText::new(field, array, self.style)).collect::<keyspan::Result<_>>()?;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            text.clear();
            for (index, (field, column)) in schema.fields().iter().zip(&cells).enumerate() {
                text.push(if index == 0 { '{' } else { ',' });
                json_string(field.name(), &mut text);
                text.push(':');
                column.write_json(row, &mut text)?;
            }
            // A value of type json is written as it came, and may have ends of lines between its parts.
            if text.contains(['\n', '\r']) {
                text = text.replace(['\n', '\r'], " ");
            }
            text.push_str(if cells.is_empty() { "{}\n" } else { "}\n" });
            self.out.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct Parquet<'a> {
    writer: ArrowWriter<&'a mut (dyn Write + Send)>,
    schema: SchemaRef,
}

impl BatchWriter for Parquet<'_> {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        Ok(self.writer.write(&plain(batch, &self.schema)?)?)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.writer.close()?;
        Ok(())
    }
}

struct Arrow<'a> {
    writer: arrow::ipc::writer::FileWriter<&'a mut (dyn Write + Send)>,
    schema: SchemaRef,
}

impl BatchWriter for Arrow<'_> {
    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        Ok(self.writer.write(&plain(batch, &self.schema)?)?)
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        Ok(self.writer.finish()?)
    }
}

/// Parquet's library writes no durations of nanoseconds: they are texts in files.
fn plain_schema(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Interval(_) => Field::new(field.name(), DataType::Utf8, true),
        _ => field.as_ref().clone().with_nullable(true),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn plain(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let fields = batch.schema();
    let pairs = fields.fields().iter().zip(batch.columns());
    let arrays = pairs.map(|(field, array)| plain_array(field, array)).collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(schema.clone(), arrays)?)
}

fn plain_array(field: &Field, array: &ArrayRef) -> Result<ArrayRef> {
    if !matches!(field.data_type(), DataType::Interval(_)) {
        return Ok(array.clone());
    }
    let cells = ArrayText::new(field, array, TextStyle::UTC)?;
    let mut texts = StringBuilder::new();
    for row in 0..array.len() {
        let mut text = String::new();
        match cells.is_null(row) {
            true => texts.append_null(),
            false => {
                cells.write(row, &mut text)?;
                texts.append_value(text);
            }
        }
    }
    Ok(Arc::new(texts.finish()))
}
