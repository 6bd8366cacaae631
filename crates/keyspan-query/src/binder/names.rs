//! Names in a query: tables and views along the search path, functions of the engine.
//!
//! Tables are those of one snapshot's catalog. A view is its stored query, planned under the search path it was
//! created with, in place of its name.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::catalog::{TableFunctionArgs, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, TableReference};
use datafusion::datasource::{MemTable, ViewTable, provider_as_source};
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::{ContextProvider, ExprPlanner, RelationPlanner, TypePlanner};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{AggregateUDF, Expr, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast;
use keyspan_model::schema::temporary::{is_temporary, named_keyspace};
use keyspan_model::{
    Catalog, ColumnId, ColumnType, Error, ErrorKind, Materialized, RollupDef, StoredDef, TableDef, ViewDef, nearest,
};

use super::materialized::shown_schema;
use super::{analyzed, described_schema, plan_view};
use crate::asof::AsOfRelation;
use crate::context::{GivenRelation, QueryContext, QueryParser};
use crate::error::{external, from_datafusion};
use crate::family::{CELLS, HISTORY, History, cells_table};
use crate::functions;
use crate::name_resolution::Named as NamedColumn;
use crate::pg_catalog;
use crate::rights::Reading;
use crate::rollup::RollupTable;
use crate::semantics;
use crate::syntax::parts_of;
use crate::table::{KeyspanTable, Mentions};
use crate::types::{Zone, literal_text};
use crate::work_table::WorkTable;

/// Views within views, at most: a cycle cannot be made, but depth costs stack.
const DEEPEST_VIEW: usize = 32;

/// Where the names of a query are looked up, and as whom.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    pub(crate) search_path: &'a [String],
    /// How many views deep the query stands.
    depth: usize,
    /// Rows that names stand for before tables do; a view has none.
    given: &'a [GivenRelation],
    /// Of a view: columns from this number on are newer than it.
    columns_before: Option<ColumnId>,
    reading: Reading,
}

impl<'a> Scope<'a> {
    /// That of a statement.
    pub fn of(context: &'a QueryContext, reading: &Reading) -> Scope<'a> {
        let (search_path, reading) = (&context.search_path, reading.clone());
        Scope { search_path, depth: 0, given: &context.given, columns_before: None, reading }
    }

    /// For the query of a view apart from any statement: what it reads is noted.
    pub(super) fn of_view(view: &'a ViewDef, reading: Reading) -> Scope<'a> {
        Scope { search_path: &view.search_path, depth: 0, given: &[], columns_before: view.columns_before, reading }
    }

    /// That of a view's query: the search path is the one it was created with, and it reads as its owner.
    pub fn within<'b>(&self, view: &'b ViewDef, catalog: &Catalog) -> Scope<'b> {
        let reading = self.reading.within(view, catalog);
        Scope { depth: self.depth + 1, ..Scope::of_view(view, reading) }
    }

    /// The rows that are given under this name; the last of several.
    pub fn given(&self, name: &str) -> Option<&'a GivenRelation> {
        self.given.iter().rev().find(|given| given.name == name)
    }
}

/// What the names of one query mean.
pub struct Names<'a> {
    pub(crate) parser: Option<QueryParser>,
    pub(crate) state: &'a SessionState,
    pub(crate) context: &'a QueryContext,
    pub(crate) scope: Scope<'a>,
    pub(crate) mentions: Mentions,
    relations: [Arc<dyn RelationPlanner>; 3],
}

impl<'a> Names<'a> {
    /// The names of a statement, or of a view.
    pub(crate) fn new(
        parser: Option<QueryParser>,
        state: &'a SessionState,
        context: &'a QueryContext,
        scope: Scope<'a>,
        mentions: Mentions,
    ) -> Names<'a> {
        // What a union relation gives back, the next one sees.
        let relations: [Arc<dyn RelationPlanner>; 3] = [
            Arc::new(AsOfRelation),
            Arc::new(semantics::UnionRelation::default()),
            Arc::new(semantics::ValuesRelation),
        ];
        let mentions = Mentions { columns_before: scope.columns_before, ..mentions };
        Names { parser, state, context, scope, mentions, relations }
    }
}

