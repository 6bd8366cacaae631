//! The stores of a database, as one: its own, and those of attached keyspaces, which are only read.
//!
//! A relation's id tells its store ([`keyspan_model::schema::attached`]), so that everything above asks one store and one
//! snapshot. The catalog is that of the own store with the tables of attached keyspaces. Its version counts the changes of
//! all, and each ATTACH and DETACH more than all of these, so that no two catalogs have one version.

mod snapshot;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use keyspan_model::schema::attached::ATTACHED_MAX;
use keyspan_model::{
    Applied, Catalog, Error, ErrorKind, RelationDef, RelationId, Result, Stamp, TableDef, Unchanged, WriteBatch,
};
use keyspan_seam::{Caps, Load, ReadAt, Snapshot, Store};
use parking_lot::{Mutex, RwLock};

use snapshot::Snapshots;

/// How much the version of the catalog grows with each ATTACH and DETACH.
const STEP: u64 = 1 << 40;

/// A keyspace of another store.
#[derive(Clone, Debug)]
struct Attached {
    /// Its name here.
    name: String,
    /// Its name there.
    keyspace: String,
    /// From 1: part of the ids of what is in it. Never given twice while one is attached.
    number: u32,
    store: Arc<dyn Store>,
    /// Where it is, if in a directory that was opened for it.
    directory: Option<PathBuf>,
}

/// What is attached, and how often that has changed.
#[derive(Clone, Debug, Default)]
struct Attachments {
    changes: u64,
    list: Vec<Attached>,
}

impl Attachments {
    /// A number that no attached store has, and that was not given for long.
    fn free_number(&self) -> Result<u32> {
        let from = u32::try_from(self.changes % u64::from(ATTACHED_MAX)).unwrap_or(0);
        let numbers = (0..ATTACHED_MAX).map(|step| (from + step) % ATTACHED_MAX + 1);
        let free = |number: &u32| self.list.iter().all(|attached| attached.number != *number);
        let full = || {
            let message = format!("at most {ATTACHED_MAX} keyspaces can be attached");
            Error::new(ErrorKind::LimitExceeded, message)
        };
        numbers.clone().find(free).ok_or_else(full)
    }
}

/// A catalog of all, and the catalogs that it was made of.
#[derive(Debug)]
struct Merged {
    changes: u64,
    parts: Vec<Arc<Catalog>>,
    catalog: Arc<Catalog>,
}

/// The database's own store and those that are attached.
#[derive(Debug)]
pub(crate) struct Stores {
    own: Arc<dyn Store>,
    attachments: RwLock<Arc<Attachments>>,
    merged: Mutex<Option<Merged>>,
}

impl Stores {
    pub(crate) fn new(own: Arc<dyn Store>) -> Stores {
        Stores { own, attachments: RwLock::default(), merged: Mutex::default() }
    }

    /// The store that was opened in a directory for a keyspace that is attached.
    pub(crate) fn opened(&self, directory: &Path) -> Option<Arc<dyn Store>> {
        let attachments = self.attachments.read();
        let found = attachments.list.iter().find(|attached| attached.directory.as_deref() == Some(directory));
        found.map(|attached| attached.store.clone())
    }

    /// Attaches a keyspace of a store, perhaps one that was opened in a directory for it, under a name.
    ///
    /// # Errors
    /// 3F000 if the store has no such keyspace, 42P06 if the name is taken, 54000 for too many.
    pub(crate) fn attach(
        &self,
        name: &str,
        keyspace: &str,
        store: Arc<dyn Store>,
        directory: Option<PathBuf>,
    ) -> Result<()> {
        if !store.catalog().keyspaces.contains_key(keyspace) {
            let message = format!("schema \"{keyspace}\" of the other database does not exist");
            return Err(Error::new(ErrorKind::UndefinedSchema, message));
        }
        let mut attachments = self.attachments.write();
        let mut next = Attachments::clone(&attachments);
        next.changes += 1;
        let number = next.free_number()?;
        next.list.push(Attached { name: name.to_owned(), keyspace: keyspace.to_owned(), number, store, directory });
        self.catalog_of(&next)?;
        *attachments = Arc::new(next);
        Ok(())
    }

    /// Takes an attached keyspace away. Its store is closed when the last reader ends. False if there is none.
    pub(crate) fn detach(&self, name: &str) -> bool {
        let gone = {
            let mut attachments = self.attachments.write();
            let mut next = Attachments::clone(&attachments);
            let gone: Vec<Attached> = next.list.extract_if(.., |attached| attached.name == name).collect();
            if !gone.is_empty() {
                next.changes += 1;
                *attachments = Arc::new(next);
                *self.merged.lock() = None;
            }
            gone
        };
        // Closing it takes time, in which others go on.
        !gone.is_empty()
    }

    /// What is attached; none if nothing ever was.
    fn attachments(&self) -> Option<Arc<Attachments>> {
        let attachments = self.attachments.read();
        (attachments.changes > 0).then(|| attachments.clone())
    }

    fn catalog_of(&self, attachments: &Attachments) -> Result<Arc<Catalog>> {
        let own = self.own.catalog();
        let others = attachments.list.iter().map(|attached| attached.store.catalog());
        self.merged(attachments, [own].into_iter().chain(others).collect())
    }

