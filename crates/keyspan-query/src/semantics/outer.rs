//! `t.c` in a subquery where `t` is a table of an enclosing query, and a column of the subquery's own.
//!
//! Postgres reads `t.c` as a table's column only; DataFusion also as a field of the column `t`. With a schema before it
//! the name has only the first reading, and of a schema a table without one takes no notice.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::syntax::{call, folded};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SetExpr, TableFactor, TableWithJoins, Value, visit_expressions,
};

/// The schema put before such names. No schema is called so.
const OUTER: &str = "\u{1}outer";

/// The tables of the queries around an expression, while a tree is walked.
#[derive(Default)]
pub struct OuterNames {
    /// The tables of each enclosing query, the outermost first: their names, and their schemas where FROM gives one.
    scopes: Vec<BTreeMap<String, Option<Ident>>>,
}

impl OuterNames {
    /// A query begins.
    pub fn enter(&mut self, query: &Query) {
        let mut names = BTreeMap::new();
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
    /// no enclosing query, and of no parameter's type.
    pub fn qualify(&self, expr: &mut Expr) {
        if let Expr::Array(array) = expr
            && !array.elem.is_empty()
            && (self.scopes.len() > 1 || has_parameter(&array.elem))
        {
            *expr = call("make_array", std::mem::take(&mut array.elem));
        }
        if let (Expr::CompoundIdentifier(names), Some((own, outer))) = (expr, self.scopes.split_last())
            && let [table, _] = names.as_slice()
        {
            let table = folded(table);
            let known = outer.iter().rev().find_map(|scope| scope.get(&table));
            if let Some(schema) = known.filter(|_| !own.contains_key(&table)) {
                names.insert(0, schema.clone().unwrap_or_else(|| Ident::with_quote('"', OUTER)));
            }
        }
    }
}

fn has_parameter(exprs: &Vec<Expr>) -> bool {
    let found = visit_expressions(exprs, |expr| match expr {
        Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn add_tables(table: &TableWithJoins, names: &mut BTreeMap<String, Option<Ident>>) {
    add_table(&table.relation, names);
    table.joins.iter().for_each(|join| add_table(&join.relation, names));
}

fn add_table(factor: &TableFactor, names: &mut BTreeMap<String, Option<Ident>>) {
    match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => add_tables(table_with_joins, names),
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. } => {
            names.insert(folded(&alias.name), None);
        }
        TableFactor::Table { name, .. } | TableFactor::Function { name, .. } => {
            let mut parts = name.0.iter().rev().map_while(|part| part.as_ident());
            if let Some(table) = parts.next() {
                names.insert(folded(table), parts.next().cloned());
            }
        }
        _ => {}
    }
}
