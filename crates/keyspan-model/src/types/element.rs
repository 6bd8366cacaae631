//! The type inside a nested type, interned, so that [`ColumnType`] stays a small `Copy` value.
//!
//! Each distinct type is kept once, for as long as the program runs. There are few: those of statements and of the
//! catalog's versions.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ColumnType;

static INTERNED: LazyLock<Mutex<HashSet<&'static ColumnType>>> = LazyLock::new(Mutex::default);

/// The type of a list's elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ElementType(&'static ColumnType);

impl ElementType {
    /// The handle of this type.
    pub fn new(ty: ColumnType) -> ElementType {
        // The set is whole after every step, so a panic elsewhere while it was locked does no harm.
        ElementType(kept(ty, &mut INTERNED.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The type.
    pub fn get(self) -> ColumnType {
        *self.0
    }
}

/// The value that is kept of all that are equal to this one.
pub(super) fn kept<T: Eq + Hash>(value: T, interned: &mut HashSet<&'static T>) -> &'static T {
    if let Some(known) = interned.get(&value) {
        return known;
    }
    let kept: &'static T = Box::leak(Box::new(value));
    interned.insert(kept);
    kept
}

impl fmt::Debug for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ElementType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ElementType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ElementType, D::Error> {
        ColumnType::deserialize(deserializer).map(ElementType::new)
    }
}
