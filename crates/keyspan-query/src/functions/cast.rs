//! Casts that Arrow's kernels do not do as Postgres does.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use keyspan_model::{ColumnBuilder, ColumnType, value_at};

use super::overload::zone_of;
use super::whole_arrays;
use crate::error::external;
use crate::types::Zone;
use crate::types::cast::{Target, cast_to_target, needs_zone};
use crate::types::{field_of, value_of_literal};

/// A cast from one type to another.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CastFunction {
    from: ColumnType,
    target: Target,
    name: String,
    signature: Signature,
}

impl CastFunction {
    /// The cast between these types.
    pub fn new(from: ColumnType, target: Target) -> CastFunction {
        // What depends on the session's zone must not be computed before a session is known.
        let volatility = Volatility::Stable;
        let name = format!("cast_to_{}", target.ty.name().replace(' ', "_"));
        CastFunction { from, target, name, signature: Signature::any(1, volatility) }
    }

    /// Whether the session's zone decides the result for these arguments.
    pub fn follows_zone(&self, args: &[Expr]) -> bool {
        if !needs_zone(self.from, self.target.ty) {
            return false;
        }
        let value = args.first().and_then(|arg| value_of_literal(arg, self.from));
        // A text may name a zone itself.
        let in_zone = |hours| cast_to_target(value.clone()?, self.from, self.target, Zone::Fixed(hours)).ok();
        in_zone(0).is_none() || in_zone(0) != in_zone(3_600)
    }
}

impl ScalarUDFImpl for CastFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.target.ty.arrow())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(field_of(self.target.ty, &self.name, true)))
    }

    /// What Arrow does as well becomes DataFusion's own cast, which its optimizer sees through.
    fn simplify(&self, mut args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match args.pop() {
            Some(arg) if self.target.is_native_from(self.from) => {
                let cast = Cast::new(Box::new(arg), self.target.ty.arrow());
                Ok(ExprSimplifyResult::Simplified(Expr::Cast(cast)))
            }
            arg => Ok(ExprSimplifyResult::Original(arg.into_iter().collect())),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let zone = zone_of(&args.config_options)?;
        let (array, scalar) = match &args.args[0] {
            ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
            ColumnarValue::Array(array) => (array.clone(), false),
        };
        if !scalar
            && !self.target.changes_values()
            && let Some(cast) = whole_arrays::cast(&array, self.from, self.target.ty, zone)
        {
            return Ok(ColumnarValue::Array(cast));
        }
        let mut builder = ColumnBuilder::with_capacity(self.target.ty, array.len());
        for row in 0..array.len() {
            let value = value_at(array.as_ref(), row, self.from).map_err(external)?;
            let cast = cast_to_target(value, self.from, self.target, zone).map_err(external)?;
            builder.append(&cast).map_err(external)?;
        }
        let cast = builder.finish();
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&cast, 0)?),
            false => ColumnarValue::Array(cast),
        })
    }
}
