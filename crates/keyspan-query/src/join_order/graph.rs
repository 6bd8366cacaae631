//! Tables that inner joins join, in whatever order.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, NullEquality, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, HashJoinExecBuilder, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;

use super::Plan;
use super::estimate::{Guess, rows_of_join};
use crate::functions::arithmetic::ArithmeticFunction;
use crate::widened::column_of;

/// Most tables: a set of them is the bits of a number.
const MOST_TABLES: usize = Tables::BITS as usize;
/// How much better another order must look: so many times.
const BETTER: f64 = 1.5;

type Expr = Arc<dyn PhysicalExpr>;

/// A set of tables, a bit for each.
type Tables = u64;

/// What the joins join.
struct Relation {
    plan: Plan,
    /// The number of its first column among those of all.
    first: usize,
    guess: Guess,
    /// Of a semi join: it gives no columns, and only leaves out rows of the tables that it is compared with.
    is_semi: bool,
}

/// A column of a table, as it is or widened.
#[derive(Clone)]
struct Shown {
    /// Its number among those of all tables.
    number: usize,
    /// The casts to wider whole numbers, the first one first.
    casts: Vec<Expr>,
}

/// An equality of columns of two tables.
struct Edge {
    sides: [Shown; 2],
    tables: [usize; 2],
}

/// What else joined rows must meet.
struct Condition {
    expr: Expr,
    /// Its columns.
    columns: Vec<Shown>,
    tables: Tables,
}

/// An order of joins.
#[derive(Clone, Debug)]
enum Tree {
    Table(usize),
    Join(Box<Tree>, Box<Tree>),
}

/// Joined tables: which they are, and about how many rows they have.
#[derive(Clone, Copy)]
struct Joined {
    tables: Tables,
    rows: f64,
    /// What it takes: the rows that the joins read and give.
    cost: f64,
}

/// Joins as they are planned.
struct Part {
    plan: Plan,
    /// The numbers of its columns.
    columns: Vec<usize>,
    joined: Joined,
}

/// Inner joins one above the other.
pub(super) struct Graph {
    relations: Vec<Relation>,
    edges: Vec<Edge>,
    conditions: Vec<Condition>,
    /// How the statement has it.
    written: Tree,
    /// The columns of the result.
    output: Vec<Shown>,
    mode: PartitionMode,
}

impl Graph {
    /// Of a join of at least three tables; `None` for all else, and where nobody knows how large the tables are.
    pub(super) fn of(plan: &Plan) -> Result<Option<Graph>> {
        if !is_join(plan) {
            return Ok(None);
        }
        let mut graph = Graph {
            relations: Vec::new(),
            edges: Vec::new(),
            conditions: Vec::new(),
            written: Tree::Table(0),
            output: Vec::new(),
            mode: PartitionMode::Auto,
        };
        let Some((written, output)) = graph.add(plan)? else { return Ok(None) };
        (graph.written, graph.output) = (written, output);
        Ok((graph.relations.len() > 2).then_some(graph))
    }

    /// What is joined.
    pub(super) fn relations(&self) -> Vec<Plan> {
        self.relations.iter().map(|relation| relation.plan.clone()).collect()
    }

