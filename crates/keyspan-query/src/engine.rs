//! What all sessions of a database share: the functions, the planner's rules, the memory pool and its spill directory.
//!
//! Queries run on the caller's tokio runtime (it must be a multi-threaded one): plans of one partition run wholly in the
//! task that polls their stream, wider ones spawn a task per partition. Nothing here holds a table or a snapshot.

use std::path::PathBuf;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast;
use keyspan_model::Result;

use crate::session::QuerySession;

/// Parses the stored text of a view. Given from above, so that the language has one parser.
pub type QueryParser = fn(&str) -> Result<Box<ast::Query>>;

/// Limits and places for queries.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// Bytes that sorts, joins and aggregates of all queries may hold together before they spill.
    pub memory_limit: usize,
    /// Partitions of a large scan, and with it the tasks of a query; 0: as many as there are cores.
    pub threads: usize,
    /// Where spilled data goes; `None`: the system's temporary directory.
    pub spill_directory: Option<PathBuf>,
    /// The parser of view texts; `None`: views cannot be read (0A000).
    pub parser: Option<QueryParser>,
}

impl Default for QueryOptions {
    fn default() -> Self {
        QueryOptions { memory_limit: 512 << 20, threads: 0, spill_directory: None, parser: None }
    }
}

/// The shared part of query processing. One per database.
#[derive(Debug)]
pub struct QueryEngine {
    pub(crate) options: QueryOptions,
}

impl QueryEngine {
    /// An engine with these limits.
    pub fn new(options: QueryOptions) -> Arc<QueryEngine> {
        Arc::new(QueryEngine { options })
    }

    /// A session on this engine. Cheap.
    pub fn session(self: &Arc<Self>) -> QuerySession {
        QuerySession::new(self.clone())
    }
}
