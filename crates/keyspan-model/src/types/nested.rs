//! Types whose values hold values and are one cell: frozen sets and maps, tuples, user types, and lists of such.
//!
//! ```text
//! frozen<set<text>>                 an Arrow list, as text[] is: sorted, each element once, no NULL
//! vector<float, 3>                  an Arrow list, as real[] is: of so many elements, no NULL
//! everything else                   Arrow's Binary: the bytes of its cell
//! ```
//!
//! A [`NestedType`] is interned like [`super::ElementType`]. A user type holds its fields, so that nothing needs the
//! catalog to read a value; ALTER TYPE changes it in every column that has it.

use std::collections::HashSet;
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ColumnType;
use super::element::kept;
use crate::error::{Error, ErrorKind, Result};

static INTERNED: LazyLock<Mutex<HashSet<&'static Nested>>> = LazyLock::new(Mutex::default);

/// How deep types nest at most.
pub const NESTING_MAX: usize = 32;

/// What a nested type is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nested {
    /// A list whose elements nest; a list of scalars is [`ColumnType::List`].
    List(ColumnType),
    /// A set: sorted, each element once.
    Set(ColumnType),
    /// A map from keys to values: sorted by key, each key once.
    Map(ColumnType, ColumnType),
    /// A tuple: one value of each type, any of which may be NULL.
    Tuple(Vec<ColumnType>),
    /// A user type: a tuple whose parts have names.
    User(UserType),
    /// A value that keeps a type of its own; only in the cells of families.
    Variant,
    /// So many finite 4-byte floats.
    Vector(u16),
    /// A user type by name, before the catalog has said what it is. No column has it.
    Named(TypeName),
}

/// Identifies a user type for ever; it is a number as tables have, and no table has the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TypeId(pub u32);

/// A user type, in the catalog and in the type of each column that has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserType {
    /// Never reused.
    pub id: TypeId,
    /// Keyspace that holds it.
    pub keyspace: String,
    /// Unique among the types of its keyspace.
    pub name: String,
    /// The fields. New ones are added behind; values that were written before read as NULL there.
    pub fields: Vec<TypeField>,
}

/// A field of a user type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeField {
    /// Unique in its type.
    pub name: String,
    /// Type of its values.
    pub ty: ColumnType,
}

/// The name of a user type, as a statement has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeName {
    /// Its keyspace, if it is given.
    pub keyspace: Option<String>,
    /// Its own name.
    pub name: String,
}

/// A nested type.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NestedType(&'static Nested);

impl NestedType {
    /// The handle of this type.
    pub fn new(ty: Nested) -> NestedType {
        // The set is whole after every step, so a panic elsewhere while it was locked does no harm.
        NestedType(kept(ty, &mut INTERNED.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// The type.
    pub fn get(self) -> &'static Nested {
        self.0
    }
}

impl fmt::Debug for NestedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for NestedType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for NestedType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NestedType, D::Error> {
        Nested::deserialize(deserializer).map(NestedType::new)
    }
}

impl UserType {
    /// Whether a field has the type of this id in it.
    pub fn holds(&self, id: TypeId) -> bool {
        self.fields.iter().any(|field| field.ty.holds_user_type(id))
    }
}

impl Nested {
    /// The types of its parts: of an element, of key and value, of each field.
    pub fn parts(&self) -> Vec<ColumnType> {
        match self {
            Nested::List(element) | Nested::Set(element) => vec![*element],
            Nested::Map(key, value) => vec![*key, *value],
            Nested::Tuple(types) => types.clone(),
            Nested::User(user) => user.fields.iter().map(|field| field.ty).collect(),
            Nested::Vector(_) => vec![ColumnType::Real],
            Nested::Variant | Nested::Named(_) => Vec::new(),
        }
    }

    /// The types of the values at each place of a tuple or user type; `None` for collections.
    pub fn fields(&self) -> Option<Vec<ColumnType>> {
        matches!(self, Nested::Tuple(_) | Nested::User(_)).then(|| self.parts())
    }

    /// The place and type of a user type's field.
    pub fn field(&self, name: &str) -> Option<(usize, ColumnType)> {
        let Nested::User(user) = self else { return None };
        let place = user.fields.iter().position(|field| field.name == name)?;
        Some((place, user.fields[place].ty))
    }

