//! As whom a client's statements run, and what that allows.
//!
//! The client's role is settled when it connects; SET ROLE takes another one's place until RESET ROLE. A program that
//! embeds the database is its owner and may do everything.

use std::sync::Arc;

use keyspan_model::{
    Catalog, ColumnDef, ColumnId, Error, ErrorKind, Object, Principal, Result, Right, RoleDef, RoleId, TableDef,
};

use super::ClientContext;
use crate::settings::OF_SUPERUSERS;
use crate::stores;

/// A role that was dropped: it may do nothing.
const GONE: Principal = Principal::Role(RoleId(u32::MAX));

impl ClientContext {
    /// Says who is connected to what. A database name that is a keyspace's leads the search path. Where there are roles
    /// the user must be one that may log in, and statements run as it.
    ///
    /// # Errors
    /// 28000 for a user who may not connect.
    pub(crate) fn connect_as(&mut self, user: &str, database: &str) -> Result<()> {
        let catalog = self.database.catalog();
        self.joined_without_roles = !catalog.rights.has_roles();
        if catalog.rights.has_roles() {
            let role = catalog.rights.role(user).ok_or_else(|| refused(format!("role \"{user}\" does not exist")))?;
            if !role.login {
                return Err(refused(format!("role \"{user}\" is not permitted to log in")));
            }
            self.session_role = Principal::Role(role.id);
        }
        self.user = user.to_string();
        self.database_name = database.to_string();
        self.peer.show(|shown| (shown.user, shown.database) = (user.to_owned(), database.to_owned()));
        self.settings.set_session_user(user);
        if database != "public" && catalog.keyspaces.contains_key(database) {
            let path = format!("{}, \"$user\", public", keyspan_cql::quoted(database));
            self.settings.set_initial("search_path", &path)?;
        }
        self.settings_changed();
        Ok(())
    }

    /// The role of a connected client; `Owner` for an embedding program and where there are no roles.
    pub(crate) fn session_role(&self) -> Principal {
        self.session_role
    }

    /// As whom statements run now.
    pub(crate) fn principal(&self) -> Principal {
        self.principal
    }

    /// The name of the role that statements run as.
    pub(crate) fn current_user(&self) -> String {
        let set = self.settings.get("role").filter(|role| *role != "none");
        set.map_or_else(|| self.user.clone(), str::to_owned)
    }

    /// Called when settings have changed: statements run as the role that they name.
    pub(super) fn follow_role(&mut self) {
        let catalog = self.newest_catalog();
        let named = self.settings.get("role").filter(|name| *name != "none" && catalog.rights.has_roles());
        let named = named.map(str::to_owned);
        match &named {
            None => self.principal = self.session_role,
            Some(name) if self.set_role.as_ref() != Some(name) => {
                self.principal = catalog.rights.role(name).map_or(GONE, |role| Principal::Role(role.id));
            }
            Some(_) => {}
        }
        self.set_role = named;
        self.settings.set_superuser(catalog.rights.is_superuser(self.principal));
    }

    /// Called before each statement. A client that has connected while there were no roles is the role of its name as
    /// soon as another session has made one.
    pub(crate) fn follow_first_role(&mut self) {
        if !self.joined_without_roles {
            return;
        }
        let catalog = self.database.catalog();
        if catalog.rights.has_roles() {
            self.joined_without_roles = false;
            let own = catalog.rights.role(&self.user).filter(|role| role.login);
            self.session_role = own.map_or(GONE, |role| Principal::Role(role.id));
            self.settings_changed();
        }
    }

    /// The session makes the first role: it stays what it is until it ends, so that it can make others, too.
    pub(crate) fn makes_first_role(&mut self) {
        self.joined_without_roles = false;
    }

    /// Whether this client may set these settings, before it does: a role only if it is a member of it, what is logged only
    /// as a superuser.
    pub(crate) fn check_setting(&self, key: &str, values: Option<&[String]>) -> Result<()> {
        if OF_SUPERUSERS.contains(&key) {
            let catalog = self.newest_catalog();
            return match !catalog.rights.has_roles() || catalog.rights.is_superuser(self.principal) {
                true => Ok(()),
                false => Err(denied(format!("permission denied to set parameter \"{key}\""))),
            };
        }
        let (Some([name]), true) = (values, key == "role" || key == "session_authorization") else { return Ok(()) };
        let catalog = self.newest_catalog();
        let is_none = key == "role" && name == "none";
        let is_own = || catalog.rights.role(name).is_some_and(|role| Principal::Role(role.id) == self.session_role);
        if is_none || !catalog.rights.has_roles() || is_own() {
            return Ok(());
        }
        if key == "session_authorization" {
            let error = Error::not_supported("SET SESSION AUTHORIZATION of another role is not supported");
            return Err(error.with_hint("Write SET ROLE, or connect as the other role."));
        }
        let role = expect_role(&catalog, name)?;
        let member = match self.session_role {
            Principal::Owner => true,
            Principal::Role(own) => catalog.rights.memberships(own).contains(&role.id),
        };
        if member || catalog.rights.is_superuser(self.session_role) {
            return Ok(());
        }
        Err(denied(format!("permission denied to set role \"{name}\"")))
    }

