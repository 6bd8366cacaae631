//! Files to import: CSV, newline-delimited JSON, Parquet, Arrow; one, or several of the same columns.
//!
//! The rule: columns have names, and files are read in batches however large they are. Of JSON only numbers and truth
//! values are read as such, all else as texts: the columns of the table tell what they become.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::csv::reader::Format as CsvFormat;
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, Schema, SchemaRef};
use clap::ValueEnum;
use keyspan::{ColumnType, CopyOptions};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::dialect::{Dialect, Header};
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::json_text::Flattened;
use crate::look::{Given, Look};

/// Rows of a batch.
pub const BATCH_ROWS: usize = 16 * 1024;

/// Batches of rows, one after the other.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch>>>;

/// A format of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// Comma-separated, with a header line.
    Csv,
    /// One JSON object per line.
    Ndjson,
    /// Apache Parquet.
    Parquet,
    /// Arrow's IPC file format, also called Feather.
    Arrow,
}

impl FileFormat {
    /// The format that was said, or the one of the file's extension, before that of a compression.
    pub fn of(said: Option<FileFormat>, path: &Path) -> Result<FileFormat> {
        if let Some(format) = said {
            return Ok(format);
        }
        match extension(path).as_str() {
            "csv" | "tsv" => Ok(FileFormat::Csv),
            "ndjson" | "jsonl" | "json" => Ok(FileFormat::Ndjson),
            "parquet" | "pq" => Ok(FileFormat::Parquet),
            "arrow" | "feather" | "ipc" => Ok(FileFormat::Arrow),
            _ => Err(Failure::new(format!("the format of {} is not told by its name", path.display()))
                .with_hint("Say --format csv, ndjson, parquet or arrow.")),
        }
    }

    /// What stands between the values of a CSV file by its name, if that tells.
    pub fn delimiter(path: &Path) -> Option<char> {
        (extension(path) == "tsv").then_some('\t')
    }

    /// Fails for what only CSV has.
    pub fn check(self, dialect: &Dialect) -> Result<()> {
        if self == FileFormat::Csv || !dialect.is_said() {
            return Ok(());
        }
        let failure = Failure::new("--delimiter, --quote, --escape and --header are for CSV");
        Err(failure.with_hint("Leave them out, or say --format csv."))
    }

    /// Whether its values are texts, or types of their own.
    pub fn is_text(self) -> bool {
        matches!(self, FileFormat::Csv | FileFormat::Ndjson)
    }
}

/// The extension of a file's name before that of a compression, in lower case.
fn extension(path: &Path) -> String {
    let name = path.to_string_lossy().to_ascii_lowercase();
    let name = [".gz", ".zst"].iter().find_map(|compression| name.strip_suffix(compression)).unwrap_or(&name);
    Path::new(name).extension().unwrap_or_default().to_string_lossy().into_owned()
}

/// Files to import.
#[derive(Debug)]
pub struct Source {
    inputs: Vec<Input>,
    /// How to read them.
    pub format: FileFormat,
    /// How their CSV is written.
    dialect: Dialect,
    /// Their columns, as they are read.
    schema: SchemaRef,
    /// What the table calls these.
    names: Vec<String>,
    /// The names of JSON columns with lists and objects, which are read as texts.
    nested: Vec<String>,
    /// What was seen of their rows.
    look: Look,
    /// What the progress is measured in: bytes, or rows where these are known; 0 if it is not known.
    pub total: u64,
    /// How much of the total has been read.
    pub done: Arc<AtomicU64>,
}

impl Source {
    /// Opens files and finds out their columns. To make a table of them, looks at their rows: `given` are the types that
    /// are known beforehand, and how texts are read.
    pub fn open(
        paths: &[PathBuf],
        said: Option<FileFormat>,
        dialect: &Dialect,
        given: &Given,
        create: bool,
    ) -> Result<Source> {
        let done = Arc::default();
        let inputs = Input::find(paths, &done)?;
        let Some(first) = inputs.first() else {
            let failure = Failure::new("no file is named");
            return Err(failure.with_hint("Name the files before the arguments; - is standard input."));
        };
        let format = FileFormat::of(said, first.path())?;
        format.check(dialect)?;
        inputs.iter().try_for_each(Input::check)?;
        let mut source = Source {
            format,
            dialect: dialect.clone(),
            schema: Arc::new(Schema::empty()),
            names: Vec::new(),
            nested: Vec::new(),
            look: Look::default(),
            total: 0,
            done,
            inputs,
        };
        source.find_columns(given, create).map_err(|failure| failure.context(source.name()))?;
        Ok(source)
    }

