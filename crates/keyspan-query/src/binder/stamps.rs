//! WRITETIME, MAXWRITETIME and TTL of a whole collection or family, as subqueries over its cells:
//!
//! ```text
//! WRITETIME(m)       (SELECT array_agg(WRITETIME(c.value) ORDER BY c.qualifier)
//!                     FROM cells('ks', 't', 'm') AS c WHERE c.k = t.k)
//! MAXWRITETIME(m)    (SELECT max(WRITETIME(c.value)) FROM …)
//! MAXWRITETIME(c)    WRITETIME(c)       of a column
//! ```
//!
//! Of a family each version has its own stamp.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, Select,
    SelectItem, SetExpr, Value, VisitMut, VisitorMut,
};
use keyspan_model::{ColumnDef, FamilyDef, Result, TableDef};

use super::from::{self, Found, Source};
use super::rewrite::Resolve;
use crate::family::cells_table;
use crate::semantics::parsed;
use crate::syntax::{QUERY, parts_of, quote_ident};

/// Changes such calls in a query.
///
/// # Errors
/// 42702 for a name that several tables have.
pub fn of_whole(query: &mut Query, resolve: Resolve<'_>) -> Result<()> {
    match query.visit(&mut Stamps { resolve, with: HashSet::new(), scopes: Vec::new() }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Stamps<'a> {
    resolve: Resolve<'a>,
    /// The names that WITH has given so far.
    with: HashSet<String>,
    /// Of the SELECTs and ORDER BYs around, the innermost last.
    scopes: Vec<Vec<Source>>,
}

impl VisitorMut for Stamps<'_> {
    type Break = keyspan_model::Error;

    /// ORDER BY stands outside of its SELECT.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.with.extend(from::names_of_with(query));
        let sources = match query.body.as_ref() {
            SetExpr::Select(select) => from::sources(&select.from, &self.with, self.resolve),
            _ => Vec::new(),
        };
        self.scopes.push(sources);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        self.scopes.push(from::sources(&select.from, &self.with, self.resolve));
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some((function, _, name)) = stamp_of(expr)
                && let Some(changed) = self.changed(expr)?
            {
                let alias = Ident::with_quote('"', format!("{function}({name})"));
                *item = SelectItem::ExprWithAlias { expr: changed, alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<Self::Break> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Some(changed) = self.changed(expr)? {
            *expr = changed;
        }
        ControlFlow::Continue(())
    }
}

impl Stamps<'_> {
    /// What stands for a call; `None` where it stays as it is.
    fn changed(&self, expr: &Expr) -> ControlFlow<keyspan_model::Error, Option<Expr>> {
        match self.stamp(expr) {
            Ok(changed) => ControlFlow::Continue(changed),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn stamp(&self, expr: &Expr) -> Result<Option<Expr>> {
        let Some((function, qualifier, name)) = stamp_of(expr) else { return Ok(None) };
        for scope in self.scopes.iter().rev() {
            match from::find(scope, qualifier.as_deref(), &name)? {
                Found::In(shown, table) => {
                    if let Some(family) = table.family(&name) {
                        return of_cells(&function, shown, table, family).map(Some);
                    }
                    break;
                }
                Found::Perhaps => break,
                Found::Nowhere => {}
            }
        }
        Ok((function == "maxwritetime").then(|| of_column(expr)))
    }
}

/// The function, the table's name if one is given, and the column's.
fn stamp_of(expr: &Expr) -> Option<(String, Option<String>, String)> {
    let Expr::Function(function) = expr else { return None };
    let (None, name) = parts_of(&function.name)? else { return None };
    if !matches!(name.as_str(), "writetime" | "maxwritetime" | "ttl") {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_slice() else { return None };
    let (qualifier, column) = from::parts_of_column(argument)?;
    Some((name, qualifier, column))
}

/// A column has one stamp, which is the latest.
fn of_column(expr: &Expr) -> Expr {
    let mut changed = expr.clone();
    if let Expr::Function(function) = &mut changed {
        function.name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new("writetime"))]);
    }
    changed
}

fn of_cells(function: &str, shown: &str, table: &TableDef, family: &FamilyDef) -> Result<Expr> {
    let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let cells = cells_table(table, family);
    let own = |column: &ColumnDef| format!("{}.{}", quote_ident(QUERY), quote_ident(&column.name));
    let Some(value) = cells.columns.last().map(own) else { return Ok(Expr::Value(Value::Null.into())) };
    let keys = table.key().count();
    let order: Vec<String> = cells.key().skip(keys).map(own).collect();
    let same = |column: &ColumnDef| format!("{} = {}.{}", own(column), quote_ident(shown), quote_ident(&column.name));
    let same: Vec<String> = table.key().map(same).collect();
    let result = match function {
        "maxwritetime" => format!("max(WRITETIME({value}))"),
        function => format!("array_agg({function}({value}) ORDER BY {})", order.join(", ")),
    };
    let names = [&table.keyspace, &table.name, &family.name].map(|name| literal(name)).join(", ");
    let (alias, same) = (quote_ident(QUERY), same.join(" AND "));
    parsed(&format!("(SELECT {result} FROM cells({names}) AS {alias} WHERE {same})"))
}
