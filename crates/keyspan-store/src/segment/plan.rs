//! Which system columns a segment needs, known before its first row is written.
//!
//! A Parquet file fixes its columns at the start, yet whether a system column is constant is known only at the end. So
//! the inputs are looked at first (their constants are at hand), and the writer refuses a batch that does not fit the
//! plan: then the plan is widened by that batch and the segment begun again. That is rare: only merging rows whose
//! cells have stamps of their own makes columns that no input had.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, BooleanArray};
use keyspan_model::{ColumnId, RelationDef};
use std::sync::Arc;

use super::role::{CellSystem, Role, RowSystem};
use crate::run::{Bits, Int64s, RunBatch};

/// The contents of a system column over some rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SystemShape {
    /// Null, or a flag that no row has.
    Absent,
    /// This number, or 1 for a flag that every row has.
    Constant(i64),
    /// Anything.
    Column,
}

/// The shape of every system column of a segment to be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SystemPlan {
    shapes: BTreeMap<Role, SystemShape>,
}

impl SystemPlan {
    /// Widens the plan by the system columns of these rows, whose `cells` are all of the relation's value columns in
    /// order.
    pub fn observe(&mut self, relation: &RelationDef, batch: &RunBatch) {
        if batch.rows == 0 {
            return;
        }
        for role in roles(relation) {
            self.widen(role, shape(relation, batch, role));
        }
    }

    pub(super) fn widen(&mut self, role: Role, shape: SystemShape) {
        self.shapes
            .entry(role)
            .and_modify(|own| *own = if *own == shape { shape } else { SystemShape::Column })
            .or_insert(shape);
    }

    /// Makes every system column a physical column: then any batch fits.
    pub(crate) fn widen_all(&mut self, relation: &RelationDef) {
        self.shapes = roles(relation).map(|role| (role, SystemShape::Column)).collect();
    }

    /// Whether rows can be written under this plan.
    pub(crate) fn fits(&self, relation: &RelationDef, batch: &RunBatch) -> bool {
        batch.rows == 0
            || roles(relation).all(|role| match self.get(role) {
                SystemShape::Column => true,
                own => own == shape(relation, batch, role),
            })
    }

    pub(super) fn get(&self, role: Role) -> SystemShape {
        self.shapes.get(&role).copied().unwrap_or(SystemShape::Absent)
    }

    /// The system columns that must be written.
    pub(super) fn columns(&self) -> impl Iterator<Item = Role> {
        self.shapes.iter().filter(|(_, shape)| **shape == SystemShape::Column).map(|(role, _)| *role)
    }

    /// The system columns that are one number.
    pub(super) fn constants(&self) -> Vec<(Role, i64)> {
        let constant = |(role, shape): (&Role, &SystemShape)| match shape {
            SystemShape::Constant(number) => Some((*role, *number)),
            _ => None,
        };
        self.shapes.iter().filter_map(constant).collect()
    }
}

fn roles(relation: &RelationDef) -> impl Iterator<Item = Role> {
    let cells = relation.values.iter().flat_map(|value| CellSystem::ALL.map(|system| Role::Cell(value.id, system)));
    RowSystem::ALL.into_iter().map(Role::Row).chain(cells)
}

/// A system column of a batch.
enum System<'a> {
    Flags(&'a Bits),
    Numbers(&'a Int64s),
}

/// The number that a column left out of a batch is: nothing.
static NOTHING: Int64s = Int64s::Null;

fn system<'a>(relation: &RelationDef, batch: &'a RunBatch, role: Role) -> System<'a> {
    let row = &batch.row;
    match role {
        Role::Row(RowSystem::Marker) => System::Flags(&row.marker),
        Role::Row(RowSystem::Ts) => System::Numbers(&row.ts),
        Role::Row(RowSystem::Ttl) => System::Numbers(&row.ttl),
        Role::Row(RowSystem::Expires) => System::Numbers(&row.expires),
        Role::Row(RowSystem::DeletedTs) => System::Numbers(&row.deleted_ts),
        Role::Row(RowSystem::DeletedAt) => System::Numbers(&row.deleted_at),
        Role::Cell(column, kind) => cell_system(relation, batch, column, kind),
        Role::Key(_) | Role::Value(_) => System::Numbers(&NOTHING),
    }
}

fn cell_system<'a>(relation: &RelationDef, batch: &'a RunBatch, column: ColumnId, kind: CellSystem) -> System<'a> {
    let at = relation.values.iter().position(|value| value.id == column);
    let Some(cells) = at.and_then(|at| batch.cells.get(at)) else { return System::Numbers(&NOTHING) };
    match kind {
        CellSystem::Tombstone => System::Flags(&cells.tombstones),
        CellSystem::Ts => System::Numbers(&cells.ts),
        CellSystem::Ttl => System::Numbers(&cells.ttl),
        CellSystem::Expires => System::Numbers(&cells.expires),
        CellSystem::DeletedAt => System::Numbers(&cells.deleted_at),
    }
}

fn shape(relation: &RelationDef, batch: &RunBatch, role: Role) -> SystemShape {
    match system(relation, batch, role) {
        System::Flags(flags) => match flags.count(batch.rows) {
            0 => SystemShape::Absent,
            all if all == batch.rows => SystemShape::Constant(1),
            _ => SystemShape::Column,
        },
        System::Numbers(Int64s::Null) => SystemShape::Absent,
        System::Numbers(Int64s::Constant(number)) => SystemShape::Constant(*number),
        System::Numbers(numbers) => match numbers.clone().compact() {
            Int64s::Null => SystemShape::Absent,
            Int64s::Constant(number) => SystemShape::Constant(number),
            Int64s::Array(_) => SystemShape::Column,
        },
    }
}

/// A system column of a batch as an array.
pub(super) fn system_array(relation: &RelationDef, batch: &RunBatch, role: Role) -> ArrayRef {
    match system(relation, batch, role) {
        System::Flags(flags) => Arc::new(BooleanArray::new(flags.to_buffer(batch.rows), None)),
        System::Numbers(numbers) => Arc::new(numbers.to_array(batch.rows)),
    }
}
