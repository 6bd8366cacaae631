//! What is NULL although the column that it comes from cannot be.
//!
//! - A scalar subquery that finds no row: DataFusion takes `(SELECT id FROM t WHERE …)` for a value that is never NULL if `id`
//!   is none, so that `coalesce` keeps nothing but it, and the NULL that it may be is an error.
//! - A column of an outer join in LATERAL: in `a RIGHT JOIN b ON … CROSS JOIN LATERAL (SELECT … WHERE c = coalesce(a.id, b.id))`
//!   it takes `a.id` as the table declares it.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, Projection, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Subquery, Volatility,
};

/// Whether [`with_nulls`] has something to do in this expression.
pub fn has_wrong_subquery(expr: &Expr) -> Result<bool> {
    expr.exists(|part| Ok(matches!(part, Expr::ScalarSubquery(subquery) if is_wrong(subquery))))
}

/// A plan in which scalar subqueries may be NULL, unless they have one row always, and so may columns of enclosing queries.
pub fn with_nulls(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewrite = |expr: Expr| match expr {
        Expr::ScalarSubquery(subquery) if is_wrong(&subquery) => {
            Ok(Transformed::yes(Expr::ScalarSubquery(nullable(subquery)?)))
        }
        Expr::OuterReferenceColumn(field, column) if !field.is_nullable() => {
            let field = Arc::new(field.as_ref().clone().with_nullable(true));
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    };
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let node = node.map_expressions(|expr| expr.transform_up(rewrite)).data()?;
        node.recompute_schema().map(Transformed::yes)
    });
    rewritten.data()
}

/// Whether a subquery may have no row and says that it has a value. Those of the outer query's rows become joins, which know.
fn is_wrong(subquery: &Subquery) -> bool {
    let plan = subquery.subquery.as_ref();
    let one = plan.schema().fields().len() == 1 && (!plan.schema().field(0).is_nullable() || is_constant(plan));
    one && subquery.outer_ref_columns.is_empty() && !has_one_row(plan)
}

/// Whether it gives a constant, which is none yet, but is computed while planning: then it is not NULL either.
fn is_constant(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => {
            let computed = |expr: &Expr| !matches!(expr.clone().unalias(), Expr::Literal(..));
            projection.expr.iter().all(|expr| computed(expr) && expr.column_refs().is_empty())
        }
        LogicalPlan::Limit(limit) => is_constant(&limit.input),
        LogicalPlan::Sort(sort) => is_constant(&sort.input),
        LogicalPlan::SubqueryAlias(alias) => is_constant(&alias.input),
        _ => false,
    }
}

fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

fn nullable(subquery: Subquery) -> Result<Subquery> {
    let plan = subquery.subquery;
    let exprs = plan.schema().columns().into_iter().map(|column| {
        let (relation, name) = (column.relation.clone(), column.name.clone());
        let call = ScalarFunction::new_udf(Arc::new(ScalarUDF::from(OrNull::new())), vec![Expr::Column(column)]);
        Expr::ScalarFunction(call).alias_qualified(relation, name)
    });
    let projection = Projection::try_new(exprs.collect(), plan.clone())?;
    Ok(Subquery { subquery: Arc::new(LogicalPlan::Projection(projection)), ..subquery })
}

/// The name of [`OrNull`].
pub const OR_NULL: &str = "or_null";

/// Its argument, which may be NULL. Volatile, since a constant is not NULL, and this may be.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OrNull {
    signature: Signature,
}

impl OrNull {
    fn new() -> OrNull {
        OrNull { signature: Signature::any(1, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for OrNull {
    fn name(&self) -> &str {
        OR_NULL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(args.arg_fields[0].as_ref().clone().with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}
