//! CREATE, ALTER and DROP TYPE, and the user types in the columns of tables.
//!
//! The type of a column holds the fields of the user types in it. So every change of a type changes the tables and types
//! that have it, in the same change of the catalog. As in Cassandra, a type is used in its own keyspace only; what holds
//! one can then be described with plain names. Texts of errors are Cassandra's, where it has one.

use std::sync::Arc;

use keyspan_cql::{AlterType, AlterTypeAction, CreateTable, CreateType, Drop, ObjectName};
use keyspan_model::schema::temporary::is_temporary;
use keyspan_model::{
    Catalog, ColumnType, Error, ErrorKind, Nested, Object, Result, TableDef, TableId, TypeField, TypeName, UserType,
    nearest,
};

use super::{Check, change, change_with, missing, skipping};
use crate::context::{ClientContext, denied};
use crate::names;
use crate::outcome::{Notice, Outcome, Tag};

/// `CREATE TYPE`.
pub(crate) async fn create(context: &mut ClientContext, statement: &CreateType) -> Result<Outcome> {
    let path = context.settings.search_path();
    let keyspace = names::keyspace_for(&context.catalog(), &path, &statement.name)?;
    let name = &statement.name.name;
    let created = change(context, |catalog| {
        if catalog.user_type(&keyspace, name).is_some() {
            if statement.if_not_exists {
                return Ok(false);
            }
            let message = format!("A user type with name '{name}' already exists");
            return Err(Error::new(ErrorKind::DuplicateObject, message).at(statement.name.position));
        }
        if ColumnType::parse(name, &[]).is_ok() {
            let message = format!("'{name}' is the name of a type of the language");
            return Err(Error::new(ErrorKind::ReservedName, message).at(statement.name.position));
        }
        names::expect_keyspace(catalog, &keyspace)?;
        let mut fields = Vec::with_capacity(statement.fields.len());
        for field in &statement.fields {
            add_field(catalog, &keyspace, name, &mut fields, field)?;
        }
        let ty = UserType { id: catalog.new_type_id(), keyspace: keyspace.clone(), name: name.clone(), fields };
        catalog.types.insert(ty.id, Arc::new(ty));
        Ok(true)
    });
    if !created.await? {
        skipping(context, "type", name);
    }
    Ok(Outcome::done(Tag::plain("CREATE TYPE")))
}

fn add_field(
    catalog: &Catalog,
    keyspace: &str,
    name: &str,
    fields: &mut Vec<TypeField>,
    field: &TypeField,
) -> Result<()> {
    if fields.iter().any(|each| each.name == field.name) {
        let message = format!("Duplicate field name {} in type {name}", field.name);
        return Err(Error::new(ErrorKind::DuplicateColumn, message));
    }
    let ty = resolved(catalog, keyspace, field.ty)?;
    fields.push(TypeField { name: field.name.clone(), ty });
    Ok(())
}

/// `ALTER TYPE`.
pub(crate) async fn alter(context: &mut ClientContext, statement: &AlterType) -> Result<Outcome> {
    let path = context.settings.search_path();
    let tag = Outcome::done(Tag::plain("ALTER TYPE"));
    if statement.if_exists && names::find_type(&context.catalog(), &path, &statement.name).is_none() {
        missing(context, "type", &statement.name);
        return Ok(tag);
    }
    let catalog = context.catalog();
    let found = names::expect_type(&catalog, &path, &statement.name)?;
    if !catalog.owns(context.principal(), &Object::Relation(TableId(found.id.0))) {
        return Err(denied(format!("must be owner of type {}", found.name)));
    }
    // Whoever may change a type changes the tables that have it.
    let skipped = change_with(context, Check::Done, |catalog| {
        let mut next = (*names::expect_type(catalog, &path, &statement.name)?).clone();
        let skipped = apply(catalog, &mut next, &statement.action)?;
        if catalog.types.get(&next.id).is_some_and(|before| **before != next) {
            replace(catalog, &next)?;
        }
        Ok(skipped)
    });
    for message in skipped.await? {
        context.notice(Notice::plain(message));
    }
    Ok(tag)
}

