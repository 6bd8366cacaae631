//! The text of a query that reads a relation which has another name by now.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, TableFactor,
    Visit, Visitor,
};

use crate::parse::parse_one;
use crate::source::{SourceText, end, start};
use crate::statement::{folded, quoted};

/// The text of a query in which relations have other names: `new` says how the name of one is to be written, if it is
/// such a one. In the query they are still called as they were, by an alias, so that columns mean the same. `None` where
/// that cannot be: WITH gives the name to something else, or a column is qualified by a keyspace, too.
pub fn with_new_names(text: &str, query: &Query, new: &dyn Fn(&ObjectName) -> Option<String>) -> Option<String> {
    let mut names = Names { new, edits: BTreeMap::new(), read: Vec::new() };
    if query.visit(&mut names).is_break() || !names.read.iter().all(|at| names.edits.contains_key(at)) {
        return None;
    }
    let source = SourceText::new(text);
    let (mut changed, mut done) = (String::new(), 0);
    for (from, (to, written)) in names.edits {
        changed += source.slice(done, from);
        changed += &written;
        done = to;
    }
    changed += source.slice(done, usize::MAX);
    // A form whose name cannot take an alias is not to be stored.
    parse_one(&changed).is_ok().then_some(changed)
}

struct Names<'a> {
    new: &'a dyn Fn(&ObjectName) -> Option<String>,
    /// What is written in the place of names: where each begins, where it ends, and the text.
    edits: BTreeMap<usize, (usize, String)>,
    /// Where relations of these names are read.
    read: Vec<usize>,
}

impl Names<'_> {
    /// Whether it is a name with a keyspace of such a relation.
    fn is_qualified(&self, parts: &[Ident]) -> bool {
        let name = || ObjectName(parts.iter().cloned().map(ObjectNamePart::Identifier).collect());
        parts.len() > 1 && (self.new)(&name()).is_some()
    }
}

fn identifiers(name: &ObjectName) -> Vec<Ident> {
    name.0.iter().filter_map(|part| part.as_ident()).cloned().collect()
}

impl Visitor for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let mut parts = query.with.iter().flat_map(|with| &with.cte_tables).map(|part| &part.alias.name);
        let hidden =
            parts.any(|name| (self.new)(&ObjectName(vec![ObjectNamePart::Identifier(name.clone())])).is_some());
        if hidden { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let by_keyspace = select.projection.iter().any(|item| match item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                self.is_qualified(&identifiers(name))
            }
            _ => false,
        });
        if by_keyspace { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        if let (Some(_), Some(first)) = ((self.new)(name), identifiers(name).first()) {
            self.read.push(start(first.span));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let TableFactor::Table { name, alias, args, .. } = factor else { return ControlFlow::Continue(()) };
        let Some(mut written) = (self.new)(name) else { return ControlFlow::Continue(()) };
        let parts = identifiers(name);
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return ControlFlow::Break(()) };
        if alias.is_none() {
            if args.is_some() {
                return ControlFlow::Break(());
            }
            written += &format!(" AS {}", quoted(&folded(last)));
        }
        self.edits.insert(start(first.span), (end(last.span), written));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::CompoundIdentifier(parts) if self.is_qualified(&parts[..parts.len() - 1]) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Statement;

    /// `old` and `k.old` are `k.new` by now.
    fn renamed(text: &str) -> Option<String> {
        let Ok(Statement::Query(query)) = parse_one(text).map(|parsed| parsed.statement) else { panic!("{text}") };
        let new = |name: &ObjectName| {
            let parts: Vec<String> = identifiers(name).iter().map(folded).collect();
            matches!(parts.iter().map(String::as_str).collect::<Vec<_>>()[..], ["old"] | ["k", "old"])
                .then(|| "k.new".to_owned())
        };
        with_new_names(text, &query.query, &new)
    }

    #[test]
    fn relations_get_their_new_names_and_keep_the_old_ones_as_aliases() {
        for (text, changed) in [
            ("SELECT * FROM old", "SELECT * FROM k.new AS old"),
            ("SELECT old.a, b FROM OLD, other", "SELECT old.a, b FROM k.new AS old, other"),
            ("SELECT 'öld old', o.a FROM k.old o -- old", "SELECT 'öld old', o.a FROM k.new o -- old"),
            ("SELECT 1 FROM k . \"old\" JOIN old AS o ON TRUE", "SELECT 1 FROM k.new AS old JOIN k.new AS o ON TRUE"),
            (
                "SELECT (SELECT max(a) FROM old WHERE old.b = t.b) FROM t UNION SELECT a FROM old ORDER BY 1",
                "SELECT (SELECT max(a) FROM k.new AS old WHERE old.b = t.b) FROM t UNION SELECT a FROM k.new AS old ORDER BY 1",
            ),
            (
                "WITH o AS (SELECT * FROM old) SELECT old FROM o",
                "WITH o AS (SELECT * FROM k.new AS old) SELECT old FROM o",
            ),
            ("TABLE old", "TABLE k.new AS old"),
            ("SELECT old FROM other", "SELECT old FROM other"),
        ] {
            assert_eq!(renamed(text).as_deref(), Some(changed), "{text}");
        }
    }

    #[test]
    fn what_cannot_keep_its_meaning_is_refused() {
        for text in [
            "WITH old AS (SELECT 1 AS a) SELECT * FROM old",
            "SELECT k.old.a FROM k.old",
            "SELECT k.old.* FROM k.old",
            "SELECT * FROM old(with_history => true)",
        ] {
            assert_eq!(renamed(text), None, "{text}");
        }
    }
}
