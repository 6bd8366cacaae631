//! What all sessions of a database share: the functions, the planner's rules, the plan cache, the memory pool and
//! its spill directory.
//!
//! Queries run on the tokio runtime that polls them (it must be a multi-threaded one): plans of one partition run wholly in the
//! task that polls their stream, wider ones spawn a task per partition. Nothing here holds a table or a snapshot.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::DateTime;
use datafusion::catalog::Session;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Analyzer;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::SessionConfig;
use keyspan_model::Result;
use keyspan_seam::Snapshot;

use crate::asof::{AsOfJoins, AsOfPlanner};
use crate::context::{Facts, FunctionContext, QueryContext, QueryParser, SessionInfo, StatementContext};

use crate::error::from_datafusion;
use crate::gapfill::{GapFillPlanner, GapFilling};
use crate::grouped::GroupedScans;
use crate::interrupt::StopJoins;
use crate::join_keys::KeysAsSpans;
use crate::join_order::JoinOrder;
use crate::missing_sorts::MissingSorts;
use crate::not_constant::ForgetConstants;
use crate::offset::{HoldOffsets, ReleaseOffsets};
use crate::one_row::OneRowJoins;
use crate::partition_limits::PartitionLimits;
use crate::partition_top::PartitionTops;
use crate::plan_cache::PlanCache;
use crate::repeated::RepeatedPlanner;
use crate::scan::{KeyOrder, KeysOfJoins, TopRows};
use crate::shared::{SharedPlanner, SharedRows, first_places, linked};
use crate::spared_plans::{self, Unless};
use crate::work_table::Rounds;
use crate::{builtins, functions, memory, optimizer, semantics};

/// Bytes of memory for each partition of a plan, at least; with less there are fewer partitions than cores.
const MEMORY_OF_A_PARTITION: usize = 64 << 20;

/// Limits and places for queries.
#[derive(Clone, Debug)]
pub struct QueryOptions {
    /// Bytes that sorts, joins and aggregates of all queries may hold together before they spill.
    pub memory_limit: usize,
    /// Bytes of that which one statement may hold at most; `None`: all of them. `SET statement_memory` can only lessen it.
    pub statement_limit: Option<usize>,
    /// Partitions of a large scan, and with it the tasks of a query; 0: as many as there are cores. Fewer where
    /// `memory_limit` has less than 64 MB for each.
    pub threads: usize,
    /// Where spilled data goes; `None`: the system's temporary directory.
    pub spill_directory: Option<PathBuf>,
    /// The parser of view texts; `None`: views cannot be read (0A000).
    pub parser: Option<QueryParser>,
}

impl Default for QueryOptions {
    fn default() -> Self {
        QueryOptions { memory_limit: 512 << 20, statement_limit: None, threads: 0, spill_directory: None, parser: None }
    }
}

/// The shared part of query processing. One per database.
#[derive(Debug)]
pub struct QueryEngine {
    pub(crate) options: QueryOptions,
    pub(crate) plan_cache: PlanCache,
    state: SessionState,
}

impl QueryEngine {
    /// An engine with these limits.
    ///
    /// # Errors
    /// 58030 when the spill directory cannot be used; XX000 when DataFusion lacks a rule that is looked up by name.
    pub fn new(options: QueryOptions) -> Result<Arc<QueryEngine>> {
        let runtime = runtime(&options).map_err(from_datafusion)?;
        let state = state(&options, runtime)?;
        Ok(Arc::new(QueryEngine { options, plan_cache: PlanCache::default(), state }))
    }

    /// The state in which one statement is planned and run.
    pub(crate) fn statement(&self, context: &QueryContext) -> SessionState {
        self.state_of(context, self.function_context(context))
    }

    /// What functions mean in this statement.
    pub(crate) fn function_context(&self, context: &QueryContext) -> FunctionContext {
        self.function_context_on(context, Some(context.snapshot.clone()))
    }

    /// The state in which a cached plan is made: its functions, which hold on to the settings, see no snapshot. Its joins
    /// push no filters of their own down, since these keep the values of one run.
    pub(crate) fn bare(&self, context: &QueryContext) -> SessionState {
        let mut state = self.state_of(context, self.function_context_on(context, None));
        state.config_mut().options_mut().optimizer.enable_join_dynamic_filter_pushdown = false;
        state
    }

