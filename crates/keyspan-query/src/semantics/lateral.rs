//! LATERAL subqueries without a table of their own: `FROM t, unnest(t.list) AS x`, `FROM t, generate_series(1, t.n)`.
//!
//! DataFusion knows how to join with a correlated subquery where it compares columns with columns. One that only
//! computes on the columns of the left side is no join: it is computed on the left side's rows.
//!
//! ```text
//! Join                               Projection: t.*, x AS q.x
//!   t                                  Unnest: x
//!   q: Subquery                 ─▶       Projection: t.*, t.list AS x
//!     Projection: x                        t
//!       Unnest: x
//!         Projection: outer(t.list) AS x
//!           EmptyRelation
//! ```
//!
//! Where the right side has names of the left side's columns, these have other names meanwhile.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, NullHandling, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Union};

use crate::decorrelate::{is_volatile, union_all};

/// Whether a node may be such a join.
pub fn is_lateral(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if is_correlated(&join.right))
}

/// The plan with these joins computed on their left sides. Others stay as they are.
pub fn computed_on_left(plan: LogicalPlan) -> Result<LogicalPlan> {
    let computed = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) => Ok(match computed(&join)? {
            Some(plan) => Transformed::yes(plan),
            None => Transformed::no(LogicalPlan::Join(join)),
        }),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(computed.data)
}

fn is_correlated(right: &LogicalPlan) -> bool {
    match right {
        LogicalPlan::Subquery(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_correlated(&alias.input),
        _ => false,
    }
}

/// Whether lists become rows in it.
fn expands(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::Unnest(_))))
}

fn computed(join: &Join) -> Result<Option<LogicalPlan>> {
    let inner = join.join_type == JoinType::Inner;
    let always = match &join.filter {
        None => true,
        Some(Expr::Literal(ScalarValue::Boolean(Some(true)), _)) => true,
        Some(_) => inner,
    };
    let joins = always && join.on.is_empty() && (inner || join.join_type == JoinType::Left);
    if !joins || !is_correlated(&join.right) {
        return Ok(None);
    }
    let left = Left::of(join, !inner)?;
    if join.right.exists(|node| Ok(matches!(node, LogicalPlan::Union(_))))? && is_volatile(&join.left)? {
        return Ok(None);
    }
    let Some(both) = left.with(&join.right)? else { return Ok(None) };
    let named = LogicalPlanBuilder::from(both).project(left.named_again(join))?;
    let filtered = match &join.filter {
        Some(filter) if inner => named.filter(filter.clone())?,
        _ => named,
    };
    filtered.build().map(Some)
}

/// The left side, on which the right one is computed.
struct Left<'a> {
    schema: &'a DFSchema,
    /// Its columns, as they are called meanwhile.
    columns: Vec<Column>,
    plan: LogicalPlan,
    /// Rows without a row on the right side are kept.
    keep_empty: bool,
}

impl Left<'_> {
    fn of(join: &Join, keep_empty: bool) -> Result<Left<'_>> {
        let schema = join.left.schema().as_ref();
        let plan = LogicalPlan::clone(&join.left);
        let clashes = join.right.exists(|node| {
            Ok(node.schema().fields().iter().any(|field| schema.has_column_with_unqualified_name(field.name())))
        });
        if !clashes? {
            return Ok(Left { schema, columns: schema.columns(), plan, keep_empty });
        }
        let name = |place: usize| format!("lateral_{place}");
        let columns = schema.columns().into_iter().enumerate();
        let renamed = columns.map(|(place, column)| Expr::Column(column).alias(name(place)));
        let plan = LogicalPlanBuilder::from(plan).project(renamed)?.build()?;
        Ok(Left { schema, columns: plan.schema().columns(), plan, keep_empty })
    }

    fn columns(&self) -> impl Iterator<Item = Expr> {
        self.columns.iter().cloned().map(Expr::Column)
    }

    /// The columns of the join, as they are called in it.
    fn named_again(&self, join: &Join) -> Vec<Expr> {
        let left = self.schema.columns().into_iter().zip(self.columns()).map(|(given, column)| match column {
            Expr::Column(own) if own == given => Expr::Column(given),
            column => column.alias_qualified(given.relation, given.name),
        });
        left.chain(join.right.schema().columns().into_iter().map(Expr::Column)).collect()
    }

    /// The left side's columns, then those of `node`; `None` where `node` reads something of its own.
    fn with(&self, node: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        let of = |input: &LogicalPlan| self.with(input);
        match node {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => Ok(Some(self.plan.clone())),
            LogicalPlan::Subquery(subquery) => of(&subquery.subquery),
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(input) = of(&alias.input)? else { return Ok(None) };
                let inner = alias.input.schema().columns().into_iter();
                let named = inner.map(|column| {
                    let name = column.name.clone();
                    Expr::Column(column).alias_qualified(Some(alias.alias.clone()), name)
                });
                let exprs = self.columns().chain(named);
                LogicalPlanBuilder::from(input).project(exprs)?.build().map(Some)
            }
            LogicalPlan::Projection(projection) => {
                let Some(input) = of(&projection.input)? else { return Ok(None) };
                let own = projection.expr.iter().cloned().map(|expr| self.known_columns(expr));
                let exprs = self.columns().map(Ok).chain(own).collect::<Result<Vec<_>>>()?;
                LogicalPlanBuilder::from(input).project(exprs)?.build().map(Some)
            }
            // What a filter drops of a row's list would have to be kept where nothing is left.
            LogicalPlan::Filter(filter) if !self.keep_empty => {
                let Some(input) = of(&filter.input)? else { return Ok(None) };
                LogicalPlanBuilder::from(input).filter(self.known_columns(filter.predicate.clone())?)?.build().map(Some)
            }
            // Of several lists that of one query may be empty, and that of another not.
            LogicalPlan::Union(union) if !self.keep_empty || !expands(node)? => self.union(union),
            LogicalPlan::Unnest(unnest) => {
                let Some(input) = of(&unnest.input)? else { return Ok(None) };
                let lists = unnest.exec_columns.clone();
                let mut options = unnest.options.clone();
                if self.keep_empty {
                    options = options.with_null_handling(NullHandling::PreserveAndExpandEmpty);
                }
                LogicalPlanBuilder::from(input).unnest_columns_with_options(lists, options)?.build().map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Each query of a union on the left side, which is read as often.
    fn union(&self, union: &Union) -> Result<Option<LogicalPlan>> {
        let mut plans = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            let Some(plan) = self.with(input)? else { return Ok(None) };
            let own = input.schema().columns().into_iter().map(Expr::Column);
            plans.push(LogicalPlanBuilder::from(plan).project(self.columns().chain(own))?.build()?);
        }
        union_all(plans, self.columns.iter().cloned().chain(union.schema.columns())).map(Some)
    }

    /// Columns of the left side are columns now.
    fn known_columns(&self, expr: Expr) -> Result<Expr> {
        let named = expr.name_for_alias()?;
        let known = expr.transform(|part| match part {
            Expr::OuterReferenceColumn(field, column) => Ok(match self.schema.maybe_index_of_column(&column) {
                Some(place) => Transformed::yes(Expr::Column(self.columns[place].clone())),
                None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            }),
            other => Ok(Transformed::no(other)),
        })?;
        known.data.alias_if_changed(named)
    }
}
