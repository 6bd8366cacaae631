//! COMMENT ON: of a table kept among its options, where Cassandra keeps it too; of a view, sequence or index by its id.

use std::sync::Arc;

use keyspan_cql::Comment;
use keyspan_model::{COMMENT_ON_COLUMN, COMMENT_ON_CONSTRAINT, Catalog, Error, ErrorKind, Result, TableDef, TableId};

use super::{change, extension};
use crate::context::ClientContext;
use crate::names;
use crate::outcome::{Outcome, Tag};

fn of_constraint(name: &str) -> String {
    format!("{COMMENT_ON_CONSTRAINT}{name}")
}

/// `COMMENT ON … IS …`.
pub(crate) async fn run(context: &mut ClientContext, statement: &Comment) -> Result<Outcome> {
    let path = context.settings.search_path();
    change(context, |catalog| match statement.kind.as_str() {
        "table" | "column" | "constraint" => of_table(catalog, &path, statement),
        "keyspace" | "schema" => of_keyspace(catalog, statement),
        "view" | "sequence" | "index" => of_id(catalog, &path, statement),
        "extension" => extension::expect(&statement.name.name),
        kind => Err(Error::not_supported(format!("COMMENT ON {} is not supported", kind.to_uppercase()))
            .with_hint("Tables, columns, constraints, views, sequences, indexes and schemas can have comments.")),
    })
    .await?;
    Ok(Outcome::done(Tag::plain("COMMENT")))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn of_keyspace(catalog: &mut Catalog, statement: &Comment) -> Result<()> {
    let name = &statement.name.name;
    names::expect_keyspace(catalog, name).map_err(|error| error.at(statement.name.position))?;
    let Some(keyspace) = catalog.keyspaces.get_mut(name) else { return Ok(()) };
    match &statement.comment {
        Some(comment) => keyspace.options.insert("comment".into(), literal(comment)),
        None => keyspace.options.remove("comment"),
    };
    Ok(())
}

fn of_id(catalog: &mut Catalog, path: &[String], statement: &Comment) -> Result<()> {
    let name = &statement.name;
    let Some(id) = id_of(catalog, path, statement) else {
        let message = format!("relation \"{}\" does not exist", names::display(name));
        return Err(Error::new(ErrorKind::UndefinedTable, message).at(name.position));
    };
    match &statement.comment {
        Some(comment) => catalog.comments.insert(id, comment.clone()),
        None => catalog.comments.remove(&id),
    };
    Ok(())
}

fn id_of(catalog: &Catalog, path: &[String], statement: &Comment) -> Option<TableId> {
    let name = &statement.name;
    names::searched(path, name).into_iter().find_map(|keyspace| match statement.kind.as_str() {
        "view" => catalog.view(keyspace, &name.name).map(|view| view.id),
        "sequence" => catalog.sequence(keyspace, &name.name).map(|sequence| sequence.id),
        _ => catalog.index(keyspace, &name.name).map(|(_, index)| index.id),
    })
}

fn of_table(catalog: &mut Catalog, path: &[String], statement: &Comment) -> Result<()> {
    let table = names::table(catalog, path, &statement.name)?;
    let mut table: TableDef = (*table).clone();
    let option = match &statement.column {
        None => "comment".to_string(),
        Some(name) if statement.kind == "constraint" => {
            expect_constraint(&table, name)?;
            of_constraint(name)
        }
        Some(column) => format!("{COMMENT_ON_COLUMN}{}", table.expect_column(column)?.name),
    };
    match &statement.comment {
        Some(comment) => table.options.insert(option, literal(comment)),
        None => table.options.remove(&option),
    };
    catalog.tables.insert(table.id, Arc::new(table));
    Ok(())
}

fn expect_constraint(table: &TableDef, name: &str) -> Result<()> {
    if table.has_constraint(name) {
        return Ok(());
    }
    let message = format!("constraint \"{name}\" for table \"{}\" does not exist", table.name);
    Err(Error::new(ErrorKind::UndefinedObject, message))
}

/// Drops the comments on constraints that are gone.
pub(super) fn settle(table: &mut TableDef) {
    let constraint = |option: &String| option.strip_prefix(COMMENT_ON_CONSTRAINT).map(str::to_owned);
    let gone = |option: &&String| constraint(option).is_some_and(|name| !table.has_constraint(&name));
    let gone: Vec<String> = table.options.keys().filter(gone).cloned().collect();
    for option in gone {
        table.options.remove(&option);
    }
}

/// A constraint has another name.
pub(super) fn rename_constraint(table: &mut TableDef, from: &str, to: &str) {
    if let Some(comment) = table.options.remove(&of_constraint(from)) {
        table.options.insert(of_constraint(to), comment);
    }
}
