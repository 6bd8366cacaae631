//! Which queries can be rollups.
//!
//! One table, rows filtered and grouped, one group of them a step of the time in its row key. Everything must follow from
//! the rows alone: no `now()`, nothing of the session. Then what a group is can change only with rows of its bucket.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, TableScan, Volatility};
use keyspan_model::{ColumnId, Error, TableDef};

use super::RollupTable;
use crate::functions::cast::CastFunction;
use crate::functions::step::keeps_order;
use crate::table::KeyspanTable;
use crate::types::literal_text;

/// Why a query is no rollup, and how it could be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoRollup {
    /// What is in the way: "it has no GROUP BY".
    pub why: String,
    /// What to write instead.
    pub hint: Option<&'static str>,
}

impl NoRollup {
    /// This is in the way.
    pub fn new(why: impl Into<String>) -> NoRollup {
        NoRollup { why: why.into(), hint: None }
    }

    fn with_hint(self, hint: &'static str) -> NoRollup {
        NoRollup { hint: Some(hint), ..self }
    }
}

impl From<NoRollup> for Error {
    /// Of a query that was a rollup when its view was made.
    fn from(no: NoRollup) -> Error {
        let message = format!("this materialized view cannot be kept up to date any more: {}", no.why);
        Error::not_supported(message).with_hint("Drop it and create it anew.")
    }
}

type Result<T> = std::result::Result<T, NoRollup>;

/// What a rollup is made of.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The table that is read.
    pub source: Arc<TableDef>,
    /// Its key column that is put into steps.
    pub time: ColumnId,
    /// Places of the groups among the query's columns: the key of the view's rows. The bucket is the last.
    pub key: Vec<usize>,
    /// The call that makes the bucket.
    pub(super) bucket: Expr,
}

/// The parts of an analyzed query.
///
/// # Errors
/// What is in the way of keeping it up to date.
pub fn definition(plan: &LogicalPlan) -> Result<Definition> {
    let (aggregate, scan) = parts(plan)?;
    check_immutable(plan)?;
    let source = source(&scan)?;
    let mut bucket = None;
    for (place, group) in aggregate.group_expr.iter().enumerate() {
        match bucket_of(group, &aggregate.input, &source)? {
            Some(found) if bucket.is_none() => bucket = Some((place, found)),
            Some(_) => {
                return Err(NoRollup::new("two groups are steps of time").with_hint("Group by one of them only."));
            }
            None => {}
        }
    }
    let Some((place, (bucket, time))) = bucket else {
        let hint = "Group by time_bucket('1 hour', ts) or date_bin('1 hour', ts), where ts is part of the table's primary key.";
        return Err(NoRollup::new("its GROUP BY has no step of time").with_hint(hint));
    };
    let others = (0..aggregate.group_expr.len()).filter(|group| *group != place);
    others.clone().try_for_each(|group| check_not_null(&aggregate.group_expr[group], &aggregate, &source))?;
    let groups = others.chain([place]);
    let columns = plan.schema().fields().len();
    let key = groups.map(|group| {
        let shown = (0..columns).find(|column| origin(plan, *column) == Some(group));
        shown.ok_or_else(|| {
            let error = NoRollup::new(format!("\"{}\" is grouped by and not selected", aggregate.group_expr[group]));
            error.with_hint("Select every expression of the GROUP BY: they are the key of the view's rows.")
        })
    });
    Ok(Definition { source, time, key: key.collect::<Result<_>>()?, bucket })
}

/// The one aggregate, and the one table below it.
fn parts(plan: &LogicalPlan) -> Result<(Aggregate, TableScan)> {
    let mut aggregate = None;
    let mut at = plan;
    loop {
        at = match at {
            LogicalPlan::Projection(node) => &node.input,
            LogicalPlan::Filter(node) => &node.input,
            LogicalPlan::SubqueryAlias(node) => &node.input,
            LogicalPlan::Aggregate(node) if aggregate.is_none() => {
                aggregate = Some(node.clone());
                &node.input
            }
            LogicalPlan::Aggregate(_) => return Err(NoRollup::new("it groups twice")),
            LogicalPlan::TableScan(scan) => {
                let Some(aggregate) = aggregate else {
                    return Err(NoRollup::new("it has no GROUP BY"));
                };
                return Ok((aggregate, scan.clone()));
            }
            other => return Err(NoRollup::new(format!("it has {}", named(other)))),
        };
    }
}

fn named(node: &LogicalPlan) -> &'static str {
    match node {
        LogicalPlan::Join(_) => "a join",
        LogicalPlan::Sort(_) | LogicalPlan::Limit(_) => "ORDER BY or LIMIT",
        LogicalPlan::Window(_) => "a window function",
        LogicalPlan::Union(_) => "UNION",
        LogicalPlan::Distinct(_) => "DISTINCT",
        LogicalPlan::Extension(_) => "time_bucket_gapfill or another operator that looks beyond one bucket",
        _ => "more than WHERE, GROUP BY and HAVING over one table",
    }
}

fn source(scan: &TableScan) -> Result<Arc<TableDef>> {
    let not_a_table = || NoRollup::new(format!("\"{}\" is not a table", scan.table_name.table()));
    let provider = source_as_provider(&scan.source).map_err(|_| not_a_table())?;
    if provider.downcast_ref::<RollupTable>().is_some() {
        return Err(NoRollup::new("it reads a materialized view").with_hint("Read the table that view is made of."));
    }
    match provider.downcast_ref::<KeyspanTable>() {
        Some(table) => Ok(table.definition().clone()),
        None => Err(not_a_table()),
    }
}

