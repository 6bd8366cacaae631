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

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, SetExpr,
    TableFactor, Value, VisitMut, VisitorMut,
};
use keyspan_model::{ColumnDef, FamilyDef, Result, TableDef};

use super::rewrite::Resolve;
use crate::family::cells_table;
use crate::semantics::parsed;
use crate::syntax::{QUERY, folded, parts_of, quote_ident, relations};

/// Changes such calls in a query.
///
/// # Errors
/// None that a user can cause.
pub fn of_whole(query: &mut Query, resolve: Resolve<'_>) -> Result<()> {
    match query.visit(&mut Stamps { resolve, scopes: Vec::new() }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// A table of FROM, and as it is called there.
struct Source {
    shown: String,
    table: Arc<TableDef>,
}

struct Stamps<'a> {
    resolve: Resolve<'a>,
    scopes: Vec<Vec<Source>>,
}

impl VisitorMut for Stamps<'_> {
    type Break = keyspan_model::Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        let sources = match query.body.as_ref() {
            SetExpr::Select(select) => relations(&select.from).filter_map(|factor| self.source(factor)).collect(),
            _ => Vec::new(),
        };
        self.scopes.push(sources);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        match self.changed(expr) {
            Ok(Some(changed)) => *expr = changed,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

impl Stamps<'_> {
    fn source(&self, factor: &TableFactor) -> Option<Source> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
        let (_, own) = parts_of(name)?;
        let shown = alias.as_ref().map_or(own, |alias| folded(&alias.name));
        Some(Source { shown, table: (self.resolve)(name)? })
    }

    fn changed(&self, expr: &mut Expr) -> Result<Option<Expr>> {
        let Some((function, qualifier, name)) = stamp_of(expr) else { return Ok(None) };
        let sources = self.scopes.iter().rev().flatten();
        let mut sources = sources.filter(|own| qualifier.as_ref().is_none_or(|qualifier| own.shown == *qualifier));
        let found = sources.find_map(|own| Some((own, own.table.family(&name)?)));
        match found {
            Some((source, family)) => of_cells(&function, source, family).map(Some),
            None => {
                if function == "maxwritetime" {
                    rename(expr);
                }
                Ok(None)
            }
        }
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
    match argument {
        Expr::Identifier(column) => Some((name, None, folded(column))),
        Expr::CompoundIdentifier(names) => {
            let (column, before) = names.split_last()?;
            Some((name, before.last().map(folded), folded(column)))
        }
        _ => None,
    }
}

/// A column has one stamp, which is the latest.
fn rename(expr: &mut Expr) {
    if let Expr::Function(function) = expr {
        function.name = ObjectName(vec![ObjectNamePart::Identifier(Ident::new("writetime"))]);
    }
}

fn of_cells(function: &str, source: &Source, family: &FamilyDef) -> Result<Expr> {
    let literal = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let cells = cells_table(&source.table, family);
    let own = |column: &ColumnDef| format!("{}.{}", quote_ident(QUERY), quote_ident(&column.name));
    let Some(value) = cells.columns.last().map(own) else { return Ok(Expr::Value(Value::Null.into())) };
    let keys = source.table.key().count();
    let order: Vec<String> = cells.key().skip(keys).map(own).collect();
    let same =
        |column: &ColumnDef| format!("{} = {}.{}", own(column), quote_ident(&source.shown), quote_ident(&column.name));
    let same: Vec<String> = source.table.key().map(same).collect();
    let result = match function {
        "maxwritetime" => format!("max(WRITETIME({value}))"),
        function => format!("array_agg({function}({value}) ORDER BY {})", order.join(", ")),
    };
    let names = [&source.table.keyspace, &source.table.name, &family.name].map(|name| literal(name)).join(", ");
    let (alias, same) = (quote_ident(QUERY), same.join(" AND "));
    parsed(&format!("(SELECT {result} FROM cells({names}) AS {alias} WHERE {same})"))
}
