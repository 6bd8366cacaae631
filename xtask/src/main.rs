//! The project's own commands: `cargo xtask ci` is what CI runs, `cargo xtask drivers` the drivers alone,
//! `cargo xtask settings` writes a page of the documentation, `cargo xtask torture` looks for faults that lose data for
//! as long as one likes.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Python packages of the driver tests and of the comparison with other engines.
const PYTHON_PACKAGES: &[&str] = &[
    "psycopg[binary]",
    "psycopg2-binary",
    "sqlalchemy",
    "pandas",
    "asyncpg",
    "duckdb",
    "pyarrow",
    "adbc-driver-postgresql",
];

/// Of the comparison with Cassandra.
const CASSANDRA_PACKAGES: &[&str] = &["psycopg[binary]", "cassandra-driver==3.30.1"];

/// Of the comparison with Bigtable: clients of the emulator.
const BIGTABLE_PACKAGES: &[&str] = &["psycopg[binary]", "google-cloud-bigtable==2.50.2"];

/// Of the suites of other projects: the versions whose failures have been looked at.
const SUITE_PACKAGES: &[&str] = &["psycopg[binary]==3.3.4", "sqlalchemy==2.1.9", "pytest==9.0.2", "anyio", "pproxy"];

const USAGE: &str = "usage: cargo xtask <command>
  ci        everything CI runs: lint, test, drivers, differential
  lint      fmt, clippy, docs
  test      unit tests, property tests, query files, kill tests
  settings  docs/settings.md from the settings' definitions
  torture   power loss, errors, damage and simulated runs from new seeds: --minutes N, --seed N
  differential  statements beside PostgreSQL 15: KEYSPAN_POSTGRES names it, else Debian's package is started;
            with --regression PostgreSQL's own regression files, with --random N [--seed S] random statements
  cassandra  CQL beside Cassandra 5, which Maven fetches: files of statements; with --random N [--seed S] random tables
            and statements, with --parameters as prepared ones, with --record FILE what was alike as a query file
  bigtable  families beside Bigtable's emulator, which Go builds: scenarios; with --random N [--seed S] random tables and
            operations
  suite     the tests of other projects: sqlalchemy or psycopg; --postgres runs them against PostgreSQL instead
  drivers   clients of Python, Java, Go, Node, Ruby and PHP against a running server (installs into target/python, java
            and node; those not installed are skipped, but not in CI)";

