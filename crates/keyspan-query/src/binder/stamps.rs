//! WRITETIME, MAXWRITETIME and TTL of a whole collection or family, or of a cell of it, as subqueries over its cells:
//!
//! ```text
//! WRITETIME(m)       (SELECT array_agg(WRITETIME(c.value) ORDER BY c.qualifier)
//!                     FROM cells('ks', 't', 'm') AS c WHERE c.k = t.k)
//! MAXWRITETIME(m)    (SELECT max(WRITETIME(c.value)) FROM …)
//! WRITETIME(m['k'])  (SELECT WRITETIME(c.value) FROM … WHERE c.k = t.k AND c.qualifier = 'k')
//! MAXWRITETIME(c)    WRITETIME(c)       of a column
//! ```
//!
//! Of a family each version has its own stamp; a cell's is that of its newest version.
//!
//! Such a subquery becomes a join, which keeps no order: a query of one table that has none gets that of its key.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, OrderBy,
    Query, Select, SelectItem, SetExpr, Subscript, Value, VisitMut, VisitorMut,
};
use keyspan_model::{ColumnDef, ColumnRole, FamilyDef, FamilyKind, Result, TableDef};

use super::from::{self, Found, Source};
use super::rewrite::Resolve;
use crate::family::cells_table;
use crate::functions::has_aggregate;
use crate::semantics::parsed;
use crate::syntax::{QUERY, has_groups, parts_of, quote_ident};

/// Changes such calls in a query.
///
/// # Errors
/// 42702 for a name that several tables have.
pub fn of_whole(query: &mut Query, resolve: Resolve<'_>) -> Result<()> {
    match query.visit(&mut Stamps { resolve, with: HashSet::new(), scopes: Vec::new(), joined: Vec::new() }) {
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
    /// Of the queries around, the innermost last: whether one of its calls was changed.
    joined: Vec<bool>,
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
        self.joined.push(false);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let sources = self.scopes.pop().unwrap_or_default();
        let joined = self.joined.pop().unwrap_or_default();
        match (joined && query.order_by.is_none()).then(|| order_of_key(query, &sources)).flatten() {
            Some(Err(error)) => return ControlFlow::Break(error),
            Some(Ok(order)) => query.order_by = order,
            None => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        self.scopes.push(from::sources(&select.from, &self.with, self.resolve));
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(stamp) = stamp_of(expr)
                && let Some(changed) = self.changed(expr)?
            {
                let alias = Ident::with_quote('"', stamp.label());
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
    fn changed(&mut self, expr: &Expr) -> ControlFlow<keyspan_model::Error, Option<Expr>> {
        match self.stamp(expr) {
            Ok(changed) => {
                self.joined.iter_mut().last().into_iter().for_each(|joined| *joined |= changed.is_some());
                ControlFlow::Continue(changed)
            }
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn stamp(&self, expr: &Expr) -> Result<Option<Expr>> {
        let Some(stamp) = stamp_of(expr) else { return Ok(None) };
        for scope in self.scopes.iter().rev() {
            match from::find(scope, stamp.qualifier.as_deref(), &stamp.name)? {
                Found::In(shown, table) => {
                    // The element of a list has no name.
                    match table.family(&stamp.name) {
                        Some(family) if stamp.cell.is_none() || family.kind != FamilyKind::List => {
                            return stamp.of_cells(shown, table, family).map(Some);
                        }
                        _ => break,
                    }
                }
                Found::Perhaps => break,
                Found::Nowhere => {}
            }
        }
        Ok((stamp.function == "maxwritetime").then(|| of_column(expr)))
    }
}

/// The order of the key of the one table of a query whose rows are rows of it.
fn order_of_key(query: &Query, sources: &[Source]) -> Option<Result<Option<OrderBy>>> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [Source { shown, table: Some(table) }] = sources else { return None };
    let grouped = has_groups(select) || select.having.is_some();
    if select.distinct.is_some() || grouped || select.projection.iter().any(has_aggregate) {
        return None;
    }
    let columns = table.key().map(|column| {
        let descends = matches!(column.role, ColumnRole::Clustering { descending: true });
        format!("{}.{}{}", quote_ident(shown), quote_ident(&column.name), if descends { " DESC" } else { "" })
    });
    let text = format!("(SELECT 1 ORDER BY {})", columns.collect::<Vec<_>>().join(", "));
    Some(parsed(&text).map(|parsed| match parsed {
        Expr::Subquery(ordered) => ordered.order_by,
        _ => None,
    }))
}

/// A call.
struct Stamp {
    function: String,
    /// The table's name, if one is given.
    qualifier: Option<String>,
    /// The column's.
    name: String,
    /// Which cell is asked for, if one is.
    cell: Option<Expr>,
}

fn stamp_of(expr: &Expr) -> Option<Stamp> {
    let Expr::Function(function) = expr else { return None };
    let (None, called) = parts_of(&function.name)? else { return None };
    if !matches!(called.as_str(), "writetime" | "maxwritetime" | "ttl") {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_slice() else { return None };
    let (column, cell) = match argument {
        Expr::CompoundFieldAccess { root, access_chain } => match access_chain.as_slice() {
            [AccessExpr::Subscript(Subscript::Index { index })] => (root.as_ref(), Some(index.clone())),
            _ => return None,
        },
        column => (column, None),
    };
    let (qualifier, name) = from::parts_of_column(column)?;
    Some(Stamp { function: called, qualifier, name, cell })
}

/// A column has one stamp, which is the latest.
fn of_column(expr: &Expr) -> Expr {
    let mut changed = expr.clone();
    if let Expr::Function(function) = &mut changed {
        function.name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new("writetime"))]);
    }
    changed
}

impl Stamp {
    /// What its output column is called.
    fn label(&self) -> String {
        match &self.cell {
            Some(cell) => format!("{}({}[{cell}])", self.function, self.name),
            None => format!("{}({})", self.function, self.name),
        }
    }

    fn of_cells(&self, shown: &str, table: &TableDef, family: &FamilyDef) -> Result<Expr> {
        let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let cells = cells_table(table, family);
        let own = |column: &ColumnDef| format!("{}.{}", quote_ident(QUERY), quote_ident(&column.name));
        let Some(value) = cells.columns.last().map(own) else { return Ok(Expr::Value(Value::Null.into())) };
        let keys = table.key().count();
        // The qualifier, then when a version was written.
        let of_cell: Vec<String> = cells.key().skip(keys).map(own).collect();
        let same =
            |column: &ColumnDef| format!("{} = {}.{}", own(column), quote_ident(shown), quote_ident(&column.name));
        let mut same: Vec<String> = table.key().map(same).collect();
        let function = &self.function;
        let result = match &self.cell {
            None if function == "maxwritetime" => format!("max(WRITETIME({value}))"),
            None => format!("array_agg({function}({value}) ORDER BY {})", of_cell.join(", ")),
            Some(cell) => {
                same.extend(of_cell.first().map(|qualifier| format!("{qualifier} = {cell}")));
                let function = function.strip_prefix("max").unwrap_or(function);
                format!("{function}({value})")
            }
        };
        let newest = match (&self.cell, of_cell.get(1)) {
            (Some(_), Some(written)) => format!(" ORDER BY {written} DESC LIMIT 1"),
            _ => String::new(),
        };
        let names = [&table.keyspace, &table.name, &family.name].map(|name| literal(name)).join(", ");
        let (alias, same) = (quote_ident(QUERY), same.join(" AND "));
        parsed(&format!("(SELECT {result} FROM cells({names}) AS {alias} WHERE {same}{newest})"))
    }
}