/// The call of a step function over a key column that this group is, and the column.
fn bucket_of(group: &Expr, input: &LogicalPlan, source: &TableDef) -> Result<Option<(Expr, ColumnId)>> {
    let (call, input) = traced(group, input);
    let Expr::ScalarFunction(function) = &call else { return Ok(None) };
    if !keeps_order(function.func.name()) {
        return Ok(None);
    }
    let [_, at, rest @ ..] = function.args.as_slice() else { return Ok(None) };
    let (at, _) = traced(at, input);
    let Expr::Column(column) = &at else { return Ok(None) };
    let Some(time) = source.key().find(|key| key.name == column.name) else {
        let message = format!("\"{}\" is not part of the primary key of \"{}\"", column.name, source.name);
        return Err(NoRollup::new(message).with_hint("Time that steps are made of belongs into the key."));
    };
    let schema = input.schema();
    let zoned = |argument: &Expr| argument.get_type(schema).map_or(true, |ty| ty.is_string() || ty.is_null());
    if rest.iter().any(zoned) {
        let hint = "Keep steps of an hour, and put those together by the days of a zone when you read them.";
        return Err(NoRollup::new("its steps follow a time zone").with_hint(hint));
    }
    Ok(Some((call, time.id)))
}

/// What an expression stands for: through columns that are computed further down. With the node that it is over.
fn traced<'a>(expr: &Expr, mut input: &'a LogicalPlan) -> (Expr, &'a LogicalPlan) {
    let mut expr = expr.clone().unalias_nested().data;
    loop {
        let next = match (&expr, input) {
            (Expr::Column(column), LogicalPlan::Projection(node)) => {
                place(input, column).map(|at| node.expr[at].clone())
            }
            (Expr::Column(column), LogicalPlan::SubqueryAlias(node)) => {
                place(input, column).map(|at| Expr::Column(Column::from(node.input.schema().qualified_field(at))))
            }
            (_, LogicalPlan::Filter(_)) => Some(expr.clone()),
            _ => None,
        };
        let (Some(next), Some(below)) = (next, input.inputs().first().copied()) else { return (expr, input) };
        (expr, input) = (next.unalias_nested().data, below);
    }
}

fn place(plan: &LogicalPlan, column: &Column) -> Option<usize> {
    plan.schema().maybe_index_of_column(column)
}

/// Which of the aggregate's columns a column of the query is, if it is one as it stands.
fn origin(plan: &LogicalPlan, at: usize) -> Option<usize> {
    match plan {
        LogicalPlan::Aggregate(_) => Some(at),
        LogicalPlan::Projection(node) => match node.expr[at].clone().unalias_nested().data {
            Expr::Column(column) => origin(&node.input, place(&node.input, &column)?),
            _ => None,
        },
        LogicalPlan::SubqueryAlias(node) => origin(&node.input, at),
        LogicalPlan::Filter(node) => origin(&node.input, at),
        _ => None,
    }
}

/// A key is never null, so neither may a group be: a column that is declared NOT NULL is taken at its word.
fn check_not_null(group: &Expr, aggregate: &Aggregate, source: &TableDef) -> Result<()> {
    if never_null(group, &aggregate.input, source) {
        return Ok(());
    }
    let name = group.clone().unalias();
    let error = NoRollup::new(format!("the group {name} may be null"));
    Err(error.with_hint("Declare its column NOT NULL, or write coalesce(…, '')."))
}

fn never_null(expr: &Expr, input: &LogicalPlan, source: &TableDef) -> bool {
    let (expr, input) = traced(expr, input);
    match &expr {
        Expr::ScalarFunction(call) if call.func.name() == "coalesce" => {
            call.args.iter().any(|arg| never_null(arg, input, source))
        }
        Expr::Column(column) => source.column(&column.name).is_some_and(|own| own.not_null || own.is_key()),
        expr => expr.nullable(input.schema()).is_ok_and(|nullable| !nullable),
    }
}

/// Nothing may depend on when, or by whom, it is evaluated.
fn check_immutable(plan: &LogicalPlan) -> Result<()> {
    let mut varies = None;
    let walked = plan.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                varies = varies.take().or_else(|| what_varies(expr));
                Ok(if varies.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })
    });
    walked.map_err(|error| NoRollup::new(error.to_string()))?;
    match varies {
        None => Ok(()),
        Some(what) => {
            let error = NoRollup::new(format!("{what} has another value at another time or in another session"));
            Err(error.with_hint(
                "Functions of the time of day, of the session and of its time zone are for queries of the view.",
            ))
        }
    }
}

fn what_varies(expr: &Expr) -> Option<String> {
    match expr {
        Expr::ScalarFunction(call) => {
            if let Some(cast) = call.func.inner().downcast_ref::<CastFunction>() {
                return cast.follows_zone(&call.args).then(|| match call.args.first().and_then(literal_text) {
                    Some(text) => format!("'{text}' without a time zone"),
                    None => "a cast that follows the time zone".to_owned(),
                });
            }
            let fixed = call.func.signature().volatility == Volatility::Immutable;
            (!fixed).then(|| format!("{}()", call.func.name()))
        }
        Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => {
            Some("a subquery".to_owned())
        }
        Expr::Placeholder(parameter) => Some(parameter.id.clone()),
        _ => None,
    }
}
