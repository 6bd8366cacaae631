//! A database to try the program on, in a directory or behind a server.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// A database, in its directory or behind a server, and files to load into it.
pub struct Place {
    pub folder: TempDir,
    /// `--data DIR` or `--url URL`.
    pub arguments: [String; 2],
    server: Option<Child>,
}

impl Place {
    pub fn embedded() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["--data".to_string(), folder.path().join("db").display().to_string()];
        Place { folder, arguments, server: None }
    }

    pub fn served() -> Place {
        let mut place = Place::embedded();
        let mut server = Command::new(env!("CARGO_BIN_EXE_keyspan"))
            .args(["serve", "--listen", "127.0.0.1:0", "--data", &place.arguments[1]])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap();
        place.arguments = ["--url".to_string(), format!("postgres://{address}")];
        place.server = Some(server);
        place
    }

    /// The same in both places.
    pub fn both() -> [Place; 2] {
        [Place::embedded(), Place::served()]
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_keyspan"));
        program.args(arguments).args(&self.arguments).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs the program with this standard input.
    pub fn piped(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_keyspan"));
        let program = program.args(arguments).args(&self.arguments).stdin(Stdio::piped());
        let mut child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Imports a file with this content; answers stdout and stderr.
    pub fn import(&self, file: &str, content: &str, more: &[&str]) -> Result<(String, String), String> {
        let path = self.folder.path().join(file);
        fs::write(&path, content).unwrap();
        let output = self.run(&[&["import", path.to_str().unwrap(), "--into", "t"], more].concat());
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        if output.status.success() { Ok((out, err)) } else { Err(err) }
    }

    pub fn create(&self, file: &str, content: &str, more: &[&str]) -> Result<(String, String), String> {
        self.import(file, content, &[&["--create"], more].concat())
    }

    /// An answer as csv, without its header.
    pub fn query(&self, query: &str) -> String {
        let output = self.run(&["sql", "--format", "csv", "-c", query]);
        assert!(output.status.success(), "{query}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().split_once('\n').map(|(_, rows)| rows.to_string()).unwrap()
    }

    /// The columns of `t` and their types.
    pub fn types(&self) -> String {
        let query = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 't' \
            ORDER BY ordinal_position";
        self.query(query).replace('\n', ";")
    }

    pub fn drop_table(&self) {
        assert!(self.run(&["sql", "-c", "DROP TABLE t"]).status.success());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
