//! What similarities and distances compare: a vector or an array of numbers on each side, as 4-byte floats. A bare
//! literal or parameter is what the other side is.

use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use keyspan_model::{ColumnType, Error, ErrorKind};

use super::call::{missing, types_of};
use super::cast::{argument, implicit};
use crate::functions::value_call;
use crate::types::{Ty, fail, number_rank};

/// A call of a function that compares two vectors.
pub fn compared(name: &str, args: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    let types = types_of(&args, schema)?;
    let [left, right] = types.as_slice() else { return missing(name, &types) };
    check_dimensions(left, right)?;
    let floats = ColumnType::list(ColumnType::Real);
    let unknown = [left, right].into_iter().filter_map(Ty::known).find(|ty| ty.dimension().is_some());
    let mut sides = Vec::with_capacity(2);
    for (arg, ty) in args.into_iter().zip(&types) {
        sides.push(match ty {
            Ty::Unknown => implicit(arg, ty, unknown.unwrap_or(floats))?,
            // In Arrow it is an array of floats.
            Ty::Known(own) if own.dimension().is_some() || *own == floats => arg,
            // Not a set: it is sorted.
            Ty::Known(own @ ColumnType::List(of)) if number_rank(of.get()).is_some() => argument(arg, *own, floats)?,
            _ => return missing(name, &types),
        });
    }
    value_call(name, sides, &[floats, floats])
}

fn check_dimensions(left: &Ty, right: &Ty) -> Result<()> {
    let dimension = |ty: &Ty| ty.known().and_then(ColumnType::dimension);
    match (dimension(left), dimension(right)) {
        (Some(left), Some(right)) if left != right => {
            let message = format!("different vector dimensions {left} and {right}");
            fail(Error::new(ErrorKind::InvalidArgument, message))
        }
        _ => Ok(()),
    }
}
