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
    unified_with_type(what, exprs, schema).map(|(exprs, _)| exprs)
}

/// The same, and the type; none where DataFusion is to find it.
pub fn unified_with_type(what: &str, exprs: Vec<Expr>, schema: &DFSchema) -> Result<(Vec<Expr>, Option<ColumnType>)> {
    let mut types = exprs.iter().map(|expr| type_of(expr, schema)).collect::<Result<Vec<_>>>()?;
    let beside = |place: usize, own: &Ty, numeric| type_beside(&exprs[place], own, numeric, schema);
    let Some(ty) = agreed(what, &mut types, beside)? else { return Ok((exprs, None)) };
    let exprs = exprs.into_iter().map(|expr| branch(expr, ty, schema)).collect::<Result<_>>()?;
    Ok((exprs, Some(ty)))
}

/// The type that branches have in common; none where DataFusion is to find it. `beside` says the type that the branch of a
/// place has beside numerics, as [`type_beside`] does.
///
/// # Errors
/// 42804 if there is none.
pub fn agreed(
    what: &str,
    types: &mut [Ty],
    beside: impl Fn(usize, &Ty, ColumnType) -> Result<Ty>,
) -> Result<Option<ColumnType>> {
    let ty = common(what, types)?;
    let Some(numeric) = ty.filter(|ty| is_numeric(*ty)) else { return Ok(ty) };
    for (place, own) in types.iter_mut().enumerate() {
        *own = beside(place, own, numeric)?;
    }
    common(what, types)
}

fn common(what: &str, types: &[Ty]) -> Result<Option<ColumnType>> {
    match common_of_all(types) {
        Ok(ty) => Ok(ty),
        Err((a, b)) => {
            let message = format!("{what} types {} and {} cannot be matched", a.name(), b.name());
            fail(Error::new(ErrorKind::DatatypeMismatch, message))
        }
    }
}

/// Whether it is a numeric, or an array of such.
fn is_numeric(ty: ColumnType) -> bool {
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
