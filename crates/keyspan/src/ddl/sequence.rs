//! CREATE, ALTER and DROP SEQUENCE, and the sequences of `serial` and identity columns.
//!
//! A column takes its numbers by a default that names the sequence; where the sequence gets another name, the default
//! gets it, too. A sequence that is owned by a column goes with it.

use std::sync::Arc;

use keyspan_cql::{
    AlterAction, AlterSequence, AlterTable, ColumnSequence, CreateSequence, ObjectName, SequenceOptions, SequenceOwner,
};
use keyspan_model::{
    Catalog, ColumnId, ColumnType, Error, ErrorKind, Identity, Object, Result, SequenceDef, TableDef, TableId, range_of,
};

use super::alter::Skipped;
use super::grant::change_owner;
use super::table::{NewColumn, NewTable};
use super::{change, check_free, missing, skipping};
use crate::context::ClientContext;
use crate::names::{self, TableOrView, sequence_default};
use crate::outcome::{Outcome, Tag};

/// `CREATE SEQUENCE`.
pub(crate) async fn create(context: &mut ClientContext, statement: &CreateSequence) -> Result<Outcome> {
    let path = context.settings.search_path();
    let keyspace = names::keyspace_for(&context.catalog(), &path, &statement.name)?;
    let name = &statement.name.name;
    let created = change(context, |catalog| {
        if statement.if_not_exists && super::table::is_taken(catalog, &keyspace, name) {
            return Ok(false);
        }
        names::expect_keyspace(catalog, &keyspace)?;
        check_free(catalog, &keyspace, &statement.name)?;
        let owner = owner(catalog, &path, &statement.options)?;
        let mut sequence = new_sequence(catalog, &keyspace, name, ColumnType::BigInt, &statement.options)?;
        sequence.owned_by = owner.flatten();
        catalog.sequences.insert(sequence.id, Arc::new(sequence));
        Ok(true)
    });
    if !created.await? {
        skipping(context, "relation", name);
    }
    Ok(Outcome::done(Tag::plain("CREATE SEQUENCE")))
}

/// `ALTER SEQUENCE`.
pub(crate) async fn alter(context: &mut ClientContext, statement: &AlterSequence) -> Result<Outcome> {
    let path = context.settings.search_path();
    let tag = Outcome::done(Tag::plain("ALTER SEQUENCE"));
    if statement.if_exists && find(&context.catalog(), &path, &statement.name).is_none() {
        missing(context, "relation", &statement.name);
        return Ok(tag);
    }
    if let Some(role) = &statement.owner {
        let object = |catalog: &Catalog| Ok(Object::Relation(expect(catalog, &path, &statement.name)?.id));
        change_owner(context, role, object).await?;
        return Ok(tag);
    }
    change(context, |catalog| {
        let mut next = (*expect(catalog, &path, &statement.name)?).clone();
        if let Some(name) = &statement.rename_to {
            check_free(catalog, &next.keyspace, &ObjectName { name: name.clone(), ..statement.name.clone() })?;
            let keyspace = next.keyspace.clone();
            return rename(catalog, next.id, &keyspace, name);
        }
        if let Some(owner) = owner(catalog, &path, &statement.options)? {
            next.owned_by = owner;
        }
        alter_options(catalog, &mut next, &statement.options)?;
        catalog.sequences.insert(next.id, Arc::new(next));
        Ok(())
    })
    .await?;
    Ok(tag)
}

fn alter_options(catalog: &mut Catalog, sequence: &mut SequenceDef, options: &SequenceOptions) -> Result<()> {
    let before = sequence.clone();
    let given = |new: Option<Option<i64>>, old: i64| new.or(Some(Some(old)));
    let merged = SequenceOptions {
        ty: Some(options.ty.unwrap_or(before.ty)),
        start: Some(options.start.unwrap_or(before.start)),
        increment: Some(options.increment.unwrap_or(before.increment)),
        min: given(options.min, before.min),
        max: given(options.max, before.max),
        cycle: Some(options.cycle.unwrap_or(before.cycle)),
        cache: Some(options.cache.unwrap_or(before.cache)),
        restart: None,
        owned_by: None,
    };
    apply(sequence, &merged)?;
    sequence.restart = before.restart;
    if let Some(restart) = options.restart {
        restart_at(catalog, sequence, restart.unwrap_or(sequence.start))?;
    }
    Ok(())
}

