//! Which Postgres type a column is: its OID, size and modifier, as RowDescription and ParameterDescription say them.
//!
//! The rule: an Arrow field's `keyspan.type` decides where it names a type of ours or one of Postgres' catalog types
//! (`oid`, `name`, `"char"`, …); otherwise the Arrow type does. Every Arrow type has an answer: what Postgres has no
//! type for is `jsonb`, as `docs/decisions.md` says of maps and structs.

use arrow::datatypes::{DataType, Field};
use keyspan_model::ColumnType;
use keyspan_model::types::TYPE_KEY;

use crate::engine::Origin;

/// OIDs of `pg_type`, which never change.
pub(crate) mod oid {
    #![allow(missing_docs, reason = "the names are Postgres' own")]
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const CHAR: u32 = 18;
    pub const NAME: u32 = 19;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT2VECTOR: u32 = 22;
    pub const INT4: u32 = 23;
    pub const REGPROC: u32 = 24;
    pub const TEXT: u32 = 25;
    pub const OID: u32 = 26;
    pub const TID: u32 = 27;
    pub const XID: u32 = 28;
    pub const CID: u32 = 29;
    pub const OIDVECTOR: u32 = 30;
    pub const JSON: u32 = 114;
    pub const XML: u32 = 142;
    pub const PG_NODE_TREE: u32 = 194;
    pub const CIDR: u32 = 650;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const UNKNOWN: u32 = 705;
    pub const INET: u32 = 869;
    pub const ACLITEM: u32 = 1033;
    pub const BPCHAR: u32 = 1042;
    pub const VARCHAR: u32 = 1043;
    pub const DATE: u32 = 1082;
    pub const TIME: u32 = 1083;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const INTERVAL: u32 = 1186;
    pub const NUMERIC: u32 = 1700;
    pub const REGCLASS: u32 = 2205;
    pub const REGTYPE: u32 = 2206;
    pub const UUID: u32 = 2950;
    pub const JSONB: u32 = 3802;
    pub const REGNAMESPACE: u32 = 4089;
}

/// An element type, the array type over it, and the element's size in bytes (−1: it varies).
const TYPES: &[(u32, u32, i16)] = &[
    (oid::BOOL, 1000, 1),
    (oid::BYTEA, 1001, -1),
    (oid::CHAR, 1002, 1),
    (oid::NAME, 1003, 64),
    (oid::INT8, 1016, 8),
    (oid::INT2, 1005, 2),
    (oid::INT2VECTOR, 1006, -1),
    (oid::INT4, 1007, 4),
    (oid::REGPROC, 1008, 4),
    (oid::TEXT, 1009, -1),
    (oid::OID, 1028, 4),
    (oid::TID, 1010, 6),
    (oid::XID, 1011, 4),
    (oid::CID, 1012, 4),
    (oid::OIDVECTOR, 1013, -1),
    (oid::JSON, 199, -1),
    (oid::XML, 143, -1),
    (oid::CIDR, 651, -1),
    (oid::FLOAT4, 1021, 4),
    (oid::FLOAT8, 1022, 8),
    (oid::UNKNOWN, 0, -2),
    (oid::INET, 1041, -1),
    (oid::ACLITEM, 1034, 16),
    (oid::BPCHAR, 1014, -1),
    (oid::VARCHAR, 1015, -1),
    (oid::DATE, 1182, 4),
    (oid::TIME, 1183, 8),
    (oid::TIMESTAMP, 1115, 8),
    (oid::TIMESTAMPTZ, 1185, 8),
    (oid::INTERVAL, 1187, 16),
    (oid::NUMERIC, 1231, -1),
    (oid::REGCLASS, 2210, 4),
    (oid::REGTYPE, 2211, 4),
    (oid::UUID, 2951, 16),
    (oid::JSONB, 3807, -1),
    (oid::REGNAMESPACE, 4090, 4),
];

/// A Postgres type as messages describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PgType {
    /// The type's OID in `pg_type`.
    pub(crate) oid: u32,
    /// The OID of the elements, for arrays and vectors.
    pub(crate) element: Option<u32>,
    /// Bytes of a value; −1 where they vary.
    pub(crate) size: i16,
    /// Precision and scale of a numeric, −1 for none.
    pub(crate) modifier: i32,
}

