//! Parts that stand in a statement several times under other conditions, computed once for all of them.
//!
//! ```text
//! WITH q AS (SELECT shop, year, sum(price) AS price FROM sold GROUP BY shop, year)
//! SELECT … FROM q JOIN q AS before USING (shop) WHERE q.year = 2025 AND before.year = 2024
//!
//! Filter: year = 2025 ─▶ Shared: 0 ─▶ Aggregate: shop, year ─▶ Filter: year = 2025 OR year = 2024
//! Filter: year = 2024 ─▶ Shared: 0
//! ```
//!
//! The statement is optimized with tables in their places. What its rules push into such a table are the conditions and
//! columns of that place; the part itself is optimized once, with the columns and rows that any place wants.
//!
//! Rule: a part groups rows by something, so that there are fewer of them. It stays in its places where one of them may
//! want few of its rows for other reasons than its own conditions: the keys of a table that it is joined with, a LIMIT.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DataFusionError, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, disjunction, split_conjunction};
use datafusion::logical_expr::{
    Distinct, Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableScan, TableSource,
};

use super::parts::{is_same, may_be_shared, next_number, reads_a_table_twice};
use super::{Shared, shared};
use crate::table::is_of_one_row;

/// The optimized plan, in which such parts are computed once. `optimize` optimizes a plan without any.
pub fn with_filtered_parts_once(
    plan: LogicalPlan,
    optimize: &impl Fn(LogicalPlan) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    if !reads_a_table_twice(&plan)? {
        return optimize(plan);
    }
    let mut next = next_number(&plan)?;
    optimized(plan, optimize, &mut next)
}

fn optimized(
    plan: LogicalPlan,
    optimize: &impl Fn(LogicalPlan) -> Result<LogicalPlan>,
    next: &mut u64,
) -> Result<LogicalPlan> {
    let parts = repeated_parts(&plan)?;
    if parts.is_empty() {
        return optimize(plan);
    }
    let rest = optimize(with_stand_ins(plan, &parts)?)?;
    let mut computed = Vec::new();
    for (number, part) in parts.into_iter().enumerate() {
        let places = Places::of(&rest, number)?;
        let rows = optimized(places.rows(part)?, optimize, next)?;
        computed.push(match places.count {
            1 => rows,
            _ => shared(Shared { input: rows, number: *next }),
        });
        *next += 1;
    }
    rest.transform_up_with_subqueries(|node| match stand_in(&node) {
        Some((scan, number)) => Ok(Transformed::yes(read(scan, &computed[number])?)),
        None => Ok(Transformed::no(node)),
    })
    .data()
}

