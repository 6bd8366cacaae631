//! Roles, and what they may do with keyspaces, tables, views and columns.
//!
//! The rules are PostgreSQL's: an owner may do everything with what it owns, a superuser with everything; a right comes
//! by a grant to the role itself, to a role that it is a member of, or to `PUBLIC`. CQL's grants of the rights of tables
//! to whole keyspaces are grants, too, and are held by every table and view of the keyspace.
//!
//! A catalog without roles knows one user, who may do everything.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Catalog, ColumnId, TableDef, TableId, ViewDef};
use crate::types::TypeId;

/// Identifies a role for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RoleId(pub u32);

/// As whom statements run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Principal {
    /// The owner of the database, who may do everything: an embedding program, and every client of a database without
    /// roles.
    #[default]
    Owner,
    /// A role.
    Role(RoleId),
}

/// A user or a group of users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleDef {
    /// Never reused.
    pub id: RoleId,
    /// Unique.
    pub name: String,
    /// Whether it may do everything.
    pub superuser: bool,
    /// Whether a client may connect as it.
    pub login: bool,
    /// Whether it may make, change and drop roles that are no superusers.
    pub create_role: bool,
    /// Whether it may make keyspaces (PostgreSQL's CREATEDB).
    pub create_keyspace: bool,
    /// Whether it has the rights of the roles that it is a member of without SET ROLE.
    pub inherit: bool,
    /// What a password is checked with, `SCRAM-SHA-256$…`; the password itself is kept nowhere.
    pub password: Option<String>,
    /// Clients that may be connected as it at a time.
    pub connection_limit: Option<u32>,
    /// Until when its password is good: microseconds since 1970.
    pub valid_until: Option<i64>,
    /// The roles that it is a member of, and whether it may make others members, too.
    pub member_of: BTreeMap<RoleId, bool>,
}

/// What may be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// To read rows.
    Select,
    /// To insert rows.
    Insert,
    /// To change rows.
    Update,
    /// To delete rows.
    Delete,
    /// To empty a table.
    Truncate,
    /// To use what is in a keyspace.
    Usage,
    /// To make tables and views in a keyspace.
    Create,
}

/// What a right is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Object {
    /// A keyspace: [`Right::Usage`] and [`Right::Create`] of it; the others of every table and view in it.
    Keyspace(String),
    /// A table or view.
    Relation(TableId),
    /// One column of a table.
    Column(TableId, ColumnId),
}

/// A right that someone has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// About what.
    pub object: Object,
    /// Whose; none: everybody's (`PUBLIC`).
    pub grantee: Option<RoleId>,
    /// What.
    pub right: Right,
    /// Who gave it, by its own grant option; none: the object's owner, or a superuser in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grantor: Option<RoleId>,
}

/// The roles of a database and their rights. Without roles it is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rights {
    /// By id.
    pub roles: BTreeMap<RoleId, RoleDef>,
    /// Next unused id.
    pub next_role: u32,
    /// Owners of keyspaces; others belong to the superusers.
    pub keyspaces: BTreeMap<String, RoleId>,
    /// Owners of tables and views; others belong to the superusers.
    pub relations: BTreeMap<TableId, RoleId>,
    /// Every grant, and whether the grantee may grant it to others. Kept as pairs, since JSON's names are texts.
    #[serde(with = "pairs")]
    pub grants: BTreeMap<Grant, bool>,
}

mod pairs {
    use super::{BTreeMap, Grant};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(map: &BTreeMap<Grant, bool>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Grant, bool>, D::Error> {
        Ok(Vec::<(Grant, bool)>::deserialize(deserializer)?.into_iter().collect())
    }
}

impl Right {
    /// All, in PostgreSQL's order.
    pub const ALL: [Right; 7] =
        [Right::Insert, Right::Select, Right::Update, Right::Delete, Right::Truncate, Right::Usage, Right::Create];

    /// Its word in GRANT.
    pub fn name(self) -> &'static str {
        match self {
            Right::Select => "SELECT",
            Right::Insert => "INSERT",
            Right::Update => "UPDATE",
            Right::Delete => "DELETE",
            Right::Truncate => "TRUNCATE",
            Right::Usage => "USAGE",
            Right::Create => "CREATE",
        }
    }

