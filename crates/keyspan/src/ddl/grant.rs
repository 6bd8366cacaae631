//! GRANT, REVOKE and OWNER TO.

use std::collections::BTreeSet;

use keyspan_cql::{GrantObjects, GrantRights, GrantRoles, GrantedRight, ObjectName, RightWord, RoleName};
use keyspan_model::{
    Catalog, ColumnId, Error, ErrorKind, Grant, Object, Principal, Result, Right, RoleId, TableDef, TableId,
};

use super::role::{admit, check_may_admit, name_of};
use super::{Check, change_with};
use crate::context::{ClientContext, denied, expect_role};
use crate::names::{self, TableOrView};
use crate::outcome::{Outcome, Tag};
use crate::stores;

/// `GRANT` and `REVOKE` of memberships.
pub(crate) async fn roles(context: &mut ClientContext, statement: &GrantRoles) -> Result<Outcome> {
    let principal = context.principal();
    let members = statement.members.iter().map(|name| name_of(context, name)).collect::<Result<Vec<_>>>()?;
    change_with(context, Check::Done, |catalog| {
        for of in &statement.roles {
            let of = expect_role(catalog, of)?.id;
            for member in &members {
                let member = expect_role(catalog, member)?.id;
                match statement.revoke {
                    false => admit(catalog, principal, member, of, statement.admin)?,
                    true => dismiss(catalog, principal, member, of, statement.admin)?,
                }
            }
        }
        Ok(())
    })
    .await?;
    Ok(Outcome::done(Tag::plain(if statement.revoke { "REVOKE ROLE" } else { "GRANT ROLE" })))
}

/// Ends a membership, or only that the member may admit others.
fn dismiss(catalog: &mut Catalog, principal: Principal, member: RoleId, of: RoleId, admin_only: bool) -> Result<()> {
    check_may_admit(catalog, principal, of)?;
    let Some(member) = catalog.rights.roles.get_mut(&member) else { return Ok(()) };
    match member.member_of.get_mut(&of) {
        Some(admin) if admin_only => *admin = false,
        _ => drop(member.member_of.remove(&of)),
    }
    Ok(())
}

/// `GRANT` and `REVOKE` of rights.
pub(crate) async fn rights(context: &mut ClientContext, statement: &GrantRights) -> Result<Outcome> {
    let (principal, path) = (context.principal(), context.settings.search_path());
    let grantees = statement.grantees.iter().map(|name| match name {
        RoleName::Public => Ok(None),
        other => name_of(context, other).map(Some),
    });
    let grantees = grantees.collect::<Result<Vec<_>>>()?;
    if statement.grant_option && !statement.revoke && grantees.contains(&None) {
        let message = "grant options can only be granted to roles";
        return Err(Error::new(ErrorKind::InvalidGrantOperation, message));
    }
    change_with(context, Check::Done, |catalog| {
        let mut ids = Vec::with_capacity(grantees.len());
        for name in &grantees {
            ids.push(name.as_deref().map(|name| expect_role(catalog, name).map(|role| role.id)).transpose()?);
        }
        let groundless = catalog.groundless_grants();
        for (object, right) in targets(catalog, &path, statement)? {
            if catalog.is_attached_object(&object) {
                return Err(stores::read_only("grant rights to"));
            }
            let Some(grantor) = catalog.grantor(principal, &object, right) else {
                return Err(denied(format!("permission denied for {}", shown(catalog, &object))));
            };
            for grantee in &ids {
                let grant = Grant { object: object.clone(), grantee: *grantee, right, grantor };
                match statement.revoke {
                    false => *catalog.rights.grants.entry(grant).or_default() |= statement.grant_option,
                    true => revoke(catalog, &grant, statement.grant_option),
                }
            }
        }
        let dependent = &catalog.groundless_grants() - &groundless;
        if !dependent.is_empty() && !statement.cascade {
            return Err(dependent_grants(catalog, &dependent));
        }
        catalog.rights.grants.retain(|grant, _| !dependent.contains(grant));
        Ok(())
    })
    .await?;
    Ok(Outcome::done(Tag::plain(if statement.revoke { "REVOKE" } else { "GRANT" })))
}

