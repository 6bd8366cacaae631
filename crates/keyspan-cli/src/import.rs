//! `keyspan import`: the rows of files into a table.
//!
//! The rule: columns are matched by name. All rows of the files are written or none, however large they are, unless steps
//! are asked for; when one fails it is said how many rows are there. How many have overwritten others is said, too.

use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::BytesMut;
use clap::Args;
use keyspan::copy::CopyEncoder;
use keyspan::text::{ArrayText, TextStyle};
use keyspan::{ColumnType, Copy, CopyFormat, CopyHeader, CopyIn, CopyOptions, Statement, quoted};
use tokio::signal::ctrl_c;

use crate::client::{Client, CopyData, Embedded, Remote, columns_of};
use crate::dialect::{Dialect, Names, ReadingArguments};
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::look::Given;
use crate::open::{self, Place};
use crate::progress::Progress;
use crate::rejects::{OnError, Rejects};
use crate::rows::{Reader, Wanted};
use crate::script::literal;
use crate::source::{Batches, FileFormat, Source};
use crate::target::{self, TableColumn, Target};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// Load CSV, NDJSON, Parquet or Arrow files into a table.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The files, of the same columns: names, patterns such as 'day-*.csv.gz', or - for standard input. They may be
    /// compressed by gzip or zstd.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    place: Place,
    /// The table; its columns are found by the names in the file.
    #[arg(long, value_name = "TABLE")]
    into: String,
    /// The file's format, if its name does not tell.
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// Make the table, with the file's columns. Nothing is left of it if the file cannot be loaded.
    #[arg(long)]
    create: bool,
    /// The new table's key, as in PRIMARY KEY: 'a,b' or '(a,b),c'. Without it one is proposed.
    #[arg(long, value_name = "COLUMNS", requires = "create")]
    key: Option<String>,
    /// The type of a column of the new table, instead of the one that its values look like. May be repeated.
    #[arg(long = "type", value_name = "COLUMN=TYPE", requires = "create")]
    types: Vec<String>,
    /// Show the CREATE TABLE and the key that are proposed, and load nothing.
    #[arg(long, requires = "create")]
    dry_run: bool,
    /// What the table calls a column of the file: 'Sensor ID=sensor'. May be repeated.
    #[arg(long = "map", value_name = "COLUMN=NAME")]
    names: Vec<String>,
    #[command(flatten)]
    dialect: Dialect,
    #[command(flatten)]
    reading: ReadingArguments,
    /// What to do with rows that do not fit: stop and load nothing (as without it), skip them, or reject FILE: write
    /// them to a file, with line and reason.
    #[arg(long, value_name = "stop|skip|reject FILE", num_args = 1..=2)]
    on_error: Vec<String>,
    /// Commit after every so many rows; 0 is all in one step.
    #[arg(long, value_name = "ROWS", default_value_t = 0)]
    commit_rows: usize,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<()> {
    let (on_error, file) = OnError::parse(&arguments.on_error)?;
    let files: Vec<PathBuf> = arguments.files.iter().cloned().chain(file).collect();
    arguments.key.as_deref().map_or(Ok(()), target::check_key)?;
    let mut given = Given::parse(&arguments.types)?;
    given.names = Names::parse(&arguments.names)?;
    given.reading = arguments.reading.reading()?;
    given.tolerant = on_error != OnError::Stop;
    let source = Source::open(&files, arguments.format, &arguments.dialect, &given, arguments.create)?;
    let rejects = Rejects::new(&on_error, source.inputs().iter().map(Input::path))?;
    let reader = Reader { reading: given.reading, rejects: rejects.map(|rejects| Arc::new(Mutex::new(rejects))) };
    reader.check(source.format)?;
    let types = if arguments.create { Some(source.types()?) } else { None };
    if arguments.dry_run {
        target::propose(&arguments.into, &source, &types.unwrap_or_default(), arguments.key.as_deref());
        return Ok(());
    }
    let runtime = open::runtime()?;
    let mut client = arguments.place.open(&runtime)?;
    let result = runtime.block_on(load(arguments, source, types, reader, &mut client));
    let closed = {
        let _within = runtime.enter();
        client.close()
    };
    say!("{}: {}", arguments.into, result?);
    closed
}