fn shown_columns(schema: &Schema) -> Vec<NamedColumn> {
    schema.fields().iter().map(|field| (field.name().clone(), ColumnType::of_field(field))).collect()
}

/// An argument of a function that is a text.
fn text_argument(argument: &ast::FunctionArg) -> Option<Expr> {
    let ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Value(value))) = argument else { return None };
    match &value.value {
        ast::Value::SingleQuotedString(text) => Some(lit(text.as_str())),
        _ => None,
    }
}

/// A table or view of the catalog.
pub enum Named {
    /// A table.
    Table(Arc<TableDef>),
    /// A view.
    View(Arc<ViewDef>),
}

/// Finds a table or view along a search path.
pub fn find(catalog: &Catalog, search_path: &[String], schema: Option<&str>, name: &str) -> Option<Named> {
    let within = |keyspace: &str| {
        let table = catalog.table(keyspace, name).cloned().map(Named::Table);
        table.or_else(|| catalog.view(keyspace, name).cloned().map(Named::View))
    };
    match schema {
        Some(schema) => within(named_keyspace(search_path, schema)?),
        None => search_path.iter().find_map(|keyspace| within(keyspace)),
    }
}

impl Names<'_> {
    /// The shown columns of a table, a view, or a function that reads a table; none of another function.
    ///
    /// # Errors
    /// 42P01 if there is none of this name; what planning a view fails with.
    pub(crate) fn columns(
        &self,
        name: &ast::ObjectName,
        args: Option<&[ast::FunctionArg]>,
    ) -> keyspan_model::Result<Option<Vec<NamedColumn>>> {
        if let Some(args) = args {
            let texts: Option<Vec<Expr>> = args.iter().map(text_argument).collect();
            let is_cells = parts_of(name).is_some_and(|(schema, name)| schema.is_none() && name == CELLS);
            let Some(texts) = texts.filter(|_| is_cells) else { return Ok(None) };
            return self.cells(&texts).map(|cells| Some(shown_columns(&cells.schema())));
        }
        let reference = match parts_of(name) {
            Some((Some(schema), name)) => TableReference::partial(schema, name),
            Some((None, name)) => TableReference::bare(name),
            None => return Err(self.undefined(None, &name.to_string())),
        };
        // Pseudo columns are not among them: nothing is mentioned.
        let schema = self.get_table_source(reference).map_err(from_datafusion)?.schema();
        Ok(Some(shown_columns(&schema)))
    }

    fn system_table(&self, schema: Option<&str>, name: &str) -> Option<Arc<dyn TableSource>> {
        let schema = match schema {
            Some(schema) if pg_catalog::SCHEMAS.contains(&schema) => schema,
            Some(_) => return None,
            None => "pg_catalog",
        };
        pg_catalog::table(schema, name, || self.view_columns()).map(provider_as_source)
    }

    /// The columns of all views, for the system tables that list columns. A view that cannot be planned has none, and
    /// so have all within a view on such a system table: else views could ask for themselves.
    fn view_columns(&self) -> pg_catalog::ViewColumns {
        if self.scope.depth > 0 {
            return Vec::new();
        }
        // To list columns is not to read rows.
        let scope = Scope { reading: Reading::default(), ..self.scope.clone() };
        let names = Names::new(self.parser, self.state, self.context, scope, self.mentions.clone());
        let columns = |view: &ViewDef| {
            if let Some(Materialized::Stored(stored)) = &view.materialized {
                return Some((view.id, shown_schema(&stored.rows)));
            }
            let plan = analyzed(self.state, &plan_view(&names, view).ok()?).ok()?;
            let labels: Vec<String> = plan.schema().fields().iter().map(|field| field.name().clone()).collect();
            Some((view.id, described_schema(&plan, &labels, self.context.snapshot.catalog())))
        };
        self.context.snapshot.catalog().views.values().filter_map(|view| columns(view)).collect()
    }

    /// `cells('table', 'family')`.
    fn cells(&self, args: &[Expr]) -> keyspan_model::Result<Arc<dyn TableProvider>> {
        let texts: Option<Vec<&str>> = args.iter().map(literal_text).collect();
        let (schema, name, family) = match texts.as_deref() {
            Some([schema, table, family]) => (Some(*schema), *table, *family),
            Some([table, family]) => match table.split_once('.') {
                Some((schema, name)) => (Some(schema), name, *family),
                None => (None, *table, *family),
            },
            _ => {
                let message = "cells takes the names of a table and of a family";
                let error = Error::new(ErrorKind::UndefinedFunction, message);
                return Err(error.with_hint("Write FROM cells('table', 'family')."));
            }
        };
        let Some(Named::Table(table)) = find(self.context.snapshot.catalog(), self.scope.search_path, schema, name)
        else {
            return Err(self.undefined(schema, name));
        };
        self.scope.reading.table(&table);
        let Some(family) = table.family(family) else {
            let message = format!("family \"{family}\" of relation \"{name}\" does not exist");
            return Err(Error::new(ErrorKind::UndefinedColumn, message));
        };
        // Its columns are of no table, and never newer.
        let mentions = Mentions { columns_before: None, ..self.mentions.clone() };
        Ok(Arc::new(KeyspanTable::of_cells(cells_table(&table, family), &mentions)))
    }

    /// `table(argument => value, …)`, which is called as [`HISTORY`].
    fn history(&self, args: &[Expr]) -> keyspan_model::Result<Arc<dyn TableProvider>> {
        let texts: Option<Vec<&str>> = args.iter().map(literal_text).collect();
        let Some([schema, name, arguments @ ..]) = texts.as_deref() else {
            return Err(Error::internal("arguments of a table that are no texts"));
        };
        let schema = Some(*schema).filter(|schema| !schema.is_empty());
        let Some(Named::Table(table)) = find(self.context.snapshot.catalog(), self.scope.search_path, schema, name)
        else {
            return Err(self.undefined(schema, name));
        };
        self.scope.reading.table(&table);
        if table.families.is_empty() {
            let message = format!("table \"{name}\" has no families, so that it keeps no versions");
            return Err(Error::new(ErrorKind::WrongObjectType, message));
        }
        let arguments: Vec<(&str, &str)> = arguments.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let history = History::parse(&arguments, Zone::of_setting(&self.context.time_zone))?;
        // A definition of its own: no plan is shared with other versions of the table.
        let table = Arc::new(TableDef::clone(&table));
        Ok(Arc::new(KeyspanTable::with_history(table, &self.mentions, Some(history))))
    }

    fn view(&self, view: &ViewDef) -> Result<Arc<dyn TableSource>> {
        self.scope.reading.view(view);
        if self.scope.depth >= DEEPEST_VIEW {
            let message = format!("views are nested more than {DEEPEST_VIEW} deep");
            return Err(external(Error::new(ErrorKind::TooComplex, message)));
        }
        Ok(match &view.materialized {
            Some(Materialized::Rollup(rollup)) => provider_as_source(Arc::new(self.rollup(view, rollup)?)),
            Some(Materialized::Stored(stored)) => provider_as_source(Arc::new(self.stored(view, stored)?)),
            None => {
                let plan = plan_view(self, view)?;
                provider_as_source(Arc::new(ViewTable::new(plan, Some(view.sql.clone()))))
            }
        })
    }

    fn stored(&self, view: &ViewDef, stored: &StoredDef) -> Result<KeyspanTable> {
        if !stored.populated {
            let message = format!("materialized view \"{}\" has not been populated", view.name);
            let error = Error::new(ErrorKind::ObjectNotReady, message);
            return Err(external(error.with_hint("Use the REFRESH MATERIALIZED VIEW command.")));
        }
        Ok(KeyspanTable::new(Arc::new(stored.rows.clone()), &self.mentions))
    }

    fn rollup(&self, view: &ViewDef, rollup: &RollupDef) -> Result<RollupTable> {
        RollupTable::new(view, rollup, analyzed(self.state, &plan_view(self, view)?).map_err(external)?)
    }

    fn undefined(&self, schema: Option<&str>, name: &str) -> Error {
        let shown = schema.map_or_else(|| name.to_owned(), |schema| format!("{schema}.{name}"));
        let error = Error::new(ErrorKind::UndefinedTable, format!("relation \"{shown}\" does not exist"));
        let catalog = self.context.snapshot.catalog();
        let visible = |keyspace: &str| match schema {
            Some(schema) => schema == keyspace,
            None => self.scope.search_path.iter().any(|each| each == keyspace),
        };
        let tables = catalog.tables.values().filter(|table| visible(&table.keyspace)).map(|table| table.name.as_str());
        let views = catalog.views.values().filter(|view| visible(&view.keyspace)).map(|view| view.name.as_str());
        if let Some(near) = nearest(name, tables.chain(views)) {
            return error.with_hint(format!("Perhaps you meant \"{near}\"."));
        }
        let elsewhere = catalog.tables.values();
        let mut elsewhere = elsewhere.filter(|table| schema.is_none() && !is_temporary(&table.keyspace));
        let elsewhere = elsewhere.find(|table| table.name == name);
        match elsewhere {
            Some(table) => {
                error.with_hint(format!("There is one in keyspace \"{0}\": write {0}.{name}.", table.keyspace))
            }
            None => error,
        }
    }
}

