//! Files to import: CSV, newline-delimited JSON, Parquet.
//!
//! The rule: columns have names, and a file is read in batches however large it is. Of JSON only numbers and truth values
//! are read as such, all else as texts: the columns of the table tell what they become.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::csv::reader::Format as CsvFormat;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use clap::ValueEnum;
use keyspan::ColumnType;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::failure::{Failure, Result};
use crate::look::{Given, Look};

/// Rows of a batch.
pub const BATCH_ROWS: usize = 16 * 1024;

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
    /// Its columns, as they are read.
    schema: SchemaRef,
    /// The names of JSON columns with lists and objects, which are read as texts.
    nested: Vec<String>,
    /// What was seen of its rows.
    look: Look,
    /// What its progress is measured in: bytes, or the rows of Parquet.
    pub total: u64,
    /// How much of the total has been read.
    pub done: Arc<AtomicU64>,
}

impl Source {
    /// Opens a file and finds out its columns. To make a table of them, looks at its rows: `create` are the types that
    /// are known beforehand.
    pub fn open(path: &Path, said: Option<FileFormat>, create: Option<&Given>) -> Result<Source> {
        let format = FileFormat::of(said, path)?;
        let mut source = Source {
            path: path.to_path_buf(),
            format,
            schema: Arc::new(Schema::empty()),
            nested: Vec::new(),
            look: Look::default(),
            total: 0,
            done: Arc::default(),
        };
        source.find_columns(create).map_err(|failure| source.named(failure))?;
        Ok(source)
    }

    fn find_columns(&mut self, create: Option<&Given>) -> Result<()> {
        let file = File::open(&self.path)?;
        self.total = file.metadata()?.len();
        match self.format {
            FileFormat::Csv => self.schema = header(file)?,
            FileFormat::Ndjson => {
                let none = Given::default();
                self.look = Look::at_ndjson(create.unwrap_or(&none), BufReader::new(file))?;
                (self.schema, self.nested) = json_schema(&self.look);
            }
            FileFormat::Parquet => {
                let reader = ParquetRecordBatchReaderBuilder::try_new(file)?;
                self.total = u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
                self.schema = reader.schema().clone();
            }
        }
        if self.schema.fields().is_empty() {
            return Err(Failure::new("the file has no columns"));
        }
        if let Some(given) = create {
            given.check(&self.names())?;
            self.look_at_rows(given)?;
        }
        Ok(())
    }

    fn look_at_rows(&mut self, given: &Given) -> Result<()> {
        match self.format {
            FileFormat::Csv => self.look = Look::at_csv(&self.names(), given, File::open(&self.path)?)?,
            FileFormat::Ndjson => {}
            FileFormat::Parquet => {
                self.look = Look::at_typed(&self.schema, given, self.batches()?)?;
                self.done.store(0, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// The failure, with the file's name in front.
    fn named(&self, failure: Failure) -> Failure {
        failure.context(self.path.display())
    }

    /// The types of the columns of a table that is made for it.
    ///
    /// # Errors
    /// Values that are not of their column's type.
    pub fn types(&self) -> Result<Vec<ColumnType>> {
        self.look.types().map_err(|failure| self.named(failure))
    }

    /// What was seen of its rows, if a table is to be made for them.
    pub fn look(&self) -> &Look {
        &self.look
    }

    /// The names of the columns, in order.
    pub fn names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The bytes of a CSV file, with its header line.
    pub fn csv(&self) -> Result<impl Read + use<>> {
        self.counted()
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
        let lines = BufReader::with_capacity(1 << 20, self.counted()?);
        let reader: Box<dyn BufRead> = match self.nested.is_empty() {
            true => Box::new(lines),
            false => {
                let nested = self.nested.clone();
                Box::new(BufReader::new(Flattened { lines, nested, line: Vec::new(), at: 0 }))
            }
        };
        let builder = arrow::json::ReaderBuilder::new(self.schema.clone()).with_batch_size(BATCH_ROWS);
        let batches = builder.with_coerce_primitive(true).build(reader)?;
        Ok(Box::new(batches.map(|batch| batch.map_err(Failure::from))))
    }

    fn counted(&self) -> Result<Counted> {
        Ok(Counted { file: File::open(&self.path)?, done: self.done.clone() })
    }
}

/// The columns of a CSV file, by its header line. One without a name, as pandas writes its index, is called by its
/// place.
fn header(file: File) -> Result<SchemaRef> {
    let (header, _) = CsvFormat::default().with_header(true).infer_schema(file, Some(0))?;
    let name = |(at, field): (usize, &FieldRef)| match field.name().trim() {
        "" => format!("column{}", at + 1),
        _ => field.name().clone(),
    };
    let names = header.fields().iter().enumerate().map(name);
    Ok(Arc::new(Schema::new(names.map(|name| Field::new(name, DataType::Utf8, true)).collect::<Vec<_>>())))
}

/// How the lines of an NDJSON file are read: the columns, and the names of those with lists and objects.
fn json_schema(look: &Look) -> (SchemaRef, Vec<String>) {
    let (mut fields, mut nested) = (Vec::new(), Vec::new());
    for (at, name) in look.names().into_iter().enumerate() {
        let ty = look.read_type(at);
        if ty == Some(ColumnType::Json) {
            nested.push(name.clone());
        }
        let simple = ty.filter(|ty| *ty != ColumnType::Json);
        fields.push(Field::new(name, simple.map_or(DataType::Utf8, ColumnType::arrow), true));
    }
    (Arc::new(Schema::new(fields)), nested)
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
        let source = Source::open(&path, None, None).expect("a source");
        let batches: Vec<RecordBatch> = source.batches().expect("batches").collect::<Result<_>>().expect("rows");
        let column = batches[0].column_by_name("j").expect("a column").as_string::<i32>().clone();
        assert_eq!(column.iter().collect::<Vec<_>>(), [Some("{\"a\":1}"), Some("{\"b\":[null]}"), None]);
        assert_eq!(source.nested, ["j"]);
    }
}