async fn load(
    arguments: &Arguments,
    mut source: Source,
    types: Option<Vec<ColumnType>>,
    reader: Reader,
    client: &mut Client,
) -> Result<String> {
    let mut target = match types {
        Some(types) => Target::made(&arguments.into, client, &source, types, arguments.key.as_deref()).await?,
        None => Target::existing(&arguments.into, client).await,
    };
    let columns = target.columns().await?;
    if let Some(rejects) = reader.rejects.as_ref().filter(|_| !columns.is_empty()) {
        rejects.lock().unwrap_or_else(PoisonError::into_inner).begin()?;
    }
    if source.is_nameless() && !arguments.create {
        source.name_by_place(&columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>());
    }
    let csv = CopyOptions { force_null: target.without_empty_texts(&source), ..source.csv_options() };
    let mut work = Work::new(arguments, source, reader, columns, csv);
    let copied = tokio::select! {
        copied = work.copy(target.client()) => copied,
        _ = ctrl_c() => Err(Failure::new("canceled").context("nothing was loaded")),
    };
    let rows = match copied {
        Ok(rows) => rows,
        Err(failure) => return Err(target.give_up(&work.source, failure).await),
    };
    let (done, rejects) = (work.progress.finish(rows), work.reader.rejects);
    let told = tokio::select! {
        told = target.tell(rows) => told,
        // The rows are there: only counting them is given up.
        _ = ctrl_c() => None,
    };
    let omitted = match rejects {
        Some(rejects) => rejects.lock().unwrap_or_else(PoisonError::into_inner).finish()?,
        None => None,
    };
    Ok([Some(done), told, omitted].into_iter().flatten().collect::<Vec<_>>().join("; "))
}

struct Work {
    source: Arc<Source>,
    reader: Reader,
    progress: Progress,
    statement: String,
    wanted: Wanted,
    commit_rows: usize,
}

impl Work {
    fn new(arguments: &Arguments, source: Source, reader: Reader, columns: Vec<TableColumn>, csv: CopyOptions) -> Work {
        let names: Vec<String> = source.names().iter().map(|name| quoted(name)).collect();
        let wanted = Wanted {
            columns: source.names().iter().map(|name| (name.clone(), target::type_of(&columns, name))).collect(),
            lengths: columns.iter().filter_map(|column| Some((column.name.clone(), column.longest?))).collect(),
            required: columns.into_iter().filter(|column| column.required).map(|column| column.name).collect(),
            csv,
            zone: String::new(),
        };
        Work {
            reader,
            progress: Progress::new("import", source.total),
            statement: format!("COPY {} ({}) FROM STDIN", arguments.into, names.join(", ")),
            wanted,
            commit_rows: arguments.commit_rows,
            source: Arc::new(source),
        }
    }

    /// Copies all rows; answers how many they are.
    async fn copy(&mut self, client: &mut Client) -> Result<u64> {
        match client {
            Client::Embedded(embedded) => self.embedded(embedded).await,
            Client::Remote(remote) => self.remote(remote).await,
        }
    }

    async fn embedded(&mut self, client: &mut Embedded) -> Result<u64> {
        let copy = copy_statement(client, &self.statement)?;
        let mut target = client.session.copy_in(&copy)?;
        target.commit_every(self.commit_rows);
        self.wanted.columns = columns_of(&target);
        self.wanted.zone = client.session.settings().time_zone().to_string();
        for batch in self.reader.batches(&self.source, &self.wanted) {
            let pushed = match batch.and_then(|batch| flattened(&batch)) {
                Ok(batch) => self.push(client, &mut target, &batch).await,
                Err(failure) => Err(failure),
            };
            pushed.map_err(|failure| remaining(failure, target.committed()))?;
            // So that Ctrl-C is seen.
            tokio::task::yield_now().await;
        }
        let committed = target.committed();
        let rows = target.finish(&mut client.session).await;
        rows.map_err(|error| remaining(Failure::from(error), committed))
    }

    async fn push(&mut self, client: &mut Embedded, target: &mut CopyIn, batch: &RecordBatch) -> Result<()> {
        target.push(&mut client.session, batch).await?;
        self.progress.add_rows(batch.num_rows() as u64);
        self.progress.at(self.source.done.load(Ordering::Relaxed));
        Ok(())
    }

    async fn remote(&mut self, client: &mut Remote) -> Result<u64> {
        if self.commit_rows > 0 {
            let set = format!("SET copy_commit_rows = {}", self.commit_rows);
            client.execute(&set).await?;
        }
        self.wanted.zone = client.time_zone().await?;
        // What a server reads as it is need not be read here.
        let as_it_is =
            self.source.format == FileFormat::Csv && !self.reader.changes() && self.source.inputs().len() == 1;
        let (mut data, options): (Box<dyn CopyData>, String) = match as_it_is {
            true => (Box::new(Bytes { reader: self.source.inputs()[0].open()? }), csv_options(&self.wanted.csv)),
            false => (
                Box::new(Encoded { batches: self.reader.batches(&self.source, &self.wanted), encoder: None }),
                String::new(),
            ),
        };
        let statement = format!("{} WITH (FORMAT csv{options})", self.statement);
        let mut data = Shown { data: &mut *data, progress: &self.progress, done: self.source.done.clone() };
        let rows = client.copy_in(&statement, &mut data).await;
        rows.map_err(|failure| match self.commit_rows {
            0 => remaining(failure, 0),
            step => failure.with_hint(format!("Steps of {step} rows before the error may have been written.")),
        })
    }
}

