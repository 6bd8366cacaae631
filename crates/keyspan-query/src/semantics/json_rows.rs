//! Functions of JSON that give several rows, as `unnest` of functions over lists.
//!
//! ```text
//! jsonb_array_elements(j)                    unnest(json_element_list(CAST(j AS jsonb)))
//! jsonb_path_query(j, p)                     unnest(json_element_list(jsonb_path_query_array(j, p)))
//! FROM jsonb_array_elements(j) AS e          FROM (SELECT jsonb_array_elements(j) AS value) AS e, and e is e.value
//! FROM jsonb_each(j) AS e                    FROM (SELECT (m).key, (m).value FROM (SELECT unnest(…) AS m) AS r) AS e
//! FROM jsonb_to_record(j) AS t(a int)        FROM (SELECT CAST(json_field_text(j, 'a') AS int) AS a) AS t
//! ```

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArguments, Ident, Query, SelectItem, SetExpr, TableAlias, TableFactor,
};
use keyspan_model::{Error, ErrorKind, Result};

use super::filled::filled;
use super::relation::{ORDINALITY, numbers};
use crate::functions::json::{ELEMENT_TEXTS, ELEMENTS, KEYS, MEMBER_TEXTS, MEMBERS};
use crate::syntax::{folded, parts_of};

/// The column of the functions that give elements.
const VALUE: &str = "value";

/// `json` or `jsonb`, and what the name of one of their functions says besides.
fn split(name: &ast::ObjectName) -> Option<(&'static str, String)> {
    let (schema, name) = parts_of(name)?;
    if schema.is_some_and(|schema| schema != "pg_catalog") {
        return None;
    }
    let (ty, rest) = name.split_once('_')?;
    match ty {
        "json" => Some(("json", rest.to_owned())),
        "jsonb" => Some(("jsonb", rest.to_owned())),
        _ => None,
    }
}

/// A call of one value per row as `unnest`; none for what is no such call.
///
/// # Errors
/// 0A000 for functions that give rows of several columns, which may stand in FROM only.
pub fn expanded(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::Function(function) = expr else { return Ok(None) };
    let Some((ty, rest)) = split(&function.name) else { return Ok(None) };
    if let Some(array) = found_by_path(function) {
        return filled(&format!("unnest({ELEMENTS}(v))"), &[("v", &array)]).map(Some);
    }
    let text = match rest.as_str() {
        "array_elements" => format!("unnest({ELEMENTS}(CAST(v AS {ty})))"),
        "array_elements_text" => format!("unnest({ELEMENT_TEXTS}(CAST(v AS {ty})))"),
        "object_keys" => format!("unnest({KEYS}(CAST(v AS {ty})))"),
        "each" | "each_text" | "to_record" | "to_recordset" => {
            let name = format!("{ty}_{rest}");
            let error = Error::not_supported(format!("{name}() is supported in FROM only"));
            return Err(error.with_hint(format!("Write SELECT * FROM {name}(…).")));
        }
        _ => return Ok(None),
    };
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    match only(&list.args) {
        Some(value) => filled(&text, &[("v", value)]).map(Some),
        None => Ok(None),
    }
}

/// `jsonb_path_query` as the function that gives an array of what it finds.
fn found_by_path(function: &ast::Function) -> Option<Expr> {
    let ("jsonb", rest) = split(&function.name)? else { return None };
    (rest == "path_query").then(|| {
        let name = ast::ObjectName::from(Ident::new("jsonb_path_query_array"));
        Expr::Function(ast::Function { name, ..function.clone() })
    })
}

fn only(args: &[ast::FunctionArg]) -> Option<&Expr> {
    match args {
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value))] => Some(value),
        _ => None,
    }
}

/// Whether an expression is such a call of one value per row.
pub fn gives_rows(expr: &Expr) -> bool {
    matches!(expanded(expr), Ok(Some(_)))
}

