//! The system tables' names and columns, read from `columns.txt`, and the types, from `types.txt`.
//!
//! A line of `columns.txt` is `name oid kind column:type column:type! …` with Postgres' types; `!` says not null.
//! A line of `types.txt` is a row of `pg_type`, its full name last.

use std::sync::{Arc, OnceLock};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use keyspan_model::types::TYPE_KEY;
use keyspan_model::{ColumnDef, ColumnType, TextType};

use super::origin::Origin;

/// A system table.
#[derive(Debug)]
pub struct Definition {
    /// `pg_catalog` or `information_schema`.
    pub schema: &'static str,
    /// Unique in its schema.
    pub name: &'static str,
    /// As in Postgres.
    pub oid: i64,
    /// `r` or `v`.
    pub kind: &'static str,
    /// In order.
    pub columns: Vec<SystemColumn>,
    /// The columns as Arrow has them.
    pub arrow: SchemaRef,
}

/// A column of a system table.
#[derive(Debug)]
pub struct SystemColumn {
    /// Unique in its table.
    pub name: &'static str,
    /// Postgres' name of its type.
    pub type_name: &'static str,
    /// Whether it is never null.
    pub not_null: bool,
    /// What it holds.
    pub holds: Holds,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// One value.
    One(ColumnType),
    /// A list of texts.
    Texts,
    /// A list of `smallint`.
    Smalls,
    /// A list of OIDs.
    Oids,
}

/// All system tables.
pub fn all() -> &'static [Definition] {
    static ALL: OnceLock<Vec<Definition>> = OnceLock::new();
    ALL.get_or_init(|| include_str!("columns.txt").lines().filter_map(definition).collect())
}

/// The system table of this name.
pub fn find(schema: &str, name: &str) -> Option<&'static Definition> {
    all().iter().find(|each| each.schema == schema && each.name == name)
}

fn definition(line: &'static str) -> Option<Definition> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let (schema, name) = name.split_once('.').unwrap_or(("pg_catalog", name));
    let (oid, kind) = (words.next()?.parse().ok()?, words.next()?);
    let columns: Vec<SystemColumn> = words.filter_map(column).collect();
    let fields = columns.iter().map(field).collect::<Vec<_>>();
    Some(Definition { schema, name, oid, kind, columns, arrow: Arc::new(Schema::new(fields)) })
}

fn column(text: &'static str) -> Option<SystemColumn> {
    let (name, type_name) = text.split_once(':')?;
    let not_null = type_name.ends_with('!');
    let type_name = type_name.trim_end_matches('!');
    Some(SystemColumn { name, type_name, not_null, holds: holds(type_name) })
}

fn holds(type_name: &str) -> Holds {
    Holds::One(match type_name {
        "int2[]" | "int2vector" => return Holds::Smalls,
        "oid[]" | "oidvector" => return Holds::Oids,
        list if list.ends_with("[]") => return Holds::Texts,
        "bool" => ColumnType::Boolean,
        "int2" => ColumnType::SmallInt,
        "int4" => ColumnType::Int,
        "int8" | "oid" | "xid" | "regtype" => ColumnType::BigInt,
        "float4" => ColumnType::Real,
        "float8" => ColumnType::Double,
        "timestamptz" => ColumnType::Timestamp,
        "interval" => ColumnType::Duration,
        "inet" => ColumnType::Inet,
        "bytea" => ColumnType::Blob,
        _ => ColumnType::Text,
    })
}

fn field(column: &SystemColumn) -> Field {
    let list = |ty: DataType| {
        let field = Field::new(column.name, DataType::new_list(ty, true), true);
        // Vectors say so: their subscripts begin with 0.
        match column.type_name.ends_with("vector") {
            true => field.with_metadata([(TYPE_KEY.to_owned(), column.type_name.to_owned())].into()),
            false => field,
        }
    };
    match column.holds {
        Holds::One(ty) => ty.field(column.name, true),
        Holds::Texts => list(DataType::Utf8View),
        Holds::Smalls => list(DataType::Int16),
        Holds::Oids => list(DataType::Int64),
    }
}

