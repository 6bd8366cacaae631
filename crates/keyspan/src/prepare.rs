//! Preparing a statement: the types of its parameters and the columns of its rows, found before it runs.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use keyspan_cql::{
    Assignment, Change, ColumnName, Condition, ConflictAction, Delete, Insert, InsertSource, InsertValue, Merge,
    Parsed, Statement, Update, Using, With, ast, has_subquery,
};
use keyspan_model::{ColumnType, Error, Member, Result, TableDef};
use keyspan_query::{KeyMatch, PlannedQuery, key_of, no_constants, oid_array_parameters};

use crate::context::ClientContext;
use crate::dml::assign;
use crate::dml::cells;
use crate::dml::condition;
use crate::dml::conflict;
use crate::dml::family::{self, FamilyInput};
use crate::dml::insert;
use crate::dml::returning::{FromColumns, Returning, with_subqueries};
use crate::dml::shape::ShapeTypes;
use crate::dml::statics;
use crate::dml::target::{Beside, found_rows};
use crate::expression::{compile_typed, literal_parts};
use crate::parameter::{as_parameter, assigned_parameters, parameters_in};
use crate::prepared::{Prepared, PreparedPlan};
use crate::row::TableHandle;
use crate::{advice, explain, given, hbase, merge, names, point, query, row_locks, set, show, transaction_control};

/// What is known of a statement so far.
struct Preparation {
    types: Vec<Option<ColumnType>>,
    schema: Option<SchemaRef>,
    plan: PreparedPlan,
}

/// Prepares a statement. `given` are the parameter types that the client says.
pub(crate) async fn prepare(
    context: &mut ClientContext,
    parsed: Arc<Parsed>,
    given: Vec<Option<ColumnType>>,
) -> Result<Prepared> {
    // Positions within the text that a command becomes tell nothing.
    let (parsed, is_command) = match &parsed.statement {
        Statement::Hbase(command) => (Arc::new(hbase::translated(context, &parsed, command)?), true),
        _ => (with_subqueries(context, &parsed)?.map_or(parsed, Arc::new), false),
    };
    let mut types = given.clone();
    types.resize(parsed.parameters.len().max(given.len()), None);
    let mut preparation = Preparation { types, schema: None, plan: PreparedPlan::None };
    let prepared = preparation.statement(context, &parsed).await;
    prepared.map_err(|error| if is_command { Error { position: None, ..error } } else { error })?;
    // A parameter whose type nothing determines is text, as PostgreSQL takes an unknown literal.
    let parameters = preparation.types.iter().map(|ty| ty.unwrap_or(ColumnType::Text)).collect();
    let catalog = context.catalog();
    let Preparation { schema, plan, .. } = preparation;
    let oid_arrays = match &parsed.statement {
        Statement::Query(query) => oid_array_parameters(&query.query),
        _ => Vec::new(),
    };
    let assigned = assigned_parameters(&parsed.statement);
    Ok(Prepared { parameters, oid_arrays, assigned, schema, parsed, is_command, plan, given, catalog })
}