/// The parts to compute once, none of them in another one.
fn repeated_parts(plan: &LogicalPlan) -> Result<Vec<LogicalPlan>> {
    let mut search = Search::default();
    plan.apply_with_subqueries(|node| {
        search.count(node)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    search.found.retain(|part| part.count > 1);
    if !search.found.is_empty() {
        search.look(plan, Above::default())?;
    }
    let wanted = search.found.into_iter().filter(|part| part.places > 1 && !part.narrowed);
    Ok(wanted.map(|part| part.plan).collect())
}

/// What groups rows, and how often.
#[derive(Default)]
struct Search {
    found: Vec<Part>,
}

struct Part {
    plan: LogicalPlan,
    /// How often it is in the statement.
    count: usize,
    /// In how many places it is in no other such part.
    places: usize,
    /// Whether one of them may want few of its rows.
    narrowed: bool,
}

/// What stands above a node.
#[derive(Clone, Copy, Default)]
struct Above {
    /// A join with rows of a table.
    join: bool,
    /// LIMIT, with nothing below it that needs all rows.
    limit: bool,
}

impl Search {
    fn count(&mut self, node: &LogicalPlan) -> Result<()> {
        if grouped_columns(node).is_none() || !may_be_shared(node)? {
            return Ok(());
        }
        match self.found.iter_mut().find(|part| is_same(&part.plan, node)) {
            Some(part) => part.count += 1,
            None => self.found.push(Part { plan: node.clone(), count: 1, places: 0, narrowed: false }),
        }
        Ok(())
    }

    fn repeated(&mut self, node: &LogicalPlan) -> Option<&mut Part> {
        grouped_columns(node)?;
        self.found.iter_mut().find(|part| is_same(&part.plan, node))
    }

    /// Notes the places of the repeated parts.
    fn look(&mut self, node: &LogicalPlan, above: Above) -> Result<()> {
        if let Some(part) = self.repeated(node) {
            part.places += 1;
            part.narrowed |= above.join || above.limit;
            return Ok(());
        }
        let mut below = above;
        match node {
            LogicalPlan::Limit(_) => below.limit = true,
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Filter(_) => {}
            LogicalPlan::Sort(sort) => below.limit |= sort.fetch.is_some(),
            // Each of its runs has other rows.
            LogicalPlan::RecursiveQuery(_) => below.join = true,
            _ => below.limit = false,
        }
        let inputs = node.inputs();
        let reads: Vec<bool> = inputs.iter().map(|input| self.reads_beside(input)).collect::<Result<_>>()?;
        let mut subqueries = Vec::new();
        node.apply_subqueries(|subquery| {
            subqueries.extend(match subquery {
                LogicalPlan::Subquery(subquery) => Some(subquery.clone()),
                _ => None,
            });
            Ok(TreeNodeRecursion::Continue)
        })?;
        for subquery in &subqueries {
            let reads_outside = reads.contains(&true) || !subquery.outer_ref_columns.is_empty();
            below.join |= self.reads_beside(&subquery.subquery)?;
            self.look(&subquery.subquery, Above { join: above.join || reads_outside, limit: false })?;
        }
        for (place, input) in inputs.into_iter().enumerate() {
            let joined = reads.iter().enumerate().any(|(other, reads)| other != place && *reads);
            let joined = joined && matches!(node, LogicalPlan::Join(_));
            self.look(input, Above { join: below.join || joined, ..below })?;
        }
        Ok(())
    }

    /// Whether a plan reads anything but repeated parts.
    fn reads_beside(&mut self, plan: &LogicalPlan) -> Result<bool> {
        let mut reads = false;
        plan.apply_with_subqueries(|node| {
            if self.repeated(node).is_some() {
                return Ok(TreeNodeRecursion::Jump);
            }
            reads |= node.inputs().is_empty() && !matches!(node, LogicalPlan::EmptyRelation(_));
            Ok(if reads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(reads)
    }
}

/// Which columns of a plan that groups rows it groups by, or computes from such columns; `None` for any other plan.
fn grouped_columns(plan: &LogicalPlan) -> Option<Vec<bool>> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            let groups = aggregate.group_expr.len();
            let sets = matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]);
            (groups > 0 && !sets).then(|| (0..aggregate.schema.fields().len()).map(|place| place < groups).collect())
        }
        // Which row DISTINCT ON keeps depends on more than what it groups by.
        LogicalPlan::Distinct(Distinct::All(input)) => Some(vec![true; input.schema().fields().len()]),
        LogicalPlan::SubqueryAlias(alias) => grouped_columns(&alias.input),
        LogicalPlan::Filter(filter) => grouped_columns(&filter.input),
        LogicalPlan::Projection(projection) => {
            let (below, schema) = (grouped_columns(&projection.input)?, projection.input.schema());
            let grouped = |column: &&Column| schema.maybe_index_of_column(column).is_some_and(|place| below[place]);
            Some(projection.expr.iter().map(|expr| expr.column_refs().iter().all(grouped)).collect())
        }
        LogicalPlan::Union(union) => {
            let inputs = union.inputs.iter().map(|input| grouped_columns(input)).collect::<Option<Vec<_>>>()?;
            let places = 0..union.schema.fields().len();
            Some(places.map(|place| inputs.iter().all(|input| input[place])).collect())
        }
        _ => None,
    }
}

/// A table in the place of a part: its columns have the part's names.
#[derive(Debug)]
struct StandIn {
    number: usize,
    schema: SchemaRef,
}

impl TableSource for StandIn {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let supports = |filter: &&Expr| match is_of_one_row(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(supports).collect())
    }
}

fn stand_in(plan: &LogicalPlan) -> Option<(&TableScan, usize)> {
    let LogicalPlan::TableScan(scan) = plan else { return None };
    Some((scan, scan.source.downcast_ref::<StandIn>()?.number))
}

/// The names of a part's columns; of two with one name, as `a.id` and `b.id`, the second gets another one.
fn column_names(part: &LogicalPlan) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for field in part.schema().fields() {
        let taken = names.contains(field.name());
        names.push(if taken { format!("{}\u{1}{}", field.name(), names.len()) } else { field.name().clone() });
    }
    names
}

/// The plan with tables in the places of the parts, whose columns get the parts' names above them.
fn with_stand_ins(plan: LogicalPlan, parts: &[LogicalPlan]) -> Result<LogicalPlan> {
    plan.transform_down_with_subqueries(|node| {
        let number = grouped_columns(&node).and_then(|_| parts.iter().position(|part| is_same(part, &node)));
        let Some(number) = number else { return Ok(Transformed::no(node)) };
        let names = column_names(&node);
        let named = |(field, name): (&Arc<Field>, &String)| field.as_ref().clone().with_name(name);
        let fields: Vec<Field> = node.schema().fields().iter().zip(&names).map(named).collect();
        let schema = Arc::new(Schema::new(fields));
        let table = table_name(number);
        let columns = node.schema().iter().zip(&names).map(|((qualifier, field), name)| {
            let column = Expr::Column(Column::new(Some(table.clone()), name));
            column.alias_qualified(qualifier.cloned(), field.name())
        });
        let scan = LogicalPlanBuilder::scan(table.clone(), Arc::new(StandIn { number, schema }), None)?;
        Ok(Transformed::new(scan.project(columns)?.build()?, true, TreeNodeRecursion::Jump))
    })
    .data()
}

