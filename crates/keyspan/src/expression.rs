//! Scalar expressions outside of queries: literals and parameters are read directly, anything else is compiled by the
//! planner.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use keyspan_cql::ast;
use keyspan_model::array::value_at;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};
use keyspan_query::{CompiledExprs, Zone};
use keyspan_seam::ReadAt;

use crate::context::ClientContext;
use crate::database::count;
use crate::parameter::parameter_index;

/// Evaluates expressions in a session's time zone.
#[derive(Clone, Debug)]
pub(crate) struct Evaluator {
    zone: Zone,
}

impl Evaluator {
    pub(crate) fn new(context: &ClientContext) -> Evaluator {
        Evaluator { zone: context.zone() }
    }

    /// The value of an expression without columns, as a column of type `to` stores it.
    pub(crate) fn constant(
        &self,
        context: &mut ClientContext,
        expression: &ast::Expr,
        to: ColumnType,
        parameters: &[Value],
    ) -> Result<Value> {
        if let Some(value) = self.simple(expression, to, parameters) {
            return value;
        }
        let compiled = compile(context, &[expression], &[], parameters)?;
        let arrays = compiled.evaluate(&one_row()?, parameters)?;
        self.assign(&arrays[0], 0, compiled.types()[0], to)
    }

    /// The value of one row of an array of type `from`, as a column of type `to` stores it.
    pub(crate) fn assign(&self, array: &ArrayRef, row: usize, from: ColumnType, to: ColumnType) -> Result<Value> {
        self.cast(value_at(array, row, from)?, to)
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
            ast::Value::Placeholder(name) => match parameter_index(name).and_then(|index| parameters.get(index)) {
                Some(value) => self.cast(value.clone(), to),
                None => Err(Error::new(ErrorKind::UndefinedParameter, format!("there is no parameter {name}"))),
            },
            _ => return None,
        })
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
        Some(self.text(text, ty).and_then(|value| self.cast(value, to)))
    }
}

/// Compiles expressions over rows of the inputs; parameters have the types of the given values.
pub(crate) fn compile(
    context: &mut ClientContext,
    expressions: &[&ast::Expr],
    input: &[(&str, SchemaRef)],
    parameters: &[Value],
) -> Result<CompiledExprs> {
    let types: Vec<_> = parameters.iter().map(Value::natural_type).collect();
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
