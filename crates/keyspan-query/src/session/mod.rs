//! A session's queries: plan once, execute as often as wanted, each time on the snapshot given.

mod init_plans;
mod refresh;

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::error::Result as PlanResult;
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;
use keyspan_model::{Error, Result, Value, ViewDef};
use keyspan_seam::{BatchStream, Snapshot};

use crate::binder::{analyzed, described_schema, output_schema, plan_query, query_of, with_parameters};
use crate::context::{Facts, QueryContext};
use crate::engine::QueryEngine;
use crate::error::from_datafusion;
use crate::explain;
use crate::expression::CompiledExprs;
use crate::inline_execution;
use crate::optimizer;
use crate::pg_catalog::are_alike;
use crate::physical;
use crate::plan_cache::{PlanInstance, PlannedQuery, has_limit_parameter, with_limits};
use crate::rights;
use crate::rollup::{self, Definition, NoRollup};

use init_plans::{CompleteInstance, InitPlans};

pub use refresh::{Refresh, recompute, refresh};

/// How EXPLAIN answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExplainOptions {
    /// Runs the query and shows counts and times.
    pub analyze: bool,
    /// Shows the logical plan too.
    pub verbose: bool,
}

/// A plan that only needs to be run.
#[derive(Debug)]
pub struct ReadyQuery {
    physical: Arc<dyn ExecutionPlan>,
    task: Arc<TaskContext>,
    schema: SchemaRef,
}

impl ReadyQuery {
    /// Whether it takes less time than waking a thread for it, as far as can be told before: whoever asks may run it.
    pub fn runs_inline(&self) -> bool {
        inline_execution::runs_inline(&self.physical)
    }

    /// Begins to run it, on the runtime that this is called in. Dropping the stream cancels it.
    ///
    /// # Errors
    /// 53200 and the like.
    pub fn start(self) -> Result<BatchStream> {
        let stream = execute_stream(self.physical, self.task).map_err(from_datafusion)?;
        let schema = self.schema;
        Ok(stream.map(move |batch| delivered(&batch.map_err(from_datafusion)?, &schema)).boxed())
    }
}

/// The plans of one query.
struct Plans {
    /// Optimized.
    logical: LogicalPlan,
    physical: Arc<dyn ExecutionPlan>,
    init_plans: InitPlans,
}

/// One session's access to queries. Holds no data; cheap to make.
#[derive(Clone, Debug)]
pub struct QuerySession {
    engine: Arc<QueryEngine>,
}

impl QueryEngine {
    /// A session on this engine. Cheap.
    pub fn session(self: &Arc<Self>) -> QuerySession {
        QuerySession::new(self.clone())
    }
}

impl QuerySession {
    pub(crate) fn new(engine: Arc<QueryEngine>) -> Self {
        QuerySession { engine }
    }

    /// Plans a query: binds names, types and parameters; nothing is read.
    ///
    /// # Errors
    /// 42P01, 42703, 42883, 42803, 42804, 42P18 and the like, with the nearest name as a hint; 42501 for what the
    /// context's principal may not read.
    pub async fn plan(&self, query: &ast::Query, context: &QueryContext) -> Result<PlannedQuery> {
        let planned = self.engine.plan_cache.get_or_plan(query, context, |query| self.bind(query, context))?;
        planned.check_rights(context)?;
        Ok(planned)
    }

    /// What [`QuerySession::plan`] answers, if some session has lately planned this very query, or one that differs only in
    /// its quoted literals, and nothing that it depends on differs. Takes as long as comparing trees.
    pub fn cached(&self, query: &ast::Query, context: &QueryContext) -> Option<PlannedQuery> {
        // Planning says what may not be read.
        self.engine.plan_cache.get(query, context).filter(|planned| planned.check_rights(context).is_ok())
    }

