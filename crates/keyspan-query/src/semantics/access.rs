//! Parts of a value: `(row).field`, `list[n]` and `map[a..b]`.
//!
//! DataFusion plans `row['field']` only, so the first form becomes it. A subscript beyond a list is NULL, where DataFusion
//! counts a negative one from the end; subscripts of `int2vector` and `oidvector` begin with 0.

use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::{PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, Operator, binary_expr, lit, when};
use datafusion::sql::sqlparser::ast;
use keyspan_model::{ColumnType, Error, ErrorKind, Nested, Value};

use super::cast::{explicit, implicit};
use crate::family;
use crate::functions::bounds::counts_from_zero;
use crate::functions::{nested, typed_call, value_call};
use crate::syntax::folded;
use crate::types::cast::Target;
use crate::types::{Ty, fail, field_type, literal, type_name, type_of, value_of_literal};

/// Makes `(row).field` of an expression `(row)['field']`, and gives slices both bounds. A name with points in it is a column's.
pub fn fields(expr: &mut ast::Expr) {
    let ast::Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    let mut named = matches!(root.as_ref(), ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_));
    for access in access_chain {
        let name = match access {
            ast::AccessExpr::Dot(ast::Expr::Identifier(name)) if !named => name,
            ast::AccessExpr::Dot(_) => continue,
            ast::AccessExpr::Subscript(subscript) => {
                if let ast::Subscript::Slice { lower_bound, upper_bound, stride: None } = subscript {
                    lower_bound.get_or_insert_with(|| place(1));
                    upper_bound.get_or_insert_with(|| place(i32::MAX));
                }
                named = false;
                continue;
            }
        };
        let index = ast::Expr::Value(ast::Value::SingleQuotedString(folded(name)).into());
        *access = ast::AccessExpr::Subscript(ast::Subscript::Index { index });
    }
}

fn place(number: i32) -> ast::Expr {
    ast::Expr::Value(ast::Value::Number(number.to_string(), false).into())
}

/// Plans a part of a value.
pub fn planned(access: RawFieldAccessExpr, schema: &DFSchema) -> Result<PlannerResult<RawFieldAccessExpr>> {
    let RawFieldAccessExpr { expr, field_access } = access;
    let (_, field) = expr.to_field(schema)?;
    if let GetFieldAccess::ListIndex { key } = &field_access
        && let Some(bounds) = bounds(key)
    {
        return slice(expr, &field, bounds, schema).map(PlannerResult::Planned);
    }
    if let Ty::Known(ty @ (ColumnType::Json | ColumnType::Jsonb)) = field_type(&field) {
        return Ok(PlannerResult::Planned(part_of_json(expr, ty, field_access, schema)?));
    }
    if let Ty::Known(ty @ ColumnType::Nested(nested)) = field_type(&field)
        && ty.is_packed()
    {
        return part_of_nested(expr, ty, nested.get(), field_access, schema).map(PlannerResult::Planned);
    }
    if let Ty::Known(list) = field_type(&field)
        && list.element().is_some()
    {
        return part_of_list(expr, list, field_access, schema).map(PlannerResult::Planned);
    }
    if let DataType::Map(entries, _) = field.data_type() {
        return cell(expr, (&field, entries), field_access, schema).map(PlannerResult::Planned);
    }
    let field_access = match field_access {
        GetFieldAccess::NamedStructField { name } => {
            check_field(&field, &name)?;
            GetFieldAccess::NamedStructField { name }
        }
        GetFieldAccess::ListIndex { key } if counts_from_zero(&field) => {
            let key = binary_expr(Expr::Cast(Cast::new(key, DataType::Int64)), Operator::Plus, lit(1_i64));
            GetFieldAccess::ListIndex { key: Box::new(inside(key)?) }
        }
        GetFieldAccess::ListIndex { key } if matches!(field.data_type(), DataType::List(_)) && !is_positive(&key) => {
            GetFieldAccess::ListIndex { key: Box::new(inside(*key)?) }
        }
        other => other,
    };
    Ok(PlannerResult::Original(RawFieldAccessExpr { expr, field_access }))
}

/// The bounds of `a..b` in a subscript.
fn bounds(key: &Expr) -> Option<[Expr; 2]> {
    match key {
        Expr::ScalarFunction(call) if call.func.name() == nested::SLICE => call.args.clone().try_into().ok(),
        _ => None,
    }
}