impl Preparation {
    async fn statement(&mut self, context: &mut ClientContext, parsed: &Parsed) -> Result<()> {
        match &parsed.statement {
            Statement::Query(query) => self.query(context, &query.query).await,
            Statement::Insert(statement) => self.insert(context, statement).await,
            Statement::Update(statement) => self.update(context, statement).await,
            Statement::Delete(statement) => self.delete(context, statement).await,
            Statement::Merge(statement) => self.merge(context, statement).await,
            Statement::With(statement) => {
                let before = context.given.len();
                let done = Box::pin(self.with(context, statement)).await;
                context.given.truncate(before);
                done
            }
            Statement::Explain(statement) => {
                let inner =
                    Box::pin(prepare(context, Arc::new((*statement.statement).clone()), self.types.clone())).await?;
                self.types = inner.parameters.iter().copied().map(Some).collect();
                self.schema = Some(explain::schema(statement));
                self.plan = PreparedPlan::Explained(Arc::new(inner));
                Ok(())
            }
            Statement::CreateTableAs(statement) if !parsed.parameters.is_empty() => {
                let planned = query::plan(context, &statement.query.query, &self.types).await?;
                self.set_types(&planned.parameters);
                Ok(())
            }
            Statement::DeclareCursor(statement) => {
                let planned = query::plan(context, &statement.query.query, &self.types).await?;
                self.set_types(&planned.parameters);
                Ok(())
            }
            Statement::Fetch(statement) if !statement.is_move => {
                self.schema = context.cursors.get(&statement.cursor).map(|cursor| cursor.schema().clone());
                Ok(())
            }
            Statement::Show(statement) => {
                self.schema = Some(show::schema(context, statement)?);
                Ok(())
            }
            Statement::BeginBatch(batch) => {
                if let Some(index) = batch.timestamp.as_ref().and_then(as_parameter) {
                    self.set_type(index, ColumnType::BigInt);
                }
                Ok(())
            }
            Statement::ApplyBatch => {
                self.schema = transaction_control::batch_schema(context);
                Ok(())
            }
            Statement::Advise(_) => {
                self.schema = Some(advice::schema());
                Ok(())
            }
            Statement::Describe(_) => {
                self.schema = Some(show::describe_schema());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn query(&mut self, context: &mut ClientContext, query: &ast::Query) -> Result<()> {
        if context.given.is_empty()
            && let Some(select) = point::recognize(context, query, &self.types)
        {
            select.check_rights(context)?;
            for (index, ty) in select.parameter_types() {
                self.set_type(index, ty);
            }
            self.schema = Some(select.schema.clone());
            self.plan = PreparedPlan::Point(Arc::new(select));
            return Ok(());
        }
        let plain;
        let query = match query.locks.is_empty() {
            true => query,
            false => {
                plain = row_locks::without_locks(context, query)?;
                &plain
            }
        };
        let planned: PlannedQuery = query::plan(context, query, &self.types).await?;
        self.set_types(&planned.parameters);
        self.schema = Some(planned.schema.clone());
        self.plan = PreparedPlan::Query { planned, sets: set::calls_set_config(query) };
        Ok(())
    }

    async fn insert(&mut self, context: &mut ClientContext, statement: &Insert) -> Result<()> {
        let handle = handle(context, &statement.table)?;
        let named;
        let statement = match statement.places.is_empty() {
            true => statement,
            false => {
                named = insert::with_named_columns(&handle.table, statement)?;
                &named
            }
        };
        let handle = statics::inserted(&handle, statement);
        self.using(&statement.using);
        match &statement.source {
            InsertSource::Values(rows) => {
                let columns = insert_columns(&handle.table, statement);
                for (column, value) in rows.iter().flat_map(|row| statement.columns.iter().zip(row)) {
                    self.cells(&handle.table, column, value);
                }
                self.rows(context, rows, &columns)?;
            }
            InsertSource::Query(source) => {
                let columns = insert_columns(&handle.table, statement);
                self.select_items(&source.query, &columns);
                let planned = query::plan(context, &source.query, &self.types).await?;
                self.set_types(&planned.parameters);
            }
            InsertSource::Json { json, .. } => {
                if let Some(index) = as_parameter(json) {
                    self.set_type(index, ColumnType::Text);
                }
            }
            InsertSource::DefaultValues => {}
        }
        let alias = statement.alias.as_deref();
        if let Some(ConflictAction::Update { assignments, filter }) = statement.on_conflict.as_ref().map(|c| &c.action)
        {
            let qualifier = alias.unwrap_or(&handle.table.name);
            let input = [(qualifier, handle.schema.clone()), ("excluded", handle.schema.clone())];
            self.assignments(context, &handle, assignments, &input)?;
            let filter = filter.as_ref().map(|filter| conflict::rows_as_columns(filter, qualifier, &handle));
            self.expression(context, filter.as_ref(), &input)?;
        }
        let conditional = statement.if_not_exists;
        if !self.is_condition(&handle, conditional) {
            let list = FromColumns::of_insert(&handle, alias, statement.returning.as_deref());
            let returning = Returning::new(context, &handle, alias, &list, &self.types)?;
            self.returns(returning);
        }
        Ok(())
    }

    async fn update(&mut self, context: &mut ClientContext, statement: &Update) -> Result<()> {
        let handle = statics::updated(&handle(context, &statement.table)?, statement)?;
        self.using(&statement.using);
        let alias = statement.alias.as_deref();
        let input = [(alias.unwrap_or(&handle.table.name), FamilyInput::readable(&handle))];
        let list = statement.returning.as_deref();
        let from = FromColumns::of(context, &handle, alias, &statement.from, list, &self.types).await?;
        let values: Vec<_> = assign::by_query(statement).into_iter().chain(from.expressions()).collect();
        let beside = Beside { from: &statement.from, values: &values };
        self.beside(context, &handle, alias, statement.filter.as_ref(), beside).await?;
        let queried = |expression: &ast::Expr| assign::needs_query(expression, &statement.from);
        let own = |assignment: &&Assignment| !assignment.value.expressions().into_iter().any(queried);
        let own: Vec<Assignment> = statement.assignments.iter().filter(own).cloned().collect();
        self.assignments(context, &handle, &own, &input)?;
        if statement.from.is_empty() {
            self.filter(context, &handle, alias, statement.filter.as_ref())?;
        }
        self.condition(context, &handle, statement.condition.as_ref())?;
        if !self.is_condition(&handle, statement.condition.is_some()) {
            let returning = Returning::new(context, &handle, alias, &from, &self.types)?;
            self.returns(returning);
        }
        Ok(())
    }

    async fn delete(&mut self, context: &mut ClientContext, statement: &Delete) -> Result<()> {
        let handle = handle(context, &statement.table)?;
        if let Some(family) = &statement.family {
            self.using(&statement.using);
            let cells = cells::handle(&handle.table, family)?;
            return self.filter(context, &cells, statement.alias.as_deref(), statement.filter.as_ref());
        }
        let handle = statics::deleted(&handle, statement)?;
        self.using(&statement.using);
        let alias = statement.alias.as_deref();
        let list = statement.returning.as_deref();
        let from = FromColumns::of(context, &handle, alias, &statement.from, list, &self.types).await?;
        let values: Vec<_> = from.expressions().collect();
        let beside = Beside { from: &statement.from, values: &values };
        self.beside(context, &handle, alias, statement.filter.as_ref(), beside).await?;
        statement.columns.iter().for_each(|column| self.cells(&handle.table, column, &InsertValue::Default));
        if statement.from.is_empty() {
            self.filter(context, &handle, alias, statement.filter.as_ref())?;
        }
        self.condition(context, &handle, statement.condition.as_ref())?;
        if !self.is_condition(&handle, statement.condition.is_some()) {
            let returning = Returning::new(context, &handle, alias, &from, &self.types)?;
            self.returns(returning);
        }
        Ok(())
    }

    /// Each statement with empty rows for the names of those before it.
    async fn with(&mut self, context: &mut ClientContext, statement: &With) -> Result<()> {
        for part in &statement.parts {
            if let Some(schema) = self.inner(context, &part.body).await? {
                let rows = given::named_rows(part, &schema, Vec::new())?;
                context.given.push(rows);
            }
        }
        self.schema = self.inner(context, &statement.statement).await?;
        Ok(())
    }

    /// The columns of a statement within another, whose parameters are the same.
    async fn inner(&mut self, context: &mut ClientContext, parsed: &Parsed) -> Result<Option<SchemaRef>> {
        let mut inner = Preparation { types: self.types.clone(), schema: None, plan: PreparedPlan::None };
        let with = with_subqueries(context, parsed)?;
        Box::pin(inner.statement(context, with.as_ref().unwrap_or(parsed))).await?;
        self.types = inner.types;
        Ok(inner.schema)
    }

    /// MERGE, as the statements that its clauses are.
    async fn merge(&mut self, context: &mut ClientContext, statement: &Merge) -> Result<()> {
        let table = names::table(&context.catalog(), &context.settings.search_path(), &statement.table)?;
        for clause in merge::clauses(statement, &table)? {
            match &clause {
                merge::Clause::Update(update) => Box::pin(self.update(context, update)).await?,
                merge::Clause::Delete(delete) => Box::pin(self.delete(context, delete)).await?,
                merge::Clause::Insert(insert) => Box::pin(self.insert(context, insert)).await?,
                merge::Clause::Nothing => {}
            }
        }
        Ok(())
    }

    /// Parameters of a statement that reads other tables, too, or has subqueries in its condition or among its values.
    async fn beside(
        &mut self,
        context: &mut ClientContext,
        handle: &TableHandle,
        alias: Option<&str>,
        filter: Option<&ast::Expr>,
        beside: Beside<'_>,
    ) -> Result<()> {
        let asks = |filter: &ast::Expr| has_subquery(filter) && !parameters_in(filter).is_empty();
        if beside.from.is_empty() && beside.values.is_empty() && !filter.is_some_and(asks) {
            return Ok(());
        }
        let found = found_rows(handle, alias, filter, beside)?;
        let snapshot = context.snapshot()?;
        let query_context = found.context(context, snapshot, &self.types);
        let planned = query::plan_on(context, &found.query, query_context).await?;
        // Of parameters that stand elsewhere, as in SET, the plan says nothing.
        for index in parameters_in(&found.query) {
            if let Some(ty) = planned.parameters.get(index) {
                self.set_type(index, *ty);
            }
        }
        Ok(())
    }

    /// A type for a parameter that has none yet.
    fn set_type(&mut self, index: usize, ty: ColumnType) {
        if let Some(slot @ None) = self.types.get_mut(index) {
            *slot = Some(ty);
        }
    }

    fn set_types(&mut self, types: &[ColumnType]) {
        for (index, ty) in types.iter().enumerate() {
            self.set_type(index, *ty);
        }
    }

    fn using(&mut self, using: &Using) {
        for expression in [&using.ttl, &using.timestamp].into_iter().flatten() {
            if let Some(index) = as_parameter(expression) {
                self.set_type(index, ColumnType::BigInt);
            }
        }
    }

    /// Parameters in the rows of VALUES.
    fn rows(&mut self, context: &mut ClientContext, rows: &[Vec<InsertValue>], columns: &[ColumnType]) -> Result<()> {
        let mut shapes = ShapeTypes::default();
        for (value, ty) in rows.iter().flat_map(|row| row.iter().zip(columns)) {
            let literal = value.as_expression().filter(|_| !ty.is_scalar());
            if let Some(literal) = &literal {
                self.literal(literal, *ty);
            }
            let InsertValue::Expression(expression) = value else { continue };
            match as_parameter(expression) {
                Some(index) => self.set_type(index, *ty),
                None => {
                    for (index, ty) in shapes.infer(context, expression, &self.types)? {
                        self.set_type(index, ty);
                    }
                }
            }
        }
        Ok(())
    }

    /// Parameters in a literal of a collection, tuple or user type have the types of its parts.
    fn literal(&mut self, expression: &ast::Expr, ty: ColumnType) {
        for (part, ty) in literal_parts(expression, ty).unwrap_or_default() {
            match as_parameter(part) {
                Some(index) => self.set_type(index, ty),
                None => self.literal(part, ty),
            }
        }
    }

    fn value(
        &mut self,
        context: &mut ClientContext,
        value: &InsertValue,
        ty: ColumnType,
        input: &[(&str, SchemaRef)],
    ) -> Result<()> {
        if let Some(literal) = value.as_expression().filter(|_| !ty.is_scalar()) {
            self.literal(&literal, ty);
        }
        let (InsertValue::Expression(expression) | InsertValue::OfRow { query: expression, .. }) = value else {
            return Ok(());
        };
        match as_parameter(expression) {
            Some(index) => self.set_type(index, ty),
            None => self.expression(context, Some(expression), input)?,
        }
        Ok(())
    }

    /// Parameters in a family's qualifiers and in maps.
    fn cells(&mut self, table: &TableDef, target: &ColumnName, value: &InsertValue) {
        let Some(family) = family::family_of(table, target) else { return };
        let mut set = |expression: &ast::Expr, ty| match as_parameter(expression) {
            Some(index) => self.set_type(index, ty),
            None => self.literal(expression, ty),
        };
        let (key, of_value) = (family.qualifier_type(), family.value.ty);
        target.qualifier.iter().for_each(|qualifier| set(qualifier, family::qualifier_type(family)));
        let value = match value {
            InsertValue::Changed { value, .. } => value,
            value => value,
        };
        match value {
            InsertValue::Map(entries) => {
                for (qualifier, value) in entries {
                    set(qualifier, key);
                    set(value, of_value);
                }
            }
            InsertValue::Set(elements) => elements.iter().for_each(|element| set(element, key)),
            InsertValue::List(elements) => elements.iter().for_each(|element| set(element, of_value)),
            InsertValue::Expression(expression) => {
                if let Some((change, operand)) = family::changed(family, expression) {
                    let keys = change == Change::Remove && family.array_type().is_none();
                    let ty = if keys { key.into_list().ok() } else { Some(family.whole_type()) };
                    ty.into_iter().for_each(|ty| set(operand, ty));
                }
            }
            InsertValue::Default | InsertValue::Changed { .. } | InsertValue::OfRow { .. } => {}
        }
    }

    fn assignments(
        &mut self,
        context: &mut ClientContext,
        handle: &TableHandle,
        list: &[Assignment],
        input: &[(&str, SchemaRef)],
    ) -> Result<()> {
        for assignment in list {
            self.cells(&handle.table, &assignment.column, &assignment.value);
            let Some(ty) = family::written_type(&handle.table, &assignment.column) else {
                let column = handle.table.expect_column(&assignment.column.name);
                return column.map(drop).map_err(|error| error.at(assignment.column.position));
            };
            self.value(context, &assignment.value, ty, input)?;
        }
        Ok(())
    }

    /// Parameters inside an expression, by compiling it.
    fn expression(
        &mut self,
        context: &mut ClientContext,
        expression: Option<&ast::Expr>,
        input: &[(&str, SchemaRef)],
    ) -> Result<()> {
        let Some(expression) = expression else { return Ok(()) };
        let inside = parameters_in(expression);
        if inside.iter().all(|index| self.types.get(*index).is_some_and(Option::is_some)) {
            return Ok(());
        }
        let compiled = compile_typed(context, &[expression], input, &self.types)?;
        for index in inside {
            if let Some(ty) = compiled.parameters().get(index) {
                self.set_type(index, *ty);
            }
        }
        Ok(())
    }

    fn filter(
        &mut self,
        context: &mut ClientContext,
        handle: &TableHandle,
        alias: Option<&str>,
        filter: Option<&ast::Expr>,
    ) -> Result<()> {
        let Some(filter) = filter else { return Ok(()) };
        if parameters_in(filter).is_empty() {
            return Ok(());
        }
        let types = match key_of(filter, &handle.table, context.settings.time_zone(), &self.types, &mut no_constants) {
            KeyMatch::WholeKey(key) => point::key_parameters(&key),
            KeyMatch::WholeKeys(ranges) | KeyMatch::SpansOnly(ranges) => ranges.parameters(),
            KeyMatch::TooMany | KeyMatch::Other => {
                // A subquery needs the planner; it is left to the types that the client gives.
                let input = [(alias.unwrap_or(&handle.table.name), FamilyInput::readable(handle))];
                return match self.expression(context, Some(filter), &input) {
                    Err(error) if error.kind == keyspan_model::ErrorKind::NotSupported => Ok(()),
                    other => other,
                };
            }
        };
        for (index, ty) in types {
            self.set_type(index, ty);
        }
        Ok(())
    }

    fn condition(
        &mut self,
        context: &mut ClientContext,
        handle: &TableHandle,
        condition: Option<&Condition>,
    ) -> Result<()> {
        match condition {
            Some(Condition::If(expression)) => {
                let input = [(handle.table.name.as_str(), FamilyInput::readable(handle))];
                let expression = condition::with_null_as_value(&handle.table, expression);
                self.expression(context, Some(&expression), &input)
            }
            _ => Ok(()),
        }
    }

    /// A parameter in the SELECT list of an INSERT has its column's type.
    fn select_items(&mut self, query: &ast::Query, columns: &[ColumnType]) {
        match &*query.body {
            ast::SetExpr::Select(select) => {
                for (item, ty) in select.projection.iter().zip(columns) {
                    if let ast::SelectItem::UnnamedExpr(expression) = item
                        && let Some(index) = as_parameter(expression)
                    {
                        self.set_type(index, *ty);
                    }
                }
            }
            ast::SetExpr::Values(values) => {
                for (expression, ty) in values.rows.iter().flat_map(|row| row.content.iter().zip(columns)) {
                    if let Some(index) = as_parameter(expression) {
                        self.set_type(index, *ty);
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a statement has a condition; then the columns are those of its answer.
    fn is_condition(&mut self, handle: &TableHandle, conditional: bool) -> bool {
        if conditional {
            self.schema = Some(condition::schema(&handle.table));
        }
        conditional
    }

    /// The columns of RETURNING.
    fn returns(&mut self, returning: Option<Returning>) {
        if let Some(returning) = returning {
            self.set_types(returning.parameters());
            self.schema = Some(returning.schema().clone());
        }
    }
}

fn handle(context: &mut ClientContext, name: &keyspan_cql::ObjectName) -> Result<TableHandle> {
    let table = names::table(&context.catalog(), &context.settings.search_path(), name)?;
    Ok(context.handle(table))
}

fn insert_columns(table: &TableDef, statement: &Insert) -> Vec<ColumnType> {
    if statement.columns.is_empty() {
        let types = table.members().into_iter().filter_map(|member| match member {
            Member::Column(column) => (!column.hidden).then_some(column.ty),
            Member::Family(_, family) => Some(family.whole_type()),
        });
        return types.collect();
    }
    // A wrong name is an error when the statement runs; here its values are texts.
    let ty = |column| family::written_type(table, column).unwrap_or(ColumnType::Text);
    statement.columns.iter().map(ty).collect()
}