    /// Its letter in PostgreSQL's access lists.
    pub fn letter(self) -> char {
        match self {
            Right::Select => 'r',
            Right::Insert => 'a',
            Right::Update => 'w',
            Right::Delete => 'd',
            Right::Truncate => 'D',
            Right::Usage => 'U',
            Right::Create => 'C',
        }
    }

    /// Whether it is a right on rows, which a table, view or whole keyspace may have.
    pub fn is_of_relations(self) -> bool {
        !matches!(self, Right::Usage | Right::Create)
    }

    /// Whether a single column may have it.
    pub fn is_of_columns(self) -> bool {
        matches!(self, Right::Select | Right::Insert | Right::Update)
    }
}

impl Rights {
    /// Whether there are roles: then a client must be one.
    pub fn has_roles(&self) -> bool {
        !self.roles.is_empty()
    }

    /// Whether there have never been roles.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Rights::default()
    }

    /// Gives what belongs to a keyspace to its new name.
    pub fn rename_keyspace(&mut self, from: &str, to: &str) {
        if let Some(owner) = self.keyspaces.remove(from) {
            self.keyspaces.insert(to.into(), owner);
        }
        let renamed = |(mut grant, grantable): (Grant, bool)| {
            if grant.object == Object::Keyspace(from.into()) {
                grant.object = Object::Keyspace(to.into());
            }
            (grant, grantable)
        };
        self.grants = std::mem::take(&mut self.grants).into_iter().map(renamed).collect();
    }

    /// The role of this name.
    pub fn role(&self, name: &str) -> Option<&RoleDef> {
        self.roles.values().find(|role| role.name == name)
    }

    /// Adds a role of this name that may do nothing yet, not even connect.
    pub fn add_role(&mut self, name: &str) -> RoleId {
        if self.roles.is_empty() {
            // As in PostgreSQL 15: everybody sees what is in `public`, and its owner says who makes tables there.
            let public = Object::Keyspace("public".into());
            let grant = Grant { object: public, grantee: None, right: Right::Usage, grantor: None };
            self.grants.insert(grant, false);
        }
        self.next_role += 1;
        let id = RoleId(self.next_role);
        let role = RoleDef {
            id,
            name: name.into(),
            superuser: false,
            login: false,
            create_role: false,
            create_keyspace: false,
            inherit: true,
            password: None,
            connection_limit: None,
            valid_until: None,
            member_of: BTreeMap::new(),
        };
        self.roles.insert(id, role);
        id
    }

    /// Whether everything is allowed to it.
    pub fn is_superuser(&self, principal: Principal) -> bool {
        match principal {
            Principal::Owner => true,
            Principal::Role(id) => self.roles.get(&id).is_some_and(|role| role.superuser),
        }
    }

    /// The roles whose rights a role has without SET ROLE: itself, and those it inherits from.
    pub fn inherited(&self, role: RoleId) -> BTreeSet<RoleId> {
        self.closure(role, |role| role.inherit)
    }

    /// The roles that a role may become by SET ROLE.
    pub fn memberships(&self, role: RoleId) -> BTreeSet<RoleId> {
        self.closure(role, |_| true)
    }

    fn closure(&self, role: RoleId, follows: impl Fn(&RoleDef) -> bool) -> BTreeSet<RoleId> {
        let (mut all, mut open) = (BTreeSet::new(), vec![role]);
        while let Some(id) = open.pop() {
            let Some(role) = self.roles.get(&id).filter(|_| all.insert(id)) else { continue };
            if follows(role) {
                open.extend(role.member_of.keys());
            }
        }
        all
    }

    /// Whether a role may make others members of `of`.
    pub fn may_admit(&self, principal: Principal, of: RoleId) -> bool {
        let Principal::Role(id) = principal else { return true };
        let inherited = self.inherited(id);
        let admits = |role: &RoleDef| role.member_of.get(&of) == Some(&true);
        self.is_superuser(principal) || inherited.iter().filter_map(|id| self.roles.get(id)).any(admits)
    }

    fn owner(&self, object: &Object) -> Option<RoleId> {
        match object {
            Object::Keyspace(name) => self.keyspaces.get(name).copied(),
            Object::Relation(id) | Object::Column(id, _) => self.relations.get(id).copied(),
        }
    }
}

