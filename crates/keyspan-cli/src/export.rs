//! `keyspan export`: a table's or a query's rows into a file.
//!
//! The rule: the file appears under its name when it is whole; a failed export leaves nothing behind.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::BytesMut;
use clap::Args;
use keyspan::copy::CopyEncoder;
use keyspan::text::{ArrayText, json_string};
use keyspan::{CopyFormat, CopyHeader, CopyOptions, Rows};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::client::{Client, Embedded};
use crate::failure::{Failure, Result};
use crate::open::{self, Place};
use crate::progress::grouped;
use crate::source::FileFormat;

/// Write a table's or a query's rows to a CSV, NDJSON or Parquet file.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The table.
    #[arg(required_unless_present = "query")]
    table: Option<String>,
    /// A query instead of a table.
    #[arg(long, value_name = "SQL", conflicts_with = "table")]
    query: Option<String>,
    #[command(flatten)]
    place: Place,
    /// The file; - is stdout.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// The file's format, if its name does not tell.
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<()> {
    let format = FileFormat::of(arguments.format, &arguments.to)?;
    let query = match (&arguments.query, &arguments.table) {
        (Some(query), _) => query.trim().trim_end_matches(';').to_string(),
        (None, table) => format!("SELECT * FROM {}", table.as_deref().unwrap_or_default()),
    };
    let runtime = open::runtime()?;
    let mut client = arguments.place.open(&runtime)?;
    let mut target = Target::create(&arguments.to)?;
    let result = runtime.block_on(write(&mut client, &query, format, &mut target));
    let closed = {
        let _within = runtime.enter();
        client.close()
    };
    match result {
        Ok(rows) => target.keep(rows)?,
        Err(failure) => {
            target.discard();
            return Err(failure);
        }
    }
    closed
}

async fn write(client: &mut Client, query: &str, format: FileFormat, target: &mut Target) -> Result<Option<u64>> {
    match (client, format) {
        (Client::Embedded(client), format) => write_embedded(client, query, format, target).await.map(Some),
        (Client::Remote(client), FileFormat::Csv) => {
            let statement = format!("COPY ({query}) TO STDOUT WITH (FORMAT csv, HEADER true)");
            client.copy_out(&statement, target.writer()).await?;
            Ok(None)
        }
        (Client::Remote(_), _) => Err(Failure::new("a server exports csv only")
            .with_hint("Say --format csv, or export from the directory with --data.")),
    }
}

async fn write_embedded(client: &mut Embedded, query: &str, format: FileFormat, target: &mut Target) -> Result<u64> {
    let zone = client.session.settings().time_zone().to_string();
    let rows = client.session.query(query, &[]).await?;
    match format {
        FileFormat::Csv => write_csv(rows, &zone, target.writer()).await,
        FileFormat::Ndjson => write_ndjson(rows, &zone, target.writer()).await,
        FileFormat::Parquet => write_parquet(rows, target.writer()).await,
    }
}

async fn write_csv(mut rows: Rows, zone: &str, out: &mut (dyn Write + Send)) -> Result<u64> {
    let options = CopyOptions { format: CopyFormat::Csv, header: CopyHeader::Present, ..CopyOptions::default() };
    let encoder = CopyEncoder::new(rows.schema().clone(), &options, zone)?;
    let mut bytes = BytesMut::new();
    encoder.begin(&mut bytes);
    let mut count = 0;
    while let Some(batch) = rows.next_batch().await? {
        encoder.rows(&batch, &mut bytes)?;
        out.write_all(&bytes)?;
        bytes.clear();
        count += batch.num_rows() as u64;
    }
    out.write_all(&bytes)?;
    Ok(count)
}

async fn write_ndjson(mut rows: Rows, zone: &str, out: &mut (dyn Write + Send)) -> Result<u64> {
    let schema = rows.schema().clone();
    let mut count = 0;
    let mut text = String::new();
    while let Some(batch) = rows.next_batch().await? {
        let pairs = schema.fields().iter().zip(batch.columns());
        let cells: Vec<ArrayText> =
            pairs.map(|(field, array)| ArrayText::new(field, array, zone)).collect::<keyspan::Result<_>>()?;
        for row in 0..batch.num_rows() {
            text.clear();
            for (index, (field, column)) in schema.fields().iter().zip(&cells).enumerate() {
                text.push(if index == 0 { '{' } else { ',' });
                json_string(field.name(), &mut text);
                text.push(':');
                column.write_json(row, &mut text)?;
            }
            text.push_str(if cells.is_empty() { "{}\n" } else { "}\n" });
            out.write_all(text.as_bytes())?;
        }
        count += batch.num_rows() as u64;
    }
    Ok(count)
}

async fn write_parquet(mut rows: Rows, out: &mut (dyn Write + Send)) -> Result<u64> {
    let schema = parquet_schema(rows.schema());
    let level = ZstdLevel::try_new(3)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    let mut writer = ArrowWriter::try_new(out, schema.clone(), Some(properties))?;
    let mut count = 0;
    while let Some(batch) = rows.next_batch().await? {
        let pairs = batch.schema().fields().iter().cloned().zip(batch.columns().to_vec()).collect::<Vec<_>>();
        let arrays = pairs.iter().map(|(field, array)| parquet_array(field, array)).collect::<Result<Vec<_>>>()?;
        writer.write(&RecordBatch::try_new(schema.clone(), arrays)?)?;
        count += batch.num_rows() as u64;
    }
    writer.close()?;
    Ok(count)
}

/// Parquet's library writes no durations of nanoseconds: they are texts in the file.
fn parquet_schema(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Interval(_) => Field::new(field.name(), DataType::Utf8, true),
        _ => field.as_ref().clone().with_nullable(true),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn parquet_array(field: &Field, array: &ArrayRef) -> Result<ArrayRef> {
    if !matches!(field.data_type(), DataType::Interval(_)) {
        return Ok(array.clone());
    }
    let cells = ArrayText::new(field, array, "UTC")?;
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

/// The file being written, or stdout.
struct Target {
    writer: Box<dyn Write + Send>,
    /// Where it is written, and its name when it is whole.
    paths: Option<(PathBuf, PathBuf)>,
}

impl Target {
    fn create(path: &Path) -> Result<Target> {
        if path.as_os_str() == "-" {
            return Ok(Target { writer: Box::new(BufWriter::new(std::io::stdout())), paths: None });
        }
        let mut name = path.as_os_str().to_os_string();
        name.push(".partial");
        let partial = PathBuf::from(name);
        let file = File::create(&partial).map_err(|error| Failure::from(error).context(partial.display()))?;
        Ok(Target { writer: Box::new(BufWriter::new(file)), paths: Some((partial, path.to_path_buf())) })
    }

    fn writer(&mut self) -> &mut (dyn Write + Send) {
        &mut *self.writer
    }

    fn keep(mut self, rows: Option<u64>) -> Result<()> {
        self.writer.flush()?;
        let Some((partial, path)) = self.paths else { return Ok(()) };
        std::fs::rename(&partial, &path)?;
        let rows = rows.map(|rows| format!("{} rows, ", grouped(rows))).unwrap_or_default();
        println!("{}: {rows}{} bytes", path.display(), grouped(std::fs::metadata(&path)?.len()));
        Ok(())
    }

    fn discard(self) {
        if let Some((partial, _)) = self.paths {
            // What cannot be deleted is plainly named as partial.
            let _ = std::fs::remove_file(partial);
        }
    }
}
