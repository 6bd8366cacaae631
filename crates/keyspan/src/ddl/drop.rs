//! DROP and TRUNCATE.

use std::sync::Arc;

use keyspan_cql::{Drop, DropKind, ObjectName, Truncate};
use keyspan_model::{Catalog, Error, ErrorKind, Result, Right, TableId, TypeId};

use super::{Check, change, change_with, family, foreign_key, index, missing, sequence, unique, user_type};
use crate::context::ClientContext;
use crate::depend;
use crate::names::{self, TableOrView};
use crate::outcome::{Outcome, Tag};

/// `DROP TABLE | VIEW | MATERIALIZED VIEW | INDEX | SEQUENCE | TYPE | KEYSPACE`.
pub(crate) async fn run(context: &mut ClientContext, statement: &Drop) -> Result<Outcome> {
    let path = context.settings.search_path();
    let tag = match statement.kind {
        DropKind::Table => "DROP TABLE",
        DropKind::View => "DROP VIEW",
        DropKind::MaterializedView => "DROP MATERIALIZED VIEW",
        DropKind::Index => "DROP INDEX",
        DropKind::Sequence => "DROP SEQUENCE",
        DropKind::Type => "DROP TYPE",
        DropKind::Keyspace => "DROP SCHEMA",
    };
    let missed = change(context, |catalog| {
        let mut missed = Vec::new();
        let found = statement.names.iter().filter_map(|name| names::find(catalog, &path, name));
        let together = found.map(|found| found.id()).collect();
        let dropping = Dropping { statement, path: &path, together };
        for name in &statement.names {
            if !dropping.one(catalog, name)? {
                missed.push(name.clone());
            }
        }
        Ok(missed)
    });
    let what = tag["DROP ".len()..].to_lowercase();
    for name in missed.await? {
        missing(context, &what, &name);
    }
    Ok(Outcome::done(Tag::plain(tag)))
}

struct Dropping<'a> {
    statement: &'a Drop,
    path: &'a [String],
    /// The tables and views that the statement drops: none of them is in the way of another.
    together: Vec<TableId>,
}

impl Dropping<'_> {
    /// Whether there was something to drop.
    fn one(&self, catalog: &mut Catalog, name: &ObjectName) -> Result<bool> {
        let (statement, path) = (self.statement, self.path);
        match statement.kind {
            DropKind::Keyspace => drop_keyspace(catalog, statement, &name.name),
            DropKind::Sequence if sequence::drop_one(catalog, path, name, statement.cascade)? => Ok(true),
            DropKind::Index if index::drop_one(catalog, path, name, statement.cascade)? => Ok(true),
            DropKind::Type => user_type::drop_one(catalog, path, statement, name),
            DropKind::Index | DropKind::Sequence if statement.if_exists => Ok(false),
            DropKind::Index => {
                let message = format!("index \"{}\" does not exist", names::display(name));
                Err(Error::new(ErrorKind::UndefinedObject, message))
            }
            DropKind::Sequence => {
                let message = format!("sequence \"{}\" does not exist", names::display(name));
                Err(Error::new(ErrorKind::UndefinedTable, message))
            }
            DropKind::Table | DropKind::View | DropKind::MaterializedView => self.relation(catalog, name),
        }
    }

    fn relation(&self, catalog: &mut Catalog, name: &ObjectName) -> Result<bool> {
        let (statement, path) = (self.statement, self.path);
        let found = match names::find(catalog, path, name) {
            Some(found) => found,
            None if statement.if_exists => return Ok(false),
            None => {
                let error = names::expect(catalog, path, name).err();
                let message = format!("{} \"{}\" does not exist", kind_text(statement.kind), names::display(name));
                let hint = error.and_then(|error| error.hint);
                return Err(Error { hint, ..Error::new(ErrorKind::UndefinedTable, message) });
            }
        };
        if found.kind() != kind_text(statement.kind) {
            return Err(wrong_kind(&found, statement.kind));
        }
        let id = found.id();
        if statement.cascade {
            depend::drop_views_of(catalog, id);
        } else {
            let what = format!("drop {} {}", kind_text(statement.kind), names::display(name));
            depend::check_no_views_but(catalog, id, &self.together, &what)?;
            foreign_key::check_unreferenced(catalog, id, &self.together)?;
        }
        remove(catalog, id);
        Ok(true)
    }
}

