//! SET, RESET, DISCARD and USE: what changes settings.

use std::ops::ControlFlow;

use ast::{Visit, Visitor};
use keyspan_cql::{Discard, IsolationLevel, Set, SetConstraints, TransactionModes, ast};
use keyspan_model::schema::temporary::named_keyspace;
use keyspan_model::{Error, ErrorKind, Result};
use keyspan_query::{Peers, SettingChange};

use crate::context::ClientContext;
use crate::ddl;
use crate::names::{self, fold_case};
use crate::outcome::{Notice, Outcome, Tag};
use crate::peer::Act;
use crate::transaction_control;

/// `USE`: the keyspace leads the search path.
pub(crate) fn use_keyspace(context: &mut ClientContext, keyspace: &str) -> Result<Outcome> {
    names::expect_keyspace(&context.catalog(), keyspace)?;
    context.settings.set("search_path", &[keyspace.to_string()])?;
    context.settings_changed();
    Ok(Outcome::done(Tag::plain("USE")))
}

/// `SET`.
pub(crate) fn set(context: &mut ClientContext, statement: &Set) -> Result<Outcome> {
    let key = statement.name.to_lowercase();
    if key == "transaction_isolation" || key == "transaction_read_only" {
        return set_transaction(context, &key, statement.values.as_deref());
    }
    context.check_setting(&key, statement.values.as_deref())?;
    let former = context.settings.get(&key).map(str::to_string);
    match &statement.values {
        None => context.settings.reset(&key)?,
        Some(values) => context.settings.set(&key, values)?,
    }
    if statement.local {
        match &mut context.transaction {
            Some(transaction) => transaction.set_local(key, former.unwrap_or_default()),
            None => {
                if let Some(former) = former {
                    context.settings.restore(&[(key, former)]);
                }
                let notice = Notice::warning("25P01", "SET LOCAL can only be used in transaction blocks");
                context.notice(notice);
            }
        }
    }
    context.settings_changed();
    Ok(Outcome::done(Tag::plain("SET")))
}

/// `SET CONSTRAINTS`: none is ever deferred, and foreign keys, which may be, are not enforced.
pub(crate) fn set_constraints(context: &mut ClientContext, statement: &SetConstraints) -> Result<Outcome> {
    let (catalog, path) = (context.catalog(), context.settings.search_path());
    for name in statement.names.iter().flatten() {
        let having = |keyspace: &str| {
            catalog.tables.values().find(|table| table.keyspace == keyspace && table.has_constraint(&name.name))
        };
        let found = match &name.keyspace {
            Some(keyspace) => named_keyspace(&path, keyspace).and_then(having),
            None => path.iter().find_map(|keyspace| having(keyspace)),
        };
        let Some(table) = found else {
            let message = format!("constraint \"{}\" does not exist", names::display(name));
            return Err(Error::new(ErrorKind::UndefinedObject, message).at(name.position));
        };
        if statement.deferred && !table.foreign_keys.iter().any(|key| key.name == name.name) {
            let message = format!("constraint \"{}\" is not deferrable", name.name);
            return Err(Error::new(ErrorKind::WrongObjectType, message).at(name.position));
        }
    }
    Ok(Outcome::done(Tag::plain("SET CONSTRAINTS")))
}

/// Whether a query calls `set_config`: in an expression, or in FROM.
pub(crate) fn calls_set_config(query: &ast::Query) -> bool {
    query.visit(&mut SetConfigCalls).is_break()
}

/// Breaks at a call of `set_config`.
struct SetConfigCalls;

impl Visitor for SetConfigCalls {
    type Break = ();

