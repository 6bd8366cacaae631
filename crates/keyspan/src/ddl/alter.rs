//! ALTER TABLE. A column that is added again gets a new id, so that what was written before stays gone.

use std::sync::Arc;

use keyspan_cql::{AlterAction, AlterTable, CheckDefinition, ColumnDefinition, ForeignKeyDefinition, RoleName};
use keyspan_model::schema::temporary::is_temporary;
use keyspan_model::{
    Catalog, Check, Error, ErrorKind, KEY_NAME, Object, Result, Span, TableDef, Unchanged, ViewDef, WriteBatch,
};
use keyspan_seam::Snapshot;

use super::grant::change_owner;
use super::table::{NewColumn, check_counters, is_taken};
use super::{
    TRIES_MAX, change, check_free, column_type, comment, family, foreign_key, install, kept_changing, missing, option,
    primary_key, sequence, skipping, statics, unique, user_type, validate,
};
use crate::context::ClientContext;
use crate::depend::{self, ViewedColumn};
use crate::dml::existing;
use crate::names::columns_of;
use crate::names::{self, TableOrView};
use crate::outcome::{Notice, Outcome, Tag};

/// `ALTER TABLE | [MATERIALIZED] VIEW`.
pub(crate) async fn run(context: &mut ClientContext, statement: &AlterTable) -> Result<Outcome> {
    let path = context.settings.search_path();
    let tag = format!("ALTER {}", statement.kind.to_uppercase());
    let catalog = context.newest_catalog();
    let found = names::find(&catalog, &path, &statement.name);
    check_kind(statement.kind, found.as_ref())?;
    if found.is_none() && sequence::altered_as_table(context, statement).await? {
        return Ok(Outcome::done(Tag::plain(tag)));
    }
    if let Some(owner) = new_owner(statement)?
        && (found.is_some() || !statement.if_exists)
    {
        change_owner(context, owner, |catalog| relation(catalog, &path, statement)).await?;
        return Ok(Outcome::done(Tag::plain(tag)));
    }
    if let (Some(TableOrView::Table(_)), Some(action)) = (&found, built(statement)?) {
        match action {
            AlterAction::AddPrimaryKey(key) => primary_key::add(context, &statement.name, key).await?,
            AlterAction::AddUnique(definition) => unique::add(context, &statement.name, definition).await?,
            _ => return Err(Error::internal("an action that reads no rows")),
        }
        return Ok(Outcome::done(Tag::plain(tag)));
    }
    if let Some(TableOrView::Table(table)) = &found
        && let Some(changes) = column_type::of_statement(statement, table)?
    {
        column_type::change(context, &statement.name, &changes).await?;
        return Ok(Outcome::done(Tag::plain(tag)));
    }
    match found {
        None if statement.if_exists => missing(context, "relation", &statement.name),
        Some(TableOrView::View(view)) => alter_view(context, statement, &view).await?,
        _ => alter_table(context, statement, &path).await?,
    }
    Ok(Outcome::done(Tag::plain(tag)))
}

/// 42809 if ALTER VIEW names a table, say. ALTER TABLE is for views, too.
fn check_kind(kind: &str, found: Option<&TableOrView>) -> Result<()> {
    match found {
        Some(found) if kind != "table" && kind != found.kind() => {
            let message = format!("\"{}\" is not a {kind}", found.name());
            let hint = format!("Use ALTER {}.", found.kind().to_uppercase());
            Err(Error::new(ErrorKind::WrongObjectType, message).with_hint(hint))
        }
        _ => Ok(()),
    }
}

/// The role of `OWNER TO`, which stands alone.
fn new_owner(statement: &AlterTable) -> Result<Option<&RoleName>> {
    match statement.actions.as_slice() {
        [AlterAction::OwnerTo(role)] => Ok(Some(role)),
        actions if actions.iter().any(|action| matches!(action, AlterAction::OwnerTo(_))) => {
            Err(Error::not_supported("OWNER TO beside other actions is not supported")
                .with_hint("Write two statements."))
        }
        _ => Ok(None),
    }
}

