//! ATTACH and DETACH: keyspaces of other databases, read beside the database's own.

use std::path::Path;
use std::sync::Arc;

use keyspan_cql::{Attach, Detach};
use keyspan_model::{Error, ErrorKind, Result};
use keyspan_seam::Store;
use keyspan_store::EmbeddedStore;

use crate::context::ClientContext;
use crate::database::Database;
use crate::names;
use crate::outcome::{Notice, Outcome, Tag};

/// Bytes in memory of what a store that is only read has in its commit log.
const MEMORY: usize = 16 << 20;

/// The file that says that a directory is a database's.
const FORMAT_FILE: &str = "KEYSPAN";

impl Database {
    /// Attaches a keyspace of the database in another directory: until [`Database::detach`], or until this database is
    /// closed, its tables can be read as those of a keyspace `name`. The directory is held open. Blocks while its commit log
    /// is replayed.
    ///
    /// # Errors
    /// 58030 if there is no database, 55006 if another process has it open, 3F000 if it has no such keyspace, 42P06 if
    /// the name is taken, 42939 for a reserved one, 54000 for more than 255.
    pub fn attach(&self, name: &str, directory: impl AsRef<Path>, keyspace: &str) -> Result<()> {
        let directory = directory.as_ref();
        let unopened = |why: String| Error::new(ErrorKind::Io, format!("cannot attach {}: {why}", directory.display()));
        if !directory.join(FORMAT_FILE).exists() {
            let error = unopened("it is not the data directory of a database".into());
            return Err(error.with_hint("A backup can be attached after keyspan restore."));
        }
        let path = directory.canonicalize().map_err(|error| unopened(error.to_string()))?;
        let store = match self.stores().opened(&path) {
            Some(store) => store,
            None => {
                let mut options = self.store_options().clone();
                options.memory_budget = options.memory_budget.min(MEMORY);
                options.cache_budget /= 4;
                options.background = false;
                EmbeddedStore::open(&path, options)?
            }
        };
        names::check_keyspace_name(name)?;
        self.stores().attach(name, keyspace, store, Some(path))
    }

    /// As [`Database::attach`], a keyspace of a store of any kind.
    ///
    /// # Errors
    /// 3F000, 42P06, 42939 and 54000 as there.
    pub fn attach_store(&self, name: &str, store: Arc<dyn Store>, keyspace: &str) -> Result<()> {
        names::check_keyspace_name(name)?;
        self.stores().attach(name, keyspace, store, None)
    }

    /// Takes an attached keyspace away. What reads it goes on to its end; then its directory is free. Blocks while it is
    /// closed.
    ///
    /// # Errors
    /// 3F000 if no keyspace of this name is attached.
    pub fn detach(&self, name: &str) -> Result<()> {
        if self.stores().detach(name) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::UndefinedSchema, format!("no keyspace \"{name}\" is attached")))
    }
}

/// ATTACH: the path is the server's.
pub(crate) async fn attach(context: &mut ClientContext, statement: &Attach) -> Result<Outcome> {
    check_allowed(context, "ATTACH")?;
    let name = &statement.name;
    if statement.if_not_exists && context.database.catalog().is_attached(name) {
        context.notice(Notice::plain(format!("keyspace \"{name}\" is attached already, skipping")));
        return Ok(Outcome::done(Tag::plain("ATTACH")));
    }
    let database = context.database.clone();
    let Attach { directory, name, keyspace, .. } = statement.clone();
    names::check_absolute(Path::new(&directory))?;
    let done = tokio::task::spawn_blocking(move || database.attach(&name, directory, &keyspace)).await;
    done.unwrap_or_else(|error| Err(Error::internal(format!("ATTACH ended early: {error}"))))?;
    Ok(Outcome::done(Tag::plain("ATTACH")))
}

/// DETACH.
pub(crate) async fn detach(context: &mut ClientContext, statement: &Detach) -> Result<Outcome> {
    check_allowed(context, "DETACH")?;
    let name = &statement.name;
    if statement.if_exists && !context.database.catalog().is_attached(name) {
        context.notice(Notice::plain(format!("no keyspace \"{name}\" is attached, skipping")));
        return Ok(Outcome::done(Tag::plain("DETACH")));
    }
    let (database, name) = (context.database.clone(), name.clone());
    let done = tokio::task::spawn_blocking(move || database.detach(&name)).await;
    done.unwrap_or_else(|error| Err(Error::internal(format!("DETACH ended early: {error}"))))?;
    Ok(Outcome::done(Tag::plain("DETACH")))
}

fn check_allowed(context: &ClientContext, command: &str) -> Result<()> {
    context.require_superuser(&format!("execute {command}"))?;
    if context.in_transaction_block() {
        let message = format!("{command} cannot run inside a transaction block");
        return Err(Error::new(ErrorKind::ActiveTransaction, message));
    }
    Ok(())
}