fn table_name(number: usize) -> TableReference {
    TableReference::bare(format!("shared {number}"))
}

/// What the places of a part want of it.
struct Places {
    table: TableReference,
    count: usize,
    /// The columns that any of them reads.
    columns: BTreeSet<usize>,
    /// The conditions of each.
    conditions: Vec<Vec<Expr>>,
}

impl Places {
    fn of(plan: &LogicalPlan, number: usize) -> Result<Places> {
        let table = table_name(number);
        let mut places = Places { table, count: 0, columns: BTreeSet::new(), conditions: Vec::new() };
        plan.apply_with_subqueries(|node| {
            let Some((scan, _)) = stand_in(node).filter(|(_, own)| *own == number) else {
                return Ok(TreeNodeRecursion::Continue);
            };
            places.count += 1;
            let schema = scan.source.schema();
            match &scan.projection {
                Some(columns) => places.columns.extend(columns),
                None => places.columns.extend(0..schema.fields().len()),
            }
            for column in scan.filters.iter().flat_map(Expr::column_refs) {
                places.columns.insert(schema.index_of(&column.name)?);
            }
            let conditions = scan.filters.iter().flat_map(|filter| split_conjunction(filter));
            places.conditions.push(conditions.cloned().collect());
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(places)
    }

    /// The columns and rows of a part that they want, the columns by the names of its table.
    fn rows(&self, part: LogicalPlan) -> Result<LogicalPlan> {
        let (columns, names) = (part.schema().columns(), column_names(&part));
        let grouped = grouped_columns(&part).unwrap_or_default();
        let place_of = |column: &Column| names.iter().position(|name| *name == column.name);
        let is_grouped = |condition: &&Expr| {
            condition.column_refs().into_iter().map(place_of).all(|place| place.is_some_and(|place| grouped[place]))
        };
        // Of these the part needs no rows at all, of the others no groups.
        let of_groups = any(self.conditions.iter().map(|each| each.iter().filter(is_grouped).cloned().collect()));
        let of_all = any(self.conditions.iter().cloned());
        let mut wanted: Vec<Expr> = of_groups.into_iter().chain(of_all).collect();
        wanted.dedup();
        let mut rows = LogicalPlanBuilder::from(part);
        if let Some(wanted) = conjunction(wanted) {
            let own = |column: &Column| place_of(column).map(|place| columns[place].clone());
            rows = rows.filter(with_columns(wanted, &own)?)?;
        }
        let named = |place: &usize| {
            let column = Expr::Column(columns[*place].clone());
            column.alias_qualified(Some(self.table.clone()), names[*place].clone())
        };
        rows.project(self.columns.iter().map(named))?.build()
    }
}

/// The condition that one of several places' conditions hold; `None`: always.
fn any(mut places: impl Iterator<Item = Vec<Expr>>) -> Option<Expr> {
    places.try_fold(None, |any, place| {
        let all = conjunction(place)?;
        Some(Some(match any {
            Some(any) if any == all => any,
            Some(any) => disjunction([any, all])?,
            None => all,
        }))
    })?
}

/// The condition over other columns.
fn with_columns(condition: Expr, own: &impl Fn(&Column) -> Option<Column>) -> Result<Expr> {
    let change = |expr: Expr| match &expr {
        Expr::Column(column) => match own(column) {
            Some(own) => Ok(Transformed::yes(Expr::Column(own))),
            None => Err(DataFusionError::Internal(format!("no column of a shared part: {column}"))),
        },
        _ => Ok(Transformed::no(expr)),
    };
    condition.transform_up(change).data()
}

/// What a stand-in reads, of the rows that are computed once.
fn read(scan: &TableScan, rows: &LogicalPlan) -> Result<LogicalPlan> {
    let mut read = LogicalPlanBuilder::from(rows.clone());
    if let Some(conditions) = conjunction(scan.filters.iter().cloned()) {
        read = read.filter(conditions)?;
    }
    if scan.projected_schema.columns() != rows.schema().columns() {
        read = read.project(scan.projected_schema.columns().into_iter().map(Expr::Column))?;
    }
    match scan.fetch {
        Some(rows) => read.limit(0, Some(rows))?.build(),
        None => read.build(),
    }
}
