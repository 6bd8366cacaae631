//! CREATE VIEW: a query kept as its source text, with the search path its names were meant in.

use std::sync::Arc;

use keyspan_cql::CreateView;
use keyspan_model::{Error, ErrorKind, Result, ViewDef};

use super::{change, check_free, depend, exists, skipping, table};
use crate::names;
use crate::outcome::{Outcome, Tag};
use crate::query;
use crate::session::Session;

/// `CREATE [OR REPLACE] VIEW`.
pub(crate) async fn create(session: &mut Session, statement: &CreateView) -> Result<Outcome> {
    let path = session.settings.search_path();
    let catalog = session.catalog();
    let keyspace = names::keyspace_for(&catalog, &path, &statement.name)?;
    let name = &statement.name.name;
    let taken = table::is_taken(&catalog, &keyspace, name);
    if statement.if_not_exists && taken {
        skipping(session, "relation", name);
        return Ok(Outcome::done(Tag::plain("CREATE VIEW")));
    }
    if !statement.or_replace {
        check_free(&catalog, &keyspace, &statement.name)?;
    } else if catalog.table(&keyspace, name).is_some() {
        return Err(Error::new(ErrorKind::WrongObjectType, format!("\"{name}\" is not a view")));
    }
    check_columns(session, statement).await?;
    change(session, |catalog| {
        names::expect_keyspace(catalog, &keyspace)?;
        let old = catalog.view(&keyspace, name).cloned();
        let id = match &old {
            Some(old) if statement.or_replace => old.id,
            Some(_) => return Err(exists(name)),
            None => catalog.new_table_id(),
        };
        check_not_circular(catalog, statement, &path, id)?;
        let view = ViewDef {
            id,
            keyspace: keyspace.clone(),
            name: name.clone(),
            columns: statement.columns.clone(),
            sql: statement.query.text.clone(),
            search_path: path.clone(),
        };
        catalog.views.insert(id, Arc::new(view));
        Ok(())
    })
    .await?;
    Ok(Outcome::done(Tag::plain("CREATE VIEW")))
}

/// A view that reads itself, perhaps through others, could never be read.
fn check_not_circular(
    catalog: &keyspan_model::Catalog,
    statement: &CreateView,
    path: &[String],
    id: keyspan_model::TableId,
) -> Result<()> {
    let reads = depend::query_reads(catalog, path, &statement.query.query);
    let dependents = depend::all_views_of(catalog, id);
    if reads.contains(&id) || dependents.iter().any(|view| reads.contains(&view.id)) {
        let message = format!("infinite recursion detected in view \"{}\"", statement.name.name);
        return Err(Error::new(ErrorKind::InvalidTableDefinition, message));
    }
    Ok(())
}

async fn check_columns(session: &mut Session, statement: &CreateView) -> Result<()> {
    let planned = query::plan(session, &statement.query.query, &[]).await?;
    if !planned.parameters.is_empty() {
        return Err(Error::new(ErrorKind::UndefinedParameter, "there is no parameter $1"));
    }
    let fields = planned.schema.fields();
    if statement.columns.len() > fields.len() {
        return Err(Error::new(ErrorKind::Syntax, "CREATE VIEW specifies more column names than columns"));
    }
    let own = statement.columns.iter().map(String::as_str);
    let labels: Vec<&str> = own.chain(fields.iter().skip(statement.columns.len()).map(|f| f.name().as_str())).collect();
    for (index, label) in labels.iter().enumerate() {
        if labels[..index].contains(label) {
            let message = format!("column \"{label}\" specified more than once");
            return Err(Error::new(ErrorKind::DuplicateColumn, message));
        }
    }
    Ok(())
}
