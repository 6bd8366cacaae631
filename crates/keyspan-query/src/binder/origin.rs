//! The origins of a plan's output columns: which column of which table each is.
//!
//! As in Postgres an expression has none, and neither has a set operation. A view's columns have that of the table under
//! it, where Postgres names the view.

use datafusion::common::Column;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Distinct, Expr, JoinType, LogicalPlan};
use keyspan_model::Catalog;

use crate::pg_catalog::{Origin, system_column};
use crate::table::KeyspanTable;

/// The origin of each column of a plan's answer.
pub(super) fn origins(plan: &LogicalPlan, catalog: &Catalog) -> Vec<Option<Origin>> {
    (0..plan.schema().fields().len()).map(|place| origin(plan, place, catalog)).collect()
}

fn origin(plan: &LogicalPlan, place: usize, catalog: &Catalog) -> Option<Origin> {
    let of_expr = |input: &LogicalPlan, expr: &Expr| match bare(expr) {
        Expr::Column(column) => origin(input, input.schema().index_of_column(column).ok()?, catalog),
        _ => None,
    };
    match plan {
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok()?;
            if let Some((table, number, ty)) = system_column(&*provider, scan.projected_schema.field(place).name()) {
                return Origin::numbered(table, number, (ty, -1));
            }
            let table = provider.downcast_ref::<KeyspanTable>()?.definition();
            // That of a family's cells has other columns.
            let own = catalog.tables.get(&table.id)?;
            let column = table.column(scan.projected_schema.field(place).name())?.id;
            Origin::of(own, column)
        }
        LogicalPlan::Projection(projection) => of_expr(&projection.input, projection.expr.get(place)?),
        LogicalPlan::Aggregate(aggregate) => match aggregate.group_expr.get(place)? {
            Expr::GroupingSet(_) => None,
            group => of_expr(&aggregate.input, group),
        },
        LogicalPlan::Distinct(Distinct::On(on)) => of_expr(&on.input, on.select_expr.get(place)?),
        LogicalPlan::Distinct(Distinct::All(input)) => origin(input, place, catalog),
        LogicalPlan::SubqueryAlias(alias) => origin(&alias.input, place, catalog),
        LogicalPlan::Filter(filter) => origin(&filter.input, place, catalog),
        LogicalPlan::Sort(sort) => origin(&sort.input, place, catalog),
        LogicalPlan::Limit(limit) => origin(&limit.input, place, catalog),
        // What windows compute stands behind the columns of the input.
        LogicalPlan::Window(window) if place < window.input.schema().fields().len() => {
            origin(&window.input, place, catalog)
        }
        LogicalPlan::Join(join) => {
            let left = match join.join_type {
                JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => 0,
                _ => join.left.schema().fields().len(),
            };
            let right = join.right.schema().fields().len();
            match place {
                place if place < left => origin(&join.left, place, catalog),
                place if place - left < right => origin(&join.right, place - left, catalog),
                _ => None,
            }
        }
        LogicalPlan::Extension(extension) => {
            let [input] = extension.node.inputs()[..] else { return None };
            let (qualifier, field) = plan.schema().qualified_field(place);
            let column = Column::new(qualifier.cloned(), field.name());
            origin(input, input.schema().index_of_column(&column).ok()?, catalog)
        }
        _ => None,
    }
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => bare(&alias.expr),
        expr => expr,
    }
}
