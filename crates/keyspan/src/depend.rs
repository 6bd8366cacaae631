//! Which views read which tables. A view is kept as text, so its tables are found by parsing it.

use std::ops::ControlFlow;
use std::sync::Arc;

use keyspan_cql::ast;
use keyspan_model::{Catalog, Error, ErrorKind, Result, TableId, ViewDef};

use crate::names::{self, TableOrView, object_name};

/// The views that read this table or view directly.
pub(crate) fn views_of(catalog: &Catalog, id: TableId) -> Vec<Arc<ViewDef>> {
    catalog.views.values().filter(|view| view.id != id && reads(catalog, view).contains(&id)).cloned().collect()
}

/// The views that read this table or view, directly or through others.
pub(crate) fn all_views_of(catalog: &Catalog, id: TableId) -> Vec<Arc<ViewDef>> {
    let mut found = views_of(catalog, id);
    let mut next = 0;
    while next < found.len() {
        for view in views_of(catalog, found[next].id) {
            if !found.iter().any(|known| known.id == view.id) {
                found.push(view);
            }
        }
        next += 1;
    }
    found
}

/// Drops the views that read this table or view, directly or through others.
pub(crate) fn drop_views_of(catalog: &mut Catalog, id: TableId) {
    for view in all_views_of(catalog, id) {
        catalog.views.remove(&view.id);
    }
}

/// 2BP01 if a view reads it.
pub(crate) fn check_no_views(catalog: &Catalog, id: TableId, what: &str) -> Result<()> {
    check_no_views_but(catalog, id, &[], what)
}

/// 2BP01 if a view other than these reads it.
pub(crate) fn check_no_views_but(catalog: &Catalog, id: TableId, but: &[TableId], what: &str) -> Result<()> {
    match views_of(catalog, id).iter().find(|view| !but.contains(&view.id)) {
        None => Ok(()),
        Some(view) => {
            let message = format!("cannot {what} because view {} depends on it", view.name);
            let error = Error::new(ErrorKind::DependentObjects, message);
            Err(error.with_hint("Drop the view first, or use CASCADE where the statement has it."))
        }
    }
}

/// 2BP01 if the keyspace holds views, or views elsewhere read its tables.
pub(crate) fn check_no_views_of_keyspace(catalog: &Catalog, keyspace: &str) -> Result<()> {
    if let Some(view) = catalog.views.values().find(|view| view.keyspace == keyspace) {
        let message = format!("cannot rename schema {keyspace} because view {} is in it", view.name);
        return Err(Error::new(ErrorKind::DependentObjects, message));
    }
    for table in catalog.tables.values().filter(|table| table.keyspace == keyspace) {
        check_no_views(catalog, table.id, &format!("rename schema {keyspace}"))?;
    }
    Ok(())
}

/// The tables and views a view reads. A name that a WITH clause hides counts too: one too many does no harm.
fn reads(catalog: &Catalog, view: &ViewDef) -> Vec<TableId> {
    let Ok(query) = names::parse_query(&view.sql) else { return Vec::new() };
    query_reads(catalog, &view.search_path, &query)
}

/// The tables and views a query reads.
pub(crate) fn query_reads(catalog: &Catalog, path: &[String], query: &ast::Query) -> Vec<TableId> {
    let mut ids = Vec::new();
    let _ = ast::visit_relations(query, |name| {
        match object_name(name).and_then(|name| names::find(catalog, path, &name)) {
            Some(TableOrView::Table(table)) => ids.push(table.id),
            Some(TableOrView::View(view)) => ids.push(view.id),
            None => {}
        }
        ControlFlow::<()>::Continue(())
    });
    ids
}
