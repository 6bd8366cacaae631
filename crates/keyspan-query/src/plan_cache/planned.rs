//! A planned query: what a statement's text means under a catalog, a search path and a time zone.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;
use keyspan_model::{Catalog, ColumnType, Result, Value};

use super::{PlanInstance, is_whole};
use crate::binder::analyzed;
use crate::context::QueryContext;
use crate::error::from_datafusion;
use crate::rights::{self, Read};
use crate::types::{Zone, parameter_values, scalar_of};

/// A planned SELECT; may be executed many times, on other snapshots and with other parameters.
#[derive(Clone, Debug)]
pub struct PlannedQuery {
    /// Labels as Postgres gives them (they may repeat), types with `keyspan.type` in the metadata.
    pub schema: SchemaRef,
    /// Types of `$1`, `$2`, … .
    pub parameters: Vec<ColumnType>,
    /// With parameters in the places of `literals`, if there are any.
    pub(crate) query: Arc<ast::Query>,
    /// Quoted literals that were taken out of the text. Then it has no other parameters.
    pub(crate) literals: Option<Arc<Literals>>,
    /// Analyzed, if it has no parameters: types are coerced anew when these are known.
    pub(crate) plan: LogicalPlan,
    pub(crate) cached: Option<PlanInstance>,
    /// Analyzed, with its parameters, if it has no cached plan because of one that is a LIMIT.
    pub(crate) limited: Option<Arc<LogicalPlan>>,
    /// The tables and views that it reads.
    pub(crate) reads: Arc<[Read]>,
    /// What it was planned under.
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) search_path: Vec<String>,
    pub(crate) time_zone: String,
    pub(crate) given: Vec<Option<ColumnType>>,
    pub(crate) unjudged_columns: usize,
}

/// Parameters that the text gives itself.
#[derive(Debug)]
pub(crate) struct Literals {
    types: Vec<ColumnType>,
    values: Vec<Value>,
}

impl PlannedQuery {
    /// Whether it is the plan of this query in this context.
    pub(crate) fn answers(&self, query: &ast::Query, context: &QueryContext) -> bool {
        self.is_of(context) && self.given == context.parameter_types && *self.query == *query
    }

    /// Whether its names and literals mean the same in this context as where it was planned.
    pub(crate) fn is_of(&self, context: &QueryContext) -> bool {
        // A version's number is not enough: a transaction that is undone has used numbers that others use again.
        Arc::ptr_eq(&self.catalog, context.snapshot.catalog())
            && self.search_path == context.search_path
            && self.time_zone == context.time_zone
            && self.unjudged_columns == context.unjudged_columns
    }

    /// The query whose parameters were taken out of a text; `None` if it is better planned with its literals in their places:
    /// its plan is not cached, or a literal says more than a value of the parameter's type.
    pub(crate) fn with(self, literals: Vec<String>, context: &QueryContext) -> Option<PlannedQuery> {
        let PlannedQuery { parameters: types, .. } = &self;
        if self.cached.is_none() || types.len() != literals.len() || !types.iter().copied().all(is_whole) {
            return None;
        }
        let zone = Zone::of_setting(&context.time_zone);
        let resolve = |name: Option<&str>, local| zone.resolve(name, local);
        let cast = |(text, ty): (String, &ColumnType)| Value::Text(text).cast_zoned(*ty, &resolve).ok();
        let values = literals.into_iter().zip(types).map(cast).collect::<Option<Vec<Value>>>()?;
        let literals = Literals { types: types.clone(), values };
        Some(PlannedQuery { parameters: Vec::new(), literals: Some(Arc::new(literals)), ..self })
    }

    /// Fails with 42501 where what it reads may not be read. A query that must be planned anew is checked then.
    pub(crate) fn check_rights(&self, context: &QueryContext) -> Result<()> {
        if self.is_of(context) { rights::check(&self.reads, context) } else { Ok(()) }
    }

    /// What the text gives itself, or the client.
    pub(crate) fn bindings<'a>(&'a self, parameters: &'a [Value]) -> Bindings<'a> {
        match &self.literals {
            Some(literals) => Bindings { types: &literals.types, values: &literals.values },
            None => Bindings { types: &self.parameters, values: parameters },
        }
    }
}

/// The values of a planned query's parameters.
pub(crate) struct Bindings<'a> {
    pub(crate) types: &'a [ColumnType],
    values: &'a [Value],
}

impl Bindings<'_> {
    pub(crate) fn scalars(&self) -> Result<Vec<ScalarValue>> {
        self.types.iter().zip(self.values).map(|(ty, value)| scalar_of(value, *ty)).collect()
    }

    /// The plan with the values in their places, analyzed.
    pub(crate) fn bound(&self, plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
        if self.types.is_empty() {
            return Ok(plan);
        }
        let values = parameter_values(self.types, self.values)?;
        analyzed(state, &plan.replace_params_with_values(&values).map_err(from_datafusion)?)
    }
}
