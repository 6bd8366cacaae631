//! `keyspan files`: the files of a table, and which of them say all there is.

use clap::Args;

use crate::failure::Result;
use crate::open::{self, Place};
use crate::output::{Format, Printer, Style};

/// List the files of a table. What is settled is all there is of its rows: the other files also hold rows that are
/// deleted, overwritten or expired, which programs that read them count, too. To read a table elsewhere, export it.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The table.
    table: String,
    #[command(flatten)]
    place: Place,
    /// As CSV.
    #[arg(long)]
    csv: bool,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<()> {
    let runtime = open::runtime()?;
    let mut client = arguments.place.open(&runtime)?;
    let format = if arguments.csv { Format::Csv } else { Format::Aligned };
    let mut printer = Printer::new(Style::new(format));
    let statement = format!("SHOW FILES FROM {}", arguments.table);
    let shown = runtime.block_on(client.run_interruptibly(&statement, &mut printer, &mut ()));
    let _within = runtime.enter();
    let closed = client.close();
    shown.and(closed)
}
