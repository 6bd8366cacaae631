//! Views as text that means the same whatever the search path is.

use std::collections::HashSet;
use std::ops::ControlFlow;

use keyspan_cql::{ObjectName, ast, quoted};
use keyspan_model::{Catalog, Materialized, ViewDef};

use super::{behind_what_they_need, options};
use crate::depend;
use crate::names::{self, TableOrView, fold_case, object_name};

/// The CREATE VIEW of a view.
pub(crate) fn create(catalog: &Catalog, view: &ViewDef) -> String {
    let columns: Vec<String> = view.columns.iter().map(|column| quoted(column)).collect();
    let columns = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
    let (kind, options, end) = match &view.materialized {
        Some(Materialized::Stored(stored)) if !stored.populated => {
            ("MATERIALIZED VIEW", options(&stored.rows), " WITH NO DATA")
        }
        Some(materialized) => ("MATERIALIZED VIEW", options(materialized.rows()), ""),
        None => ("VIEW", String::new(), ""),
    };
    let (keyspace, name, query) = (quoted(&view.keyspace), quoted(&view.name), query(catalog, view));
    format!("CREATE {kind} {keyspace}.{name}{columns}{options} AS {query}{end};")
}

/// The query of a view, whose tables say their keyspaces.
fn query(catalog: &Catalog, view: &ViewDef) -> String {
    let Ok(mut query) = names::parse_query(&view.sql) else { return view.sql.clone() };
    let hidden = names_of_with(&query);
    let _ = ast::visit_relations_mut(&mut query, |name| {
        if let [ast::ObjectNamePart::Identifier(only)] = name.0.as_slice()
            && !hidden.contains(&fold_case(only))
            && let Some(keyspace) = object_name(name).and_then(|name| keyspace_of(catalog, view, &name))
        {
            let keyspace = match quoted(&keyspace) == keyspace {
                true => ast::Ident::new(keyspace),
                false => ast::Ident::with_quote('"', keyspace),
            };
            name.0.insert(0, ast::ObjectNamePart::Identifier(keyspace));
        }
        ControlFlow::<()>::Continue(())
    });
    query.to_string()
}

fn keyspace_of(catalog: &Catalog, view: &ViewDef, name: &ObjectName) -> Option<String> {
    match names::find(catalog, &view.search_path, name)? {
        TableOrView::Table(table) => Some(table.keyspace.clone()),
        TableOrView::View(view) => Some(view.keyspace.clone()),
    }
}

/// The names that WITH gives anywhere in a query.
fn names_of_with(query: &ast::Query) -> HashSet<String> {
    struct Names(HashSet<String>);
    impl ast::Visitor for Names {
        type Break = ();

        fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
            let tables = query.with.iter().flat_map(|with| &with.cte_tables);
            self.0.extend(tables.map(|table| fold_case(&table.alias.name)));
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(HashSet::new());
    let _ = ast::Visit::visit(query, &mut names);
    names.0
}

/// The views of a keyspace, each behind those of it that it reads.
pub(super) fn in_order<'a>(catalog: &'a Catalog, keyspace: &str) -> Vec<&'a ViewDef> {
    let views = catalog.views.values().map(|view| &**view).filter(|view| view.keyspace == keyspace);
    let views = views.map(|view| (view, depend::reads(catalog, view))).collect();
    let ordered =
        behind_what_they_need(views, |(view, reads), (other, _)| view.id != other.id && reads.contains(&other.id));
    ordered.into_iter().map(|(view, _)| view).collect()
}
