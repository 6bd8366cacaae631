//! Rows of a table are aggregated before they are joined, by the keys of the join: eager aggregation (Yan and Larson, 1995).
//!
//! ```text
//! SELECT t.region, avg(c.load) FROM cpu c JOIN tags t ON t.id = c.tags_id GROUP BY t.region     key (tags_id, ts)
//!
//! Projection  region, sum / count                          one row for each region
//!   Aggregate by region: sum(sum), sum(count)
//!     Join tags_id = id                                     one row for each tags_id, not one for each row of cpu
//!       Aggregate by tags_id: sum(load), count(load)        by runs of rows
//!         Scan cpu
//!       Scan tags
//! ```
//!
//! Rule: only where the first aggregate leaves far fewer rows than it reads, done over the scan ([`crate::grouped`]): the
//! keys of the join and the GROUP BY expressions over the table are leading key columns and steps of the next; or they are
//! any columns, and the other side is one table that is much smaller, such as one of products beside that of sales. And only
//! for aggregates that can be put together from parts without a change of type. A row that the join multiplies is counted
//! as often: its group's part is. Where the join leaves rows out, only for arguments that no row can make fail, since the
//! row may be one of those: `sum(100 / quantity)` stays above.
//!
//! It runs after DataFusion's rules, so that nothing is pushed into the first aggregate.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{
    Aggregate, AggregateUDF, Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection, binary_expr, cast, lit, when,
};

use keyspan_seam::{Known, Snapshot};

use crate::functions;
use crate::functions::step::is_step;
use crate::table::KeyspanTable;

/// The other side of a join is small if it has at most this part of the table's bytes, and at most so many.
const PART_OF_SMALL: u64 = 16;
const BYTES_OF_SMALL: u64 = 4 << 20;

/// The plan with aggregates below joins where that saves rows.
pub fn pushed(plan: LogicalPlan, snapshot: &dyn Snapshot) -> Result<LogicalPlan> {
    let push = |node: LogicalPlan| {
        let pushed = match &node {
            LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate, snapshot),
            _ => None,
        };
        Ok(pushed.map_or_else(|| Transformed::no(node), Transformed::yes))
    };
    plan.transform_up(push).data()
}

fn of_aggregate(aggregate: &Aggregate, snapshot: &dyn Snapshot) -> Option<LogicalPlan> {
    let joined = Joined::below(&aggregate.input)?;
    // Of an outer join the side whose rows are all kept: those without a match are counted in their groups, too.
    let sides: &[Side] = match joined.join.join_type {
        JoinType::Inner => &[Side::Left, Side::Right],
        JoinType::LeftSemi | JoinType::Left => &[Side::Left],
        JoinType::Right => &[Side::Right],
        _ => return None,
    };
    for side in sides {
        if let Some(split) = Split::of(aggregate, &joined, *side, snapshot) {
            // It fails where two columns would have one name.
            return split.plan(aggregate, &joined, *side).ok().flatten();
        }
    }
    None
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

impl Side {
    fn other(self) -> Side {
        if self == Side::Left { Side::Right } else { Side::Left }
    }
}

/// A join of equal columns, and what the columns of the aggregate's input are of its own.
struct Joined<'a> {
    join: &'a Join,
    renamed: HashMap<Column, Expr>,
}

impl<'a> Joined<'a> {
    fn below(input: &'a LogicalPlan) -> Option<Joined<'a>> {
        let (join, renamed) = match input {
            LogicalPlan::Join(join) => (join, HashMap::new()),
            LogicalPlan::Projection(projection) => {
                let LogicalPlan::Join(join) = projection.input.as_ref() else { return None };
                let columns = projection.schema.columns().into_iter();
                (join, columns.zip(projection.expr.iter().map(|expr| expr.clone().unalias())).collect())
            }
            _ => return None,
        };
        let plain = join.filter.is_none() && join.null_equality == NullEquality::NullEqualsNothing;
        (plain && !join.on.is_empty()).then_some(Joined { join, renamed })
    }

    /// An expression of the aggregate over the join's columns.
    fn over_join(&self, expr: &Expr) -> Result<Expr> {
        let put = |expr: Expr| match &expr {
            Expr::Column(column) => match self.renamed.get(column) {
                Some(own) => Ok(Transformed::yes(own.clone())),
                None => Ok(Transformed::no(expr)),
            },
            _ => Ok(Transformed::no(expr)),
        };
        expr.clone().transform_up(put).data()
    }

    fn side(&self, side: Side) -> &Arc<LogicalPlan> {
        match side {
            Side::Left => &self.join.left,
            Side::Right => &self.join.right,
        }
    }

    /// The columns of a side that are equal to one of the other; `None` if one is no column.
    fn keys(&self, side: Side) -> Option<Vec<Column>> {
        let key = |(left, right): &(Expr, Expr)| match if side == Side::Left { left } else { right } {
            Expr::Column(column) => Some(column.clone()),
            _ => None,
        };
        self.join.on.iter().map(key).collect()
    }
}

/// A scan of a table of ours under names only.
fn table_of(plan: &LogicalPlan) -> Option<KeyspanTable> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => table_of(&alias.input),
        LogicalPlan::TableScan(scan) if scan.fetch.is_none() => {
            KeyspanTable::of_scan(scan).filter(|table| !table.is_limited())
        }
        _ => None,
    }
}

