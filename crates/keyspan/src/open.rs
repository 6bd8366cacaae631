//! Opening a database, and beginning what it does in the background.

use std::path::Path;
use std::sync::Arc;

use keyspan_model::Result;
use keyspan_query::{QueryEngine, QueryOptions};
use keyspan_seam::Store;
use keyspan_store::{EmbeddedStore, StoreOptions};

use crate::database::Database;
use crate::settings::DATA_DIRECTORY;
use crate::{names, rollup, temporary};

/// How a database is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Memory, cache, log and clock of the store.
    pub store: StoreOptions,
    /// Memory, threads and spill directory of queries.
    pub query: QueryOptions,
}

impl Database {
    /// Opens the database in a directory, which is made if it does not exist. Blocks while the commit log is replayed.
    ///
    /// # Errors
    /// 55006 if another process has it open, XX002 for a newer format, XX001 naming a damaged file.
    pub fn open(path: impl AsRef<Path>) -> Result<Database> {
        Database::open_with(path, Options::default())
    }

    /// As [`Database::open`], with options.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let store = EmbeddedStore::open(&path, options.store.clone())?;
        let memory = options.store.memory_budget + options.store.cache_budget + options.query.memory_limit;
        let of_statement = options.query.statement_limit;
        let database = Database::over(store.clone(), Some(store), options)?;
        let directory = std::path::absolute(&path).unwrap_or_else(|_| path.as_ref().to_path_buf());
        let mut facts =
            vec![(DATA_DIRECTORY, directory.display().to_string()), ("memory", format!("{}MB", memory >> 20))];
        facts.extend(of_statement.map(|bytes| ("statement_memory", format!("{}kB", bytes.div_ceil(1 << 10)))));
        database.set_facts(facts);
        Ok(database)
    }

    /// A database in memory, gone when its last clone and session are.
    pub fn in_memory() -> Result<Database> {
        Database::in_memory_with(Options::default())
    }

    /// As [`Database::in_memory`], with options.
    pub fn in_memory_with(options: Options) -> Result<Database> {
        let store = EmbeddedStore::in_memory(options.store.clone())?;
        Database::over(store.clone(), Some(store), options)
    }

    /// A database over a store of any kind. Of `options.store` only the clock and whether there are threads count. What
    /// only the embedded store has (statistics, backups) is refused with 0A000, and so is a transaction that the store
    /// cannot keep ([`keyspan_seam::Caps`]).
    pub fn with_store(store: Arc<dyn Store>, options: Options) -> Result<Database> {
        Database::over(store, None, options)
    }

    fn over(store: Arc<dyn Store>, embedded: Option<Arc<EmbeddedStore>>, options: Options) -> Result<Database> {
        let Options { store: store_options, mut query } = options;
        query.parser.get_or_insert(names::parse_query);
        temporary::remove_left_over(&store)?;
        let database = Database::new(store, embedded, store_options, QueryEngine::new(query)?);
        if database.catalog().views.values().any(|view| view.rollup().is_some()) {
            rollup::begin(&database)?;
        }
        Ok(database)
    }
}
