//! Roles, owners and access lists as the system tables show them.

use std::collections::BTreeMap;

use keyspan_model::{Object, Principal, Right, RoleDef, RoleId, TableId};

use super::row::{Cell, Row};
use super::source::{OWNER, Source};

/// OIDs of roles are ids above this.
const ROLES: i64 = 3_800_000_000;
/// The owner of what no role owns, where there are roles.
const NOBODY: &str = "keyspan";

/// The OID of a role.
pub fn role_oid(id: RoleId) -> i64 {
    ROLES + i64::from(id.0)
}

impl Source {
    /// The names of all roles with their OIDs. Without roles there is one user, who owns everything.
    pub fn role_names(&self) -> Vec<(i64, &str)> {
        let roles = self.catalog.rights.roles.values().map(|role| (role_oid(role.id), role.name.as_str()));
        let owner = if self.catalog.rights.has_roles() { NOBODY } else { self.user() };
        std::iter::once((OWNER, owner)).chain(roles).collect()
    }

    /// The name of a role.
    pub fn role_name(&self, oid: i64) -> Option<&str> {
        self.role_names().into_iter().find(|(each, _)| *each == oid).map(|(_, name)| name)
    }

    /// The OID of a role, by its name.
    pub fn role_oid(&self, name: &str) -> Option<i64> {
        self.role_names().into_iter().rev().find(|(_, each)| *each == name).map(|(oid, _)| oid)
    }

    /// The role that this OID or name means, to ask for its rights.
    pub fn principal(&self, oid: i64) -> Principal {
        let role = self.catalog.rights.roles.keys().find(|id| role_oid(**id) == oid);
        role.map_or(Principal::Owner, |id| Principal::Role(*id))
    }

    /// Who owns a table or view.
    pub fn owner(&self, relation: TableId) -> i64 {
        self.catalog.rights.relations.get(&relation).map_or(OWNER, |id| role_oid(*id))
    }

    /// Who owns a keyspace or system schema.
    pub fn schema_owner(&self, schema: &str) -> i64 {
        self.catalog.rights.keyspaces.get(schema).map_or(OWNER, |id| role_oid(*id))
    }

    /// The name of who owns a table or view.
    pub fn owner_name(&self, relation: TableId) -> &str {
        self.role_name(self.owner(relation)).unwrap_or_default()
    }

    /// The access list of an object (`aclitem[]`): `grantee=rights/grantor`; none where nothing was granted.
    pub fn access(&self, object: &Object) -> Option<Vec<String>> {
        let mut rights: BTreeMap<(Option<RoleId>, Option<RoleId>), String> = BTreeMap::new();
        for right in Right::ALL {
            for (grant, grantable) in self.catalog.rights.grants.iter().filter(|(grant, _)| grant.object == *object) {
                if grant.right == right {
                    let letters = rights.entry((grant.grantee, grant.grantor)).or_default();
                    letters.push(right.letter());
                    letters.extend(grantable.then_some('*'));
                }
            }
        }
        if rights.is_empty() {
            return None;
        }
        let owner = match object {
            Object::Keyspace(name) => self.schema_owner(name),
            Object::Relation(id) | Object::Column(id, _) => self.owner(*id),
        };
        let owner = self.role_name(owner).unwrap_or_default();
        let name = |id: &Option<RoleId>| id.and_then(|id| self.role_name(role_oid(id)));
        let item = |((grantee, grantor), letters): (&(_, _), &String)| {
            format!("{}={letters}/{}", name(grantee).unwrap_or_default(), name(grantor).unwrap_or(owner))
        };
        Some(rights.iter().map(item).collect())
    }
}

