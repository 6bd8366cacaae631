//! Savepoints: places in an open transaction to go back to.

use std::sync::Arc;

use keyspan_model::{Catalog, Error, ErrorKind, Result};

use super::Transaction;
use crate::settings::Settings;

/// How much a transaction had written, and what it had changed, when a savepoint was set.
#[derive(Debug)]
pub(super) struct Savepoint {
    name: String,
    mutations: usize,
    unchanged: usize,
    definitions: usize,
    catalog: Option<(u64, Arc<Catalog>)>,
    settings: Settings,
    /// How many messages to other sessions there were.
    deferred: usize,
}

impl Transaction {
    /// Sets a savepoint, with the settings and the number of messages that going back to it puts back.
    pub(crate) fn save(&mut self, name: &str, settings: Settings, deferred: usize) {
        self.savepoints.push(Savepoint {
            name: name.to_string(),
            mutations: self.writes.mutations.len(),
            unchanged: self.writes.unchanged.len(),
            definitions: self.writes.definitions.len(),
            catalog: self.catalog.clone(),
            settings,
            deferred,
        });
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

    /// Forgets what was written after a savepoint, which stays, and answers the settings of then, and how many messages
    /// there were. What SERIALIZABLE has read stays remembered, since the client may have been told of it.
    ///
    /// # Errors
    /// 3B001 for an unknown name.
    pub(crate) fn roll_back_to(&mut self, name: &str) -> Result<(Settings, usize)> {
        let index = self.place_of(name)?;
        self.savepoints.truncate(index + 1);
        let savepoint = &self.savepoints[index];
        self.writes.mutations.truncate(savepoint.mutations);
        self.writes.unchanged.truncate(savepoint.unchanged);
        self.writes.definitions.truncate(savepoint.definitions);
        self.catalog = savepoint.catalog.clone();
        self.failed = false;
        Ok((savepoint.settings.clone(), savepoint.deferred))
    }

    fn place_of(&self, name: &str) -> Result<usize> {
        let place = self.savepoints.iter().rposition(|savepoint| savepoint.name == name);
        place.ok_or_else(|| Error::new(ErrorKind::UndefinedSavepoint, format!("savepoint \"{name}\" does not exist")))
    }
}
