//! Statements that change the catalog.
//!
//! The rule: each is a function from one catalog to the next. Outside a transaction it is tried again when another
//! session changed the catalog in between; inside one it changes the transaction's own catalog, which COMMIT installs
//! together with the transaction's writes and with what others have changed meanwhile, or not at all.

pub(crate) mod alter;
pub(crate) mod column_type;
pub(crate) mod comment;
pub(crate) mod create_as;
pub(crate) mod drop;
pub(crate) mod extension;
mod family;
mod foreign_key;
pub(crate) mod grant;
pub(crate) mod index;
pub(crate) mod keyspace;
pub(crate) mod like;
pub(crate) mod materialized;
mod option;
mod primary_key;
mod rewrite;
mod rights;
pub(crate) mod role;
pub(crate) mod sequence;
mod statics;
pub(crate) mod table;
pub(crate) mod temporary;
mod unique;
pub(crate) mod user_type;
mod validate;
mod vector;
pub(crate) mod view;

use std::sync::Arc;

use keyspan_cql::ObjectName;
use keyspan_model::{Catalog, Error, ErrorKind, Result, WriteBatch};

use crate::context::ClientContext;
use crate::database::count;
use crate::names;

/// How often a change is tried when other sessions keep changing the catalog.
pub(crate) const TRIES_MAX: usize = 100;

/// Applies `work` to the catalog. `work` may be called several times, each time with a newer catalog.
pub(crate) async fn change<T>(context: &mut ClientContext, work: impl Fn(&mut Catalog) -> Result<T>) -> Result<T> {
    change_with(context, Check::ByDifference, work).await
}

/// Whether a change is allowed to who makes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// The difference of the catalogs tells what must be allowed.
    ByDifference,
    /// The statement has asked already.
    Done,
}

async fn change_with<T>(
    context: &mut ClientContext,
    check: Check,
    work: impl Fn(&mut Catalog) -> Result<T>,
) -> Result<T> {
    for _ in 0..TRIES_MAX {
        let before = context.catalog_to_change();
        let mut next = (*before).clone();
        let answer = work(&mut next)?;
        if next == *before || install(context, &before, next, None, check).await? {
            return Ok(answer);
        }
    }
    Err(kept_changing())
}

/// Puts a catalog in the place of the one it was made from. False if that one was changed meanwhile by another session, or
/// one has given the same numbers: then the work is to be done again.
async fn install(
    context: &mut ClientContext,
    before: &Arc<Catalog>,
    mut next: Catalog,
    batch: Option<WriteBatch>,
    check: Check,
) -> Result<bool> {
    if check == Check::ByDifference {
        rights::check(context.principal(), before, &next)?;
    }
    rights::settle(context.principal(), before, &mut next);
    if !context.database.take_numbers(before, &next) {
        return Ok(false);
    }
    if let Some(transaction) = &mut context.transaction {
        transaction.set_catalog(before, next);
        transaction.write(batch.unwrap_or_default());
        return Ok(true);
    }
    next.version = before.version + 1;
    let batch = batch.map(|batch| WriteBatch { relaxed: context.settings.relaxed_durability(), ..batch });
    match context.database.store().change(before.version, next, batch).await {
        Ok(_) => return Ok(true),
        Err(error) if error.kind == ErrorKind::Serialization => count(&context.database.counts().retries),
        Err(error) => return Err(error),
    }
    context.running.check()?;
    Ok(false)
}

pub(crate) fn kept_changing() -> Error {
    Error::new(ErrorKind::Serialization, "the catalog kept changing").with_hint("Run the statement again.")
}

/// 42P07 if the name is taken by a table, view, sequence or index.
fn check_free(catalog: &Catalog, keyspace: &str, name: &ObjectName) -> Result<()> {
    if !table::is_taken(catalog, keyspace, &name.name) {
        return Ok(());
    }
    Err(exists(&name.name).at(name.position))
}

fn exists(name: &str) -> Error {
    Error::new(ErrorKind::DuplicateTable, format!("relation \"{name}\" already exists"))
}

/// What IF NOT EXISTS says when there is one.
fn skipping(context: &mut ClientContext, what: &str, name: &str) {
    let message = format!("{what} \"{name}\" already exists, skipping");
    context.notice(crate::outcome::Notice { sqlstate: "42P07", ..crate::outcome::Notice::plain(message) });
}

/// What IF EXISTS says when there is none.
fn missing(context: &mut ClientContext, what: &str, name: &ObjectName) {
    let message = format!("{what} \"{}\" does not exist, skipping", names::display(name));
    context.notice(crate::outcome::Notice::plain(message));
}
