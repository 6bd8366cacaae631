//! SELECT and `scan`: by the point path where that is enough, through the planner otherwise.

use keyspan_cql::{Scan, ScanAttribute, Statement, ast, quoted};
use keyspan_model::{ColumnRole, Error, Result, Value};
use keyspan_query::PlannedQuery;
use keyspan_seam::BatchStream;

use crate::context::ClientContext;
use crate::outcome::{Outcome, Rows, Tag};
use crate::prepared::{Prepared, PreparedPlan};
use crate::{names, point, query, scan_guard, set};

/// Runs a prepared SELECT or scan.
pub(crate) async fn run(context: &mut ClientContext, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
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

/// HBase's scan as the SELECT that answers the same.
pub(crate) fn scan_query(context: &ClientContext, scan: &Scan) -> Result<Box<ast::Query>> {
    let table = names::table(&context.catalog(), &context.settings.search_path(), &scan.table)?;
    let mut columns = "*".to_string();
    let (mut conditions, mut limit, mut reversed) = (Vec::new(), String::new(), false);
    for attribute in &scan.attributes {
        match attribute {
            ScanAttribute::RowPrefix(prefix) => conditions.push(format!("starts_with(row_key, {})", literal(prefix))),
            ScanAttribute::StartRow(row) => conditions.push(format!("row_key >= {}", literal(row))),
            ScanAttribute::StopRow(row) => conditions.push(format!("row_key < {}", literal(row))),
            ScanAttribute::Limit(rows) => limit = format!(" LIMIT {rows}"),
            ScanAttribute::Reversed(backwards) => reversed = *backwards,
            ScanAttribute::Columns(names) => {
                for name in names {
                    table.expect_column(name)?;
                }
                columns = names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
            }
        }
    }
    let filter = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
    let order = |column: &keyspan_model::ColumnDef| {
        let descending = matches!(column.role, ColumnRole::Clustering { descending: true });
        format!("{} {}", quoted(&column.name), if descending != reversed { "DESC" } else { "ASC" })
    };
    let order = table.key().map(order).collect::<Vec<_>>().join(", ");
    let (keyspace, name) = (quoted(&table.keyspace), quoted(&table.name));
    names::parse_query(&format!("SELECT {columns} FROM {keyspace}.{name}{filter} ORDER BY {order}{limit}"))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
