//! Files to import: CSV, newline-delimited JSON, Parquet.
//!
//! The rule: columns have names, and a file is read in batches however large it is.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::csv::reader::Format as CsvFormat;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use clap::ValueEnum;
use keyspan::ColumnType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::failure::{Failure, Result};

/// Rows of a batch.
pub const BATCH_ROWS: usize = 16 * 1024;
/// Rows of a CSV file that are looked at for the types of its columns.
const CSV_SAMPLE: usize = 100_000;

/// A format of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// Comma-separated, with a header line.
    Csv,
    /// One JSON object per line.
    Ndjson,
    /// Apache Parquet.
    Parquet,
}

impl FileFormat {
    /// The format that was said, or the one of the file's extension.
    pub fn of(said: Option<FileFormat>, path: &Path) -> Result<FileFormat> {
        if let Some(format) = said {
            return Ok(format);
        }
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match extension.to_ascii_lowercase().as_str() {
            "csv" => Ok(FileFormat::Csv),
            "ndjson" | "jsonl" | "json" => Ok(FileFormat::Ndjson),
            "parquet" | "pq" => Ok(FileFormat::Parquet),
            _ => Err(Failure::new(format!("the format of {} is not told by its name", path.display()))
                .with_hint("Say --format csv, ndjson or parquet.")),
        }
    }
}

/// A file to import.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    /// How to read it.
    pub format: FileFormat,
    /// Its columns, with types as far as the format or a look at the rows tells them.
    pub schema: SchemaRef,
    /// What its progress is measured in: bytes, or the rows of Parquet.
    pub total: u64,
    /// How much of the total has been read.
    pub done: Arc<AtomicU64>,
}

impl Source {
    /// Opens a file and finds out its columns.
    pub fn open(path: &Path, said: Option<FileFormat>) -> Result<Source> {
        let format = FileFormat::of(said, path)?;
        Source::read_schema(path, format).map_err(|failure| failure.context(path.display()))
    }

    fn read_schema(path: &Path, format: FileFormat) -> Result<Source> {
        let mut file = File::open(path)?;
        let mut total = file.metadata()?.len();
        let schema = match format {
            FileFormat::Csv => {
                let csv = CsvFormat::default().with_header(true);
                Arc::new(csv.infer_schema(&mut file, Some(CSV_SAMPLE))?.0)
            }
            FileFormat::Ndjson => {
                let (schema, _) = arrow::json::reader::infer_json_schema(BufReader::new(&mut file), None)?;
                Arc::new(schema)
            }
            FileFormat::Parquet => {
                let reader = ParquetRecordBatchReaderBuilder::try_new(file)?;
                total = u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
                reader.schema().clone()
            }
        };
        if schema.fields().is_empty() {
            return Err(Failure::new("the file has no columns"));
        }
        Ok(Source { path: path.to_path_buf(), format, schema, total, done: Arc::default() })
    }

    /// The names of the columns, in order.
    pub fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The bytes of a CSV file behind its header line.
    pub fn csv_rows(&self) -> Result<impl Read + use<>> {
        let mut reader = BufReader::with_capacity(1 << 20, self.counted()?);
        skip_header(&mut reader)?;
        Ok(reader)
    }

    /// The batches of a file that is not CSV.
    pub fn batches(&self) -> Result<Box<dyn Iterator<Item = Result<RecordBatch>>>> {
        if self.format == FileFormat::Parquet {
            let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(&self.path)?)?;
            let reader = builder.with_batch_size(BATCH_ROWS).build()?;
            let done = self.done.clone();
            return Ok(Box::new(reader.map(move |batch| {
                let batch = batch?;
                done.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                Ok(batch)
            })));
        }
        let (schema, nested) = flat(&self.schema);
        let lines = BufReader::with_capacity(1 << 20, self.counted()?);
        let reader: Box<dyn BufRead> = match nested.is_empty() {
            true => Box::new(lines),
            false => Box::new(BufReader::new(Flattened { lines, nested, line: Vec::new(), at: 0 })),
        };
        let builder = arrow::json::ReaderBuilder::new(schema).with_batch_size(BATCH_ROWS);
        let batches = builder.with_coerce_primitive(true).build(reader)?;
        Ok(Box::new(batches.map(|batch| batch.map_err(Failure::from))))
    }

    fn counted(&self) -> Result<Counted> {
        let mut file = File::open(&self.path)?;
        file.rewind()?;
        Ok(Counted { file, done: self.done.clone() })
    }
}

