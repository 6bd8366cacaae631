//! Roles and rights.

use super::ObjectName;

/// `CREATE ROLE | USER | GROUP`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateRole {
    /// Its name.
    pub name: String,
    /// `IF NOT EXISTS` was said.
    pub if_not_exists: bool,
    /// In the order in which they were written; USER begins with LOGIN.
    pub options: Vec<RoleOption>,
    /// Roles that it becomes a member of: `IN ROLE`.
    pub member_of: Vec<String>,
    /// Roles that become its members: `ROLE`, and those of `ADMIN`, which may make others members, too.
    pub members: Vec<(String, bool)>,
}

/// `ALTER ROLE | USER | GROUP`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterRole {
    /// Which.
    pub role: RoleName,
    /// `IF EXISTS` was said.
    pub if_exists: bool,
    /// In the order in which they were written.
    pub options: Vec<RoleOption>,
    /// `RENAME TO`.
    pub rename_to: Option<String>,
}

/// `DROP ROLE | USER | GROUP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropRole {
    /// `IF EXISTS` was said.
    pub if_exists: bool,
    /// Which.
    pub names: Vec<String>,
}

/// A property of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleOption {
    /// `[NO]SUPERUSER`.
    Superuser(bool),
    /// `[NO]LOGIN`.
    Login(bool),
    /// `[NO]CREATEROLE`.
    CreateRole(bool),
    /// `[NO]CREATEDB`: may make keyspaces.
    CreateKeyspace(bool),
    /// `[NO]INHERIT`.
    Inherit(bool),
    /// `PASSWORD 'text'`, or none: a password or a SCRAM verifier.
    Password(Option<String>),
    /// `CONNECTION LIMIT n`; none: no limit.
    ConnectionLimit(Option<u32>),
    /// `VALID UNTIL 'time'`.
    ValidUntil(String),
}

/// A role as statements name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleName {
    /// Everybody.
    Public,
    /// `CURRENT_USER`, `CURRENT_ROLE`.
    Current,
    /// `SESSION_USER`.
    Session,
    /// By its name.
    Named(String),
}

/// `GRANT` and `REVOKE` of memberships.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRoles {
    /// REVOKE was said.
    pub revoke: bool,
    /// The roles to be a member of.
    pub roles: Vec<String>,
    /// The members.
    pub members: Vec<RoleName>,
    /// `WITH ADMIN OPTION`, `ADMIN OPTION FOR`.
    pub admin: bool,
}

/// `GRANT` and `REVOKE` of rights.
#[derive(Clone, Debug, PartialEq)]
pub struct GrantRights {
    /// REVOKE was said.
    pub revoke: bool,
    /// The rights; none: ALL.
    pub rights: Option<Vec<GrantedRight>>,
    /// To what.
    pub objects: GrantObjects,
    /// Whose.
    pub grantees: Vec<RoleName>,
    /// `WITH GRANT OPTION`, `GRANT OPTION FOR`.
    pub grant_option: bool,
    /// Of REVOKE: whether what the grantees have granted on goes, too.
    pub cascade: bool,
}

/// A right, of the whole or of some columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedRight {
    /// Which.
    pub right: RightWord,
    /// Of these columns; empty: of the whole.
    pub columns: Vec<String>,
}

/// A right as GRANT names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RightWord {
    /// SELECT.
    Select,
    /// INSERT.
    Insert,
    /// UPDATE.
    Update,
    /// DELETE.
    Delete,
    /// TRUNCATE.
    Truncate,
    /// USAGE.
    Usage,
    /// CREATE.
    Create,
    /// CQL's MODIFY: to insert, change, delete and empty.
    Modify,
}

/// What rights are granted to.
#[derive(Clone, Debug, PartialEq)]
pub enum GrantObjects {
    /// `[TABLE] name, …`: tables and views.
    Relations(Vec<ObjectName>),
    /// `ALL TABLES IN SCHEMA name, …`: those that there are now.
    AllRelationsIn(Vec<String>),
    /// `SCHEMA name, …`: rights to the schema alone.
    Schemas(Vec<String>),
    /// `KEYSPACE name, …`: CQL's rights to the keyspace and to all tables and views in it, later ones too.
    Keyspaces(Vec<String>),
}