fn kind_text(kind: DropKind) -> &'static str {
    match kind {
        DropKind::Table => "table",
        DropKind::View => "view",
        DropKind::MaterializedView => "materialized view",
        DropKind::Index => "index",
        DropKind::Sequence => "sequence",
        DropKind::Type => "type",
        DropKind::Keyspace => "schema",
    }
}

fn wrong_kind(found: &TableOrView, wanted: DropKind) -> Error {
    let (name, kind) = (found.name(), found.kind());
    let error = Error::new(ErrorKind::WrongObjectType, format!("\"{name}\" is not a {}", kind_text(wanted)));
    error.with_hint(format!("Use DROP {} to remove a {kind}.", kind.to_uppercase()))
}

fn remove(catalog: &mut Catalog, id: TableId) {
    catalog.tables.remove(&id);
    catalog.views.remove(&id);
    catalog.sequences.remove(&id);
    catalog.types.remove(&TypeId(id.0));
    foreign_key::forget(catalog, id);
}

fn drop_keyspace(catalog: &mut Catalog, statement: &Drop, name: &str) -> Result<bool> {
    if statement.if_exists && !catalog.keyspaces.contains_key(name) {
        return Ok(false);
    }
    names::expect_keyspace(catalog, name)?;
    if name == "public" {
        let error = Error::new(ErrorKind::ReservedName, "cannot drop schema public because the system requires it");
        return Err(error.with_hint("Drop its tables instead."));
    }
    let tables = catalog.tables.values().filter(|table| table.keyspace == name).map(|table| (table.id, &table.name));
    let views = catalog.views.values().filter(|view| view.keyspace == name).map(|view| (view.id, &view.name));
    let sequences = catalog.sequences.values().filter(|each| each.keyspace == name && each.owned_by.is_none());
    let sequences = sequences.map(|sequence| (sequence.id, &sequence.name));
    let types = catalog.types.values().filter(|ty| ty.keyspace == name).map(|ty| (TableId(ty.id.0), &ty.name));
    let inside = tables.chain(views).chain(sequences).chain(types).map(|(id, name)| (id, name.clone()));
    let inside: Vec<(TableId, String)> = inside.collect();
    let cascade = statement.cascade || (statement.said_keyspace && !statement.restrict);
    if let (false, Some((_, first))) = (cascade, inside.first()) {
        let message = format!("cannot drop schema {name} because {first} is in it");
        let error = Error::new(ErrorKind::DependentObjects, message);
        return Err(error.with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    for (id, _) in inside {
        depend::drop_views_of(catalog, id);
        remove(catalog, id);
    }
    catalog.keyspaces.remove(name);
    Ok(true)
}

/// `TRUNCATE`: the tables get new relations, so that nothing written before can show through.
pub(crate) async fn truncate(context: &mut ClientContext, statement: &Truncate) -> Result<Outcome> {
    let path = context.settings.search_path();
    let catalog = context.catalog();
    for name in &statement.names {
        let table = names::table(&catalog, &path, name)?;
        context.require(&table, Right::Truncate, &[])?;
    }
    change_with(context, Check::Done, |catalog| {
        for name in &statement.names {
            let table = names::table(catalog, &path, name)?;
            let mut table = (*table).clone();
            table.rows = catalog.new_relation_id();
            family::empty(catalog, &mut table);
            unique::empty(catalog, &mut table);
            table.statics = table.statics.map(|_| catalog.new_relation_id());
            if statement.restart_identity {
                sequence::restart_owned(catalog, table.id)?;
            }
            table.version += 1;
            catalog.tables.insert(table.id, Arc::new(table));
        }
        Ok(())
    })
    .await?;
    Ok(Outcome::done(Tag::plain("TRUNCATE TABLE")))
}
