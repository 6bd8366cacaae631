//! COMMIT of definitions where another session has changed the catalog meanwhile: both changes in one catalog.
//!
//! ```text
//!            ┌─ own changes ────▶ own ─────┐
//! base ──────┤                             ├─▶ merged, unless they touch the same
//!            └─ others' changes ▶ newest ──┘
//! ```
//!
//! The rule: what one side has changed, the other has neither changed otherwise nor referred to in what it has changed.
//! Then the result is the same whichever came first, and so it is that of one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use keyspan_model::{Catalog, Error, ErrorKind, Result, Rights, TableDef, TableId, TypeId};

use crate::depend;
use crate::names::sequence_default;

/// A catalog that a transaction has changed.
#[derive(Clone, Debug)]
pub(crate) struct OwnCatalog {
    /// The one that it was made from.
    pub(crate) base: Arc<Catalog>,
    /// With the transaction's changes.
    pub(crate) own: Arc<Catalog>,
}

impl OwnCatalog {
    /// The newest catalog with the own changes, as its next version.
    ///
    /// # Errors
    /// 40001 that names what both sides have changed, or one has changed and the other refers to.
    pub(crate) fn over(&self, newest: &Catalog) -> Result<Catalog> {
        let version = newest.version + 1;
        if newest.version == self.base.version {
            return Ok(Catalog { version, ..(*self.own).clone() });
        }
        Ok(Catalog { version, ..merge(&self.base, &self.own, newest)? })
    }
}

fn merge(base: &Catalog, own: &Catalog, newest: &Catalog) -> Result<Catalog> {
    let (ours, theirs) = (changed(base, own), changed(base, newest));
    let named = |id| [own, newest, base].into_iter().find_map(|catalog| shown(catalog, id));
    let conflict = |id| changed_by_others(&named(id).unwrap_or_else(|| "an index".into()));
    let referred_by_own = referred(own, &ours).into_iter().find(|id| theirs.contains(id));
    let referred_by_others = || referred(newest, &theirs).into_iter().find(|id| ours.contains(id));
    if let Some(id) = referred_by_own.or_else(referred_by_others) {
        return Err(conflict(id));
    }
    let mut merged = Catalog {
        keyspaces: entries(&base.keyspaces, &own.keyspaces, &newest.keyspaces)
            .map_err(|name| changed_by_others(&format!("schema \"{name}\"")))?,
        tables: entries(&base.tables, &own.tables, &newest.tables).map_err(conflict)?,
        views: entries(&base.views, &own.views, &newest.views).map_err(conflict)?,
        sequences: entries(&base.sequences, &own.sequences, &newest.sequences).map_err(conflict)?,
        types: entries(&base.types, &own.types, &newest.types).map_err(|id| conflict(TableId(id.0)))?,
        comments: entries(&base.comments, &own.comments, &newest.comments).map_err(conflict)?,
        rights: rights(&base.rights, &own.rights, &newest.rights)?,
        version: newest.version,
        next_table: own.next_table.max(newest.next_table),
        next_relation: own.next_relation.max(newest.next_relation),
        next_column: own.next_column.max(newest.next_column),
    };
    check_names(&merged)?;
    merged.forget_dropped();
    Ok(merged)
}

/// The tables, views, sequences and types that are not in one catalog as they are in another. All have numbers of one
/// kind.
fn changed(base: &Catalog, other: &Catalog) -> Vec<TableId> {
    let mut ids = differing(&base.tables, &other.tables);
    ids.extend(differing(&base.views, &other.views));
    ids.extend(differing(&base.sequences, &other.sequences));
    ids.extend(differing(&base.types, &other.types).into_iter().map(|id| TableId(id.0)));
    ids
}

fn differing<K: Ord + Copy, V: PartialEq>(base: &BTreeMap<K, Arc<V>>, other: &BTreeMap<K, Arc<V>>) -> Vec<K> {
    let same = |id: &K| match (base.get(id), other.get(id)) {
        (Some(before), Some(now)) => Arc::ptr_eq(before, now) || before == now,
        (before, now) => before.is_none() && now.is_none(),
    };
    let keys: BTreeSet<&K> = base.keys().chain(other.keys()).collect();
    keys.into_iter().filter(|id| !same(id)).copied().collect()
}

/// What these tables, views, sequences and types refer to.
fn referred(catalog: &Catalog, ids: &[TableId]) -> Vec<TableId> {
    let mut found = Vec::new();
    for id in ids {
        if let Some(table) = catalog.tables.get(id) {
            found.extend(referred_by_table(catalog, table));
        }
        if let Some(view) = catalog.views.get(id) {
            found.extend(depend::reads(catalog, view));
            found.extend(view.rows().into_iter().flat_map(|rows| referred_by_table(catalog, rows)));
        }
        found.extend(catalog.sequences.get(id).and_then(|sequence| sequence.owned_by).map(|(table, _)| table));
        if let Some(ty) = catalog.types.get(&TypeId(id.0)) {
            found.extend(catalog.types.keys().filter(|other| ty.holds(**other)).map(|other| TableId(other.0)));
        }
    }
    found
}