/// `map[a..b]`, `set[a..b]`: the entries or elements from a to b, by their values.
fn slice(expr: Expr, field: &Field, bounds: [Expr; 2], schema: &DFSchema) -> Result<Expr> {
    let of_key = |ty: ColumnType| -> Result<[Expr; 2]> {
        let [low, high] = bounds.map(|bound| {
            let from = type_of(&bound, schema)?;
            implicit(bound, &from, ty)
        });
        Ok([low?, high?])
    };
    if let DataType::Map(entries, _) = field.data_type() {
        let [low, high] = of_key(key_type(entries).unwrap_or(ColumnType::Text))?;
        return Ok(family::slice_call(expr, low, high));
    }
    let ty = field_type(field);
    let key = ty.known().and_then(|ty| match (ty.element(), ty.as_nested()) {
        (Some(element), _) => Some((ty, element)),
        (None, Some(nested @ (Nested::Map(..) | Nested::Set(_)))) => Some((ty, nested.parts()[0])),
        _ => None,
    });
    let Some((ty, key)) = key else {
        let message = format!("a slice is of a map, a set or an array, not of type {}", ty.name());
        return fail(Error::new(ErrorKind::WrongObjectType, message));
    };
    let [low, high] = of_key(key)?;
    value_call(nested::BETWEEN, vec![expr, low, high], &[ty, key, key])
}

/// The type of the keys of a map.
fn key_type(entries: &Field) -> Option<ColumnType> {
    match entries.data_type() {
        DataType::Struct(fields) => field_type(&fields[0]).known(),
        _ => None,
    }
}

/// `j['a']` as `j -> 'a'`.
fn part_of_json(expr: Expr, ty: ColumnType, access: GetFieldAccess, schema: &DFSchema) -> Result<Expr> {
    let (name, key, wanted) = match access {
        GetFieldAccess::NamedStructField { name } => ("json_field", Expr::Literal(name, None), ColumnType::Text),
        GetFieldAccess::ListIndex { key } => match type_of(&key, schema)? {
            Ty::Known(ColumnType::Text) | Ty::Unknown => ("json_field", *key, ColumnType::Text),
            _ => ("json_subscript", *key, ColumnType::Int),
        },
        GetFieldAccess::ListRange { .. } => {
            return fail(Error::new(ErrorKind::DatatypeMismatch, "jsonb subscript does not support slices"));
        }
    };
    let from = type_of(&key, schema)?;
    value_call(name, vec![expr, implicit(key, &from, wanted)?], &[ty, wanted])
}

/// `list[n]` and `list[m:n]`.
fn part_of_list(expr: Expr, list: ColumnType, access: GetFieldAccess, schema: &DFSchema) -> Result<Expr> {
    let subscript = |key: Expr| {
        let ty = type_of(&key, schema)?;
        implicit(key, &ty, ColumnType::BigInt)
    };
    match access {
        GetFieldAccess::ListIndex { key } => {
            value_call("list_element", vec![expr, subscript(*key)?], &[list, ColumnType::BigInt])
        }
        GetFieldAccess::ListRange { start, stop, .. } => {
            let (start, stop) = (subscript(*start)?, subscript(*stop)?);
            // A part of a vector is an array.
            let types = [list.as_array(), ColumnType::BigInt, ColumnType::BigInt];
            value_call("list_slice", vec![expr, start, stop], &types)
        }
        GetFieldAccess::NamedStructField { name } => {
            let name = name.try_as_str().flatten().unwrap_or_default();
            let ty = type_name(list);
            let message = format!("column notation .{name} applied to type {ty}, which is not a composite type");
            fail(Error::new(ErrorKind::WrongObjectType, message))
        }
    }
}

