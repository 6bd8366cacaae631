//! `keyspan completions`: what a shell of the system needs to complete the program's arguments.

use std::io::Write;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::Result;

/// Write the completions of a shell to stdout: bash, zsh, fish, elvish, powershell.
#[derive(Args, Debug)]
pub struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments, mut program: Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "keyspan", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}
