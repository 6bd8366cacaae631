//! CREATE, ALTER and DROP ROLE.

use keyspan_cql::{AlterRole, CreateRole, DropRole, RoleName, RoleOption};
use keyspan_model::{Catalog, ColumnType, Error, ErrorKind, Principal, Result, RoleDef, RoleId, Value};

use super::{Check, change_with, skipping};
use crate::context::{ClientContext, denied, expect_role};
use crate::outcome::{Notice, Outcome, Tag};
use crate::password;

/// `CREATE ROLE`.
pub(crate) async fn create(context: &mut ClientContext, statement: &CreateRole) -> Result<Outcome> {
    let changes = changes(context, &statement.options)?;
    let principal = context.principal();
    let created = change_with(context, Check::Done, |catalog| {
        if catalog.rights.role(&statement.name).is_some() {
            return match statement.if_not_exists {
                true => Ok(false),
                false => {
                    let message = format!("role \"{}\" already exists", statement.name);
                    Err(Error::new(ErrorKind::DuplicateObject, message))
                }
            };
        }
        if !may_create(catalog, principal) {
            return Err(denied("permission denied to create role"));
        }
        let id = catalog.rights.add_role(&statement.name);
        apply(catalog, principal, id, &changes)?;
        for of in &statement.member_of {
            let of = expect_role(catalog, of)?.id;
            admit(catalog, principal, id, of, false)?;
        }
        for (member, admin) in &statement.members {
            let member = expect_role(catalog, member)?.id;
            admit(catalog, principal, member, id, *admin)?;
        }
        Ok(true)
    });
    match created.await? {
        true => {
            context.makes_first_role();
            warn_of_lockout(context);
        }
        false => skipping(context, "role", &statement.name),
    }
    Ok(Outcome::done(Tag::plain("CREATE ROLE")))
}

/// `ALTER ROLE`.
pub(crate) async fn alter(context: &mut ClientContext, statement: &AlterRole) -> Result<Outcome> {
    let changes = changes(context, &statement.options)?;
    let principal = context.principal();
    let name = name_of(context, &statement.role)?;
    let found = change_with(context, Check::Done, |catalog| {
        if statement.if_exists && catalog.rights.role(&name).is_none() {
            return Ok(false);
        }
        let id = expect_role(catalog, &name)?.id;
        let own_password =
            matches!(statement.options.as_slice(), [RoleOption::Password(_)]) && principal == Principal::Role(id);
        if !own_password {
            check_may_change(catalog, principal, id)?;
        }
        apply(catalog, principal, id, &changes)?;
        if let Some(new) = &statement.rename_to {
            if catalog.rights.role(new).is_some() {
                return Err(Error::new(ErrorKind::DuplicateObject, format!("role \"{new}\" already exists")));
            }
            if let Some(role) = catalog.rights.roles.get_mut(&id) {
                role.name.clone_from(new);
            }
        }
        Ok(true)
    });
    if !found.await? {
        context.notice(Notice::plain(format!("role \"{name}\" does not exist, skipping")));
    }
    context.settings_changed();
    Ok(Outcome::done(Tag::plain("ALTER ROLE")))
}

/// `DROP ROLE`: what was granted to it goes with it, what it owns must be another's first.
pub(crate) async fn drop(context: &mut ClientContext, statement: &DropRole) -> Result<Outcome> {
    let (principal, session) = (context.principal(), context.session_role());
    let missed = change_with(context, Check::Done, |catalog| {
        let mut missed = Vec::new();
        for name in &statement.names {
            if statement.if_exists && catalog.rights.role(name).is_none() {
                missed.push(name.clone());
                continue;
            }
            let id = expect_role(catalog, name)?.id;
            check_may_change(catalog, principal, id)?;
            if [principal, session].contains(&Principal::Role(id)) {
                return Err(Error::new(ErrorKind::ObjectInUse, "current user cannot be dropped"));
            }
            remove(catalog, id, name)?;
        }
        Ok(missed)
    });
    for name in missed.await? {
        context.notice(Notice::plain(format!("role \"{name}\" does not exist, skipping")));
    }
    Ok(Outcome::done(Tag::plain("DROP ROLE")))
}

