//! Keyspaces of other databases, attached under names of their own: their tables can be read.
//!
//! Ids are a database's own. Those of an attached keyspace get the number of its store in their uppermost byte, which
//! no database ever reaches by counting.

use std::sync::Arc;

use super::rights::Object;
use super::{Catalog, KeyspaceDef, RelationId, TableDef, TableId};
use crate::error::{Error, ErrorKind, Result};
use crate::types::{ColumnType, Nested, TypeId, UserType};

/// The first id with a store's number in it.
const FIRST: u32 = 1 << 24;

/// Attached stores at most.
pub const ATTACHED_MAX: u32 = 255;

impl RelationId {
    /// The number of the attached store that has the relation, from 1; 0 for the database's own.
    pub fn store(self) -> u32 {
        self.0 / FIRST
    }

    /// The relation's id in its own store.
    #[must_use]
    pub fn in_store(self) -> RelationId {
        RelationId(self.0 % FIRST)
    }
}

impl TypeId {
    /// Whether it is that of a user type of an attached keyspace.
    pub fn is_attached(self) -> bool {
        self.0 >= FIRST
    }
}

impl TableId {
    /// Whether it is that of a table of an attached keyspace.
    pub fn is_attached(self) -> bool {
        self.0 >= FIRST
    }
}

/// How ids of an attached store are seen by the database that it is attached to.
#[derive(Clone, Copy, Debug)]
struct Seen {
    store: u32,
}

impl Seen {
    fn id(self, id: u32) -> u32 {
        self.store * FIRST + id % FIRST
    }

    fn user_type(self, user: &UserType, name: &str) -> UserType {
        UserType { id: TypeId(self.id(user.id.0)), keyspace: name.to_owned(), ..user.clone() }
    }

    fn column_type(self, ty: ColumnType, name: &str) -> Result<ColumnType> {
        ty.rebuilt(&|part| match part.as_nested() {
            Some(Nested::User(user)) => Ok(ColumnType::nested(Nested::User(self.user_type(user, name)))),
            _ => Ok(part),
        })
    }

    /// The table, without what only writes need: defaults, identities, foreign keys.
    fn table(self, table: &TableDef, name: &str) -> Result<TableDef> {
        let relation = |id: RelationId| RelationId(self.id(id.0));
        let mut seen = table.clone();
        seen.id = TableId(self.id(table.id.0));
        seen.keyspace = name.to_owned();
        seen.rows = relation(seen.rows);
        seen.statics = seen.statics.map(relation);
        seen.families.iter_mut().for_each(|family| family.relation = relation(family.relation));
        for index in &mut seen.indexes {
            index.id = TableId(self.id(index.id.0));
            if let Some(unique) = &mut index.unique {
                unique.entries = relation(unique.entries);
            }
        }
        seen.foreign_keys.clear();
        for column in &mut seen.columns {
            (column.default, column.identity) = (None, None);
        }
        for ty in seen.types_mut() {
            *ty = self.column_type(*ty, name)?;
        }
        Ok(seen)
    }
}

impl Catalog {
    /// Adds the tables of a keyspace of another catalog, that of the store with this number, under another name. Its
    /// views and sequences stay out: their texts name what is called otherwise here. One that is no more is empty.
    ///
    /// # Errors
    /// 42P06 if the name is taken.
    pub fn attach(&mut self, name: &str, store: u32, other: &Catalog, keyspace: &str) -> Result<()> {
        if self.keyspaces.contains_key(name) {
            return Err(Error::new(ErrorKind::DuplicateSchema, format!("schema \"{name}\" already exists")));
        }
        let options = other.keyspaces.get(keyspace).map(|keyspace| keyspace.options.clone()).unwrap_or_default();
        let seen = Seen { store };
        for table in other.tables.values().filter(|table| table.keyspace == keyspace) {
            let table = seen.table(table, name)?;
            self.tables.insert(table.id, Arc::new(table));
        }
        for user in other.types.values().filter(|user| user.keyspace == keyspace) {
            let mut user = seen.user_type(user, name);
            for field in &mut user.fields {
                field.ty = seen.column_type(field.ty, name)?;
            }
            self.types.insert(user.id, Arc::new(user));
        }
        self.keyspaces.insert(name.to_owned(), KeyspaceDef { name: name.to_owned(), options, attached: true });
        Ok(())
    }

    /// Whether a keyspace is attached. What is in it can be read, and not be changed.
    pub fn is_attached(&self, keyspace: &str) -> bool {
        self.keyspaces.get(keyspace).is_some_and(|keyspace| keyspace.attached)
    }

    /// Whether it is attached, or in an attached keyspace.
    pub fn is_attached_object(&self, object: &Object) -> bool {
        match object {
            Object::Relation(id) | Object::Column(id, _) => id.is_attached(),
            Object::Keyspace(name) => self.is_attached(name),
        }
    }

    /// The catalog without attached keyspaces: what the database itself holds.
    #[must_use]
    pub fn without_attached(&self) -> Catalog {
        let mut own = self.clone();
        own.keyspaces.retain(|_, keyspace| !keyspace.attached);
        own.tables.retain(|id, _| !id.is_attached());
        own.types.retain(|id, _| !id.is_attached());
        own
    }
}