impl PgType {
    /// The type with this OID, without a modifier.
    pub(crate) fn of_oid(oid: u32) -> PgType {
        if matches!(oid, oid::INT2VECTOR | oid::OIDVECTOR) {
            let element = if oid == oid::INT2VECTOR { oid::INT2 } else { oid::OID };
            return PgType { oid, element: Some(element), size: -1, modifier: -1 };
        }
        let element = TYPES.iter().find(|(_, array, _)| *array == oid).map(|(element, _, _)| *element);
        let size = TYPES.iter().find(|(element, _, _)| *element == oid).map_or(-1, |(_, _, size)| *size);
        PgType { oid, element: element.filter(|_| oid != 0), size, modifier: -1 }
    }

    /// The type of a column of this Keyspan type.
    pub(crate) fn of_column_type(ty: ColumnType) -> PgType {
        let oid = match ty {
            ColumnType::Boolean => oid::BOOL,
            ColumnType::TinyInt | ColumnType::SmallInt => oid::INT2,
            ColumnType::Int => oid::INT4,
            ColumnType::BigInt => oid::INT8,
            ColumnType::VarInt | ColumnType::Decimal { .. } => oid::NUMERIC,
            ColumnType::Real => oid::FLOAT4,
            ColumnType::Double => oid::FLOAT8,
            ColumnType::Text | ColumnType::Ascii => oid::TEXT,
            ColumnType::Blob => oid::BYTEA,
            ColumnType::Uuid | ColumnType::TimeUuid => oid::UUID,
            ColumnType::Date => oid::DATE,
            ColumnType::Time => oid::TIME,
            ColumnType::Timestamp => oid::TIMESTAMPTZ,
            ColumnType::LocalTimestamp => oid::TIMESTAMP,
            ColumnType::Duration => oid::INTERVAL,
            ColumnType::Inet => oid::INET,
            ColumnType::Json => oid::JSON,
            ColumnType::Jsonb => oid::JSONB,
            ColumnType::List(_) | ColumnType::Nested(_) => match ty.element() {
                Some(element) => {
                    let element = PgType::of_column_type(element);
                    return PgType { modifier: element.modifier, ..PgType::array_of(element) };
                }
                None => oid::JSONB,
            },
        };
        let modifier = match ty {
            ColumnType::Decimal { precision, scale } => numeric_modifier(precision, scale),
            _ => -1,
        };
        PgType { modifier, ..PgType::of_oid(oid) }
    }

    /// The type of an Arrow field: of a column of a table the one that it was declared as, if its values are of that form.
    pub(crate) fn of_field(field: &Field) -> PgType {
        let held = PgType::of_values(field);
        match Origin::of_field(field) {
            Some(origin) if is_form(held.oid, origin.ty) => {
                PgType { modifier: origin.modifier, ..PgType::of_oid(origin.ty) }
            }
            _ => held,
        }
    }

    fn of_values(field: &Field) -> PgType {
        let named = field.metadata().get(TYPE_KEY).and_then(|name| catalog_type(name));
        if let Some(oid) = named {
            return PgType::of_oid(oid);
        }
        if let Some(ty) = ColumnType::of_field(field) {
            return PgType::of_column_type(ty);
        }
        PgType::of_arrow(field.data_type())
    }

    fn of_arrow(ty: &DataType) -> PgType {
        let oid = match ty {
            DataType::Null => oid::TEXT,
            DataType::Decimal256(..) => oid::NUMERIC,
            DataType::FixedSizeBinary(_) => oid::BYTEA,
            DataType::Dictionary(_, value) => return PgType::of_arrow(value),
            DataType::RunEndEncoded(_, value) => return PgType::of_field(value),
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::ListView(item)
            | DataType::LargeListView(item) => {
                let element = PgType::of_field(item);
                // Of what Postgres has no type for, the whole is `jsonb`.
                let foreign = element.oid == oid::JSONB && ColumnType::of_field(item).is_none();
                return if foreign { element } else { PgType::array_of(element) };
            }
            _ => oid::JSONB,
        };
        PgType::of_oid(oid)
    }

