//! The outer values of a subquery, and how they are pushed through its plan.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema, NullEquality, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, DistinctOn, Expr, ExprFunctionExt, ExprSchemable, FetchType, Filter, Join,
    JoinType, Limit, LogicalPlan, LogicalPlanBuilder, Operator, SkipType, SortExpr, Union, Window,
    WindowFunctionDefinition, binary_expr, cast, lit,
};
use keyspan_model::ColumnType;

use super::nested::with_other_references;
use super::outer::{nested_outer_columns, outer_columns};
use super::{Names, null_equality};
use crate::functions::{ROW_COUNT, ROW_OFFSET, value_call};
use crate::table::KeyspanTable;

/// The outer values that a subquery depends on: their columns in the outer plan, and what they are called in the subquery.
pub struct Domain<'a> {
    names: &'a Names,
    outer: Vec<Column>,
    plan: LogicalPlan,
    /// The relation of the values.
    name: String,
}

/// A plan for each of the outer values: their columns, then its own.
pub struct Pushed {
    pub plan: LogicalPlan,
    /// Whether there is at most one row for each.
    pub one_row: bool,
    /// The column with the place of each row in the order asked for.
    rank: Option<Expr>,
}

impl Pushed {
    fn rows(plan: LogicalPlan) -> Pushed {
        Pushed { plan, one_row: false, rank: None }
    }
}

/// The column of ranks. No column of a query is called so.
const RANK: &str = "__rank";

/// How the columns of outer values are called. No column of a query is.
const VALUE: &str = "__value_";

/// The column of an outer value in a relation. No two relations have one of the same name: within a subquery of a subquery
/// there are values of both.
fn value(relation: &str, place: usize) -> String {
    format!("{VALUE}{relation}_{place}")
}

/// Whether a column is that of an outer value. It is found again by its bytes, so that a `jsonb` keeps its own form.
pub fn is_value(column: &Column) -> bool {
    column.name.starts_with(VALUE)
}

