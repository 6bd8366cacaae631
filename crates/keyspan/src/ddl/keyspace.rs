//! CREATE and ALTER of keyspaces, which are PostgreSQL's schemas.

use keyspan_cql::{AlterKeyspace, CreateKeyspace, TableOption};
use keyspan_model::{Catalog, Error, ErrorKind, KeyspaceDef, Object, Result};

use super::grant::change_owner;
use super::{change, sequence, skipping, user_type};
use crate::context::ClientContext;
use crate::depend;
use crate::names;
use crate::outcome::{Notice, Outcome, Tag};

/// `CREATE KEYSPACE | SCHEMA`.
pub(crate) async fn create(context: &mut ClientContext, statement: &CreateKeyspace) -> Result<Outcome> {
    let name = &statement.name;
    names::check_keyspace_name(name)?;
    let created = change(context, |catalog| {
        if catalog.keyspaces.contains_key(name) {
            return match statement.if_not_exists {
                true => Ok(false),
                false => Err(Error::new(ErrorKind::DuplicateSchema, format!("schema \"{name}\" already exists"))),
            };
        }
        let mut keyspace = KeyspaceDef { name: name.clone(), options: Default::default(), attached: false };
        store_options(&mut keyspace, &statement.options);
        catalog.keyspaces.insert(name.clone(), keyspace);
        Ok(true)
    });
    let created = created.await?;
    if let (true, Some(owner)) = (created, &statement.owner) {
        change_owner(context, owner, |_| Ok(Object::Keyspace(name.clone()))).await?;
    }
    if !created {
        skipping(context, "schema", name);
    }
    Ok(Outcome::done(Tag::plain("CREATE SCHEMA")))
}

/// `ALTER KEYSPACE | SCHEMA`.
pub(crate) async fn alter(context: &mut ClientContext, statement: &AlterKeyspace) -> Result<Outcome> {
    let name = &statement.name;
    if let Some(owner) = &statement.owner {
        let find = |catalog: &Catalog| {
            names::expect_keyspace(catalog, name)?;
            Ok(Object::Keyspace(name.clone()))
        };
        change_owner(context, owner, find).await?;
        return Ok(Outcome::done(Tag::plain("ALTER SCHEMA")));
    }
    let found = change(context, |catalog| {
        if statement.if_exists && !catalog.keyspaces.contains_key(name) {
            return Ok(false);
        }
        names::expect_keyspace(catalog, name)?;
        let mut keyspace = catalog.keyspaces[name].clone();
        store_options(&mut keyspace, &statement.options);
        match &statement.rename_to {
            None => drop(catalog.keyspaces.insert(name.clone(), keyspace)),
            Some(new) => {
                depend::check_no_views_of_keyspace(catalog, name)?;
                if catalog.keyspaces.contains_key(new) {
                    return Err(Error::new(ErrorKind::DuplicateSchema, format!("schema \"{new}\" already exists")));
                }
                catalog.keyspaces.remove(name);
                catalog.rights.rename_keyspace(name, new);
                sequence::follow_keyspace(catalog, name, new)?;
                catalog.keyspaces.insert(new.clone(), KeyspaceDef { name: new.clone(), ..keyspace });
                user_type::follow_keyspace(catalog, name, new)?;
                for table in catalog.tables.values_mut().filter(|table| table.keyspace == *name) {
                    std::sync::Arc::make_mut(table).keyspace = new.clone();
                }
            }
        }
        Ok(true)
    });
    if !found.await? {
        context.notice(Notice::plain(format!("schema \"{name}\" does not exist, skipping")));
    }
    Ok(Outcome::done(Tag::plain("ALTER SCHEMA")))
}

fn store_options(keyspace: &mut KeyspaceDef, options: &[TableOption]) {
    keyspace.options.extend(options.iter().map(|option| (option.name.clone(), option.value.to_string())));
}