/// The query that gives the rows of a call in FROM, with their numbers if they are asked for; none for what is no call
/// of such a function.
///
/// # Errors
/// 42601 where the columns of a record are not declared.
pub fn relation(call: &Expr, numbered: bool, alias: &mut Option<TableAlias>) -> Result<Option<Box<Query>>> {
    let Expr::Function(function) = call else { return Ok(None) };
    let ast::Function { name, args: FunctionArguments::List(list), .. } = function else { return Ok(None) };
    let array = found_by_path(function);
    let (Some((ty, rest)), Some(value)) = (split(name), array.as_ref().or(only(&list.args))) else { return Ok(None) };
    let parts = |list: &str| format!("{list}(CAST(v AS {ty}))");
    let number = |list: &str| if numbered { format!(", {} AS {ORDINALITY}", numbers(list)) } else { String::new() };
    let shown = if numbered { format!(", {ORDINALITY}") } else { String::new() };
    let each = |list: &str| {
        let (list, number) = (parts(list), number(&parts(list)));
        format!("(SELECT (m).key AS key, (m).value AS value{shown} FROM (SELECT unnest({list}) AS m{number}) AS r)")
    };
    let elements = || number(&parts(ELEMENTS));
    let text = match rest.as_str() {
        "array_elements" | "array_elements_text" => format!("(SELECT {ty}_{rest}(v) AS {VALUE}{})", elements()),
        "object_keys" if numbered => {
            let keys = parts(KEYS);
            format!("(SELECT unnest({keys}) AS {ty}_{rest}{})", number(&keys))
        }
        "path_query" if numbered => {
            let found = parts(ELEMENTS);
            format!("(SELECT unnest({found}) AS {ty}_{rest}{})", number(&found))
        }
        "each" => each(MEMBERS),
        "each_text" => each(MEMBER_TEXTS),
        "to_record" => {
            let number = if numbered { format!(", 1::bigint AS {ORDINALITY}") } else { String::new() };
            format!("(SELECT {}{number} FROM (SELECT CAST(v AS {ty}) AS e) AS e)", columns(alias)?)
        }
        "to_recordset" => {
            let rows = format!("SELECT {ty}_array_elements(v) AS e{}", elements());
            format!("(SELECT {}{shown} FROM ({rows}) AS e)", columns(alias)?)
        }
        _ => return Ok(None),
    };
    match filled(&text, &[("v", value)])? {
        Expr::Subquery(query) => Ok(Some(query)),
        other => Err(Error::internal(format!("{other} is no subquery"))),
    }
}

/// The members of `e` that the alias declares, as columns of its types.
fn columns(alias: &mut Option<TableAlias>) -> Result<String> {
    let missing = || {
        let message = "a column definition list is required for functions returning \"record\"";
        Error::new(ErrorKind::Syntax, message)
    };
    let columns = alias.as_mut().map(|alias| std::mem::take(&mut alias.columns)).unwrap_or_default();
    let each = columns.iter().map(|column| {
        let ty = column.data_type.as_ref().ok_or_else(missing)?.to_string();
        let operator = if matches!(ty.to_lowercase().as_str(), "json" | "jsonb") { "->" } else { "->>" };
        let key = folded(&column.name).replace('\'', "''");
        Ok(format!("CAST(e {operator} '{key}' AS {ty}) AS {}", column.name))
    });
    let each = each.collect::<Result<Vec<_>>>()?;
    if each.is_empty() { Err(missing()) } else { Ok(each.join(", ")) }
}

/// The names in FROM that stand for the elements of JSON arrays, of the queries around a place.
#[derive(Default)]
pub struct Elements {
    names: Vec<Vec<Ident>>,
}

impl Elements {
    /// A query begins: where an alias is what a column shows, the column keeps its name.
    pub fn enter(&mut self, query: &mut Query) {
        let mut names = Vec::new();
        if let SetExpr::Select(select) = query.body.as_mut() {
            let joined = select.from.iter().flat_map(|table| table.joins.iter().map(|join| &join.relation));
            names.extend(select.from.iter().map(|table| &table.relation).chain(joined).filter_map(named));
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr @ Expr::Identifier(_)) = item
                    && let Expr::Identifier(name) = &*expr
                    && names.contains(name)
                {
                    *item = SelectItem::ExprWithAlias { alias: name.clone(), expr: expr.clone() };
                }
            }
        }
        self.names.push(names);
    }

    /// The query ends.
    pub fn leave(&mut self) {
        self.names.pop();
    }

    /// Makes `e.value` of `e`.
    pub fn value(&self, expr: &mut Expr) {
        if let Expr::Identifier(name) = expr
            && self.names.iter().any(|names| names.contains(name))
        {
            *expr = Expr::CompoundIdentifier(vec![name.clone(), Ident::new(VALUE)]);
        }
    }
}

fn named(factor: &TableFactor) -> Option<Ident> {
    let (name, alias) = match factor {
        TableFactor::Table { name, alias: Some(alias), args: Some(_), .. } => (name, alias),
        TableFactor::Function { name, alias: Some(alias), .. } => (name, alias),
        _ => return None,
    };
    let (_, rest) = split(name)?;
    let elements = matches!(rest.as_str(), "array_elements" | "array_elements_text");
    (elements && alias.columns.is_empty()).then(|| alias.name.clone())
}
