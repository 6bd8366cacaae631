//! Scalar expressions outside of queries: literals and parameters are read directly, anything else is compiled by the
//! planner.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use keyspan_cql::{NestedLiteral, ast, from_json_argument, nested_literal};
use keyspan_model::array::value_at;
use keyspan_model::value_json::nested_text;
use keyspan_model::{ColumnType, Error, ErrorKind, Nested, Result, Value, timestamp_text, utc_only};
use keyspan_query::{CompiledExprs, Zone, cast_to, cast_value};
use keyspan_seam::ReadAt;

use crate::context::ClientContext;
use crate::database::count;
use crate::names::columns_of;
use crate::parameter::parameter_index;
use crate::transaction::Transaction;

/// An expression that reads no row.
#[derive(Clone, Debug)]
pub(crate) enum WithoutRow {
    /// It has one value.
    Constant(Value),
    /// It has another one for each row.
    Volatile(Volatile),
}

/// An expression such as `random()`.
#[derive(Clone, Debug)]
pub(crate) struct Volatile {
    compiled: CompiledExprs,
    parameters: Vec<Value>,
}

impl Volatile {
    /// So many values of it, and their type.
    pub(crate) fn values(&self, rows: usize) -> Result<(ArrayRef, ColumnType)> {
        let mut arrays = self.compiled.evaluate(&rows_without_columns(rows)?, &self.parameters)?;
        Ok((arrays.swap_remove(0), self.compiled.types()[0]))
    }

    /// The next value of it, as a column of type `to` stores it.
    pub(crate) fn value(&self, evaluator: &Evaluator, to: ColumnType) -> Result<Value> {
        let (array, from) = self.values(1)?;
        evaluator.assign(&array, 0, from, to)
    }
}

/// Evaluates expressions in a session's time zone.
#[derive(Clone, Debug)]
pub(crate) struct Evaluator {
    zone: Zone,
    /// Types of the running statement's parameters.
    parameters: Vec<ColumnType>,
}

impl Evaluator {
    pub(crate) fn new(context: &ClientContext) -> Evaluator {
        Evaluator { zone: context.zone(), parameters: context.parameter_types.clone() }
    }

    /// The value of an expression without columns, as a column of type `to` stores it.
    pub(crate) fn constant(
        &self,
        context: &mut ClientContext,
        expression: &ast::Expr,
        to: ColumnType,
        parameters: &[Value],
    ) -> Result<Value> {
        match self.without_row(context, expression, to, parameters)? {
            WithoutRow::Constant(value) => Ok(value),
            WithoutRow::Volatile(volatile) => volatile.value(self, to),
        }
    }

    /// What an expression without columns is, for several rows.
    pub(crate) fn without_row(
        &self,
        context: &mut ClientContext,
        expression: &ast::Expr,
        to: ColumnType,
        parameters: &[Value],
    ) -> Result<WithoutRow> {
        if let Some(value) = self.simple(expression, to, parameters) {
            return value.map(WithoutRow::Constant);
        }
        let compiled = compile(context, &[&*with_cql_now(expression, to)], &[], parameters)?;
        let volatile = Volatile { compiled, parameters: parameters.to_vec() };
        match volatile.compiled.are_volatile() {
            true => Ok(WithoutRow::Volatile(volatile)),
            false => volatile.value(self, to).map(WithoutRow::Constant),
        }
    }

