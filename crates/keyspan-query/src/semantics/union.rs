//! UNION, and the two terms of WITH RECURSIVE: each column's branches as one type, or 42804. DataFusion would make texts of
//! what does not agree.
//!
//! Rule: the types are settled before anything is planned over a union, since what is planned over it asks for them. So
//! every union that something can be computed from is a relation: in FROM, in WITH, in a view, and, since
//! [`super::expand`] makes it one, in a subquery that is an expression.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::TableReference;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, RecursiveQuery, Union};
use datafusion::sql::sqlparser::ast::TableFactor;
use keyspan_model::types::TYPE_KEY;
use keyspan_model::{ColumnType, Error, ErrorKind};

use super::cast::implicit;
use crate::types::common_of_all;
use crate::types::{Ty, fail, field_type, type_of};

/// Whether a node is what [`coerce_unions`] looks for.
pub fn is_union(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Union(_) | LogicalPlan::RecursiveQuery(_))
}

fn has_unions(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= is_union(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// A plan whose unions have their types.
pub fn coerce_unions(plan: LogicalPlan) -> Result<LogicalPlan> {
    let changed = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Union(union) => agreed(union).map(Transformed::yes),
        LogicalPlan::RecursiveQuery(query) => same_fields(query).map(Transformed::yes),
        other => other.recompute_schema().map(Transformed::yes),
    });
    Ok(changed?.data)
}

/// Plans relations as DataFusion does, and settles the unions in them.
#[derive(Debug, Default)]
pub struct UnionRelation {
    /// Set while a relation is given to DataFusion, which asks here once more.
    passing: AtomicBool,
}

impl RelationPlanner for UnionRelation {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let may_hold = matches!(relation, TableFactor::Derived { .. } | TableFactor::Table { args: None, .. });
        if self.passing.swap(false, Ordering::Relaxed) || !may_hold {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        self.passing.store(true, Ordering::Relaxed);
        let plan = context.plan(relation)?;
        let plan = if has_unions(&plan)? { coerce_unions(plan)? } else { plan };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// Both terms with the fields of the whole: a column of a table says its type in its field, an expression does not.
fn same_fields(query: RecursiveQuery) -> Result<LogicalPlan> {
    let as_whole = |term: Arc<LogicalPlan>| -> Result<Arc<LogicalPlan>> {
        let pairs = || query.schema.fields().iter().zip(term.schema().fields());
        if pairs().all(|(whole, own)| whole.metadata() == own.metadata()) {
            return Ok(term);
        }
        let exprs = term.schema().columns().into_iter().zip(query.schema.fields()).map(|(column, whole)| {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            let metadata = FieldMetadata::from(whole.metadata().clone());
            Expr::Column(column).alias_qualified_with_metadata(relation, name, Some(metadata))
        });
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs.collect(), term.clone())?)))
    };
    let (static_term, recursive_term) = (as_whole(query.static_term.clone())?, as_whole(query.recursive_term.clone())?);
    Ok(LogicalPlan::RecursiveQuery(RecursiveQuery { static_term, recursive_term, ..query }))
}

/// The branch's type of a column; a bare literal's is not known yet.
fn branch_type(branch: &LogicalPlan, column: usize) -> Result<Ty> {
    if let LogicalPlan::Projection(projection) = branch
        && let Some(expr) = projection.expr.get(column)
    {
        return type_of(expr, projection.input.schema());
    }
    Ok(field_type(branch.schema().field(column)))
}

fn agreed(union: Union) -> Result<LogicalPlan> {
    let columns = union.inputs.first().map_or(0, |input| input.schema().fields().len());
    if union.inputs.iter().any(|input| input.schema().fields().len() != columns) {
        return Ok(LogicalPlan::Union(union));
    }
    let mut wanted = Vec::with_capacity(columns);
    let mut types = vec![Vec::with_capacity(columns); union.inputs.len()];
    for column in 0..columns {
        let each = union.inputs.iter().map(|input| branch_type(input, column)).collect::<Result<Vec<_>>>()?;
        wanted.push(match common_of_all(&each) {
            Ok(ty) => ty,
            Err((a, b)) => {
                let message = format!("UNION types {} and {} cannot be matched", a.name(), b.name());
                return fail(Error::new(ErrorKind::DatatypeMismatch, message));
            }
        });
        for (types, ty) in types.iter_mut().zip(each) {
            types.push(ty);
        }
    }
    let inputs = union.inputs.into_iter().zip(types).map(|(input, types)| cast(input, &types, &wanted));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))
}

/// The branch with its columns cast to these types, which all branches' fields say alike, whatever the optimizer makes of
/// what they are computed from; as it is if it is so already.
fn cast(input: Arc<LogicalPlan>, types: &[Ty], wanted: &[Option<ColumnType>]) -> Result<Arc<LogicalPlan>> {
    let says = |index: usize| input.schema().field(index).metadata().get(TYPE_KEY);
    let is_so = |(index, ty): (usize, &Ty)| {
        wanted[index]
            .is_none_or(|wanted| *ty == Ty::Known(wanted) && says(index).is_some_and(|said| *said == wanted.code()))
    };
    if types.iter().enumerate().all(is_so) {
        return Ok(input);
    }
    let convert = |expr: Expr, index: usize, name: (Option<TableReference>, String)| {
        let Some(ty) = wanted[index] else { return Ok(expr.alias_qualified(name.0, name.1)) };
        let expr = if types[index] == Ty::Known(ty) { expr } else { implicit(expr, &types[index], ty)? };
        let metadata = FieldMetadata::new(BTreeMap::from([(TYPE_KEY.to_owned(), ty.code())]));
        Ok(expr.alias_qualified_with_metadata(name.0, name.1, Some(metadata)))
    };
    let (exprs, below): (Result<Vec<Expr>>, _) = match input.as_ref() {
        LogicalPlan::Projection(projection) => {
            let exprs = projection.expr.iter().enumerate().map(|(index, expr)| {
                let (qualifier, field) = projection.schema.qualified_field(index);
                convert(expr.clone().unalias(), index, (qualifier.cloned(), field.name().clone()))
            });
            (exprs.collect(), projection.input.clone())
        }
        _ => {
            let exprs = input.schema().columns().into_iter().enumerate().map(|(index, column)| {
                let name = (column.relation.clone(), column.name.clone());
                convert(Expr::Column(column), index, name)
            });
            (exprs.collect(), input)
        }
    };
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs?, below)?)))
}
