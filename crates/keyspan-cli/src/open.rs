//! Opening what a subcommand works on: a data directory or a server.

use std::path::{Path, PathBuf};

use clap::Args;
use keyspan::{Database, Options};
use tokio::runtime::Runtime;

use crate::client::{Client, Embedded, Remote};
use crate::failure::{Failure, Result};

/// Which database a subcommand works on.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub struct Place {
    /// The data directory; made if it does not exist.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// A running server instead: postgres://127.0.0.1:5433.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
}

/// A runtime with a thread for each core.
pub fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

impl Place {
    /// Opens the directory or connects to the server.
    pub fn open(&self, runtime: &Runtime) -> Result<Client> {
        match (&self.data, &self.url) {
            (Some(data), _) => {
                let embedded = Embedded::new(database(data, Options::default())?);
                Ok(Client::Embedded(Box::new(embedded.at(data))))
            }
            (_, Some(url)) => Ok(Client::Remote(Box::new(runtime.block_on(Remote::connect(url))?))),
            _ => Err(Failure::new("either --data or --url is needed")),
        }
    }
}

/// Opens the database in a directory.
pub fn database(data: &Path, options: Options) -> Result<Database> {
    Database::open_with(data, options).map_err(Failure::from)
}

/// Bytes of a text such as `512MB`, `2GiB`, `65536`.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor: usize = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        other => return Err(format!("unknown unit \"{other}\": write 512MB or 2GB")),
    };
    let number: usize = number.parse().map_err(|_| format!("\"{text}\" is not a number of bytes"))?;
    number.checked_mul(factor).ok_or_else(|| "too many bytes".to_string())
}

/// Divides the memory a database may use among memtables, decoded blocks and queries.
pub fn options_within(memory: Option<usize>) -> Options {
    let mut options = Options::default();
    if let Some(memory) = memory {
        options.store.memory_budget = memory / 4;
        options.store.cache_budget = memory / 4;
        options.query.memory_limit = memory / 2;
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_bytes("512MB"), Ok(512 << 20));
        assert_eq!(parse_bytes("2 GiB"), Ok(2 << 30));
        assert_eq!(parse_bytes("100"), Ok(100));
        assert!(parse_bytes("MB").is_err() && parse_bytes("1 parsec").is_err());
    }
}