    /// An array of such elements. As in Postgres an array of arrays is an array of more dimensions; what
    /// has no array type is `jsonb`.
    pub(crate) fn array_of(element: PgType) -> PgType {
        if element.element.is_some() {
            return PgType { modifier: -1, ..element };
        }
        match TYPES.iter().find(|(known, _, _)| *known == element.oid) {
            Some((element, array, _)) if *array != 0 => PgType::of_oid(*array).with_element(*element),
            _ => PgType::of_oid(oid::JSONB),
        }
    }

    fn with_element(self, element: u32) -> PgType {
        PgType { element: Some(element), ..self }
    }

    /// The Keyspan type that holds parameters of this type; none for `unknown` (0, 705) and for types that no
    /// value of ours has.
    pub(crate) fn column_type(self) -> Option<ColumnType> {
        Some(match self.oid {
            oid::BOOL => ColumnType::Boolean,
            oid::INT2 => ColumnType::SmallInt,
            oid::INT4 => ColumnType::Int,
            oid::INT8 | oid::OID | oid::XID | oid::CID => ColumnType::BigInt,
            oid::FLOAT4 => ColumnType::Real,
            oid::FLOAT8 => ColumnType::Double,
            oid::NUMERIC => ColumnType::Decimal {
                precision: keyspan_model::types::DECIMAL_DIGITS,
                scale: keyspan_model::types::DECIMAL_SCALE,
            },
            oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::CHAR | oid::XML => ColumnType::Text,
            oid::REGCLASS | oid::REGTYPE | oid::REGPROC | oid::REGNAMESPACE => ColumnType::Text,
            oid::BYTEA => ColumnType::Blob,
            oid::UUID => ColumnType::Uuid,
            oid::DATE => ColumnType::Date,
            oid::TIME => ColumnType::Time,
            oid::TIMESTAMPTZ => ColumnType::Timestamp,
            oid::TIMESTAMP => ColumnType::LocalTimestamp,
            oid::INTERVAL => ColumnType::Duration,
            oid::INET | oid::CIDR => ColumnType::Inet,
            oid::JSON => ColumnType::Json,
            oid::JSONB => ColumnType::Jsonb,
            _ => return PgType::of_oid(self.element?).column_type()?.into_list().ok(),
        })
    }
}

/// Whether values of one type are those of the other under another name, in the text form and in the binary one.
fn is_form(held: u32, declared: u32) -> bool {
    let is_text = |oid| matches!(oid, oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::NAME | oid::CHAR);
    let element = |oid| PgType::of_oid(oid).element;
    match (element(held), element(declared)) {
        (Some(held), Some(declared)) => is_form(held, declared),
        (None, None) => {
            let is_number = matches!(declared, oid::OID | oid::XID | oid::CID);
            held == declared || is_text(held) && is_text(declared) || held == oid::INT8 && is_number
        }
        _ => false,
    }
}

/// `numeric(p, s)` as Postgres packs it.
fn numeric_modifier(precision: u8, scale: i8) -> i32 {
    ((i32::from(precision) << 16) | (i32::from(scale) & 0x7ff)) + 4
}

/// The catalog types that columns of `pg_catalog` have and no table of ours can.
fn catalog_type(name: &str) -> Option<u32> {
    Some(match name {
        "oid" => oid::OID,
        "name" => oid::NAME,
        "char" | "\"char\"" => oid::CHAR,
        "int2vector" => oid::INT2VECTOR,
        "oidvector" => oid::OIDVECTOR,
        "regproc" => oid::REGPROC,
        "regclass" => oid::REGCLASS,
        "regtype" => oid::REGTYPE,
        "regnamespace" => oid::REGNAMESPACE,
        "xid" => oid::XID,
        "cid" => oid::CID,
        "tid" => oid::TID,
        "pg_node_tree" => oid::PG_NODE_TREE,
        "aclitem" => oid::ACLITEM,
        "aclitem[]" => 1034,
        "unknown" => oid::UNKNOWN,
        "varchar" => oid::VARCHAR,
        "bpchar" => oid::BPCHAR,
        _ => return None,
    })
}
