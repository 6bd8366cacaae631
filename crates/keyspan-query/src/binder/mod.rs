//! The binder: from a query's tree to a logical plan, with the labels of its columns and the types of its parameters.
//!
//! DataFusion's `SqlToRel` plans the tree. Where it would plan another answer than Postgres', the tree is changed before, or
//! the plan after. These are all such changes, in their order (ADR 8):
//!
//! | walk | changes | why there |
//! |---|---|---|
//! | tree 0 | `semantics::TypeNames`: the types that casts name, tuples as values | labels and all others see the same |
//! | tree 1 | `pg_catalog::simplify`: asyncpg's recursive question about types | looks at WITH only |
//! | tree 2 | `semantics::expand`: names of WITH that a WITH around has, too (a walk before), VALUES of several types as relations; ANY, ALL, EXISTS, IN outside of WHERE, functions in FROM, as forms that are planned | makes joins and subqueries that the next ones see |
//! | tree 3 | [`crate::name_resolution`]: JOIN USING and NATURAL JOIN; only where there are such joins | needs the columns of every FROM |
//! | tree 4 | `rewrite`: which pseudo columns and parameters are mentioned | tables have pseudo columns only then |
//! | tree 5 | `rewrite`: labels, names that repeat, `t.*` of a table with its schema, PER PARTITION LIMIT | labels are of the tree as it was written |
//! | tree 6 | `pg_catalog::rewrite_query`: OIDs, `regclass`, catalog lookups | only queries of system tables have them |
//! | tree 7 | `semantics::rewrite_query`: names of enclosing queries; marks where types decide | hides what others look for |
//! | planning | `semantics::planner`: operators, literals, casts and calls by their types; `ValuesRelation`: cells of one type | types are known, from the leaves up |
//! | plan 1 | `semantics::corrected`: LATERAL without tables, types of unions, NULL where it may be, sorts by subqueries; only where there are some | before types are coerced |
//!
//! Expressions outside of queries (SET, VALUES, CHECK, DEFAULT) go through walks 0, 2, 6 and 7: [`crate::expression`].
//! Before them all, [`call_parts`] looks at the tree without changing it.
//!
//! - `names`: tables, views and functions. `rewrite`: walks 4 and 5, and the order of all. In walk 5, `token`: the
//!   arguments of `token()`, `order_by`: what ORDER BY names, and `ambiguous`: names that a subquery or a WITH has twice.

mod ambiguous;
mod ann;
pub mod call_parts;
mod expanded;
mod from;
mod materialized;
mod names;
mod order_by;
mod origin;
mod rewrite;
mod stamps;
mod token;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast;
use keyspan_model::{Catalog, ColumnType, Error, ErrorKind, Value, ViewDef};

use crate::context::{QueryContext, QueryParser};
use crate::error::{external, from_datafusion, kind_of};
use crate::functions::json::OF_VALUE_CQL;
use crate::functions::nested::CQL_ROW;
use crate::functions::value_call;
use crate::rights::{Read, Reading};
use crate::semantics::{TypeNames, corrected, json_of, json_of_nested};
use crate::syntax::parts_of;
use crate::table::Mentions;
use crate::types::{Ty, field_type, literal};
use names::{Named, find};
use origin::origins;
use rewrite::{Effort, Rewritten, rewrite};

pub use materialized::{query_of, rollup_of, stored_rows_of};
pub use names::{Names, Scope};

/// A query's plan before optimization.
#[derive(Clone, Debug)]
pub struct Planned {
    /// As planned: types are not yet coerced, parameters still in place.
    pub plan: LogicalPlan,
    /// One per output column.
    pub labels: Vec<String>,
    /// The tables and views that its names stand for.
    pub reads: Vec<Read>,
}

/// Plans a query over the context's tables.
pub fn plan_query(
    parser: Option<QueryParser>,
    state: &SessionState,
    query: &ast::Query,
    context: &QueryContext,
) -> Result<Planned> {
    let reading = Reading::default();
    let (plan, labels) = plan_under(parser, state, query, context, Scope::of(context, &reading))?;
    let reads = reading.of_plan(&plan, context.snapshot.catalog(), context.unjudged_columns)?;
    Ok(Planned { plan, labels, reads })
}

