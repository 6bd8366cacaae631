//! `x op ANY (array)` and `x op ALL (array)`.
//!
//! ```text
//! k = ANY('{1,2}')     k IN (1, 2)                  so that they become spans and are looked up
//! k < ALL(ARRAY[a, b]) k < a AND k < b
//! k = ANY($1)          compare_any('=', $1, k)      spans when the parameter has its value
//! ```

use arrow::datatypes::{DataType, Field};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::functions_nested::expr_fn::array_has;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, Operator, lit};
use keyspan_model::{ColumnType, Error, ErrorKind, Nested, Value};

use super::cast::implicit;
use super::operator::{compared, missing};
use super::planner::{balanced, in_list};
use crate::family;
use crate::functions::array::{COMPARE_ALL, COMPARE_ANY};
use crate::functions::{nested, value_call};
use crate::types::{Ty, compared_type, fail, literal, number_rank, type_of, value_of_literal};

/// Plans the call that a mark is: operator, list and value.
pub fn planned(name: &str, args: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    let any = name == COMPARE_ANY;
    let [Expr::Literal(op, _), mut list, mut value] = <[Expr; 3]>::try_from(args)
        .or_else(|_| fail(Error::new(ErrorKind::UndefinedFunction, format!("function {name} does not exist"))))?
    else {
        return fail(Error::not_supported("the operator of ANY and ALL must be a literal"));
    };
    let symbol = op.try_as_str().flatten().unwrap_or_default();
    let Some(op) = operator(symbol) else {
        return fail(Error::not_supported(format!("{symbol} ANY and ALL of an array are not supported")));
    };
    let (mut value_type, mut list_type) = (type_of(&value, schema)?, type_of(&list, schema)?);
    if let Some(planned) = contained(&list, &value, &value_type, schema)? {
        return Ok(planned);
    }
    if let Ty::Known(set) = list_type
        && set.element().is_some()
    {
        list_type = Ty::Known(set.as_array());
    }
    // `int2vector`, which only system tables have.
    if let Ty::Other(list) = &list_type
        && let Some(list) = ColumnType::of_arrow(list).filter(|list| list.element().is_some())
    {
        list_type = Ty::Known(list);
    }
    if list_type == Ty::Unknown {
        let ty = ColumnType::list(value_type.known().unwrap_or(ColumnType::Text));
        list = implicit(list, &list_type, ty)?;
        // A numeric's digits are those of its literal.
        list_type = type_of(&list, schema)?;
    }
    let joined = if any { Operator::Or } else { Operator::And };
    if let Some(elements) = elements(&list, &list_type)? {
        return match (op, any) {
            _ if elements.is_empty() => Ok(lit(!any)),
            (Operator::Eq, true) | (Operator::NotEq, false) => {
                in_list(InList { expr: Box::new(value), list: elements, negated: !any }, schema)
            }
            _ => {
                let each = elements.into_iter().map(|element| compared(op, value.clone(), element, schema));
                let all = balanced(each.collect::<Result<_>>()?, joined);
                Ok(all.unwrap_or_else(|| lit(!any)))
            }
        };
    }
    let Ty::Known(ColumnType::List(element)) = list_type else {
        let message = "op ANY/ALL (array) requires array on right side";
        return fail(Error::new(ErrorKind::WrongObjectType, message));
    };
    let mut element = element.get();
    if value_type == Ty::Unknown {
        value = implicit(value, &value_type, element)?;
        value_type = Ty::Known(element);
    }
    let common = value_type.known().and_then(|ty| compared_type(ty, element));
    let Some(common) = common else { return missing(&value_type, symbol, &Ty::Known(element)) };
    let mut own = value_type.known().unwrap_or(common);
    // Beside a float all other numbers are floats, too.
    let is_float = |ty| matches!(ty, ColumnType::Real | ColumnType::Double);
    let common = if own != element && (is_float(own) || is_float(element)) { ColumnType::Double } else { common };
    // Exact numbers of all types compare as they are, and a bare column shows its spans.
    if number_rank(common).is_none() || is_float(common) {
        value = implicit(value, &value_type, common)?;
        list = implicit(list, &list_type, ColumnType::list(common))?;
        (own, element) = (common, common);
    }
    let name = if any { COMPARE_ANY } else { COMPARE_ALL };
    let symbol = literal(&Value::Text(symbol.to_owned()), ColumnType::Text)?;
    value_call(name, vec![symbol, list, value], &[ColumnType::Text, ColumnType::list(element), own])
}

