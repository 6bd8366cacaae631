//! `keyspan sql`: statements from arguments, files, stdin or a person.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::PathBuf;

use clap::Args;

use crate::failure::{Failure, Result};
use crate::open::{self, Place};
use crate::output::{Format, Printer};
use crate::shell::Shell;

/// Run SQL and CQL statements, or type them.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(flatten)]
    place: Place,
    /// Run these statements and end; may be given several times. The first error ends the run.
    #[arg(short, long, value_name = "STATEMENT")]
    command: Vec<String>,
    /// Run the statements of a file and end; - is stdin.
    #[arg(short, long, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// How rows are printed.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<()> {
    let runtime = open::runtime()?;
    let client = arguments.place.open(&runtime)?;
    let out = std::io::BufWriter::new(std::io::stdout());
    let mut shell = Shell::new(runtime, client, Printer::new(out, arguments.format));
    let result = work(arguments, &mut shell);
    let closed = shell.close();
    result.and(closed)
}

fn work(arguments: &Arguments, shell: &mut Shell) -> Result<()> {
    if arguments.command.is_empty() && arguments.file.is_empty() {
        let stdin = std::io::stdin();
        if stdin.is_terminal() && std::io::stdout().is_terminal() {
            return shell.converse();
        }
        return shell.run_script(&mut stdin.lock());
    }
    for text in &arguments.command {
        shell.run_script(&mut text.as_bytes())?;
    }
    for path in &arguments.file {
        let mut reader = open_file(path)?;
        shell.run_script(&mut reader)?;
    }
    Ok(())
}

fn open_file(path: &PathBuf) -> Result<Box<dyn BufRead>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let file = File::open(path).map_err(|error| Failure::from(error).context(path.display()))?;
    Ok(Box::new(BufReader::new(file)))
}