    fn find_columns(&mut self, given: &Given, create: bool) -> Result<()> {
        if self.format != FileFormat::Csv {
            self.inputs.iter_mut().try_for_each(Input::spool)?;
        }
        self.total = self.inputs.iter().map(Input::size).sum::<Result<u64>>()?;
        match self.format {
            FileFormat::Csv => self.find_csv_columns()?,
            FileFormat::Ndjson => {
                self.look = Look::at_ndjson(given, self.all_lines()?)?;
                (self.schema, self.nested) = json_schema(&self.look, create);
            }
            FileFormat::Parquet | FileFormat::Arrow => self.find_typed_columns()?,
        }
        if self.schema.fields().is_empty() {
            return Err(Failure::new("the file has no columns"));
        }
        let sources: Vec<String> = self.schema.fields().iter().map(|field| field.name().clone()).collect();
        given.names.check(&sources)?;
        self.names = sources.iter().map(|name| given.names.of(name)).collect();
        if let Some(twice) = self.names.iter().enumerate().find(|(at, name)| self.names[..*at].contains(name)) {
            let failure = Failure::new(format!("two columns of the file are called \"{}\"", twice.1));
            return Err(failure.with_hint("Give one of them another name in the file's header."));
        }
        if create {
            given.check(&self.names)?;
            self.look_at_rows(given)?;
        }
        Ok(())
    }

    fn find_csv_columns(&mut self) -> Result<()> {
        let mut found: Option<(String, SchemaRef)> = None;
        for at in 0..self.inputs.len() {
            let mut reader = self.inputs[at].look()?;
            if at == 0 {
                self.dialect.delimiter = self.dialect.delimiter.or(FileFormat::delimiter(self.inputs[0].path()));
                let first = reader.fill_buf()?.split(|byte| *byte == b'\n').next().unwrap_or_default();
                self.dialect.sniff(&String::from_utf8_lossy(first));
            }
            let schema = header(reader, &self.dialect)?;
            match &found {
                Some((first, other)) if other != &schema => {
                    return Err(differing(first, other, &self.inputs[at].name(), &schema));
                }
                Some(_) => {}
                None => found = Some((self.inputs[at].name(), schema)),
            }
        }
        self.schema = found.map_or_else(|| Arc::new(Schema::empty()), |(_, schema)| schema);
        Ok(())
    }

    fn find_typed_columns(&mut self) -> Result<()> {
        let (mut rows, mut found) = (0, None::<(String, SchemaRef)>);
        for input in &self.inputs {
            let (schema, count) = typed_schema(self.format, input)?;
            rows += count;
            match &found {
                Some((first, other)) if other != &schema => {
                    return Err(differing(first, other, &input.name(), &schema));
                }
                Some(_) => {}
                None => found = Some((input.name(), schema)),
            }
        }
        self.schema = found.map_or_else(|| Arc::new(Schema::empty()), |(_, schema)| schema);
        if self.format == FileFormat::Parquet {
            self.total = rows;
        }
        Ok(())
    }