/// An aggregate in two: which is done first.
struct Split {
    keys: Vec<Column>,
    /// GROUP BY expressions over the join, and whether they are the table's own.
    groups: Vec<(Expr, bool)>,
    parts: Vec<Part>,
}

/// How an aggregate function is put together.
enum Part {
    /// The same function, of what it gave: min, max, and a sum whose type it keeps.
    Same(AggregateFunction),
    Count(AggregateFunction),
    /// The sum and the count.
    Average(Expr),
}

impl Split {
    fn of(aggregate: &Aggregate, joined: &Joined, side: Side, snapshot: &dyn Snapshot) -> Option<Split> {
        let input = joined.side(side);
        let table = table_of(input)?;
        let keys = joined.keys(side)?;
        let own = |expr: &Expr| expr.column_refs().iter().all(|column| input.schema().has_column(column));
        let mut groups = Vec::with_capacity(aggregate.group_expr.len());
        for group in &aggregate.group_expr {
            if matches!(group, Expr::GroupingSet(_)) {
                return None;
            }
            let group = joined.over_join(group).ok()?;
            let columns = group.column_refs();
            let of_table = own(&group) && !columns.is_empty();
            let of_other = columns.iter().all(|column| !input.schema().has_column(column));
            if !of_table && !of_other {
                return None;
            }
            groups.push((group, of_table));
        }
        let own_groups = groups.iter().filter(|(_, of_table)| *of_table).map(|(group, _)| group);
        let by_runs = are_leading(&table, &keys, own_groups.clone());
        if !by_runs && !have_few_values(&table, &keys, own_groups, joined.side(side.other()), snapshot) {
            return None;
        }
        let leaves_out = matches!(joined.join.join_type, JoinType::Inner | JoinType::LeftSemi);
        let fits = |argument: &Expr| own(argument) && !(leaves_out && may_fail(argument, input.schema()));
        let parts = aggregate.aggr_expr.iter().map(|expr| {
            let part = Part::of(&joined.over_join(expr).ok()?, input)?;
            part.arguments().iter().all(fits).then_some(part)
        });
        Some(Split { keys, groups, parts: parts.collect::<Option<_>>()? })
    }

    /// The two aggregates, the join between them, and the columns that the one aggregate had. `None` where their types
    /// would not be the same.
    fn plan(&self, aggregate: &Aggregate, joined: &Joined, side: Side) -> Result<Option<LogicalPlan>> {
        let first_groups = self.first_groups();
        let (mut computed, mut merged) = (Vec::new(), Vec::new());
        let firsts = self.parts.iter().map(|part| places(&mut computed, part.first())).collect::<Vec<_>>();
        let first = Aggregate::try_new(joined.side(side).clone(), first_groups.clone(), computed)?;
        let inner = Columns::of(&first, first_groups.len());
        let seconds = self.parts.iter().zip(firsts).map(|(part, first)| {
            places(&mut merged, part.merged(first.into_iter().map(|place| inner.aggregate(place)).collect()))
        });
        let seconds = seconds.collect::<Vec<_>>();
        let groups = self.groups.iter().map(|(group, of_table)| {
            let place = first_groups.iter().position(|each| each == group).filter(|_| *of_table);
            place.map_or_else(|| group.clone(), |place| inner.0[place].clone())
        });
        let join = with_side(joined.join, side, LogicalPlan::Aggregate(first))?;
        let second = Aggregate::try_new(join.into(), groups.collect(), merged)?;
        let outer = Columns::of(&second, self.groups.len());
        // Of groups that are one column of the join there is one.
        if outer.0.len() != self.groups.len() + second.aggr_expr.len() {
            return Ok(None);
        }
        let mut results = outer.0[..self.groups.len()].to_vec();
        for (part, second) in self.parts.iter().zip(seconds) {
            results.push(part.result(second.into_iter().map(|place| outer.aggregate(place)).collect())?);
        }
        let named = results.into_iter().zip(aggregate.schema.iter());
        let named = named.map(|(result, (qualifier, field))| result.alias_qualified(qualifier.cloned(), field.name()));
        let projection = Projection::try_new(named.collect(), LogicalPlan::Aggregate(second).into())?;
        let mut pairs = projection.schema.fields().iter().zip(aggregate.schema.fields());
        let same = pairs.all(|(new, old)| new.data_type() == old.data_type() && new.is_nullable() == old.is_nullable());
        Ok(same.then_some(LogicalPlan::Projection(projection)))
    }

