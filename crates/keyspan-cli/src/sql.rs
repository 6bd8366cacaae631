//! `keyspan sql`: statements from arguments, files, stdin or a person.

use std::io::{BufReader, IsTerminal};
use std::path::PathBuf;

use clap::Args;

use crate::failure::{Failure, Result};
use crate::open::{self, Place};
use crate::output::{Expanded, Format, Out, Printer, Style, columns_of_terminal};
use crate::shell::Shell;

/// Run SQL and CQL statements, or type them in a shell with psql's commands.
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
    /// As --format csv.
    #[arg(long, conflicts_with = "format")]
    csv: bool,
    /// As --format unaligned.
    #[arg(short = 'A', long = "no-align", conflicts_with_all = ["format", "csv"])]
    no_align: bool,
    /// Rows only: no titles, no number of rows.
    #[arg(short, long)]
    tuples_only: bool,
    /// A line for each column.
    #[arg(short = 'x', long)]
    expanded: bool,
    /// No messages besides rows.
    #[arg(short, long)]
    quiet: bool,
    /// Write answers to a file, or to a program: '|less'.
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
    /// Set a variable, for :NAME in statements.
    #[arg(short = 'v', long = "set", visible_alias = "variable", value_name = "NAME=VALUE")]
    variables: Vec<String>,
    /// Set how rows are printed, as \pset does.
    #[arg(short = 'P', long, value_name = "NAME=VALUE")]
    pset: Vec<String>,
    /// Do not run ~/.keyspanrc before a conversation.
    #[arg(short = 'X', long = "no-rc")]
    no_start_file: bool,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<()> {
    let runtime = open::runtime()?;
    let client = arguments.place.open(&runtime)?;
    let mut shell = Shell::new(runtime, client, Printer::new(arguments.style(arguments.is_conversation())?));
    let result = arguments.prepare(&mut shell).and_then(|()| work(arguments, &mut shell));
    let closed = shell.close();
    result.and(closed)
}

fn work(arguments: &Arguments, shell: &mut Shell) -> Result<()> {
    if arguments.command.is_empty() && arguments.file.is_empty() {
        if arguments.is_conversation() {
            if !arguments.no_start_file {
                shell.run_start_file()?;
            }
            return shell.converse();
        }
        return shell.run_script(&mut std::io::stdin().lock());
    }
    for text in &arguments.command {
        shell.run_script(&mut text.as_bytes())?;
    }
    for path in &arguments.file {
        match path.as_os_str() == "-" {
            true => shell.run_script(&mut BufReader::new(std::io::stdin()))?,
            false => shell.run_file(path)?,
        }
    }
    Ok(())
}

impl Arguments {
    /// Whether a person types the statements.
    fn is_conversation(&self) -> bool {
        self.command.is_empty()
            && self.file.is_empty()
            && std::io::stdin().is_terminal()
            && std::io::stdout().is_terminal()
    }

    /// As the flags say. In a conversation wide rows have a line for each column, unless a flag says otherwise.
    fn style(&self, is_conversation: bool) -> Result<Style> {
        let mut style = Style::new(match (self.csv, self.no_align) {
            (true, _) => Format::Csv,
            (_, true) => Format::Unaligned,
            _ => self.format,
        });
        style.tuples_only = self.tuples_only;
        style.expanded = match (self.expanded, is_conversation) {
            (true, _) => Expanded::On,
            (false, true) => Expanded::Wider(columns_of_terminal()),
            (false, false) => Expanded::Off,
        };
        for option in &self.pset {
            let (name, value) =
                option.split_once('=').map_or((option.as_str(), None), |(name, value)| (name, Some(value)));
            style.set(name, value, columns_of_terminal())?;
        }
        Ok(style)
    }

    fn prepare(&self, shell: &mut Shell) -> Result<()> {
        for variable in &self.variables {
            let (name, value) = variable
                .split_once('=')
                .ok_or_else(|| Failure::new(format!("--set \"{variable}\" is not NAME=VALUE")))?;
            shell.variables.set(name, value)?;
        }
        if self.quiet {
            shell.variables.set("QUIET", "on")?;
        }
        if let Some(output) = &self.output {
            shell.printer.redirect(Out::to(output)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn flags_come_before_what_a_conversation_does() {
        let expanded = |flags: &[&str], is_conversation| {
            let program = Program::parse_from([&["sql", "--data", "x"], flags].concat());
            program.arguments.style(is_conversation).expect("a style").expanded
        };
        assert!(matches!(expanded(&[], true), Expanded::Wider(_)));
        assert_eq!(expanded(&[], false), Expanded::Off);
        assert_eq!((expanded(&["-x"], true), expanded(&["-P", "expanded=off"], true)), (Expanded::On, Expanded::Off));
    }
}