    /// The value of type `to` that a column of that type is compared with, where comparing with the expression is comparing
    /// with that value; none where columns, volatile functions or another type make it a matter for a query.
    pub(crate) fn compared(
        &self,
        context: &mut ClientContext,
        expression: &ast::Expr,
        to: ColumnType,
        parameters: &[Value],
    ) -> Option<Value> {
        if !columns_of(expression).is_empty() {
            return None;
        }
        // A text has the type of the column, and so has a literal of a collection, tuple or user type.
        let is_text = |literal: &ast::ValueWithSpan| {
            matches!(literal.value, ast::Value::SingleQuotedString(_) | ast::Value::DollarQuotedString(_))
        };
        let takes_type = match expression {
            ast::Expr::Value(literal) => is_text(literal),
            ast::Expr::Tuple(_) => true,
            ast::Expr::Array(array) => !array.named,
            expression => nested_literal(expression).is_some(),
        };
        if takes_type {
            let literal = keyspan_cql::nested_tuples(expression.clone());
            return self.simple(&literal, to, parameters)?.ok();
        }
        let left = Box::new(ast::Expr::Nested(Box::new(expression.clone())));
        let cast = cast_to(left.as_ref().clone(), to);
        let same = ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Eq, right: Box::new(cast.clone()) };
        let compiled = compile(context, &[&cast, &same], &[], parameters).ok()?;
        if compiled.are_volatile() {
            return None;
        }
        let arrays = compiled.evaluate(&one_row().ok()?, parameters).ok()?;
        let value = value_at(&arrays[0], 0, compiled.types()[0]).ok().filter(|value| value.fits(to))?;
        let same = value_at(&arrays[1], 0, ColumnType::Boolean).ok()?;
        (same == Value::Boolean(true) || value.is_null()).then(|| value.canonical())
    }

    /// The value of one row of an array of type `from`, as a column of type `to` stores it.
    pub(crate) fn assign(&self, array: &ArrayRef, row: usize, from: ColumnType, to: ColumnType) -> Result<Value> {
        assigned(value_at(array, row, from)?, from, to, &self.zone)
    }

    /// The value as a column of type `to` stores it.
    pub(crate) fn cast(&self, value: Value, to: ColumnType) -> Result<Value> {
        value.cast_zoned(to, &|zone, local| self.zone.resolve(zone, local))
    }

    /// The value of a literal or parameter; none for anything that needs compiling.
    pub(crate) fn simple(&self, expression: &ast::Expr, to: ColumnType, parameters: &[Value]) -> Option<Result<Value>> {
        use ast::Expr;
        match expression {
            Expr::Nested(inner) => self.simple(inner, to, parameters),
            Expr::Value(literal) => self.literal(&literal.value, to, parameters, false),
            Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match &**expr {
                Expr::Value(literal) if matches!(literal.value, ast::Value::Number(..)) => {
                    self.literal(&literal.value, to, parameters, true)
                }
                _ => None,
            },
            Expr::Function(_) => self.nested(expression, to, parameters),
            Expr::TypedString(typed) => match &typed.value.value {
                ast::Value::SingleQuotedString(text) => self.typed(text, &typed.data_type, to),
                _ => None,
            },
            Expr::Cast { expr, data_type, kind, array: false, format: None, .. } if *kind != ast::CastKind::TryCast => {
                match &**expr {
                    Expr::Value(literal) => match &literal.value {
                        ast::Value::SingleQuotedString(text) => self.typed(text, data_type, to),
                        _ => None,
                    },
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn literal(
        &self,
        literal: &ast::Value,
        to: ColumnType,
        parameters: &[Value],
        minus: bool,
    ) -> Option<Result<Value>> {
        let sign = if minus { "-" } else { "" };
        Some(match literal {
            ast::Value::Null => Ok(Value::Null),
            ast::Value::Boolean(value) => self.cast(Value::Boolean(*value), to),
            ast::Value::SingleQuotedString(text)
            | ast::Value::DollarQuotedString(ast::DollarQuotedString { value: text, .. }) => self.text(text, to),
            ast::Value::Number(digits, _) => return self.number(&format!("{sign}{digits}"), to),
            ast::Value::Placeholder(name) => match parameter_index(name).filter(|index| *index < parameters.len()) {
                Some(index) => {
                    let from = self.parameters.get(index).copied().unwrap_or(to);
                    assigned(parameters[index].clone(), from, to, &self.zone)
                }
                None => Err(Error::new(ErrorKind::UndefinedParameter, format!("there is no parameter {name}"))),
            },
            _ => return None,
        })
    }

    /// A literal of a collection, tuple or user type, if all of its parts are literals or parameters; `from_json`.
    fn nested(&self, expression: &ast::Expr, to: ColumnType, parameters: &[Value]) -> Option<Result<Value>> {
        if let Some(json) = from_json_argument(expression) {
            let json = self.simple(json, ColumnType::Text, parameters)?;
            return Some(json.and_then(|json| match json {
                Value::Text(json) => Value::of_json(&json, to, &|zone, local| self.zone.resolve(zone, local)),
                _ => Ok(Value::Null),
            }));
        }
        let literal = nested_literal(expression)?;
        if to.is_scalar() {
            return None;
        }
        let Some(parts) = literal_parts(expression, to) else { return Some(Err(self.no_such_literal(&literal, to))) };
        let mut values = Vec::with_capacity(parts.len());
        for (part, ty) in parts {
            match self.simple(part, ty, parameters)? {
                Ok(value) => values.push(value),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(assembled(&literal, to, values))
    }

    /// 42703 for a field that a user type has not, else 42804.
    fn no_such_literal(&self, literal: &NestedLiteral<'_>, to: ColumnType) -> Error {
        if let (NestedLiteral::User(fields), Some(nested @ Nested::User(user))) = (literal, to.as_nested())
            && let Some((name, _)) = fields.iter().find(|(name, _)| nested.field(name).is_none())
        {
            let message = format!("Unknown field '{name}' in value of user defined type {}", user.name);
            return Error::new(ErrorKind::UndefinedColumn, message);
        }
        other_kind(to)
    }

    fn text(&self, text: &str, to: ColumnType) -> Result<Value> {
        Value::parse_zoned(text, to, &|zone, local| self.zone.resolve(zone, local))
    }

    /// A number as it stands is exact until the column rounds it.
    fn number(&self, digits: &str, to: ColumnType) -> Option<Result<Value>> {
        use ColumnType as T;
        match to {
            T::TinyInt | T::SmallInt | T::Int | T::BigInt | T::VarInt | T::Real | T::Double | T::Decimal { .. } => {
                let whole = !digits.contains(['.', 'e', 'E']);
                let exact = whole || matches!(to, T::Real | T::Double | T::Decimal { .. });
                if exact {
                    return Some(Value::parse(digits, to));
                }
                let wide = Value::parse(digits, T::Decimal { precision: 38, scale: 10 });
                Some(wide.and_then(|value| value.cast(to)))
            }
            ty if ty.is_variant() => Some(Value::of_json(digits, ty, &utc_only)),
            // CQL: a whole number for an instant is milliseconds since 1970.
            T::Timestamp => digits.parse().ok().map(Value::timestamp_from_millis),
            T::Text => Some(Ok(Value::Text(digits.to_string()))),
            _ => None,
        }
    }

    fn typed(&self, text: &str, data_type: &ast::DataType, to: ColumnType) -> Option<Result<Value>> {
        // A type with arguments (varchar(3), decimal(5,2)) cuts or rounds: the compiler knows how.
        let plain = !data_type.to_string().contains('(');
        let ty = keyspan_cql::column_type(data_type).ok().filter(|_| plain)?;
        Some(self.text(text, ty).and_then(|value| assigned(value, ty, to, &self.zone)))
    }
}

/// The expression for a column of type `to`: CQL's `now()` is a timeuuid, where one is wanted; SQL's is an instant.
pub(crate) fn with_cql_now(expression: &ast::Expr, to: ColumnType) -> Cow<'_, ast::Expr> {
    let is_now = || matches!(expression, ast::Expr::Function(call) if call.to_string().eq_ignore_ascii_case("now()"));
    let timeuuid =
        (to == ColumnType::TimeUuid && is_now()).then(|| keyspan_cql::parse_expression("current_timeuuid()"));
    timeuuid.and_then(Result::ok).map_or(Cow::Borrowed(expression), Cow::Owned)
}

/// The value of the type `from` as a column of type `to` stores it.
pub(crate) fn assigned(value: Value, from: ColumnType, to: ColumnType, zone: &Zone) -> Result<Value> {
    let resolve = |name: Option<&str>, local| zone.resolve(name, local);
    match value {
        Value::Text(json) if matches!(from, ColumnType::Json | ColumnType::Jsonb) && !to.is_scalar() => {
            Value::of_json(&json, to, &resolve)
        }
        Value::Variant(_) if to == ColumnType::Text => value.cast(to),
        // Only its type tells the names of a user type's fields.
        value
            if from.is_packed()
                && !value.is_null()
                && matches!(to, ColumnType::Text | ColumnType::Json | ColumnType::Jsonb) =>
        {
            Value::Text(nested_text(&value, from, &|at| timestamp_text(at, zone.offset_at(at)))).cast(to)
        }
        value if takes_zone(from, to) => cast_value(value, from, to, *zone),
        value => value.cast_zoned(to, &resolve),
    }
}

/// Whether the session's zone may decide what a time is as a column of another type stores it.
pub(crate) fn takes_zone(from: ColumnType, to: ColumnType) -> bool {
    from != to && is_of_time(from) && (is_of_time(to) || is_text(to))
}

/// Whether it is a text or an array of them.
pub(crate) fn is_text(ty: ColumnType) -> bool {
    matches!(ty.element().unwrap_or(ty), ColumnType::Text | ColumnType::Ascii)
}

/// Whether it is a time or an array of them: only its type tells whether it is an instant or one without a zone.
fn is_of_time(ty: ColumnType) -> bool {
    use ColumnType as C;
    matches!(ty.element().unwrap_or(ty), C::Timestamp | C::LocalTimestamp | C::Date | C::Time)
}

/// The parts of a literal of a collection, tuple or user type with the types that they have in a value of this type;
/// none if the expression is no such literal, or not of this type.
pub(crate) fn literal_parts(expression: &ast::Expr, ty: ColumnType) -> Option<Vec<(&ast::Expr, ColumnType)>> {
    let element = match (ty, ty.as_nested()) {
        (ColumnType::List(element), _) => Some(element.get()),
        (_, Some(Nested::List(element) | Nested::Set(element))) => Some(*element),
        (_, Some(Nested::Vector(_))) => Some(ColumnType::Real),
        _ => None,
    };
    Some(match (nested_literal(expression)?, ty.as_nested()) {
        (NestedLiteral::Set(parts), Some(Nested::Set(element))) => each_of(parts, *element),
        (NestedLiteral::List(parts), nested) if !matches!(nested, Some(Nested::Set(_))) => each_of(parts, element?),
        (NestedLiteral::Map(entries), Some(Nested::Set(element))) if entries.is_empty() => {
            each_of(Vec::new(), *element)
        }
        (NestedLiteral::Map(entries), Some(Nested::Map(key, value))) => {
            entries.into_iter().flat_map(|(own, each)| [(own, *key), (each, *value)]).collect()
        }
        (NestedLiteral::User(fields), Some(nested @ Nested::User(_))) => {
            let typed = fields.into_iter().map(|(name, part)| Some((part, nested.field(name)?.1)));
            typed.collect::<Option<_>>()?
        }
        (NestedLiteral::Tuple(parts), Some(nested)) => {
            let types = nested.fields().filter(|types| parts.len() <= types.len())?;
            parts.into_iter().zip(types).collect()
        }
        _ => return None,
    })
}

fn each_of(parts: Vec<&ast::Expr>, ty: ColumnType) -> Vec<(&ast::Expr, ColumnType)> {
    parts.into_iter().map(|part| (part, ty)).collect()
}

/// The value of a literal whose parts are these.
fn assembled(literal: &NestedLiteral<'_>, to: ColumnType, values: Vec<Value>) -> Result<Value> {
    match (literal, to.as_nested()) {
        (_, Some(Nested::Set(element))) => Value::set(values, *element),
        (_, Some(Nested::Vector(dimension))) => Value::vector(values, usize::from(*dimension)),
        (NestedLiteral::Map(_), Some(Nested::Map(key, _))) => {
            let mut values = values.into_iter();
            let mut entries = Vec::with_capacity(values.len() / 2);
            while let (Some(key), Some(value)) = (values.next(), values.next()) {
                entries.push((key, value));
            }
            Value::map(entries, *key)
        }
        (NestedLiteral::User(fields), Some(nested)) => {
            let mut all = vec![Value::Null; nested.parts().len()];
            for ((name, _), value) in fields.iter().zip(values) {
                if let Some((place, _)) = nested.field(name) {
                    all[place] = value;
                }
            }
            Ok(Value::Tuple(all))
        }
        (NestedLiteral::Tuple(_), Some(nested)) => {
            let mut all = values;
            all.resize(nested.parts().len(), Value::Null);
            Ok(Value::Tuple(all))
        }
        _ => Ok(Value::List(values)),
    }
}

/// 42804 for a literal of another kind than its type; [`literal_parts`] has said so.
fn other_kind(ty: ColumnType) -> Error {
    let message = format!("the literal is no value of type {ty}");
    let hint = match ty.as_nested() {
        Some(Nested::Set(_)) => "Write a set: {element, …}.",
        Some(Nested::Map(..)) => "Write a map: {key: value, …}.",
        Some(Nested::Tuple(_)) => "Write a tuple: (value, …), with no more values than its type has.",
        Some(Nested::User(_)) => "Write {field: value, …}, with fields that the type has.",
        _ => "Write a list: [element, …].",
    };
    Error::new(ErrorKind::DatatypeMismatch, message).with_hint(hint)
}

/// Compiles expressions over rows of the inputs; parameters have the types of the given values.
pub(crate) fn compile(
    context: &mut ClientContext,
    expressions: &[&ast::Expr],
    input: &[(&str, SchemaRef)],
    parameters: &[Value],
) -> Result<CompiledExprs> {
    let types = context.types_of(parameters);
    compile_typed(context, expressions, input, &types)
}

/// As [`compile`], with parameter types as far as they are known.
pub(crate) fn compile_typed(
    context: &mut ClientContext,
    expressions: &[&ast::Expr],
    input: &[(&str, SchemaRef)],
    types: &[Option<ColumnType>],
) -> Result<CompiledExprs> {
    count(&context.database.counts().compilations);
    let snapshot = context.database.store().snapshot(ReadAt::Acknowledged)?;
    // Defaults may name what the open transaction has made: the sequence of a table in it.
    let snapshot = match context.transaction.as_ref().and_then(Transaction::catalog) {
        Some(own) => snapshot.with_catalog(own.clone())?,
        None => snapshot,
    };
    let query_context = context.query_context(snapshot, types);
    context.queries.expression(expressions, input, &query_context)
}

/// A batch of one row without columns.
pub(crate) fn one_row() -> Result<RecordBatch> {
    rows_without_columns(1)
}

/// A batch of rows without columns.
pub(crate) fn rows_without_columns(rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?)
}