    /// What the nodes of a plan ask for while it runs: settings, memory and places on disk, no functions.
    pub(crate) fn task(&self, config: SessionConfig) -> Arc<TaskContext> {
        let (id, runtime) = (self.state.session_id().to_owned(), self.runtime_of(&config));
        let task = TaskContext::new(
            None,
            id,
            config
                .with_extension(Arc::new(SharedRows::default()))
                .with_extension(Arc::new(Rounds::default()))
                .with_extension(Arc::new(KeysOfJoins::default())),
            HashMap::default(),
            HashMap::default(),
            HashMap::default(),
            HashMap::default(),
            runtime,
        );
        Arc::new(task)
    }

    /// Bytes that the queries of a statement may hold: of all there are, what the session and the database let it have.
    pub(crate) fn memory(&self, info: &SessionInfo) -> usize {
        let limits = info.statement_memory.into_iter().chain(self.options.statement_limit);
        limits.fold(self.options.memory_limit, usize::min)
    }

    /// The memory of all queries, or the statement's own part of it where it may not have all.
    fn runtime_of(&self, config: &SessionConfig) -> Arc<RuntimeEnv> {
        let (runtime, limit) = (self.state.runtime_env(), self.memory(&Facts::of(config.options()).info));
        if limit >= self.options.memory_limit {
            return runtime.clone();
        }
        let own = memory::StatementMemory::new(runtime.memory_pool.clone(), limit);
        Arc::new(RuntimeEnv { memory_pool: Arc::new(own), ..runtime.as_ref().clone() })
    }

    fn state_of(&self, context: &QueryContext, functions: FunctionContext) -> SessionState {
        let mut state = self.state.clone();
        let catalog = context.shown_catalog();
        let statement = StatementContext { snapshot: context.snapshot.clone(), catalog, info: context.info.clone() };
        *state.config_mut() = functions.config.with_extension(Arc::new(statement));
        state.mark_start_execution();
        state.execution_props_mut().query_execution_start_time = functions.now;
        state
    }

    fn function_context_on(&self, context: &QueryContext, snapshot: Option<Arc<dyn Snapshot>>) -> FunctionContext {
        let mut config = self.state.config().clone();
        let memory = self.memory(&context.info);
        if memory < self.options.memory_limit {
            config = fit(config, self.options.threads, memory);
        }
        let facts = Facts {
            info: context.info.clone(),
            search_path: Arc::new(context.search_path.clone()),
            now: context.now,
            statement_time: context.statement_time,
            catalog: context.shown_catalog(),
            snapshot,
        };
        let options = config.options_mut();
        options.execution.time_zone = Some(context.time_zone.clone());
        options.extensions.insert(facts);
        FunctionContext { config, now: DateTime::from_timestamp_micros(context.now) }
    }
}

fn runtime(options: &QueryOptions) -> datafusion::error::Result<Arc<RuntimeEnv>> {
    let mode = match &options.spill_directory {
        Some(directory) => DiskManagerMode::Directories(vec![directory.clone()]),
        None => DiskManagerMode::OsTmpDirectory,
    };
    RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(memory::pool(options.memory_limit)))
        .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(mode))
        .build_arc()
}

fn state(options: &QueryOptions, runtime: Arc<RuntimeEnv>) -> Result<SessionState> {
    let mut builder = SessionStateBuilder::new()
        .with_config(config(options))
        .with_runtime_env(runtime)
        .with_default_features()
        .with_analyzer_rules(analyzer_rules())
        .with_physical_optimizer_rules(physical_rules()?)
        .with_optimizer_rules(optimizer::rules()?)
        .with_query_planner(Arc::new(Planner));
    let planners = builder.expr_planners().get_or_insert_default();
    planners.splice(0..0, semantics::expr_planners());
    builder.scalar_functions().get_or_insert_default().extend(builtins::scalar());
    builder.aggregate_functions().get_or_insert_default().extend(functions::aggregate());
    builder.window_functions().get_or_insert_default().extend(functions::window());
    let tables = builder.table_functions().get_or_insert_default();
    tables.extend(builtins::table().into_iter().map(|function| (function.name().to_owned(), function)));
    Ok(builder.build())
}

/// DataFusion's planner, with our own nodes.
#[derive(Debug)]
struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        if let Some(first) = first_places(plan)?
            && let Some(linked) = linked(planner().create_physical_plan(&first, session).await?)?
        {
            return Ok(linked);
        }
        planner().create_physical_plan(plan, session).await
    }
}

