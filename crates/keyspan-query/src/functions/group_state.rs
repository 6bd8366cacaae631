//! The accumulators that DataFusion asks an aggregate for, made of what the aggregate keeps of a group: one of all rows or of
//! a frame, and one of GROUP BY's groups.

use std::fmt::Debug;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::NullBuffer;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// What an aggregate keeps of a group's rows.
pub trait GroupState: Copy + Default + Debug + Send + Sync + 'static {
    /// Which function of it is asked for.
    type Function: Copy + Debug + Send + Sync + 'static;
    /// The values of the arguments.
    type Arguments<'a>;

    /// Whether a row can leave again.
    const TAKES_BACK: bool = false;

    /// The arguments of a batch.
    fn arguments(values: &[ArrayRef]) -> Self::Arguments<'_>;

    /// Takes in a row none of whose arguments is null.
    fn add(&mut self, function: Self::Function, arguments: &Self::Arguments<'_>, row: usize) -> Result<()>;

    /// Lets such a row go, if rows can leave.
    fn take_back(&mut self, _: Self::Function, _: &Self::Arguments<'_>, _: usize) -> Result<()> {
        Err(DataFusionError::Internal("an aggregate that takes no row back".into()))
    }

    /// Takes in what was kept of other rows.
    fn join(&mut self, function: Self::Function, other: Self) -> Result<()>;

    /// The result of each group.
    fn results(function: Self::Function, groups: &[Self]) -> Result<ArrayRef>;

    /// The groups as columns, to be joined elsewhere.
    fn columns(groups: &[Self]) -> Vec<ArrayRef>;

    /// The groups that such columns are.
    fn of_columns(columns: &[ArrayRef]) -> Vec<Self>;
}

/// The rows that have all arguments and pass a FILTER; `None`: all rows.
pub fn passing_rows(values: &[ArrayRef], filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let passed = filter.map(|filter| match filter.nulls() {
        Some(nulls) => NullBuffer::new(filter.values() & nulls.inner()),
        None => NullBuffer::new(filter.values().clone()),
    });
    let all = values.iter().fold(passed, |all, values| NullBuffer::union(all.as_ref(), values.nulls()));
    all.filter(|all| all.null_count() > 0)
}

/// Calls with each such row.
fn each_row(
    values: &[ArrayRef],
    filter: Option<&BooleanArray>,
    mut call: impl FnMut(usize) -> Result<()>,
) -> Result<()> {
    match passing_rows(values, filter) {
        Some(all) => all.valid_indices().try_for_each(call),
        None => (0..values[0].len()).try_for_each(&mut call),
    }
}

/// All rows, or those of a frame.
#[derive(Debug)]
pub struct OneGroup<S: GroupState> {
    function: S::Function,
    state: S,
}

impl<S: GroupState> OneGroup<S> {
    /// Of no rows yet.
    pub fn new(function: S::Function) -> OneGroup<S> {
        OneGroup { function, state: S::default() }
    }
}

impl<S: GroupState> Accumulator for OneGroup<S> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let arguments = S::arguments(values);
        each_row(values, None, |row| self.state.add(self.function, &arguments, row))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let arguments = S::arguments(values);
        each_row(values, None, |row| self.state.take_back(self.function, &arguments, row))
    }

    fn supports_retract_batch(&self) -> bool {
        S::TAKES_BACK
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        S::of_columns(states).into_iter().try_for_each(|other| self.state.join(self.function, other))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&S::results(self.function, &[self.state])?, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        S::columns(&[self.state]).iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn size(&self) -> usize {
        size_of::<OneGroup<S>>()
    }
}

/// GROUP BY's groups.
#[derive(Debug)]
pub struct ManyGroups<S: GroupState> {
    function: S::Function,
    groups: Vec<S>,
}

impl<S: GroupState> ManyGroups<S> {
    /// None yet.
    pub fn new(function: S::Function) -> ManyGroups<S> {
        ManyGroups { function, groups: Vec::new() }
    }
}

impl<S: GroupState> GroupsAccumulator for ManyGroups<S> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_of: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.groups.resize(groups, S::default());
        let arguments = S::arguments(values);
        each_row(values, filter, |row| self.groups[group_of[row]].add(self.function, &arguments, row))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_of: &[usize], groups: usize) -> Result<()> {
        self.groups.resize(groups, S::default());
        let mut others = S::of_columns(states).into_iter().zip(group_of);
        others.try_for_each(|(other, group)| self.groups[*group].join(self.function, other))
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        S::results(self.function, &emit.take_needed(&mut self.groups))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(S::columns(&emit.take_needed(&mut self.groups)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let (mut each, arguments) = (vec![S::default(); values[0].len()], S::arguments(values));
        each_row(values, filter, |row| each[row].add(self.function, &arguments, row))?;
        Ok(S::columns(&each))
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<S>()
    }
}
