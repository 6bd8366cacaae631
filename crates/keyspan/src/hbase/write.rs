//! `put`, `incr`, `delete` and `deleteall`.

use keyspan_cql::{HbaseArgument, HbaseCommand};
use keyspan_model::{ColumnType, Error, ErrorKind, FamilyDef, Result, TableDef};

use super::argument::{self, Arguments};
use super::row::{self, Column};
use super::{literal, path};
use crate::dml::cells;

/// `put 't', 'row', 'family:qualifier', value [, timestamp]`.
pub(super) fn put(table: &TableDef, command: &HbaseCommand) -> Result<String> {
    let mut arguments = Arguments::of(command);
    let key = argument::text(arguments.expect("row key")?)?;
    let column = cell(table, arguments.expect("column")?)?;
    let value = literal(argument::text(arguments.expect("value")?)?);
    let mut using = at_time(arguments.take_next())?;
    if let Some(ttl) = arguments.take(&["TTL"]) {
        // Milliseconds, as in HBase; a cell lives for whole seconds.
        let seconds = (argument::count(ttl)? - 1) / 1_000 + 1;
        using = if using.is_empty() { format!(" USING TTL {seconds}") } else { format!("{using} AND TTL {seconds}") };
    }
    arguments.end_of(&["TTL"])?;
    let filter = row::is_row(table, key)?;
    Ok(format!("UPDATE {}{using} SET {} = {value} WHERE {filter}", path(table), column.expression()))
}

/// `incr 't', 'row', 'family:qualifier' [, by]`.
pub(super) fn incr(table: &TableDef, command: &HbaseCommand) -> Result<String> {
    let mut arguments = Arguments::of(command);
    let key = argument::text(arguments.expect("row key")?)?;
    let column = cell(table, arguments.expect("column")?)?;
    let by = arguments.take_next().map(argument::integer).transpose()?.unwrap_or(1);
    arguments.end()?;
    let name = column.expression();
    let new = match &column {
        Column::Plain(plain) if plain.counter => format!("{name} + ({by})"),
        Column::Cell(family, _) if is_text(family.value.ty) => {
            format!("(coalesce({name}, '0')::bigint + ({by}))::text")
        }
        _ => format!("coalesce({name}, 0) + ({by})"),
    };
    let returning = if matches!(column, Column::Plain(_)) { format!(" RETURNING {name}") } else { String::new() };
    Ok(format!("UPDATE {} SET {name} = {new} WHERE {}{returning}", path(table), row::is_row(table, key)?))
}

/// `delete 't', 'row', 'family:qualifier' [, timestamp]`: of a family's cell one version, the newest or that of the time.
pub(super) fn delete(table: &TableDef, command: &HbaseCommand) -> Result<String> {
    let mut arguments = Arguments::of(command);
    let key = argument::text(arguments.expect("row key")?)?;
    let column = cell(table, arguments.expect("column")?)?;
    let time = arguments.take_next();
    arguments.end()?;
    let row = row::is_row(table, key)?;
    if let Column::Cell(family, qualifier) = &column
        && !family.kind.is_collection()
        && (time.is_some() || !family.gc.keeps_one())
    {
        return delete_version(table, family, &format!("{row} AND qualifier = {}", literal(qualifier)), time);
    }
    Ok(format!("DELETE {} FROM {}{} WHERE {row}", column.expression(), path(table), at_time(time)?))
}

/// One version of a cell that a condition names.
fn delete_version(table: &TableDef, family: &FamilyDef, is_cell: &str, time: Option<&HbaseArgument>) -> Result<String> {
    let cells = cells::source(table, &family.name);
    let version = match time {
        Some(time) => {
            let from = argument::microseconds(time)?;
            format!("WRITETIME(value) >= {from} AND WRITETIME(value) < {}", from.saturating_add(1_000))
        }
        None => format!("written_at = (SELECT max(written_at) FROM {cells} WHERE {is_cell})"),
    };
    Ok(format!("DELETE FROM {cells} WHERE {is_cell} AND {version}"))
}

/// `deleteall 't', 'row' [, column [, timestamp]]`, `deleteall 't', {ROWPREFIXFILTER => 'p'}`.
pub(super) fn delete_all(table: &TableDef, command: &HbaseCommand) -> Result<String> {
    let mut arguments = Arguments::of(command);
    if let Some(prefix) = arguments.take(&["ROWPREFIXFILTER"]) {
        arguments.ignore(&["CACHE"]);
        arguments.end_of(&["ROWPREFIXFILTER"])?;
        let rows = row::has_prefix(table, argument::text(prefix)?);
        let error = || Error::new(ErrorKind::InvalidParameter, "an empty prefix would delete all rows");
        let rows = rows.ok_or_else(|| error().with_hint("Write truncate or TRUNCATE."))?;
        return Ok(format!("DELETE FROM {} WHERE {rows}", path(table)));
    }
    let key = argument::text(arguments.expect("row key")?)?;
    let column = match arguments.take_next() {
        Some(text) => format!("{} ", row::column(table, argument::text(text)?)?.expression()),
        None => String::new(),
    };
    let using = at_time(arguments.take_next())?;
    arguments.end()?;
    Ok(format!("DELETE {column}FROM {}{using} WHERE {}", path(table), row::is_row(table, key)?))
}

/// The cells of the families that `create` makes are texts: they are counted as the numbers that they show.
fn is_text(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::Text | ColumnType::Ascii)
}

/// A column that holds one cell in a row.
fn cell<'a>(table: &'a TableDef, argument: &HbaseArgument) -> Result<Column<'a>> {
    let text = argument::text(argument)?;
    match row::column(table, text)? {
        Column::Family(family) => {
            let message = format!("\"{text}\" is a family and no single cell");
            let error = Error::new(ErrorKind::InvalidParameter, message).at(argument.position);
            Err(error.with_hint(format!("Write '{}:qualifier'; deleteall takes a family.", family.name)))
        }
        column => Ok(column),
    }
}

/// USING TIMESTAMP, if one is given.
fn at_time(argument: Option<&HbaseArgument>) -> Result<String> {
    match argument {
        Some(argument) => Ok(format!(" USING TIMESTAMP {}", argument::microseconds(argument)?)),
        None => Ok(String::new()),
    }
}
