//! `token(…)`: its arguments are the partition key of the table that a SELECT reads, or values for it.
//!
//! Values take the types of the key's columns, since the token is that of their bytes: `token(k) > token(5)`. Texts of
//! errors are Cassandra's. Where a SELECT reads several tables, the function takes what it is given.

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Select, TableFactor,
};
use keyspan_model::{ColumnDef, ColumnRole, Error, ErrorKind, Result, TableDef};

use super::rewrite::Resolve;
use crate::syntax::{cast_to, change_own, folded};

/// Checks the calls of a SELECT, those of its subqueries left aside.
///
/// # Errors
/// 22023 for arguments that are not the partition key.
pub fn check(select: &mut Select, resolve: Resolve<'_>) -> Result<()> {
    let [from] = select.from.as_slice() else { return Ok(()) };
    let TableFactor::Table { name, args: None, .. } = &from.relation else { return Ok(()) };
    if !from.joins.is_empty() {
        return Ok(());
    }
    let Some(table) = resolve(name) else { return Ok(()) };
    change_own(select, |expr| token(expr, &table))
}

fn token(expr: &mut Expr, table: &TableDef) -> Result<()> {
    let Expr::Function(function) = expr else { return Ok(()) };
    let [part] = function.name.0.as_slice() else { return Ok(()) };
    let is_token = part.as_ident().is_some_and(|name| folded(name) == "token");
    match &mut function.args {
        FunctionArguments::List(list) if is_token => call(&mut list.args, table),
        _ => Ok(()),
    }
}

fn call(args: &mut [FunctionArg], table: &TableDef) -> Result<()> {
    let key: Vec<&ColumnDef> = table.columns.iter().filter(|column| column.role == ColumnRole::Partition).collect();
    let named: Vec<Option<String>> = args.iter().map(column_name).collect();
    if let Some(names) = named.iter().cloned().collect::<Option<Vec<String>>>() {
        return check_columns(&key, &names);
    }
    if args.len() != key.len() {
        let (required, given) = (key.len(), args.len());
        let message =
            format!("Invalid number of arguments in call to function token: {required} required but {given} provided");
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    for ((arg, name), column) in args.iter_mut().zip(named).zip(key) {
        if let (FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)), None) = (arg, name) {
            *expr = cast_to(std::mem::replace(expr, Expr::Value(ast::Value::Null.into())), column.ty);
        }
    }
    Ok(())
}

fn check_columns(key: &[&ColumnDef], names: &[String]) -> Result<()> {
    let wanted: Vec<&str> = key.iter().map(|column| column.name.as_str()).collect();
    if names.iter().map(String::as_str).eq(wanted.iter().copied()) {
        return Ok(());
    }
    let same = names.len() == wanted.len() && names.iter().all(|name| wanted.contains(&name.as_str()));
    let message = match same {
        true => format!("The token function arguments must be in the partition key order: {}", wanted.join(", ")),
        false => "The token() function must be applied to all partition key components or none of them".to_owned(),
    };
    let error = Error::new(ErrorKind::InvalidParameter, message);
    Err(error.with_hint(format!("Write token({}).", wanted.join(", "))))
}

fn column_name(arg: &FunctionArg) -> Option<String> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg else { return None };
    match expr {
        Expr::Identifier(name) => Some(folded(name)),
        Expr::CompoundIdentifier(names) => names.last().map(folded),
        _ => None,
    }
}
