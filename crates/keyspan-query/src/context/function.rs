//! The function context of a statement: what its functions depend on besides their arguments. These are the settings with the
//! facts of the session, and the time the statement began.
//!
//! Planning needs a whole session state, whose maps of functions take longer to copy than a short query to run. A cached plan
//! needs only this.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::prelude::SessionConfig;

/// Settings with the session's facts, and `now()`.
#[derive(Clone, Debug)]
pub struct FunctionContext {
    /// The settings; the facts stand among their extensions.
    pub config: SessionConfig,
    /// When the statement began.
    pub now: Option<DateTime<Utc>>,
}

impl FunctionContext {
    /// Simplifies expressions over rows of this schema.
    pub fn simplifier(&self, schema: Arc<DFSchema>) -> ExprSimplifier {
        let context = SimplifyContext::builder()
            .with_schema(schema)
            .with_config_options(self.config.options().clone())
            .with_query_execution_start_time(self.now)
            .build();
        ExprSimplifier::new(context)
    }

    /// An analyzed expression over rows of this schema, ready to be evaluated.
    pub fn physical(&self, expr: Expr, schema: DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = Arc::new(schema);
        let expr = self.simplifier(schema.clone()).coerce(expr, &schema)?;
        let mut props = ExecutionProps::new();
        props.mark_start_execution(self.config.options().clone());
        props.query_execution_start_time = self.now;
        create_physical_expr(&expr, &schema, &props, &PhysicalPlanningContext::default())
    }
}