    fn look_at_rows(&mut self, given: &Given) -> Result<()> {
        match self.format {
            FileFormat::Csv => {
                self.look = Look::at_csv(&self.names, given, &self.csv_options(), self.inputs[0].look()?)?;
            }
            FileFormat::Ndjson => {}
            FileFormat::Parquet | FileFormat::Arrow => {
                self.look = Look::at_typed(&self.schema, given, self.batches(&self.inputs[0], Vec::new())?)?;
                self.done.store(0, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// The lines of all files, one after the other.
    fn all_lines(&self) -> Result<impl BufRead + use<>> {
        let mut all: Box<dyn Read> = Box::new(io::empty());
        for input in &self.inputs {
            // A file may end without a line's end.
            all = Box::new(all.chain(input.look()?).chain(&b"\n"[..]));
        }
        Ok(BufReader::with_capacity(1 << 18, all))
    }

    /// What errors call the files: the first of them, if there are several.
    pub fn name(&self) -> String {
        let first = self.inputs.first().map(Input::name).unwrap_or_default();
        if self.inputs.len() > 1 { format!("{first} and {} more", self.inputs.len() - 1) } else { first }
    }

    /// The files.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The types of the columns of a table that is made for them.
    ///
    /// # Errors
    /// Values that are not of their column's type.
    pub fn types(&self) -> Result<Vec<ColumnType>> {
        self.look.types().map_err(|failure| failure.context(self.name()))
    }

    /// What was seen of their rows, if a table is to be made for them.
    pub fn look(&self) -> &Look {
        &self.look
    }

    /// The names of the columns in the table, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The names of the columns in the files, in order.
    pub fn sources(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Whether the columns have only their places for names: CSV without a header.
    pub fn is_nameless(&self) -> bool {
        self.format == FileFormat::Csv && self.dialect.header == Header::No
    }

    /// Calls columns that have no names as the table does, in order.
    pub fn name_by_place(&mut self, columns: &[String]) {
        let sources = self.sources();
        for ((name, source), column) in self.names.iter_mut().zip(sources).zip(columns) {
            if *name == source {
                column.clone_into(name);
            }
        }
    }

    /// How CSV files are read.
    pub fn csv_options(&self) -> CopyOptions {
        self.dialect.options()
    }

    /// The batches of a file that is not CSV. Lists of NDJSON become texts: those of arrays in these columns.
    pub fn batches(&self, input: &Input, arrays: Vec<String>) -> Result<Batches> {
        match self.format {
            FileFormat::Parquet => {
                let builder = ParquetRecordBatchReaderBuilder::try_new(input.file()?)?;
                let reader = builder.with_batch_size(BATCH_ROWS).build()?;
                let done = self.done.clone();
                Ok(Box::new(reader.map(move |batch| {
                    let batch = batch?;
                    done.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                    with_usual_types(&batch)
                })))
            }
            FileFormat::Arrow => {
                let reader = arrow::ipc::reader::FileReader::try_new_buffered(input.file()?, None)?;
                Ok(Box::new(reader.map(|batch| with_usual_types(&batch?))))
            }
            FileFormat::Csv | FileFormat::Ndjson => self.json_batches(input.open()?, arrays),
        }
    }

    fn json_batches(&self, lines: Box<dyn BufRead + Send>, arrays: Vec<String>) -> Result<Batches> {
        let reader: Box<dyn BufRead> = match self.nested.is_empty() {
            true => Box::new(lines),
            false => {
                let nested = self.nested.clone();
                Box::new(BufReader::new(Flattened::new(lines, nested, arrays)))
            }
        };
        let builder = arrow::json::ReaderBuilder::new(self.schema.clone()).with_batch_size(BATCH_ROWS);
        let batches = builder.with_coerce_primitive(true).build(reader)?;
        Ok(Box::new(batches.map(|batch| batch.map_err(Failure::from))))
    }
}

/// The columns and, where it is known, the number of rows of a file whose values have types.
fn typed_schema(format: FileFormat, input: &Input) -> Result<(SchemaRef, u64)> {
    if format == FileFormat::Arrow {
        let reader = arrow::ipc::reader::FileReader::try_new_buffered(input.file()?, None);
        let reader = reader.map_err(|error| Failure::from(error).context("it is no Arrow IPC file"))?;
        return Ok((usual_types(&reader.schema()), 0));
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(input.file()?)?;
    let is_interval = |field: &&FieldRef| *field.data_type() == DataType::Interval(IntervalUnit::DayTime);
    if let Some(field) = reader.schema().fields().iter().find(is_interval) {
        let failure = Failure::new(format!("column \"{}\" is an INTERVAL, whose months would be lost", field.name()));
        return Err(failure.with_hint("Write it to the file as a text, as in DuckDB column::VARCHAR."));
    }
    let rows = u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0);
    Ok((usual_types(reader.schema()), rows))
}

/// The columns with types that columns of tables have: lists whose ends are of 64 bits, as Polars writes them, bytes of
/// one length, runs of equal values and decimals of 256 bits as what they hold. Sixteen bytes stay: they are a uuid.
fn usual_types(schema: &SchemaRef) -> SchemaRef {
    let usual = |field: &Arc<Field>| match usual_type(field.data_type()) {
        Some(ty) => Arc::new(Field::clone(field).with_data_type(ty)),
        None => field.clone(),
    };
    Arc::new(Schema::new_with_metadata(
        schema.fields().iter().map(usual).collect::<Vec<_>>(),
        schema.metadata().clone(),
    ))
}

fn usual_type(ty: &DataType) -> Option<DataType> {
    match ty {
        DataType::LargeList(item) => Some(DataType::List(item.clone())),
        DataType::FixedSizeBinary(length) if *length != 16 => Some(DataType::Binary),
        DataType::RunEndEncoded(_, values) => Some(values.data_type().clone()),
        DataType::Decimal256(precision @ ..=38, scale) => Some(DataType::Decimal128(*precision, *scale)),
        _ => None,
    }
}

fn with_usual_types(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = usual_types(&batch.schema());
    let arrays = batch.columns().iter().zip(schema.fields());
    let arrays = arrays.map(|(array, field)| match usual_type(array.data_type()) {
        Some(_) => cast(array, field.data_type()),
        None => Ok(array.clone()),
    });
    let arrays = arrays.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new(schema, arrays)?)
}

fn differing(first: &str, schema: &SchemaRef, second: &str, other: &SchemaRef) -> Failure {
    let texts = schema.fields().iter().chain(other.fields()).all(|field| *field.data_type() == DataType::Utf8);
    let shown = |field: &FieldRef| match texts {
        true => field.name().clone(),
        false => format!("{} {}", field.name(), field.data_type()),
    };
    let names = |schema: &SchemaRef| schema.fields().iter().map(shown).collect::<Vec<_>>().join(", ");
    let failure =
        Failure::new(format!("{second} has other columns than {first}: {} and {}", names(other), names(schema)));
    failure.with_hint("Files of one import have the same columns, of the same types, in the same order; import the others by themselves.")
}

/// The columns of a CSV file, by its header line. One without a name, as pandas writes its index, is called by its
/// place, as are all of a file without a header.
fn header(file: impl Read, dialect: &Dialect) -> Result<SchemaRef> {
    let mut format = CsvFormat::default().with_header(dialect.header == Header::Yes);
    let byte = |character: char| u8::try_from(character).unwrap_or(b',');
    if let Some(delimiter) = dialect.delimiter {
        format = format.with_delimiter(byte(delimiter));
    }
    if let Some(quote) = dialect.quote {
        format = format.with_quote(byte(quote));
    }
    if let Some(escape) = dialect.escape {
        format = format.with_escape(byte(escape));
    }
    let rows = if dialect.header == Header::Yes { 0 } else { 1 };
    let (header, _) = format.infer_schema(file, Some(rows))?;
    let name = |(at, field): (usize, &FieldRef)| match field.name().trim() {
        "" => format!("column{}", at + 1),
        _ if dialect.header == Header::No => format!("column{}", at + 1),
        _ => field.name().clone(),
    };
    let names = header.fields().iter().enumerate().map(name);
    Ok(Arc::new(Schema::new(names.map(|name| Field::new(name, DataType::Utf8, true)).collect::<Vec<_>>())))
}

/// How the lines of NDJSON files are read: the columns, and the names of those with lists and objects.
fn json_schema(look: &Look, create: bool) -> (SchemaRef, Vec<String>) {
    let (mut fields, mut nested) = (Vec::new(), Vec::new());
    for (at, name) in look.sources().into_iter().enumerate() {
        let ty = look.read_type(at, create);
        if ty == Some(ColumnType::Json) {
            nested.push(name.clone());
        }
        let simple = ty.filter(|ty| *ty != ColumnType::Json);
        fields.push(Field::new(name, simple.map_or(DataType::Utf8, ColumnType::arrow), true));
    }
    (Arc::new(Schema::new(fields)), nested)
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
        let (dialect, given) = (Dialect::default(), Given::default());
        let source = Source::open(&[path], None, &dialect, &given, false).expect("a source");
        let batches = source.batches(&source.inputs[0], Vec::new()).expect("batches");
        let batches: Vec<RecordBatch> = batches.collect::<Result<_>>().expect("rows");
        let column = batches[0].column_by_name("j").expect("a column").as_string::<i32>().clone();
        assert_eq!(column.iter().collect::<Vec<_>>(), [Some("{\"a\": 1}"), Some("{\"b\": [null]}"), None]);
        assert_eq!(source.nested, ["j"]);
    }

    #[test]
    fn compressed_files_keep_their_format() {
        let format = |name: &str| FileFormat::of(None, Path::new(name)).ok();
        assert_eq!(format("a.CSV.gz"), Some(FileFormat::Csv));
        assert_eq!(format("a.json.zst"), Some(FileFormat::Ndjson));
        let delimiter = |name: &str| FileFormat::delimiter(Path::new(name));
        assert_eq!((delimiter("a.TSV.gz"), delimiter("a.tsv")), (Some('\t'), Some('\t')));
        assert_eq!((delimiter("a.tsv.csv"), delimiter("x.tsv/a.csv")), (None, None));
        assert_eq!((format("a.feather"), format("a.gz"), format("-")), (Some(FileFormat::Arrow), None, None));
    }
}