/// The rows of `pg_roles` and `pg_authid`. Verifiers of passwords are shown to nobody.
pub fn roles(source: &Source) -> Vec<Row> {
    let everything = Row::new()
        .with("oid", OWNER)
        .with("rolname", source.role_name(OWNER))
        .flags(&["rolsuper", "rolinherit", "rolcreaterole", "rolcreatedb"])
        .with("rolcanlogin", !source.catalog.rights.has_roles())
        .with("rolreplication", false)
        .with("rolbypassrls", true)
        .with("rolconnlimit", -1_i64);
    let role = |role: &RoleDef| {
        Row::new()
            .with("oid", role_oid(role.id))
            .with("rolname", &role.name)
            .with("rolsuper", role.superuser)
            .with("rolinherit", role.inherit)
            .with("rolcreaterole", role.create_role)
            .with("rolcreatedb", role.create_keyspace)
            .with("rolcanlogin", role.login)
            .with("rolreplication", false)
            .with("rolbypassrls", role.superuser)
            .with("rolconnlimit", role.connection_limit.map_or(-1, i64::from))
            .with("rolpassword", role.password.as_ref().map(|_| "********"))
            .with("rolvaliduntil", role.valid_until.map(Cell::Time))
    };
    std::iter::once(everything).chain(source.catalog.rights.roles.values().map(role)).collect()
}

/// The rows of `pg_user`: the roles that may log in.
pub fn users(source: &Source) -> Vec<Row> {
    let row = |name: &str, oid: i64, superuser: bool, creates: bool| {
        let row = Row::new().with("usename", name).with("usesysid", oid).with("usecreatedb", creates);
        row.with("usesuper", superuser).with("userepl", false).with("usebypassrls", superuser)
    };
    if !source.catalog.rights.has_roles() {
        return vec![row(source.user(), OWNER, true, true)];
    }
    let logins = source.catalog.rights.roles.values().filter(|role| role.login);
    logins.map(|role| row(&role.name, role_oid(role.id), role.superuser, role.create_keyspace)).collect()
}

/// The rows of `pg_auth_members`.
pub fn members(source: &Source) -> Vec<Row> {
    let roles = source.catalog.rights.roles.values();
    let member = |role: &RoleDef| {
        let (id, of) = (role.id, role.member_of.clone());
        of.into_iter().map(move |(of, admin)| {
            let row = Row::new().with("roleid", role_oid(of)).with("member", role_oid(id));
            row.with("grantor", OWNER).with("admin_option", admin)
        })
    };
    roles.flat_map(member).collect()
}

/// The rows of `information_schema.table_privileges` and `role_table_grants`: owners have every right.
pub fn table_privileges(source: &Source) -> Vec<Row> {
    let tables = source.catalog.tables.values().map(|table| (table.id, &table.keyspace, &table.name));
    let views = source.catalog.views.values().map(|view| (view.id, &view.keyspace, &view.name));
    let mut rows = Vec::new();
    for (id, keyspace, name) in tables.chain(views) {
        let owner = source.owner_name(id);
        let mut add = |grantor: &str, grantee: &str, right: Right, grantable: bool| {
            let row = Row::new().with("grantor", grantor).with("grantee", grantee).with("table_name", name);
            let row = row.with("table_catalog", source.database()).with("table_schema", keyspace);
            let row = row.with("privilege_type", right.name()).with("with_hierarchy", "NO");
            rows.push(row.with("is_grantable", if grantable { "YES" } else { "NO" }));
        };
        Right::ALL.into_iter().filter(|right| right.is_of_relations()).for_each(|right| add(owner, owner, right, true));
        for (grant, grantable) in &source.catalog.rights.grants {
            let on_keyspace = grant.object == Object::Keyspace(keyspace.clone()) && grant.right.is_of_relations();
            if grant.object == Object::Relation(id) || on_keyspace {
                let grantee = grant.grantee.map_or("PUBLIC", |id| source.role_name(role_oid(id)).unwrap_or_default());
                let grantor = grant.grantor.and_then(|id| source.role_name(role_oid(id))).unwrap_or(owner);
                add(grantor, grantee, grant.right, *grantable);
            }
        }
    }
    rows
}
