//! `keyspan restore`: a backup becomes a data directory.

use std::path::PathBuf;

use clap::Args;
use keyspan::{ColumnType, Value};

use crate::check::print_report;
use crate::failure::{Failure, Result};

/// Make a data directory of a backup, verify it, and only then let it be opened.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The directory that `keyspan backup` wrote.
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// The new data directory: empty or not there yet.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The moment to go back to, where the backup's log reaches it: '2024-01-25 10:00:00+00', UTC if it has no zone.
    #[arg(long, value_name = "TIMESTAMP")]
    until: Option<String>,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<()> {
    let until = arguments.until.as_deref().map(moment).transpose()?;
    let report = keyspan::restore(&arguments.from, &arguments.data, until)?;
    print_report(&arguments.data, &report.check);
    say!("restored up to batch {}", report.seq);
    Ok(())
}

/// Microseconds of a timestamp.
fn moment(text: &str) -> Result<i64> {
    match Value::parse(text, ColumnType::Timestamp).map_err(|error| Failure::from(error).context("--until"))? {
        Value::Timestamp(micros) => Ok(micros),
        _ => Err(Failure::new(format!("--until: \"{text}\" is not a timestamp"))),
    }
}