    fn first_groups(&self) -> Vec<Expr> {
        let mut groups: Vec<Expr> = Vec::new();
        let own = self.groups.iter().filter(|(_, of_table)| *of_table).map(|(group, _)| group.clone());
        for group in self.keys.iter().cloned().map(Expr::Column).chain(own) {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }
}

/// The places of expressions in a list, to which those are added that are not in it.
fn places(list: &mut Vec<Expr>, exprs: Vec<Expr>) -> Vec<usize> {
    let place = |expr: Expr| {
        list.iter().position(|each| *each == expr).unwrap_or_else(|| {
            list.push(expr);
            list.len() - 1
        })
    };
    exprs.into_iter().map(place).collect()
}

/// Whether the keys of a join with this other side, and these expressions beside them, have far fewer values than the table
/// has rows: the other side is a table that is small beside it.
fn have_few_values<'a>(
    table: &KeyspanTable,
    keys: &[Column],
    groups: impl Iterator<Item = &'a Expr>,
    other: &LogicalPlan,
    snapshot: &dyn Snapshot,
) -> bool {
    let bytes = |table: &KeyspanTable| match snapshot.relation_bytes(table.relation().id) {
        Known::Exact(bytes) | Known::Estimate(bytes) => Some(bytes),
        Known::Unknown => None,
    };
    let small = |other: u64| bytes(table).is_some_and(|own| other <= BYTES_OF_SMALL.min(own / PART_OF_SMALL));
    let groups: Vec<&Expr> = groups.collect();
    let columns: BTreeSet<&str> = groups
        .iter()
        .filter_map(|group| if let Expr::Column(column) = group { Some(column) } else { None })
        .chain(keys)
        .map(|column| column.name.as_str())
        .collect();
    // Each row would be a group of its own.
    let holds_row_key = table.relation().key.iter().all(|column| columns.contains(column.name.as_str()));
    !holds_row_key
        && groups.iter().all(|group| matches!(group, Expr::Column(_)) || is_step(group))
        && table_of(other).as_ref().and_then(bytes).is_some_and(small)
}

/// Whether a row can make an expression fail, as far as is known.
fn may_fail(expr: &Expr, schema: &DFSchema) -> bool {
    let fails = |part: &Expr| {
        Ok(match part {
            Expr::Column(_) | Expr::Literal(..) | Expr::Alias(_) | Expr::Case(_) | Expr::Not(_) => false,
            Expr::IsNull(_) | Expr::IsNotNull(_) => false,
            Expr::BinaryExpr(binary) => match binary.op {
                Operator::Plus | Operator::Minus | Operator::Multiply => part.get_type(schema)? != DataType::Float64,
                op => !op.is_logic_operator() && op.negate().is_none(),
            },
            Expr::Cast(cast) => !widens(&cast.expr.get_type(schema)?, cast.field.data_type()),
            _ => true,
        })
    };
    expr.exists(fails).unwrap_or(true)
}

/// Whether each value of a type is one of another, or nearly.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType as D;
    match (from, to) {
        (D::Int8 | D::Int16 | D::Int32 | D::Int64, D::Int64 | D::Float64) => true,
        (D::Float32, D::Float64) => true,
        // A bigint has 19 digits.
        (D::Int8 | D::Int16 | D::Int32 | D::Int64, D::Decimal128(digits, scale)) => *digits as i8 - scale >= 19,
        (from, to) => from == to,
    }
}

