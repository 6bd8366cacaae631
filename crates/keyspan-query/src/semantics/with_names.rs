//! A WITH that gives a name which a WITH around it gives, too: the inner one gets a name that nothing else has. DataFusion
//! refuses it.
//!
//! ```text
//! WITH q AS (SELECT 1 AS a) SELECT (WITH q AS (SELECT a + 1 AS a FROM q) SELECT a FROM q) FROM q
//! WITH q AS (SELECT 1 AS a) SELECT (WITH "q\u{1}1" AS (SELECT a + 1 AS a FROM q) SELECT a FROM "q\u{1}1" AS q) FROM q
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Query, TableAlias, TableFactor, VisitMut, VisitorMut};

use crate::syntax::{folded, parts_of};

/// Gives the names.
pub fn made_unique(query: &mut Query) {
    let _ = query.visit(&mut Withs::default());
}

/// Goes from the innermost queries outwards, so that what is left of a name in a query is that query's.
#[derive(Default)]
struct Withs {
    /// The names that each query around gives.
    around: Vec<Vec<String>>,
    made: usize,
}

impl VisitorMut for Withs {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.around.push(with.map(|cte| folded(&cte.alias.name)).collect());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        for (place, name) in self.around.pop().unwrap_or_default().into_iter().enumerate() {
            if self.around.iter().flatten().any(|other| *other == name) {
                self.made += 1;
                renamed(query, place, &name, &format!("{name}\u{1}{}", self.made));
            }
        }
        ControlFlow::Continue(())
    }
}

/// The CTE at this place under another name, wherever its query sees it.
fn renamed(query: &mut Query, place: usize, from: &str, to: &str) {
    let Some(with) = query.with.take() else { return };
    let mut rename = Rename { from, to };
    let _ = query.visit(&mut rename);
    let with = query.with.insert(with);
    // Only a recursive one sees itself, and those before it.
    let seen = if with.recursive { 0 } else { place + 1 };
    let _ = with.cte_tables.iter_mut().skip(seen).try_for_each(|cte| cte.query.visit(&mut rename));
    with.cte_tables[place].alias.name = Ident::with_quote('"', to);
}

struct Rename<'a> {
    from: &'a str,
    to: &'a str,
}

impl VisitorMut for Rename<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return ControlFlow::Continue(()) };
        if matches!(parts_of(name), Some((None, own)) if own == self.from) {
            let shown = Ident::with_quote('"', self.from);
            alias.get_or_insert(TableAlias { explicit: true, name: shown, columns: Vec::new(), at: None });
            *name = ObjectName::from(vec![Ident::with_quote('"', self.to)]);
        }
        ControlFlow::Continue(())
    }
}