impl<'a> Domain<'a> {
    /// The values of `input` that `plan` uses; `None` if it uses others, too.
    pub fn of(input: &LogicalPlan, plan: &LogicalPlan, names: &'a Names) -> Result<Option<Domain<'a>>> {
        let outer: Vec<Column> = outer_columns(plan)?.into_iter().map(|(_, column)| column).collect();
        if outer.is_empty() || !outer.iter().all(|column| input.schema().has_column(column)) {
            return Ok(None);
        }
        let name = names.next();
        let each = outer.iter().enumerate().map(|(at, column)| Expr::Column(column.clone()).alias(value(&name, at)));
        let plan = LogicalPlanBuilder::from(input.clone()).project(each)?.distinct()?.alias(name.as_str())?.build()?;
        Ok(Some(Domain { names, outer, plan, name }))
    }

    /// The columns of the values.
    pub fn columns(&self) -> impl Iterator<Item = Expr> + use<> {
        let name = self.name.clone();
        (0..self.outer.len()).map(move |at| Expr::Column(Column::new(Some(name.clone()), value(&name, at))))
    }

    /// What subqueries that have the values beside them refer to, by the outer columns.
    fn references(&self) -> Vec<(Column, Expr)> {
        let columns = self.plan.schema().iter().map(|(relation, field)| {
            let column = Column::new(relation.cloned(), field.name());
            Expr::OuterReferenceColumn(Arc::clone(field), column)
        });
        self.outer.iter().cloned().zip(columns).collect()
    }

    /// The outer plan with what was made for its values.
    pub fn joined_to(
        &self,
        input: &LogicalPlan,
        pushed: LogicalPlan,
        kind: JoinType,
        filter: Option<Expr>,
    ) -> Result<LogicalPlan> {
        let outer: Vec<Expr> = self.outer.iter().cloned().map(Expr::Column).collect();
        let nulls = null_equality(&outer, input)?;
        let keys = (self.outer.clone(), self.keys(&self.name));
        LogicalPlanBuilder::from(input.clone()).join_detailed(pushed, kind, keys, filter, nulls)?.build()
    }

    fn keys(&self, name: &str) -> Vec<Column> {
        (0..self.outer.len()).map(|at| Column::new(Some(name), value(name, at))).collect()
    }

    fn nulls(&self) -> Result<NullEquality> {
        null_equality(&self.columns().collect::<Vec<_>>(), &self.plan)
    }

    /// The plan for each of the values; `None` where a node does not let them through.
    pub fn push(&self, plan: &LogicalPlan) -> Result<Option<Pushed>> {
        if outer_columns(plan)?.is_empty() {
            let both = LogicalPlanBuilder::from(self.plan.clone()).cross_join(plan.clone())?.build()?;
            return Ok(Some(Pushed::rows(both)));
        }
        let nested;
        let plan = match nested_outer_columns(plan)?.is_empty() {
            true => plan,
            false => {
                nested = with_other_references(plan.clone(), &self.references())?;
                &nested
            }
        };
        match plan {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => {
                Ok(Some(Pushed { one_row: true, ..Pushed::rows(self.plan.clone()) }))
            }
            LogicalPlan::Subquery(subquery) => self.push(&subquery.subquery),
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(input) = self.push(&alias.input)? else { return Ok(None) };
                let named = alias.input.schema().columns().into_iter().map(|column| {
                    let name = column.name.clone();
                    Expr::Column(column).alias_qualified(Some(alias.alias.clone()), name)
                });
                self.project(input, named.collect()).map(Some)
            }
            LogicalPlan::Projection(projection) => {
                let Some(input) = self.push(&projection.input)? else { return Ok(None) };
                let exprs = projection.expr.iter().map(|expr| self.named(expr)).collect::<Result<_>>()?;
                self.project(input, exprs).map(Some)
            }
            LogicalPlan::Filter(filter) => {
                if let Some(keyed) = self.keyed(filter)? {
                    return Ok(Some(keyed));
                }
                let Some(input) = self.push(&filter.input)? else { return Ok(None) };
                let predicate = self.inner(&filter.predicate)?;
                let plan = LogicalPlanBuilder::from(input.plan).filter(predicate)?.build()?;
                Ok(Some(Pushed { plan, ..input }))
            }
            LogicalPlan::Sort(sort) => {
                let Some(input) = self.push(&sort.input)? else { return Ok(None) };
                let order = self.order(&sort.expr)?;
                let ranked = self.ranked(input, order)?;
                match sort.fetch {
                    Some(fetch) => self.limited(ranked, 0, Some(fetch)).map(Some),
                    None => Ok(Some(ranked)),
                }
            }
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Some(pushed) = self.push(input)? else { return Ok(None) };
                let own = input.schema().columns().into_iter().map(Expr::Column);
                let plan = LogicalPlanBuilder::from(pushed.plan).project(self.columns().chain(own))?.distinct()?;
                Ok(Some(Pushed::rows(plan.build()?)))
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) => self.distinct_on(distinct),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Unnest(unnest) => {
                let Some(input) = self.push(&unnest.input)? else { return Ok(None) };
                let lists = unnest.exec_columns.clone();
                let plan = LogicalPlanBuilder::from(input.plan);
                let plan = plan.unnest_columns_with_options(lists, unnest.options.clone())?.build()?;
                Ok(Some(Pushed::rows(plan)))
            }
            _ => Ok(None),
        }
    }

    /// The plan for each value that a table has, where a filter compares the first columns of its row key with all of the
    /// outer values: those that nobody asks for are left out when the join's keys are known ([`crate::join_keys`]), or not
    /// read at all.
    fn keyed(&self, filter: &Filter) -> Result<Option<Pushed>> {
        let schema = filter.input.schema();
        if !outer_columns(&filter.input)?.is_empty() {
            return Ok(None);
        }
        let mut columns: Vec<Option<Column>> = vec![None; self.outer.len()];
        let mut rest = Vec::new();
        for part in split_conjunction(&filter.predicate) {
            let equal = equal_to_outer(part).and_then(|(outer, own)| {
                let place = self.outer.iter().position(|each| *each == outer.1)?;
                let same = schema.field_from_column(own).is_ok_and(|field| field.data_type() == outer.0);
                (same && columns[place].is_none()).then_some((place, own))
            });
            match equal {
                Some((place, own)) => columns[place] = Some(own.clone()),
                None => rest.push(part.clone()),
            }
        }
        let Some(columns) = columns.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        if !begins_row_key(&filter.input, &columns) {
            return Ok(None);
        }
        let mut plan = LogicalPlanBuilder::from(filter.input.clone());
        if let Some(rest) = conjunction(rest) {
            let own = self.replaced(&rest, |place| Expr::Column(columns[place].clone()))?;
            plan = plan.filter(own)?;
        }
        let values = columns.iter().zip(self.keys(&self.name));
        let values = values.map(|(own, name)| Expr::Column(own.clone()).alias_qualified(name.relation, name.name));
        let plan = plan.project(values.chain(schema.columns().into_iter().map(Expr::Column)))?;
        Ok(Some(Pushed::rows(plan.build()?)))
    }

    /// The values, these columns, and the rank if there is one.
    fn project(&self, input: Pushed, exprs: Vec<Expr>) -> Result<Pushed> {
        let all = self.columns().chain(exprs).chain(input.rank.clone());
        let plan = LogicalPlanBuilder::from(input.plan).project(all)?.build()?;
        Ok(Pushed { plan, ..input })
    }

    fn order(&self, order: &[SortExpr]) -> Result<Vec<SortExpr>> {
        let each = order.iter().map(|sort| Ok(SortExpr { expr: self.inner(&sort.expr)?, ..sort.clone() }));
        each.collect()
    }

    /// The rows with their places among those of one outer value.
    fn ranked(&self, input: Pushed, order: Vec<SortExpr>) -> Result<Pushed> {
        let definition = WindowFunctionDefinition::WindowUDF(row_number_udwf());
        let number = Expr::from(WindowFunction::new(definition, Vec::new()));
        let number = number.partition_by(self.columns().collect());
        let number = if order.is_empty() { number.build()? } else { number.order_by(order).build()? };
        let rank = Column::new(Some(self.names.next()), RANK);
        let before: Vec<Expr> = input.plan.schema().columns().into_iter().map(Expr::Column).collect();
        let kept = before.into_iter().filter(|column| Some(column) != input.rank.as_ref());
        let kept: Vec<Expr> = kept.collect();
        let windowed = Window::try_new(vec![number], Arc::new(input.plan))?;
        let last = windowed.schema.columns().pop().map(Expr::Column).unwrap_or_else(|| lit(ScalarValue::Null));
        let numbered = last.alias_qualified(rank.relation.clone(), RANK);
        let plan =
            LogicalPlanBuilder::from(LogicalPlan::Window(windowed)).project(kept.into_iter().chain([numbered]))?;
        Ok(Pushed { plan: plan.build()?, rank: Some(Expr::Column(rank)), ..input })
    }

    /// The rows of each input for each of the values.
    fn union(&self, union: &Union) -> Result<Option<Pushed>> {
        let mut plans = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            let Some(pushed) = self.push(input)? else { return Ok(None) };
            let own = input.schema().columns().into_iter().map(Expr::Column);
            plans.push(LogicalPlanBuilder::from(pushed.plan).project(self.columns().chain(own))?.build()?);
        }
        let names = self.keys(&self.name).into_iter().chain(union.schema.columns());
        Ok(Some(Pushed::rows(union_all(plans, names)?)))
    }

    fn limit(&self, limit: &Limit) -> Result<Option<Pushed>> {
        let Some(input) = self.push(&limit.input)? else { return Ok(None) };
        let ranked = if input.rank.is_some() { input } else { self.ranked(input, Vec::new())? };
        match (limit.get_skip_type()?, limit.get_fetch_type()?) {
            (SkipType::Literal(skip), FetchType::Literal(fetch)) => self.limited(ranked, skip, fetch).map(Some),
            _ => self.limited_when_run(ranked, limit).map(Some),
        }
    }

    fn limited(&self, input: Pushed, skip: usize, fetch: Option<usize>) -> Result<Pushed> {
        let Some(rank) = input.rank.clone() else { return Ok(input) };
        let place = |at: usize| lit(i64::try_from(at).unwrap_or(i64::MAX) as u64);
        let mut plan = LogicalPlanBuilder::from(input.plan);
        if skip > 0 {
            plan = plan.filter(rank.clone().gt(place(skip)))?;
        }
        if let Some(fetch) = fetch {
            plan = plan.filter(rank.lt_eq(place(skip.saturating_add(fetch))))?;
        }
        Ok(Pushed { plan: plan.build()?, one_row: input.one_row || fetch == Some(1), ..input })
    }

    /// The same where a number is known only when the statement runs.
    fn limited_when_run(&self, input: Pushed, limit: &Limit) -> Result<Pushed> {
        let Some(rank) = input.rank.clone() else { return Ok(input) };
        let given = |function, rows: &Option<Box<Expr>>| {
            let rows = rows.as_deref().cloned().unwrap_or_else(|| lit(ScalarValue::Int64(None)));
            value_call(function, vec![rows], &[ColumnType::BigInt])
        };
        let mut place = cast(rank, DataType::Int64);
        let mut plan = LogicalPlanBuilder::from(input.plan);
        if !matches!(limit.get_skip_type()?, SkipType::Literal(0)) {
            place = place - coalesce(vec![given(ROW_OFFSET, &limit.skip)?, lit(0_i64)]);
            plan = plan.filter(place.clone().gt(lit(0_i64)))?;
        }
        let fetch = limit.get_fetch_type()?;
        if !matches!(fetch, FetchType::Literal(None)) {
            let most = given(ROW_COUNT, &limit.fetch)?;
            plan = plan.filter(most.clone().is_null().or(place.lt_eq(most)))?;
        }
        let one_row = input.one_row || matches!(fetch, FetchType::Literal(Some(1)));
        Ok(Pushed { plan: plan.build()?, one_row, ..input })
    }

    fn aggregate(&self, aggregate: &Aggregate) -> Result<Option<Pushed>> {
        let sets = aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
        let Some(input) = (if sets { None } else { self.push(&aggregate.input)? }) else { return Ok(None) };
        let named = |exprs: &[Expr]| exprs.iter().map(|expr| self.named(expr)).collect::<Result<Vec<_>>>();
        let groups = self.columns().chain(named(&aggregate.group_expr)?);
        let grouped = Aggregate::try_new(Arc::new(input.plan), groups.collect(), named(&aggregate.aggr_expr)?)?;
        let grouped = LogicalPlan::Aggregate(grouped);
        if !aggregate.group_expr.is_empty() {
            return Ok(Some(Pushed::rows(grouped)));
        }
        // Of no rows there is one, too.
        let own = aggregate.schema.columns();
        let found = self.names.next();
        let renamed = self.renamed(&found).chain(own.iter().cloned().map(Expr::Column));
        let renamed = LogicalPlanBuilder::from(grouped).project(renamed)?.build()?;
        let keys = (self.keys(&self.name), self.keys(&found));
        let joined = LogicalPlanBuilder::from(self.plan.clone());
        let joined = joined.join_detailed(renamed, JoinType::Left, keys, None, self.nulls()?)?.build()?;
        let values = own.into_iter().zip(&aggregate.aggr_expr).map(|(column, expr)| {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            let value = Expr::Column(column);
            let value = match of_no_rows(expr, &aggregate.input)? {
                Some(default) => coalesce(vec![value, lit(default)]),
                None => value,
            };
            Ok(value.alias_qualified(relation, name))
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let plan = LogicalPlanBuilder::from(joined).project(self.columns().chain(values))?.build()?;
        Ok(Some(Pushed { plan, one_row: true, rank: None }))
    }

    /// The columns of the values as those of another relation.
    fn renamed(&self, name: &str) -> impl Iterator<Item = Expr> + use<> {
        let name = name.to_owned();
        self.columns().enumerate().map(move |(at, column)| column.alias_qualified(Some(name.clone()), value(&name, at)))
    }

    fn distinct_on(&self, distinct: &DistinctOn) -> Result<Option<Pushed>> {
        let Some(input) = self.push(&distinct.input)? else { return Ok(None) };
        let inner = |exprs: &[Expr]| exprs.iter().map(|expr| self.inner(expr)).collect::<Result<Vec<_>>>();
        let named = distinct.select_expr.iter().map(|expr| self.named(expr)).collect::<Result<Vec<_>>>()?;
        let order = distinct.sort_expr.as_deref().map(|order| self.order(order)).transpose()?;
        let first = self.columns().map(|column| SortExpr::new(column, true, false));
        let order = order.map(|order| first.chain(order).collect());
        let on = self.columns().chain(inner(&distinct.on_expr)?).collect();
        let select = self.columns().chain(named).collect();
        let plan = LogicalPlanBuilder::from(input.plan).distinct_on(on, select, order)?.build()?;
        Ok(Some(Pushed::rows(plan)))
    }

    fn window(&self, window: &Window) -> Result<Option<Pushed>> {
        let Some(input) = self.push(&window.input)? else { return Ok(None) };
        let own = window.input.schema().fields().len();
        let before: Vec<Expr> = input.plan.schema().columns().into_iter().map(Expr::Column).collect();
        let mut exprs = Vec::with_capacity(window.window_expr.len());
        for expr in &window.window_expr {
            let parted = self.inner(expr)?.transform(|part| match part {
                Expr::WindowFunction(mut function) => {
                    function.params.partition_by.splice(0..0, self.columns());
                    Ok(Transformed::yes(Expr::WindowFunction(function)))
                }
                other => Ok(Transformed::no(other)),
            })?;
            exprs.push(parted.data);
        }
        let names = window.schema.columns().into_iter().skip(own);
        let windowed = Window::try_new(exprs, Arc::new(input.plan))?;
        let made = windowed.schema.columns().into_iter().skip(before.len()).map(Expr::Column);
        let named = made.zip(names).map(|(column, old)| column.alias_qualified(old.relation, old.name));
        let all = before.into_iter().chain(named);
        let plan = LogicalPlanBuilder::from(LogicalPlan::Window(windowed)).project(all)?.build()?;
        Ok(Some(Pushed { plan, ..input }))
    }

    fn join(&self, join: &Join) -> Result<Option<Pushed>> {
        use JoinType as J;
        let (left, right) = (!outer_columns(&join.left)?.is_empty(), !outer_columns(&join.right)?.is_empty());
        let full = join.join_type == J::Full;
        let kept_left = full || matches!(join.join_type, J::Inner | J::Left | J::LeftSemi | J::LeftAnti | J::LeftMark);
        let kept_right = full || join.join_type == J::Right;
        let lateral = matches!(*join.right, LogicalPlan::Subquery(_));
        if lateral || join.null_aware || !(kept_left || kept_right) {
            return Ok(None);
        }
        // The side whose rows are kept has the values; the other one only if it depends on them.
        let side = |plan: &Arc<LogicalPlan>, depends: bool, kept: bool| match depends || kept {
            true => Ok(self.push(plan)?.map(|pushed| (pushed.plan, true))),
            false => Ok::<_, datafusion::error::DataFusionError>(Some((LogicalPlan::clone(plan), false))),
        };
        let Some((mut left_plan, left_has)) = side(&join.left, left, kept_left)? else { return Ok(None) };
        let Some((mut right_plan, right_has)) = side(&join.right, right, kept_right)? else { return Ok(None) };
        let mut conditions = Vec::new();
        for (one, other) in &join.on {
            let (one, other) = (self.inner(one)?, self.inner(other)?);
            conditions.push(match join.null_equality {
                NullEquality::NullEqualsNothing => one.eq(other),
                NullEquality::NullEqualsNull => binary_expr(one, Operator::IsNotDistinctFrom, other),
            });
        }
        if let Some(filter) = &join.filter {
            conditions.push(self.inner(filter)?);
        }
        let filter = conditions.into_iter().reduce(Expr::and);
        let other_name = self.names.next();
        let mut keys = (Vec::<Column>::new(), Vec::<Column>::new());
        if left_has && right_has {
            // Both have them: those of the side that is not kept get another name.
            let (other, plan) = if kept_left { (&join.right, &mut right_plan) } else { (&join.left, &mut left_plan) };
            let own = other.schema().columns().into_iter().map(Expr::Column);
            let renamed = self.renamed(&other_name).chain(own);
            *plan = LogicalPlanBuilder::from(plan.clone()).project(renamed)?.build()?;
            keys = match kept_left {
                true => (self.keys(&self.name), self.keys(&other_name)),
                false => (self.keys(&other_name), self.keys(&self.name)),
            };
        }
        let joined = LogicalPlanBuilder::from(left_plan);
        let nulls = if keys.0.is_empty() { NullEquality::NullEqualsNothing } else { self.nulls()? };
        let joined = joined.join_detailed(right_plan, join.join_type, keys, filter, nulls)?.build()?;
        let own = join.schema.columns().into_iter().map(Expr::Column);
        let values: Vec<Expr> = match full {
            false => self.columns().collect(),
            // Rows of one side alone have the values of that side.
            true => {
                let pairs = self.columns().zip(self.keys(&other_name)).enumerate();
                let either = |(at, (own, other)): (usize, (Expr, Column))| {
                    let either = coalesce(vec![own, Expr::Column(other)]);
                    either.alias_qualified(Some(self.name.clone()), value(&self.name, at))
                };
                pairs.map(either).collect()
            }
        };
        let plan = LogicalPlanBuilder::from(joined).project(values.into_iter().chain(own))?.build()?;
        Ok(Some(Pushed::rows(plan)))
    }

    /// An expression over the values instead of outer columns.
    fn inner(&self, expr: &Expr) -> Result<Expr> {
        self.replaced(expr, |at| Expr::Column(Column::new(Some(self.name.clone()), value(&self.name, at))))
    }

    /// An expression over others instead of outer columns.
    fn replaced(&self, expr: &Expr, by: impl Fn(usize) -> Expr) -> Result<Expr> {
        let replaced = expr.clone().transform_up(|part| {
            let place = match &part {
                Expr::OuterReferenceColumn(_, column) => self.outer.iter().position(|own| own == column),
                _ => None,
            };
            Ok(place.map_or(Transformed::no(part), |place| Transformed::yes(by(place))))
        });
        replaced.data()
    }

    /// As [`Domain::inner`], called as before.
    fn named(&self, expr: &Expr) -> Result<Expr> {
        let name = expr.qualified_name();
        let inner = self.inner(expr)?;
        Ok(if inner == *expr { inner } else { inner.unalias().alias_qualified(name.0, name.1) })
    }
}

/// The rows of all of the plans, of which there is one at least, under these names for their columns.
pub fn union_all(plans: Vec<LogicalPlan>, names: impl Iterator<Item = Column>) -> Result<LogicalPlan> {
    let mut plans = plans.into_iter().map(LogicalPlanBuilder::from);
    let first = plans.next().ok_or_else(|| DataFusionError::Internal("a union of nothing".into()))?;
    let all = plans.try_fold(first, |all, plan| all.union(plan.build()?))?.build()?;
    let columns = all.schema().columns();
    under_names(all, columns, names)
}

/// Columns of a plan under other names.
pub fn under_names(
    plan: LogicalPlan,
    columns: Vec<Column>,
    names: impl IntoIterator<Item = Column>,
) -> Result<LogicalPlan> {
    let named = columns.into_iter().zip(names);
    let named = named.map(|(column, name)| Expr::Column(column).alias_qualified(name.relation, name.name));
    LogicalPlanBuilder::from(plan).project(named.collect::<Vec<_>>())?.build()
}

/// The outer column, with its type, and the own one that a comparison says to be equal.
fn equal_to_outer(expr: &Expr) -> Option<((&DataType, Column), &Column)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = expr else { return None };
    match (left.as_ref(), right.as_ref()) {
        (Expr::OuterReferenceColumn(field, outer), Expr::Column(own))
        | (Expr::Column(own), Expr::OuterReferenceColumn(field, outer)) => {
            Some(((field.data_type(), outer.clone()), own))
        }
        _ => None,
    }
}

/// Whether these are the first columns of the row key of a table, in whatever order.
fn begins_row_key(plan: &LogicalPlan, columns: &[Column]) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => begins_row_key(&alias.input, columns),
        LogicalPlan::Filter(filter) => begins_row_key(&filter.input, columns),
        LogicalPlan::TableScan(scan) => {
            let Ok(provider) = source_as_provider(&scan.source) else { return false };
            let Some(table) = provider.downcast_ref::<KeyspanTable>() else { return false };
            let key = table.relation().key.iter().take(columns.len());
            key.len() == columns.len() && key.clone().all(|key| columns.iter().any(|column| column.name == key.name))
        }
        _ => false,
    }
}

/// What an aggregate is of no rows, if that is not NULL.
fn of_no_rows(expr: &Expr, input: &LogicalPlan) -> Result<Option<ScalarValue>> {
    let mut default = None;
    expr.apply(|part| {
        if let Expr::AggregateFunction(AggregateFunction { func, .. }) = part {
            default = Some(func.default_value(&part.get_type(input.schema())?)?);
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(default.filter(|value| !value.is_null()))
}