    fn pre_visit_expr(&mut self, expression: &ast::Expr) -> ControlFlow<()> {
        match expression {
            ast::Expr::Function(function) => break_at_set_config(&function.name),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &ast::TableFactor) -> ControlFlow<()> {
        match factor {
            ast::TableFactor::Table { name, args: Some(_), .. } | ast::TableFactor::Function { name, .. } => {
                break_at_set_config(name)
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn break_at_set_config(function: &ast::ObjectName) -> ControlFlow<()> {
    match function.0.last().and_then(|part| part.as_ident()) {
        Some(name) if fold_case(name) == "set_config" => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    }
}

/// Changes settings as calls of `set_config` in the statement asked for, once its rows have been read.
pub(crate) fn apply_changes(context: &mut ClientContext) -> Result<()> {
    context.take_setting_changes().into_iter().try_for_each(|change| set_config(context, change))
}

/// `set_config(name, value, is_local)`.
fn set_config(context: &mut ClientContext, change: SettingChange) -> Result<()> {
    let SettingChange { name, value, local } = change;
    let values = context.settings.values_of(&name, &value);
    set(context, &Set { name, values: Some(values), local }).map(drop)
}

/// `SET transaction_isolation = …` is another spelling of SET TRANSACTION.
fn set_transaction(context: &mut ClientContext, key: &str, values: Option<&[String]>) -> Result<Outcome> {
    let value = values.and_then(|values| values.first()).map(|value| value.to_lowercase());
    let mut modes = TransactionModes::default();
    match (key, value.as_deref()) {
        (_, None) => {}
        ("transaction_read_only", Some(value)) => modes.read_only = Some(matches!(value, "on" | "true" | "1" | "yes")),
        (_, Some("read uncommitted")) => modes.isolation = Some(IsolationLevel::ReadUncommitted),
        (_, Some("read committed")) => modes.isolation = Some(IsolationLevel::ReadCommitted),
        (_, Some("repeatable read")) => modes.isolation = Some(IsolationLevel::RepeatableRead),
        (_, Some("serializable")) => modes.isolation = Some(IsolationLevel::Serializable),
        (_, Some(other)) => {
            let message = format!("invalid value for parameter \"{key}\": \"{other}\"");
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
    }
    transaction_control::apply_modes(context, modes)?;
    Ok(Outcome::done(Tag::plain("SET")))
}

/// `RESET`.
pub(crate) fn reset(context: &mut ClientContext, name: Option<&str>) -> Result<Outcome> {
    match name {
        Some(name) => context.settings.reset(name)?,
        None => context.settings.reset_all(),
    }
    context.settings_changed();
    Ok(Outcome::done(Tag::plain("RESET")))
}

/// `DISCARD`.
pub(crate) async fn discard(context: &mut ClientContext, what: Discard) -> Result<Outcome> {
    Ok(Outcome::done(Tag::plain(match what {
        Discard::All => {
            if context.in_transaction_block() {
                let message = "DISCARD ALL cannot run inside a transaction block";
                return Err(Error::new(ErrorKind::ActiveTransaction, message));
            }
            ddl::temporary::discard(context).await?;
            context.cursors.clear();
            context.sequences.discard();
            context.peer.act(Act::Unlisten(None))?;
            context.peer.unlock_all();
            context.settings.reset_all();
            context.settings_changed();
            "DISCARD ALL"
        }
        Discard::Plans => "DISCARD PLANS",
        Discard::Sequences => {
            context.sequences.discard();
            "DISCARD SEQUENCES"
        }
        Discard::Temporary => {
            ddl::temporary::discard(context).await?;
            "DISCARD TEMP"
        }
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_of_set_config_is_found_by_its_name_not_by_the_text() {
        let calls = |sql: &str| calls_set_config(&names::parse_query(sql).expect("a query"));
        assert!(calls("SELECT pg_catalog.SET_CONFIG('a.b', 'c', false)"));
        assert!(calls("SELECT * FROM (SELECT set_config(name, 'on', true) FROM pg_settings) AS changed"));
        assert!(calls("SELECT * FROM set_config('a.b', 'c', false)"));
        assert!(calls("SELECT 1, (SELECT * FROM LATERAL set_config('a.b', 'c', false))"));
        assert!(!calls("SELECT 'set_config' AS set_config -- set_config('a.b', 'c', false)"));
    }
}
