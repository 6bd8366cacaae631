//! CQL's IF: the condition of a conditional write, and its answer.
//!
//! The rule, Scylla's: a conditional write answers `[applied]` and all columns, always, so that prepared statements
//! know their columns; the columns are null when it was applied, and the row that was in the way when it was not.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use keyspan_cql::{Condition, ast};
use keyspan_model::array::array_of;
use keyspan_model::{ColumnType, Mutation, Result, TableDef, Value};
use keyspan_query::CompiledExprs;

use crate::context::ClientContext;
use crate::expression::compile;
use crate::outcome::Rows;
use crate::row::TableHandle;
use crate::transaction::Transaction;

/// A condition ready to be evaluated.
#[derive(Clone, Debug)]
pub(crate) enum CompiledCondition {
    Exists,
    If(CompiledExprs),
}

/// The expression that a condition asks for, if it is one.
pub(crate) fn expression_of(condition: Option<&Condition>) -> Option<&ast::Expr> {
    match condition? {
        Condition::Exists => None,
        Condition::If(expression) => Some(expression),
    }
}

/// Compiles a condition over the old row, which has these columns.
pub(crate) fn compile_condition(
    context: &mut ClientContext,
    handle: &TableHandle,
    schema: &SchemaRef,
    condition: &Condition,
    parameters: &[Value],
) -> Result<CompiledCondition> {
    Ok(match condition {
        Condition::Exists => CompiledCondition::Exists,
        Condition::If(expression) => {
            let expression = with_null_equality(expression);
            let input = [(handle.table.name.as_str(), schema.clone())];
            CompiledCondition::If(compile(context, &[&expression], &input, parameters)?)
        }
    })
}

impl CompiledCondition {
    /// Whether it holds for each row of a batch. `exist` is false for rows that stand for one that is missing.
    pub(crate) fn holds(&self, rows: &RecordBatch, exist: bool, parameters: &[Value]) -> Result<Vec<bool>> {
        match self {
            CompiledCondition::Exists => Ok(vec![exist; rows.num_rows()]),
            CompiledCondition::If(compiled) => Ok(holds(compiled.evaluate(rows, parameters)?[0].as_ref())),
        }
    }
}

/// The rows for which a condition is true: not false, not null.
pub(crate) fn holds(condition: &dyn Array) -> Vec<bool> {
    let values = condition.as_boolean_opt();
    (0..condition.len()).map(|row| values.is_some_and(|v| v.is_valid(row) && v.value(row))).collect()
}

/// In CQL `IF v = null` is true where v is absent.
fn with_null_equality(expression: &ast::Expr) -> ast::Expr {
    let mut expression = expression.clone();
    let _ = ast::visit_expressions_mut(&mut expression, |expression| {
        if let ast::Expr::BinaryOp { left, op, right } = expression {
            let is_null = |side: &ast::Expr| matches!(side, ast::Expr::Value(v) if v.value == ast::Value::Null);
            if is_null(right) {
                match op {
                    ast::BinaryOperator::Eq => *expression = ast::Expr::IsNull(left.clone()),
                    ast::BinaryOperator::NotEq => *expression = ast::Expr::IsNotNull(left.clone()),
                    _ => {}
                }
            }
        }
        ControlFlow::<()>::Continue(())
    });
    expression
}

/// The columns of a conditional write's answer.
pub(crate) fn schema(table: &TableDef) -> SchemaRef {
    let applied = ColumnType::Boolean.field("[applied]", false);
    let columns = table.shown_columns().map(|c| c.ty.field(&c.name, true));
    Arc::new(Schema::new(std::iter::once(applied).chain(columns).collect::<Vec<_>>()))
}

/// What a conditional write decided: its mutations, the rows it concerns, and an answer for each condition.
pub(crate) type Decision<Rows> = (Vec<Mutation>, (Rows, Vec<ConditionAnswer>));

/// One answer: applied, or the row that was in the way, if there was one.
#[derive(Clone, Debug)]
pub(crate) struct ConditionAnswer {
    pub(crate) applied: bool,
    pub(crate) row: Option<Vec<Value>>,
}

/// The rows of a conditional write's answer. In a BATCH all conditions decide whether it is written.
pub(crate) fn answer(context: &mut ClientContext, handle: &TableHandle, answers: &[ConditionAnswer]) -> Result<Rows> {
    if let Some(batch) = context.transaction.as_mut().and_then(Transaction::batch_mut) {
        answers.iter().for_each(|answer| batch.condition(answer.applied));
    }
    let applied: Vec<Value> = answers.iter().map(|answer| Value::Boolean(answer.applied)).collect();
    let mut arrays = vec![array_of(ColumnType::Boolean, &applied)?];
    for (index, column) in handle.shown() {
        let value = |answer: &ConditionAnswer| answer.row.as_ref().map_or(Value::Null, |row| row[index].clone());
        arrays.push(array_of(column.ty, &answers.iter().map(value).collect::<Vec<_>>())?);
    }
    let schema = schema(&handle.table);
    let batch = RecordBatch::try_new(schema.clone(), arrays)?;
    Ok(Rows::ready(schema, vec![batch]))
}
