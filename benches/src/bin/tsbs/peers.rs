//! Other engines, and Keyspan's own server, asked from Python (`benches/peers.py`).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use keyspan::Database;
use keyspan_benches::tsbs::{self, Query, Rows, Shape};
use keyspan_pg::{Server, ServerOptions};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;

use crate::mine::Measured;
use crate::{Answer, Answers};

/// The rows and queries as files, and who asks the peers.
pub struct Peers {
    python: PathBuf,
    rows: PathBuf,
    queries: PathBuf,
    repeat: usize,
}

impl Peers {
    /// Writes the rows in order of arrival and the queries into a folder.
    pub fn new(python: &Path, shape: Shape, queries: &[Query], repeat: usize, folder: &Path) -> Answer<Peers> {
        let (rows, list) = (folder.join("rows.parquet"), folder.join("queries.json"));
        // Without Arrow's own schema: not everybody knows its views of text.
        let options = ArrowWriterOptions::new().with_skip_arrow_metadata(true);
        let mut writer = ArrowWriter::try_new_with_options(File::create(&rows)?, tsbs::schema(), options)?;
        for batch in Rows::new(shape, 100_000) {
            writer.write(&batch)?;
        }
        writer.close()?;
        let pairs: Vec<(&str, &str)> = queries.iter().map(|query| (query.name, query.sql.as_str())).collect();
        serde_json::to_writer(File::create(&list)?, &pairs)?;
        Ok(Peers { python: python.to_owned(), rows, queries: list, repeat })
    }

    /// A peer's version and times.
    pub fn run(&self, name: &str) -> Answer<(String, Answers)> {
        self.ask(name, None)
    }

    /// The times of Keyspan over the wire: psycopg, rows in binary.
    pub async fn wire(&self, database: &Database) -> Answer<Answers> {
        let server = Server::bind(database.clone(), ServerOptions::loopback(0)).await?.start();
        let place = format!("postgresql://me@{}/db", server.local_addr());
        let answers = tokio::task::block_in_place(|| self.ask("wire", Some(&place)));
        server.stop().await?;
        Ok(answers?.1)
    }

    fn ask(&self, name: &str, place: Option<&str>) -> Answer<(String, Answers)> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers.py");
        let mut command = Command::new(&self.python);
        command.arg(script).arg(name).args([&self.rows, &self.queries]).arg(self.repeat.to_string()).args(place);
        let output = command.output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().into());
        }
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let version = answer["version"].as_str().unwrap_or(name).to_owned();
        println!("{version}: loaded in {:.1} s", answer["load_s"].as_f64().unwrap_or_default());
        let queries = answer["queries"].as_object().ok_or("no answers")?;
        let number = |value: &serde_json::Value, name: &str| value[name].as_f64().unwrap_or(f64::NAN);
        let measured = |value| Measured {
            ms: number(value, "ms"),
            rows: number(value, "rows") as usize,
            sum: number(value, "sum"),
        };
        Ok((version, queries.iter().map(|(name, value)| (name.clone(), measured(value))).collect()))
    }
}
