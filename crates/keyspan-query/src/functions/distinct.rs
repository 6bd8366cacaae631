//! An aggregate of our own over the values that are different: `stddev(DISTINCT n)`.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::types::ArrowPrimitiveType;
use arrow::array::{ArrayRef, PrimitiveArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use datafusion_functions_aggregate_common::utils::GenericDistinctBuffer;

/// The values that are different, and the aggregate that takes them in the end.
#[derive(Debug)]
pub struct Distinct<T: ArrowPrimitiveType, A> {
    ty: DataType,
    seen: GenericDistinctBuffer<T>,
    /// Has seen no value yet.
    aggregate: A,
}

impl<T: ArrowPrimitiveType, A> Distinct<T, A> {
    /// Of values of this Arrow type.
    pub fn new(ty: DataType, aggregate: A) -> Distinct<T, A> {
        Distinct { seen: GenericDistinctBuffer::new(ty.clone()), ty, aggregate }
    }
}

/// The state of [`Distinct`]: a list of the values.
pub fn distinct_state(name: &str, ty: DataType) -> Vec<FieldRef> {
    vec![Arc::new(Field::new_list(format!("{name}[distinct]"), Field::new_list_field(ty, true), true))]
}

impl<T, A> Accumulator for Distinct<T, A>
where
    T: ArrowPrimitiveType + Debug,
    A: Accumulator,
{
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.seen.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.seen.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let values = PrimitiveArray::<T>::from_iter_values(self.seen.values.iter().map(|value| value.0));
        self.aggregate.update_batch(&[Arc::new(values.with_data_type(self.ty.clone()))])?;
        self.aggregate.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.seen.state()
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.seen.size()
    }
}