/// Changes a type; answers what was skipped.
fn apply(catalog: &Catalog, ty: &mut UserType, action: &AlterTypeAction) -> Result<Vec<String>> {
    let known = |ty: &UserType, name: &str| ty.fields.iter().any(|field| field.name == name);
    match action {
        AlterTypeAction::Add { if_not_exists: true, field } if known(ty, &field.name) => {
            Ok(vec![format!("field \"{}\" already exists, skipping", field.name)])
        }
        AlterTypeAction::Add { field, .. } => {
            if known(ty, &field.name) {
                let message = format!(
                    "Cannot add field {} to type {}: a field with name {} already exists",
                    field.name, ty.name, field.name
                );
                return Err(Error::new(ErrorKind::DuplicateColumn, message));
            }
            check_no_keys(catalog, ty, &field.name)?;
            let (keyspace, name) = (ty.keyspace.clone(), ty.name.clone());
            add_field(catalog, &keyspace, &name, &mut ty.fields, field)?;
            if ty.fields.last().is_some_and(|added| added.ty.holds_user_type(ty.id)) {
                let message = format!(
                    "Cannot add new field {} of type {} to user type {}.{} as it would create a circular reference",
                    field.name,
                    field.ty.name(),
                    ty.keyspace,
                    ty.name
                );
                return Err(Error::new(ErrorKind::InvalidTableDefinition, message));
            }
            Ok(Vec::new())
        }
        AlterTypeAction::Rename { if_exists, names } => {
            let mut skipped = Vec::new();
            for (from, to) in names {
                match ty.fields.iter().position(|field| field.name == *from) {
                    None if *if_exists => skipped.push(format!("field \"{from}\" does not exist, skipping")),
                    None => return Err(no_field(ty, from)),
                    Some(_) if known(ty, to) => {
                        let message = format!("Duplicate field name {to} in type {}", ty.name);
                        return Err(Error::new(ErrorKind::DuplicateColumn, message));
                    }
                    Some(place) => ty.fields[place].name.clone_from(to),
                }
            }
            Ok(skipped)
        }
    }
}

/// Keys that are written have as many parts as the type has fields: what holds them could not tell where one ends.
fn check_no_keys(catalog: &Catalog, ty: &UserType, field: &str) -> Result<()> {
    let in_key = |table: &&Arc<TableDef>| {
        let mut parts = table.families.iter().flat_map(|family| &family.qualifier);
        let unique = table.uniques().flat_map(|(index, _)| &index.columns).filter_map(|id| table.column_by_id(*id));
        let mut key = table.key().chain(unique);
        key.any(|column| column.ty.holds_user_type(ty.id)) || parts.any(|part| part.ty.holds_user_type(ty.id))
    };
    let tables: Vec<&str> = catalog.tables.values().filter(in_key).map(|table| table.name.as_str()).collect();
    if tables.is_empty() {
        return Ok(());
    }
    let message = format!(
        "Cannot add new field {field} to user type {}.{} as it is being used in a key by the following tables: {}",
        ty.keyspace,
        ty.name,
        tables.join(", ")
    );
    Err(Error::new(ErrorKind::InvalidTableDefinition, message)
        .with_hint("Make another type, and a table with it in its key."))
}

fn no_field(ty: &UserType, name: &str) -> Error {
    let message = format!("Unknown field {name} in user type {}", ty.name);
    let error = Error::new(ErrorKind::UndefinedColumn, message);
    match nearest(name, ty.fields.iter().map(|field| field.name.as_str())) {
        Some(near) => error.with_hint(format!("Perhaps you meant \"{near}\".")),
        None => error,
    }
}

/// `DROP TYPE`: whether there was one.
pub(super) fn drop_one(catalog: &mut Catalog, path: &[String], statement: &Drop, name: &ObjectName) -> Result<bool> {
    if statement.if_exists && names::find_type(catalog, path, name).is_none() {
        return Ok(false);
    }
    let ty = names::expect_type(catalog, path, name)?;
    let user = catalog.types.values().find(|other| other.id != ty.id && other.holds(ty.id));
    let user = user.map(|other| format!("user type {}", other.name));
    let table = catalog.all_tables().find(|table| table.types().any(|column| column.holds_user_type(ty.id)));
    if let Some(user) = table.map(|table| format!("table {}", table.name)).or(user) {
        let message = format!("Cannot drop user type '{}.{}' as it is still used by {user}", ty.keyspace, ty.name);
        return Err(Error::new(ErrorKind::DependentObjects, message));
    }
    catalog.types.remove(&ty.id);
    Ok(true)
}

