//! Scalar expressions without a query: CHECK, DEFAULT, `SET x = x + 1`, IF, RETURNING, DO UPDATE.
//!
//! They pass through the same rewriting, analysis and simplification as queries do, so `x + 1` means the same here.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ParamValues, TableReference};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, Projection};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::planner::{PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast;
use keyspan_model::{ColumnType, Error, Result, Value, array_of};

use crate::binder::{Names, Scope, analyzed, call_parts, options, output_schema, placeholder_types, with_parameters};
use crate::context::QueryContext;
use crate::engine::QueryEngine;
use crate::error::from_datafusion;
use crate::pg_catalog;
use crate::rights::Reading;
use crate::semantics;
use crate::syntax::has_subquery;
use crate::table::Mentions;
use crate::types::parameter_values;

/// Expressions that can be evaluated on batches, any number of times.
#[derive(Clone, Debug)]
pub struct CompiledExprs {
    types: Vec<ColumnType>,
    parameters: Vec<ColumnType>,
    output: SchemaRef,
    /// Before parameters are bound: a projection over an empty relation of the inputs' columns.
    plan: LogicalPlan,
    state: Arc<SessionState>,
    /// Ready to run, if there are no parameters.
    ready: Option<Vec<Arc<dyn PhysicalExpr>>>,
}

impl CompiledExprs {
    /// The type of each expression. What has no name in Keyspan (a list, a map) is given as text.
    pub fn types(&self) -> &[ColumnType] {
        &self.types
    }

    /// Types of `$1`, `$2`, … .
    pub fn parameters(&self) -> &[ColumnType] {
        &self.parameters
    }

    /// Whether an expression may have another value at each row, as `random()` has.
    pub fn are_volatile(&self) -> bool {
        self.plan.expressions().iter().any(Expr::is_volatile)
    }

    pub(crate) fn compile(
        engine: &QueryEngine,
        expressions: &[&ast::Expr],
        input: &[(&str, SchemaRef)],
        context: &QueryContext,
    ) -> Result<CompiledExprs> {
        let state = engine.statement(context);
        let schema = input_schema(input)?;
        let empty = EmptyRelation { produce_one_row: false, schema: Arc::new(schema.clone()) };
        let input = Arc::new(LogicalPlan::EmptyRelation(empty));
        let plan = |context: &_| {
            let exprs = numbered(planned(engine, &state, expressions, &schema, context)?);
            Projection::try_new(exprs, input.clone()).map(LogicalPlan::Projection).map_err(from_datafusion)
        };
        let (plan, parameters) = with_parameters(context, plan, |plan| plan)?;
        let labels: Vec<String> = (0..expressions.len()).map(|index| index.to_string()).collect();
        let output = output_schema(analyzed(&state, &plan)?.schema(), &labels);
        let types = output.fields().iter().map(|field| ColumnType::of_field(field).unwrap_or(ColumnType::Text));
        let mut compiled = CompiledExprs {
            types: types.collect(),
            parameters,
            output: output.clone(),
            plan,
            state: Arc::new(state),
            ready: None,
        };
        if compiled.parameters.is_empty() {
            compiled.ready = Some(compiled.physical(&compiled.plan)?);
        }
        Ok(compiled)
    }

    /// One array per expression, as long as the batch. The batch has the columns of the inputs side by side.
    ///
    /// # Errors
    /// 22012, 22003, 22P02 and whatever else the expressions raise on these rows.
    pub fn evaluate(&self, batch: &RecordBatch, parameters: &[Value]) -> Result<Vec<ArrayRef>> {
        let bound;
        let exprs = match &self.ready {
            Some(ready) => ready,
            None => {
                bound = self.bound(&parameter_values(&self.parameters, parameters)?)?;
                &bound
            }
        };
        self.arrays(exprs, batch)
    }

