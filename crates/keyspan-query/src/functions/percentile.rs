//! `percentile_cont(f) WITHIN GROUP (ORDER BY x)`: the value at a fraction of the group's values in order, between two of
//! them where it falls there.
//!
//! DataFusion's takes the fraction between two values to six digits, which PostgreSQL's does not.
//!
//! ```text
//! at = f · (n − 1)        x[⌊at⌋] + (x[⌈at⌉] − x[⌊at⌋]) · (at − ⌊at⌋)
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, ListArray, RecordBatch};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use keyspan_model::value::{double_of_rank, double_rank};
use keyspan_model::{Error, ErrorKind};

use super::counter::refuse_distinct;
use super::group_state::passing_rows;
use crate::error::external;

/// The function.
pub fn function() -> Arc<AggregateUDF> {
    let signature = Signature::exact(vec![DataType::Float64; 2], Volatility::Immutable);
    Arc::new(AggregateUDF::from(PercentileCont { signature, aliases: vec!["quantile_cont".to_owned()] }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PercentileCont {
    signature: Signature,
    aliases: Vec<String>,
}

impl AggregateUDFImpl for PercentileCont {
    fn name(&self) -> &str {
        "percentile_cont"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(OneGroup { place: Place::of(&args)?, values: Vec::new() }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[values]", args.name), values_type(), true))])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(ManyGroups::new(Place::of(&args)?)))
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }
}

fn item() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Float64, true))
}

fn values_type() -> DataType {
    DataType::List(item())
}

/// Where the value is looked for.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// From 0 to 1; `None`: NULL, at which there is no value.
    fraction: Option<f64>,
    descending: bool,
}

impl Place {
    fn of(args: &AccumulatorArgs<'_>) -> Result<Place> {
        refuse_distinct(args)?;
        let fraction = args.exprs[1].evaluate(&RecordBatch::new_empty(Arc::new(args.schema.clone())))?;
        let ColumnarValue::Scalar(ScalarValue::Float64(fraction)) = fraction else {
            return Err(external(Error::not_supported("the fraction of percentile_cont() must be a constant")));
        };
        if let Some(outside) = fraction.filter(|fraction| !(0.0..=1.0).contains(fraction)) {
            let message = format!("percentile value {outside} is not between 0 and 1");
            return Err(external(Error::new(ErrorKind::NumericOverflow, message)));
        }
        let descending = args.order_bys.first().is_some_and(|order| order.options.descending);
        Ok(Place { fraction, descending })
    }

    /// The value there.
    fn value(self, values: &[f64]) -> Option<f64> {
        let at = self.fraction? * (values.len().checked_sub(1)? as f64);
        // Whole numbers are put in order faster than floats, which have a NaN.
        let turned = if self.descending { u64::MAX } else { 0 };
        let mut ranks: Vec<u64> = values.iter().map(|value| double_rank(*value) ^ turned).collect();
        let (_, lower, behind) = ranks.select_nth_unstable(at.floor() as usize);
        let value = |rank: u64| double_of_rank(rank ^ turned);
        let lower = value(*lower);
        match behind.iter().min().filter(|_| at.fract() > 0.0) {
            Some(upper) => Some(lower + (value(*upper) - lower) * at.fract()),
            None => Some(lower),
        }
    }
}

/// The values of all rows, or of a frame.
#[derive(Debug)]
struct OneGroup {
    place: Place,
    values: Vec<f64>,
}

impl Accumulator for OneGroup {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>();
        match values.null_count() {
            0 => self.values.extend_from_slice(values.values()),
            _ => self.values.extend(values.iter().flatten()),
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.update_batch(&[values]))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.place.value(&self.values)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let lists = lists(vec![std::mem::take(&mut self.values)])?;
        Ok(vec![ScalarValue::List(Arc::new(lists))])
    }

    fn size(&self) -> usize {
        size_of::<OneGroup>() + self.values.capacity() * size_of::<f64>()
    }
}

/// The values of each of GROUP BY's groups.
#[derive(Debug)]
struct ManyGroups {
    place: Place,
    groups: Vec<Vec<f64>>,
    /// Values that all groups have room for.
    room: usize,
}

impl ManyGroups {
    fn new(place: Place) -> ManyGroups {
        ManyGroups { place, groups: Vec::new(), room: 0 }
    }

    fn add(&mut self, group: usize, values: &[f64]) {
        let group = &mut self.groups[group];
        let before = group.capacity();
        group.extend_from_slice(values);
        self.room += group.capacity() - before;
    }

    fn emitted(&mut self, emit: EmitTo) -> Vec<Vec<f64>> {
        let groups = emit.take_needed(&mut self.groups);
        self.room -= groups.iter().map(Vec::capacity).sum::<usize>();
        groups
    }
}

impl GroupsAccumulator for ManyGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_of: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.groups.resize_with(groups, Vec::new);
        let passing = passing_rows(values, filter);
        let values = values[0].as_primitive::<Float64Type>().values();
        let Some(passing) = passing else {
            let mut rest: &[f64] = values;
            // Rows of one group mostly stand together.
            for rows in group_of.chunk_by(PartialEq::eq) {
                let (own, others) = rest.split_at(rows.len());
                self.add(rows[0], own);
                rest = others;
            }
            return Ok(());
        };
        passing.valid_indices().for_each(|row| self.add(group_of[row], &values[row..=row]));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_of: &[usize], groups: usize) -> Result<()> {
        self.groups.resize_with(groups, Vec::new);
        for (values, group) in states[0].as_list::<i32>().iter().zip(group_of) {
            let Some(values) = values else { continue };
            self.add(*group, values.as_primitive::<Float64Type>().values());
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let groups = self.emitted(emit);
        Ok(Arc::new(groups.iter().map(|values| self.place.value(values)).collect::<Float64Array>()))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(lists(self.emitted(emit))?)])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values[0].len();
        let mut each = ManyGroups::new(self.place);
        each.update_batch(values, &(0..rows).collect::<Vec<_>>(), filter, rows)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Vec<f64>>() + self.room * size_of::<f64>()
    }
}

/// The values of groups as lists.
fn lists(groups: Vec<Vec<f64>>) -> Result<ListArray> {
    let mut offsets = Vec::with_capacity(groups.len() + 1);
    offsets.push(0);
    let mut end = 0;
    for group in &groups {
        end += group.len();
        offsets.push(i32::try_from(end).map_err(|_| too_many())?);
    }
    let values = match <[Vec<f64>; 1]>::try_from(groups) {
        Ok([only]) => only,
        Err(groups) => groups.concat(),
    };
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(ListArray::try_new(item(), offsets, Arc::new(Float64Array::new(values.into(), None)), None)?)
}

fn too_many() -> DataFusionError {
    external(Error::new(ErrorKind::LimitExceeded, "percentile_cont() takes at most 2147483647 values in all groups"))
}
