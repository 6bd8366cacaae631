//! `t.c` in a subquery where `t` is a table of an enclosing query, and a column of the subquery's own.
//!
//! Postgres reads `t.c` as a table's column only; DataFusion also as a field of the column `t`. With a schema before it
//! the name has only the first reading, and of a schema a table without one takes no notice.

use std::collections::BTreeSet;

use crate::syntax::{call, folded};
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, SetExpr, TableFactor, TableWithJoins};

/// The schema put before such names. No schema is called so.
const OUTER: &str = "\u{1}outer";

/// The tables of the queries around an expression, while a tree is walked.
#[derive(Default)]
pub struct OuterNames {
    /// Names of the tables of each enclosing query, the outermost first.
    scopes: Vec<BTreeSet<String>>,
}

impl OuterNames {
    /// A query begins.
    pub fn enter(&mut self, query: &Query) {
        let mut names = BTreeSet::new();
        let mut bodies = vec![query.body.as_ref()];
        while let Some(body) = bodies.pop() {
            match body {
                SetExpr::Select(select) => select.from.iter().for_each(|table| add_tables(table, &mut names)),
                SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_ref(), right.as_ref()]),
                _ => {}
            }
        }
        self.scopes.push(names);
    }

    /// The query ends.
    pub fn leave(&mut self) {
        self.scopes.pop();
    }

    /// Puts the schema before a name that only an enclosing query can mean, and makes `ARRAY[…]` a call: the literal knows of
    /// no enclosing query.
    pub fn qualify(&self, expr: &mut Expr) {
        if let Expr::Array(array) = expr
            && self.scopes.len() > 1
            && !array.elem.is_empty()
        {
            *expr = call("make_array", std::mem::take(&mut array.elem));
        }
        if let (Expr::CompoundIdentifier(names), Some((own, outer))) = (expr, self.scopes.split_last())
            && let [table, _] = names.as_slice()
        {
            let table = folded(table);
            if !own.contains(&table) && outer.iter().any(|scope| scope.contains(&table)) {
                names.insert(0, Ident::with_quote('"', OUTER));
            }
        }
    }
}

fn add_tables(table: &TableWithJoins, names: &mut BTreeSet<String>) {
    add_table(&table.relation, names);
    table.joins.iter().for_each(|join| add_table(&join.relation, names));
}

fn add_table(factor: &TableFactor, names: &mut BTreeSet<String>) {
    match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => add_tables(table_with_joins, names),
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. } => {
            names.insert(folded(&alias.name));
        }
        TableFactor::Table { name, .. } | TableFactor::Function { name, .. } => {
            names.extend(name.0.last().and_then(|part| part.as_ident()).map(folded));
        }
        _ => {}
    }
}
