//! UNION, and the two terms of WITH RECURSIVE: each column's branches as one type, or 42804. DataFusion would make texts of what does not agree.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, RecursiveQuery, Union};
use datafusion::optimizer::AnalyzerRule;
use keyspan_model::{ColumnType, Error, ErrorKind};

use super::cast::implicit;
use super::common::common_of_all;
use super::types::{Ty, fail, field_type, type_of};

/// The rule.
#[derive(Debug)]
pub struct UnionTypes;

impl AnalyzerRule for UnionTypes {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !plan.exists(|plan| Ok(matches!(plan, LogicalPlan::Union(_) | LogicalPlan::RecursiveQuery(_))))? {
            return Ok(plan);
        }
        let changed = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Union(union) => agreed(union).map(Transformed::yes),
            LogicalPlan::RecursiveQuery(query) => same_fields(query).map(Transformed::yes),
            other => other.recompute_schema().map(Transformed::yes),
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &str {
        "union_types"
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

/// The branch with its columns cast; as it is if they have the types already.
fn cast(input: Arc<LogicalPlan>, types: &[Ty], wanted: &[Option<ColumnType>]) -> Result<Arc<LogicalPlan>> {
    let same = types.iter().zip(wanted).all(|(ty, wanted)| wanted.is_none_or(|wanted| *ty == Ty::Known(wanted)));
    if same {
        return Ok(input);
    }
    let convert = |expr: Expr, index: usize| match wanted[index] {
        Some(ty) if types[index] != Ty::Known(ty) => implicit(expr, &types[index], ty),
        _ => Ok(expr),
    };
    if let LogicalPlan::Projection(projection) = input.as_ref() {
        let exprs = projection.expr.iter().enumerate().map(|(index, expr)| {
            let (qualifier, field) = projection.schema.qualified_field(index);
            Ok(convert(expr.clone().unalias(), index)?.alias_qualified(qualifier.cloned(), field.name()))
        });
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        return Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, projection.input.clone())?)));
    }
    let exprs = input.schema().columns().into_iter().enumerate().map(|(index, column)| {
        let (relation, name) = (column.relation.clone(), column.name.clone());
        Ok(convert(Expr::Column(column), index)?.alias_qualified(relation, name))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(LogicalPlanBuilder::from(input.as_ref().clone()).project(exprs)?.build()?))
}