/// Whether one of these, or everybody, was granted a right to just this object.
fn holds(
    grants: &BTreeMap<Grant, bool>,
    who: &BTreeSet<RoleId>,
    object: &Object,
    right: Right,
    grantable: bool,
) -> bool {
    std::iter::once(None).chain(who.iter().copied().map(Some)).any(|grantee| {
        let first = Grant { object: object.clone(), grantee, right, grantor: None };
        let last = Grant { grantor: Some(RoleId(u32::MAX)), ..first.clone() };
        grants.range(first..=last).any(|(_, grants_on)| *grants_on || !grantable)
    })
}

impl Catalog {
    /// Whether the principal owns the object: may change and drop it, and grant rights to it.
    pub fn owns(&self, principal: Principal, object: &Object) -> bool {
        let Principal::Role(id) = principal else { return true };
        let owner = self.rights.owner(object);
        self.rights.is_superuser(principal) || owner.is_some_and(|owner| self.rights.inherited(id).contains(&owner))
    }

    /// Whether the principal has a right to an object.
    pub fn allows(&self, principal: Principal, object: &Object, right: Right) -> bool {
        let Principal::Role(id) = principal else { return true };
        if self.owns(principal, object) {
            return true;
        }
        let who = self.rights.inherited(id);
        // A role that was dropped while its clients are connected.
        !who.is_empty() && self.granted(&self.rights.grants, &who, object, right, false)
    }

    /// Whether these grants give a right to one of these roles: for the object, or for what it is a part of.
    fn granted(
        &self,
        grants: &BTreeMap<Grant, bool>,
        who: &BTreeSet<RoleId>,
        object: &Object,
        right: Right,
        grantable: bool,
    ) -> bool {
        let mut granted = holds(grants, who, object, right, grantable);
        if let Object::Column(table, _) = object {
            granted |= holds(grants, who, &Object::Relation(*table), right, grantable);
        }
        if let Object::Relation(relation) | Object::Column(relation, _) = object
            && right.is_of_relations()
            && let Some(keyspace) = self.keyspace_of(*relation)
        {
            granted |= holds(grants, who, &Object::Keyspace(keyspace.into()), right, grantable);
        }
        granted
    }

    /// As whom the principal grants a right to an object: as its owner (`Some(None)`), or as the role that has the grant
    /// option. `None` if it may not.
    pub fn grantor(&self, principal: Principal, object: &Object, right: Right) -> Option<Option<RoleId>> {
        let Principal::Role(id) = principal else { return Some(None) };
        if self.owns(principal, object) {
            return Some(None);
        }
        let able = |role: &RoleId| self.granted(&self.rights.grants, &BTreeSet::from([*role]), object, right, true);
        let inherited = self.rights.inherited(id);
        std::iter::once(id).filter(|id| inherited.contains(id)).chain(inherited.iter().copied()).find(able).map(Some)
    }

    /// The grants whose grantors have no grant option themselves: what a REVOKE has left without ground, or a role that was
    /// dropped.
    pub fn groundless_grants(&self) -> BTreeSet<Grant> {
        let mut grounded: BTreeMap<Grant, bool> = BTreeMap::new();
        let mut open: Vec<(&Grant, &bool)> = self.rights.grants.iter().collect();
        loop {
            let has_ground = |grant: &Grant| {
                grant.grantor.is_none_or(|grantor| {
                    self.rights.owner(&grant.object) == Some(grantor)
                        || self.granted(&grounded, &BTreeSet::from([grantor]), &grant.object, grant.right, true)
                })
            };
            let (now, later): (Vec<_>, Vec<_>) = open.into_iter().partition(|(grant, _)| has_ground(grant));
            if now.is_empty() {
                return later.into_iter().map(|(grant, _)| grant.clone()).collect();
            }
            grounded.extend(now.into_iter().map(|(grant, grantable)| (grant.clone(), *grantable)));
            open = later;
        }
    }

