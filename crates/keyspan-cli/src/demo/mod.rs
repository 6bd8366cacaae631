//! `keyspan demo`: real data, a tour of queries, then a server to try one's own.
//!
//! The rule: a table is loaded in one step, so one that has rows has them all and a second run skips it.

mod tables;
mod tour;

use std::io::ErrorKind as IoErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use keyspan::{Database, Statement};
use keyspan_pg::{Server, ServerOptions};
use tokio::runtime::Runtime;

use crate::client::{Client, Embedded};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::open;
use crate::output::{Format, Pager, Printer, Style};
use crate::progress::Progress;
use crate::serve;
use tables::{Bundled, TABLES};

/// The file that every Keyspan data directory has.
const MARK: &str = "KEYSPAN";

/// Load the bundled flight data, show what Keyspan does with it, and serve it.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The data directory; made if it does not exist.
    #[arg(long, value_name = "DIR", default_value = "./keyspan-demo")]
    data: PathBuf,
    /// Delete what an earlier run left there, and load again.
    #[arg(long)]
    fresh: bool,
    /// Where to serve afterwards.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:5433")]
    listen: SocketAddr,
    /// End after the tour.
    #[arg(long)]
    no_serve: bool,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<()> {
    let runtime = open::runtime()?;
    let _within = runtime.enter();
    if arguments.fresh {
        delete(&arguments.data)?;
    }
    let database = open::database(&arguments.data, open::options(&Config::without_flags()?)?)?;
    let result = match has_others(&database) {
        true => Err(Failure::new(format!("{} has other tables than those of the demo", arguments.data.display()))
            .with_hint("Say another directory with --data.")),
        false => show(&runtime, &database, arguments),
    };
    let closed = database.close().map_err(Failure::from);
    result.and(closed)
}

fn show(runtime: &Runtime, database: &Database, arguments: &Arguments) -> Result<()> {
    let mut client = Client::Embedded(Box::new(Embedded::new(database.clone())));
    say!("Keyspan demo in {}", arguments.data.display());
    runtime.block_on(load_all(&mut client))?;
    let style = Style { pager: Pager::Off, ..Style::new(Format::Aligned) };
    runtime.block_on(tour::run(&mut client, Printer::new(style)))?;
    drop(client);
    if arguments.no_serve {
        return Ok(());
    }
    serve::log_to_stderr()?;
    runtime.block_on(keep_serving(database, arguments.listen))
}

async fn load_all(client: &mut Client) -> Result<()> {
    let Client::Embedded(client) = client else { return Ok(()) };
    for table in &TABLES {
        match load(client, table).await.map_err(|failure| failure.context(table.name))? {
            Some(loaded) => say!("  {:<8} {loaded}", table.name),
            None => say!("  {:<8} is there already", table.name),
        }
    }
    Ok(())
}

/// Loads a table, unless it has rows. Answers how many and how fast.
async fn load(client: &mut Embedded, table: &Bundled) -> Result<Option<String>> {
    client.session.execute(table.create).await?;
    let first = client.session.query(&format!("SELECT 1 FROM {} LIMIT 1", table.name), &[]).await?;
    if first.collect().await?.iter().any(|batch| batch.num_rows() > 0) {
        return Ok(None);
    }
    let (total, batches) = table.rows()?;
    let mut progress = Progress::new(table.name, total);
    let mut target = None;
    let mut done = 0;
    for batch in batches {
        let batch = batch?;
        if target.is_none() {
            let parsed = client.session.parse(&table.copy(&batch))?.pop();
            let Some(Statement::Copy(copy)) = parsed.map(|parsed| parsed.statement) else { continue };
            target = Some(client.session.copy_in(&copy)?);
        }
        if let Some(target) = &mut target {
            target.push(&mut client.session, &batch).await?;
        }
        done += batch.num_rows() as u64;
        progress.add_rows(batch.num_rows() as u64);
        progress.at(done);
    }
    if let Some(target) = target {
        target.finish(&mut client.session).await?;
    }
    Ok(Some(progress.finish(done)))
}

/// Serves on the address, or on a free port beside it.
async fn keep_serving(database: &Database, wanted: SocketAddr) -> Result<()> {
    let bind = |listen| Server::bind(database.clone(), ServerOptions { listen, ..ServerOptions::default() });
    let is_taken =
        tokio::net::TcpListener::bind(wanted).await.is_err_and(|error| error.kind() == IoErrorKind::AddrInUse);
    let server = if is_taken {
        say!("Port {} is taken by another program, so this is another one:", wanted.port());
        bind(SocketAddr::new(wanted.ip(), 0)).await?
    } else {
        bind(wanted).await?
    };
    let address = server.local_addr();
    say!("Serving; Ctrl-C ends. In another terminal:\n\n    psql -h {} -p {}\n", address.ip(), address.port());
    serve::until_stopped(server).await
}

/// Whether a database has tables, and none of the demo's.
fn has_others(database: &Database) -> bool {
    let catalog = database.catalog();
    !catalog.tables.is_empty() && TABLES.iter().all(|table| catalog.table("public", table.name).is_none())
}

/// Whether a database has nothing, or all that the demo loads.
fn is_demo(database: &Database) -> bool {
    let catalog = database.catalog();
    catalog.tables.is_empty() || TABLES.iter().all(|table| catalog.table("public", table.name).is_some())
}

/// Deletes the data directory of a demo, and nothing else.
fn delete(data: &Path) -> Result<()> {
    let mut entries = match std::fs::read_dir(data) {
        Ok(entries) => entries,
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Failure::from(error).context(data.display())),
    };
    if entries.next().is_none() {
        return Ok(());
    }
    if !data.join(MARK).is_file() {
        return Err(Failure::new(format!(
            "{} is not a Keyspan data directory, so --fresh does not delete it",
            data.display()
        ))
        .with_hint("Say another directory with --data."));
    }
    // One that is open elsewhere stays, and one of somebody else's.
    let database = Database::open(data).map_err(|error| Failure::from(error).context("--fresh"))?;
    let is_demo = is_demo(&database);
    database.close()?;
    if !is_demo {
        return Err(Failure::new(format!(
            "{} has tables, and not those of the demo, so --fresh does not delete it",
            data.display()
        ))
        .with_hint("Say another directory with --data."));
    }
    std::fs::remove_dir_all(data).map_err(|error| Failure::from(error).context(data.display()))
}
