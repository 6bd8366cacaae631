//! `keyspan export`: a table's or a query's rows into a file.
//!
//! The rule: the file appears under its name when it is whole; a failed export leaves nothing behind. A server's rows are
//! written as those of a directory are.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use futures::executor::block_on;
use keyspan::CopyOptions;
use keyspan::copy::CopyParser;
use tokio::signal::ctrl_c;
use tokio::task::unconstrained;

use crate::client::{Client, Embedded, Remote};
use crate::dialect::Dialect;
use crate::failure::{Failure, Result};
use crate::files::{BatchWriter, batch_writer};
use crate::open::{self, Place};
use crate::progress::grouped;
use crate::source::FileFormat;

/// Write a table's or a query's rows to a CSV, NDJSON, Parquet or Arrow file.
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
    /// The file; - is stdout. One whose name ends in .gz or .zst is compressed.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// The file's format, if its name does not tell.
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    #[command(flatten)]
    dialect: Dialect,
    /// The text that stands for null in CSV.
    #[arg(long, value_name = "TEXT")]
    null: Option<String>,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<()> {
    let format = FileFormat::of(arguments.format, &arguments.to)?;
    let query = match (&arguments.query, &arguments.table) {
        (Some(query), _) => query.trim().trim_end_matches(';').to_string(),
        (None, table) => format!("SELECT * FROM {}", table.as_deref().unwrap_or_default()),
    };
    let csv = arguments.csv(format)?;
    let runtime = open::runtime()?;
    let mut client = arguments.place.open(&runtime)?;
    let mut target = Target::create(&arguments.to, format)?;
    let result = runtime.block_on(async {
        tokio::select! {
            written = write(&mut client, &query, format, &csv, target.writer()) => written,
            _ = ctrl_c() => Err(Failure::new("canceled").context("nothing was exported")),
        }
    });
    let closed = {
        let _within = runtime.enter();
        client.close()
    };
    target.end(result)?;
    closed
}

impl Arguments {
    /// How CSV is written.
    fn csv(&self, format: FileFormat) -> Result<CopyOptions> {
        format.check(&self.dialect)?;
        if format != FileFormat::Csv && self.null.is_some() {
            return Err(Failure::new("--null is for CSV").with_hint("The other formats have nulls of their own."));
        }
        let options = self.dialect.options();
        let delimiter = options.delimiter.or(FileFormat::delimiter(&self.to));
        Ok(CopyOptions { null: self.null.clone(), delimiter, ..options })
    }
}

async fn write(
    client: &mut Client,
    query: &str,
    format: FileFormat,
    csv: &CopyOptions,
    out: &mut (dyn Write + Send),
) -> Result<u64> {
    match client {
        Client::Embedded(client) => write_embedded(client, query, format, csv, out).await,
        Client::Remote(client) => write_remote(client, query, format, csv, out).await,
    }
}

async fn write_embedded(
    client: &mut Embedded,
    query: &str,
    format: FileFormat,
    csv: &CopyOptions,
    out: &mut (dyn Write + Send),
) -> Result<u64> {
    let zone = client.session.settings().time_zone().to_string();
    for statement in client.session.parse(query)? {
        if client.session.prepare(&statement, &[]).await?.schema.is_none() {
            let failure = Failure::new("--query gives no rows");
            return Err(failure.with_hint("Write a SELECT, or a statement with RETURNING."));
        }
    }
    let mut rows = client.session.query(query, &[]).await?;
    let mut writer = batch_writer(format, rows.schema(), csv, &zone, out)?;
    let mut count = 0;
    while let Some(batch) = rows.next_batch().await? {
        writer.write(&batch)?;
        count += batch.num_rows() as u64;
        // So that Ctrl-C is seen.
        tokio::task::yield_now().await;
    }
    writer.finish()?;
    Ok(count)
}

/// A server sends csv; other formats are made of it, by the types of its columns.
async fn write_remote(
    client: &mut Remote,
    query: &str,
    format: FileFormat,
    csv: &CopyOptions,
    out: &mut (dyn Write + Send),
) -> Result<u64> {
    if format == FileFormat::Csv {
        let statement = format!("COPY ({query}\n) TO STDOUT WITH (FORMAT csv{})", crate::import::csv_options(csv));
        return client.copy_out(&statement, out).await;
    }
    let columns = client.columns(query).await?;
    for (name, _) in columns.iter().filter(|(_, ty)| ty.is_none()) {
        eprintln!("NOTICE:  column \"{name}\" is written as text: the server does not tell its type exactly");
    }
    let columns: Vec<_> =
        columns.into_iter().map(|(name, ty)| (name, ty.unwrap_or(keyspan::ColumnType::Text))).collect();
    let options = CopyOptions { format: keyspan::CopyFormat::Csv, ..CopyOptions::default() };
    let parser = CopyParser::new("the answer", &columns, &options, "UTC")?;
    let writer = batch_writer(format, parser.schema(), csv, "UTC", out)?;
    let mut parsed = Parsed { parser, writer };
    let statement = format!("COPY ({query}\n) TO STDOUT WITH (FORMAT csv)");
    let rows = client.copy_out(&statement, &mut parsed).await?;
    let last = parsed.parser.finish().await?;
    last.iter().try_for_each(|batch| parsed.writer.write(batch))?;
    parsed.writer.finish()?;
    Ok(rows)
}