/// The options of a CSV file, as a statement has them.
pub fn csv_options(options: &CopyOptions) -> String {
    let character = |name: &str, character: Option<char>| {
        character.map(|character| format!(", {name} {}", literal(&character.to_string())))
    };
    let mut all: Vec<String> = [("DELIMITER", options.delimiter), ("QUOTE", options.quote), ("ESCAPE", options.escape)]
        .into_iter()
        .filter_map(|(name, value)| character(name, value))
        .collect();
    if let Some(null) = &options.null {
        all.push(format!(", NULL {}", literal(null)));
    }
    if options.header != CopyHeader::None {
        all.push(", HEADER".to_string());
    }
    if !options.force_null.is_empty() {
        let columns: Vec<String> = options.force_null.iter().map(|name| quoted(name)).collect();
        all.push(format!(", FORCE_NULL ({})", columns.join(", ")));
    }
    all.concat()
}

/// Says how much of the file is in the table after a failure.
fn remaining(failure: Failure, committed: u64) -> Failure {
    match committed {
        0 => failure.context("nothing was loaded"),
        rows => failure.context(format_args!("the first {rows} rows were loaded and remain")),
    }
}

fn copy_statement(client: &Embedded, statement: &str) -> Result<Copy> {
    match client.session.parse(statement)?.pop().map(|parsed| parsed.statement) {
        Some(Statement::Copy(copy)) => Ok(*copy),
        _ => Err(Failure::new("--into is not a table's name")),
    }
}

/// The batch with lists, structs and maps as JSON texts.
fn flattened(batch: &RecordBatch) -> Result<RecordBatch> {
    let schema = batch.schema();
    let pairs = schema.fields().iter().zip(batch.columns());
    let columns = pairs.map(|(field, array)| match ColumnType::of_field(field) {
        None if *field.data_type() != DataType::Null => json_texts(field, array),
        _ => Ok((field.as_ref().clone(), array.clone())),
    });
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

fn json_texts(field: &Field, array: &ArrayRef) -> Result<(Field, ArrayRef)> {
    let cells = ArrayText::new(field, array, TextStyle::UTC)?;
    let mut texts = StringBuilder::new();
    for row in 0..array.len() {
        if cells.is_null(row) {
            texts.append_null();
            continue;
        }
        let mut text = String::new();
        cells.write_json(row, &mut text)?;
        texts.append_value(text);
    }
    Ok((Field::new(field.name(), DataType::Utf8, true), Arc::new(texts.finish())))
}

/// A file's bytes as they are.
struct Bytes<R> {
    reader: R,
}

impl<R: Read> CopyData for Bytes<R> {
    fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut piece = Vec::with_capacity(PIECE);
        self.reader.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
        Ok((!piece.is_empty()).then_some(piece))
    }
}

/// Batches as csv.
struct Encoded {
    batches: Batches,
    encoder: Option<(SchemaRef, CopyEncoder)>,
}

impl Encoded {
    fn encode(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let batch = flattened(batch)?;
        let schema = batch.schema();
        let encoder = match self.encoder.take() {
            Some((known, encoder)) if known == schema => encoder,
            _ => {
                let options = CopyOptions { format: CopyFormat::Csv, ..CopyOptions::default() };
                CopyEncoder::new(schema.clone(), &options, TextStyle::UTC)?
            }
        };
        let mut bytes = BytesMut::new();
        encoder.rows(&batch, &mut bytes)?;
        self.encoder = Some((schema, encoder));
        Ok(bytes.into())
    }
}

impl CopyData for Encoded {
    fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        while let Some(batch) = self.batches.next() {
            let bytes = batch.and_then(|batch| self.encode(&batch)).map_err(std::io::Error::other)?;
            // All rows of a batch may have been left out.
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

/// Data whose progress is shown.
struct Shown<'a> {
    data: &'a mut dyn CopyData,
    progress: &'a Progress,
    done: Arc<AtomicU64>,
}

impl CopyData for Shown<'_> {
    fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        self.progress.at(self.done.load(Ordering::Relaxed));
        self.data.next()
    }
}
