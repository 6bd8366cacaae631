//! Opening what a subcommand works on: a data directory or a server.

use std::path::{Path, PathBuf};

use clap::Args;
use keyspan::{Database, Options, parse_bytes};
use tokio::runtime::Runtime;

use crate::client::{Client, Embedded, Remote};
use crate::config::{self, Config};
use crate::failure::{Failure, Result};

/// Which database a subcommand works on.
#[derive(Args, Clone, Debug)]
#[group(multiple = false)]
pub struct Place {
    /// The data directory; made if it does not exist. [env: KEYSPAN_DATA]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// A running server instead: postgres://127.0.0.1:5433. [env: KEYSPAN_URL]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
}

/// The place that was said.
#[derive(Debug)]
pub enum Found {
    /// A directory.
    Data(PathBuf),
    /// A server.
    Url(String),
}

/// Bytes of a thread's stack: statements that nest deeply are parsed and prepared on these threads.
const STACK: usize = 32 << 20;

/// A runtime with a thread for each core.
pub fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK).build()?)
}

impl Place {
    /// The place that was said: by flags, the environment, or the file of settings. Ends the program where nobody has.
    pub fn found(&self) -> Result<Found> {
        if let Some(data) = &self.data {
            return Ok(Found::Data(data.clone()));
        }
        let variable = || std::env::var("KEYSPAN_URL").ok().filter(|url| !url.is_empty());
        if let Some(url) = self.url.clone().or_else(variable) {
            return Ok(Found::Url(url));
        }
        match Config::without_flags()?.path("data") {
            Some(data) => Ok(Found::Data(data)),
            None => {
                let kind = clap::error::ErrorKind::MissingRequiredArgument;
                let told =
                    "one of --data DIR and --url URL is needed, or KEYSPAN_DATA or KEYSPAN_URL in the environment\n";
                clap::Error::raw(kind, told).exit()
            }
        }
    }

    /// Opens the directory or connects to the server.
    pub fn open(&self, runtime: &Runtime) -> Result<Client> {
        match self.found()? {
            Found::Data(data) => {
                let embedded = Embedded::new(database(&data, options(&Config::without_flags()?)?)?);
                Ok(Client::Embedded(Box::new(embedded.at(&data))))
            }
            Found::Url(url) => Ok(Client::Remote(Box::new(runtime.block_on(Remote::connect(&url))?))),
        }
    }
}

/// Opens the database in a directory.
pub fn database(data: &Path, options: Options) -> Result<Database> {
    Database::open_with(data, options).map_err(Failure::from)
}

/// Bytes beyond which memtables gain nothing: what they hold is in the log, which has a limit of its own.
const MOST_IN_MEMTABLES: usize = 256 << 20;

/// Divides the memory that a database may use: half for queries, up to a quarter for memtables, the rest for decoded
/// blocks.
pub fn options(config: &Config) -> Result<Options> {
    let mut options = Options::default();
    if let Some(memory) = config.parsed("memory", config::memory)? {
        options.query.memory_limit = memory / 2;
        options.store.memory_budget = (memory / 4).min(MOST_IN_MEMTABLES);
        options.store.cache_budget = memory - options.query.memory_limit - options.store.memory_budget;
    }
    options.query.statement_limit = config.parsed("statement_memory", parse_bytes)?.filter(|bytes| *bytes > 0);
    Ok(options)
}
