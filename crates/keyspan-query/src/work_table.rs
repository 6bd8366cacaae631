//! The rows of the last round of a WITH RECURSIVE, for a recursive term that reads them in several places.
//!
//! ```text
//! SELECT (SELECT min(k) FROM t WHERE k > r.k) FROM r     names r once; as joins (see `decorrelate`) it reads it twice
//! WorkTableExec ─┬─▶ the rows of r
//!                └─▶ the outer values of the subquery
//! ```
//!
//! DataFusion's own node hands the rows over to whoever asks first, and is refused where there are two. The first of ours
//! takes them, and the others of its recursive query get the same. That a statement names its table once is checked
//! before (`semantics::recursive`).

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::work_table::WorkTableExec as TakenOnce;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::shared::Rows;

/// The table that a recursive term knows under the name of its query.
#[derive(Debug)]
pub struct WorkTable {
    name: String,
    schema: SchemaRef,
}

impl WorkTable {
    /// The table of a recursive query of this name, with the columns of its first term.
    pub fn new(name: &str, schema: SchemaRef) -> WorkTable {
        WorkTable { name: name.to_owned(), schema }
    }
}

#[async_trait]
impl TableProvider for WorkTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let shown = match projection {
            Some(projection) => Arc::new(self.schema.project(projection)?),
            None => self.schema.clone(),
        };
        Ok(Arc::new(WorkTableExec {
            name: self.name.clone(),
            schema: self.schema.clone(),
            projection: projection.cloned(),
            sources: Arc::default(),
            properties: Arc::new(PlanProperties::new(
                EquivalenceProperties::new(shown),
                Partitioning::UnknownPartitioning(1),
                EmissionType::Incremental,
                Boundedness::Bounded,
            )),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }
}

/// The rows that are being read in one run of a plan, by the recursive query. Part of the run's settings.
#[derive(Debug, Default)]
pub struct Rounds {
    rounds: Mutex<HashMap<usize, Arc<Round>>>,
}

/// The rows of one round of a recursive query.
struct Round {
    stream: Mutex<Option<SendableRecordBatchStream>>,
    rows: OnceCell<Rows>,
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl Round {
    async fn rows(&self, context: &TaskContext, spills: SpillMetrics) -> Result<&Rows> {
        let read = || async {
            let stream = self.stream.lock().take().ok_or_else(no_rows)?;
            Rows::read("WorkTable".into(), stream, context, spills).await
        };
        self.rows.get_or_try_init(read).await
    }
}

fn no_rows() -> DataFusionError {
    DataFusionError::Internal("a recursive term was read outside of its query".into())
}

impl Rounds {
    /// The round of the recursive query that the sources belong to: those of queries that were planned and given up
    /// have no rows.
    fn of(&self, sources: &[Source], context: &Arc<TaskContext>) -> Result<Arc<Round>> {
        let mut rounds = self.rounds.lock();
        for source in sources {
            // Fails where there is nothing to take: then another node has taken it in this round.
            if let Ok(stream) = source.node.execute(0, context.clone()) {
                let round = Arc::new(Round { stream: Mutex::new(Some(stream)), rows: OnceCell::new() });
                rounds.insert(source.query, round.clone());
                return Ok(round);
            }
        }
        sources.iter().find_map(|source| rounds.get(&source.query).cloned()).ok_or_else(no_rows)
    }
}

/// DataFusion's node for the rows of one recursive query.
#[derive(Clone, Debug)]
struct Source {
    /// Which query: the address of its work table, which the node holds.
    query: usize,
    node: Arc<dyn ExecutionPlan>,
}

/// Reads a [`WorkTable`].
#[derive(Clone, Debug)]
struct WorkTableExec {
    name: String,
    /// The columns of the table.
    schema: SchemaRef,
    projection: Option<Vec<usize>>,
    /// A recursive query says its work table when it is made, which happens anew whenever a rule changes the plan.
    sources: Arc<Mutex<Vec<Source>>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl DisplayAs for WorkTableExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkTableExec: name={}", self.name)
    }
}

impl ExecutionPlan for WorkTableExec {
    fn name(&self) -> &str {
        "WorkTableExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    /// Keeps the work table of a recursive query of its name. What DataFusion counts as a place that reads it is a node
    /// which this gives, so it gives none.
    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn ExecutionPlan>> {
        let query = Arc::as_ptr(&state).cast::<()>() as usize;
        let node = TakenOnce::new(self.name.clone(), self.schema.clone(), None).ok()?.with_new_state(state)?;
        self.sources.lock().push(Source { query, node });
        None
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(rounds) = context.session_config().get_extension::<Rounds>() else { return Err(no_rows()) };
        let (sources, projection) = (self.sources.lock().clone(), self.projection.clone());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let spills = SpillMetrics::new(&self.metrics, partition);
        let batches = async move {
            let round = rounds.of(&sources, &context)?;
            let shown = move |batch: Result<RecordBatch>| match &projection {
                Some(projection) => Ok(batch?.project(projection)?),
                None => batch,
            };
            Ok::<_, DataFusionError>(round.rows(&context, spills).await?.stream()?.map(shown))
        };
        let batches = futures::stream::once(batches).try_flatten().inspect_ok(move |batch| {
            metrics.record_output(batch.num_rows());
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