    /// Adds what a node joins; the order of it, and its columns.
    fn add(&mut self, plan: &Plan) -> Result<Option<(Tree, Vec<Shown>)>> {
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>().filter(|projection| only_moves(projection)) {
            let Some((tree, columns)) = self.add(projection.input())? else { return Ok(None) };
            let shown = projection.expr().iter().map(|each| shown_of(&each.expr, &columns));
            return Ok(shown.collect::<Option<Vec<_>>>().map(|shown| (tree, shown)));
        }
        if let Some(join) = plan.downcast_ref::<CrossJoinExec>() {
            let (Some(left), Some(right)) = (self.add(join.left())?, self.add(join.right())?) else { return Ok(None) };
            return Ok(Some((Tree::join(left.0, right.0), [left.1, right.1].concat())));
        }
        let Some(join) = plan.downcast_ref::<HashJoinExec>().filter(|join| is_plain(join)) else {
            return self.add_relation(plan, false);
        };
        self.mode = *join.partition_mode();
        let left = match join.join_type() {
            JoinType::RightSemi => self.add_relation(join.left(), true)?,
            _ => self.add(join.left())?,
        };
        let right = match join.join_type() {
            JoinType::LeftSemi => self.add_relation(join.right(), true)?,
            _ => self.add(join.right())?,
        };
        let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
        for (of_left, of_right) in join.on() {
            let shown = shown_of(of_left, &left.1).zip(shown_of(of_right, &right.1));
            let Some((one, other)) = shown else { return Ok(None) };
            let tables = [self.table_of(one.number), self.table_of(other.number)];
            self.edges.push(Edge { sides: [one, other], tables });
        }
        if let Some(filter) = join.filter() {
            let number = |column: &ColumnIndex| match column.side {
                JoinSide::Left => Some(left.1[column.index].clone()),
                JoinSide::Right => Some(right.1[column.index].clone()),
                JoinSide::None => None,
            };
            let Some(columns) = filter.column_indices().iter().map(number).collect::<Option<Vec<_>>>() else {
                return Ok(None);
            };
            let tables = columns.iter().fold(0, |tables, column| tables | 1 << self.table_of(column.number));
            self.conditions.push(Condition { expr: filter.expression().clone(), columns, tables });
        }
        let all = match join.join_type() {
            JoinType::LeftSemi => left.1,
            JoinType::RightSemi => right.1,
            _ => [left.1, right.1].concat(),
        };
        let output = match &join.projection {
            Some(places) => places.iter().map(|place| all[*place].clone()).collect(),
            None => all,
        };
        Ok(Some((Tree::join(left.0, right.0), output)))
    }

    fn add_relation(&mut self, plan: &Plan, is_semi: bool) -> Result<Option<(Tree, Vec<Shown>)>> {
        if self.relations.len() == MOST_TABLES {
            return Ok(None);
        }
        let Some(guess) = Guess::of(plan)? else { return Ok(None) };
        let first = self.width();
        let number = self.relations.len();
        self.relations.push(Relation { plan: plan.clone(), first, guess, is_semi });
        let shown = (first..self.width()).map(|number| Shown { number, casts: Vec::new() });
        Ok(Some((Tree::Table(number), shown.collect())))
    }

    /// How many columns all tables have.
    fn width(&self) -> usize {
        self.relations.last().map_or(0, |last| last.first + last.plan.schema().fields().len())
    }

    fn table_of(&self, column: usize) -> usize {
        self.relations.partition_point(|relation| relation.first <= column) - 1
    }

    /// The joins in a better order, if one looks much better; their columns are those of `schema`.
    pub(super) fn better(&self, schema: &SchemaRef) -> Result<Option<Plan>> {
        let Some((tree, found)) = self.greedy() else { return Ok(None) };
        if found.cost * BETTER > self.cost(&self.written).cost {
            return Ok(None);
        }
        let Part { plan, columns, .. } = self.plan(&tree)?;
        let column =
            |(shown, field): (&Shown, &FieldRef)| Ok((shown.over(&columns, &plan.schema())?, field.name().clone()));
        let shown = self.output.iter().zip(schema.fields()).map(column).collect::<Result<Vec<_>>>()?;
        Ok(Some(Arc::new(ProjectionExec::try_new(shown, plan)?)))
    }

