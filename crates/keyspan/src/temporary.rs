//! Temporary tables go with their session; what one has left behind that could not, goes when the database is opened.

use std::sync::Arc;

use futures::executor::block_on;
use keyspan_model::schema::temporary::is_temporary;
use keyspan_model::{ErrorKind, Result};
use keyspan_seam::Store;

use crate::database::Database;

/// How often a session's tables are removed while others keep changing the catalog.
const TRIES_MAX: usize = 100;

/// The temporary tables of a session, dropped with it.
#[derive(Debug)]
pub(crate) struct TemporaryTables {
    database: Database,
    keyspace: Option<String>,
}

impl TemporaryTables {
    /// None yet.
    pub(crate) fn none(database: &Database) -> TemporaryTables {
        TemporaryTables { database: database.clone(), keyspace: None }
    }

    /// There are some in this keyspace.
    pub(crate) fn begin(&mut self, keyspace: String) {
        self.keyspace = Some(keyspace);
    }
}

impl Drop for TemporaryTables {
    fn drop(&mut self) {
        let Some(keyspace) = self.keyspace.take() else { return };
        let store = self.database.store().clone();
        let removed = self.database.threads().spawn(async move {
            if let Err(error) = remove(&store, |own| own == keyspace).await {
                tracing::debug!(%error, keyspace, "temporary tables stay until the database is opened again");
            }
        });
        if let Err(error) = removed {
            tracing::debug!(%error, "temporary tables stay until the database is opened again");
        }
    }
}

/// Removes those of sessions that ended without doing so. Blocks.
pub(crate) fn remove_left_over(store: &Arc<dyn Store>) -> Result<()> {
    block_on(remove(store, |_| true))
}

async fn remove(store: &Arc<dyn Store>, gone: impl Fn(&str) -> bool) -> Result<()> {
    let mut tried = 0;
    loop {
        let before = store.catalog();
        if !before.keyspaces.keys().any(|keyspace| is_temporary(keyspace) && gone(keyspace)) {
            return Ok(());
        }
        let mut next = (*before).clone();
        next.drop_temporary(&gone);
        next.version = before.version + 1;
        tried += 1;
        match store.change(before.version, next, None).await {
            Err(error) if error.kind == ErrorKind::Serialization && tried < TRIES_MAX => {}
            other => return other.map(drop),
        }
    }
}