fn plan_under(
    parser: Option<QueryParser>,
    state: &SessionState,
    query: &ast::Query,
    context: &QueryContext,
    scope: Scope<'_>,
) -> Result<(LogicalPlan, Vec<String>)> {
    call_parts::check(query, state).map_err(external)?;
    let attempt = |effort: Effort| {
        let resolve = |name: &ast::ObjectName| {
            let (schema, name) = parts_of(name)?;
            if schema.is_none() && scope.given(&name).is_some() {
                return None;
            }
            match find(context.snapshot.catalog(), scope.search_path, schema.as_deref(), &name)? {
                Named::Table(table) => Some(table),
                Named::View(_) => None,
            }
        };
        let names = |mentions| Names::new(parser, state, context, scope.clone(), mentions);
        let types = TypeNames { catalog: context.snapshot.catalog(), search_path: scope.search_path };
        let columns =
            |name: &ast::ObjectName, args: Option<&[ast::FunctionArg]>| names(Mentions::default()).columns(name, args);
        let rewritten = rewrite(query, &types, &resolve, &columns, effort).map_err(external)?;
        let names = names(rewritten.mentions.clone());
        plan_rewritten(&names, rewritten)
    };
    // Names that repeat beside a `*` show only when it is expanded; then every other column gets a name of its own.
    match attempt(Effort::Usual) {
        Err(error) if kind_of(&error) == ErrorKind::DuplicateColumn => attempt(Effort::RenameAll).map_err(|_| error),
        other => other,
    }
}

fn plan_rewritten(names: &Names<'_>, rewritten: Rewritten) -> Result<(LogicalPlan, Vec<String>)> {
    let planner = SqlToRel::new_with_options(names, options(names.state));
    let types = placeholder_types(rewritten.mentions.parameters, names.context);
    let mut planner_context = PlannerContext::new().with_prepare_param_data_types(types);
    let labels = rewritten.labels;
    let json = rewritten.query.settings.iter().flatten().any(|setting| setting.key.value == "select_json");
    let statement = ast::Statement::Query(rewritten.query);
    let plan = planner.sql_statement_to_plan_with_context(statement, &mut planner_context)?;
    let plan = corrected(plan)?;
    let labels = labels.settle(plan.schema().fields().iter().map(|field| field.name().as_str()).collect());
    match json {
        true => Ok((rows_as_json(plan, &labels)?, vec!["[json]".to_owned()])),
        false => Ok((maps_as_json(plan)?, labels)),
    }
}