    /// An order that joins what gives the fewest rows first; `None` where something is to be joined with all rows of
    /// something else.
    fn greedy(&self) -> Option<(Tree, Joined)> {
        let mut parts: Vec<(Tree, Joined)> =
            (0..self.relations.len()).map(|table| (Tree::Table(table), self.table(table))).collect();
        while parts.len() > 1 {
            let mut best: Option<(usize, usize, Joined)> = None;
            for (one, (_, left)) in parts.iter().enumerate() {
                for (other, (_, right)) in parts.iter().enumerate().skip(one + 1) {
                    if !self.may_join(left.tables, right.tables) {
                        continue;
                    }
                    let joined = self.joined(*left, *right);
                    let fewer = |best: &Joined| (joined.rows, joined.cost) < (best.rows, best.cost);
                    if best.as_ref().is_none_or(|(_, _, best)| fewer(best)) {
                        best = Some((one, other, joined));
                    }
                }
            }
            let (one, other, joined) = best?;
            // The later one first, so that the other one stays at its place.
            let (right, _) = parts.swap_remove(other);
            let (left, _) = parts.swap_remove(one);
            parts.push((Tree::join(left, right), joined));
        }
        parts.pop()
    }

    /// Whether something compares these two: all that a semi join compares with must be there.
    fn may_join(&self, one: Tables, other: Tables) -> bool {
        let compared = |edge: &&Edge| edge.joins(one, other);
        match (self.semi_of(one), self.semi_of(other)) {
            (None, None) => self.edges.iter().any(|edge| compared(&edge)),
            (Some(_), Some(_)) => false,
            (semi, other) => {
                let table = semi.or(other);
                self.edges
                    .iter()
                    .filter(|edge| edge.tables.iter().any(|own| Some(*own) == table))
                    .all(|edge| compared(&edge))
            }
        }
    }

    /// The table of a semi join, if the set is that alone.
    fn semi_of(&self, tables: Tables) -> Option<usize> {
        let table = tables.trailing_zeros() as usize;
        (tables.is_power_of_two() && self.relations[table].is_semi).then_some(table)
    }

    fn cost(&self, tree: &Tree) -> Joined {
        match tree {
            Tree::Table(table) => self.table(*table),
            Tree::Join(left, right) => self.joined(self.cost(left), self.cost(right)),
        }
    }

    fn table(&self, table: usize) -> Joined {
        Joined { tables: 1 << table, rows: self.relations[table].guess.rows, cost: 0.0 }
    }

    fn joined(&self, left: Joined, right: Joined) -> Joined {
        let edges = self.edges.iter().filter(|edge| edge.joins(left.tables, right.tables));
        let edges = edges.map(|edge| {
            let side = |side: usize| {
                let (relation, column) = (&self.relations[edge.tables[side]], edge.sides[side].number);
                (&relation.guess, column - relation.first)
            };
            (edge.tables, [side(0), side(1)])
        });
        let tables = left.tables | right.tables;
        let met = |condition: &&Condition| condition.is_met_by(left.tables, right.tables);
        let conditions = self.conditions.iter().filter(met).count();
        let mut rows = rows_of_join((left.rows, right.rows), edges, conditions);
        if self.semi_of(left.tables).is_some() {
            rows = rows.min(right.rows);
        } else if self.semi_of(right.tables).is_some() {
            rows = rows.min(left.rows);
        }
        Joined { tables, rows, cost: left.cost + right.cost + left.rows + right.rows + rows }
    }

