//! UNION, INTERSECT and EXCEPT, and the two terms of WITH RECURSIVE: each column's branches as one type, or 42804.
//! DataFusion would make texts of what does not agree, or go by the first branch.
//!
//! Rule: the types are settled before anything is planned over a union, since what is planned over it asks for them. So
//! every union (and the join that INTERSECT or EXCEPT is) that something can be computed from is a relation: in FROM, in WITH, in a view, and, since
//! [`super::expand`] makes it one, in a subquery that is an expression.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::FieldRef;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, TableReference};
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan, Projection, RecursiveQuery, SubqueryAlias, Union};
use datafusion::sql::sqlparser::ast::TableFactor;
use keyspan_model::ColumnType;
use keyspan_model::types::TYPE_KEY;

use super::branches::{self, branch, type_beside};
use super::{recursive, short_names};
use crate::types::{Ty, field_type, type_of};

/// Whether a node is what [`coerce_unions`] looks for.
pub fn is_union(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Union(_) | LogicalPlan::RecursiveQuery(_) => true,
        LogicalPlan::Join(join) => is_set_operation(join),
        _ => false,
    }
}

/// Whether a join is INTERSECT or EXCEPT: of all columns of both sides, NULL being like NULL.
pub fn is_set_operation(join: &Join) -> bool {
    let columns = join.left.schema().fields().len();
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == columns
        && join.right.schema().fields().len() == columns
        && join.on.iter().all(|(left, right)| matches!((left, right), (Expr::Column(_), Expr::Column(_))))
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
    let flat = |plan| match plan {
        LogicalPlan::Union(union) => Ok(Transformed::yes(LogicalPlan::Union(flattened(union)))),
        other => Ok(Transformed::no(other)),
    };
    let changed = plan.transform_down_up_with_subqueries(flat, |plan| match plan {
        LogicalPlan::Union(union) => agreed(union).map(Transformed::yes),
        LogicalPlan::RecursiveQuery(query) => same_fields(query).map(Transformed::yes),
        LogicalPlan::Join(join) if is_set_operation(&join) => agreed_sides(join).map(Transformed::yes),
        other => other.recompute_schema().map(Transformed::yes),
    });
    Ok(changed?.data)
}

/// A UNION ALL of others as one: all branches have a say in its types, so that literals before them take theirs.
fn flattened(union: Union) -> Union {
    let mut inputs = Vec::with_capacity(union.inputs.len());
    for input in union.inputs {
        match input.as_ref() {
            LogicalPlan::Union(inner) => inputs.extend(flattened(inner.clone()).inputs),
            _ => inputs.push(input),
        }
    }
    Union { inputs, schema: union.schema }
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
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let may_hold = matches!(relation, TableFactor::Derived { .. } | TableFactor::Table { args: None, .. });
        if self.passing.swap(false, Ordering::Relaxed) || !may_hold {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        self.passing.store(true, Ordering::Relaxed);
        let names = short_names::take_names(&mut relation);
        let plan = context.plan(relation)?;
        let plan = if names.is_empty() { plan } else { short_names::with_names(plan, &names)? };
        let plan = if has_unions(&plan)? { coerce_unions(plan)? } else { plan };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// Both terms, and the whole, with the same types in their fields: a column of a table says its type in its field, an
/// expression does not.
fn same_fields(query: RecursiveQuery) -> Result<LogicalPlan> {
    let recursive_term = recursive::checked_term(&query)?;
    let query = RecursiveQuery { recursive_term: Arc::new(recursive_term), ..query };
    let pairs = query.schema.fields().iter().zip(query.recursive_term.schema().fields());
    // A cast of a column says nothing of its type in the logical plan, and the column's type in the physical one.
    let said: Vec<FieldMetadata> = pairs
        .clone()
        .map(|(whole, _)| {
            let mut metadata = FieldMetadata::from(whole.metadata().clone());
            if let Some(ty) = field_type(whole).known() {
                metadata.extend(FieldMetadata::new(BTreeMap::from([(TYPE_KEY.to_owned(), ty.code())])));
            }
            metadata
        })
        .collect();
    let is_said = |((whole, own), said): ((&FieldRef, &FieldRef), &FieldMetadata)| {
        [whole, own].into_iter().all(|field| FieldMetadata::from(field.metadata().clone()) == *said)
    };
    if pairs.zip(&said).all(is_said) {
        return Ok(LogicalPlan::RecursiveQuery(query));
    }
    let as_said = |term: &Arc<LogicalPlan>| -> Result<Arc<LogicalPlan>> {
        let exprs = term.schema().columns().into_iter().zip(&said).map(|(column, metadata)| {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            Expr::Column(column).alias_qualified_with_metadata(relation, name, Some(metadata.clone()))
        });
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs.collect(), term.clone())?)))
    };
    let (static_term, recursive_term) = (as_said(&query.static_term)?, as_said(&query.recursive_term)?);
    let RecursiveQuery { name, is_distinct, .. } = query;
    RecursiveQuery::try_new(name, static_term, recursive_term, is_distinct).map(LogicalPlan::RecursiveQuery)
}