/// Reads past the header line, whose names may have line ends in quotes.
fn skip_header(reader: &mut impl BufRead) -> io::Result<()> {
    let mut quotes = 0;
    loop {
        let mut line = Vec::new();
        let read = reader.read_until(b'\n', &mut line)?;
        quotes += line.iter().filter(|byte| **byte == b'"').count();
        if read == 0 || quotes.is_multiple_of(2) {
            return Ok(());
        }
    }
}

/// The schema with texts for lists and objects, and the names of those.
fn flat(schema: &SchemaRef) -> (SchemaRef, Vec<String>) {
    let is_nested = |field: &Field| ColumnType::of_field(field).is_none() && *field.data_type() != DataType::Null;
    let fields = schema.fields().iter();
    let nested = fields.clone().filter(|field| is_nested(field)).map(|field| field.name().clone()).collect();
    let flat = fields.map(|field| match is_nested(field) {
        true => Field::new(field.name(), DataType::Utf8, true),
        false => field.as_ref().clone(),
    });
    (Arc::new(Schema::new(flat.collect::<Vec<_>>())), nested)
}

/// Lines of JSON objects whose lists and objects have become texts, so that they arrive as they were written: Arrow
/// would give every object the members of all.
struct Flattened<R> {
    lines: R,
    nested: Vec<String>,
    line: Vec<u8>,
    at: usize,
}

impl<R: BufRead> Flattened<R> {
    fn next_line(&mut self) -> io::Result<()> {
        self.line.clear();
        self.at = 0;
        self.lines.read_until(b'\n', &mut self.line)?;
        if self.line.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&self.line)?;
        for (_, value) in object.iter_mut().filter(|(name, _)| self.nested.contains(name)) {
            if !value.is_null() {
                *value = serde_json::Value::String(value.to_string());
            }
        }
        self.line = serde_json::to_vec(&object)?;
        self.line.push(b'\n');
        Ok(())
    }
}

impl<R: BufRead> Read for Flattened<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.line.len() {
            self.next_line()?;
        }
        let count = (&self.line[self.at..]).read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

/// Counts the bytes that are read.
struct Counted {
    file: File,
    done: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// The type of a column made for this field. What no type of ours holds is kept as JSON.
pub fn column_type(field: &Field) -> ColumnType {
    match field.data_type() {
        DataType::Null => ColumnType::Text,
        _ => ColumnType::of_field(field).unwrap_or(ColumnType::Json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;

    #[test]
    fn lists_and_objects_arrive_as_they_were_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.ndjson");
        let lines = "{\"k\": 1, \"j\": {\"a\": 1}}\n\n{\"k\": 2, \"j\": {\"b\": [null]}}\n{\"k\": 3}";
        std::fs::write(&path, lines).expect("written");
        let source = Source::open(&path, None).expect("a source");
        let batches: Vec<RecordBatch> = source.batches().expect("batches").collect::<Result<_>>().expect("rows");
        let column = batches[0].column_by_name("j").expect("a column").as_string::<i32>().clone();
        assert_eq!(column.iter().collect::<Vec<_>>(), [Some("{\"a\":1}"), Some("{\"b\":[null]}"), None]);
        let (_, nested) = flat(&source.schema);
        assert_eq!(nested, ["j"]);
    }
}