/// Whether these columns and steps are the first of the table's key, so that rows of one group stand together.
fn are_leading<'a>(table: &KeyspanTable, keys: &[Column], groups: impl Iterator<Item = &'a Expr>) -> bool {
    let key = &table.relation().key;
    let place = |column: &Column| key.iter().position(|each| each.name == column.name);
    let Some(mut plain) = keys.iter().map(place).collect::<Option<BTreeSet<usize>>>() else { return false };
    let mut steps = BTreeSet::new();
    for group in groups {
        let columns = group.column_refs();
        let place = if columns.len() == 1 { columns.into_iter().next().and_then(place) } else { None };
        let Some(place) = place else { return false };
        match group {
            Expr::Column(_) => plain.insert(place),
            group if is_step(group) => steps.insert(place),
            _ => return false,
        };
    }
    let leading = plain.iter().copied().eq(0..plain.len());
    let next = steps.iter().all(|place| *place == plain.len());
    leading && next && plain.len() < key.len()
}

/// A join with another input on one side, of which all columns of the keys are still there.
fn with_side(join: &Join, side: Side, input: LogicalPlan) -> Result<LogicalPlan> {
    let (left, right) = match side {
        Side::Left => (Arc::new(input), join.right.clone()),
        Side::Right => (join.left.clone(), Arc::new(input)),
    };
    let (on, kind, constraint) = (join.on.clone(), join.join_type, join.join_constraint);
    let join = Join::try_new(left, right, on, None, kind, constraint, join.null_equality, join.null_aware)?;
    Ok(LogicalPlan::Join(join))
}

/// The columns of an aggregate: its groups, of this number, and its values.
struct Columns(Vec<Expr>, usize);

impl Columns {
    fn of(aggregate: &Aggregate, groups: usize) -> Columns {
        Columns(aggregate.schema.columns().into_iter().map(Expr::Column).collect(), groups)
    }

    fn aggregate(&self, place: usize) -> Expr {
        self.0[self.1 + place].clone()
    }
}

impl Part {
    fn of(expr: &Expr, input: &LogicalPlan) -> Option<Part> {
        let Expr::AggregateFunction(call) = expr.clone().unalias() else { return None };
        let params = &call.params;
        let plain = !params.distinct && params.filter.is_none() && params.order_by.is_empty();
        if !plain || params.null_treatment.is_some() {
            return None;
        }
        let ty = |expr: &Expr| expr.get_type(input.schema()).ok();
        match (call.func.name(), params.args.as_slice()) {
            ("count", [_]) => Some(Part::Count(call)),
            ("min" | "max", [Expr::Column(_)]) => Some(Part::Same(call)),
            ("sum", [argument]) => match ty(argument)? {
                DataType::Float64 | DataType::Int64 | DataType::Decimal128(..) if ty(expr)? == ty(argument)? => {
                    Some(Part::Same(call))
                }
                _ => None,
            },
            ("avg", [argument @ Expr::Column(_)]) if ty(argument)? == DataType::Float64 => {
                Some(Part::Average(argument.clone()))
            }
            _ => None,
        }
    }

    fn arguments(&self) -> &[Expr] {
        match self {
            Part::Same(call) | Part::Count(call) => &call.params.args,
            Part::Average(argument) => std::slice::from_ref(argument),
        }
    }

    /// What is computed below the join.
    fn first(&self) -> Vec<Expr> {
        match self {
            Part::Same(call) | Part::Count(call) => vec![Expr::AggregateFunction(call.clone())],
            Part::Average(argument) => {
                vec![call(functions::sum(), argument.clone()), call(functions::count(), argument.clone())]
            }
        }
    }

    /// What is computed above it, of those.
    fn merged(&self, first: Vec<Expr>) -> Vec<Expr> {
        let function = match self {
            Part::Same(call) => call.func.clone(),
            Part::Count(_) | Part::Average(_) => functions::sum(),
        };
        first.into_iter().map(|part| call(function.clone(), part)).collect()
    }

    /// The aggregate's value, of those.
    fn result(&self, merged: Vec<Expr>) -> Result<Expr> {
        let mut merged = merged.into_iter();
        match (self, merged.next(), merged.next()) {
            (Part::Count(_), Some(count), _) => when(count.clone().is_not_null(), count).otherwise(lit(0_i64)),
            (Part::Average(_), Some(sum), Some(count)) => {
                Ok(binary_expr(sum, Operator::Divide, cast(count, DataType::Float64)))
            }
            (_, first, _) => Ok(first.unwrap_or_else(|| lit(0_i64))),
        }
    }
}

fn call(function: Arc<AggregateUDF>, argument: Expr) -> Expr {
    Expr::AggregateFunction(AggregateFunction::new_udf(function, vec![argument], false, None, Vec::new(), None))
}
