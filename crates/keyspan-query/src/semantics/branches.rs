//! Branches of CASE, COALESCE, ARRAY, VALUES and UNION: the one type that all of them take.

use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use keyspan_model::{ColumnType, Error, ErrorKind};

use super::cast::implicit;
use crate::types::{Ty, common_of_all, fail, type_of};

/// The type of expressions that are all of one; none if no type of ours is it.
pub fn known_type(exprs: &[Expr], schema: &DFSchema) -> Result<Option<ColumnType>> {
    Ok(exprs.first().map(|expr| type_of(expr, schema)).transpose()?.and_then(|ty| ty.known()))
}

/// The expressions as one type; 42804 if there is none.
pub fn unified(what: &str, exprs: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    let mut types = exprs.iter().map(|expr| type_of(expr, schema)).collect::<Result<Vec<_>>>()?;
    let mut ty = common_or_error(what, &types)?;
    if let Some(numeric) = ty.filter(|ty| is_numeric(*ty)) {
        for (own, expr) in types.iter_mut().zip(&exprs) {
            *own = type_beside(expr, own, numeric, schema)?;
        }
        ty = common_or_error(what, &types)?;
    }
    match ty {
        Some(ty) => exprs.into_iter().map(|expr| branch(expr, ty, schema)).collect(),
        None => Ok(exprs),
    }
}

/// The type that branches have in common; none where DataFusion is to find it.
///
/// # Errors
/// 42804 if there is none.
pub fn common_or_error(what: &str, types: &[Ty]) -> Result<Option<ColumnType>> {
    match common_of_all(types) {
        Ok(ty) => Ok(ty),
        Err((a, b)) => {
            let message = format!("{what} types {} and {} cannot be matched", a.name(), b.name());
            fail(Error::new(ErrorKind::DatatypeMismatch, message))
        }
    }
}

/// Whether it is a numeric, or an array of such.
pub fn is_numeric(ty: ColumnType) -> bool {
    matches!(ty.element().unwrap_or(ty), ColumnType::Decimal { .. })
}

/// The type of a branch beside numerics: a bare literal or parameter has digits of its own.
pub fn type_beside(expr: &Expr, own: &Ty, numeric: ColumnType, schema: &DFSchema) -> Result<Ty> {
    match own {
        Ty::Unknown => type_of(&implicit(expr.clone(), own, numeric)?, schema),
        own => Ok(own.clone()),
    }
}

/// One of several branches as the type that all of them take. A literal becomes a numeric of the digits that it is written
/// with first, and one of the common digits then.
pub fn branch(expr: Expr, ty: ColumnType, schema: &DFSchema) -> Result<Expr> {
    let expr = implicit_of(expr, ty, schema)?;
    if is_numeric(ty) { implicit_of(expr, ty, schema) } else { Ok(expr) }
}

fn implicit_of(expr: Expr, ty: ColumnType, schema: &DFSchema) -> Result<Expr> {
    let from = type_of(&expr, schema)?;
    implicit(expr, &from, ty)
}