    /// Binds names, types and parameters.
    fn bind(&self, query: &ast::Query, context: &QueryContext) -> Result<PlannedQuery> {
        let state = self.engine.statement(context);
        let plan =
            |context: &_| plan_query(self.engine.options.parser, &state, query, context).map_err(from_datafusion);
        let (planned, parameters) = with_parameters(context, plan, |planned| &planned.plan)?;
        let analyzed = analyzed(&state, &planned.plan)?;
        let cached = self.engine.plan_cache.instance(&analyzed, context);
        let limited = cached.is_none() && context.given.is_empty() && has_limit_parameter(&analyzed);
        Ok(PlannedQuery {
            schema: described_schema(&analyzed, &planned.labels, context.snapshot.catalog()),
            query: Arc::new(query.clone()),
            literals: None,
            reads: planned.reads.into(),
            cached,
            limited: limited.then(|| Arc::new(analyzed.clone())),
            plan: if parameters.is_empty() { analyzed } else { planned.plan },
            parameters,
            catalog: context.snapshot.catalog().clone(),
            search_path: context.search_path.clone(),
            time_zone: context.time_zone.clone(),
            given: context.parameter_types.clone(),
            unjudged_columns: context.unjudged_columns,
        })
    }

    /// Runs a planned query on the context's snapshot. Dropping the stream cancels it.
    ///
    /// If the tables, the search path or the time zone have changed since planning, the query is planned anew; if that
    /// changes the types of its columns, the error is Postgres' "cached plan must not change result type" (0A000).
    pub async fn execute(
        &self,
        planned: &PlannedQuery,
        parameters: &[Value],
        context: &QueryContext,
    ) -> Result<BatchStream> {
        planned.check_rights(context)?;
        let complete = self.complete_instance(planned, parameters, context).await;
        let cached = match &complete {
            Some(complete) => self.physical_of_instance(complete, context).await,
            None => None,
        };
        let physical = match cached {
            Some(physical) => physical,
            None => {
                self.physical(planned, parameters, context, &self.engine.statement(context), complete).await?.physical
            }
        };
        let functions = self.engine.function_context(context);
        ReadyQuery { physical, task: self.engine.task(functions.config), schema: planned.schema.clone() }.start()
    }

    /// The plan of a query that only needs new scans for its cached plan: nothing but its spans is to be found, which takes so
    /// little that no thread of its own is needed for it.
    pub async fn ready(
        &self,
        planned: &PlannedQuery,
        parameters: &[Value],
        context: &QueryContext,
    ) -> Option<ReadyQuery> {
        let given = planned.bindings(parameters).scalars().ok()?;
        let cached = self.instance(planned, &given, context).filter(|cached| cached.subqueries().is_empty())?;
        planned.check_rights(context).ok()?;
        let functions = self.engine.function_context(context);
        let memory = self.engine.memory(&context.info);
        let physical = cached.instantiate(&given, context, &functions, memory).await?;
        Some(ReadyQuery { physical, task: self.engine.task(functions.config), schema: planned.schema.clone() })
    }

    /// The cached plan of a query's shape, with the values of its LIMITs if these are parameters.
    fn instance(&self, planned: &PlannedQuery, given: &[ScalarValue], context: &QueryContext) -> Option<PlanInstance> {
        if !planned.is_of(context) {
            return None;
        }
        match (&planned.cached, &planned.limited) {
            (Some(cached), _) => Some(cached.clone()),
            (None, Some(plan)) => self.engine.plan_cache.instance(&with_limits(plan, given)?, context),
            (None, None) => None,
        }
    }

    /// [`Self::instance`] with the values of its InitPlans, which run now.
    async fn complete_instance(
        &self,
        planned: &PlannedQuery,
        parameters: &[Value],
        context: &QueryContext,
    ) -> Option<CompleteInstance> {
        let given = planned.bindings(parameters).scalars().ok()?;
        let instance = self.instance(planned, &given, context)?;
        self.complete(instance, given, context).await
    }

