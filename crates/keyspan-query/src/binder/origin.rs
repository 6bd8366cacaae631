//! Which column of which table an output column is: what RowDescription tells, so that a client can edit what it shows.
//! It stands in the metadata of the output's field.
//!
//! As in Postgres an expression has none, and neither has a set operation. A view's columns have that of the table under
//! it, where Postgres names the view.

use arrow::datatypes::{Field, FieldRef, Schema};
use datafusion::common::Column;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Distinct, Expr, JoinType, LogicalPlan};
use keyspan_model::{Catalog, ColumnId, TableDef};

use crate::pg_catalog::{shown, table_oid};
use crate::table::KeyspanTable;

/// The key of a field's metadata under which its [`Origin`] stands.
const ORIGIN_KEY: &str = "keyspan.origin";

/// A column of a table, by the numbers that the catalog tables have of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `pg_class.oid`.
    pub table: u32,
    /// `pg_attribute.attnum`.
    pub column: i16,
}

impl Origin {
    /// Of a column of a table; `None` if it is not shown.
    pub fn of(table: &TableDef, column: ColumnId) -> Option<Origin> {
        let (number, _) = shown(table).find(|(_, shown)| shown.id == column)?;
        Some(Origin { table: u32::try_from(table_oid(table.id)).ok()?, column: i16::try_from(number).ok()? })
    }

    /// That of a query's output column.
    pub fn of_field(field: &Field) -> Option<Origin> {
        let (table, column) = field.metadata().get(ORIGIN_KEY)?.split_once(' ')?;
        Some(Origin { table: table.parse().ok()?, column: column.parse().ok()? })
    }

    /// The output column with this origin in its metadata.
    pub fn add_to(self, field: Field) -> Field {
        let mut metadata = field.metadata().clone();
        metadata.insert(ORIGIN_KEY.to_owned(), format!("{} {}", self.table, self.column));
        field.with_metadata(metadata)
    }
}

/// Whether two answers have the same columns, wherever they come from: numbers change when a column is dropped.
pub fn are_alike(one: &Schema, other: &Schema) -> bool {
    let plain = |field: &FieldRef| {
        let mut metadata = field.metadata().clone();
        metadata.remove(ORIGIN_KEY);
        Field::clone(field).with_metadata(metadata)
    };
    one.fields().len() == other.fields().len()
        && one.fields().iter().zip(other.fields()).all(|(one, other)| plain(one) == plain(other))
}

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
