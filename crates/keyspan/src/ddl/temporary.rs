//! Temporary tables and views: where they are made, and DISCARD TEMP.

use keyspan_cql::{ObjectName, OnCommit};
use keyspan_model::schema::temporary;
use keyspan_model::{Catalog, Error, ErrorKind, KeyspaceDef, Result, TableDef};

use super::{Check, change_with};
use crate::context::ClientContext;
use crate::depend;
use crate::names;

/// The keyspace in which a table or view is made, which is the session's own if it is temporary.
pub(super) fn keyspace_for(
    context: &mut ClientContext,
    catalog: &Catalog,
    path: &[String],
    name: &ObjectName,
    temporary: bool,
) -> Result<String> {
    if !temporary {
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

/// How the making of a table or view is checked: who may connect may have temporary ones.
pub(super) fn check(temporary: bool) -> Check {
    if temporary { Check::Done } else { Check::ByDifference }
}

/// Makes sure that there is the keyspace of a new table or view: 3F000, but for a temporary one.
pub(super) fn expect_keyspace(catalog: &mut Catalog, keyspace: &str) -> Result<()> {
    if temporary::is_temporary(keyspace) && !catalog.keyspaces.contains_key(keyspace) {
        let new = KeyspaceDef { name: keyspace.to_string(), options: Default::default(), attached: false };
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

/// Whether a query reads a temporary table or view: then a view of it is temporary, too.
pub(super) fn is_read(catalog: &Catalog, path: &[String], query: &keyspan_cql::ast::Query) -> bool {
    let reads = depend::query_reads(catalog, path, query);
    let tables = reads.iter().filter_map(|id| catalog.tables.get(id)).map(|table| &table.keyspace);
    let views = reads.iter().filter_map(|id| catalog.views.get(id)).map(|view| &view.keyspace);
    tables.chain(views).any(|keyspace| temporary::is_temporary(keyspace))
}

/// `DISCARD TEMP`: drops the session's temporary tables and views.
pub(crate) async fn discard(context: &mut ClientContext) -> Result<()> {
    let Some(own) = context.settings.temporary().map(str::to_string) else { return Ok(()) };
    change_with(context, Check::Done, |catalog| {
        catalog.drop_temporary(|keyspace| keyspace == own);
        Ok(())
    })
    .await
}
