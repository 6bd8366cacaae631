//! Aggregates over frames that move, which cannot take back a value: folded anew for each frame.
//!
//! `string_agg`, `bool_and`, `array_agg`, `percentile_cont` and their like. Each row costs as much as its frame has rows.
//!
//! Frames that only grow are read forwards. DataFusion reads rows of the opposite order backwards where that saves a sort,
//! and takes back a value for each row: not all aggregates can, floats lose digits, and lists come out backwards.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, ReversedUDAF, Signature};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

use super::extreme;
use crate::error::external;
use crate::interrupt;

/// Aggregates that take values back, and that DataFusion looks for by their names.
const TAKE_BACK: [&str; 5] = ["count", "sum", "avg", "min", "max"];

/// The aggregate over frames that move; `None` for one that can do so by itself.
pub fn over_moving_frame(function: &Arc<AggregateUDF>) -> Option<Arc<AggregateUDF>> {
    (!takes_back(function)).then(|| refolded(function)).flatten()
}

/// The aggregate over frames from the first row on, read forwards; `None` for one that may be read backwards.
pub fn over_growing_frame(function: &Arc<AggregateUDF>, of_floats: bool) -> Option<Arc<AggregateUDF>> {
    (of_floats || !takes_back(function)).then(|| refolded(function)).flatten()
}

fn takes_back(function: &AggregateUDF) -> bool {
    TAKE_BACK.contains(&function.name()) && !extreme::is_own(function)
}

fn refolded(function: &Arc<AggregateUDF>) -> Option<Arc<AggregateUDF>> {
    let known = function.inner().is::<Refolded>();
    (!known).then(|| Arc::new(AggregateUDF::from(Refolded { inner: function.clone() })))
}

/// An aggregate that is computed anew where it cannot take back, and that is never read backwards.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Refolded {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Refolded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(ty)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let call = Call::of(&self.inner, &args);
        let sliding = self.inner.create_sliding_accumulator(args)?;
        if sliding.supports_retract_batch() {
            return Ok(sliding);
        }
        Ok(Box::new(Frame { call, rows: VecDeque::new(), left: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }
}

/// What an accumulator is made of.
#[derive(Debug)]
struct Call {
    function: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: SchemaRef,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Call {
    fn of(function: &Arc<AggregateUDF>, args: &AccumulatorArgs<'_>) -> Call {
        Call {
            function: function.clone(),
            return_field: args.return_field.clone(),
            schema: Arc::new(Schema::clone(args.schema)),
            ignore_nulls: args.ignore_nulls,
            order_bys: args.order_bys.to_vec(),
            is_reversed: args.is_reversed,
            name: args.name.to_owned(),
            is_distinct: args.is_distinct,
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
        }
    }

    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: self.return_field.clone(),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}

/// The arguments of a frame's rows.
#[derive(Debug)]
struct Frame {
    call: Call,
    rows: VecDeque<Vec<ArrayRef>>,
    /// Rows at the front that have left the frame.
    left: usize,
}

fn length(values: &[ArrayRef]) -> usize {
    values.first().map_or(0, |array| array.len())
}

impl Frame {
    /// The rows as one batch; of none, nothing.
    fn whole(&mut self) -> Result<Option<Vec<ArrayRef>>> {
        while self.rows.front().is_some_and(|values| length(values) <= self.left) {
            self.left -= self.rows.pop_front().as_deref().map_or(0, length);
        }
        let Some(columns) = self.rows.front().map(Vec::len) else { return Ok(None) };
        let rows = self.rows.drain(..).collect::<Vec<_>>();
        let column = |at: usize| {
            let parts: Vec<&dyn Array> = rows.iter().map(|values| values[at].as_ref()).collect();
            let all = concat(&parts)?;
            Ok(all.slice(self.left, all.len() - self.left))
        };
        let whole = (0..columns).map(column).collect::<Result<Vec<ArrayRef>>>()?;
        self.left = 0;
        self.rows.push_back(whole.clone());
        Ok(Some(whole))
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if length(values) > 0 {
            self.rows.push_back(values.to_vec());
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.left += length(values);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        interrupt::check().map_err(external)?;
        let mut accumulator = self.call.accumulator()?;
        if let Some(rows) = self.whole()? {
            accumulator.update_batch(&rows)?;
        }
        accumulator.evaluate()
    }

    fn size(&self) -> usize {
        let bytes = |values: &Vec<ArrayRef>| values.iter().map(|array| array.get_array_memory_size()).sum::<usize>();
        size_of_val(self) + self.rows.iter().map(bytes).sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Err(only_in_windows())
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        Err(only_in_windows())
    }
}

fn only_in_windows() -> DataFusionError {
    DataFusionError::Internal("an aggregate of a moving frame has no parts".into())
}