    /// The type with other parts, in the order of [`Nested::parts`].
    fn with_parts(&self, parts: Vec<ColumnType>) -> ColumnType {
        match (self, parts.as_slice()) {
            (Nested::List(_), [element]) => ColumnType::frozen_list(*element),
            (Nested::Set(_), [element]) => ColumnType::nested(Nested::Set(*element)),
            (Nested::Map(..), [key, value]) => ColumnType::nested(Nested::Map(*key, *value)),
            (Nested::Tuple(_), _) => ColumnType::nested(Nested::Tuple(parts)),
            (Nested::User(user), _) => {
                let fields = user.fields.iter().zip(&parts).map(|(field, ty)| TypeField { ty: *ty, ..field.clone() });
                ColumnType::nested(Nested::User(UserType { fields: fields.collect(), ..user.clone() }))
            }
            _ => ColumnType::nested(self.clone()),
        }
    }

    fn name(&self) -> String {
        let list = |types: &[ColumnType]| types.iter().map(|ty| ty.inner_name()).collect::<Vec<_>>().join(", ");
        match self {
            Nested::List(element) => format!("frozen<list<{}>>", element.inner_name()),
            Nested::Set(element) => format!("frozen<set<{}>>", element.inner_name()),
            Nested::Map(key, value) => format!("frozen<map<{}, {}>>", key.inner_name(), value.inner_name()),
            Nested::Tuple(types) => format!("frozen<tuple<{}>>", list(types)),
            Nested::User(user) => format!("frozen<{}>", quoted(&user.name)),
            Nested::Variant => "variant".to_owned(),
            Nested::Vector(dimension) => format!("vector<float, {dimension}>"),
            Nested::Named(TypeName { keyspace: Some(keyspace), name }) => {
                format!("{}.{}", quoted(keyspace), quoted(name))
            }
            Nested::Named(TypeName { name, .. }) => quoted(name),
        }
    }
}

/// A name as a definition has it.
fn quoted(name: &str) -> String {
    let first = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if first && name.chars().all(plain) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

impl ColumnType {
    /// The nested type of these parts.
    pub fn nested(ty: Nested) -> ColumnType {
        ColumnType::Nested(NestedType::new(ty))
    }

    /// `frozen<list<element>>`: an array, where elements do not nest.
    pub fn frozen_list(element: ColumnType) -> ColumnType {
        if element.is_scalar() { ColumnType::list(element) } else { ColumnType::nested(Nested::List(element)) }
    }

    /// What a nested type is made of; `None` for scalars and arrays.
    pub fn as_nested(self) -> Option<&'static Nested> {
        match self {
            ColumnType::Nested(nested) => Some(nested.get()),
            _ => None,
        }
    }

    /// Whether its values hold no values.
    pub fn is_scalar(self) -> bool {
        !matches!(self, ColumnType::List(_) | ColumnType::Nested(_))
    }

    /// Whether its Arrow form is the bytes of a cell: all nested types, but not sets of scalars and vectors.
    pub fn is_packed(self) -> bool {
        self.as_nested().is_some() && self.element().is_none()
    }

    /// The name inside of another type, where CQL knows no arrays.
    fn inner_name(self) -> String {
        match self {
            ColumnType::List(element) => format!("frozen<list<{}>>", element.get().name()),
            ty => ty.name(),
        }
    }

    pub(super) fn nested_name(nested: NestedType) -> String {
        nested.get().name()
    }

    /// The type with each type in it, itself included, put through `change`, from the inside out.
    pub fn rebuilt(self, change: &dyn Fn(ColumnType) -> Result<ColumnType>) -> Result<ColumnType> {
        match self {
            ColumnType::List(element) => change(ColumnType::frozen_list(element.get().rebuilt(change)?)),
            ColumnType::Nested(nested) => {
                let nested = nested.get();
                let parts = nested.parts().into_iter().map(|part| part.rebuilt(change)).collect::<Result<_>>()?;
                change(nested.with_parts(parts))
            }
            scalar => change(scalar),
        }
    }

    /// The type without names of user types: `find` says what they stand for.
    ///
    /// # Errors
    /// Those of `find`, and 54001 for types nested too deeply.
    pub fn resolved(self, find: &dyn Fn(&TypeName) -> Result<ColumnType>) -> Result<ColumnType> {
        if self.is_scalar() {
            return Ok(self);
        }
        let resolved = self.rebuilt(&|ty| match ty.as_nested() {
            Some(Nested::Named(name)) => find(name),
            _ => Ok(ty),
        })?;
        resolved.check_depth()?;
        Ok(resolved)
    }

    /// Whether the type is, or holds, what `test` is true of.
    pub fn holds(self, test: &dyn Fn(ColumnType) -> bool) -> bool {
        let inside = || match self {
            ColumnType::List(element) => element.get().holds(test),
            ColumnType::Nested(nested) => nested.get().parts().into_iter().any(|part| part.holds(test)),
            _ => false,
        };
        test(self) || inside()
    }

    /// Whether it is the user type of this id.
    pub fn is_user_type(self, id: TypeId) -> bool {
        matches!(self.as_nested(), Some(Nested::User(user)) if user.id == id)
    }

    /// Whether it is, or holds, the user type of this id.
    pub fn holds_user_type(self, id: TypeId) -> bool {
        self.holds(&|part| part.is_user_type(id))
    }

    /// 54001 for a type that is nested too deeply.
    pub fn check_depth(self) -> Result<()> {
        if self.depth() > NESTING_MAX {
            let message = format!("types may be nested {NESTING_MAX} deep at most");
            return Err(Error::new(ErrorKind::TooComplex, message));
        }
        Ok(())
    }

    fn depth(self) -> usize {
        match self {
            ColumnType::List(_) => 1,
            ColumnType::Nested(nested) => {
                1 + nested.get().parts().into_iter().map(ColumnType::depth).max().unwrap_or(0)
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> ColumnType {
        let field = |name: &str, ty| TypeField { name: name.into(), ty };
        let fields = vec![field("street", ColumnType::Text), field("zips", ColumnType::list(ColumnType::Int))];
        ColumnType::nested(Nested::User(UserType {
            id: TypeId(7),
            keyspace: "k".into(),
            name: "Address".into(),
            fields,
        }))
    }

    #[test]
    fn names_are_those_of_cql() {
        let map = ColumnType::nested(Nested::Map(ColumnType::Text, ColumnType::list(ColumnType::Int)));
        assert_eq!(map.name(), "frozen<map<text, frozen<list<int>>>>");
        let tuple = ColumnType::nested(Nested::Tuple(vec![ColumnType::Int, address()]));
        assert_eq!(ColumnType::frozen_list(tuple).name(), "frozen<list<frozen<tuple<int, frozen<\"Address\">>>>>");
        assert_eq!(ColumnType::frozen_list(ColumnType::Int), ColumnType::list(ColumnType::Int));
    }

    #[test]
    fn fields_and_the_catalog_tell_the_whole_type() {
        let set = ColumnType::nested(Nested::Set(ColumnType::Timestamp));
        for ty in [address(), set, ColumnType::frozen_list(address())] {
            let field = ty.field("c", true);
            assert_eq!(ColumnType::of_field(&field), Some(ty));
            let json = serde_json::to_string(&ty).expect("JSON");
            assert_eq!(serde_json::from_str::<ColumnType>(&json).expect("a type"), ty);
        }
        assert!(!set.is_packed());
        assert!(address().is_packed());
    }

    #[test]
    fn names_of_types_are_resolved_wherever_they_stand() {
        let named = ColumnType::nested(Nested::Named(TypeName { keyspace: None, name: "a".into() }));
        let map = ColumnType::nested(Nested::Map(ColumnType::Int, ColumnType::frozen_list(named)));
        let resolved = map.resolved(&|_| Ok(address())).expect("a type");
        assert_eq!(resolved, ColumnType::nested(Nested::Map(ColumnType::Int, ColumnType::frozen_list(address()))));
        // A name may stand for a list's element that is no longer nested.
        let list = ColumnType::frozen_list(named).resolved(&|_| Ok(ColumnType::Int)).expect("a type");
        assert_eq!(list, ColumnType::list(ColumnType::Int));
        let deep = (0..=NESTING_MAX).fold(ColumnType::Int, |ty, _| ColumnType::nested(Nested::Tuple(vec![ty])));
        assert_eq!(deep.resolved(&|_| Ok(ColumnType::Int)).expect_err("too deep").sqlstate(), "54001");
    }
}
