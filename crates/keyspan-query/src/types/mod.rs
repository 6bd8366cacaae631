//! The rules of types, below functions and the planner: which type an expression has, where a bare literal has none yet
//! ([`Ty`]); the common type of two (`common_type`); what arithmetic gives (`arithmetic`); which casts exist and what they give
//! (`cast`); time zones (`zone`).

pub mod arithmetic;
pub mod cast;
mod common_type;
mod scalar;
mod zone;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::metadata::{FieldMetadata, ScalarAndMetadata};
use datafusion::common::{DFSchema, ParamValues, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable};
use keyspan_model::{ColumnType, Error, ErrorKind, Value};

use crate::error::external;
pub use common_type::{common_of_all, common_type, compared_type, decimal, number_rank, scale_of};
pub use scalar::{scalar_of, value_of};
pub use zone::Zone;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ty {
    /// A bare string literal, NULL or a parameter nobody gave a type to: takes the type of its surroundings.
    Unknown,
    /// A type of Keyspan's.
    Known(ColumnType),
    /// Lists of lists, structs and the like: left to DataFusion.
    Other(DataType),
}

impl Ty {
    /// The type, if it is one of Keyspan's.
    pub fn known(&self) -> Option<ColumnType> {
        match self {
            Ty::Known(ty) => Some(*ty),
            _ => None,
        }
    }

    /// Whether its values have values in them, in Arrow's form.
    pub fn is_nested(&self) -> bool {
        matches!(self, Ty::Other(_)) || self.known().is_some_and(|ty| ty.element().is_some())
    }

    /// The name in error messages.
    pub fn name(&self) -> String {
        match self {
            Ty::Unknown => "unknown".into(),
            Ty::Known(ty) => type_name(*ty),
            Ty::Other(DataType::List(_)) => "array".into(),
            Ty::Other(DataType::Struct(_)) => "record".into(),
            Ty::Other(DataType::Map(..)) => "family".into(),
            Ty::Other(other) => other.to_string().to_lowercase(),
        }
    }
}

/// Postgres' name without digits and scale.
pub fn type_name(ty: ColumnType) -> String {
    match ty {
        ColumnType::Decimal { .. } => "numeric".into(),
        ColumnType::List(element) => format!("{}[]", type_name(element.get())),
        other => other.postgres_name(),
    }
}

/// The type of an expression over these columns.
pub fn type_of(expr: &Expr, schema: &DFSchema) -> Result<Ty> {
    match expr {
        Expr::Literal(scalar, metadata) if is_text(scalar) && metadata.is_none() => return Ok(Ty::Unknown),
        Expr::Placeholder(Placeholder { field: None, .. }) => return Ok(Ty::Unknown),
        // CQL's literals of collections, tuples and user types take the type of their surroundings, too.
        Expr::ScalarFunction(call) if is_nested_literal(call.func.name()) => return Ok(Ty::Unknown),
        Expr::Alias(alias) => return type_of(&alias.expr, schema),
        // Its field would be named by the whole of the expression, at each level of a long one.
        Expr::BinaryExpr(BinaryExpr { op, .. }) if op.is_logic_operator() || op.supports_propagation() => {
            return Ok(Ty::Known(ColumnType::Boolean));
        }
        _ => {}
    }
    let (_, field) = expr.to_field(schema)?;
    Ok(field_type(&field))
}

/// The type of a field.
pub fn field_type(field: &Field) -> Ty {
    match field.data_type() {
        DataType::Null => Ty::Unknown,
        DataType::UInt64 => Ty::Known(ColumnType::BigInt),
        data_type => match ColumnType::of_field(field) {
            Some(ty) => Ty::Known(ty),
            None => Ty::Other(data_type.clone()),
        },
    }
}

fn is_text(scalar: &ScalarValue) -> bool {
    matches!(scalar, ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) | ScalarValue::LargeUtf8(_))
}

/// Whether a function is one of CQL's literals of values in values.
pub fn is_nested_literal(name: &str) -> bool {
    matches!(name, "cql_map" | "cql_set" | "cql_list" | "cql_user" | "cql_tuple")
}

/// The text of a bare string literal.
pub fn literal_text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => Some(text),
        Expr::Alias(alias) => literal_text(&alias.expr),
        _ => None,
    }
}

/// A literal of exactly this type; a text looks like a bare one.
pub fn literal(value: &Value, ty: ColumnType) -> Result<Expr> {
    let scalar = scalar_of(value, ty).map_err(external)?;
    Ok(Expr::Literal(scalar, metadata_of(ty)))
}

/// A field of this type; with metadata only where the Arrow form does not tell the type, since DataFusion takes fields
/// that differ in metadata for different (literals have none).
pub fn field_of(ty: ColumnType, name: &str, nullable: bool) -> Field {
    match metadata_of(ty) {
        Some(_) => ty.field(name, nullable),
        None => Field::new(name, ty.arrow(), nullable),
    }
}

/// Metadata for types that their Arrow form does not tell.
pub fn metadata_of(ty: ColumnType) -> Option<FieldMetadata> {
    let natural = ColumnType::of_arrow(&ty.arrow()) == Some(ty);
    (!natural).then(|| FieldMetadata::new(BTreeMap::from([ty.metadata()])))
}

/// The value of a literal of this type.
pub fn value_of_literal(expr: &Expr, ty: ColumnType) -> Option<Value> {
    match expr {
        Expr::Literal(scalar, _) => value_of(scalar, ty),
        _ => None,
    }
}

/// The parameter, now of this type.
pub fn typed_parameter(placeholder: &Placeholder, ty: ColumnType) -> Expr {
    let field = Some(Arc::new(ty.field("", true)));
    Expr::Placeholder(Placeholder { id: placeholder.id.clone(), field })
}

/// The error as DataFusion carries it.
pub fn fail<T>(error: Error) -> Result<T> {
    Err(external(error))
}

/// The function whose result sorts as values of this type do; none where they do themselves.
pub fn sortable_form(ty: ColumnType) -> Option<&'static str> {
    match ty {
        ColumnType::TimeUuid => Some("timeuuid_bytes"),
        ColumnType::Inet => Some("inet_bytes"),
        ColumnType::Duration => Some("interval_length"),
        ColumnType::Jsonb => Some("jsonb_order"),
        ColumnType::List(_) | ColumnType::Nested(_) => Some("value_order"),
        _ => None,
    }
}

/// The values as DataFusion takes them, each cast to its parameter's type.
pub fn parameter_values(types: &[ColumnType], values: &[Value]) -> keyspan_model::Result<ParamValues> {
    if values.len() < types.len() {
        let message =
            format!("bind message supplies {} parameters, but the statement requires {}", values.len(), types.len());
        return Err(Error::new(ErrorKind::Protocol, message));
    }
    let scalars = types.iter().zip(values).map(|(ty, value)| {
        // As a literal of the text has it: two that differ in it are taken for different values.
        let metadata = metadata_of(*ty);
        Ok(ScalarAndMetadata::new(scalar_of(value, *ty)?, metadata))
    });
    Ok(ParamValues::List(scalars.collect::<keyspan_model::Result<Vec<_>>>()?))
}