fn referred_by_table<'a>(catalog: &'a Catalog, table: &'a TableDef) -> impl Iterator<Item = TableId> + 'a {
    let keys = table.foreign_keys.iter().map(|key| key.table);
    let types = catalog.types.keys().filter(|id| table.types().any(|ty| ty.holds_user_type(**id)));
    let is_default = |text: &str| table.columns.iter().any(|column| column.default.as_deref() == Some(text));
    let sequences = catalog
        .sequences
        .values()
        .filter(move |sequence| is_default(&sequence_default(&sequence.keyspace, &sequence.name)));
    keys.chain(types.map(|id| TableId(id.0))).chain(sequences.map(|sequence| sequence.id))
}

/// The entries of the newest map, with those that differ between the base and the own one as the own one has them. The
/// key of one that all three have differently is the error.
fn entries<K: Ord + Clone, V: PartialEq + Clone>(
    base: &BTreeMap<K, V>,
    own: &BTreeMap<K, V>,
    newest: &BTreeMap<K, V>,
) -> std::result::Result<BTreeMap<K, V>, K> {
    let mut merged = newest.clone();
    for key in base.keys().chain(own.keys()) {
        let (before, ours, theirs) = (base.get(key), own.get(key), newest.get(key));
        if ours == before {
            continue;
        }
        if theirs != before && theirs != ours {
            return Err(key.clone());
        }
        match ours {
            Some(value) => drop(merged.insert(key.clone(), value.clone())),
            None => drop(merged.remove(key)),
        }
    }
    Ok(merged)
}

/// Both sides' owners. What roles may do depends on other roles and on grants, so of these only one side may have changed
/// any.
fn rights(base: &Rights, own: &Rights, newest: &Rights) -> Result<Rights> {
    let of_roles = |rights: &Rights| rights.roles != base.roles;
    let of_grants = |rights: &Rights| rights.grants != base.grants;
    let roles = (of_roles(own) && newest != base) || (of_roles(newest) && own != base);
    if roles || (of_grants(own) && of_grants(newest)) {
        return Err(changed_by_others("the rights of roles"));
    }
    let conflict = || changed_by_others("an owner");
    Ok(Rights {
        roles: if of_roles(own) { own } else { newest }.roles.clone(),
        next_role: own.next_role.max(newest.next_role),
        keyspaces: entries(&base.keyspaces, &own.keyspaces, &newest.keyspaces).map_err(|_| conflict())?,
        relations: entries(&base.relations, &own.relations, &newest.relations).map_err(|_| conflict())?,
        grants: if of_grants(own) { own } else { newest }.grants.clone(),
    })
}

/// 40001 for a name that two things have, and for a thing in a keyspace that is gone.
fn check_names(catalog: &Catalog) -> Result<()> {
    let tables = || catalog.tables.values();
    let keys = tables().filter(|table| table.has_key()).map(|table| (&*table.keyspace, table.key_name()));
    let keys: Vec<(&str, String)> = keys.collect();
    let relations = tables().map(|table| (&*table.keyspace, &*table.name));
    let relations = relations.chain(catalog.views.values().map(|view| (&*view.keyspace, &*view.name)));
    let relations = relations.chain(catalog.sequences.values().map(|each| (&*each.keyspace, &*each.name)));
    let relations = relations.chain(catalog.indexes().map(|(table, index)| (&*table.keyspace, &*index.name)));
    let relations = relations.chain(keys.iter().map(|(keyspace, name)| (*keyspace, &**name)));
    let types = catalog.types.values().map(|ty| (&*ty.keyspace, &*ty.name));
    check_each_once(catalog, relations.collect())?;
    check_each_once(catalog, types.collect())
}

fn check_each_once(catalog: &Catalog, mut names: Vec<(&str, &str)>) -> Result<()> {
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(changed_by_others(&format!("\"{}\"", twice[0].1)));
    }
    match names.iter().find(|(keyspace, _)| !catalog.keyspaces.contains_key(*keyspace)) {
        Some((keyspace, _)) => Err(changed_by_others(&format!("schema \"{keyspace}\""))),
        None => Ok(()),
    }
}

/// What messages call it: its kind and its name.
fn shown(catalog: &Catalog, id: TableId) -> Option<String> {
    let relation = catalog.kind_and_name(id).map(|(kind, name)| format!("{kind} \"{name}\""));
    relation.or_else(|| catalog.types.get(&TypeId(id.0)).map(|ty| format!("type \"{}\"", ty.name)))
}

fn changed_by_others(what: &str) -> Error {
    let message = format!("could not serialize access: {what} was changed by another session");
    Error::new(ErrorKind::Serialization, message)
        .with_hint("This transaction has changed it or refers to it, too: run the transaction again.")
}
