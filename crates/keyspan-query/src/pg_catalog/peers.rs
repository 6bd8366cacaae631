//! Rows about the sessions of the database, the advisory locks, and the session's prepared statements and cursors.
//!
//! The rule: who is no superuser sees of others that they are there, not what they do.

use super::definition::format_type;
use super::row::{Cell, Row};
use super::source::{DATABASE, Source};
use crate::context::{AdvisoryKey, ShownCursor, ShownLock, ShownSession, ShownStatement};

/// `pg_locks`: the advisory locks.
pub fn locks(source: &Source) -> Vec<Row> {
    source.info.peers.iter().flat_map(|peers| peers.locks()).map(|lock| locked(&lock)).collect()
}

/// PostgreSQL shows the halves of a bigint, or the two ints, and 1 or 2.
fn locked(lock: &ShownLock) -> Row {
    let (class, object, sub) = match lock.key {
        AdvisoryKey::One(key) => (key >> 32 & 0xffff_ffff, key & 0xffff_ffff, 1_i64),
        AdvisoryKey::Two(first, second) => (i64::from(first as u32), i64::from(second as u32), 2),
    };
    Row::new()
        .with("locktype", "advisory")
        .with("database", DATABASE)
        .with("classid", class)
        .with("objid", object)
        .with("objsubid", sub)
        .with("pid", i64::from(lock.process))
        .with("mode", if lock.shared { "ShareLock" } else { "ExclusiveLock" })
        .with("granted", lock.granted)
        .with("fastpath", false)
}

/// `pg_prepared_statements`.
pub fn prepared(source: &Source) -> Vec<Row> {
    let row = |statement: ShownStatement| {
        let types = statement.parameters.iter().map(|oid| format_type(i64::from(*oid), -1)).collect::<Vec<_>>();
        Row::new()
            .with("name", statement.name)
            .with("statement", statement.text)
            .with("prepare_time", Cell::time(Some(statement.prepared)))
            .with("parameter_types", types)
            .with("from_sql", statement.by_sql)
            .with("generic_plans", 0_i64)
            .with("custom_plans", 0_i64)
    };
    source.info.peers.iter().flat_map(|peers| peers.prepared()).map(row).collect()
}

/// `pg_cursors`.
pub fn cursors(source: &Source) -> Vec<Row> {
    let row = |cursor: ShownCursor| {
        Row::new()
            .with("name", cursor.name)
            .with("statement", cursor.text)
            .with("is_holdable", cursor.hold)
            .with("is_binary", false)
            .with("is_scrollable", cursor.scroll)
            .with("creation_time", Cell::time(Some(cursor.declared)))
    };
    source.info.peers.iter().flat_map(|peers| peers.cursors()).map(row).collect()
}

/// `pg_stat_activity`.
pub fn activity(source: &Source) -> Vec<Row> {
    source.info.peers.iter().flat_map(|peers| peers.sessions()).map(|session| active(source, &session)).collect()
}

fn active(source: &Source, session: &ShownSession) -> Row {
    let row = Row::new()
        .with("datid", DATABASE)
        .with("datname", &session.database)
        .with("pid", i64::from(session.process))
        .with("usesysid", source.role_oid(&session.user))
        .with("usename", &session.user)
        .with("application_name", &session.application)
        .with("backend_type", "client backend");
    let rights = &source.catalog.rights;
    if !rights.is_superuser(source.info.principal) && source.info.session_user != session.user {
        return row.with("query", "<insufficient privilege>");
    }
    let row = match &session.client {
        Some((address, port)) => row.with("client_addr", address).with("client_port", i64::from(*port)),
        None => row.with("client_port", -1_i64),
    };
    row.with("backend_start", Cell::Time(session.began))
        .with("xact_start", Cell::time(session.transaction_began))
        .with("query_start", Cell::time(session.statement_began))
        .with("state_change", Cell::Time(session.changed))
        .with("wait_event_type", session.wait.map(|(kind, _)| kind))
        .with("wait_event", session.wait.map(|(_, event)| event))
        .with("state", session.state)
        .with("query", &session.query)
}