/// `map[key]`, `list[n]`, `tuple[n]` with n from 1, and `(user).field`.
fn part_of_nested(
    expr: Expr,
    ty: ColumnType,
    nested: &Nested,
    access: GetFieldAccess,
    schema: &DFSchema,
) -> Result<Expr> {
    let key = match (access, nested) {
        (GetFieldAccess::NamedStructField { name }, Nested::User(_)) => {
            return named_field(expr, ty, name.try_as_str().flatten().unwrap_or_default());
        }
        (GetFieldAccess::NamedStructField { name }, Nested::Map(..)) => Expr::Literal(name, None),
        (GetFieldAccess::ListIndex { key }, _) => *key,
        (GetFieldAccess::NamedStructField { name }, _) => {
            let name = name.try_as_str().flatten().unwrap_or_default();
            let message = format!("column notation .{name} applied to type {ty}, which is not a user type");
            return fail(Error::new(ErrorKind::WrongObjectType, message));
        }
        (GetFieldAccess::ListRange { .. }, _) => {
            let error = Error::not_supported(format!("slices by place of a value of type {ty} are not supported"));
            return fail(match nested {
                Nested::Map(..) | Nested::Set(_) => error.with_hint("Write [a..b] for a slice by keys."),
                _ => error,
            });
        }
    };
    let from = type_of(&key, schema)?;
    match nested {
        Nested::Map(of_key, _) => value_call(nested::ENTRY, vec![expr, implicit(key, &from, *of_key)?], &[ty, *of_key]),
        Nested::List(_) | Nested::Set(_) => {
            let key = implicit(key, &from, ColumnType::BigInt)?;
            value_call(nested::ELEMENT, vec![expr, key], &[ty, ColumnType::BigInt])
        }
        _ => {
            let place = value_of_literal(&implicit(key, &from, ColumnType::BigInt)?, ColumnType::BigInt);
            let types = nested.parts();
            match place {
                Some(Value::BigInt(place)) if (1..=types.len() as i64).contains(&place) => {
                    field_at(expr, ty, place - 1, types[place as usize - 1])
                }
                Some(_) => {
                    let message = format!("a value of type {ty} has the places 1 to {}", types.len());
                    fail(Error::new(ErrorKind::ArraySubscript, message))
                }
                None => fail(
                    Error::not_supported("the place in a tuple must be a literal")
                        .with_hint("Each place has a type of its own."),
                ),
            }
        }
    }
}

/// A field of a user type by its name; 42703 if there is none.
pub fn named_field(expr: Expr, ty: ColumnType, name: &str) -> Result<Expr> {
    match ty.as_nested().and_then(|nested| nested.field(name)) {
        Some((place, of_field)) => field_at(expr, ty, place as i64, of_field),
        None => {
            let message = format!("column \"{name}\" not found in data type {}", type_name(ty));
            fail(Error::new(ErrorKind::UndefinedColumn, message))
        }
    }
}

fn field_at(expr: Expr, ty: ColumnType, place: i64, of_field: ColumnType) -> Result<Expr> {
    let args = vec![expr, literal(&Value::BigInt(place), ColumnType::BigInt)?];
    typed_call(nested::FIELD, args, &[ty, ColumnType::BigInt], of_field)
}

/// `family[qualifier]`, of the type that was declared for it.
fn cell(family: Expr, (field, entries): (&Field, &Field), access: GetFieldAccess, schema: &DFSchema) -> Result<Expr> {
    let qualifier = match access {
        GetFieldAccess::NamedStructField { name } => Expr::Literal(name, None),
        GetFieldAccess::ListIndex { key } => *key,
        GetFieldAccess::ListRange { .. } => {
            let error = Error::not_supported("a range of a family's qualifiers is not written with a colon");
            let hint = "Write family[a..b], or FROM cells('table', 'family') WHERE qualifier >= … AND qualifier < …, \
                which reads nothing else.";
            return fail(error.with_hint(hint));
        }
    };
    let from = type_of(&qualifier, schema)?;
    let qualifier = implicit(qualifier, &from, key_type(entries).unwrap_or(ColumnType::Text))?;
    let known = match value_of_literal(&qualifier, ColumnType::Text) {
        Some(Value::Text(name)) => family::known_type(field, &name),
        _ => None,
    };
    let value = family::value_call(family, qualifier);
    match known {
        Some(ty) => explicit(value, Target::of(ty), schema),
        None => Ok(value),
    }
}

fn is_positive(key: &Expr) -> bool {
    matches!(key, Expr::Literal(ScalarValue::Int32(Some(1..)) | ScalarValue::Int64(Some(1..)), _))
}

/// NULL for a subscript before the first.
fn inside(key: Expr) -> Result<Expr> {
    when(binary_expr(key.clone(), Operator::Gt, lit(0_i64)), key).end()
}

fn check_field(field: &Field, name: &ScalarValue) -> Result<()> {
    let name = name.try_as_str().flatten().unwrap_or_default();
    match field.data_type() {
        DataType::Struct(fields) if fields.iter().any(|each| each.name() == name) => Ok(()),
        DataType::Struct(_) => {
            let message = format!("could not identify column \"{name}\" in record data type");
            fail(Error::new(ErrorKind::UndefinedColumn, message))
        }
        DataType::Map(..) | DataType::Dictionary(..) => Ok(()),
        _ => {
            let ty = field_type(field).name();
            let message = format!("column notation .{name} applied to type {ty}, which is not a composite type");
            fail(Error::new(ErrorKind::WrongObjectType, message))
        }
    }
}
