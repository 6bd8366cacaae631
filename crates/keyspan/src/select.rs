//! SELECT: by the point path where that is enough, through the planner otherwise.

use keyspan_cql::Statement;
use keyspan_model::{Error, Result, Value};
use keyspan_query::PlannedQuery;
use keyspan_seam::BatchStream;

use crate::context::ClientContext;
use crate::outcome::{Outcome, Rows, Tag};
use crate::prepared::{Prepared, PreparedPlan};
use crate::{point, query, row_locks, scan_guard, set};

/// Runs a prepared SELECT.
pub(crate) async fn run(context: &mut ClientContext, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
    if let (PreparedPlan::Query { planned, .. }, Statement::Query(query)) = (&prepared.plan, prepared.statement())
        && !query.query.locks.is_empty()
    {
        return row_locks::run(context, planned, &query.query, parameters).await;
    }
    match &prepared.plan {
        PreparedPlan::Point(select) => point::run(context, select, parameters).await,
        PreparedPlan::Query { planned, sets } => {
            let stream = execute_checked(context, planned, parameters, prepared.statement()).await?;
            let outcome = Outcome::with_rows(Tag::streamed("SELECT"), Rows::new(planned.schema.clone(), stream));
            if !sets {
                return Ok(outcome);
            }
            // A statement that fails changes no setting.
            let outcome = outcome.read_all().await.inspect_err(|_| context.settings_changed())?;
            set::apply_changes(context)?;
            Ok(outcome)
        }
        PreparedPlan::None | PreparedPlan::Explained(_) => Err(Error::internal("a query without a plan")),
    }
}

/// As [`query::execute`], with the guard against reading whole tables where the session wants it.
async fn execute_checked(
    context: &mut ClientContext,
    planned: &PlannedQuery,
    parameters: &[Value],
    statement: &Statement,
) -> Result<BatchStream> {
    let allowed = matches!(statement, Statement::Query(query) if query.tails.allow_filtering);
    let mode = context.settings.get("full_scan").unwrap_or("allow").to_string();
    if allowed || mode == "allow" {
        return query::execute(context, planned, parameters).await;
    }
    let (snapshot, seen) = scan_guard::guard(context.snapshot()?, mode == "error");
    let query_context = context.query_context(snapshot, &[]);
    let result = query::execute_on(context, planned, parameters, query_context).await;
    if let Some(notice) = scan_guard::notice(&seen) {
        context.notice(notice);
    }
    Ok(context.running.guard_stream(result?))
}