    /// The physical plan through the plan cache, cached now if need be. What fails here is left to planning without it.
    async fn physical_of_instance(
        &self,
        complete: &CompleteInstance,
        context: &QueryContext,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let (cached, given) = (&complete.instance, &complete.given);
        let functions = self.engine.function_context(context);
        let memory = self.engine.memory(&context.info);
        if let Some(ready) = cached.instantiate(given, context, &functions, memory).await {
            return Some(ready);
        }
        let bare = self.engine.bare(context);
        Box::pin(cached.plan(given, context, &functions, &bare, memory)).await.ok().flatten()
    }

    /// The lines of EXPLAIN. With `analyze` the query is run and its rows are thrown away.
    ///
    /// # Errors
    /// Those of planning and, with `analyze`, of running.
    pub async fn explain(
        &self,
        planned: &PlannedQuery,
        parameters: &[Value],
        context: &QueryContext,
        options: ExplainOptions,
    ) -> Result<Vec<String>> {
        planned.check_rights(context)?;
        let state = self.engine.statement(context);
        let started = Instant::now();
        let complete = self.complete_instance(planned, parameters, context).await;
        let Plans { logical, physical, init_plans } =
            self.physical(planned, parameters, context, &state, complete).await?;
        let planning = started.elapsed();
        let mut lines = Vec::new();
        if options.verbose {
            lines.extend(logical.display_indent().to_string().lines().map(|line| format!("logical: {line}")));
        }
        let mut timing = format!("Planning Time: {:.3} ms", planning.as_secs_f64() * 1000.0);
        let shown = |plan: &Arc<dyn ExecutionPlan>| -> Vec<String> {
            if !options.verbose {
                return explain::lines(plan, options.analyze);
            }
            let shown = match options.analyze {
                true => DisplayableExecutionPlan::with_metrics(plan.as_ref()),
                false => DisplayableExecutionPlan::new(plan.as_ref()),
            };
            let shown = shown.set_show_statistics(true);
            shown.indent(true).to_string().lines().map(str::to_owned).collect()
        };
        if options.analyze {
            let started = Instant::now();
            let task = self.engine.task(state.config().clone());
            let mut stream = execute_stream(physical.clone(), task).map_err(from_datafusion)?;
            let mut rows = 0;
            while let Some(batch) = stream.next().await {
                rows += batch.map_err(from_datafusion)?.num_rows();
            }
            drop(stream);
            let spent = started.elapsed().as_secs_f64() * 1000.0;
            timing = format!("{timing}\nExecution Time: {spent:.3} ms, {rows} rows");
        }
        lines.extend(shown(&physical));
        for (number, (subquery, init_plan)) in (1..).zip(&init_plans) {
            // Below the root, as PostgreSQL has them.
            lines.push(format!("  InitPlan {number}, which ran before: {}", init_plan.value_text(subquery)));
            lines.extend(shown(&init_plan.physical).into_iter().map(|line| format!("    {line}")));
        }
        if options.analyze {
            lines.extend(timing.lines().map(str::to_owned));
        }
        Ok(lines)
    }

    /// Compiles scalar expressions over rows of the inputs, side by side in one batch.
    ///
    /// `input` gives each table's qualifier and columns, in the order of the batch's columns. Subqueries and aggregates
    /// are refused (0A000). `now()` is the context's time, so compile anew for each statement.
    ///
    /// # Errors
    /// As [`QuerySession::plan`].
    pub fn expression(
        &self,
        expressions: &[&ast::Expr],
        input: &[(&str, SchemaRef)],
        context: &QueryContext,
    ) -> Result<CompiledExprs> {
        CompiledExprs::compile(&self.engine, expressions, input, context)
    }

