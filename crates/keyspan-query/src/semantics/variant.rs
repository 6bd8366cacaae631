//! Variants beside values of one type: `meta['miles'] > 5`.
//!
//! Such a variant is asked for a value of the other side's kind, and is NULL where it holds another: a number, whichever
//! its own type, a text, a boolean or bytes. Beside integers and numerics it is a numeric, exact to ten digits after the
//! point, and one beyond them is more or less than all; beside floats and longer numerics it is a double. Two variants are compared by type, then by value.

use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use keyspan_model::ColumnType;
use keyspan_model::types::{DECIMAL_DIGITS, DECIMAL_SCALE};

use super::operator::Sides;
use crate::functions::{value_call, variant};
use crate::types::{Ty, number_rank};

/// The sides with a variant as a value of the other side's kind.
pub fn beside(mut sides: Sides) -> Result<Sides> {
    let is_variant = |ty: &Ty| matches!(ty, Ty::Known(ty) if ty.is_variant());
    match (is_variant(&sides.left_type), is_variant(&sides.right_type)) {
        (true, false) => (sides.left, sides.left_type) = held(sides.left, sides.left_type, &sides.right_type)?,
        (false, true) => (sides.right, sides.right_type) = held(sides.right, sides.right_type, &sides.left_type)?,
        _ => {}
    }
    Ok(sides)
}

fn held(value: Expr, own: Ty, beside: &Ty) -> Result<(Expr, Ty)> {
    let (function, ty) = match beside {
        Ty::Known(ColumnType::Real | ColumnType::Double) => (variant::DOUBLE, ColumnType::Double),
        Ty::Known(ty) if !fits(*ty) => (variant::DOUBLE, ColumnType::Double),
        Ty::Known(ty) if number_rank(*ty).is_some() => (variant::COMPARED, variant::NUMERIC),
        Ty::Known(ColumnType::Boolean) => (variant::BOOLEAN, ColumnType::Boolean),
        Ty::Known(ColumnType::Blob) => (variant::BLOB, ColumnType::Blob),
        Ty::Unknown | Ty::Known(ColumnType::Text | ColumnType::Ascii) => (variant::TEXT, ColumnType::Text),
        _ => return Ok((value, own)),
    };
    Ok((value_call(function, vec![value], &[ColumnType::variant()])?, Ty::Known(ty)))
}

/// Whether a number beside a variant is one of [`variant::NUMERIC`], so that both can be compared as such.
fn fits(ty: ColumnType) -> bool {
    match ty {
        ColumnType::Decimal { precision, scale } => {
            i16::from(precision) - i16::from(scale) <= i16::from(DECIMAL_DIGITS) - i16::from(DECIMAL_SCALE)
                && scale <= DECIMAL_SCALE
        }
        _ => true,
    }
}