    /// Whether the principal may name what is in a keyspace: it has USAGE, or a right to everything there.
    pub fn may_use(&self, principal: Principal, keyspace: &str) -> bool {
        let object = Object::Keyspace(keyspace.into());
        Right::ALL.into_iter().any(|right| right != Right::Create && self.allows(principal, &object, right))
    }

    /// Whether some column of the table was granted apart from the others.
    pub fn has_column_grants(&self, table: TableId) -> bool {
        self.rights.grants.keys().any(|grant| matches!(grant.object, Object::Column(id, _) if id == table))
    }

    /// Whether the principal has any right to a table or view, or to a column of it.
    pub fn may_see(&self, principal: Principal, relation: TableId) -> bool {
        let Principal::Role(id) = principal else { return true };
        let object = Object::Relation(relation);
        if Right::ALL.into_iter().any(|right| self.allows(principal, &object, right)) {
            return true;
        }
        let who = self.rights.inherited(id);
        self.rights.grants.keys().any(|grant| {
            let its = matches!(grant.object, Object::Column(id, _) if id == relation);
            its && grant.grantee.is_none_or(|grantee| who.contains(&grantee))
        })
    }

    /// The catalog as the principal may see it: without tables and views that it has no right to.
    pub fn seen_by(&self, principal: Principal) -> Catalog {
        let mut seen = self.clone();
        seen.tables.retain(|id, _| self.may_see(principal, *id));
        seen.views.retain(|id, _| self.may_see(principal, *id));
        seen
    }

    /// Forgets owners and grants of what is no longer there.
    pub(super) fn forget_rights_of_dropped(&mut self) {
        let (tables, views, sequences, keyspaces) = (&self.tables, &self.views, &self.sequences, &self.keyspaces);
        let types = &self.types;
        let relation = |id: &TableId| {
            let known = tables.contains_key(id) || views.contains_key(id);
            known || sequences.contains_key(id) || types.contains_key(&TypeId(id.0))
        };
        let column = |id: &TableId, column| tables.get(id).is_some_and(|table| has_column(table, column));
        self.rights.relations.retain(|id, _| relation(id));
        self.rights.keyspaces.retain(|name, _| keyspaces.contains_key(name));
        self.rights.grants.retain(|grant, _| match &grant.object {
            Object::Keyspace(name) => keyspaces.contains_key(name),
            Object::Relation(id) => relation(id),
            Object::Column(id, of) => column(id, *of),
        });
    }

    fn keyspace_of(&self, relation: TableId) -> Option<&str> {
        let table = self.tables.get(&relation).map(|table: &std::sync::Arc<TableDef>| table.keyspace.as_str());
        table.or_else(|| self.views.get(&relation).map(|view: &std::sync::Arc<ViewDef>| view.keyspace.as_str()))
    }
}

