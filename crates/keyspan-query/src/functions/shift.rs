//! `lag` and `lead` whose distance or default is not a constant: `lag(v, n)`, `lead(v, 1, w)`.
//!
//! DataFusion's own take constants. Here both are read from the row that asks. A distance of NULL gives NULL; one that
//! leads out of the partition gives the default.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, UInt32Array, new_null_array};
use arrow::compute::{interleave, take};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::error::Result;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    Expr, LimitEffect, PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_expr::PhysicalExpr;
use keyspan_model::{Error, ErrorKind};

use crate::error::external;

static BOTH: LazyLock<[Arc<WindowUDF>; 2]> = LazyLock::new(|| {
    ["lag", "lead"].map(|name| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(WindowUDF::from(Shift { name, signature }))
    })
});

/// The function for these arguments, if DataFusion's own does not take them.
pub fn by_columns(name: &str, args: &[Expr]) -> Option<Arc<WindowUDF>> {
    let constant = |arg: &Expr| match arg {
        Expr::Cast(cast) => matches!(*cast.expr, Expr::Literal(..)),
        arg => matches!(arg, Expr::Literal(..)),
    };
    let own = args.iter().skip(1).any(|arg| !constant(arg));
    BOTH.iter().find(|function| own && function.name() == name).cloned()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Shift {
    name: &'static str,
    signature: Signature,
}

impl WindowUDFImpl for Shift {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [value, rest @ ..] = types else { return Err(missing(self.name)) };
        match rest {
            [] => Ok(vec![value.clone()]),
            [_] => Ok(vec![value.clone(), DataType::Int64]),
            [_, _] => Ok(vec![value.clone(), DataType::Int64, value.clone()]),
            _ => Err(missing(self.name)),
        }
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> Result<FieldRef> {
        let Some(value) = args.get_input_field(0) else { return Err(missing(self.name)) };
        let field = Field::new(args.name(), value.data_type().clone(), true);
        Ok(Arc::new(field.with_metadata(value.metadata().clone())))
    }

    fn partition_evaluator(&self, _: PartitionEvaluatorArgs<'_>) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Partition { ahead: self.name == "lead" }))
    }

    fn limit_effect(&self, _: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

fn missing(name: &str) -> datafusion::error::DataFusionError {
    let message = format!("function {name} of these argument types does not exist");
    external(Error::new(ErrorKind::UndefinedFunction, message))
}

/// One partition: all its rows are there at once.
#[derive(Debug)]
struct Partition {
    ahead: bool,
}

/// Where the value of a row comes from.
enum From {
    Row(usize),
    Default,
    Null,
}

impl Partition {
    fn source(&self, row: usize, rows: usize, distance: Option<i64>) -> From {
        let Some(distance) = distance else { return From::Null };
        let row = row as i64;
        let at = if self.ahead { row.checked_add(distance) } else { row.checked_sub(distance) };
        match at.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < rows) {
            Some(at) => From::Row(at),
            None => From::Default,
        }
    }
}

impl PartitionEvaluator for Partition {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let value = &values[0];
        let distances = values.get(1).map(|array| array.as_primitive::<Int64Type>());
        let distance = |row: usize| distances.map_or(Some(1), |array| array.is_valid(row).then(|| array.value(row)));
        let sources = (0..rows).map(|row| self.source(row, rows, distance(row)));
        let Some(default) = values.get(2) else {
            let places: UInt32Array = sources
                .map(|source| match source {
                    From::Row(at) => Some(at as u32),
                    From::Default | From::Null => None,
                })
                .collect();
            return Ok(take(value, &places, None)?);
        };
        let null = new_null_array(value.data_type(), 1);
        let places: Vec<(usize, usize)> = sources
            .enumerate()
            .map(|(row, source)| match source {
                From::Row(at) => (0, at),
                From::Default => (1, row),
                From::Null => (2, 0),
            })
            .collect();
        Ok(interleave(&[value.as_ref(), default.as_ref(), null.as_ref()], &places)?)
    }
}
