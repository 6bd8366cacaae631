//! Savepoints: places in an open transaction to go back to.

use keyspan_model::{Error, ErrorKind, Result};

use super::{OwnCatalog, Transaction};
use crate::settings::Settings;

/// What a transaction was like when a savepoint was set.
#[derive(Debug)]
pub(super) struct Savepoint {
    name: String,
    mutations: usize,
    unchanged: usize,
    definitions: usize,
    locks: usize,
    catalog: Option<OwnCatalog>,
    session: SavedSession,
}

/// What is outside of a transaction and goes back with it to a savepoint.
#[derive(Clone, Debug)]
pub(crate) struct SavedSession {
    /// The settings.
    pub(crate) settings: Settings,
    /// How many messages to other sessions there are.
    pub(crate) deferred: usize,
    /// The mark of the advisory locks.
    pub(crate) advisory: u64,
    /// The number of the next cursor.
    pub(crate) next_cursor: u64,
}

impl Transaction {
    /// Sets a savepoint, with what going back to it puts back outside of the transaction.
    pub(crate) fn save(&mut self, name: &str, session: SavedSession) {
        self.savepoints.push(Savepoint {
            name: name.to_string(),
            mutations: self.writes.mutations.len(),
            unchanged: self.writes.unchanged.len(),
            definitions: self.writes.definitions.len(),
            locks: self.locks.count(),
            catalog: self.catalog.clone(),
            session,
        });
    }

    /// Only ROLLBACK helps from here on. Releases the row locks taken since the last savepoint, and answers the mark
    /// after which advisory locks are to be released, too.
    pub(crate) fn fail(&mut self) -> u64 {
        self.failed = true;
        let last = self.savepoints.last();
        self.locks.release_after(last.map_or(0, |savepoint| savepoint.locks));
        last.map_or(0, |savepoint| savepoint.session.advisory)
    }

    /// Forgets a savepoint and those set after it. What was written stays.
    ///
    /// # Errors
    /// 3B001 for an unknown name.
    pub(crate) fn release(&mut self, name: &str) -> Result<()> {
        let index = self.place_of(name)?;
        self.savepoints.truncate(index);
        Ok(())
    }

    /// Forgets what was written after a savepoint, which stays, releases the rows locked since, and answers what was
    /// outside of the transaction then. What SERIALIZABLE has read stays remembered, since the client may have been told
    /// of it.
    ///
    /// # Errors
    /// 3B001 for an unknown name.
    pub(crate) fn roll_back_to(&mut self, name: &str) -> Result<SavedSession> {
        let index = self.place_of(name)?;
        self.savepoints.truncate(index + 1);
        let savepoint = &self.savepoints[index];
        self.writes.mutations.truncate(savepoint.mutations);
        self.writes.unchanged.truncate(savepoint.unchanged);
        self.writes.definitions.truncate(savepoint.definitions);
        self.locks.release_after(savepoint.locks);
        self.catalog = savepoint.catalog.clone();
        self.failed = false;
        Ok(savepoint.session.clone())
    }

    fn place_of(&self, name: &str) -> Result<usize> {
        let place = self.savepoints.iter().rposition(|savepoint| savepoint.name == name);
        place.ok_or_else(|| Error::new(ErrorKind::UndefinedSavepoint, format!("savepoint \"{name}\" does not exist")))
    }
}
