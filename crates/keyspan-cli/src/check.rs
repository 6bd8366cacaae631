//! `keyspan check`: verifies a data directory, byte by byte, and repairs it if told to.

use std::path::{Path, PathBuf};

use clap::Args;
use keyspan::CheckReport;

use crate::failure::{Failure, Result};
use crate::progress::grouped;

/// Verify every checksum, the order of rows and the manifest of a data directory or a backup.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The data directory, which nobody may have open, or a backup.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Make a damaged data directory whole again: what is not damaged is saved, what is lost is named, damaged files go
    /// to DIR/damaged.
    #[arg(long)]
    repair: bool,
}

/// Runs the subcommand. Damage is a failure, so that the exit code is 1.
pub fn run(arguments: &Arguments) -> Result<()> {
    let report = if arguments.repair { repair(&arguments.data)? } else { keyspan::check(&arguments.data)? };
    print_report(&arguments.data, &report);
    if report.is_sound() {
        say!("no damage found");
        return Ok(());
    }
    for problem in &report.problems {
        eprint!("{}", Failure::from(problem.clone()).text(None));
    }
    let count = report.problems.len();
    Err(Failure::new(format!("{count} problem{} found", if count == 1 { "" } else { "s" })))
}

/// Repairs the directory, says what was done, and answers what is found in it then.
fn repair(data: &Path) -> Result<CheckReport> {
    let report = keyspan::repair(data)?;
    for done in &report.done {
        say!("{done}");
    }
    match (report.rows_lost, report.batches_lost) {
        _ if report.done.is_empty() => say!("there was nothing to repair"),
        (0, 0) => say!("nothing is lost"),
        (rows, batches) => say!("lost: {} rows of segments, {} batches", grouped(rows), grouped(batches)),
    }
    Ok(report.check)
}

/// Says what was read, damage left aside.
pub fn print_report(data: &Path, report: &CheckReport) {
    say!("{}: format, manifest and {} of its checkpoints", data.display(), report.checkpoints);
    say!("  {} tables", report.tables);
    say!(
        "  {} segments: {} rows, {} bytes, each checked against its checksum",
        report.segments,
        grouped(report.segment_rows),
        grouped(report.segment_bytes)
    );
    say!("  {} batches in the commit log", grouped(report.log_records));
    for name in &report.left_over {
        say!("  left over, removed at the next opening or backup: {name}");
    }
    for damaged in &report.damaged_indexes {
        say!("  an index to be built anew while the database is open, nothing is lost: {damaged}");
    }
}