    /// The joins in this order.
    fn plan(&self, tree: &Tree) -> Result<Part> {
        let (one, other) = match tree {
            Tree::Table(table) => {
                let Relation { plan, first, .. } = &self.relations[*table];
                let columns = (*first..first + plan.schema().fields().len()).collect();
                return Ok(Part { plan: plan.clone(), columns, joined: self.table(*table) });
            }
            Tree::Join(one, other) => (self.plan(one)?, self.plan(other)?),
        };
        // The table is built of the left side.
        let (left, right) = if one.joined.rows <= other.joined.rows { (one, other) } else { (other, one) };
        let mut on = Vec::new();
        for edge in self.edges.iter().filter(|edge| edge.joins(left.joined.tables, right.joined.tables)) {
            let [one, other] = &edge.sides;
            let in_order = left.joined.tables >> edge.tables[0] & 1 == 1;
            let (of_left, of_right) = if in_order { (one, other) } else { (other, one) };
            on.push((
                of_left.over(&left.columns, &left.plan.schema())?,
                of_right.over(&right.columns, &right.plan.schema())?,
            ));
        }
        let filter = self.filter(&left, &right)?;
        let joined = self.joined(left.joined, right.joined);
        let (join_type, columns) = if self.semi_of(left.joined.tables).is_some() {
            (JoinType::RightSemi, right.columns)
        } else if self.semi_of(right.joined.tables).is_some() {
            (JoinType::LeftSemi, left.columns)
        } else {
            (JoinType::Inner, [left.columns, right.columns].concat())
        };
        let plan = HashJoinExecBuilder::new(left.plan, right.plan, on, join_type)
            .with_filter(filter)
            .with_partition_mode(self.mode)
            .with_null_equality(NullEquality::NullEqualsNothing)
            .build_exec()?;
        self.needed(Part { plan, columns, joined })
    }

    /// Joins, but for columns that nobody asks for any more.
    fn needed(&self, part: Part) -> Result<Part> {
        let Part { plan, columns, joined } = part;
        let leaves = |edge: &&Edge| edge.tables.iter().any(|table| joined.tables >> table & 1 == 0);
        let of_edges = self.edges.iter().filter(leaves).flat_map(|edge| edge.sides.iter());
        let of_conditions = self.conditions.iter().filter(|condition| condition.tables & !joined.tables != 0);
        let of_conditions = of_conditions.flat_map(|condition| &condition.columns);
        let asked = of_edges.chain(of_conditions).chain(&self.output);
        let asked: Vec<usize> = asked.map(|shown| shown.number).collect();
        let kept: Vec<usize> = (0..columns.len()).filter(|place| asked.contains(&columns[*place])).collect();
        if kept.len() == columns.len() {
            return Ok(Part { plan, columns, joined });
        }
        let schema = plan.schema();
        let column = |place: &usize| {
            let name = schema.field(*place).name();
            (Arc::new(Column::new(name, *place)) as Expr, name.clone())
        };
        let plan = ProjectionExec::try_new(kept.iter().map(column).collect::<Vec<_>>(), plan)?;
        Ok(Part { plan: Arc::new(plan), columns: kept.iter().map(|place| columns[*place]).collect(), joined })
    }