/// Types go with their keyspace to its new name.
pub(super) fn follow_keyspace(catalog: &mut Catalog, from: &str, to: &str) -> Result<()> {
    let moved: Vec<Arc<UserType>> = catalog.types.values().filter(|ty| ty.keyspace == from).cloned().collect();
    for ty in moved {
        // As it is by now: it may hold one that was moved before.
        let now = catalog.types[&ty.id].clone();
        replace(catalog, &UserType { keyspace: to.into(), ..(*now).clone() })?;
    }
    Ok(())
}

/// Puts a type in its own place, wherever it stands.
fn replace(catalog: &mut Catalog, ty: &UserType) -> Result<()> {
    let new = ColumnType::nested(Nested::User(ty.clone()));
    let changed = |column: ColumnType| -> Result<ColumnType> {
        if !column.holds_user_type(ty.id) {
            return Ok(column);
        }
        let changed = column.rebuilt(&|part| Ok(if part.is_user_type(ty.id) { new } else { part }))?;
        changed.check_depth()?;
        Ok(changed)
    };
    catalog.types.insert(ty.id, Arc::new(ty.clone()));
    for other in catalog.types.values_mut().filter(|other| other.holds(ty.id)) {
        for field in &mut Arc::make_mut(other).fields {
            field.ty = changed(field.ty)?;
        }
    }
    let in_table = |table: &mut TableDef| -> Result<()> {
        table.types_mut().try_for_each(|column| changed(*column).map(|new| *column = new))?;
        table.version += 1;
        Ok(())
    };
    let has = |table: &TableDef| table.types().any(|column| column.holds_user_type(ty.id));
    for table in catalog.tables.values_mut().filter(|table| has(table)) {
        in_table(Arc::make_mut(table))?;
    }
    for view in catalog.views.values_mut().filter(|view| view.rows().is_some_and(has)) {
        if let Some(materialized) = &mut Arc::make_mut(view).materialized {
            in_table(materialized.rows_mut())?;
        }
    }
    Ok(())
}

/// A type of a table or type of this keyspace, with what its names stand for.
fn resolved(catalog: &Catalog, keyspace: &str, ty: ColumnType) -> Result<ColumnType> {
    let resolved = ty.resolved(&|name: &TypeName| {
        let own = name.keyspace.as_deref().unwrap_or(keyspace);
        match catalog.user_type(own, &name.name) {
            Some(found) => Ok(ColumnType::nested(Nested::User((**found).clone()))),
            None if is_temporary(keyspace) && catalog.types.values().any(|known| known.name == name.name) => {
                Err(in_temporary(&name.name))
            }
            None => Err(catalog.undefined_type(name)),
        }
    })?;
    let foreign = |part: ColumnType| match part.as_nested() {
        Some(Nested::User(user)) if is_temporary(keyspace) => Err(in_temporary(&user.name)),
        Some(Nested::User(user)) if user.keyspace != keyspace => Err(Error::new(
            ErrorKind::InvalidTableDefinition,
            format!(
                "Statement on keyspace {keyspace} cannot refer to a user type in keyspace {}; user types can only be \
                 used in the keyspace they are defined in",
                user.keyspace
            ),
        )),
        _ => Ok(part),
    };
    resolved.rebuilt(&foreign)
}

/// A user type belongs to its keyspace, and there are none in that of a session.
fn in_temporary(name: &str) -> Error {
    Error::not_supported(format!("user type \"{name}\" in a temporary table is not supported"))
        .with_hint("Write frozen<tuple<…>>, or a column for each field.")
}

/// Resolves the names of user types in a table's columns.
///
/// # Errors
/// 42704 for one that there is not, 42P16 for one of another keyspace, and for what cannot be in a key; 0A000 in a
/// temporary table.
pub(super) fn settle(catalog: &Catalog, table: &mut TableDef) -> Result<()> {
    let keyspace = table.keyspace.clone();
    for ty in table.types_mut().filter(|ty| !ty.is_scalar()) {
        *ty = resolved(catalog, &keyspace, *ty)?;
    }
    table.key().try_for_each(|column| column.ty.allowed_in_key())?;
    table.families.iter().flat_map(|family| &family.qualifier).try_for_each(|part| part.ty.allowed_in_key())
}

/// An error of a type with the place of the first column that has a name in its type.
pub(super) fn placed(error: Error, statement: &CreateTable) -> Error {
    let named = |ty: ColumnType| ty.holds(&|part| matches!(part.as_nested(), Some(Nested::Named(_))));
    let first = statement.columns.iter().find(|column| named(column.column_type));
    match first {
        Some(column) if error.position.is_none() => error.at(column.position),
        _ => error,
    }
}