/// Takes what this grant gives, or only its grant option. The owner takes what others have granted, too.
fn revoke(catalog: &mut Catalog, taken: &Grant, option_only: bool) {
    let is_taken = |grant: &Grant| {
        let same = grant.grantee == taken.grantee && grant.right == taken.right;
        let by = taken.grantor.is_none() || grant.grantor == taken.grantor;
        // With the right to a table those to its columns are taken, too.
        let within = match (&grant.object, &taken.object) {
            (Object::Column(table, _), Object::Relation(id)) => table == id,
            (object, taken) => object == taken,
        };
        same && by && within
    };
    let grants = &mut catalog.rights.grants;
    match option_only {
        true => grants.iter_mut().filter(|(grant, _)| is_taken(grant)).for_each(|(_, grantable)| *grantable = false),
        false => grants.retain(|grant, _| !is_taken(grant)),
    }
}

fn dependent_grants(catalog: &Catalog, dependent: &BTreeSet<Grant>) -> Error {
    let name = |id: Option<RoleId>| {
        let role = id.and_then(|id| catalog.rights.roles.get(&id));
        role.map_or_else(|| "PUBLIC".to_owned(), |role| format!("role {}", role.name))
    };
    let shown = dependent.iter().map(|grant| {
        let (from, to) = (name(grant.grantor), name(grant.grantee));
        format!("{from} has granted {} on {} to {to}", grant.right.name(), shown(catalog, &grant.object))
    });
    Error::new(ErrorKind::DependentObjects, "dependent privileges exist")
        .with_detail(shown.collect::<Vec<_>>().join("\n"))
        .with_hint("Use CASCADE to revoke them too.")
}

/// What is granted: each object with each right.
fn targets(catalog: &Catalog, path: &[String], statement: &GrantRights) -> Result<Vec<(Object, Right)>> {
    let mut targets = Vec::new();
    match &statement.objects {
        GrantObjects::Relations(relations) => {
            for name in relations {
                relation_targets(catalog, path, name, statement, &mut targets)?;
            }
        }
        GrantObjects::AllRelationsIn(keyspaces) => {
            for keyspace in keyspaces {
                names::expect_keyspace(catalog, keyspace)?;
                let tables = catalog.tables.values().filter(|table| table.keyspace == *keyspace).map(|table| table.id);
                let views = catalog.views.values().filter(|view| view.keyspace == *keyspace).map(|view| view.id);
                for id in tables.chain(views) {
                    targets.extend(whole(statement, Object::Relation(id), Right::is_of_relations, "table")?);
                }
            }
        }
        GrantObjects::Schemas(keyspaces) => {
            for keyspace in keyspaces {
                names::expect_keyspace(catalog, keyspace)?;
                let of_schema = |right: Right| !right.is_of_relations();
                targets.extend(whole(statement, Object::Keyspace(keyspace.clone()), of_schema, "schema")?);
            }
        }
        GrantObjects::Keyspaces(keyspaces) => {
            for keyspace in keyspaces {
                names::expect_keyspace(catalog, keyspace)?;
                targets.extend(whole(statement, Object::Keyspace(keyspace.clone()), |_| true, "keyspace")?);
            }
        }
    }
    Ok(targets)
}

fn relation_targets(
    catalog: &Catalog,
    path: &[String],
    name: &ObjectName,
    statement: &GrantRights,
    targets: &mut Vec<(Object, Right)>,
) -> Result<()> {
    let found = names::expect(catalog, path, name)?;
    let id = found.id();
    let Some(rights) = &statement.rights else {
        targets.extend(whole(statement, Object::Relation(id), Right::is_of_relations, "table")?);
        return Ok(());
    };
    for GrantedRight { right, columns } in rights {
        for right in rights_of(*right) {
            check_kind(right, Right::is_of_relations, "table")?;
            if columns.is_empty() {
                targets.push((Object::Relation(id), right));
            }
            for column in columns {
                check_kind(right, Right::is_of_columns, "column")?;
                targets.push((Object::Column(id, column_of(&found, column)?), right));
            }
        }
    }
    Ok(())
}

fn column_of(relation: &TableOrView, name: &str) -> Result<ColumnId> {
    let TableOrView::Table(table) = relation else {
        return Err(Error::not_supported("privileges on columns of a view are not supported")
            .with_hint("Make a view of those columns and grant it."));
    };
    member_id(table, name).map_or_else(|| table.expect_column(name).map(|column| column.id), Ok)
}