/// CONTAINS of a nested value whose Arrow form is not an array.
fn contained(list: &Expr, value: &Expr, value_type: &Ty, schema: &DFSchema) -> Result<Option<Expr>> {
    let Expr::ScalarFunction(call) = list else { return Ok(None) };
    let [collection] = call.args.as_slice() else { return Ok(None) };
    if call.func.name() != family::VALUES {
        return Ok(None);
    }
    let ty = match type_of(collection, schema)? {
        Ty::Known(ty) => ty,
        Ty::Other(DataType::Map(entries, _)) => return contained_in_map(list, &entries, value, value_type),
        _ => return Ok(None),
    };
    let Some(element) = ty.as_nested().filter(|_| ty.is_packed()).and_then(|nested| match nested {
        Nested::List(element) | Nested::Set(element) | Nested::Map(_, element) => Some(*element),
        _ => None,
    }) else {
        return Ok(None);
    };
    let value = implicit(value.clone(), value_type, element)?;
    value_call(nested::CONTAINS, vec![collection.clone(), value], &[ty, element]).map(Some)
}

/// CONTAINS of a map that is a collection, whose values are bytes in Arrow: equal bytes are equal values.
fn contained_in_map(list: &Expr, entries: &Field, value: &Expr, value_type: &Ty) -> Result<Option<Expr>> {
    let DataType::Struct(fields) = entries.data_type() else { return Ok(None) };
    let element = fields.get(1).and_then(|field| ColumnType::of_field(field)).filter(|ty| !ty.is_scalar());
    let Some(element) = element else { return Ok(None) };
    if element.is_variant() && value_type.known().is_some_and(|ty| number_rank(ty).is_some()) {
        return contained_number(list, value, value_type).map(Some);
    }
    let value = implicit(value.clone(), value_type, element)?;
    Ok(Some(array_has(list.clone(), value)))
}

/// CONTAINS of a number among variants: of one of any type that has this value. Of a number that is not written out the
/// types are its own and those that have all of its values.
fn contained_number(list: &Expr, value: &Expr, value_type: &Ty) -> Result<Expr> {
    use ColumnType as C;
    let own = value_type.known().unwrap_or(C::BigInt);
    let mut found = Vec::new();
    for ty in [C::TinyInt, C::Int, C::BigInt, C::Real, C::Double] {
        let held = match value_of_literal(value, own) {
            Some(known) => {
                let same = known.clone().cast(ty).ok().filter(
                    |held| matches!(held.clone().cast(own), Ok(back) if Value::compare_as(own, &back, &known).is_eq()),
                );
                let Some(held) = same else { continue };
                literal(&Value::Variant(Box::new(held)), C::variant())?
            }
            None if ty == own || matches!(ty, C::BigInt | C::Double) => {
                let number = implicit(value.clone(), value_type, ty)?;
                implicit(number, &Ty::Known(ty), C::variant())?
            }
            None => continue,
        };
        found.push(array_has(list.clone(), held));
    }
    Ok(balanced(found, Operator::Or).unwrap_or_else(|| lit(false)))
}

fn operator(symbol: &str) -> Option<Operator> {
    Some(match symbol {
        "=" => Operator::Eq,
        "<>" => Operator::NotEq,
        "<" => Operator::Lt,
        "<=" => Operator::LtEq,
        ">" => Operator::Gt,
        ">=" => Operator::GtEq,
        _ => return None,
    })
}

/// The elements of an array that is written out, and what stands for each of a NULL array: one NULL.
fn elements(list: &Expr, ty: &Ty) -> Result<Option<Vec<Expr>>> {
    match list {
        Expr::Alias(alias) => elements(&alias.expr, ty),
        Expr::ScalarFunction(function) if matches!(function.name(), "make_array" | "make_list") => {
            Ok(Some(function.args.clone()))
        }
        Expr::Literal(..) => {
            let Some(ty @ ColumnType::List(element)) = ty.known() else { return Ok(None) };
            match value_of_literal(list, ty) {
                Some(Value::List(values)) => {
                    let literals = values.iter().map(|value| literal(value, element.get()));
                    literals.collect::<Result<_>>().map(Some)
                }
                Some(_) => Ok(Some(vec![literal(&Value::Null, element.get())?])),
                None => Ok(None),
            }
        }
        _ => Ok(None),
    }
}
