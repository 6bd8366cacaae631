//! `ARRAY[…]`: its elements as one type.

use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::planner::PlannerResult;
use keyspan_model::{ColumnType, Value};

use super::branches::unified;
use crate::functions::value_call;
use crate::types::{Ty, literal, metadata_of, type_of, value_of_literal};

/// An array of these elements: a literal if they are, and where its Arrow form does not tell the type a call of ours.
pub fn planned(elements: Vec<Expr>, schema: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
    let elements = unified("ARRAY", elements, schema)?;
    let Some(Ty::Known(ty)) = elements.first().map(|first| type_of(first, schema)).transpose()?.map(typed) else {
        return Ok(PlannerResult::Original(elements));
    };
    if matches!(ty, ColumnType::List(_)) {
        return Ok(PlannerResult::Original(elements));
    }
    let values: Option<Vec<Value>> = elements.iter().map(|element| value_of_literal(element, ty)).collect();
    if let Some(values) = values {
        return Ok(PlannerResult::Planned(literal(&Value::List(values), ColumnType::frozen_list(ty))?));
    }
    if metadata_of(ty).is_none() {
        return Ok(PlannerResult::Original(elements));
    }
    let types = vec![ty; elements.len()];
    Ok(PlannerResult::Planned(value_call("make_list", elements, &types)?))
}

/// Literals of text have no type of their own.
fn typed(ty: Ty) -> Ty {
    if ty == Ty::Unknown { Ty::Known(ColumnType::Text) } else { ty }
}