    /// The plans of a query on the context's snapshot.
    async fn physical(
        &self,
        planned: &PlannedQuery,
        parameters: &[Value],
        context: &QueryContext,
        state: &SessionState,
        complete: Option<CompleteInstance>,
    ) -> Result<Plans> {
        // Where the statement's shape has an analyzed plan, types need not be settled again.
        let filled = complete.and_then(|complete| {
            let plan = complete.instance.analyzed(&complete.given, &self.engine.function_context(context));
            Some((plan.ok().flatten()?, complete.init_plans))
        });
        let (plan, mut init_plans) = match filled {
            Some(filled) => filled,
            None => {
                let plan = match planned.is_of(context) {
                    true => planned.plan.clone(),
                    false => self.planned_anew(planned, context, state)?,
                };
                (planned.bindings(parameters).bound(plan, state)?, Vec::new())
            }
        };
        let plan = rollup::expanded(plan, context.snapshot.as_ref(), state).await.map_err(from_datafusion)?;
        let (plan, others) = self.with_init_plans(plan, context).await.map_err(from_datafusion)?;
        init_plans.extend(others);
        let (logical, physical) =
            self.optimized(plan, context.snapshot.as_ref(), state).await.map_err(from_datafusion)?;
        Ok(Plans { logical, physical, init_plans })
    }

    /// The optimized logical plan and the physical one of an analyzed plan.
    async fn optimized(
        &self,
        plan: LogicalPlan,
        snapshot: &dyn Snapshot,
        state: &SessionState,
    ) -> PlanResult<(LogicalPlan, Arc<dyn ExecutionPlan>)> {
        let optimized = optimizer::fitted(optimizer::optimized(plan, state)?, snapshot)?;
        let memory = self.engine.memory(&Facts::of(state.config_options()).info);
        let physical = physical::physical_plan(&optimized, state, memory).await?;
        Ok((optimized, physical))
    }

    /// The engine of the session.
    pub(crate) fn engine(&self) -> &Arc<QueryEngine> {
        &self.engine
    }

    /// The rows of an analyzed plan.
    pub(crate) async fn stream(
        &self,
        plan: LogicalPlan,
        snapshot: &dyn Snapshot,
        state: &SessionState,
    ) -> Result<BatchStream> {
        let (_, physical) = self.optimized(plan, snapshot, state).await.map_err(from_datafusion)?;
        let stream = execute_stream(physical, self.engine.task(state.config().clone())).map_err(from_datafusion)?;
        Ok(stream.map(|batch| batch.map_err(from_datafusion)).boxed())
    }

    /// What a rollup of a view's query is made of; or why it cannot be one.
    ///
    /// # Errors
    /// Those of planning the query.
    pub fn definition(
        &self,
        view: &ViewDef,
        context: &QueryContext,
    ) -> Result<std::result::Result<Definition, NoRollup>> {
        let state = self.engine.statement(context);
        Ok(rollup::definition(&query_of(self.engine.options.parser, &state, context, view)?))
    }

    fn planned_anew(
        &self,
        planned: &PlannedQuery,
        context: &QueryContext,
        state: &SessionState,
    ) -> Result<LogicalPlan> {
        let types = planned.bindings(&[]).types;
        let context = QueryContext { parameter_types: types.iter().copied().map(Some).collect(), ..context.clone() };
        let again = plan_query(self.engine.options.parser, state, &planned.query, &context).map_err(from_datafusion)?;
        rights::check(&again.reads, &context)?;
        let analyzed = analyzed(state, &again.plan)?;
        if !are_alike(&output_schema(analyzed.schema(), &again.labels), &planned.schema) {
            return Err(Error::cached_plan());
        }
        Ok(if types.is_empty() { analyzed } else { again.plan })
    }
}

/// A batch as the planned schema promises it.
fn delivered(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let safe = CastOptions { safe: false, ..CastOptions::default() };
    let arrays = batch.columns().iter().zip(schema.fields()).map(|(array, field)| {
        if array.data_type() == field.data_type() {
            Ok(array.clone())
        } else {
            Ok(cast_with_options(array, field.data_type(), &safe)?)
        }
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), arrays.collect::<Result<Vec<_>>>()?, &options)?)
}
