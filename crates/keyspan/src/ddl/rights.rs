//! What changes of the catalog a role may make.
//!
//! The rule: whatever statement makes a change, it is judged by the difference of the two catalogs, so that none can
//! forget to ask. What changes must be the principal's own; what is new needs CREATE on its keyspace, and is then the
//! principal's. Roles, grants and owners themselves are judged by their own statements.

use std::collections::BTreeMap;
use std::sync::Arc;

use keyspan_model::{Catalog, Object, Principal, Result, Right, TableId, TypeId};

use crate::context::denied;

/// Fails with 42501 where the principal may not make this change.
pub(super) fn check(principal: Principal, before: &Catalog, next: &Catalog) -> Result<()> {
    if before.rights.is_superuser(principal) {
        return Ok(());
    }
    let named = |id: &TableId, kind: &str, name: &str| owned(principal, before, id, kind, name);
    for (id, table) in &before.tables {
        if !next.tables.get(id).is_some_and(|now| Arc::ptr_eq(now, table)) {
            named(id, "table", &table.name)?;
        }
    }
    for (id, view) in &before.views {
        if !next.views.get(id).is_some_and(|now| Arc::ptr_eq(now, view)) {
            named(id, view.kind(), &view.name)?;
        }
    }
    for (id, sequence) in &before.sequences {
        // One that goes with its column is no change of its own.
        let gone = sequence.owned_by.is_some_and(|(table, _)| !next.tables.contains_key(&table));
        if !gone && !next.sequences.get(id).is_some_and(|now| Arc::ptr_eq(now, sequence)) {
            named(id, "sequence", &sequence.name)?;
        }
    }
    for (id, ty) in &before.types {
        if !next.types.get(id).is_some_and(|now| Arc::ptr_eq(now, ty)) {
            named(&TableId(id.0), "type", &ty.name)?;
        }
    }
    for id in before.comments.keys().chain(next.comments.keys()) {
        // Of an index its table's owner.
        let index = before.indexes().find(|(_, index)| index.id == *id).map(|(table, _)| table.id);
        if before.comments.get(id) != next.comments.get(id)
            && let Some((kind, name)) = before.kind_and_name(index.unwrap_or(*id))
        {
            named(&index.unwrap_or(*id), kind, name)?;
        }
    }
    let user_type =
        |catalog: &Catalog, id: &TableId| catalog.types.get(&TypeId(id.0)).map(|each| each.keyspace.clone());
    let sequence = |catalog: &Catalog, id: &TableId| catalog.sequences.get(id).map(|each| each.keyspace.clone());
    let table = |catalog: &Catalog, id: &TableId| catalog.tables.get(id).map(|table| table.keyspace.clone());
    let view = |catalog: &Catalog, id: &TableId| catalog.views.get(id).map(|view| view.keyspace.clone());
    let types: Vec<TableId> = next.types.keys().map(|id| TableId(id.0)).collect();
    for id in next.tables.keys().chain(next.views.keys()).chain(next.sequences.keys()).chain(&types) {
        let place = |catalog: &Catalog| {
            let relation = table(catalog, id).or_else(|| view(catalog, id));
            relation.or_else(|| sequence(catalog, id)).or_else(|| user_type(catalog, id))
        };
        if let (old, Some(keyspace)) = (place(before), place(next))
            && old.as_ref() != Some(&keyspace)
            && !before.allows(principal, &Object::Keyspace(keyspace.clone()), Right::Create)
        {
            return Err(denied(format!("permission denied for schema {keyspace}")));
        }
    }
    check_keyspaces(principal, before, next)
}

fn owned(principal: Principal, catalog: &Catalog, id: &TableId, kind: &str, name: &str) -> Result<()> {
    match catalog.owns(principal, &Object::Relation(*id)) {
        true => Ok(()),
        false => Err(denied(format!("must be owner of {kind} {name}"))),
    }
}

fn check_keyspaces(principal: Principal, before: &Catalog, next: &Catalog) -> Result<()> {
    for (name, keyspace) in &before.keyspaces {
        if next.keyspaces.get(name) != Some(keyspace) && !before.owns(principal, &Object::Keyspace(name.clone())) {
            return Err(denied(format!("must be owner of schema {name}")));
        }
    }
    let creates = match principal {
        Principal::Owner => true,
        Principal::Role(id) => before.rights.roles.get(&id).is_some_and(|role| role.create_keyspace),
    };
    match next.keyspaces.keys().any(|name| !before.keyspaces.contains_key(name)) && !creates {
        true => Err(denied("permission denied to create a schema")
            .with_hint("A role with CREATEDB may: ALTER ROLE … CREATEDB.")),
        false => Ok(()),
    }
}

/// Makes the principal the owner of what is new, unless it has one, and forgets what belonged to something that is gone.
pub(super) fn settle(principal: Principal, before: &Catalog, next: &mut Catalog) {
    if let Principal::Role(owner) = principal {
        let new = |id: &TableId| {
            let (tables, views) = (&before.tables, &before.views);
            let known = tables.contains_key(id) || views.contains_key(id);
            !known && !before.sequences.contains_key(id) && !before.types.contains_key(&TypeId(id.0))
        };
        let types: Vec<TableId> = next.types.keys().map(|id| TableId(id.0)).collect();
        let all = next.tables.keys().chain(next.views.keys()).chain(next.sequences.keys()).chain(&types);
        let relations: Vec<TableId> = all.copied().filter(new).collect();
        add_missing(&mut next.rights.relations, relations, owner);
        let keyspaces = next.keyspaces.keys().filter(|name| !before.keyspaces.contains_key(*name)).cloned();
        add_missing(&mut next.rights.keyspaces, keyspaces.collect(), owner);
    }
    next.forget_dropped();
}

fn add_missing<K: Ord, V: Copy>(map: &mut BTreeMap<K, V>, keys: Vec<K>, value: V) {
    for key in keys {
        map.entry(key).or_insert(value);
    }
}
