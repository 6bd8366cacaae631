//! Row keys as one text, and columns as `family:qualifier`.

use keyspan_cql::quoted;
use keyspan_model::{ColumnDef, ColumnRole, ColumnType, Error, ErrorKind, FamilyDef, Result, TableDef, Value};

use super::{invalid, literal};

/// What HBase calls a column.
pub(super) enum Column<'a> {
    /// A typed column.
    Plain(&'a ColumnDef),
    /// `family` or `family:`.
    Family(&'a FamilyDef),
    /// `family:qualifier`.
    Cell(&'a FamilyDef, String),
}

impl Column<'_> {
    /// The expression that reads it.
    pub(super) fn expression(&self) -> String {
        match self {
            Column::Plain(column) => quoted(&column.name),
            Column::Family(family) => quoted(&family.name),
            Column::Cell(family, qualifier) => format!("{}[{}]", quoted(&family.name), literal(qualifier)),
        }
    }

    /// As HBase writes it.
    pub(super) fn label(&self) -> String {
        match self {
            Column::Plain(column) => column.name.clone(),
            Column::Family(family) => family.name.clone(),
            Column::Cell(family, qualifier) => format!("{}:{qualifier}", family.name),
        }
    }
}

/// The column of this name.
///
/// # Errors
/// 42703 if there is none.
pub(super) fn column<'a>(table: &'a TableDef, text: &str) -> Result<Column<'a>> {
    let (name, qualifier) = text.split_once(':').unwrap_or((text, ""));
    if let Some(family) = table.families.iter().find(|family| family.name == name) {
        return Ok(match qualifier {
            "" => Column::Family(family),
            qualifier => Column::Cell(family, qualifier.to_owned()),
        });
    }
    let column = table.expect_column(name)?;
    if !qualifier.is_empty() {
        let message = format!("\"{name}\" of table \"{}\" is a column without qualifiers", table.name);
        return Err(Error::new(ErrorKind::UndefinedColumn, message).with_hint(format!("Write '{name}'.")));
    }
    Ok(Column::Plain(column))
}

/// The names of the key's columns, quoted.
pub(super) fn key_names(table: &TableDef) -> Vec<String> {
    table.key().map(|column| quoted(&column.name)).collect()
}

/// The condition that holds for one row.
///
/// # Errors
/// 22023 for a text with fewer parts than the key.
pub(super) fn is_row(table: &TableDef, text: &str) -> Result<String> {
    let key: Vec<&ColumnDef> = table.key().collect();
    let parts: Vec<&str> = text.splitn(key.len().max(1), '#').collect();
    if parts.len() != key.len() {
        let names: Vec<&str> = key.iter().map(|column| column.name.as_str()).collect();
        let message =
            format!("row key \"{text}\" is not whole: the key of table \"{}\" has {} parts", table.name, key.len());
        return Err(invalid(message).with_hint(format!("Join {} by #.", names.join(", "))));
    }
    let equal = key.iter().zip(parts).map(|(column, part)| format!("{} = {}", quoted(&column.name), literal(part)));
    Ok(equal.collect::<Vec<_>>().join(" AND "))
}

/// The condition that holds for the rows whose key begins so; none for all rows. A prefix that is not made of values of
/// the key's types is compared with the key as text, row by row.
pub(super) fn has_prefix(table: &TableDef, prefix: &str) -> Option<String> {
    if prefix.is_empty() {
        return None;
    }
    Some(typed_prefix(table, prefix).unwrap_or_else(|| format!("starts_with(row_key, {})", literal(prefix))))
}

fn typed_prefix(table: &TableDef, prefix: &str) -> Option<String> {
    let key: Vec<&ColumnDef> = table.key().collect();
    let (mut conditions, mut rest) = (Vec::new(), prefix);
    for (place, column) in key.iter().enumerate() {
        let is_text = matches!(column.ty, ColumnType::Text | ColumnType::Ascii);
        let name = quoted(&column.name);
        match rest.split_once('#').filter(|_| !is_text || place + 1 < key.len()) {
            Some((part, after)) => {
                Value::parse(part, column.ty).ok()?;
                conditions.push(format!("{name} = {}", literal(part)));
                rest = after;
            }
            None if rest.is_empty() => break,
            None if is_text => {
                conditions.push(format!("starts_with({name}, {})", literal(rest)));
                rest = "";
            }
            None => return None,
        }
    }
    rest.is_empty().then(|| conditions.join(" AND "))
}

/// The condition that holds for rows up to or from a row, in row-key order or against it. A text of fewer parts than the
/// key stands before all rows that begin with it, as it does in HBase.
pub(super) fn bound(table: &TableDef, text: &str, start: bool, reversed: bool) -> String {
    let key: Vec<&ColumnDef> = table.key().collect();
    let mut parts: Vec<&str> = text.splitn(key.len().max(1), '#').collect();
    // `a#` is as good as `a`.
    while parts.pop_if(|part| part.is_empty()).is_some() {}
    let whole = parts.len() == key.len();
    let operator = match (start, reversed) {
        (true, false) => ">=",
        (true, true) if whole => "<=",
        (false, true) if whole => ">",
        (false, true) => ">=",
        (_, _) => "<",
    };
    let typed = key.iter().zip(&parts).all(|(column, part)| {
        !matches!(column.role, ColumnRole::Clustering { descending: true }) && Value::parse(part, column.ty).is_ok()
    });
    if !typed || parts.is_empty() {
        return format!("row_key {operator} {}", literal(text));
    }
    let names = key_names(table)[..parts.len()].join(", ");
    let values = parts.iter().map(|part| literal(part)).collect::<Vec<_>>().join(", ");
    if parts.len() == 1 { format!("{names} {operator} {values}") } else { format!("({names}) {operator} ({values})") }
}

/// The key's order, or that turned round.
pub(super) fn order(table: &TableDef, reversed: bool) -> String {
    let each = table.key().map(|column| {
        let descending = matches!(column.role, ColumnRole::Clustering { descending: true });
        format!("{} {}", quoted(&column.name), if descending != reversed { "DESC" } else { "ASC" })
    });
    each.collect::<Vec<_>>().join(", ")
}