/// Makes `member` a member of `of`.
///
/// # Errors
/// 42501 for who may not, 22023 for a circle.
pub(super) fn admit(
    catalog: &mut Catalog,
    principal: Principal,
    member: RoleId,
    of: RoleId,
    admin: bool,
) -> Result<()> {
    check_may_admit(catalog, principal, of)?;
    if catalog.rights.memberships(of).contains(&member) {
        let name = |id: &RoleId| catalog.rights.roles.get(id).map_or("", |role| role.name.as_str());
        let message = format!("role \"{}\" is a member of role \"{}\"", name(&of), name(&member));
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    if let Some(member) = catalog.rights.roles.get_mut(&member) {
        *member.member_of.entry(of).or_default() |= admin;
    }
    Ok(())
}

/// Fails with 42501 unless the principal may say who is a member of this role.
pub(super) fn check_may_admit(catalog: &Catalog, principal: Principal, of: RoleId) -> Result<()> {
    let Some(role) = catalog.rights.roles.get(&of) else { return Ok(()) };
    let may = match may_be_superuser(catalog, of) {
        true => catalog.rights.is_superuser(principal),
        false => may_create(catalog, principal) || catalog.rights.may_admit(principal, of),
    };
    match may {
        true => Ok(()),
        false => Err(denied(format!("must have admin option on role \"{}\"", role.name))),
    }
}

/// The name that the statement means.
pub(super) fn name_of(context: &ClientContext, role: &RoleName) -> Result<String> {
    match role {
        RoleName::Named(name) => Ok(name.clone()),
        RoleName::Current => Ok(context.current_user()),
        RoleName::Session => Ok(context.user().to_owned()),
        RoleName::Public => Err(Error::new(ErrorKind::UndefinedObject, "role \"public\" does not exist")),
    }
}

fn may_create(catalog: &Catalog, principal: Principal) -> bool {
    let role = match principal {
        Principal::Owner => return true,
        Principal::Role(id) => catalog.rights.roles.get(&id),
    };
    role.is_some_and(|role| role.superuser || role.create_role)
}

/// Whether it is a superuser, or may SET ROLE to one.
fn may_be_superuser(catalog: &Catalog, role: RoleId) -> bool {
    let roles = catalog.rights.memberships(role);
    roles.into_iter().any(|id| catalog.rights.is_superuser(Principal::Role(id)))
}

fn check_may_change(catalog: &Catalog, principal: Principal, id: RoleId) -> Result<()> {
    if may_be_superuser(catalog, id) && !catalog.rights.is_superuser(principal) {
        return Err(denied("must be superuser to alter superusers"));
    }
    if may_create(catalog, principal) { Ok(()) } else { Err(denied("permission denied")) }
}

/// What a statement makes of a role: each option with the value that is kept.
fn changes(context: &ClientContext, options: &[RoleOption]) -> Result<Vec<RoleChange>> {
    options.iter().map(|option| change_of(context, option)).collect()
}

/// A change of one property.
type RoleChange = Box<dyn Fn(&mut RoleDef) + Send + Sync>;

fn change_of(context: &ClientContext, option: &RoleOption) -> Result<RoleChange> {
    Ok(match *option {
        RoleOption::Superuser(value) => Box::new(move |role| role.superuser = value),
        RoleOption::Login(value) => Box::new(move |role| role.login = value),
        RoleOption::CreateRole(value) => Box::new(move |role| role.create_role = value),
        RoleOption::CreateKeyspace(value) => Box::new(move |role| role.create_keyspace = value),
        RoleOption::Inherit(value) => Box::new(move |role| role.inherit = value),
        RoleOption::ConnectionLimit(limit) => Box::new(move |role| role.connection_limit = limit),
        RoleOption::Password(ref password) => {
            let verifier = password.as_deref().map(password::verifier).transpose()?;
            Box::new(move |role| role.password.clone_from(&verifier))
        }
        RoleOption::ValidUntil(ref text) => {
            let until = time(context, text)?;
            Box::new(move |role| role.valid_until = until)
        }
    })
}

/// Microseconds since 1970; none for `infinity`.
fn time(context: &ClientContext, text: &str) -> Result<Option<i64>> {
    if text.eq_ignore_ascii_case("infinity") {
        return Ok(None);
    }
    let zone = context.zone();
    let resolve = |name: Option<&str>, local| zone.resolve(name, local);
    match Value::Text(text.to_owned()).cast_zoned(ColumnType::Timestamp, &resolve)? {
        Value::Timestamp(micros) => Ok(Some(micros)),
        _ => Err(Error::new(ErrorKind::InvalidDatetime, format!("invalid time: \"{text}\""))),
    }
}

fn apply(catalog: &mut Catalog, principal: Principal, id: RoleId, changes: &[RoleChange]) -> Result<()> {
    let by_superuser = catalog.rights.is_superuser(principal);
    let Some(role) = catalog.rights.roles.get_mut(&id) else { return Ok(()) };
    let was_superuser = role.superuser;
    changes.iter().for_each(|change| change(role));
    match role.superuser && !was_superuser && !by_superuser {
        true => Err(denied("must be superuser to create superusers")),
        false => Ok(()),
    }
}

fn remove(catalog: &mut Catalog, id: RoleId, name: &str) -> Result<()> {
    let rights = &catalog.rights;
    let keyspace = rights.keyspaces.iter().find(|(_, owner)| **owner == id).map(|(name, _)| format!("schema {name}"));
    let relation = rights
        .relations
        .iter()
        .find(|(_, owner)| **owner == id)
        .map(|(id, _)| catalog.kind_and_name(*id).map(|(kind, name)| format!("{kind} {name}")).unwrap_or_default());
    if let Some(owned) = keyspace.or(relation) {
        let message = format!("role \"{name}\" cannot be dropped because some objects depend on it");
        let error = Error::new(ErrorKind::DependentObjects, message).with_detail(format!("owner of {owned}"));
        return Err(error.with_hint("Write ALTER … OWNER TO, or drop them."));
    }
    catalog.rights.roles.remove(&id);
    for role in catalog.rights.roles.values_mut() {
        role.member_of.remove(&id);
    }
    catalog.rights.grants.retain(|grant, _| grant.grantee != Some(id));
    let groundless = catalog.groundless_grants();
    catalog.rights.grants.retain(|grant, _| !groundless.contains(grant));
    Ok(())
}

/// Once there are roles every client must be one.
fn warn_of_lockout(context: &mut ClientContext) {
    let catalog = context.catalog();
    let able = |role: &RoleDef| role.superuser && role.login && role.password.is_some();
    if context.session_role() == Principal::Owner && !catalog.rights.roles.values().any(able) {
        let message = "from now on clients must log in as a role, and there is no superuser with LOGIN and a password";
        let hint = "CREATE ROLE name SUPERUSER LOGIN PASSWORD '…', or keyspan role create --data DIR name";
        context.notice(Notice { hint: Some(hint.into()), ..Notice::warning("01000", message) });
    }
}
