//! What brings the rows of a materialized view up to date.

use keyspan_model::{Result, StoredDef, ViewDef};
use keyspan_seam::BatchStream;

use super::QuerySession;
use crate::binder::{rollup_of, stored_rows_of};
use crate::context::QueryContext;
use crate::error::from_datafusion;
use crate::rollup::{self, Progress};

/// The stale buckets of a rollup: as they are kept, and as they should be. Columns are the view's, in their order.
pub struct Refresh {
    /// The rows that are kept.
    pub kept: BatchStream,
    /// The rows that the query answers.
    pub computed: BatchStream,
    /// How far the rows are right once they are written.
    pub progress: Progress,
}

/// Reads what is stale on the context's snapshot; `None`: nothing is.
///
/// # Errors
/// Whatever keeps the query from running: say, an overflow in a sum.
pub async fn refresh(session: &QuerySession, view: &ViewDef, context: &QueryContext) -> Result<Option<Refresh>> {
    let state = session.engine().statement(context);
    let Some(table) = rollup_of(session.engine().options.parser, &state, context, view).map_err(from_datafusion)?
    else {
        return Ok(None);
    };
    let snapshot = context.snapshot.as_ref();
    let stale = table.stale(snapshot, &state).await.map_err(from_datafusion)?;
    if stale.is_empty() {
        return Ok(None);
    }
    let kept = table.kept(|bucket| stale.holds(bucket)).map_err(from_datafusion)?;
    let computed = table.computed(|time| stale.holds(time)).map_err(from_datafusion)?;
    let kept = session.stream(kept, snapshot, &state).await?;
    let computed = session.stream(computed, snapshot, &state).await?;
    let progress = Progress { relation: table.source().map_err(from_datafusion)?, seq: snapshot.seq() };
    Ok(Some(Refresh { kept, computed, progress }))
}

/// Runs the query of a stored view; the columns are those that are stored.
///
/// # Errors
/// Whatever keeps the query from running; 42703 if it has lost a column since the view was made.
pub async fn recompute(
    session: &QuerySession,
    view: &ViewDef,
    stored: &StoredDef,
    context: &QueryContext,
) -> Result<BatchStream> {
    let state = session.engine().statement(context);
    let plan = stored_rows_of(session.engine().options.parser, &state, context, view, stored)?;
    let snapshot = context.snapshot.as_ref();
    let plan = rollup::expanded(plan, snapshot, &state).await.map_err(from_datafusion)?;
    session.stream(plan, snapshot, &state).await
}