/// The id of a column, or of a family as grants name it.
fn member_id(table: &TableDef, name: &str) -> Option<ColumnId> {
    let family = || table.family(name).map(|family| family.value.id);
    table.column(name).map(|column| column.id).or_else(family)
}

/// The statement's rights to the whole of an object.
fn whole(
    statement: &GrantRights,
    object: Object,
    fits: impl Fn(Right) -> bool,
    kind: &str,
) -> Result<Vec<(Object, Right)>> {
    let Some(rights) = &statement.rights else {
        let all = Right::ALL.into_iter().filter(|right| fits(*right));
        return Ok(all.map(|right| (object.clone(), right)).collect());
    };
    let mut targets = Vec::new();
    for GrantedRight { right, columns } in rights {
        if !columns.is_empty() {
            return Err(Error::new(ErrorKind::Syntax, "column privileges are only valid for tables"));
        }
        for right in rights_of(*right) {
            check_kind(right, &fits, kind)?;
            targets.push((object.clone(), right));
        }
    }
    Ok(targets)
}

fn check_kind(right: Right, fits: impl Fn(Right) -> bool, kind: &str) -> Result<()> {
    if fits(right) {
        return Ok(());
    }
    let message = format!("invalid privilege type {} for {kind}", right.name());
    let error = Error::new(ErrorKind::InvalidParameter, message);
    Err(match kind {
        "schema" => error.with_hint("Write ON KEYSPACE for a right to all tables in it, or ON ALL TABLES IN SCHEMA."),
        _ => error,
    })
}

fn rights_of(word: RightWord) -> Vec<Right> {
    match word {
        RightWord::Select => vec![Right::Select],
        RightWord::Insert => vec![Right::Insert],
        RightWord::Update => vec![Right::Update],
        RightWord::Delete => vec![Right::Delete],
        RightWord::Truncate => vec![Right::Truncate],
        RightWord::Usage => vec![Right::Usage],
        RightWord::Create => vec![Right::Create],
        RightWord::Modify => vec![Right::Insert, Right::Update, Right::Delete, Right::Truncate],
    }
}

/// An object as messages name it.
fn shown(catalog: &Catalog, object: &Object) -> String {
    match object {
        Object::Keyspace(name) => format!("schema {name}"),
        Object::Relation(id) | Object::Column(id, _) => {
            catalog.kind_and_name(*id).map(|(kind, name)| format!("{kind} {name}")).unwrap_or_default()
        }
    }
}

/// `OWNER TO role` of what `find` finds in the catalog: for its owner, who must be a member of the new one.
pub(super) async fn change_owner(
    context: &mut ClientContext,
    role: &RoleName,
    find: impl Fn(&Catalog) -> Result<Object>,
) -> Result<()> {
    let principal = context.principal();
    let role = name_of(context, role)?;
    change_with(context, Check::Done, |catalog| {
        let object = find(catalog)?;
        set_owner(catalog, principal, &object, &role)
    })
    .await
}

/// Gives an object another owner.
///
/// # Errors
/// 42704 for no such role; 42501 for who does not own it, or could not give it up to this role.
pub(super) fn set_owner(catalog: &mut Catalog, principal: Principal, object: &Object, role: &str) -> Result<()> {
    // Without roles there is one user, who owns everything whatever its name: scripts of pg_dump name it.
    if !catalog.rights.has_roles() {
        return Ok(());
    }
    let owner = expect_role(catalog, role)?.id;
    if catalog.is_attached_object(object) {
        return Err(stores::read_only("change"));
    }
    if !catalog.owns(principal, object) {
        return Err(denied(format!("must be owner of {}", shown(catalog, object))));
    }
    let member = match principal {
        Principal::Owner => true,
        Principal::Role(id) => catalog.rights.memberships(id).contains(&owner),
    };
    if !member && !catalog.rights.is_superuser(principal) {
        return Err(denied(format!("must be member of role \"{role}\"")));
    }
    match object {
        Object::Keyspace(name) => drop(catalog.rights.keyspaces.insert(name.clone(), owner)),
        Object::Relation(id) | Object::Column(id, _) => {
            // The sequences of its columns go with a table.
            let owned = catalog.sequences.values().filter(|each| each.owned_by.is_some_and(|(table, _)| table == *id));
            let all: Vec<TableId> = owned.map(|sequence| sequence.id).chain([*id]).collect();
            catalog.rights.relations.extend(all.into_iter().map(|id| (id, owner)));
        }
    }
    Ok(())
}
