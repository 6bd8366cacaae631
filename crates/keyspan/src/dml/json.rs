//! CQL's `INSERT INTO t JSON '…'`: the columns that the JSON names, as an INSERT of values that JSON says.
//!
//! A name stands for its lower case, unless it has quotes of its own: `{"\"Name\"": 1}`. Texts of errors are Cassandra's.

use keyspan_cql::{ColumnName, Insert, InsertSource, InsertValue, ast, from_json};
use keyspan_model::json::{checked_json, members};
use keyspan_model::{ColumnType, Error, ErrorKind, Member, Result, TableDef, Value};

use crate::context::ClientContext;
use crate::expression::Evaluator;

/// The statement with names and values in place of its JSON.
pub(super) fn expanded(
    context: &mut ClientContext,
    table: &TableDef,
    statement: &Insert,
    (json, unset): (&ast::Expr, bool),
    parameters: &[Value],
) -> Result<Insert> {
    let evaluator = Evaluator::new(context);
    let text = match evaluator.constant(context, json, ColumnType::Text, parameters)? {
        Value::Text(text) => text,
        _ => return Err(no_map("null")),
    };
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    for (name, value) in object(&text)? {
        let name = folded(&name);
        if !table.members().iter().any(|member| is_shown(member) && member.name() == name) {
            let message = format!("JSON values map contains unrecognized column: {name}");
            return Err(Error::new(ErrorKind::UndefinedColumn, message));
        }
        columns.push(column(statement, &name));
        values.push(InsertValue::Expression(from_json(value)));
    }
    if !unset {
        let left = table.members().into_iter().filter(is_shown).map(|member| member.name().to_owned());
        let named: Vec<String> = columns.iter().map(|column: &ColumnName| column.name.clone()).collect();
        for name in left.filter(|name| !named.contains(name)) {
            columns.push(column(statement, &name));
            values.push(InsertValue::Expression(ast::Expr::Value(ast::Value::Null.into())));
        }
    }
    Ok(Insert { columns, source: InsertSource::Values(vec![values]), ..statement.clone() })
}

fn is_shown(member: &Member<'_>) -> bool {
    !matches!(member, Member::Column(column) if column.hidden)
}

fn column(statement: &Insert, name: &str) -> ColumnName {
    ColumnName { name: name.to_owned(), qualifier: None, position: statement.table.position }
}

/// The members of a JSON object; of equal names the last.
fn object(text: &str) -> Result<Vec<(String, &str)>> {
    let trimmed = checked_json(text).map_err(|error| no_map(text).with_detail(error.to_string()))?.trim();
    if !trimmed.starts_with('{') {
        return Err(no_map(text));
    }
    let mut all: Vec<(String, &str)> = Vec::new();
    for member in members(trimmed) {
        let name = member.key.unwrap_or_default();
        all.retain(|(other, _)| folded(other) != folded(&name));
        all.push((name, member.text));
    }
    Ok(all)
}

fn no_map(text: &str) -> Error {
    Error::new(ErrorKind::InvalidText, format!("Could not decode JSON string as a map. (String was: {text})"))
}

fn folded(name: &str) -> String {
    match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}
