//! ALTER TABLE … ALTER COLUMN … TYPE where values change: all rows are written anew.
//!
//! As in PostgreSQL a type that values are assigned to without being asked for needs no USING; a text becomes a number
//! only by one.

use keyspan_cql::{AlterAction, AlterTable, ColumnTypeChange, ObjectName, quoted};
use keyspan_model::{Catalog, ColumnDef, ColumnType, Error, ErrorKind, Object, Result, TableDef, TextType};

use super::rewrite::{NewValues, Rewrite};
use super::{user_type, validate};
use crate::context::ClientContext;
use crate::depend::{self, ViewedColumn};
use crate::names;

/// The changes of a statement that consists of nothing else; none if all values can stay as they are.
pub(super) fn of_statement<'a>(
    statement: &'a AlterTable,
    table: &TableDef,
) -> Result<Option<Vec<&'a ColumnTypeChange>>> {
    let mut changes = Vec::with_capacity(statement.actions.len());
    let mut all_stay = true;
    for action in &statement.actions {
        let AlterAction::SetType(change) = action else { return Ok(None) };
        all_stay &= keeps_values(table, change)?;
        changes.push(change);
    }
    Ok(Some(changes).filter(|_| !all_stay))
}

/// Whether the values of a column can stay as they are: texts of another length, digits that are the same. Those of
/// `char(n)` have no blanks at their ends, which others may have.
fn keeps_values(table: &TableDef, change: &ColumnTypeChange) -> Result<bool> {
    let own = table.expect_column(&change.column)?;
    let same = own.ty == change.column_type && (own.ty == ColumnType::Text || own.max_length == change.max_length);
    let loses_blanks = change.text_type == TextType::Char && own.text_type != TextType::Char;
    Ok(same && !loses_blanks && change.using.is_none())
}

/// The statements that a statement with types among its actions stands for, in PostgreSQL's order: what is dropped,
/// types, and then the others, which are about the new types. None for a statement of one kind.
pub(crate) fn passes(statement: &AlterTable) -> Option<Vec<AlterTable>> {
    let is_type = |action: &AlterAction| matches!(action, AlterAction::SetType(_));
    if statement.actions.iter().all(is_type) || !statement.actions.iter().any(is_type) {
        return None;
    }
    let is_drop = |action: &AlterAction| {
        let drops = matches!(action, AlterAction::DropColumn { .. } | AlterAction::DropConstraint { .. });
        drops || matches!(action, AlterAction::SetDefault { default: None, .. })
    };
    let pass = |wanted: &dyn Fn(&AlterAction) -> bool| {
        let actions = statement.actions.iter().filter(|action| wanted(action)).cloned().collect();
        AlterTable { actions, ..statement.clone() }
    };
    let mut passes = vec![pass(&is_drop), pass(&is_type), pass(&|action| !is_drop(action) && !is_type(action))];
    passes.retain(|pass| !pass.actions.is_empty());
    Some(passes)
}

/// Changes the types of columns.
pub(super) async fn change(
    context: &mut ClientContext,
    name: &ObjectName,
    changes: &[&ColumnTypeChange],
) -> Result<()> {
    let path = context.settings.search_path();
    let catalog = context.newest_catalog();
    let table = names::table(&catalog, &path, name)?;
    context.require_owner(&Object::Relation(table.id), &format!("table {}", table.name))?;
    let (changed, _) = changed(&catalog, &table, changes)?;
    for column in changes.iter().filter_map(|change| changed.column(&change.column)) {
        if let Some(default) = &column.default {
            let unfit = |_| {
                let (name, ty) = (&column.name, column.ty.postgres_name());
                let message = format!("default for column \"{name}\" cannot be cast automatically to type {ty}");
                Error::new(ErrorKind::DatatypeMismatch, message)
            };
            let expression = keyspan_cql::parse_expression(default)?;
            validate::default_of(context, &expression, column.ty).map_err(unfit)?;
        }
    }
    for check in &changed.checks {
        validate::check(context, &changed, &keyspan_cql::parse_expression(&check.sql)?)?;
    }
    let rewrite = Rewrite {
        refused: "the type of a column cannot be changed",
        hint: "Add a column of the new type, UPDATE it from the old one, drop the old one and rename.",
    };
    rewrite.run(context, name, |catalog, table| self::changed(catalog, table, changes)).await
}

/// The table with these columns of other types, and how their values are computed.
fn changed(catalog: &Catalog, table: &TableDef, changes: &[&ColumnTypeChange]) -> Result<(TableDef, Vec<NewValues>)> {
    let mut changed = table.clone();
    let mut values = Vec::with_capacity(changes.len());
    for change in changes {
        let (own, name) = (table.expect_column(&change.column)?, &change.column);
        if own.counter {
            let error = Error::not_supported(format!("counter \"{name}\" cannot become another type"));
            return Err(error.at(change.position));
        }
        let what = format!("alter type of column {name} of table {}", table.name);
        let viewed = ViewedColumn { table: table.id, id: own.id, name };
        depend::check_no_views_of_column(catalog, viewed, &what)?;
        if own.is_key() {
            change.column_type.allowed_in_key().map_err(|error| error.at(change.position))?;
        }
        let new = ColumnDef {
            ty: change.column_type,
            max_length: change.max_length,
            text_type: change.text_type,
            ..own.clone()
        };
        values.push((name.clone(), value_of(own, &new, change)?));
        for column in changed.columns.iter_mut().filter(|column| column.name == *name) {
            *column = new.clone();
        }
    }
    user_type::settle(catalog, &mut changed)?;
    Ok((changed, values))
}

/// The expression that gives a column's new values.
fn value_of(own: &ColumnDef, new: &ColumnDef, change: &ColumnTypeChange) -> Result<String> {
    if let Some(using) = &change.using {
        return Ok(using.text.clone());
    }
    let name = quoted(&own.name);
    match is_assigned(own.ty, new.ty) {
        true => Ok(format!("CAST({name} AS {})", new.ty.name())),
        false => {
            let ty = new.ty.postgres_name();
            let message = format!("column \"{}\" cannot be cast automatically to type {ty}", own.name);
            let error = Error::new(ErrorKind::DatatypeMismatch, message);
            Err(error.with_hint(format!("You might need to specify \"USING {name}::{ty}\".")).at(change.position))
        }
    }
}

/// Whether values of one type are assigned to columns of the other, as by INSERT.
fn is_assigned(from: ColumnType, to: ColumnType) -> bool {
    use ColumnType as C;
    let is_number = |ty| {
        let whole = matches!(ty, C::TinyInt | C::SmallInt | C::Int | C::BigInt | C::VarInt);
        whole || matches!(ty, C::Decimal { .. } | C::Real | C::Double)
    };
    let is_time = |ty| matches!(ty, C::Date | C::Timestamp | C::LocalTimestamp);
    from == to
        || matches!(to, C::Text)
        || is_number(from) && is_number(to)
        || is_time(from) && is_time(to)
        || matches!((from, to), (C::Json, C::Jsonb) | (C::Jsonb, C::Json))
        || matches!((from, to), (C::TimeUuid, C::Uuid) | (C::Ascii, C::Text))
}
