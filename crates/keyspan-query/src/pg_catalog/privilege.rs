//! `has_table_privilege` and its kin: what is asked about must exist, and the privilege must be one that such a thing
//! has. Privileges of PostgreSQL that Keyspan does not know are the owner's.

use keyspan_model::{ColumnId, ColumnType, Error, ErrorKind, Object, Principal, Result, Right, TableId, Value};

use super::functions::{number, text};
use super::source::{Class, DATABASE, Source, shown, table_oid};
use crate::functions::{Call, Code, Overload, Parameter};

use ColumnType as C;

const T: Parameter = Parameter::Is(C::Text);
const N: Parameter = Parameter::Is(C::BigInt);
const I: Parameter = Parameter::Is(C::Int);

const TABLE: &[&str] = &["select", "insert", "update", "delete", "truncate", "references", "trigger", "maintain"];
const COLUMN: &[&str] = &["select", "insert", "update", "references"];
const SCHEMA: &[&str] = &["create", "usage"];
const DATABASES: &[&str] = &["create", "connect", "temporary", "temp"];
const ROLE: &[&str] = &["usage", "member", "set"];

/// The functions: `name([user,] thing, privilege)`.
pub fn add(all: &mut Vec<Overload>) {
    let mut add = |name, parameters, code: Code| all.push(Overload::new(name, parameters, C::Boolean, code).stable());
    let things: [(&str, Code); 4] = [
        ("has_table_privilege", |call, v| on_table(call, v, TABLE)),
        ("has_any_column_privilege", |call, v| on_table(call, v, COLUMN)),
        ("has_schema_privilege", on_schema),
        ("has_database_privilege", on_database),
    ];
    for (name, code) in things {
        for parameters in [&[T, T][..], &[N, T], &[T, T, T], &[T, N, T], &[N, T, T], &[N, N, T]] {
            add(name, parameters, code);
        }
    }
    for parameters in [&[T, T, T][..], &[N, T, T], &[T, I, T], &[N, I, T], &[T, T, T, T], &[T, N, T, T], &[T, N, I, T]]
    {
        add("has_column_privilege", parameters, on_column);
    }
    for parameters in [&[T, T][..], &[N, T], &[T, T, T], &[T, N, T], &[N, N, T]] {
        add("pg_has_role", parameters, on_role);
    }
    for parameters in [&[T, T][..], &[N, T], &[T, T, T], &[T, N, T]] {
        add("has_function_privilege", parameters, |_, v| words(v, &["execute"]).map(|_| Value::Boolean(true)));
        add("has_type_privilege", parameters, |_, v| words(v, &["usage"]).map(|_| Value::Boolean(true)));
    }
}

/// The privileges that the last argument lists, and whether each is asked for with its grant option.
fn words(values: &[Value], known: &[&str]) -> Result<Vec<(String, bool)>> {
    let asked = values.last().and_then(text).unwrap_or_default();
    let word = |each: &str| {
        let word = each.trim().to_lowercase();
        let bare = word.trim_end_matches(" with grant option").trim_end_matches(" with admin option");
        if known.contains(&bare) {
            return Ok((bare.to_owned(), bare.len() < word.len()));
        }
        let message = format!("unrecognized privilege type: \"{}\"", each.trim());
        Err(Error::new(ErrorKind::InvalidParameter, message))
    };
    asked.split(',').map(word).collect()
}

/// Whether the principal has one of the privileges to one of the objects.
fn has(source: &Source, principal: Principal, objects: &[Object], words: &[(String, bool)]) -> Value {
    let catalog = &source.catalog;
    let holds = |object: &Object| {
        words.iter().any(|(word, grantable)| {
            match Right::ALL.into_iter().find(|right| *word == right.name().to_lowercase()) {
                Some(right) if *grantable => catalog.grantor(principal, object, right).is_some(),
                Some(right) => catalog.allows(principal, object, right),
                None => catalog.owns(principal, object),
            }
        })
    };
    Value::Boolean(objects.iter().any(holds))
}

/// The table asked about; none for an OID that is nobody's.
fn class(source: &Source, value: &Value) -> Result<Option<Class>> {
    match text(value) {
        Some(name) => source
            .class_of_name(name)
            .map(Some)
            .ok_or_else(|| Error::new(ErrorKind::UndefinedTable, format!("relation \"{name}\" does not exist"))),
        None => Ok(number(value).and_then(|oid| source.class_of_oid(oid))),
    }
}

/// Whose privileges are asked for: the user's, where the first of more than `things` arguments does not name a role.
fn asked<'a>(source: &Source, values: &'a [Value], things: usize) -> Result<(Principal, &'a [Value])> {
    if values.len() <= things {
        return Ok((source.info.principal, values));
    }
    Ok((role(source, &values[0])?, &values[1..]))
}

fn role(source: &Source, value: &Value) -> Result<Principal> {
    match (text(value), number(value)) {
        (Some(name), _) if name == source.user() => Ok(source.info.principal),
        // What everybody may do: less than any role may.
        (Some("public"), _) if source.catalog.rights.has_roles() => Ok(Principal::Role(keyspan_model::RoleId(0))),
        (Some("public"), _) => Ok(Principal::Owner),
        (Some(name), _) => match source.role_oid(name) {
            Some(oid) => Ok(source.principal(oid)),
            None => Err(Error::new(ErrorKind::UndefinedObject, format!("role \"{name}\" does not exist"))),
        },
        (None, oid) => Ok(source.principal(oid.unwrap_or(0))),
    }
}