/// The plan with families among its columns as `jsonb`, which is how a client gets them.
fn maps_as_json(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_map = |field: &Field| matches!(field.data_type(), DataType::Map(..));
    if !plan.schema().fields().iter().any(|field| is_map(field)) {
        return Ok(plan);
    }
    let columns = plan.schema().columns().into_iter().zip(plan.schema().fields());
    let columns = columns.map(|(column, field)| match is_map(field) {
        true => Ok(json_of_nested(Expr::Column(column.clone()))?.alias_qualified(column.relation, column.name)),
        false => Ok(Expr::Column(column)),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// The plan of CQL's SELECT JSON: each row as one text.
fn rows_as_json(plan: LogicalPlan, labels: &[String]) -> Result<LogicalPlan> {
    let (mut args, mut types) = (Vec::new(), Vec::new());
    for ((column, field), label) in plan.schema().columns().into_iter().zip(plan.schema().fields()).zip(labels) {
        // CQL quotes names that are not lower case.
        let lower = !label.chars().any(char::is_uppercase);
        let name = if lower { label.clone() } else { format!("\"{label}\"") };
        args.push(literal(&Value::Text(name), ColumnType::Text)?);
        types.push(ColumnType::Text);
        let value = Expr::Column(column);
        match field_type(field) {
            Ty::Other(_) => {
                args.push(json_of(OF_VALUE_CQL, value));
                types.push(ColumnType::Json);
            }
            ty => {
                args.push(value);
                types.push(ty.known().unwrap_or(ColumnType::Text));
            }
        }
    }
    let json = value_call(CQL_ROW, args, &types)?.alias("[json]");
    LogicalPlanBuilder::from(plan).project([json])?.build()
}

/// How names and literals are read.
pub fn options(state: &SessionState) -> ParserOptions {
    let parser = &state.config_options().sql_parser;
    ParserOptions::new()
        .with_parse_float_as_decimal(parser.parse_float_as_decimal)
        .with_enable_ident_normalization(true)
        .with_support_varchar_with_length(true)
        .with_map_string_types_to_utf8view(true)
        .with_collect_spans(true)
}

/// The types a client gave, for as many parameters as the statement has; empty if it gave none.
pub fn placeholder_types(parameters: usize, context: &QueryContext) -> Vec<Option<FieldRef>> {
    if context.parameter_types.iter().all(Option::is_none) {
        return Vec::new();
    }
    let field = |index: usize| {
        let ty = context.parameter_types.get(index).copied().flatten()?;
        Some(Arc::new(ty.field("", true)))
    };
    (0..parameters).map(field).collect()
}

/// A view's query, its columns named as the view's.
pub fn plan_view(names: &Names<'_>, view: &ViewDef) -> Result<LogicalPlan> {
    let Some(parser) = names.parser else {
        return Err(external(Error::not_supported("this engine has no parser for views")));
    };
    let query = parser(&view.sql).map_err(external)?;
    let scope = names.scope.within(view, names.context.snapshot.catalog());
    let (plan, labels) = plan_under(names.parser, names.state, &query, names.context, scope)?;
    let columns = plan.schema().columns();
    let named = columns.into_iter().enumerate().map(|(index, column)| {
        let name = view.columns.get(index).or_else(|| labels.get(index)).cloned();
        let name = name.unwrap_or_else(|| column.name.clone());
        Expr::Column(column).alias(name)
    });
    LogicalPlanBuilder::from(plan).project(named)?.build()
}

/// Plans what may name parameters, and finds the type of each: that which the client said, or else the first that it is used
/// as. Where one is used as several types, the plan is made again with all types known.
pub fn with_parameters<P>(
    context: &QueryContext,
    plan: impl Fn(&QueryContext) -> Result<P, Error>,
    plan_of: impl Fn(&P) -> &LogicalPlan,
) -> Result<(P, Vec<ColumnType>), Error> {
    let planned = plan(context)?;
    let Parameters { types, alike } = parameters_of(plan_of(&planned), context)?;
    // A parameter that nothing gives a type to is text, as in Postgres.
    let types: Vec<_> = types.into_iter().map(|ty| ty.unwrap_or(ColumnType::Text)).collect();
    if alike {
        return Ok((planned, types));
    }
    let known = types.iter().copied().map(Some).collect();
    let planned = plan(&QueryContext { parameter_types: known, ..context.clone() })?;
    Ok((planned, types))
}

/// Parameters of a plan.
struct Parameters {
    /// Types by number, as far as they are known.
    types: Vec<Option<ColumnType>>,
    /// Whether each has one.
    alike: bool,
}

fn parameters_of(plan: &LogicalPlan, context: &QueryContext) -> Result<Parameters, Error> {
    let mut found = Parameters { types: Vec::new(), alike: true };
    let mut visit = |expr: &Expr| {
        if let Expr::Placeholder(Placeholder { id, field }) = expr {
            let number = id.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok());
            let Some(number) = number.filter(|number| (1..=65_535).contains(number)) else {
                let message = format!("there is no parameter {id}");
                return Err(external(Error::new(ErrorKind::UndefinedParameter, message)));
            };
            found.types.resize(found.types.len().max(number), None);
            let given = context.parameter_types.get(number - 1).copied().flatten();
            let (first, used) = (&mut found.types[number - 1], field.as_ref().and_then(ColumnType::of_field_ref));
            found.alike &= given.is_some() || first.is_none() || used.is_none() || *first == used;
            *first = first.or(given).or(used);
        }
        Ok(TreeNodeRecursion::Continue)
    };
    plan.apply_with_subqueries(|plan| plan.apply_expressions(|expr| expr.apply(&mut visit)))
        .map_err(from_datafusion)?;
    Ok(found)
}

/// The schema of a query's answer: Postgres' labels over Keyspan's types.
pub fn output_schema(schema: &DFSchema, labels: &[String]) -> SchemaRef {
    let fields = schema.fields().iter().zip(labels).map(|(field, label)| output_field(field, label));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The same of a plan, with the origin of each column.
pub fn described_schema(plan: &LogicalPlan, labels: &[String], catalog: &Catalog) -> SchemaRef {
    let schema = output_schema(plan.schema(), labels);
    let fields = schema.fields().iter().zip(origins(plan, catalog)).map(|(field, origin)| match origin {
        Some(origin) => Arc::new(origin.add_to(Field::clone(field))),
        None => Arc::clone(field),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn output_field(field: &Field, label: &str) -> Field {
    let ty = match field.data_type() {
        // Counts and row numbers are bigint in Postgres.
        DataType::UInt64 => Some(ColumnType::BigInt),
        DataType::Null => Some(ColumnType::Text),
        _ => ColumnType::of_field(field),
    };
    match ty {
        // The items of a list may be called otherwise.
        Some(ty) if ty.element().is_some() => {
            ty.field(label, field.is_nullable()).with_data_type(field.data_type().clone())
        }
        Some(ty) => ty.field(label, field.is_nullable()),
        None => field.clone().with_name(label),
    }
}

/// What DataFusion's analyzer makes of the plan: types coerced.
pub fn analyzed(state: &SessionState, plan: &LogicalPlan) -> Result<LogicalPlan, Error> {
    let options = state.config_options();
    state.analyzer().execute_and_check(plan.clone(), options, |_, _| {}).map_err(from_datafusion)
}
