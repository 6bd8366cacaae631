//! Names: those in a statement's text, and the tables and views that they stand for along the search path.

use std::path::Path;
use std::sync::Arc;

use keyspan_cql::{ObjectName, Statement, ast, quoted};
use keyspan_model::schema::temporary::{is_temporary, named_keyspace};
use keyspan_model::{Catalog, Error, ErrorKind, Result, TableDef, TableId, TypeName, UserType, ViewDef, nearest};

use crate::stores;

pub(crate) use keyspan_query::columns_of;

/// What a relation name stands for.
#[derive(Clone, Debug)]
pub(crate) enum TableOrView {
    Table(Arc<TableDef>),
    View(Arc<ViewDef>),
}

impl TableOrView {
    /// Its number, which both take from one sequence.
    pub(crate) fn id(&self) -> TableId {
        match self {
            TableOrView::Table(table) => table.id,
            TableOrView::View(view) => view.id,
        }
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            TableOrView::Table(table) => &table.name,
            TableOrView::View(view) => &view.name,
        }
    }

    /// What messages call it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            TableOrView::Table(_) => "table",
            TableOrView::View(view) => view.kind(),
        }
    }
}

/// Keyspaces that belong to the system: read only.
pub(crate) const SYSTEM: &[&str] = &["pg_catalog", "information_schema", "system", "system_schema", "pg_toast"];

/// The table or view of this name: in its own keyspace, or in the first of the search path that has it.
pub(crate) fn find(catalog: &Catalog, path: &[String], name: &ObjectName) -> Option<TableOrView> {
    let in_keyspace = |keyspace: &str| {
        let table = catalog.table(keyspace, &name.name).cloned().map(TableOrView::Table);
        table.or_else(|| catalog.view(keyspace, &name.name).cloned().map(TableOrView::View))
    };
    match &name.keyspace {
        Some(keyspace) => in_keyspace(named_keyspace(path, keyspace)?),
        None => path.iter().find_map(|keyspace| in_keyspace(keyspace)),
    }
}

/// The keyspaces in which a name is looked up, in order.
pub(crate) fn searched<'a>(path: &'a [String], name: &'a ObjectName) -> Vec<&'a str> {
    match &name.keyspace {
        Some(keyspace) => named_keyspace(path, keyspace).into_iter().collect(),
        None => path.iter().map(String::as_str).collect(),
    }
}

/// [`find`], or 42P01 (3F000 for an unknown keyspace) with the nearest name.
pub(crate) fn expect(catalog: &Catalog, path: &[String], name: &ObjectName) -> Result<TableOrView> {
    find(catalog, path, name).ok_or_else(|| {
        let error = Error::new(ErrorKind::UndefinedTable, format!("relation \"{}\" does not exist", display(name)));
        let error = error.at(name.position);
        let tables = catalog.tables.values().map(|table| (&table.keyspace, table.name.as_str()));
        let views = catalog.views.values().map(|view| (&view.keyspace, view.name.as_str()));
        let searched = |keyspace: &String| match &name.keyspace {
            Some(own) => own == keyspace,
            None => path.contains(keyspace),
        };
        let names = tables.chain(views).filter(|(keyspace, _)| searched(keyspace)).map(|(_, name)| name);
        match nearest(&name.name, names) {
            Some(near) => error.with_hint(format!("Perhaps you meant \"{near}\".")),
            None => error,
        }
    })
}

/// The table of this name for a statement that writes to it.
pub(crate) fn table(catalog: &Catalog, path: &[String], name: &ObjectName) -> Result<Arc<TableDef>> {
    if name.keyspace.as_deref().is_some_and(|keyspace| SYSTEM.contains(&keyspace)) {
        let message = format!("permission denied: \"{}\" is a system catalog", display(name));
        return Err(Error::new(ErrorKind::Unauthorized, message));
    }
    match expect(catalog, path, name)? {
        TableOrView::Table(table) => Ok(table),
        TableOrView::View(view) => {
            let message = format!("\"{}\" is a view, not a table", view.name);
            let hint = "Views cannot be written to; write to the tables they read.";
            Err(Error::new(ErrorKind::WrongObjectType, message).with_hint(hint).at(name.position))
        }
    }
}

/// The table of this name that may have indexes: that of a stored view, too.
pub(crate) fn indexed_table(catalog: &Catalog, path: &[String], name: &ObjectName) -> Result<TableDef> {
    if let Some(TableOrView::View(view)) = find(catalog, path, name)
        && let Some(stored) = view.stored()
    {
        return Ok(stored.rows.clone());
    }
    table(catalog, path, name).map(|table| (*table).clone())
}

/// The keyspace in which a new object of this name is made.
pub(crate) fn keyspace_for(catalog: &Catalog, path: &[String], name: &ObjectName) -> Result<String> {
    let keyspace = match &name.keyspace {
        Some(keyspace) => named_keyspace(path, keyspace).ok_or_else(|| {
            let message = format!("\"{keyspace}\" is not the temporary schema of this session");
            Error::new(ErrorKind::UndefinedSchema, message).with_hint("Write CREATE TEMP TABLE.")
        })?,
        None => match path.iter().find(|own| !is_temporary(own) && catalog.keyspaces.contains_key(*own)) {
            Some(keyspace) => keyspace,
            None => {
                let error = Error::new(ErrorKind::UndefinedSchema, "no keyspace has been selected to create in");
                return Err(error.with_hint("Name one, or SET search_path to one that exists."));
            }
        },
    };
    if SYSTEM.contains(&keyspace) {
        let message = format!("permission denied to create \"{}\"", display(name));
        return Err(Error::new(ErrorKind::Unauthorized, message));
    }
    expect_keyspace(catalog, keyspace)?;
    if catalog.is_attached(keyspace) {
        return Err(stores::read_only("create something in"));
    }
    Ok(keyspace.to_string())
}