/// Takes csv and writes batches.
struct Parsed<'a> {
    parser: CopyParser,
    writer: Box<dyn BatchWriter + 'a>,
}

impl Write for Parsed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let batches =
            block_on(unconstrained(self.parser.push(bytes))).map_err(|error| io::Error::other(Failure::from(error)))?;
        let written = batches.iter().try_for_each(|batch| self.writer.write(batch));
        written.map(|()| bytes.len()).map_err(io::Error::other)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The file being written, or stdout.
struct Target {
    writer: Compressed,
    /// Where it is written, and its name when it is whole.
    paths: Option<(PathBuf, PathBuf)>,
}

impl Target {
    fn create(path: &Path, format: FileFormat) -> Result<Target> {
        let name = path.to_string_lossy().to_ascii_lowercase();
        if !format.is_text() && [".gz", ".zst"].iter().any(|ending| name.ends_with(ending)) {
            return Err(Failure::new("Parquet and Arrow files are not compressed as a whole")
                .with_hint("Parquet is compressed inside: leave .gz and .zst out of the name."));
        }
        if path.as_os_str() == "-" {
            return Ok(Target { writer: Compressed::Plain(Box::new(BufWriter::new(io::stdout()))), paths: None });
        }
        let found = std::fs::metadata(path).ok();
        if found.as_ref().is_some_and(|found| !found.is_file() && !found.is_dir()) {
            // A pipe or a device stays what it is.
            let file = std::fs::OpenOptions::new().write(true).open(path);
            let file = file.map_err(|error| Failure::from(error).context(path.display()))?;
            return Ok(Target { writer: compressed(&name, file)?, paths: None });
        }
        // What a link leads to is replaced, not the link.
        let path = &path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let mut partial = path.as_os_str().to_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = File::create(&partial).map_err(|error| Failure::from(error).context(partial.display()))?;
        Ok(Target { writer: compressed(&name, file)?, paths: Some((partial, path.to_path_buf())) })
    }

    fn writer(&mut self) -> &mut (dyn Write + Send) {
        &mut self.writer
    }

    /// Keeps the file if all rows are written, and nothing of it otherwise.
    fn end(self, written: Result<u64>) -> Result<()> {
        let Target { writer, paths } = self;
        let kept = written.and_then(|rows| keep(writer, paths.as_ref(), rows));
        if let (Err(_), Some((partial, _))) = (&kept, &paths) {
            // What cannot be deleted is plainly named as partial.
            let _ = std::fs::remove_file(partial);
        }
        kept
    }
}

/// Compresses what is written to a file as its name says.
fn compressed(name: &str, file: File) -> Result<Compressed> {
    let file = BufWriter::new(file);
    Ok(match name.rsplit('.').next() {
        Some("gz") => Compressed::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::default())),
        Some("zst") => Compressed::Zstd(zstd::stream::write::Encoder::new(file, 0)?),
        _ => Compressed::Plain(Box::new(file)),
    })
}

fn keep(writer: Compressed, paths: Option<&(PathBuf, PathBuf)>, rows: u64) -> Result<()> {
    writer.finish()?;
    let Some((partial, path)) = paths else { return Ok(()) };
    std::fs::rename(partial, path).map_err(|error| Failure::from(error).context(path.display()))?;
    say!("{}: {} rows, {} bytes", path.display(), grouped(rows), grouped(std::fs::metadata(path)?.len()));
    Ok(())
}

/// A file that may be compressed.
enum Compressed {
    Plain(Box<dyn Write + Send>),
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

impl Compressed {
    fn finish(self) -> io::Result<()> {
        match self {
            Compressed::Plain(mut file) => file.flush(),
            Compressed::Gzip(encoder) => encoder.finish()?.flush(),
            Compressed::Zstd(encoder) => encoder.finish()?.flush(),
        }
    }
}

impl Write for Compressed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Compressed::Plain(file) => file.write(bytes),
            Compressed::Gzip(encoder) => encoder.write(bytes),
            Compressed::Zstd(encoder) => encoder.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Compressed::Plain(file) => file.flush(),
            Compressed::Gzip(encoder) => encoder.flush(),
            Compressed::Zstd(encoder) => encoder.flush(),
        }
    }
}