fn has_column(table: &TableDef, column: ColumnId) -> bool {
    table.column_by_id(column).is_some() || table.families.iter().any(|family| family.value.id == column)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn catalog() -> (Catalog, TableId, [RoleId; 3]) {
        let mut catalog = Catalog::initial();
        let id = catalog.new_table_id();
        let view = ViewDef {
            id,
            keyspace: "public".into(),
            name: "v".into(),
            columns: Vec::new(),
            sql: "SELECT 1".into(),
            search_path: Vec::new(),
            columns_before: None,
            materialized: None,
        };
        catalog.views.insert(id, Arc::new(view));
        let roles = ["ann", "team", "bob"].map(|name| catalog.rights.add_role(name));
        (catalog, id, roles)
    }

    fn grant(catalog: &mut Catalog, object: Object, grantee: Option<RoleId>, right: Right, grantable: bool) {
        catalog.rights.grants.insert(Grant { object, grantee, right, grantor: None }, grantable);
    }

    #[test]
    fn rights_come_by_ownership_grants_and_membership() {
        let (mut catalog, id, [ann, team, bob]) = catalog();
        let object = Object::Relation(id);
        let allowed = |catalog: &Catalog, role| catalog.allows(Principal::Role(role), &object, Right::Select);
        assert!(!allowed(&catalog, ann) && catalog.allows(Principal::Owner, &object, Right::Select));
        grant(&mut catalog, object.clone(), Some(team), Right::Select, false);
        catalog.rights.roles.get_mut(&ann).expect("ann").member_of.insert(team, false);
        assert!(allowed(&catalog, ann) && !allowed(&catalog, bob));
        assert!(!catalog.allows(Principal::Role(ann), &object, Right::Insert));
        assert_eq!(catalog.grantor(Principal::Role(ann), &object, Right::Select), None);
        catalog.rights.roles.get_mut(&ann).expect("ann").inherit = false;
        assert!(!allowed(&catalog, ann) && catalog.rights.memberships(ann).contains(&team));
        catalog.rights.relations.insert(id, bob);
        assert!(allowed(&catalog, bob));
        assert_eq!(catalog.grantor(Principal::Role(bob), &object, Right::Delete), Some(None));
        grant(&mut catalog, Object::Keyspace("public".into()), None, Right::Select, false);
        assert!(allowed(&catalog, ann));
    }

    #[test]
    fn circles_of_members_end_and_a_dropped_role_may_do_nothing() {
        let (mut catalog, id, [ann, team, _]) = catalog();
        catalog.rights.roles.get_mut(&ann).expect("ann").member_of.insert(team, true);
        catalog.rights.roles.get_mut(&team).expect("team").member_of.insert(ann, false);
        assert_eq!(catalog.rights.inherited(ann), BTreeSet::from([ann, team]));
        assert!(catalog.rights.may_admit(Principal::Role(ann), team));
        let gone = Principal::Role(RoleId(99));
        assert!(!catalog.rights.is_superuser(gone) && !catalog.may_see(gone, id));
    }

    #[test]
    fn grants_stand_on_grants() {
        let (mut catalog, id, [ann, team, bob]) = catalog();
        let object = Object::Relation(id);
        let by =
            |grantee, grantor| Grant { object: object.clone(), grantee: Some(grantee), right: Right::Select, grantor };
        // The owner to ann, ann to team, team to bob and back to ann.
        catalog.rights.grants.insert(by(ann, None), true);
        catalog.rights.grants.insert(by(team, Some(ann)), true);
        catalog.rights.grants.insert(by(bob, Some(team)), false);
        catalog.rights.grants.insert(by(ann, Some(team)), true);
        assert!(catalog.groundless_grants().is_empty());
        assert_eq!(catalog.grantor(Principal::Role(team), &object, Right::Select), Some(Some(team)));
        catalog.rights.grants.remove(&by(ann, None));
        let groundless = catalog.groundless_grants();
        assert_eq!(groundless, BTreeSet::from([by(ann, Some(team)), by(team, Some(ann)), by(bob, Some(team))]));
        catalog.rights.relations.insert(id, ann);
        assert!(catalog.groundless_grants().is_empty());
    }

    #[test]
    fn what_is_dropped_takes_its_rights_with_it_and_definitions_survive_json() {
        let (mut catalog, id, [ann, ..]) = catalog();
        catalog.rights.relations.insert(id, ann);
        grant(&mut catalog, Object::Relation(id), Some(ann), Right::Select, true);
        let text = serde_json::to_string(&catalog).expect("as JSON");
        assert_eq!(serde_json::from_str::<Catalog>(&text).expect("from JSON"), catalog);
        catalog.views.remove(&id);
        catalog.forget_rights_of_dropped();
        assert!(catalog.rights.relations.is_empty());
        assert_eq!(catalog.rights.grants.len(), 1, "USAGE of public");
    }

    #[test]
    fn a_catalog_without_roles_is_written_as_before() {
        let text = serde_json::to_string(&Catalog::initial()).expect("as JSON");
        assert!(!text.contains("rights"), "{text}");
    }
}