/// Begins anew: with a row of its own, so that a transaction that is undone has changed nothing.
fn restart_at(catalog: &mut Catalog, sequence: &mut SequenceDef, first: i64) -> Result<()> {
    if !(sequence.min..=sequence.max).contains(&first) {
        let message = format!("RESTART value ({first}) is out of the range of sequence \"{}\"", sequence.name);
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    sequence.restart = first;
    sequence.state.rows = catalog.new_relation_id();
    Ok(())
}

/// TRUNCATE … RESTART IDENTITY: the sequences of the table's columns begin anew.
pub(super) fn restart_owned(catalog: &mut Catalog, table: TableId) -> Result<()> {
    let owned = catalog.sequences.values().filter(|each| each.owned_by.is_some_and(|(id, _)| id == table));
    for sequence in owned.cloned().collect::<Vec<_>>() {
        let mut next = (*sequence).clone();
        let start = next.start;
        restart_at(catalog, &mut next, start)?;
        catalog.sequences.insert(next.id, Arc::new(next));
    }
    Ok(())
}

/// `DROP SEQUENCE`: whether there was one. Defaults that name it are in the way, or go with it (CASCADE).
pub(super) fn drop_one(catalog: &mut Catalog, path: &[String], name: &ObjectName, cascade: bool) -> Result<bool> {
    let Some(sequence) = find(catalog, path, name) else { return Ok(false) };
    let text = sequence_default(&sequence.keyspace, &sequence.name);
    let users = users(catalog, &text);
    if let (Some(user), false) = (users.first(), cascade) {
        let error = still_used(&sequence, user);
        return Err(error.with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    for table in users {
        let mut next = (*table).clone();
        for column in next.columns.iter_mut().filter(|column| column.default.as_deref() == Some(&text)) {
            (column.default, column.identity) = (None, None);
        }
        next.version += 1;
        catalog.tables.insert(next.id, Arc::new(next));
    }
    catalog.sequences.remove(&sequence.id);
    Ok(true)
}

/// The tables with a column of this default.
fn users(catalog: &Catalog, default: &str) -> Vec<Arc<TableDef>> {
    let uses = |table: &TableDef| table.columns.iter().any(|column| column.default.as_deref() == Some(default));
    catalog.tables.values().filter(|table| uses(table)).cloned().collect()
}

fn still_used(sequence: &SequenceDef, user: &TableDef) -> Error {
    let message = format!("cannot drop sequence {} because other objects depend on it", sequence.name);
    let error = Error::new(ErrorKind::DependentObjects, message);
    error.with_detail(format!("a default of table {} depends on it", user.name))
}

/// Makes the sequences of the columns that were declared with one, and gives the columns their defaults.
pub(super) fn attach(catalog: &mut Catalog, table: &mut TableDef, columns: &[NewColumn]) -> Result<()> {
    for new in columns {
        match (&new.sequence, &new.default) {
            (Some(declared), _) => attach_one(catalog, table, &new.name, declared)?,
            (None, Some(default)) => {
                let default = settled_default(catalog, &table.keyspace, default);
                table
                    .columns
                    .iter_mut()
                    .filter(|own| own.name == new.name)
                    .for_each(|own| own.default = default.clone());
            }
            (None, None) => {}
        }
    }
    Ok(())
}

/// A default as it is kept: one that is `nextval` of a sequence says which, so that it is known to use it.
pub(super) fn settled_default(catalog: &Catalog, keyspace: &str, default: &str) -> Option<String> {
    let named = named_sequence(default).and_then(|name| {
        let (own, name) = name.split_once('.').map_or((None, name.as_str()), |(own, name)| (Some(own), name));
        let mut keyspaces = own.map_or(vec![keyspace, "public"], |own| vec![own]).into_iter();
        keyspaces.find_map(|keyspace| catalog.sequence(keyspace, name))
    });
    Some(named.map_or_else(|| default.to_owned(), |found| sequence_default(&found.keyspace, &found.name)))
}

/// The name in `nextval('…')`, if that is all.
fn named_sequence(default: &str) -> Option<String> {
    let call = default.trim();
    let (name, rest) = call.split_at_checked("nextval".len())?;
    if !name.eq_ignore_ascii_case("nextval") {
        return None;
    }
    let argument = rest.trim().strip_prefix('(')?.strip_suffix(')')?.trim();
    let argument = ["::regclass", "::text"].iter().fold(argument, |text, cast| text.strip_suffix(cast).unwrap_or(text));
    let name = argument.trim().strip_prefix('\'')?.strip_suffix('\'')?;
    let quoted = name.contains('"');
    let plain = name.replace('"', "");
    (!plain.contains('\'')).then(|| if quoted { plain } else { plain.to_lowercase() })
}

fn attach_one(catalog: &mut Catalog, table: &mut TableDef, column: &str, declared: &ColumnSequence) -> Result<()> {
    let own = table.expect_column(column)?;
    if own.default.is_some() {
        let message = format!("multiple default values specified for column \"{column}\"");
        return Err(Error::new(ErrorKind::Syntax, message));
    }
    let ty = own.ty;
    let name = match &declared.name {
        Some(name) if name.keyspace.as_ref().is_some_and(|keyspace| *keyspace != table.keyspace) => {
            let message = "sequence must be in same schema as table it is linked to";
            return Err(Error::new(ErrorKind::ObjectNotReady, message).at(name.position));
        }
        Some(name) => {
            check_free(catalog, &table.keyspace, name)?;
            name.name.clone()
        }
        None => free_name(catalog, table, column),
    };
    let mut sequence = new_sequence(catalog, &table.keyspace, &name, ty, &declared.options)?;
    for own in table.columns.iter_mut().filter(|own| own.name == column) {
        own.default = Some(sequence_default(&table.keyspace, &name));
        (own.identity, own.not_null) = (declared.identity, true);
        sequence.owned_by = Some((table.id, own.id));
    }
    catalog.sequences.insert(sequence.id, Arc::new(sequence));
    Ok(())
}

/// `ALTER COLUMN … ADD GENERATED … AS IDENTITY`.
///
/// # Errors
/// 55000 for a column that may be null, has a default or is one already, 22023 if it is not of whole numbers, as in
/// PostgreSQL.
pub(super) fn add_identity(
    catalog: &mut Catalog,
    table: &mut TableDef,
    column: &str,
    declared: &ColumnSequence,
) -> Result<()> {
    let own = table.expect_column(column)?;
    let refused = match (own.identity.is_some(), own.default.is_some(), own.not_null || own.is_key()) {
        (true, ..) => Some(("is already an identity column", "SET GENERATED and RESTART")),
        (_, true, _) => Some(("already has a default value", "DROP DEFAULT first")),
        (.., false) => Some(("must be declared NOT NULL before identity can be added", "SET NOT NULL first")),
        _ => None,
    };
    if let Some((why, instead)) = refused {
        let message = format!("column \"{column}\" of relation \"{}\" {why}", table.name);
        let hint = format!("Write ALTER COLUMN {column} {instead}.");
        return Err(Error::new(ErrorKind::ObjectNotReady, message).with_hint(hint));
    }
    if !matches!(own.ty, ColumnType::SmallInt | ColumnType::Int | ColumnType::BigInt) {
        let message = "identity column type must be smallint, integer, or bigint";
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    attach_one(catalog, table, column, declared)
}

/// `ALTER COLUMN … SET GENERATED …`, `… RESTART` and the like.
pub(super) fn set_identity(
    catalog: &mut Catalog,
    table: &mut TableDef,
    column: &str,
    (identity, options): (Option<Identity>, &SequenceOptions),
) -> Result<()> {
    let Some(sequence) = of_identity(catalog, table, column)? else { return Err(no_identity(table, column)) };
    let mut next = (*sequence).clone();
    alter_options(catalog, &mut next, options)?;
    catalog.sequences.insert(next.id, Arc::new(next));
    for own in table.columns.iter_mut().filter(|own| own.name == column) {
        own.identity = identity.or(own.identity);
    }
    Ok(())
}

/// `ALTER COLUMN … DROP IDENTITY`: its sequence goes with it.
///
/// # Errors
/// 55000 if it is not one, 2BP01 where another column's default names the sequence.
pub(super) fn drop_identity(
    catalog: &mut Catalog,
    table: &mut TableDef,
    column: &str,
    if_exists: bool,
) -> Result<Skipped> {
    let Some(sequence) = of_identity(catalog, table, column)? else {
        return match if_exists {
            true => Ok(Some((false, "identity of column", column.to_owned()))),
            false => Err(no_identity(table, column)),
        };
    };
    let text = sequence_default(&sequence.keyspace, &sequence.name);
    let others = table.columns.iter().filter(|own| own.name != column && own.default.as_ref() == Some(&text));
    let other = users(catalog, &text).into_iter().find(|user| user.id != table.id);
    if let Some(user) = other.as_deref().or_else(|| others.map(|_| &*table).next()) {
        return Err(still_used(&sequence, user).with_hint("Give that column another default first."));
    }
    catalog.sequences.remove(&sequence.id);
    for own in table.columns.iter_mut().filter(|own| own.name == column) {
        (own.default, own.identity) = (None, None);
    }
    Ok(None)
}

/// The sequence of an identity column; `None`: it is not one.
fn of_identity(catalog: &Catalog, table: &TableDef, column: &str) -> Result<Option<Arc<SequenceDef>>> {
    let own = table.expect_column(column)?;
    let sequence = catalog.sequence_of(table.id, own.id).filter(|_| own.identity.is_some());
    Ok(sequence.cloned())
}

fn no_identity(table: &TableDef, column: &str) -> Error {
    let message = format!("column \"{column}\" of relation \"{}\" is not an identity column", table.name);
    let hint = format!("Write ALTER COLUMN {column} ADD GENERATED BY DEFAULT AS IDENTITY to make it one.");
    Error::new(ErrorKind::ObjectNotReady, message).with_hint(hint)
}

/// `ALTER TABLE` may name a sequence, as dumps do: to give it another owner or name. Whether it does.
pub(super) async fn altered_as_table(context: &mut ClientContext, statement: &AlterTable) -> Result<bool> {
    let path = context.settings.search_path();
    let (rename_to, owner) = match statement.actions.as_slice() {
        [AlterAction::RenameTo(name)] => (Some(name.clone()), None),
        [AlterAction::OwnerTo(role)] => (None, Some(role.clone())),
        _ => return Ok(false),
    };
    if statement.kind != "table" || find(&context.catalog(), &path, &statement.name).is_none() {
        return Ok(false);
    }
    let (name, options) = (statement.name.clone(), SequenceOptions::default());
    alter(context, &AlterSequence { name, if_exists: false, options, rename_to, owner }).await?;
    Ok(true)
}

/// `table_column_seq`, or that with a number behind it.
fn free_name(catalog: &Catalog, table: &TableDef, column: &str) -> String {
    let name = format!("{}_{column}_seq", table.name);
    let taken = |name: &str| name == table.name || super::table::is_taken(catalog, &table.keyspace, name);
    match taken(&name) {
        false => name,
        true => (1..).map(|number| format!("{name}{number}")).find(|name| !taken(name)).unwrap_or_default(),
    }
}

/// Lets the sequences of a table's columns follow it into its keyspace.
pub(super) fn follow(catalog: &mut Catalog, table: &mut TableDef) -> Result<()> {
    let owned = catalog.sequences.values().filter(|each| each.owned_by.is_some_and(|(id, _)| id == table.id));
    for sequence in owned.filter(|each| each.keyspace != table.keyspace).cloned().collect::<Vec<_>>() {
        let (old, new) =
            (sequence_default(&sequence.keyspace, &sequence.name), sequence_default(&table.keyspace, &sequence.name));
        rename(catalog, sequence.id, &table.keyspace, &sequence.name)?;
        for column in table.columns.iter_mut().filter(|column| column.default.as_deref() == Some(&old)) {
            column.default = Some(new.clone());
        }
    }
    Ok(())
}

/// Lets the sequences of a keyspace follow its new name.
pub(super) fn follow_keyspace(catalog: &mut Catalog, from: &str, to: &str) -> Result<()> {
    let within = catalog.sequences.values().filter(|each| each.keyspace == from);
    for sequence in within.cloned().collect::<Vec<_>>() {
        rename(catalog, sequence.id, to, &sequence.name)?;
    }
    Ok(())
}

/// Gives a sequence another name, and the defaults that name it.
fn rename(catalog: &mut Catalog, id: TableId, keyspace: &str, name: &str) -> Result<()> {
    let Some(sequence) = catalog.sequences.get(&id).cloned() else { return Ok(()) };
    let (old, new) = (sequence_default(&sequence.keyspace, &sequence.name), sequence_default(keyspace, name));
    for table in catalog.tables.values_mut() {
        if table.columns.iter().any(|column| column.default.as_deref() == Some(&old)) {
            let table = Arc::make_mut(table);
            table.version += 1;
            for column in table.columns.iter_mut().filter(|column| column.default.as_deref() == Some(&old)) {
                column.default = Some(new.clone());
            }
        }
    }
    let renamed = SequenceDef { keyspace: keyspace.into(), name: name.into(), ..(*sequence).clone() };
    catalog.sequences.insert(id, Arc::new(renamed));
    Ok(())
}

fn new_sequence(
    catalog: &mut Catalog,
    keyspace: &str,
    name: &str,
    ty: ColumnType,
    options: &SequenceOptions,
) -> Result<SequenceDef> {
    let column = |name: &str, ty| NewColumn::plain(name.to_string(), ty);
    let state = NewTable {
        keyspace: keyspace.into(),
        name: name.into(),
        columns: vec![
            column("id", ColumnType::Int),
            column("last", ColumnType::BigInt),
            column("called", ColumnType::Boolean),
        ],
        families: Vec::new(),
        primary_key: Some(keyspan_cql::PrimaryKey {
            name: None,
            partition: vec!["id".into()],
            clustering: Vec::new(),
            position: 1,
        }),
        clustering_order: Vec::new(),
        options: Vec::new(),
    };
    let mut sequence = SequenceDef {
        id: catalog.new_table_id(),
        keyspace: keyspace.into(),
        name: name.into(),
        ty,
        start: 0,
        increment: 0,
        min: 0,
        max: 0,
        cycle: false,
        cache: 1,
        restart: 0,
        owned_by: None,
        state: state.build(catalog)?,
    };
    apply(&mut sequence, &SequenceOptions { ty: options.ty.or(Some(ty)), ..options.clone() })?;
    Ok(sequence)
}

/// Sets what the options say, and PostgreSQL's defaults for what they do not.
fn apply(sequence: &mut SequenceDef, options: &SequenceOptions) -> Result<()> {
    let wrong = |message: String| Err(Error::new(ErrorKind::InvalidParameter, message));
    let ty = options.ty.unwrap_or(ColumnType::BigInt);
    let (least, greatest) = range_of(ty)?;
    let increment = options.increment.unwrap_or(1);
    let ascends = increment > 0;
    let min = options.min.flatten().unwrap_or(if ascends { 1 } else { least });
    let max = options.max.flatten().unwrap_or(if ascends { greatest } else { -1 });
    let start = options.start.unwrap_or(if ascends { min } else { max });
    if increment == 0 {
        return wrong("INCREMENT must not be zero".into());
    }
    if min < least || max > greatest {
        return wrong(format!("MINVALUE ({min}) or MAXVALUE ({max}) is out of range for sequence data type"));
    }
    if min >= max {
        return wrong(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})"));
    }
    if start < min {
        return wrong(format!("START value ({start}) cannot be less than MINVALUE ({min})"));
    }
    if start > max {
        return wrong(format!("START value ({start}) cannot be greater than MAXVALUE ({max})"));
    }
    let cache = options.cache.unwrap_or(1);
    if cache < 1 {
        return wrong(format!("CACHE ({cache}) must be greater than zero"));
    }
    (sequence.ty, sequence.increment, sequence.min, sequence.max) = (ty, increment, min, max);
    (sequence.start, sequence.restart, sequence.cache) = (start, start, cache);
    sequence.cycle = options.cycle.unwrap_or(false);
    Ok(())
}

/// The column that OWNED BY names; the inner none: none.
fn owner(catalog: &Catalog, path: &[String], options: &SequenceOptions) -> Result<Option<Option<(TableId, ColumnId)>>> {
    let Some(owner) = &options.owned_by else { return Ok(None) };
    let Some(SequenceOwner { table, column }) = owner else { return Ok(Some(None)) };
    let table = match names::expect(catalog, path, table)? {
        TableOrView::Table(table) => table,
        TableOrView::View(view) => {
            let message = format!("sequence cannot be owned by view \"{}\"", view.name);
            return Err(Error::new(ErrorKind::WrongObjectType, message));
        }
    };
    let column = table.expect_column(column)?;
    Ok(Some(Some((table.id, column.id))))
}

fn find(catalog: &Catalog, path: &[String], name: &ObjectName) -> Option<Arc<SequenceDef>> {
    match &name.keyspace {
        Some(keyspace) => catalog.sequence(keyspace, &name.name).cloned(),
        None => path.iter().find_map(|keyspace| catalog.sequence(keyspace, &name.name)).cloned(),
    }
}

fn expect(catalog: &Catalog, path: &[String], name: &ObjectName) -> Result<Arc<SequenceDef>> {
    let missing = || {
        let message = format!("relation \"{}\" does not exist", names::display(name));
        Error::new(ErrorKind::UndefinedTable, message).at(name.position)
    };
    find(catalog, path, name).ok_or_else(missing)
}
