//! FLUSH, COMPACT, CHECKPOINT, VACUUM, ANALYZE, BACKUP, REFRESH; and LISTEN, NOTIFY.

use std::path::Path;

use keyspan_cql::{Maintain, ObjectName, Statement};
use keyspan_model::{Error, ErrorKind, Object, Result};

use crate::context::ClientContext;
use crate::ddl::materialized;
use crate::names;
use crate::outcome::{Notice, Outcome, Tag};
use crate::peer::Act;

/// Runs one of these statements. The store works on all tables at once, so names are only checked to exist.
pub(crate) async fn run(context: &mut ClientContext, statement: &Maintain) -> Result<Outcome> {
    let (tag, names, work): (_, &[ObjectName], _) = match statement {
        Maintain::Flush(names) => ("FLUSH", names, Upkeep::Flush),
        Maintain::Compact(names) => ("COMPACT", names, Upkeep::Compact),
        Maintain::Checkpoint => ("CHECKPOINT", &[], Upkeep::Flush),
        Maintain::Backup(directory) => ("BACKUP", &[], Upkeep::Backup(directory)),
        // Space is freed and statistics are kept without being asked.
        Maintain::Vacuum(names) => ("VACUUM", names, Upkeep::Nothing),
        Maintain::Analyze(names) => ("ANALYZE", names, Upkeep::Nothing),
        Maintain::Refresh { name, with_data } => {
            materialized::refresh(context, name, *with_data).await?;
            return Ok(Outcome::done(Tag::plain("REFRESH MATERIALIZED VIEW")));
        }
    };
    for name in names {
        let found = names::expect(&context.catalog(), &context.settings.search_path(), name)?;
        context.require_owner(&Object::Relation(found.id()), &format!("{} {}", found.kind(), found.name()))?;
    }
    if names.is_empty() && !matches!(work, Upkeep::Nothing) {
        context.require_superuser(&format!("execute {tag}"))?;
    }
    if matches!(tag, "VACUUM" | "BACKUP") && context.in_transaction_block() {
        let message = format!("{tag} cannot run inside a transaction block");
        return Err(Error::new(ErrorKind::ActiveTransaction, message));
    }
    match work {
        Upkeep::Flush => context.running.guard(context.database.flush()).await?,
        Upkeep::Compact => context.running.guard(context.database.compact()).await?,
        Upkeep::Backup(directory) => backup(context, Path::new(directory)).await?,
        Upkeep::Nothing => {}
    }
    Ok(Outcome::done(Tag::plain(tag)))
}

enum Upkeep<'a> {
    Flush,
    Compact,
    Backup(&'a str),
    Nothing,
}

/// The path is the server's, so that it must not depend on where the server was started.
async fn backup(context: &mut ClientContext, directory: &Path) -> Result<()> {
    names::check_absolute(directory)?;
    let report = context.database.backup_by(&context.running, directory.to_owned()).await?;
    context.notice(Notice::plain(report.to_string()));
    Ok(())
}

/// LISTEN, UNLISTEN and NOTIFY: at once, or when the open transaction commits.
pub(crate) fn channel(context: &ClientContext, statement: &Statement) -> Result<Outcome> {
    let (tag, act) = match statement {
        Statement::Listen(channel) => ("LISTEN", Act::Listen(channel.clone())),
        Statement::Unlisten(channel) => ("UNLISTEN", Act::Unlisten(channel.clone())),
        Statement::Notify(notify) => ("NOTIFY", Act::Notify(notify.channel.clone(), notify.payload.clone())),
        _ => return Err(Error::internal("not a statement about channels")),
    };
    context.peer.act(act)?;
    Ok(Outcome::done(Tag::plain(tag)))
}