/// 42939 for the name of a keyspace that users cannot make.
pub(crate) fn check_keyspace_name(name: &str) -> Result<()> {
    if SYSTEM.contains(&name) || name.starts_with("pg_") {
        let error = Error::new(ErrorKind::ReservedName, format!("unacceptable schema name \"{name}\""));
        return Err(error.with_detail("The prefix \"pg_\" and the system's keyspaces are reserved."));
    }
    Ok(())
}

/// 42602 for a path that depends on where the server was started.
pub(crate) fn check_absolute(directory: &Path) -> Result<()> {
    if directory.is_absolute() {
        return Ok(());
    }
    let message = format!("\"{}\" is not an absolute path", directory.display());
    Err(Error::new(ErrorKind::InvalidName, message)
        .with_hint("Write the whole path of a directory on the server's machine."))
}

/// Fails with 3F000 unless the keyspace exists.
pub(crate) fn expect_keyspace(catalog: &Catalog, keyspace: &str) -> Result<()> {
    if catalog.keyspaces.contains_key(keyspace) {
        return Ok(());
    }
    let error = Error::new(ErrorKind::UndefinedSchema, format!("schema \"{keyspace}\" does not exist"));
    Err(match nearest(keyspace, catalog.keyspaces.keys().map(String::as_str)) {
        Some(near) => error.with_hint(format!("Perhaps you meant \"{near}\".")),
        None => error,
    })
}

/// The name for messages, as PostgreSQL writes it: `plant.reading`.
pub(crate) fn display(name: &ObjectName) -> String {
    match &name.keyspace {
        Some(keyspace) => format!("{keyspace}.{}", name.name),
        None => name.name.clone(),
    }
}

/// The user type of this name: in its own keyspace, or in the first of the search path that has it.
pub(crate) fn find_type(catalog: &Catalog, path: &[String], name: &ObjectName) -> Option<Arc<UserType>> {
    match &name.keyspace {
        Some(keyspace) => catalog.user_type(keyspace, &name.name).cloned(),
        None => path.iter().find_map(|keyspace| catalog.user_type(keyspace, &name.name)).cloned(),
    }
}

/// [`find_type`], or 42704 with the nearest name.
pub(crate) fn expect_type(catalog: &Catalog, path: &[String], name: &ObjectName) -> Result<Arc<UserType>> {
    find_type(catalog, path, name).ok_or_else(|| {
        let (keyspace, own) = (name.keyspace.clone(), name.name.clone());
        catalog.undefined_type(&TypeName { keyspace, name: own }).at(name.position)
    })
}

/// A name of a FROM clause as a statement's name.
pub(crate) fn object_name(name: &ast::ObjectName) -> Option<ObjectName> {
    let mut parts: Vec<String> = Vec::with_capacity(3);
    for part in &name.0 {
        let identifier = part.as_ident()?;
        parts.push(fold_case(identifier));
    }
    let name = parts.pop()?;
    Some(ObjectName { name, keyspace: parts.pop(), database: parts.pop(), position: 1 })
}

/// The identifier as names are kept: in lower case unless quoted.
pub(crate) fn fold_case(identifier: &ast::Ident) -> String {
    match identifier.quote_style {
        Some(_) => identifier.value.clone(),
        None => identifier.value.to_lowercase(),
    }
}

/// The names by which the columns of a table in FROM, and of those joined with it, can be qualified.
pub(crate) fn names_in_from(from: &ast::TableWithJoins) -> Vec<String> {
    let factors = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
    factors.flat_map(names_of_factor).collect()
}

/// The same of one of these.
pub(crate) fn names_of_factor(factor: &ast::TableFactor) -> Vec<String> {
    use ast::TableFactor as F;
    let alias = match factor {
        F::Table { alias, .. }
        | F::Derived { alias, .. }
        | F::TableFunction { alias, .. }
        | F::Function { alias, .. }
        | F::UNNEST { alias, .. }
        | F::NestedJoin { alias, .. } => alias,
        _ => return Vec::new(),
    };
    match (alias, factor) {
        (Some(alias), _) => vec![fold_case(&alias.name)],
        (None, F::Table { name, .. } | F::Function { name, .. }) => {
            name.0.last().and_then(|part| part.as_ident()).map(fold_case).into_iter().collect()
        }
        (None, F::NestedJoin { table_with_joins, .. }) => names_in_from(table_with_joins),
        _ => Vec::new(),
    }
}

/// The default of a column that takes its numbers from a sequence.
pub(crate) fn sequence_default(keyspace: &str, name: &str) -> String {
    let path = format!("{}.{}", quoted(keyspace), quoted(name)).replace('\'', "''");
    format!("nextval('{path}'::regclass)")
}

/// The query that a text of ours is: a stored one, or one that is made of names.
pub(crate) fn parse_query(sql: &str) -> Result<Box<ast::Query>> {
    match keyspan_cql::parse_one(sql)?.statement {
        Statement::Query(query) => Ok(query.query),
        _ => Err(Error::internal("a text is not the query that it should be")),
    }
}
