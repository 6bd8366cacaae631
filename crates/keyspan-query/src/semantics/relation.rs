//! Functions as relations, and the one whose rows have two columns.
//!
//! ```text
//! FROM f(x) AS a                      FROM (SELECT f(x) AS a) AS a            where f gives one value
//! FROM f(x) AS a(c)                   FROM (SELECT f(x) AS f) AS a(c)
//! _pg_expandarray(list)               unnest(numbered_elements(list))
//! FROM _pg_expandarray(list) AS a     FROM (SELECT (e).x, (e).n FROM (SELECT _pg_expandarray(list) AS e) AS e) AS a
//! ```

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArguments, Ident, Query, SelectItem, SetExpr, TableAlias, TableFactor, VisitMut,
    VisitorMut,
};
use keyspan_model::Result;

use super::subquery::parsed;
use crate::functions::expand::NUMBERED;
use crate::syntax::call;
use crate::syntax::parts_of;

/// The function of `information_schema`, which is found by its whole name only.
const EXPAND: (&str, &str) = ("information_schema", "_pg_expandarray");

/// Functions that give several rows or columns, of DataFusion's and ours.
const TABLE_FUNCTIONS: [&str; 4] = ["generate_series", "range", "unnest", "pg_get_keywords"];

/// `information_schema._pg_expandarray(list)` as a call that may stand in a SELECT list.
pub fn expanded(expr: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expr else { return None };
    let (Some(schema), name) = parts_of(&function.name)? else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let mut inner = call(NUMBERED, Vec::new());
    if let Expr::Function(ast::Function { args: FunctionArguments::List(args), .. }) = &mut inner {
        args.args.clone_from(&list.args);
    }
    ((schema.as_str(), name.as_str()) == EXPAND).then(|| call("unnest", vec![inner]))
}

/// Makes a subquery of a function in FROM that is no table function.
///
/// # Errors
/// None that a user can cause.
pub fn of_function(factor: &mut TableFactor) -> Result<()> {
    let (name, args, alias) = match factor {
        TableFactor::Table { name, alias, args: Some(args), with_ordinality: false, .. } => (name, &args.args, alias),
        TableFactor::Function { name, alias, args, with_ordinality: false, .. } => (name, &*args, alias),
        _ => return Ok(()),
    };
    let Some((schema, function)) = parts_of(name) else { return Ok(()) };
    if TABLE_FUNCTIONS.contains(&function.as_str()) {
        return Ok(());
    }
    let expands = schema.as_deref() == Some(EXPAND.0) && function == EXPAND.1;
    let shown = alias.as_ref().map_or_else(|| Ident::with_quote('"', function), |alias| alias.name.clone());
    let text = if expands { "(SELECT (e).x AS x, (e).n AS n FROM (SELECT v AS e) AS e)" } else { "(SELECT v AS c)" };
    let Expr::Subquery(mut subquery) = parsed(text)? else { return Ok(()) };
    let value = written(name, args);
    let _ = subquery.visit(&mut Fill { value });
    if !expands {
        label(&mut subquery, &shown);
    }
    let alias = alias.take().unwrap_or(TableAlias { explicit: true, name: shown, columns: Vec::new(), at: None });
    *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
    Ok(())
}

fn written(name: &ast::ObjectName, args: &[FunctionArg]) -> Expr {
    let mut value = call("", Vec::new());
    if let Expr::Function(function) = &mut value {
        function.name = name.clone();
        if let FunctionArguments::List(list) = &mut function.args {
            list.args = args.to_vec();
        }
    }
    value
}

fn label(subquery: &mut Query, name: &Ident) {
    let SetExpr::Select(select) = subquery.body.as_mut() else { return };
    if let Some(SelectItem::ExprWithAlias { alias, .. }) = select.projection.first_mut() {
        *alias = name.clone();
    }
}

/// Puts the call in the place of `v`.
struct Fill {
    value: Expr,
}

impl VisitorMut for Fill {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Identifier(name) if name.value == "v" && name.quote_style.is_none()) {
            *expr = self.value.clone();
        }
        ControlFlow::Continue(())
    }
}
