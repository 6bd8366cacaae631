//! Families of dynamic columns, and collections: how they are declared.

use serde::{Deserialize, Serialize};

use super::{ColumnId, KeyColumn, RelationId, ValueColumn};
use crate::error::Result;
use crate::types::{ColumnType, Nested};
use crate::value::Value;

/// Which versions of a family's cell go. It has limits, and rules inside of it; one of them is enough, or all are needed.
/// One that has none keeps all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GcRule {
    /// Newest versions kept per cell.
    pub max_versions: Option<u32>,
    /// Age in microseconds after which a version goes.
    pub max_age: Option<i64>,
    /// Whether a version goes only when all limits and inner rules say so (Bigtable's intersection).
    pub both: bool,
    /// Rules inside of this one, each with a limit. Programs that know none refuse the table by this field's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<GcRule>,
}

impl GcRule {
    /// Whether it keeps all.
    pub fn keeps_all(&self) -> bool {
        self.max_versions.is_none() && self.max_age.is_none() && self.inner.is_empty()
    }

    /// Whether it keeps the newest version at most, whatever else it says.
    pub fn keeps_one(&self) -> bool {
        self.max_versions == Some(1) && !self.both
    }

    /// Whether a version goes: the one of this rank, from 1 for the newest, and of this age in microseconds.
    pub fn removes(&self, rank: usize, age: i64) -> bool {
        let excess = self.max_versions.map(|most| rank > most as usize);
        let old = self.max_age.map(|oldest| age > oldest);
        let mut said = excess.into_iter().chain(old).chain(self.inner.iter().map(|rule| rule.removes(rank, age)));
        if self.both { !self.keeps_all() && said.all(|goes| goes) } else { said.any(|goes| goes) }
    }
}

/// What a family was declared as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FamilyKind {
    /// `family<qualifier, value>`: dynamic columns with versions.
    #[default]
    Family,
    /// `map<key, value>`.
    Map,
    /// `set<element>`: the elements are the qualifiers.
    Set,
    /// `list<element>`: the qualifiers are positions, which nobody sees.
    List,
}

impl FamilyKind {
    /// Whether it is one of CQL's collections: one version of each element.
    pub fn is_collection(self) -> bool {
        self != FamilyKind::Family
    }

    fn is_family(&self) -> bool {
        !self.is_collection()
    }
}

/// A family of dynamic columns, or a collection: a relation of its own, keyed by row key and qualifier, and a family by
/// write timestamp descending, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilyDef {
    /// The family's relation. Its name on disk is one that programs do not know which have no families, so that they
    /// refuse the table.
    #[serde(rename = "cells")]
    pub relation: RelationId,
    /// Unique in its table.
    pub name: String,
    /// Parts of a qualifier in order.
    pub qualifier: Vec<KeyColumn>,
    /// Column that holds the cell's value.
    pub value: ValueColumn,
    /// Which versions are kept.
    pub gc: GcRule,
    /// What it was declared as.
    #[serde(default, skip_serializing_if = "FamilyKind::is_family")]
    pub kind: FamilyKind,
    /// Whether a qualifier has several parts. Programs that know but one refuse the table by this field's name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub several_parts: bool,
    /// Qualifiers whose cells have one type, of a family of variants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub known: Vec<KnownCell>,
}

/// A qualifier whose cells have one type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownCell {
    /// The qualifier.
    pub name: String,
    /// One of the types that a variant holds.
    pub ty: ColumnType,
}

impl FamilyDef {
    /// Whether this is a part of the qualifier, or the value.
    pub fn has_column(&self, id: ColumnId) -> bool {
        self.value.id == id || self.qualifier.iter().any(|part| part.id == id)
    }

    /// The type of a qualifier as one value: of several parts a tuple.
    pub fn qualifier_type(&self) -> ColumnType {
        match self.qualifier.as_slice() {
            [only] => only.ty,
            parts => ColumnType::nested(Nested::Tuple(parts.iter().map(|part| part.ty).collect())),
        }
    }

    /// The type that cells of this qualifier were declared with.
    pub fn known_type(&self, qualifier: &Value) -> Option<ColumnType> {
        let Value::Text(name) = qualifier else { return None };
        self.known.iter().find(|known| known.name == *name).map(|known| known.ty)
    }

    /// The value as a cell of this qualifier keeps it: one of a declared type is cast to it.
    ///
    /// # Errors
    /// Those of the cast.
    pub fn kept_value(&self, qualifier: &Value, value: Value) -> Result<Value> {
        match self.known_type(qualifier) {
            Some(ty) if !value.is_null() => Ok(Value::Variant(Box::new(value.cast(ty)?))),
            _ => Ok(value),
        }
    }

    /// The parts of a qualifier, as keys have them.
    pub fn qualifier_parts(&self, qualifier: &Value) -> Vec<Value> {
        match qualifier {
            Value::Tuple(parts) if self.several_parts => parts.clone(),
            only => vec![only.clone()],
        }
    }

    /// The type of the whole as a value, where it has one: a set or list is an array, or a list of nested values.
    pub fn array_type(&self) -> Option<ColumnType> {
        match self.kind {
            FamilyKind::Set => Some(ColumnType::frozen_list(self.qualifier_type())),
            FamilyKind::List => Some(ColumnType::frozen_list(self.value.ty)),
            FamilyKind::Family | FamilyKind::Map => None,
        }
    }

    /// The type of the whole as clients get and write it: an array, or a JSON object.
    pub fn whole_type(&self) -> ColumnType {
        self.array_type().unwrap_or(ColumnType::Jsonb)
    }
}