impl ContextProvider for Names<'_> {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        let (schema, table) = (name.schema(), name.table());
        if let (None, Some(given)) = (schema, self.scope.given(table)) {
            let rows = MemTable::try_new(Arc::clone(&given.schema), vec![given.batches.clone()])?;
            return Ok(provider_as_source(Arc::new(rows)));
        }
        if let Some(system) = self.system_table(schema, table) {
            return Ok(system);
        }
        match find(self.context.snapshot.catalog(), self.scope.search_path, schema, table) {
            Some(Named::Table(table)) => {
                self.scope.reading.table(&table);
                Ok(provider_as_source(Arc::new(KeyspanTable::new(table, &self.mentions))))
            }
            Some(Named::View(view)) => self.view(&view),
            None => Err(external(self.undefined(schema, table))),
        }
    }

    fn get_table_function_source(&self, name: &str, args: Vec<Expr>) -> Result<Arc<dyn TableSource>> {
        if name == CELLS {
            return self.cells(&args).map(provider_as_source).map_err(external);
        }
        if name == HISTORY {
            return self.history(&args).map(provider_as_source).map_err(external);
        }
        let Some(function) = self.state.table_functions().get(name).cloned() else {
            let message = format!("function {name} does not exist");
            return Err(external(Error::new(ErrorKind::UndefinedFunction, message)));
        };
        let props = self.state.execution_props();
        let simplify = SimplifyContext::builder()
            .with_config_options(self.state.config_options().clone())
            .with_query_execution_start_time(props.query_execution_start_time)
            .build();
        let simplifier = ExprSimplifier::new(simplify);
        let schema = DFSchema::empty();
        let args = args.into_iter().map(|arg| simplifier.coerce(arg, &schema).and_then(|arg| simplifier.simplify(arg)));
        let args = args.collect::<Result<Vec<_>>>()?;
        let provider = function.create_table_provider_with_args(TableFunctionArgs::new(&args, self.state))?;
        Ok(provider_as_source(provider))
    }

    fn create_cte_work_table(&self, name: &str, schema: arrow::datatypes::SchemaRef) -> Result<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(WorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        &self.relations
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        semantics::type_planner()
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let found = self.state.scalar_functions().get(name).cloned();
        let other = || {
            self.get_aggregate_meta(name).is_some()
                || self.get_window_meta(name).is_some()
                || self.get_higher_order_meta(name).is_some()
        };
        // A name that nothing has is refused once the types of its arguments are known: 42883 names them.
        found.or_else(|| (!other() && !name.starts_with("unnest")).then(|| functions::named(name)))
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}