    /// The conditions that can be asked at this join and at none below.
    fn filter(&self, left: &Part, right: &Part) -> Result<Option<JoinFilter>> {
        let (mut indices, mut fields, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        let is_met = |condition: &&Condition| condition.is_met_by(left.joined.tables, right.joined.tables);
        let met = self.conditions.iter().filter(is_met);
        let met: Vec<&Condition> = met.collect();
        for number in met.iter().flat_map(|condition| condition.columns.iter().map(|shown| shown.number)) {
            if numbers.contains(&number) {
                continue;
            }
            let of_left = left.columns.iter().position(|column| *column == number);
            let (side, index, part) = match of_left {
                Some(index) => (JoinSide::Left, index, left),
                None => (JoinSide::Right, place_of(&right.columns, number)?, right),
            };
            indices.push(ColumnIndex { index, side });
            fields.push(part.plan.schema().fields()[index].clone());
            numbers.push(number);
        }
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let mut all: Option<Expr> = None;
        for condition in met {
            let column = |part: Expr| match part.downcast_ref::<Column>() {
                Some(column) => Ok(Transformed::new(
                    condition.columns[column.index()].over(&numbers, &schema)?,
                    true,
                    TreeNodeRecursion::Jump,
                )),
                None => Ok(Transformed::no(part)),
            };
            let own = condition.expr.clone().transform_down(column).data()?;
            all = Some(match all {
                Some(others) => Arc::new(BinaryExpr::new(others, Operator::And, own)),
                None => own,
            });
        }
        Ok(all.map(|expr| JoinFilter::new(expr, indices, schema)))
    }
}

impl Tree {
    fn join(left: Tree, right: Tree) -> Tree {
        Tree::Join(Box::new(left), Box::new(right))
    }
}

impl Shown {
    /// The expression over columns of these numbers.
    fn over(&self, columns: &[usize], schema: &Schema) -> Result<Expr> {
        let place = place_of(columns, self.number)?;
        let column: Expr = Arc::new(Column::new(schema.field(place).name(), place));
        self.casts.iter().try_fold(column, |below, cast| cast.clone().with_new_children(vec![below]))
    }
}

impl Edge {
    /// Whether it compares a table of one set with one of the other.
    fn joins(&self, one: Tables, other: Tables) -> bool {
        let [left, right] = self.tables.map(|table| 1 << table);
        one & left != 0 && other & right != 0 || one & right != 0 && other & left != 0
    }
}

impl Condition {
    /// Whether a join of these sets has all of its tables, and neither set has.
    fn is_met_by(&self, one: Tables, other: Tables) -> bool {
        let left = |tables: Tables| self.tables & !tables != 0;
        !left(one | other) && left(one) && left(other)
    }
}

fn is_join(plan: &Plan) -> bool {
    plan.is::<CrossJoinExec>() || plan.downcast_ref::<HashJoinExec>().is_some_and(is_plain)
}

/// Whether a join may change its place: it keeps pairs of rows of which columns are equal, or rows that are in such a pair,
/// and its comparisons do not fail.
fn is_plain(join: &HashJoinExec) -> bool {
    let (left, right) = (join.left().schema(), join.right().schema());
    let of_columns =
        |(one, other): &(Expr, Expr)| column_of(one, &left).is_some() && column_of(other, &right).is_some();
    let inner = match join.join_type() {
        JoinType::Inner => true,
        JoinType::LeftSemi | JoinType::RightSemi => join.filter().is_none(),
        _ => false,
    };
    inner
        && join.null_equality() == NullEquality::NullEqualsNothing
        && !join.null_aware
        && join.fetch().is_none()
        && join.on().iter().all(of_columns)
        && join.filter().is_none_or(|filter| seldom_fails(filter.expression(), filter.schema()))
}

/// Whether an expression fails for no row, or only for numbers at the end of their type: it may be asked about other rows
/// than those that the statement's order would leave.
fn seldom_fails(expr: &Expr, schema: &Schema) -> bool {
    let compares = |binary: &BinaryExpr| binary.op().is_logic_operator() || binary.op().negate().is_some();
    let own = column_of(expr, schema).is_some()
        || expr.is::<Literal>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<NotExpr>()
        || expr.downcast_ref::<BinaryExpr>().is_some_and(compares)
        || ScalarFunctionExpr::try_downcast_func::<ArithmeticFunction>(expr.as_ref())
            .is_some_and(|call| matches!(call.name(), "+" | "-"));
    own && expr.children().into_iter().all(|part| seldom_fails(part, schema))
}

/// Whether a projection only moves and widens columns.
fn only_moves(projection: &ProjectionExec) -> bool {
    let schema = projection.input().schema();
    projection.expr().iter().all(|each| column_of(&each.expr, &schema).is_some())
}

/// What an expression, a column or one that is widened, is of these columns.
fn shown_of(expr: &Expr, columns: &[Shown]) -> Option<Shown> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return columns.get(column.index()).cloned();
    }
    let mut shown = shown_of(expr.downcast_ref::<CastExpr>()?.expr(), columns)?;
    shown.casts.push(expr.clone());
    Some(shown)
}

fn place_of(columns: &[usize], number: usize) -> Result<usize> {
    let place = columns.iter().position(|column| *column == number);
    place.map_or_else(|| internal_err!("column {number} is not joined"), Ok)
}