    /// The catalog made of the own one and those of what is attached, in order.
    fn merged(&self, attachments: &Attachments, parts: Vec<Arc<Catalog>>) -> Result<Arc<Catalog>> {
        let mut merged = self.merged.lock();
        let same = |known: &&Merged| {
            known.changes == attachments.changes
                && known.parts.len() == parts.len()
                && known.parts.iter().zip(&parts).all(|(known, part)| Arc::ptr_eq(known, part))
        };
        if let Some(known) = merged.as_ref().filter(same) {
            return Ok(known.catalog.clone());
        }
        let mut catalog = Catalog::clone(&parts[0]);
        for (attached, part) in attachments.list.iter().zip(&parts[1..]) {
            catalog.attach(&attached.name, attached.number, part, &attached.keyspace)?;
        }
        catalog.version = parts.iter().map(|part| part.version).sum::<u64>() + attachments.changes * STEP;
        let catalog = Arc::new(catalog);
        *merged = Some(Merged { changes: attachments.changes, parts, catalog: catalog.clone() });
        Ok(catalog)
    }
}

/// Refuses what would change an attached relation.
fn check_own(relation: RelationId) -> Result<()> {
    if relation.store() == 0 { Ok(()) } else { Err(read_only("write to")) }
}

/// Fails with 25006 for a table that can only be read.
pub(crate) fn check_writable(table: &TableDef) -> Result<()> {
    if table.id.is_attached() { Err(read_only("write to")) } else { Ok(()) }
}

/// 25006.
pub(crate) fn read_only(what: &str) -> Error {
    Error::new(ErrorKind::ReadOnly, format!("cannot {what} an attached keyspace"))
        .with_hint("An attached keyspace can only be read: open its database to change it.")
}

/// What a batch expects of the own store. Attached keyspaces are not watched: no writer of this database changes them.
fn own_conditions(unchanged: &mut Vec<Unchanged>) {
    unchanged.retain(|condition| condition.relation.store() == 0);
}

#[async_trait]
impl Store for Stores {
    fn caps(&self) -> &Caps {
        self.own.caps()
    }

    fn catalog(&self) -> Arc<Catalog> {
        match self.attachments() {
            None => self.own.catalog(),
            // They have been merged once, and no name is given twice.
            Some(attachments) => self.catalog_of(&attachments).unwrap_or_else(|_| self.own.catalog()),
        }
    }

    async fn change(&self, base: u64, next: Catalog, batch: Option<WriteBatch>) -> Result<Arc<Catalog>> {
        let Some(attachments) = self.attachments() else { return self.own.change(base, next, batch).await };
        let (own, known) = (self.own.catalog(), self.catalog_of(&attachments)?);
        if known.version != base {
            let message = "could not serialize access: the catalog was changed by another session";
            return Err(Error::new(ErrorKind::Serialization, message));
        }
        let attached = |catalog: &Catalog| {
            let mut attached = catalog.clone();
            attached.keyspaces.retain(|_, keyspace| keyspace.attached);
            attached.tables.retain(|id, _| id.is_attached());
            attached.types.retain(|id, _| id.is_attached());
            (attached.keyspaces, attached.tables, attached.types)
        };
        let mut own_tables = next.tables.values().filter(|table| !table.id.is_attached());
        if attached(&known) != attached(&next) || own_tables.any(|table| next.is_attached(&table.keyspace)) {
            return Err(read_only("change"));
        }
        let next = Catalog { version: own.version + 1, ..next.without_attached() };
        let batch = match batch {
            None => None,
            Some(mut batch) => {
                batch.mutations.iter().try_for_each(|mutation| check_own(mutation.relation()))?;
                own_conditions(&mut batch.unchanged);
                Some(batch)
            }
        };
        self.own.change(own.version, next, batch).await?;
        Ok(self.catalog())
    }

    async fn apply(&self, mut batch: WriteBatch) -> Result<Applied> {
        if self.attachments().is_some() {
            batch.mutations.iter().try_for_each(|mutation| check_own(mutation.relation()))?;
            own_conditions(&mut batch.unchanged);
        }
        self.own.apply(batch).await
    }

    fn check(&self, unchanged: &[Unchanged]) -> Result<()> {
        if self.attachments().is_none() {
            return self.own.check(unchanged);
        }
        let mut unchanged = unchanged.to_vec();
        own_conditions(&mut unchanged);
        self.own.check(&unchanged)
    }

    fn load(&self, relation: RelationDef, stamp: Stamp) -> Result<Box<dyn Load>> {
        check_own(relation.id)?;
        self.own.load(relation, stamp)
    }

    fn snapshot(&self, at: ReadAt) -> Result<Arc<dyn Snapshot>> {
        let Some(attachments) = self.attachments() else { return self.own.snapshot(at) };
        let own = self.own.snapshot(at)?;
        let others = attachments.list.iter().map(|attached| Ok((attached.number, attached.store.snapshot(at)?)));
        let others: Vec<(u32, Arc<dyn Snapshot>)> = others.collect::<Result<_>>()?;
        let catalogs = [&own].into_iter().chain(others.iter().map(|(_, other)| other));
        let catalogs = catalogs.map(|snapshot| snapshot.catalog().clone()).collect();
        let catalog = self.merged(&attachments, catalogs)?;
        Ok(Arc::new(Snapshots { own, others: others.into(), catalog }))
    }

    async fn flush(&self) -> Result<()> {
        self.own.flush().await
    }

    async fn compact(&self) -> Result<()> {
        self.own.compact().await
    }

    fn followed(&self, relation: RelationId, seq: u64) {
        self.own.followed(relation, seq);
    }

    fn close(&self) -> Result<()> {
        let attached = std::mem::take(&mut Arc::make_mut(&mut self.attachments.write()).list);
        attached.iter().try_for_each(|attached| attached.store.close())?;
        self.own.close()
    }
}