fn relation_id(source: &Source, class: &Class) -> Option<TableId> {
    let tables = source.catalog.tables.keys();
    tables.chain(source.catalog.views.keys()).copied().find(|id| table_oid(*id) == class.oid)
}

fn on_table(call: &Call<'_>, values: &[Value], known: &[&str]) -> Result<Value> {
    let source = Source::of(&call.facts);
    let (principal, values) = asked(&source, values, 2)?;
    let Some(class) = class(&source, &values[0])? else { return Ok(Value::Null) };
    let words = words(values, known)?;
    let Some(id) = relation_id(&source, &class) else { return Ok(of_system(&source, principal, &words)) };
    let mut objects = vec![Object::Relation(id)];
    // `has_any_column_privilege` asks for the columns, too.
    if let (COLUMN, Some(table)) = (known, source.catalog.tables.get(&id)) {
        objects.extend(shown(table).map(|(_, column)| Object::Column(id, column.id)));
    }
    Ok(has(&source, principal, &objects, &words))
}

/// System tables: everybody reads them.
fn of_system(source: &Source, principal: Principal, words: &[(String, bool)]) -> Value {
    let reads = words.iter().any(|(word, grantable)| word == "select" && !grantable);
    Value::Boolean(reads || source.catalog.rights.is_superuser(principal))
}

fn on_column(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let source = Source::of(&call.facts);
    let (principal, values) = asked(&source, values, 3)?;
    let Some(class) = class(&source, &values[0])? else { return Ok(Value::Null) };
    let words = words(values, COLUMN)?;
    let Some(id) = relation_id(&source, &class) else { return Ok(of_system(&source, principal, &words)) };
    let mut objects = vec![Object::Relation(id)];
    if let Some(table) = source.catalog.tables.get(&id) {
        let found: Option<ColumnId> = match text(&values[1]) {
            Some(name) => shown(table).find(|(_, column)| column.name == name).map(|(_, column)| column.id),
            None => {
                let wanted = number(&values[1]).and_then(|number| usize::try_from(number).ok());
                shown(table).find(|(number, _)| Some(*number) == wanted).map(|(_, column)| column.id)
            }
        };
        match (found, text(&values[1])) {
            (Some(column), _) => objects = vec![Object::Column(id, column)],
            (None, Some(name)) => {
                let message = format!("column \"{name}\" of relation \"{}\" does not exist", class.name);
                return Err(Error::new(ErrorKind::UndefinedColumn, message));
            }
            (None, None) => return Ok(Value::Null),
        }
    }
    Ok(has(&source, principal, &objects, &words))
}

fn on_schema(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let source = Source::of(&call.facts);
    let (principal, values) = asked(&source, values, 2)?;
    let schemas = source.namespaces();
    let name = match (text(&values[0]), number(&values[0])) {
        (Some(name), _) => match schemas.contains_key(name) {
            true => Some(name.to_owned()),
            false => {
                let message = format!("schema \"{name}\" does not exist");
                return Err(Error::new(ErrorKind::UndefinedSchema, message));
            }
        },
        (None, oid) => schemas.iter().find(|(_, each)| Some(**each) == oid).map(|(name, _)| name.clone()),
    };
    let words = words(values, SCHEMA)?;
    let Some(name) = name else { return Ok(Value::Null) };
    if super::SCHEMAS.contains(&name.as_str()) {
        let uses = words.iter().any(|(word, _)| word == "usage");
        return Ok(Value::Boolean(uses || source.catalog.rights.is_superuser(principal)));
    }
    let uses = words.iter().any(|(word, grantable)| word == "usage" && !grantable);
    if uses && source.catalog.may_use(principal, &name) {
        return Ok(Value::Boolean(true));
    }
    Ok(has(&source, principal, &[Object::Keyspace(name)], &words))
}

fn on_database(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let source = Source::of(&call.facts);
    let (principal, values) = asked(&source, values, 2)?;
    match (text(&values[0]), number(&values[0])) {
        (Some(name), _) if name != source.database() => {
            Err(Error::new(ErrorKind::UndefinedDatabase, format!("database \"{name}\" does not exist")))
        }
        (None, Some(oid)) if oid != DATABASE => Ok(Value::Null),
        _ => {
            let words = words(values, DATABASES)?;
            let creates = match principal {
                Principal::Owner => true,
                Principal::Role(id) => {
                    let role = source.catalog.rights.roles.get(&id);
                    role.is_some_and(|role| role.superuser || role.create_keyspace)
                }
            };
            Ok(Value::Boolean(creates || words.iter().any(|(word, _)| word == "connect")))
        }
    }
}

/// `pg_has_role([user,] role, privilege)`.
fn on_role(call: &Call<'_>, values: &[Value]) -> Result<Value> {
    let source = Source::of(&call.facts);
    let (principal, values) = asked(&source, values, 2)?;
    let of = role(&source, &values[0])?;
    let words = words(values, ROLE)?;
    let rights = &source.catalog.rights;
    let (Principal::Role(id), Principal::Role(of)) = (principal, of) else {
        return Ok(Value::Boolean(rights.is_superuser(principal)));
    };
    let holds = |(word, grantable): &(String, bool)| match (grantable, word.as_str()) {
        (true, _) => rights.may_admit(principal, of),
        (false, "usage") => rights.inherited(id).contains(&of),
        (false, _) => rights.memberships(id).contains(&of),
    };
    Ok(Value::Boolean(rights.is_superuser(principal) || words.iter().any(holds)))
}