/// The branch's type of a column; a bare literal's is not known yet.
fn branch_type(branch: &LogicalPlan, column: usize) -> Result<Ty> {
    match branch {
        LogicalPlan::Projection(projection) if column < projection.expr.len() => {
            type_of(&projection.expr[column], projection.input.schema())
        }
        LogicalPlan::SubqueryAlias(alias) => branch_type(&alias.input, column),
        _ => Ok(field_type(branch.schema().field(column))),
    }
}

/// The same beside numerics.
fn branch_type_beside(branch: &LogicalPlan, column: usize, own: &Ty, numeric: ColumnType) -> Result<Ty> {
    match branch {
        LogicalPlan::Projection(projection) if column < projection.expr.len() => {
            type_beside(&projection.expr[column], own, numeric, projection.input.schema())
        }
        LogicalPlan::SubqueryAlias(alias) => branch_type_beside(&alias.input, column, own, numeric),
        _ => Ok(own.clone()),
    }
}

/// The types of the branches' columns, and of each column the one that all branches take.
struct Agreed {
    types: Vec<Vec<Ty>>,
    wanted: Vec<Option<ColumnType>>,
}

impl Agreed {
    fn of(what: &str, branches: &[&LogicalPlan], columns: usize) -> Result<Agreed> {
        let mut wanted = Vec::with_capacity(columns);
        let mut types = vec![Vec::with_capacity(columns); branches.len()];
        for column in 0..columns {
            let mut each = branches.iter().map(|branch| branch_type(branch, column)).collect::<Result<Vec<_>>>()?;
            let beside = |place: usize, own: &Ty, numeric| branch_type_beside(branches[place], column, own, numeric);
            wanted.push(branches::agreed(what, &mut each, beside)?);
            for (types, ty) in types.iter_mut().zip(each) {
                types.push(ty);
            }
        }
        Ok(Agreed { types, wanted })
    }
}

/// INTERSECT and EXCEPT with both sides of one type. The rows of the left side are distinct already: they stay so.
fn agreed_sides(join: Join) -> Result<LogicalPlan> {
    let columns = join.on.len();
    let distinct = match join.left.as_ref() {
        LogicalPlan::Distinct(Distinct::All(input)) => Some(Arc::clone(input)),
        _ => None,
    };
    let left = distinct.clone().unwrap_or_else(|| Arc::clone(&join.left));
    let what = if join.join_type == JoinType::LeftAnti { "EXCEPT" } else { "INTERSECT" };
    let agreed = Agreed::of(what, &[&left, &join.right], columns)?;
    let [left_types, right_types] = agreed.types.as_slice() else { return Ok(LogicalPlan::Join(join)) };
    let (new_left, right) =
        (cast(left, left_types, &agreed.wanted)?, cast(Arc::clone(&join.right), right_types, &agreed.wanted)?);
    let left = match distinct {
        Some(_) => Arc::new(LogicalPlan::Distinct(Distinct::All(new_left))),
        None => new_left,
    };
    let on = left.schema().columns().into_iter().zip(right.schema().columns());
    let on = on.map(|(left, right)| (Expr::Column(left), Expr::Column(right))).collect();
    let Join { join_type, join_constraint, null_equality, null_aware, .. } = join;
    Join::try_new(left, right, on, None, join_type, join_constraint, null_equality, null_aware).map(LogicalPlan::Join)
}

fn agreed(union: Union) -> Result<LogicalPlan> {
    let columns = union.inputs.first().map_or(0, |input| input.schema().fields().len());
    if union.inputs.iter().any(|input| input.schema().fields().len() != columns) {
        return Ok(LogicalPlan::Union(union));
    }
    let branches: Vec<&LogicalPlan> = union.inputs.iter().map(AsRef::as_ref).collect();
    let Agreed { types, wanted } = Agreed::of("UNION", &branches, columns)?;
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
    let convert = |expr: Expr, index: usize, schema: &DFSchema, name: (Option<TableReference>, String)| {
        let Some(ty) = wanted[index] else { return Ok(expr.alias_qualified(name.0, name.1)) };
        let expr = branch(expr, ty, schema)?;
        let metadata = FieldMetadata::new(BTreeMap::from([(TYPE_KEY.to_owned(), ty.code())]));
        Ok(expr.alias_qualified_with_metadata(name.0, name.1, Some(metadata)))
    };
    let (exprs, below): (Result<Vec<Expr>>, _) = match input.as_ref() {
        LogicalPlan::SubqueryAlias(alias) => {
            let inner = cast(Arc::clone(&alias.input), types, wanted)?;
            return Ok(Arc::new(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(inner, alias.alias.clone())?)));
        }
        LogicalPlan::Projection(projection) => {
            let exprs = projection.expr.iter().enumerate().map(|(index, expr)| {
                let (qualifier, field) = projection.schema.qualified_field(index);
                convert(
                    expr.clone().unalias(),
                    index,
                    projection.input.schema(),
                    (qualifier.cloned(), field.name().clone()),
                )
            });
            (exprs.collect(), projection.input.clone())
        }
        _ => {
            let exprs = input.schema().columns().into_iter().enumerate().map(|(index, column)| {
                let name = (column.relation.clone(), column.name.clone());
                convert(Expr::Column(column), index, input.schema(), name)
            });
            (exprs.collect(), Arc::clone(&input))
        }
    };
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs?, below)?)))
}
