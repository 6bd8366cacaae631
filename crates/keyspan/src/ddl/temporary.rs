//! Temporary tables: where they are made, and DISCARD TEMP.

use keyspan_cql::{ObjectName, OnCommit};
use keyspan_model::schema::temporary;
use keyspan_model::{Catalog, Error, ErrorKind, KeyspaceDef, Result, TableDef};

use super::{Check, change_with, depend};
use crate::context::ClientContext;
use crate::names;

/// The keyspace in which a table is made, which is the session's own if it is temporary.
pub(super) fn keyspace_for(
    context: &mut ClientContext,
    catalog: &Catalog,
    path: &[String],
    name: &ObjectName,
    on_commit: Option<OnCommit>,
) -> Result<String> {
    if on_commit.is_none() {
        return names::keyspace_for(catalog, path, name);
    }
    let own = context.begin_temporary();
    match &name.keyspace {
        Some(named) if named != "pg_temp" && *named != own => {
            let message = "cannot create temporary relation in non-temporary schema";
            let error = Error::new(ErrorKind::InvalidTableDefinition, message).at(name.position);
            Err(error.with_hint("Leave the schema out, or write pg_temp."))
        }
        _ => Ok(own),
    }
}

/// How the making of a table is checked: who may connect may have temporary ones.
pub(super) fn check(on_commit: Option<OnCommit>) -> Check {
    if on_commit.is_some() { Check::Done } else { Check::ByDifference }
}

/// Makes sure that there is the keyspace of a new table: 3F000, but for a temporary one.
pub(super) fn expect_keyspace(catalog: &mut Catalog, keyspace: &str, on_commit: Option<OnCommit>) -> Result<()> {
    if on_commit.is_some() && !catalog.keyspaces.contains_key(keyspace) {
        let new = KeyspaceDef { name: keyspace.to_string(), options: Default::default() };
        catalog.keyspaces.insert(keyspace.to_string(), new);
    }
    names::expect_keyspace(catalog, keyspace)
}

/// Whether the table goes at once: what ON COMMIT says of one that is made outside of a transaction.
pub(super) fn goes_at_once(context: &ClientContext, on_commit: Option<OnCommit>) -> bool {
    on_commit == Some(OnCommit::Drop) && context.transaction.is_none()
}

/// Notes what COMMIT does with the table.
pub(super) fn note(table: &mut TableDef, on_commit: Option<OnCommit>) {
    let does = match on_commit {
        Some(OnCommit::Drop) => temporary::DROP,
        Some(OnCommit::DeleteRows) => temporary::DELETE_ROWS,
        Some(OnCommit::PreserveRows) | None => return,
    };
    table.options.insert(temporary::ON_COMMIT.into(), does.into());
}

/// 0A000 for a view over a temporary table, which it would outlive.
pub(super) fn check_not_read(context: &ClientContext, query: &keyspan_cql::ast::Query) -> Result<()> {
    let catalog = context.catalog();
    let reads = depend::query_reads(&catalog, &context.settings.search_path(), query);
    let tables = reads.iter().filter_map(|id| catalog.tables.get(id));
    match tables.into_iter().find(|table| temporary::is_temporary(&table.keyspace)) {
        Some(table) => {
            let message = format!("a view over the temporary table \"{}\" is not supported", table.name);
            Err(Error::not_supported(message).with_hint("Write CREATE TEMP TABLE … AS."))
        }
        None => Ok(()),
    }
}

/// `DISCARD TEMP`: drops the session's temporary tables.
pub(crate) async fn discard(context: &mut ClientContext) -> Result<()> {
    let Some(own) = context.settings.temporary().map(str::to_string) else { return Ok(()) };
    change_with(context, Check::Done, |catalog| {
        catalog.drop_temporary(|keyspace| keyspace == own);
        Ok(())
    })
    .await
}