/// The planner of one plan.
fn planner() -> DefaultPhysicalPlanner {
    DefaultPhysicalPlanner::with_extension_planners(vec![
        Arc::new(GapFillPlanner),
        Arc::new(AsOfPlanner),
        Arc::new(RepeatedPlanner),
        Arc::new(SharedPlanner::default()),
    ])
}

/// With as many partitions, and rows at a time, as suit so much memory; `threads` as in [`QueryOptions`].
fn fit(config: SessionConfig, threads: usize, memory: usize) -> SessionConfig {
    let threads = match threads {
        0 => std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        threads => threads,
    };
    // Each partition sorts, spills and merges with its own share of the memory.
    let partitions = threads.min(memory / MEMORY_OF_A_PARTITION).max(1);
    // Sorts and aggregates put out batches of so many rows, however wide.
    let batch_rows = (memory >> 16).clamp(1_024, 8_192);
    // Each sort sets this much aside, so that it must be little beside the whole.
    let set_aside = (memory / 32).min(10 << 20);
    let config = config.with_target_partitions(partitions).with_batch_size(batch_rows);
    config.with_sort_spill_reservation_bytes(set_aside)
}

fn config(options: &QueryOptions) -> SessionConfig {
    let mut config = fit(SessionConfig::new(), options.threads, options.memory_limit);
    let settings = config.options_mut();
    // Else a scan whose partitions already suit a GROUP BY is hashed again on machines of few cores.
    settings.optimizer.subset_repartition_threshold = 1;
    // An ordered scan stands below this buffer only for a moment: `KeyOrder` takes it out.
    settings.execution.sort_pushdown_buffer_capacity = 16 << 20;
    // `b IS UNKNOWN` is never NULL in a logical plan and may be in a physical one, which loses nothing.
    settings.execution.skip_physical_aggregate_schema_check = true;
    // Whether a subquery's order shows, `semantics` knows.
    settings.sql_parser.enable_subquery_sort_elimination = false;
    settings.catalog.information_schema = false;
    settings.catalog.create_default_catalog_and_schema = false;
    config
}

fn analyzer_rules() -> Vec<Arc<dyn datafusion::optimizer::AnalyzerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn datafusion::optimizer::AnalyzerRule + Send + Sync>> =
        vec![Arc::new(AsOfJoins), Arc::new(GapFilling)];
    rules.extend(semantics::analyzer_rules_before());
    rules.extend(Analyzer::new().rules);
    rules.extend(semantics::analyzer_rules_after());
    rules.push(Arc::new(OneRowJoins));
    rules
}

fn physical_rules() -> Result<Vec<Arc<dyn datafusion::physical_optimizer::PhysicalOptimizerRule + Send + Sync>>> {
    let mut rules = PhysicalOptimizer::new().rules;
    // Before anything is repartitioned or sorted for DataFusion's own aggregate; after answers from statistics alone.
    let statistics = optimizer::place_of("aggregate_statistics", rules.iter().map(|rule| rule.name()))?;
    rules.insert(statistics + 1, Arc::new(ForgetConstants));
    rules.insert(statistics + 1, Arc::new(GroupedScans));
    rules.insert(statistics + 1, Arc::new(JoinOrder));
    let sorts = optimizer::place_of("EnsureRequirements", rules.iter().map(|rule| rule.name()))?;
    rules.insert(sorts + 1, Arc::new(MissingSorts));
    rules.insert(sorts + 1, Arc::new(ReleaseOffsets));
    rules.insert(sorts, Arc::new(HoldOffsets));
    let moved = optimizer::place_of("PushdownSort", rules.iter().map(|rule| rule.name()))?;
    rules.insert(moved + 1, Arc::new(PartitionLimits));
    for (name, spares) in spared_plans::OF_RULES {
        optimizer::place_of(name, rules.iter().map(|rule| rule.name()))?;
        for rule in rules.iter_mut().filter(|rule| rule.name() == name) {
            *rule = Arc::new(Unless { spares, rule: rule.clone() });
        }
    }
    rules.push(Arc::new(KeyOrder));
    rules.push(Arc::new(PartitionTops));
    rules.push(Arc::new(TopRows));
    rules.push(Arc::new(KeysAsSpans));
    rules.push(Arc::new(memory::CountWindows));
    rules.push(Arc::new(StopJoins));
    Ok(rules)
}
