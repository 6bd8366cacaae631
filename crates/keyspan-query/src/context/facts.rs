//! What functions may know of the statement and its session.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::error::Result;
use keyspan_model::{Catalog, Error};
use keyspan_seam::Snapshot;

use super::SessionInfo;
use crate::error::external;

/// What functions may know of the statement; travels in the configuration.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The session.
    pub info: Arc<SessionInfo>,
    /// Keyspaces searched.
    pub search_path: Arc<Vec<String>>,
    /// The transaction's time, in microseconds since 1970.
    pub now: i64,
    /// When the statement began, in microseconds since 1970.
    pub statement_time: i64,
    /// The tables as of the statement.
    pub catalog: Arc<Catalog>,
    /// What the statement sees; none where nothing is read.
    pub snapshot: Option<Arc<dyn Snapshot>>,
}

impl Facts {
    /// The facts of a statement's configuration.
    pub fn of(options: &ConfigOptions) -> Facts {
        options.extensions.get::<Facts>().cloned().unwrap_or_default()
    }
}

impl ConfigExtension for Facts {
    const PREFIX: &'static str = "keyspan";
}

impl ExtensionOptions for Facts {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _: &str) -> Result<()> {
        Err(external(Error::internal(format!("{key} cannot be set"))))
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}
