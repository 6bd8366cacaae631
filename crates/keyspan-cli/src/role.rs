//! `keyspan role`: the first roles of a directory, from which on clients must log in.

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use keyspan::{Options, quoted};
use rustyline::highlight::Highlighter;
use rustyline::history::DefaultHistory;
use rustyline::{Completer, Config, Editor, Helper, Hinter, Validator};

use crate::failure::{Failure, Result};
use crate::open;

/// Make roles in a data directory that nobody serves.
#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Create(Create),
}

/// Make a role that may log in. Its password is asked for, or read from the first line of stdin.
#[derive(Args, Debug)]
struct Create {
    /// The data directory; made if it does not exist.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The role may do everything.
    #[arg(long)]
    superuser: bool,
    /// Its name.
    name: String,
}

/// Runs the subcommand.
pub fn run(arguments: &Arguments) -> Result<()> {
    let Command::Create(create) = &arguments.command;
    let password = password(&create.name)?;
    let runtime = open::runtime()?;
    let _within = runtime.enter();
    let database = open::database(&create.data, Options::default())?;
    let superuser = if create.superuser { "SUPERUSER" } else { "NOSUPERUSER" };
    let (name, password) = (quoted(&create.name), password.replace('\'', "''"));
    let sql = format!("CREATE ROLE {name} LOGIN {superuser} PASSWORD '{password}'");
    let made = runtime.block_on(database.session().execute(&sql));
    let closed = database.close();
    made?;
    say!("role {name} was created: from now on clients must log in");
    Ok(closed?)
}

fn password(name: &str) -> Result<String> {
    let password = match std::io::stdin().is_terminal() {
        true => asked(name)?,
        false => std::io::stdin().lock().lines().next().transpose()?.unwrap_or_default(),
    };
    if password.is_empty() { Err(Failure::new("the password is empty")) } else { Ok(password) }
}

/// Asks twice, without showing what is typed.
fn asked(name: &str) -> Result<String> {
    let mut editor: Editor<Hidden, DefaultHistory> =
        Editor::with_config(Config::builder().auto_add_history(false).build()).map_err(unreadable)?;
    editor.set_helper(Some(Hidden));
    let first = editor.readline(&format!("Password of {name}: ")).map_err(unreadable)?;
    match editor.readline("Once more: ").map_err(unreadable)? == first {
        true => Ok(first),
        false => Err(Failure::new("the two passwords differ")),
    }
}

fn unreadable(error: rustyline::error::ReadlineError) -> Failure {
    Failure::new(format!("no password was read: {error}"))
}

/// Shows nothing of a line but its prompt.
#[derive(Completer, Helper, Hinter, Validator)]
struct Hidden;

impl Highlighter for Hidden {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> std::borrow::Cow<'l, str> {
        " ".repeat(line.chars().count()).into()
    }

    fn highlight_char(&self, _: &str, _: usize, _: rustyline::highlight::CmdKind) -> bool {
        true
    }
}
