//! Roles: what each physical column of a segment holds.
//!
//! A segment has one column for each key column, one for each value column, and those **system columns** that are not
//! constant in it: the row's marker, base stamp and tombstone, and for each value column its tombstones and own stamps.
//! A constant system column stands in the index file as one number, and nothing stands where it is null throughout.

use keyspan_model::{ColumnId, ColumnType};

use crate::varint::{Input, put_varint};

/// What a physical column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Role {
    /// Values of a key column.
    Key(ColumnId),
    /// Values of a value column.
    Value(ColumnId),
    /// A system column of the row.
    Row(RowSystem),
    /// A system column of a value column.
    Cell(ColumnId, CellSystem),
}

/// System columns of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum RowSystem {
    /// Whether there is a row marker.
    Marker,
    /// Base write timestamp.
    Ts,
    /// Base seconds to live.
    Ttl,
    /// Base expiry.
    Expires,
    /// Write timestamp of the row tombstone.
    DeletedTs,
    /// Clock of the row tombstone.
    DeletedAt,
}

/// System columns of a value column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum CellSystem {
    /// Whether the cell is a tombstone.
    Tombstone,
    /// Own write timestamp.
    Ts,
    /// Own seconds to live.
    Ttl,
    /// Own expiry.
    Expires,
    /// Clock of the tombstone.
    DeletedAt,
}

impl RowSystem {
    pub(super) const ALL: [RowSystem; 6] = [
        RowSystem::Marker,
        RowSystem::Ts,
        RowSystem::Ttl,
        RowSystem::Expires,
        RowSystem::DeletedTs,
        RowSystem::DeletedAt,
    ];

    fn name(self) -> &'static str {
        match self {
            RowSystem::Marker => "__marker",
            RowSystem::Ts => "__written_at",
            RowSystem::Ttl => "__ttl",
            RowSystem::Expires => "__expires",
            RowSystem::DeletedTs => "__row_deleted_ts",
            RowSystem::DeletedAt => "__row_deleted_at",
        }
    }
}

impl CellSystem {
    pub(super) const ALL: [CellSystem; 5] =
        [CellSystem::Tombstone, CellSystem::Ts, CellSystem::Ttl, CellSystem::Expires, CellSystem::DeletedAt];

    fn name(self) -> &'static str {
        match self {
            CellSystem::Tombstone => "tombstone",
            CellSystem::Ts => "written_at",
            CellSystem::Ttl => "ttl",
            CellSystem::Expires => "expires",
            CellSystem::DeletedAt => "deleted_at",
        }
    }
}

impl Role {
    /// The type of a system column's values; key and value columns have their own.
    pub(super) fn system_type(self) -> ColumnType {
        match self {
            Role::Row(RowSystem::Marker) | Role::Cell(_, CellSystem::Tombstone) => ColumnType::Boolean,
            _ => ColumnType::BigInt,
        }
    }

    /// The name of a system column in the Parquet file; `column` is the value column's own name.
    pub(super) fn system_name(self, column: &str) -> String {
        match self {
            Role::Row(system) => system.name().to_string(),
            Role::Cell(_, system) => format!("__{}_{column}", system.name()),
            Role::Key(_) | Role::Value(_) => column.to_string(),
        }
    }

    pub(super) fn put(self, out: &mut Vec<u8>) {
        let (tag, id) = match self {
            Role::Key(id) => (0, id.0),
            Role::Value(id) => (1, id.0),
            Role::Row(system) => (2, system as u32),
            Role::Cell(id, system) => (3 + system as u8, id.0),
        };
        out.push(tag);
        put_varint(out, u64::from(id));
    }

    pub(super) fn read(input: &mut Input<'_>) -> Option<Role> {
        let tag = input.byte()?;
        let id = input.small()?;
        Some(match tag {
            0 => Role::Key(ColumnId(id)),
            1 => Role::Value(ColumnId(id)),
            2 => Role::Row(*RowSystem::ALL.get(id as usize)?),
            other => Role::Cell(ColumnId(id), *CellSystem::ALL.get(usize::from(other) - 3)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_reads_back() {
        let id = ColumnId(7);
        let mut roles = vec![Role::Key(id), Role::Value(ColumnId(u32::MAX))];
        roles.extend(RowSystem::ALL.map(Role::Row));
        roles.extend(CellSystem::ALL.map(|system| Role::Cell(id, system)));
        for role in roles {
            let mut out = Vec::new();
            role.put(&mut out);
            assert_eq!(Role::read(&mut Input::new(&out)), Some(role));
        }
        assert_eq!(Role::read(&mut Input::new(&[9, 0])), None);
    }
}