fn main() -> ExitCode {
    let command = std::env::args().nth(1).unwrap_or_default();
    let done = match command.as_str() {
        "ci" => lint().and_then(|()| test()).and_then(|()| drivers()).and_then(|()| all_differences()),
        "lint" => lint(),
        "test" => test(),
        "drivers" => drivers(),
        "differential" => differential(&std::env::args().skip(2).collect::<Vec<_>>()),
        "cassandra" => cassandra(&std::env::args().skip(2).collect::<Vec<_>>()),
        "bigtable" => bigtable(&std::env::args().skip(2).collect::<Vec<_>>()),
        "suite" => suite(),
        "settings" => settings(),
        "torture" => torture(),
        _ => Err(USAGE.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_path_buf()
}

fn lint() -> Result<(), String> {
    step("format", cargo(&["fmt", "--all", "--check"]))?;
    step("clippy", cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    let mut doc = cargo(&["doc", "--workspace", "--no-deps", "--quiet"]);
    // A module's tour may name its private rooms.
    doc.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links");
    step("docs", doc)
}

fn test() -> Result<(), String> {
    step("tests", cargo(&["test", "--workspace", "--quiet"]))
}

/// Writes the page that a test compares with the definitions: the tests have them, and this program needs no query engine.
fn settings() -> Result<(), String> {
    let mut run = cargo(&["test", "--workspace", "--quiet", "--test", "all", "settings_page"]);
    run.env("KEYSPAN_WRITE_DOCS", "1");
    step("settings", run)
}

/// Faults under the store for some minutes. The store is built alone, optimized: it needs no query engine.
fn torture() -> Result<(), String> {
    let mut run = cargo(&["test", "--release", "--package", "keyspan-store", "--lib", "--quiet", "torture"]);
    run.args(["--", "--ignored", "--nocapture"]);
    let mut arguments = std::env::args().skip(2);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a number"))?;
        match name.as_str() {
            "--minutes" => run.env("KEYSPAN_TORTURE_MINUTES", value),
            "--seed" => run.env("KEYSPAN_TORTURE_SEED", value),
            _ => return Err(USAGE.to_string()),
        };
    }
    step("torture", run)
}

fn drivers() -> Result<(), String> {
    let python = python("python", PYTHON_PACKAGES)?;
    // As the tests build it: another set of packages would compile DataFusion again with other features.
    step("build", cargo(&["test", "--workspace", "--no-run", "--quiet"]))?;
    let mut run = Command::new(python);
    run.args([
        "-m",
        "unittest",
        "discover",
        "--verbose",
        "--start-directory",
        "tests/drivers",
        "--pattern",
        "test_*.py",
    ]);
    step("drivers", run)
}

/// The files of statements, then random ones, the same every time: those of the first seeds, which do not differ.
fn all_differences() -> Result<(), String> {
    differential(&[])?;
    differential(&["--random", "100", "--seed", "1"].map(str::to_owned))
}

/// The answers of Keyspan and of PostgreSQL to the same statements; what is given after the name goes to the program.
fn differential(arguments: &[String]) -> Result<(), String> {
    let python = python("python", PYTHON_PACKAGES)?;
    step("build", cargo(&["test", "--workspace", "--no-run", "--quiet"]))?;
    let mut run = Command::new(python);
    run.arg("tests/differential/compare.py").args(arguments);
    step("differential", run)
}

/// The answers of Keyspan and of Cassandra to the same statements; what is given after the name goes to the program.
fn cassandra(arguments: &[String]) -> Result<(), String> {
    let python = python("python", CASSANDRA_PACKAGES)?;
    step("build", cargo(&["test", "--workspace", "--no-run", "--quiet"]))?;
    let mut run = Command::new(python);
    run.arg("tests/cassandra/compare.py").args(arguments);
    step("cassandra", run)
}

/// The cells of Keyspan and of Bigtable's emulator after the same operations; what is given after the name goes to the
/// program.
fn bigtable(arguments: &[String]) -> Result<(), String> {
    let python = python("python", BIGTABLE_PACKAGES)?;
    step("build", cargo(&["test", "--workspace", "--no-run", "--quiet"]))?;
    let mut run = Command::new(python);
    run.arg("tests/bigtable/compare.py").args(arguments);
    step("bigtable", run)
}

/// The tests of another project; what is given after the name goes to the program.
fn suite() -> Result<(), String> {
    let python = python("suites/python", SUITE_PACKAGES)?;
    step("build", cargo(&["test", "--workspace", "--no-run", "--quiet"]))?;
    let mut run = Command::new(python);
    run.arg("tests/suites/run.py").args(std::env::args().skip(2));
    step("suite", run)
}

/// The interpreter of a virtual environment under `target/` that has these packages.
fn python(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let home = root().join("target").join(name);
    let interpreter = home.join("bin/python");
    if !interpreter.exists() {
        let mut create = Command::new("python3");
        create.args(["-m", "venv"]).arg(&home);
        step("python", create)?;
    }
    let mut install = Command::new(&interpreter);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    step("python packages", install)?;
    Ok(interpreter)
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs one command in the workspace's root and says how long it took.
fn step(name: &str, mut command: Command) -> Result<(), String> {
    println!("== {name}");
    let start = Instant::now();
    let status =
        command.current_dir(root()).status().map_err(|error| format!("{name}: cannot run {command:?}: {error}"))?;
    if !status.success() {
        return Err(format!("{name} failed: {command:?}"));
    }
    println!("== {name}: {} s", start.elapsed().as_secs());
    Ok(())
}
