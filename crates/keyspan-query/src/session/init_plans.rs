//! InitPlans: uncorrelated scalar subqueries of conditions, LIMIT and OFFSET. They run before the rest is planned, so that their values bound
//! spans as literals do.
//!
//! ```text
//! ts > (SELECT max(ts) - INTERVAL '1 hour' FROM cpu)   ─▶   ts > '2016-01-02 22:59:50'
//! ```
//!
//! Rule: one that fails, or has more than one row, stays in its place, where DataFusion runs it: the error is the one that it
//! has there. In LIMIT and OFFSET nothing else can run it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::logical_expr::{LogicalPlan, Subquery};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::TryStreamExt;
use keyspan_model::ColumnType;

use super::QuerySession;
use crate::context::QueryContext;
use crate::error::{external, several_rows};
use crate::functions::scalar_value;
use crate::plan_cache::{PlanInstance, subqueries};
use crate::rollup;

/// An InitPlan that has run.
#[derive(Debug)]
pub(super) struct InitPlan {
    /// Its one row's value, or NULL.
    pub value: ScalarValue,
    /// What ran.
    pub physical: Arc<dyn ExecutionPlan>,
}

impl InitPlan {
    /// The value as EXPLAIN shows it, times in UTC.
    pub fn value_text(&self, subquery: &Subquery) -> String {
        let ty = ColumnType::of_field(subquery.subquery.schema().field(0));
        let value = ty.and_then(|ty| Some((scalar_value(&self.value, ty).ok().filter(|value| !value.is_null())?, ty)));
        value.map_or_else(|| self.value.to_string(), |(value, ty)| value.to_text(ty))
    }
}

/// Those of a statement, by the subqueries that they stand for.
pub(super) type InitPlans = Vec<(Subquery, InitPlan)>;

/// A cached plan whose constants have values: those of its InitPlans, which have run.
#[derive(Debug)]
pub(super) struct CompleteInstance {
    pub instance: PlanInstance,
    /// Values of the statement's parameters.
    pub given: Vec<ScalarValue>,
    pub init_plans: InitPlans,
}

impl QuerySession {
    /// Runs what an instance's constants wait for; `None` if that fails.
    pub(super) async fn complete(
        &self,
        instance: PlanInstance,
        given: Vec<ScalarValue>,
        context: &QueryContext,
    ) -> Option<CompleteInstance> {
        let subqueries = instance.subqueries();
        if subqueries.is_empty() {
            return Some(CompleteInstance { instance, given, init_plans: Vec::new() });
        }
        let init_plans = self.run(subqueries, &given, context).await.ok().flatten()?;
        let instance = instance.with_values_of(&values(&init_plans)).ok()?;
        Some(CompleteInstance { instance, given, init_plans })
    }

    /// An analyzed plan without parameters, with the values of its conditions' subqueries in their places, as far as they
    /// can run before it.
    pub(super) async fn with_init_plans(
        &self,
        plan: LogicalPlan,
        context: &QueryContext,
    ) -> PlanResult<(LogicalPlan, InitPlans)> {
        let (plan, mut init_plans) = self.with_values_of_limits(plan, context).await?;
        let subqueries = subqueries::of_conditions(&plan)?;
        match self.run(subqueries, &[], context).await {
            Ok(Some(of_conditions)) => {
                let plan = subqueries::with_values_in_conditions(plan, &values(&of_conditions))?;
                init_plans.extend(of_conditions);
                Ok((plan, init_plans))
            }
            Ok(None) | Err(_) => Ok((plan, init_plans)),
        }
    }

    /// A plan with the values of the subqueries of its limits.
    async fn with_values_of_limits(
        &self,
        plan: LogicalPlan,
        context: &QueryContext,
    ) -> PlanResult<(LogicalPlan, InitPlans)> {
        let subqueries = subqueries::of_limits(&plan)?;
        if subqueries.is_empty() {
            return Ok((plan, Vec::new()));
        }
        let init_plans = self.run(subqueries, &[], context).await?.ok_or_else(|| external(several_rows()))?;
        Ok((subqueries::with_values_in_limits(plan, &values(&init_plans))?, init_plans))
    }

    /// Runs subqueries, each once; `None` if one has more than one row.
    async fn run(
        &self,
        subqueries: Vec<Subquery>,
        given: &[ScalarValue],
        context: &QueryContext,
    ) -> PlanResult<Option<InitPlans>> {
        let mut init_plans: InitPlans = Vec::new();
        for subquery in subqueries {
            if init_plans.iter().any(|(known, _)| *known == subquery) {
                continue;
            }
            // On the heap: a subquery may have others.
            let physical = Box::pin(self.physical_of(&subquery, given, context)).await?;
            match self.scalar(&subquery, physical.clone(), context).await? {
                Some(value) => init_plans.push((subquery, InitPlan { value, physical })),
                None => return Ok(None),
            }
        }
        Ok(Some(init_plans))
    }

    async fn physical_of(
        &self,
        subquery: &Subquery,
        given: &[ScalarValue],
        context: &QueryContext,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let plan = subquery.subquery.as_ref();
        if let Some(instance) = self.engine.plan_cache.instance(plan, context)
            && let Some(complete) = self.complete(instance, given.to_vec(), context).await
            && let Some(physical) = self.physical_of_instance(&complete, context).await
        {
            return Ok(physical);
        }
        // Parameters get their values with those of the whole statement.
        if !plan.get_parameter_names()?.is_empty() {
            return Err(DataFusionError::Plan("a subquery's parameters have no values yet".into()));
        }
        let state = self.engine.statement(context);
        let plan = rollup::expanded(plan.clone(), context.snapshot.as_ref(), &state).await?;
        let (plan, _) = self.with_init_plans(plan, context).await?;
        Ok(self.optimized(plan, context.snapshot.as_ref(), &state).await?.1)
    }

    /// The value of a plan's one row, NULL without one; `None`: there are more.
    async fn scalar(
        &self,
        subquery: &Subquery,
        physical: Arc<dyn ExecutionPlan>,
        context: &QueryContext,
    ) -> PlanResult<Option<ScalarValue>> {
        let ty = subquery.subquery.schema().field(0).data_type();
        let task = self.engine.task(self.engine.function_context(context).config);
        let mut batches = execute_stream(physical, task)?;
        let mut row: Option<RecordBatch> = None;
        while let Some(batch) = batches.try_next().await? {
            match batch.num_rows() {
                0 => {}
                1 if row.is_none() => row = Some(batch),
                _ => return Ok(None),
            }
        }
        let value =
            row.map_or_else(|| ScalarValue::try_from(ty), |row| ScalarValue::try_from_array(row.column(0), 0))?;
        value.cast_to(ty).map(Some)
    }
}

fn values(init_plans: &InitPlans) -> HashMap<Subquery, ScalarValue> {
    init_plans.iter().map(|(subquery, run)| (subquery.clone(), run.value.clone())).collect()
}