/// `ADD PRIMARY KEY` or `ADD UNIQUE`, for which all rows are read, and which stand alone.
fn built(statement: &AlterTable) -> Result<Option<&AlterAction>> {
    let name = |action: &AlterAction| match action {
        AlterAction::AddPrimaryKey(_) => Some("ADD PRIMARY KEY"),
        AlterAction::AddUnique(_) => Some("ADD UNIQUE"),
        _ => None,
    };
    match (statement.actions.as_slice(), statement.actions.iter().find_map(name)) {
        (_, None) => Ok(None),
        ([action], Some(_)) => Ok(Some(action)),
        (_, Some(name)) => Err(Error::not_supported(format!("{name} beside other actions is not supported"))
            .with_hint("Write two statements.")),
    }
}

fn relation(catalog: &Catalog, path: &[String], statement: &AlterTable) -> Result<Object> {
    Ok(Object::Relation(names::expect(catalog, path, &statement.name)?.id()))
}

/// Checks the rows, and installs the definition if nobody has written to the table meanwhile. Else all is done again
/// while writers wait.
async fn alter_table(context: &mut ClientContext, statement: &AlterTable, path: &[String]) -> Result<()> {
    let mut closed = None;
    for _ in 0..TRIES_MAX {
        let before = context.catalog_to_change();
        let table = names::table(&before, path, &statement.name)?;
        // Before its rows are read.
        context.require_owner(&Object::Relation(table.id), &format!("table {}", table.name))?;
        for action in &statement.actions {
            foreign_key::check(context, (&table.keyspace, &table.name), foreign_keys_of(action))?;
        }
        let unchanged = check_rows(context, &table, &statement.actions).await?;
        // What is too old is told when the rows have been read, not when the statement began.
        let now = (!context.in_transaction_block()).then(|| context.database.clock().now());
        let mut next = (*before).clone();
        let altered = alter(&mut next, statement, (path, now))?;
        let batch = WriteBatch { unchanged, ..WriteBatch::default() };
        if next == *before || install(context, &before, next, Some(batch), super::Check::ByDifference).await? {
            altered.tell(context);
            let options = statement.actions.iter().filter_map(|action| match action {
                AlterAction::SetOptions(options) => Some(option::warnings(options)),
                _ => None,
            });
            options.flatten().for_each(|warning| context.notice(warning));
            return Ok(());
        }
        closed.get_or_insert_with(|| context.database.gates().close(table.id));
    }
    Err(kept_changing())
}

