//! `keyspan import`: a file's rows into a table.
//!
//! The rule: columns are matched by name. All rows of the file are written or none, however large it is, unless steps
//! are asked for; when one fails it is said how many rows are there. How many have overwritten others is said, too.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::BytesMut;
use clap::Args;
use keyspan::copy::{CopyEncoder, CopyParser};
use keyspan::text::ArrayText;
use keyspan::{ColumnType, Copy, CopyFormat, CopyIn, CopyOptions, Statement, quoted};
use tokio::signal::ctrl_c;

use crate::client::{Client, CopyData, Embedded, Remote, columns_of};
use crate::failure::{Failure, Result};
use crate::look::{Given, csv_options};
use crate::open::{self, Place};
use crate::progress::Progress;
use crate::source::{FileFormat, Source};
use crate::target::Target;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// Load a CSV, NDJSON or Parquet file into a table.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The file.
    file: PathBuf,
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
    /// The new table's key, as in PRIMARY KEY: 'a,b' or '(a,b),c'.
    #[arg(long, value_name = "COLUMNS", requires = "create")]
    key: Option<String>,
    /// The type of a column of the new table, instead of the one that its values look like. May be repeated.
    #[arg(long = "type", value_name = "COLUMN=TYPE", requires = "create")]
    types: Vec<String>,
    /// Commit after every so many rows; 0 is all in one step.
    #[arg(long, value_name = "ROWS", default_value_t = 0)]
    commit_rows: usize,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<()> {
    let given = Given::parse(&arguments.types)?;
    let source = Source::open(&arguments.file, arguments.format, arguments.create.then_some(&given))?;
    let types = if arguments.create { Some(source.types()?) } else { None };
    let runtime = open::runtime()?;
    let mut client = arguments.place.open(&runtime)?;
    let result = runtime.block_on(load(arguments, &source, types, &mut client));
    let closed = {
        let _within = runtime.enter();
        client.close()
    };
    println!("{}: {}", arguments.into, result?);
    closed
}

async fn load(
    arguments: &Arguments,
    source: &Source,
    types: Option<Vec<ColumnType>>,
    client: &mut Client,
) -> Result<String> {
    let mut target = match types {
        Some(types) => Target::made(&arguments.into, client, source, types, arguments.key.as_deref()).await?,
        None => Target::existing(&arguments.into, client).await,
    };
    let columns: Vec<String> = source.names().iter().map(|name| quoted(name)).collect();
    let statement = format!("COPY {} ({}) FROM STDIN", arguments.into, columns.join(", "));
    let csv = CopyOptions { force_null: target.without_empty_texts(source), ..csv_options() };
    let progress = Progress::new("import", source.total);
    let mut work = Work { source, progress, statement, csv, commit_rows: arguments.commit_rows };
    let copied = tokio::select! {
        copied = work.copy(target.client()) => copied,
        _ = ctrl_c() => Err(Failure::new("canceled").context("nothing was loaded")),
    };
    match copied {
        Ok(rows) => {
            let done = work.progress.finish(rows);
            let told = tokio::select! {
                told = target.tell(rows) => told,
                // The rows are there: only counting them is given up.
                _ = ctrl_c() => None,
            };
            Ok(told.map_or(done.clone(), |told| format!("{done}; {told}")))
        }
        Err(failure) => Err(target.give_up(source, failure).await),
    }
}

struct Work<'a> {
    source: &'a Source,
    progress: Progress,
    statement: String,
    /// How a CSV file is read.
    csv: CopyOptions,
    commit_rows: usize,
}

impl Work<'_> {
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
        let pushed = match self.source.format {
            FileFormat::Csv => self.push_csv(client, &mut target).await,
            _ => self.push_batches(client, &mut target).await,
        };
        if let Err(failure) = pushed {
            return Err(remaining(failure, target.committed()));
        }
        let committed = target.committed();
        let rows = target.finish(&mut client.session).await;
        rows.map_err(|error| remaining(Failure::from(error), committed))
    }

    async fn push_csv(&mut self, client: &mut Embedded, target: &mut CopyIn) -> Result<()> {
        let zone = client.session.settings().time_zone().to_string();
        let mut parser = CopyParser::new(&target.table().name, &columns_of(target), &self.csv, &zone)?;
        let mut reader = self.source.csv()?;
        let mut piece = vec![0; PIECE];
        loop {
            let count = reader.read(&mut piece)?;
            let batches = if count == 0 { parser.finish().await? } else { parser.push(&piece[..count]).await? };
            for batch in batches {
                self.push(client, target, &batch).await?;
            }
            if count == 0 {
                return Ok(());
            }
        }
    }

    async fn push_batches(&mut self, client: &mut Embedded, target: &mut CopyIn) -> Result<()> {
        for batch in self.source.batches()? {
            let batch = flattened(&batch?)?;
            self.push(client, target, &batch).await?;
        }
        Ok(())
    }

    async fn push(&mut self, client: &mut Embedded, target: &mut CopyIn, batch: &RecordBatch) -> Result<()> {
        target.push(&client.session, batch).await?;
        self.progress.add_rows(batch.num_rows() as u64);
        self.progress.at(self.source.done.load(Ordering::Relaxed));
        Ok(())
    }

    async fn remote(&mut self, client: &mut Remote) -> Result<u64> {
        if self.commit_rows > 0 {
            let set = format!("SET copy_commit_rows = {}", self.commit_rows);
            client.execute(&set).await?;
        }
        let (mut data, options): (Box<dyn CopyData>, String) = match self.source.format {
            FileFormat::Csv => (Box::new(Bytes { reader: self.source.csv()? }), header_options(&self.csv)),
            _ => (Box::new(Encoded::new(self.source)?), String::new()),
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

/// The options of a CSV file with a header, as a statement has them.
fn header_options(options: &CopyOptions) -> String {
    let columns: Vec<String> = options.force_null.iter().map(|name| quoted(name)).collect();
    match columns.is_empty() {
        true => ", HEADER".to_string(),
        false => format!(", HEADER, FORCE_NULL ({})", columns.join(", ")),
    }
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
    let cells = ArrayText::new(field, array, "UTC")?;
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

/// A file's batches as csv.
struct Encoded {
    batches: Box<dyn Iterator<Item = Result<RecordBatch>>>,
    encoder: Option<(SchemaRef, CopyEncoder)>,
}

impl Encoded {
    fn new(source: &Source) -> Result<Encoded> {
        Ok(Encoded { batches: source.batches()?, encoder: None })
    }

    fn encode(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let batch = flattened(batch)?;
        let schema = batch.schema();
        let encoder = match self.encoder.take() {
            Some((known, encoder)) if known == schema => encoder,
            _ => {
                let options = CopyOptions { format: CopyFormat::Csv, ..CopyOptions::default() };
                CopyEncoder::new(schema.clone(), &options, "UTC")?
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
        let other = |failure: Failure| std::io::Error::other(failure.message);
        match self.batches.next() {
            None => Ok(None),
            Some(batch) => batch.and_then(|batch| self.encode(&batch)).map(Some).map_err(other),
        }
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
