//! Which views read which tables. A view is kept as text, so its tables are found by parsing it.

use std::ops::ControlFlow;
use std::sync::Arc;

use keyspan_cql::ast::{self, Visit};
use keyspan_cql::{quoted, with_new_names};
use keyspan_model::{Catalog, ColumnId, Error, ErrorKind, Result, TableId, ViewDef};

use crate::names::{self, TableOrView, fold_case, object_name};

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

/// A column or family of a table, as views name it.
#[derive(Clone, Copy)]
pub(crate) struct ViewedColumn<'a> {
    pub(crate) table: TableId,
    pub(crate) id: ColumnId,
    pub(crate) name: &'a str,
}

/// Drops the views that read this column of a table, or all columns, and those over them.
pub(crate) fn drop_views_of_column(catalog: &mut Catalog, column: ViewedColumn<'_>) {
    for view in views_of(catalog, column.table).iter().filter(|view| mentions(view, column)) {
        drop_views_of(catalog, view.id);
        catalog.views.remove(&view.id);
    }
}

/// 2BP01 if a view reads it.
pub(crate) fn check_no_views(catalog: &Catalog, id: TableId, what: &str) -> Result<()> {
    check_no_views_but(catalog, id, &[], what)
}

/// 2BP01 if a view reads this column of a table, or all columns.
pub(crate) fn check_no_views_of_column(catalog: &Catalog, column: ViewedColumn<'_>, what: &str) -> Result<()> {
    match views_of(catalog, column.table).iter().find(|view| mentions(view, column)) {
        None => Ok(()),
        Some(view) => Err(depends(view, what)),
    }
}

/// Whether a view's query has this name anywhere but as a table's, or takes all columns, where it knows this one.
fn mentions(view: &ViewDef, column: ViewedColumn<'_>) -> bool {
    let Ok(query) = names::parse_query(&view.sql) else { return true };
    view.knows(column.id) && query.visit(&mut Mention { column: column.name }).is_break()
}

struct Mention<'a> {
    column: &'a str,
}

impl Mention<'_> {
    fn is_one(&self, name: &ast::Ident) -> bool {
        fold_case(name) == self.column
    }

    /// Whether one of these joins compares columns without saying which, or this one.
    fn is_joined_by(&self, table: &ast::TableWithJoins) -> bool {
        table.joins.iter().any(|join| match constraint(&join.join_operator) {
            Some(ast::JoinConstraint::Natural) => true,
            Some(ast::JoinConstraint::Using(names)) => {
                names.iter().flat_map(|name| &name.0).filter_map(|part| part.as_ident()).any(|name| self.is_one(name))
            }
            _ => false,
        })
    }

    fn is_in(&self, body: &ast::SetExpr) -> bool {
        let all = |item: &ast::SelectItem| {
            matches!(item, ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..))
        };
        match body {
            ast::SetExpr::Select(select) => {
                select.projection.iter().any(all) || select.from.iter().any(|table| self.is_joined_by(table))
            }
            ast::SetExpr::SetOperation { left, right, .. } => self.is_in(left) || self.is_in(right),
            // A query in parentheses is visited by itself.
            ast::SetExpr::Query(_) | ast::SetExpr::Values(_) => false,
            // `TABLE t` takes all columns.
            _ => true,
        }
    }
}

fn broken(found: bool) -> ControlFlow<()> {
    if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

impl ast::Visitor for Mention<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        broken(self.is_in(&query.body))
    }

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
        match factor {
            ast::TableFactor::NestedJoin { table_with_joins, .. } => broken(self.is_joined_by(table_with_joins)),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        broken(match expr {
            ast::Expr::Identifier(name) => self.is_one(name),
            ast::Expr::CompoundIdentifier(names) => names.iter().any(|name| self.is_one(name)),
            _ => false,
        })
    }
}

fn constraint(operator: &ast::JoinOperator) -> Option<&ast::JoinConstraint> {
    use ast::JoinOperator as J;
    match operator {
        J::Join(constraint)
        | J::Inner(constraint)
        | J::Left(constraint)
        | J::LeftOuter(constraint)
        | J::Right(constraint)
        | J::RightOuter(constraint)
        | J::FullOuter(constraint)
        | J::Semi(constraint)
        | J::LeftSemi(constraint)
        | J::RightSemi(constraint)
        | J::Anti(constraint)
        | J::LeftAnti(constraint)
        | J::RightAnti(constraint) => Some(constraint),
        _ => None,
    }
}

fn depends(view: &ViewDef, what: &str) -> Error {
    let message = format!("cannot {what} because view {} depends on it", view.name);
    let error = Error::new(ErrorKind::DependentObjects, message);
    error.with_hint("Drop the view first, or use CASCADE where the statement has it.")
}

/// 2BP01 if a view other than these reads it.
pub(crate) fn check_no_views_but(catalog: &Catalog, id: TableId, but: &[TableId], what: &str) -> Result<()> {
    match views_of(catalog, id).iter().find(|view| !but.contains(&view.id)) {
        None => Ok(()),
        Some(view) => Err(depends(view, what)),
    }
}

/// Lets the views that read this table or view read it by its new name. In them it is still called by the old one.
///
/// # Errors
/// 2BP01 where the text of a view cannot be changed so.
pub(crate) fn follow_rename(
    catalog: &mut Catalog,
    id: TableId,
    (keyspace, name): (&str, &str),
    what: &str,
) -> Result<()> {
    let written = format!("{}.{}", quoted(keyspace), quoted(name));
    for mut view in views_of(catalog, id) {
        let query = names::parse_query(&view.sql)?;
        let new = |name: &ast::ObjectName| {
            let found = names::find(catalog, &view.search_path, &object_name(name)?)?;
            (found.id() == id).then(|| written.clone())
        };
        let sql = with_new_names(&view.sql, &query, &new).ok_or_else(|| depends(&view, what))?;
        Arc::make_mut(&mut view).sql = sql;
        catalog.views.insert(view.id, view);
    }
    Ok(())
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
pub(crate) fn reads(catalog: &Catalog, view: &ViewDef) -> Vec<TableId> {
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