    /// One array per expression, with a row for each list of parameters. For expressions over no columns.
    ///
    /// # Errors
    /// Those of [`CompiledExprs::evaluate`], and those of functions that take no column in place of a constant.
    pub fn evaluate_each(&self, lists: &[Vec<Value>]) -> Result<Vec<ArrayRef>> {
        let fields = self.parameters.iter().enumerate().map(|(index, ty)| ty.field(&format!("${}", index + 1), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let columns = self.parameters.iter().enumerate().map(|(index, ty)| {
            let values = lists.iter().map(|list| fitting(list.get(index), *ty)).collect::<Result<Vec<_>>>()?;
            array_of(*ty, &values)
        });
        let options = RecordBatchOptions::new().with_row_count(Some(lists.len()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options)?;
        self.arrays(&self.physical(&self.over_parameters(schema)?)?, &batch)
    }

    fn arrays(&self, exprs: &[Arc<dyn PhysicalExpr>], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let arrays = exprs.iter().zip(self.output.fields()).map(|(expr, field)| {
            let value = expr.evaluate(batch).map_err(from_datafusion)?;
            let array = value.into_array(batch.num_rows()).map_err(from_datafusion)?;
            if array.data_type() == field.data_type() {
                return Ok(array);
            }
            Ok(arrow::compute::cast(&array, field.data_type())?)
        });
        arrays.collect()
    }

    fn bound(&self, values: &ParamValues) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let plan = self.plan.clone().replace_params_with_values(values).map_err(from_datafusion)?;
        self.physical(&plan)
    }

    /// The plan with its parameters as the columns of its input.
    fn over_parameters(&self, schema: SchemaRef) -> Result<LogicalPlan> {
        let schema = DFSchema::try_from(schema).map_err(from_datafusion)?;
        let empty = EmptyRelation { produce_one_row: false, schema: Arc::new(schema) };
        let column = |expr: Expr| match expr {
            Expr::Placeholder(placeholder) => Transformed::yes(Expr::Column(Column::new_unqualified(placeholder.id))),
            other => Transformed::no(other),
        };
        let exprs = self.plan.expressions().into_iter().map(|expr| expr.transform(|part| Ok(column(part))).data());
        let exprs = exprs.collect::<datafusion::error::Result<Vec<_>>>().map_err(from_datafusion)?;
        let projection = Projection::try_new(exprs, Arc::new(LogicalPlan::EmptyRelation(empty)));
        Ok(LogicalPlan::Projection(projection.map_err(from_datafusion)?))
    }

    fn physical(&self, plan: &LogicalPlan) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let schema: DFSchemaRef = match plan.inputs().first() {
            Some(input) => input.schema().clone(),
            None => return Err(Error::internal("compiled expressions without an input")),
        };
        let start = self.state.execution_props().query_execution_start_time;
        let simplify = SimplifyContext::builder()
            .with_schema(schema.clone())
            .with_config_options(self.state.config_options().clone())
            .with_query_execution_start_time(start)
            .build();
        let simplifier = ExprSimplifier::new(simplify);
        let analyzed = analyzed(&self.state, plan)?;
        let physical = analyzed.expressions().into_iter().map(|expr| {
            let simple = simplifier.simplify(expr)?;
            self.state.create_physical_expr(simple, &schema)
        });
        physical.collect::<datafusion::error::Result<Vec<_>>>().map_err(from_datafusion)
    }
}

/// A parameter's value in its type's form; null for one that is missing.
fn fitting(value: Option<&Value>, ty: ColumnType) -> Result<Value> {
    match value {
        None => Ok(Value::Null),
        Some(value) if value.fits(ty) => Ok(value.clone()),
        Some(value) => value.clone().cast(ty),
    }
}

fn input_schema(input: &[(&str, SchemaRef)]) -> Result<DFSchema> {
    let mut joined = DFSchema::empty();
    for (qualifier, schema) in input {
        // A name, not a text to be read as one, which would fold its case.
        let qualifier = TableReference::bare(*qualifier);
        let part = DFSchema::try_from_qualified_schema(qualifier, schema).map_err(from_datafusion)?;
        joined = joined.join(&part).map_err(from_datafusion)?;
    }
    Ok(joined)
}

fn planned(
    engine: &QueryEngine,
    state: &SessionState,
    expressions: &[&ast::Expr],
    schema: &DFSchema,
    context: &QueryContext,
) -> Result<Vec<Expr>> {
    let scope = Scope::of(context, &Reading::default());
    let names = Names::new(engine.options.parser, state, context, scope, Mentions::default());
    let planner = SqlToRel::new_with_options(&names, options(state));
    let types = placeholder_types(context.parameter_types.len(), context);
    let mut planner_context = PlannerContext::new().with_prepare_param_data_types(types);
    let user_types = semantics::TypeNames { catalog: context.snapshot.catalog(), search_path: &context.search_path };
    let each = expressions.iter().map(|expression| {
        if has_subquery(expression) {
            return Err(Error::not_supported("cannot use subquery here"));
        }
        call_parts::check(*expression, state)?;
        let mut expression = (*expression).clone();
        user_types.resolve(&mut expression)?;
        semantics::expand_expression(&mut expression)?;
        pg_catalog::rewrite_expression(&mut expression)?;
        semantics::rewrite_expression(&mut expression)?;
        let expr = planner.sql_to_expr(expression, schema, &mut planner_context).map_err(from_datafusion)?;
        refuse_sets(&expr)?;
        Ok(expr)
    });
    each.collect()
}

/// Names that cannot repeat: the expressions' own may.
fn numbered(exprs: Vec<Expr>) -> Vec<Expr> {
    exprs.into_iter().enumerate().map(|(index, expr)| expr.alias(index.to_string())).collect()
}

/// Refuses what is no value of one row.
fn refuse_sets(expr: &Expr) -> Result<()> {
    let mut refused = None;
    let walked = expr.apply(|part| {
        refused = match part {
            Expr::AggregateFunction(_) => Some("aggregate functions are not allowed here"),
            Expr::WindowFunction(_) => Some("window functions are not allowed here"),
            Expr::Unnest(_) => Some("set-returning functions are not allowed here"),
            _ => None,
        };
        Ok(if refused.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.map_err(from_datafusion)?;
    refused.map_or(Ok(()), |message| Err(Error::not_supported(message)))
}
