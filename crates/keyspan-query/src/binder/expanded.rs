//! Tables of which a SELECT makes more rows than they have: their keys are none of its rows' keys.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Query, Select, SelectItem, Visit, Visitor, visit_expressions, visit_relations,
};

use crate::syntax::parts_of;

/// The names of the tables of which some SELECT makes more rows: `SELECT id, unnest(list) FROM t`.
pub fn expanded(query: &Query) -> BTreeSet<String> {
    #[derive(Default)]
    struct Finder {
        names: BTreeSet<String>,
    }
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
            if !grouped && select.projection.iter().any(calls_unnest) {
                let _ = visit_relations(&select.from, |name| {
                    self.names.extend(parts_of(name).map(|(_, name)| name));
                    ControlFlow::<()>::Continue(())
                });
            }
            ControlFlow::Continue(())
        }
    }
    let mut finder = Finder::default();
    let _ = query.visit(&mut finder);
    finder.names
}

fn calls_unnest(item: &SelectItem) -> bool {
    let found = visit_expressions(item, |expr| match expr {
        Expr::Function(call) if parts_of(&call.name).is_some_and(|(_, name)| name == "unnest") => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