/// A type of Postgres: a row of `pg_type`.
#[derive(Debug)]
pub struct PgType {
    /// As in Postgres.
    pub oid: i64,
    /// Short name, as `int4`.
    pub name: &'static str,
    /// Bytes, or -1.
    pub length: i64,
    /// Whether values are passed by value.
    pub by_value: bool,
    /// `b`, `p`, `r`.
    pub kind: &'static str,
    /// One letter.
    pub category: &'static str,
    /// Whether it is the preferred one of its category.
    pub preferred: bool,
    /// Type of the elements of a list, or 0.
    pub element: i64,
    /// The list of this type, or 0.
    pub array: i64,
    /// 100 of texts, else 0; 950 of `name`.
    pub collation: i64,
    /// One letter.
    pub align: &'static str,
    /// One letter.
    pub storage: &'static str,
    /// Name in SQL, as `integer`.
    pub sql_name: &'static str,
}

/// Types whose functions are called as `date_in`; those of others are as `int4in`.
const WITH_UNDERSCORE: [&str; 15] = [
    "date",
    "time",
    "timetz",
    "timestamp",
    "timestamptz",
    "interval",
    "numeric",
    "uuid",
    "json",
    "jsonb",
    "inet",
    "record",
    "void",
    "cstring",
    "array",
];

impl PgType {
    /// The names of the functions that read and write its values: input, output, receive, send; `-` for those of types
    /// that no value has.
    pub fn functions(&self) -> [String; 4] {
        if self.kind == "p" && !WITH_UNDERSCORE.contains(&self.name) && !self.name.starts_with('_') {
            return ["-"; 4].map(str::to_owned);
        }
        if self.name == "aclitem" {
            return ["aclitemin", "aclitemout", "-", "-"].map(str::to_owned);
        }
        let name = if self.name.starts_with('_') { "array" } else { self.name };
        let between = if WITH_UNDERSCORE.contains(&name) { "_" } else { "" };
        ["in", "out", "recv", "send"].map(|direction| format!("{name}{between}{direction}"))
    }
}

/// The types that there are.
pub fn types() -> &'static [PgType] {
    static TYPES: OnceLock<Vec<PgType>> = OnceLock::new();
    TYPES.get_or_init(|| include_str!("types.txt").lines().filter_map(pg_type).collect())
}

fn pg_type(line: &'static str) -> Option<PgType> {
    let words: Vec<&'static str> = line.splitn(15, ' ').collect();
    let number = |index: usize| words.get(index)?.parse::<i64>().ok();
    Some(PgType {
        oid: number(0)?,
        name: words.get(1)?,
        length: number(2)?,
        by_value: words.get(3) == Some(&"t"),
        kind: words.get(4)?,
        category: words.get(5)?,
        preferred: words.get(6) == Some(&"t"),
        element: number(8)?,
        array: number(9)?,
        collation: number(10)?,
        align: words.get(11)?,
        storage: words.get(12)?,
        sql_name: words.get(14)?,
    })
}

/// The type with this OID.
pub fn type_of_oid(oid: i64) -> Option<&'static PgType> {
    types().iter().find(|ty| ty.oid == oid)
}

/// The type of this name, short or in SQL; `int4[]` too.
pub fn type_of_name(name: &str) -> Option<&'static PgType> {
    let name = name.trim().to_lowercase();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name).trim_matches('"');
    if let Some(element) = name.strip_suffix("[]") {
        return type_of_oid(type_of_name(element)?.array);
    }
    let alias = match name {
        "int" => "int4",
        "decimal" => "numeric",
        "float" => "float8",
        "blob" => "bytea",
        "duration" => "interval",
        "timeuuid" => "uuid",
        "varint" => "numeric",
        "ascii" => "text",
        "double" => "float8",
        "tinyint" => "int2",
        other => other,
    };
    types().iter().find(|ty| ty.name == alias || ty.sql_name == alias)
}

