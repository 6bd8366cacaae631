//! `keyspan backup`: everything in a database, into a directory from which it can be restored.

use std::path::{Path, PathBuf};

use clap::Args;
use keyspan::{ErrorKind, Options};

use crate::client::Remote;
use crate::failure::{Failure, Result};
use crate::open::{self, Found, Place};

/// Write a backup of a database; a running server goes on meanwhile.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// The directory, on the server's machine: empty, not there yet, or with an earlier backup, of which only what is new
    /// is written.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<()> {
    let to = std::path::absolute(&arguments.to)?;
    let runtime = open::runtime()?;
    match arguments.place.found()? {
        Found::Data(data) => {
            let _within = runtime.enter();
            stopped(&runtime, &data, &to)
        }
        Found::Url(url) => runtime.block_on(running(&url, &to)),
    }
}

/// The database in a directory that nobody has open.
fn stopped(runtime: &tokio::runtime::Runtime, data: &Path, to: &Path) -> Result<()> {
    if !data.join("KEYSPAN").exists() {
        return Err(Failure::new(format!("there is no database in \"{}\"", data.display())));
    }
    let database = keyspan::Database::open_with(data, Options::default()).map_err(|error| match error.kind {
        ErrorKind::ObjectInUse => Failure::from(error).with_hint(
            "It is served: let the server write the backup, with keyspan backup --url postgres://… --to DIR.",
        ),
        _ => Failure::from(error),
    })?;
    let report = runtime.block_on(database.backup(to));
    let closed = database.close();
    say!("{}: {}", to.display(), report?);
    Ok(closed?)
}

/// The database behind a server.
async fn running(url: &str, to: &Path) -> Result<()> {
    let Some(path) = to.to_str() else { return Err(Failure::new("--to is not UTF-8")) };
    let mut remote = Remote::connect(url).await?;
    remote.execute(&format!("BACKUP DATABASE TO '{}'", path.replace('\'', "''"))).await?;
    let told = remote.take_notices();
    let told: Vec<&str> = told.iter().map(|line| line.trim_start_matches("NOTICE:  ")).collect();
    say!("{}: {}", to.display(), told.join("; "));
    Ok(())
}