    /// Fails with 42501 unless the statement's principal has this right to the table: to all of it, or to each of these
    /// columns; with 25006 for writes to an attached one.
    pub(crate) fn require(&self, table: &TableDef, right: Right, columns: &[ColumnId]) -> Result<()> {
        if right != Right::Select {
            stores::check_writable(table)?;
        }
        if self.principal == Principal::Owner {
            return Ok(());
        }
        let (catalog, stored) = (self.newest_catalog(), self.database.catalog());
        let is_others = !Arc::ptr_eq(&catalog, &stored) && stored.tables.contains_key(&table.id);
        // What others have revoked counts also where a transaction has changed definitions.
        for catalog in [Some(catalog), is_others.then_some(stored)].into_iter().flatten() {
            check_usage(&catalog, self.principal, &table.keyspace)?;
            let allows = |object: Object| catalog.allows(self.principal, &object, right);
            let column = |id: &ColumnId| allows(Object::Column(table.id, *id));
            if !allows(Object::Relation(table.id)) && (columns.is_empty() || !columns.iter().all(column)) {
                return Err(denied(format!("permission denied for table {}", table.name)));
            }
        }
        Ok(())
    }

    /// An error about a table's rows without their values, where the statement's principal may not read them.
    pub(crate) fn without_hidden_values(&self, error: Error) -> Error {
        let Some(subject) = error.subject.as_ref().filter(|_| error.detail.is_some()) else { return error };
        let catalog = self.newest_catalog();
        let table = catalog.table(&subject.schema, &subject.table);
        let may_read = |table: &TableDef| catalog.allows(self.principal, &Object::Relation(table.id), Right::Select);
        match self.principal == Principal::Owner || table.is_none_or(|table| may_read(table)) {
            true => error,
            false => Error { detail: None, ..error },
        }
    }

    /// Fails with 42501 unless the statement's principal may lock rows of the table, which takes the right to change one
    /// of its columns.
    pub(crate) fn require_lock(&self, table: &TableDef) -> Result<()> {
        let whole = self.require(table, Right::Update, &[]);
        let may_change = |column: &ColumnDef| self.require(table, Right::Update, &[column.id]).is_ok();
        if whole.is_err() && table.columns.iter().any(may_change) { Ok(()) } else { whole }
    }

    /// The catalog without tables and views that the statement's principal has no right to, and without temporary
    /// tables of others.
    pub(crate) fn shown_catalog(&self) -> Arc<Catalog> {
        let catalog = self.newest_catalog();
        let catalog = match catalog.without_temporary_of_others(&self.settings.search_path()) {
            Some(shown) => Arc::new(shown),
            None => catalog,
        };
        match catalog.rights.is_superuser(self.principal) {
            true => catalog,
            false => Arc::new(catalog.seen_by(self.principal)),
        }
    }

    /// Fails with 42501 unless the statement's principal owns this, with 25006 if it is attached.
    pub(crate) fn require_owner(&self, object: &Object, shown: &str) -> Result<()> {
        let catalog = self.newest_catalog();
        if catalog.is_attached_object(object) {
            return Err(stores::read_only("change"));
        }
        match catalog.owns(self.principal, object) {
            true => Ok(()),
            false => Err(denied(format!("must be owner of {shown}"))),
        }
    }

    /// Fails with 42501 unless the statement's principal may do everything.
    pub(crate) fn require_superuser(&self, what: &str) -> Result<()> {
        let is_superuser = |catalog: &Catalog| catalog.rights.is_superuser(self.principal);
        match is_superuser(&self.newest_catalog()) && is_superuser(&self.database.catalog()) {
            true => Ok(()),
            false => Err(denied(format!("must be superuser to {what}"))),
        }
    }
}

/// Fails with 42501 unless the principal may name what is in the keyspace.
pub(crate) fn check_usage(catalog: &Catalog, principal: Principal, keyspace: &str) -> Result<()> {
    match catalog.may_use(principal, keyspace) {
        true => Ok(()),
        false => Err(denied(format!("permission denied for schema {keyspace}"))),
    }
}

/// The role of this name, or 42704.
pub(crate) fn expect_role<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a RoleDef> {
    let missing = || Error::new(ErrorKind::UndefinedObject, format!("role \"{name}\" does not exist"));
    catalog.rights.role(name).ok_or_else(missing)
}

/// 42501.
pub(crate) fn denied(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unauthorized, message)
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidAuthorization, message)
}
