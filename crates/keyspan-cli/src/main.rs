//! The `keyspan` program: one subcommand per module, nothing else here.
//!
//! The rule: results go to stdout, everything about them (progress, notices, errors) to stderr; the exit code is 0 when
//! all was done, 1 when something failed, 2 for wrong arguments.

/// A line of the result. Where nobody takes it the work that it tells of is done all the same: that is no failure.
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{}\n", format_args!($($text)*)));
    }};
}

mod advice;
mod backup;
mod check;
mod client;
mod completions;
mod config;
mod demo;
mod dialect;
mod export;
mod failure;
mod files;
mod import;
mod infer;
mod input;
mod json_text;
mod look;
mod machine;
mod metrics;
mod open;
mod output;
mod progress;
mod rejects;
mod restore;
mod role;
mod rows;
mod script;
mod segments;
mod serve;
mod shell;
mod source;
mod sql;
mod target;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// An embeddable wide-column database.
#[derive(Debug, Parser)]
#[command(name = "keyspan", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Arguments),
    #[command(visible_alias = "shell")]
    Sql(sql::Arguments),
    Import(import::Arguments),
    Export(export::Arguments),
    Files(segments::Arguments),
    Check(check::Arguments),
    Backup(backup::Arguments),
    Restore(restore::Arguments),
    Role(role::Arguments),
    Config(serve::ConfigArguments),
    Completions(completions::Arguments),
    Demo(demo::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Sql(arguments) => sql::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Files(arguments) => segments::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => restore::run(&arguments),
        Command::Role(arguments) => role::run(&arguments),
        Command::Config(arguments) => serve::show(&arguments),
        Command::Completions(arguments) => completions::run(&arguments, <Arguments as clap::CommandFactory>::command()),
        Command::Demo(arguments) => demo::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Who reads the output has seen enough, as `head` does.
        Err(failure) if failure.is_closed_output() => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report(None);
            ExitCode::FAILURE
        }
    }
}