/// The OID of Postgres' type for a column of this type.
pub fn type_oid(ty: ColumnType) -> u32 {
    u32::try_from(column_type(ty, None, TextType::Text).0).unwrap_or(0)
}

/// OID and modifier of a column's type, as clients are told.
pub fn column_type(ty: ColumnType, max_length: Option<u32>, text_type: TextType) -> (i64, i64) {
    use ColumnType as C;
    let oid = match ty {
        C::Boolean => 16,
        C::TinyInt | C::SmallInt => 21,
        C::Int => 23,
        C::BigInt => 20,
        C::VarInt | C::Decimal { .. } => 1700,
        C::Real => 700,
        C::Double => 701,
        C::Text | C::Ascii => 25,
        C::Blob => 17,
        C::Uuid | C::TimeUuid => 2950,
        C::Date => 1082,
        C::Time => 1083,
        C::Timestamp => 1184,
        C::LocalTimestamp => 1114,
        C::Duration => 1186,
        C::Inet => 869,
        C::Json => 114,
        C::Jsonb => 3802,
        C::List(_) | C::Nested(_) => match ty.element() {
            Some(element) => {
                let (element, modifier) = column_type(element, max_length, text_type);
                return (type_of_oid(element).map_or(element, |ty| ty.array), modifier);
            }
            None => 3802,
        },
    };
    match (ty, max_length) {
        (C::Text, length) if length.is_some() || text_type != TextType::Text => {
            let oid = if text_type == TextType::Char { 1042 } else { 1043 };
            (oid, length.map_or(-1, |length| i64::from(length) + 4))
        }
        (C::Time | C::Timestamp | C::LocalTimestamp, Some(digits)) => (oid, i64::from(digits)),
        (C::VarInt, _) => (oid, (38 << 16) + 4),
        (C::Decimal { precision, scale }, _) => (oid, (i64::from(precision) << 16) + i64::from(scale) + 4),
        _ => (oid, -1),
    }
}

/// [`column_type`] of a column.
pub fn type_of_column(column: &ColumnDef) -> (i64, i64) {
    column_type(column.ty, column.max_length, column.text_type)
}

/// [`column_type`] of a column of a view.
pub fn type_of_field(field: &Field) -> (i64, i64) {
    if let Some(origin) = Origin::of_field(field) {
        return (i64::from(origin.ty), i64::from(origin.modifier));
    }
    column_type(ColumnType::of_field(field).unwrap_or(ColumnType::Text), None, TextType::Text)
}

/// OID of the type of a system table's column.
pub fn type_of_system(column: &SystemColumn) -> i64 {
    type_of_name(column.type_name).map_or(25, |ty| ty.oid)
}

/// `format_type`: the name of a type in SQL, with its modifier.
pub fn format_type(oid: i64, modifier: i64) -> String {
    if oid == 0 {
        return "-".into();
    }
    let Some(ty) = type_of_oid(oid) else { return "???".into() };
    let (name, list) = match type_of_oid(ty.element).filter(|_| ty.name.starts_with('_')) {
        Some(element) => (element, "[]"),
        None => (ty, ""),
    };
    // The digits of a time stand after its first word.
    if matches!(name.name, "time" | "timestamp" | "timestamptz") && (0..6).contains(&modifier) {
        let (first, rest) = name.sql_name.split_once(' ').unwrap_or((name.sql_name, ""));
        return format!("{first}({modifier}) {rest}{list}");
    }
    let arguments = match name.name {
        _ if modifier < 4 => String::new(),
        "varchar" | "bpchar" => format!("({})", modifier - 4),
        "numeric" => format!("({},{})", (modifier - 4) >> 16, (modifier - 4) & 0x7ff),
        _ => String::new(),
    };
    format!("{}{arguments}{list}", name.sql_name)
}
