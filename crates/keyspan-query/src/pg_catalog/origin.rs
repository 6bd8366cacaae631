//! Which column of which table a column of an answer is, and as what it was declared: what RowDescription tells, so that a
//! client can edit what it shows. It stands in the metadata of the answer's field.

use arrow::datatypes::{Field, FieldRef, Schema};
use keyspan_model::{ColumnId, TableDef, TextType};

use super::definition::type_of_column;
use super::source::{shown, table_oid};

/// The key of a field's metadata under which its [`Origin`] stands.
const ORIGIN_KEY: &str = "keyspan.origin";

/// A column of a table, by the numbers that the catalog tables have of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `pg_class.oid`.
    pub table: u32,
    /// `pg_attribute.attnum`.
    pub column: i16,
    /// `pg_attribute.atttypid`: a `varchar` is a text to all who compute with it, and an `oid` a bigint.
    pub ty: u32,
    /// `pg_attribute.atttypmod`.
    pub modifier: i32,
}

impl Origin {
    /// Of a column of a table; `None` if it is not shown.
    pub fn of(table: &TableDef, column: ColumnId) -> Option<Origin> {
        let (number, column) = shown(table).find(|(_, shown)| shown.id == column)?;
        Origin::numbered(table_oid(table.id), number, type_of_column(&column))
    }

    /// Of a column by its numbers and its type's; `None` if one is out of range.
    pub(crate) fn numbered(table: i64, column: usize, (ty, modifier): (i64, i64)) -> Option<Origin> {
        Some(Origin {
            table: u32::try_from(table).ok()?,
            column: i16::try_from(column).ok()?,
            ty: u32::try_from(ty).ok()?,
            modifier: i32::try_from(modifier).ok()?,
        })
    }

    /// That of a query's output column.
    pub fn of_field(field: &Field) -> Option<Origin> {
        let mut numbers = field.metadata().get(ORIGIN_KEY)?.split(' ');
        let mut next = || numbers.next();
        Some(Origin {
            table: next()?.parse().ok()?,
            column: next()?.parse().ok()?,
            ty: next()?.parse().ok()?,
            modifier: next()?.parse().ok()?,
        })
    }

    /// As which of SQL's text types a text was declared, and its length.
    pub fn text_type(self) -> (TextType, Option<u32>) {
        let length = u32::try_from(self.modifier - 4).ok();
        match self.ty {
            1042 => (TextType::Char, length),
            1043 => (TextType::Varchar, length),
            _ => (TextType::Text, None),
        }
    }

    /// The output column with this origin in its metadata.
    pub fn add_to(self, field: Field) -> Field {
        let mut metadata = field.metadata().clone();
        metadata.insert(ORIGIN_KEY.to_owned(), format!("{} {} {} {}", self.table, self.column, self.ty, self.modifier));
        field.with_metadata(metadata)
    }
}

/// Whether two answers have the same columns, wherever they come from: numbers change when a column is dropped.
pub fn are_alike(one: &Schema, other: &Schema) -> bool {
    let plain = |field: &FieldRef| {
        let mut metadata = field.metadata().clone();
        metadata.remove(ORIGIN_KEY);
        Field::clone(field).with_metadata(metadata)
    };
    one.fields().len() == other.fields().len()
        && one.fields().iter().zip(other.fields()).all(|(one, other)| plain(one) == plain(other))
}