/// What is to be told of a table that was altered.
#[derive(Default)]
struct Altered {
    skipped: Vec<(bool, &'static str, String)>,
    keys: Vec<ForeignKeyDefinition>,
}

impl Altered {
    fn tell(self, context: &mut ClientContext) {
        foreign_key::notify(context, self.keys.iter());
        for (exists, what, name) in self.skipped {
            match exists {
                true => skipping(context, what, &name),
                false => context.notice(Notice::plain(format!("{what} \"{name}\" does not exist, skipping"))),
            }
        }
    }
}

/// `now`: as for [`option::apply`].
fn alter(catalog: &mut Catalog, statement: &AlterTable, (path, now): (&[String], Option<i64>)) -> Result<Altered> {
    let table = names::table(catalog, path, &statement.name)?;
    let mut next = (*table).clone();
    let mut altered = Altered::default();
    for action in &statement.actions {
        match apply(catalog, (path, now), &mut next, action)? {
            Some(what) => altered.skipped.push(what),
            None => altered.keys.extend_from_slice(foreign_keys_of(action)),
        }
    }
    check_counters(&next)?;
    user_type::settle(catalog, &mut next)?;
    comment::settle(&mut next);
    if next != *table {
        next.version += 1;
        catalog.tables.insert(next.id, Arc::new(next));
    }
    Ok(altered)
}

/// Whether something was skipped since it exists (or does not), and what.
pub(super) type Skipped = Option<(bool, &'static str, String)>;

/// The foreign keys that an action adds.
fn foreign_keys_of(action: &AlterAction) -> &[ForeignKeyDefinition] {
    match action {
        AlterAction::AddColumn { foreign_keys, .. } => foreign_keys,
        AlterAction::AddForeignKey(key) => std::slice::from_ref(key),
        _ => &[],
    }
}

/// `now`: as for [`option::apply`].
fn apply(
    catalog: &mut Catalog,
    (path, now): (&[String], Option<i64>),
    table: &mut TableDef,
    action: &AlterAction,
) -> Result<Skipped> {
    match action {
        AlterAction::AddColumn { if_not_exists, column, checks, uniques, foreign_keys } => {
            let skipped = add(catalog, table, *if_not_exists, column, checks)?;
            if skipped.is_none() {
                unique::attach(catalog, table, uniques)?;
                foreign_key::attach(catalog, path, table, foreign_keys)?;
            }
            Ok(skipped)
        }
        AlterAction::AddForeignKey(key) => {
            foreign_key::attach(catalog, path, table, std::slice::from_ref(key)).map(|()| None)
        }
        AlterAction::AddFamily { if_not_exists, family } => {
            if *if_not_exists && table.family(&family.name).is_some() {
                return Ok(Some((true, "family", family.name.clone())));
            }
            check_no_rollups(catalog, table, "a family")?;
            let ids = family::Ids::new(catalog, family);
            family::add(catalog, table, family, ids).map(|()| None)
        }
        AlterAction::OwnerTo(_) => Err(Error::internal("OWNER TO stands alone")),
        AlterAction::AddPrimaryKey(_) | AlterAction::AddUnique(_) => {
            Err(Error::internal("an action that stands alone"))
        }
        AlterAction::SetGc { family, gc } => family::set_gc(table, family, gc).map(|()| None),
        AlterAction::DropColumn { column, cascade, .. } if table.family(column).is_some() => {
            drop_family(catalog, table, column, *cascade).map(|()| None)
        }
        AlterAction::DropColumn { if_exists, column, cascade } => {
            drop_column(catalog, table, *if_exists, column, *cascade)
        }
        AlterAction::RenameColumn { from, to } => rename_column(catalog, table, from, to),
        AlterAction::RenameTo(name) => move_to(catalog, table, None, Some(name)),
        AlterAction::RenameConstraint { from, to } => rename_constraint(catalog, table, from, to).map(|()| None),
        // There are none.
        AlterAction::SetTrigger(None) => Ok(None),
        AlterAction::SetTrigger(Some(name)) => {
            let message = format!("trigger \"{name}\" for table \"{}\" does not exist", table.name);
            Err(Error::new(ErrorKind::UndefinedObject, message))
        }
        AlterAction::SetKeyspace(keyspace) => move_to(catalog, table, Some(keyspace), None),
        AlterAction::SetOptions(options) => option::change_options(table, options, now).map(|()| None),
        AlterAction::SetDefault { column, default } => {
            let name = table.expect_column(column)?.name.clone();
            let text = default.as_ref();
            let text = text.and_then(|text| sequence::settled_default(catalog, &table.keyspace, &text.text));
            for column in table.columns.iter_mut().filter(|column| column.name == name) {
                column.default = text.clone();
            }
            Ok(None)
        }
        AlterAction::SetNotNull { column, not_null } => set_not_null(table, column, *not_null),
        AlterAction::AddIdentity { column, sequence } => {
            sequence::add_identity(catalog, table, column, sequence).map(|()| None)
        }
        AlterAction::SetIdentity { column, identity, options } => {
            sequence::set_identity(catalog, table, column, (*identity, options)).map(|()| None)
        }
        AlterAction::DropIdentity { column, if_exists } => sequence::drop_identity(catalog, table, column, *if_exists),
        AlterAction::ValidateConstraint(name) => match table.has_constraint(name) {
            true => Ok(None),
            false => Err(no_constraint(table, name)),
        },
        AlterAction::SetType(change) => {
            let name = table.expect_column(&change.column)?.name.clone();
            for column in table.columns.iter_mut().filter(|column| column.name == name) {
                (column.max_length, column.text_type) = (change.max_length, change.text_type);
            }
            Ok(None)
        }
        AlterAction::AddCheck(definition) => {
            table.checks = validate::name_checks(table, std::slice::from_ref(definition))?;
            Ok(None)
        }
        AlterAction::DropConstraint { name, .. } if table.names_key(name) => {
            let error = Error::not_supported("the PRIMARY KEY of a table cannot be dropped: rows are stored by it");
            Err(error.with_hint("Write CREATE TABLE new (PRIMARY KEY (…)) AS SELECT … FROM old, then rename."))
        }
        AlterAction::DropConstraint { if_exists, name, cascade } => {
            let before = table.checks.len();
            table.checks.retain(|check| check.name != *name);
            let dropped = table.checks.len() < before || unique::drop_constraint(table, name);
            let dropped = dropped || foreign_key::drop_constraint(table, name);
            foreign_key::settle(catalog, table, &format!("drop constraint {name} on table {}", table.name), *cascade)?;
            match (dropped, if_exists) {
                (true, _) => Ok(None),
                (false, true) => Ok(Some((false, "constraint", name.clone()))),
                (false, false) => Err(no_constraint(table, name)),
            }
        }
    }
}

/// Fails where materialized views of a table are kept: they follow its rows, not its other relations.
pub(super) fn check_no_rollups(catalog: &Catalog, table: &TableDef, what: &str) -> Result<()> {
    let Some((view, _)) = catalog.rollups_of(table.id).next() else { return Ok(()) };
    let (table, view) = (&table.name, &view.name);
    let message = format!("{what} of table \"{table}\" and materialized view \"{view}\" exclude each other");
    Err(Error::not_supported(message))
}

fn add(
    catalog: &mut Catalog,
    table: &mut TableDef,
    if_not_exists: bool,
    column: &ColumnDefinition,
    checks: &[CheckDefinition],
) -> Result<Skipped> {
    if table.column(&column.name).is_some() || table.family(&column.name).is_some() {
        if if_not_exists {
            return Ok(Some((true, "column", column.name.clone())));
        }
        return Err(column_exists(table, &column.name).at(column.position));
    }
    let declared = NewColumn::declared(column)?;
    table.columns.push(declared.define(catalog.new_column_id(), declared.role()));
    statics::follow(catalog, table)?;
    sequence::attach(catalog, table, &[declared])?;
    table.checks = validate::name_checks(table, checks)?;
    Ok(None)
}

fn no_constraint(table: &TableDef, name: &str) -> Error {
    let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
    Error::new(ErrorKind::UndefinedObject, message)
}

fn column_exists(table: &TableDef, column: &str) -> Error {
    let message = format!("column \"{column}\" of relation \"{}\" already exists", table.name);
    Error::new(ErrorKind::DuplicateColumn, message)
}

fn drop_family(catalog: &mut Catalog, table: &mut TableDef, name: &str, cascade: bool) -> Result<()> {
    let Some(gone) = table.family(name).cloned() else { return Ok(()) };
    let viewed = ViewedColumn { table: table.id, id: gone.value.id, name };
    if cascade {
        depend::drop_views_of_column(catalog, viewed);
    }
    depend::check_no_views_of_column(catalog, viewed, &format!("drop family {name} of table {}", table.name))?;
    table.indexes.retain(|index| !index.columns.iter().any(|column| gone.has_column(*column)));
    table.families.retain(|family| family.name != name);
    Ok(())
}

fn drop_column(
    catalog: &mut Catalog,
    table: &mut TableDef,
    if_exists: bool,
    name: &str,
    cascade: bool,
) -> Result<Skipped> {
    if table.column(name).is_none() && if_exists {
        return Ok(Some((false, "column", name.to_string())));
    }
    let gone = table.expect_column(name)?.clone();
    if gone.is_key() {
        let message = format!("Cannot drop PRIMARY KEY part {name}");
        return Err(Error::new(ErrorKind::InvalidTableDefinition, message));
    }
    let viewed = ViewedColumn { table: table.id, id: gone.id, name };
    if cascade {
        depend::drop_views_of_column(catalog, viewed);
    }
    depend::check_no_views_of_column(catalog, viewed, &format!("drop column {name} of table {}", table.name))?;
    table.foreign_keys.retain(|key| !key.columns.contains(&gone.id));
    table.columns.retain(|column| column.name != name);
    table.indexes.retain(|index| !index.columns.contains(&gone.id));
    statics::follow(catalog, table)?;
    table.checks.retain(|check| !mentions(check, name));
    table.options.remove(&format!("comment.{name}"));
    foreign_key::settle(catalog, table, &format!("drop column {name} of table {}", table.name), cascade)?;
    Ok(None)
}

/// Whether a constraint is about this column.
fn mentions(check: &Check, column: &str) -> bool {
    keyspan_cql::parse_expression(&check.sql).is_ok_and(|expression| columns_of(&expression).contains(column))
}

fn rename_column(catalog: &Catalog, table: &mut TableDef, from: &str, to: &str) -> Result<Skipped> {
    if table.family(from).is_some() {
        return Err(Error::not_supported(format!("family \"{from}\" cannot be renamed")));
    }
    let id = table.expect_column(from)?.id;
    if table.column(to).is_some() || table.family(to).is_some() {
        return Err(column_exists(table, to));
    }
    let viewed = ViewedColumn { table: table.id, id, name: from };
    depend::check_no_views_of_column(catalog, viewed, &format!("rename column {from} of table {}", table.name))?;
    if let Some(check) = table.checks.iter().find(|check| mentions(check, from)) {
        let message = format!("cannot rename column {from} because constraint {} depends on it", check.name);
        let error = Error::new(ErrorKind::DependentObjects, message);
        return Err(error.with_hint("Drop the constraint, rename, then add it again."));
    }
    for column in table.columns.iter_mut().filter(|column| column.name == from) {
        column.name = to.to_string();
    }
    if let Some(comment) = table.options.remove(&format!("comment.{from}")) {
        table.options.insert(format!("comment.{to}"), comment);
    }
    Ok(None)
}

fn move_to(catalog: &mut Catalog, table: &mut TableDef, keyspace: Option<&str>, name: Option<&str>) -> Result<Skipped> {
    let keyspace = keyspace.unwrap_or(&table.keyspace).to_string();
    let name = name.unwrap_or(&table.name).to_string();
    check_moves(&table.keyspace, &keyspace)?;
    names::expect_keyspace(catalog, &keyspace)?;
    let new = keyspan_cql::ObjectName { database: None, keyspace: None, name: name.clone(), position: 1 };
    check_free(catalog, &keyspace, &new).map_err(|error| Error { position: None, ..error })?;
    if keyspace != table.keyspace {
        check_indexes_free(catalog, &keyspace, table)?;
    }
    depend::follow_rename(catalog, table.id, (&keyspace, &name), &format!("rename table {}", table.name))?;
    if table.has_key() {
        table.options.insert(KEY_NAME.into(), table.key_name());
    }
    (table.keyspace, table.name) = (keyspace, name);
    sequence::follow(catalog, table)?;
    Ok(None)
}

/// RENAME CONSTRAINT: the table's key, a unique constraint, a CHECK or a foreign key.
pub(super) fn rename_constraint(catalog: &Catalog, table: &mut TableDef, from: &str, to: &str) -> Result<()> {
    if !table.has_constraint(from) {
        return Err(no_constraint(table, from));
    }
    if table.has_constraint(to) {
        let message = format!("constraint \"{to}\" for relation \"{}\" already exists", table.name);
        return Err(Error::new(ErrorKind::DuplicateObject, message));
    }
    let is_key = table.names_key(from);
    let is_index = is_key || table.indexes.iter().any(|index| index.name == from);
    if is_index && is_taken(catalog, &table.keyspace, to) {
        return Err(super::exists(to));
    }
    if is_key {
        table.options.insert(KEY_NAME.into(), to.to_owned());
    }
    let indexes = table.indexes.iter_mut().map(|index| &mut index.name);
    let checks = table.checks.iter_mut().map(|check| &mut check.name);
    let foreign_keys = table.foreign_keys.iter_mut().map(|key| &mut key.name);
    if let Some(name) = indexes.chain(checks).chain(foreign_keys).find(|name| *name == from) {
        *name = to.to_owned();
    }
    comment::rename_constraint(table, from, to);
    Ok(())
}

/// 42P07 if another keyspace has something of the name of the table's key or of one of its indexes.
fn check_indexes_free(catalog: &Catalog, keyspace: &str, table: &TableDef) -> Result<()> {
    let key = table.has_key().then(|| table.key_name());
    let mut names = table.indexes.iter().map(|index| index.name.clone()).chain(key);
    match names.find(|name| is_taken(catalog, keyspace, name)) {
        Some(name) => Err(super::exists(&name)),
        None => Ok(()),
    }
}

/// 0A000 for a move into a session's keyspace, or out of it.
fn check_moves(from: &str, to: &str) -> Result<()> {
    match from != to && (is_temporary(from) || is_temporary(to)) {
        true => Err(Error::not_supported("cannot move objects into or out of temporary schemas")),
        false => Ok(()),
    }
}

fn set_not_null(table: &mut TableDef, name: &str, not_null: bool) -> Result<Skipped> {
    if table.expect_column(name)?.is_key() && !not_null {
        let message = format!("column \"{name}\" is in a primary key");
        return Err(Error::new(ErrorKind::InvalidTableDefinition, message));
    }
    for column in table.columns.iter_mut().filter(|column| column.name == name) {
        column.not_null = not_null;
    }
    Ok(None)
}

/// What the rows that are there must satisfy before the change, and the forms of its expressions. What must not have
/// been written when the definition is installed: the relations whose rows were checked.
async fn check_rows(context: &mut ClientContext, table: &TableDef, actions: &[AlterAction]) -> Result<Vec<Unchanged>> {
    let snapshot = context.newest()?;
    let mut looked_at = false;
    for action in actions {
        looked_at |= check_action(context, &snapshot, table, action).await?;
    }
    let unchanged = |relation| Unchanged { relation, span: Span::all(), seq: snapshot.seq() };
    let relations = std::iter::once(table.rows).chain(table.statics).filter(|_| looked_at);
    Ok(relations.map(unchanged).collect())
}

/// As [`check_rows`], of one action. Whether rows were looked at.
async fn check_action(
    context: &mut ClientContext,
    snapshot: &Arc<dyn Snapshot>,
    table: &TableDef,
    action: &AlterAction,
) -> Result<bool> {
    match action {
        AlterAction::AddColumn { column, checks, uniques, if_not_exists, .. } => {
            if !uniques.is_empty() {
                unique::check_caps(context)?;
            }
            if *if_not_exists && table.column(&column.name).is_some() {
                return Ok(false);
            }
            validate::default(context, column)?;
            let mut after = table.clone();
            let declared = NewColumn::declared(column)?;
            after.columns.push(declared.define(Catalog::initial().new_column_id(), declared.role()));
            user_type::settle(&context.catalog(), &mut after).map_err(|error| error.at(column.position))?;
            for check in checks {
                validate::check(context, &after, &check.check.expression)?;
                statics::check_condition(&after, &check.check.expression)?;
            }
            // A default is for rows to come: those that are there have no cell in the new column.
            let never_null = column.not_null || column.sequence.is_some();
            if never_null && existing::any_row(context, snapshot, table).await? {
                return Err(contains_nulls(table, &column.name));
            }
            Ok(never_null)
        }
        AlterAction::SetNotNull { column, not_null: true } => {
            let id = statics::expect_plain(table, column, "NOT NULL")?.id;
            match existing::any_null(context, snapshot, table, id).await? {
                true => Err(contains_nulls(table, column)),
                false => Ok(true),
            }
        }
        AlterAction::SetType(change) => {
            let own = table.expect_column(&change.column)?;
            match change.max_length.filter(|most| own.max_length.is_none_or(|length| *most < length)) {
                Some(most) if existing::any_longer(context, snapshot, table, own, most).await? => {
                    let message = format!("value too long for type character varying({most})");
                    Err(Error::new(ErrorKind::StringTooLong, message))
                }
                shorter => Ok(shorter.is_some()),
            }
        }
        AlterAction::SetDefault { column, default: Some(source) } => {
            let ty = statics::expect_plain(table, column, "a DEFAULT")?.ty;
            validate::default_of(context, &source.expression, ty)?;
            Ok(false)
        }
        AlterAction::AddIdentity { column, .. } => {
            statics::expect_plain(table, column, "a sequence")?;
            Ok(false)
        }
        AlterAction::AddCheck(definition) => {
            validate::check(context, table, &definition.check.expression)?;
            statics::check_condition(table, &definition.check.expression)?;
            match existing::any_breaking(context, snapshot, table, &definition.check.expression).await? {
                true => {
                    let name = definition.name.clone().unwrap_or_else(|| format!("{}_check", table.name));
                    Err(is_violated(table, &name))
                }
                false => Ok(true),
            }
        }
        _ => Ok(false),
    }
}

/// 23514 where a row of this state does not meet one of these constraints of the table.
pub(crate) async fn expect_met(
    context: &mut ClientContext,
    state: &Arc<dyn Snapshot>,
    table: &TableDef,
    checks: &[&Check],
) -> Result<()> {
    for check in checks {
        let condition = keyspan_cql::parse_expression(&check.sql)?;
        if existing::any_breaking(context, state, table, &condition).await? {
            return Err(is_violated(table, &check.name));
        }
    }
    Ok(())
}

/// Declares columns NOT NULL: 23502 where one is null in a row of this state.
pub(crate) async fn declare_not_null(
    context: &mut ClientContext,
    state: &Arc<dyn Snapshot>,
    table: &TableDef,
    columns: &[&str],
) -> Result<()> {
    for column in columns {
        let id = table.expect_column(column)?.id;
        if existing::any_null(context, state, table, id).await? {
            return Err(contains_nulls(table, column));
        }
    }
    change(context, |catalog| {
        if let Some(next) = catalog.tables.get_mut(&table.id).map(Arc::make_mut) {
            let named = next.columns.iter_mut().filter(|column| columns.contains(&column.name.as_str()));
            named.for_each(|column| column.not_null = true);
        }
        Ok(())
    })
    .await
}

fn is_violated(table: &TableDef, check: &str) -> Error {
    let message = format!("check constraint \"{check}\" of relation \"{}\" is violated by some row", table.name);
    Error::new(ErrorKind::Check, message)
}

pub(super) fn contains_nulls(table: &TableDef, column: &str) -> Error {
    let message = format!("column \"{column}\" of relation \"{}\" contains null values", table.name);
    Error::new(ErrorKind::NotNull, message)
}

async fn alter_view(context: &mut ClientContext, statement: &AlterTable, view: &ViewDef) -> Result<()> {
    let (kind, hint) = match view.materialized {
        Some(_) => (view.kind(), "Drop it and create it anew."),
        None => (view.kind(), "Use CREATE OR REPLACE VIEW."),
    };
    change(context, |catalog| {
        // A refresh may have put other rows in their place meanwhile.
        let now = catalog.views.get(&view.id).ok_or_else(|| {
            Error::new(ErrorKind::UndefinedTable, format!("relation \"{}\" does not exist", view.name))
        })?;
        let mut next = ViewDef::clone(now);
        for action in &statement.actions {
            let (keyspace, name) = match action {
                AlterAction::RenameTo(name) => (next.keyspace.clone(), name.clone()),
                AlterAction::SetKeyspace(keyspace) => (keyspace.clone(), next.name.clone()),
                _ => {
                    let message = format!("\"{}\" is a {kind}, not a table", view.name);
                    return Err(Error::new(ErrorKind::WrongObjectType, message).with_hint(hint));
                }
            };
            check_moves(&next.keyspace, &keyspace)?;
            names::expect_keyspace(catalog, &keyspace)?;
            let new = keyspan_cql::ObjectName { database: None, keyspace: None, name: name.clone(), position: 1 };
            check_free(catalog, &keyspace, &new).map_err(|error| Error { position: None, ..error })?;
            if keyspace != next.keyspace
                && let Some(rows) = next.rows()
            {
                check_indexes_free(catalog, &keyspace, rows)?;
            }
            let what = format!("rename {kind} {}", view.name);
            depend::follow_rename(catalog, view.id, (&keyspace, &name), &what)?;
            if let Some(materialized) = &mut next.materialized {
                materialized.rename(&keyspace, &name);
            }
            (next.keyspace, next.name) = (keyspace, name);
        }
        catalog.views.insert(next.id, Arc::new(next));
        Ok(())
    })
    .await
}
