//! CQL's IF: the condition of a conditional write, and its answer.
//!
//! The rule, Scylla's: a conditional write answers `[applied]` and all columns and collections, always, so that prepared
//! statements know their columns; they are null when it was applied, and the row that was in the way when it was not.
//! A row that is missing shows the static values of its partition.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt64Array};
use arrow::compute::{nullif, take};
use arrow::datatypes::{Schema, SchemaRef};
use keyspan_cql::{Condition, NestedLiteral, ast, nested_literal, nested_tuples};
use keyspan_model::{
    ColumnDef, ColumnRole, ColumnType, Error, FamilyDef, FamilyKind, Member, Mutation, Result, TableDef, Value,
};
use keyspan_query::{CompiledExprs, family_field};
use keyspan_seam::Snapshot;

use super::family::FamilyInput;
use crate::context::ClientContext;
use crate::expression::compile;
use crate::names::{columns_of, fold_case};
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
            let expression = with_null_as_value(&handle.table, expression);
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

/// A condition as SQL says it. In CQL null is a value that equals itself, and an empty collection is null: `IF v = null`
/// and `IF s = {}` are true where nothing is there, and so is `IF v != 1`. `l[0]` is the first element of a list.
pub(crate) fn with_null_as_value(table: &TableDef, expression: &ast::Expr) -> ast::Expr {
    let mut expression = expression.clone();
    let _ = ast::visit_expressions_mut(&mut expression, |expression| {
        if let ast::Expr::CompoundFieldAccess { root, access_chain } = expression
            && let [ast::AccessExpr::Subscript(ast::Subscript::Index { index })] = access_chain.as_mut_slice()
            && is_list(table, root)
        {
            // Read lists count from 1.
            let one = ast::Expr::Value(ast::Value::Number("1".into(), false).into());
            let left = Box::new(ast::Expr::Nested(Box::new(index.clone())));
            *index = ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Plus, right: Box::new(one) };
        }
        if let ast::Expr::BinaryOp { left, op, right } = expression
            && columns_of(right).is_empty()
        {
            let value = match is_collection(table, left) && is_empty(right) {
                true => Box::new(ast::Expr::Value(ast::Value::Null.into())),
                false => right.clone(),
            };
            let is_null = matches!(&*value, ast::Expr::Value(value) if value.value == ast::Value::Null);
            *expression = match op {
                ast::BinaryOperator::Eq if is_null => ast::Expr::IsNull(left.clone()),
                ast::BinaryOperator::NotEq if is_null => ast::Expr::IsNotNull(left.clone()),
                ast::BinaryOperator::Eq => ast::Expr::IsNotDistinctFrom(left.clone(), value),
                ast::BinaryOperator::NotEq => ast::Expr::IsDistinctFrom(left.clone(), value),
                _ => return ControlFlow::Continue(()),
            };
        }
        ControlFlow::<()>::Continue(())
    });
    expression
}

/// Whether a name is that of a map, set or list.
fn is_collection(table: &TableDef, expression: &ast::Expr) -> bool {
    family(table, expression).is_some_and(|family| family.kind.is_collection())
}

fn is_list(table: &TableDef, expression: &ast::Expr) -> bool {
    family(table, expression).is_some_and(|family| family.kind == FamilyKind::List)
}

fn family<'a>(table: &'a TableDef, expression: &ast::Expr) -> Option<&'a FamilyDef> {
    match expression {
        ast::Expr::Identifier(name) => table.family(&fold_case(name)),
        _ => None,
    }
}

/// `{}` or `[]`.
fn is_empty(expression: &ast::Expr) -> bool {
    match nested_literal(&nested_tuples(expression.clone())) {
        Some(NestedLiteral::Map(entries)) => entries.is_empty(),
        Some(NestedLiteral::List(elements)) => elements.is_empty(),
        _ => false,
    }
}

/// The columns of a conditional write's answer.
pub(crate) fn schema(table: &TableDef) -> SchemaRef {
    let applied = ColumnType::Boolean.field("[applied]", false);
    let shown = table.members().into_iter().filter_map(|member| match member {
        Member::Column(column) => (!column.hidden).then(|| column.ty.field(&column.name, true)),
        Member::Family(_, family) => family.kind.is_collection().then(|| family_field(family, None)),
    });
    Arc::new(Schema::new(std::iter::once(applied).chain(shown).collect::<Vec<_>>()))
}

/// What a conditional write decided: its mutations, the rows it concerns, and an answer for each condition.
pub(crate) type Decision<Rows> = (Vec<Mutation>, (Rows, Vec<ConditionAnswer>));

/// One answer: applied, or what was in the way, if anything was.
#[derive(Clone, Debug)]
pub(crate) enum ConditionAnswer {
    Applied,
    /// The row.
    Row(Vec<Value>),
    /// No row, but its partition has static values: the row that shows them.
    Partition(Vec<Value>),
    Nothing,
}

impl ConditionAnswer {
    /// Of a condition that does not hold of a row that is not there.
    pub(crate) fn without_row(handle: &TableHandle, empty: Vec<Value>) -> ConditionAnswer {
        let columns = handle.table.columns.iter().zip(&empty);
        let is_value = |(column, value): (&ColumnDef, &Value)| column.role == ColumnRole::Static && !value.is_null();
        if columns.into_iter().any(is_value) { ConditionAnswer::Partition(empty) } else { ConditionAnswer::Nothing }
    }

    pub(crate) fn is_applied(&self) -> bool {
        matches!(self, ConditionAnswer::Applied)
    }

    fn row(&self) -> Option<&Vec<Value>> {
        match self {
            ConditionAnswer::Row(row) | ConditionAnswer::Partition(row) => Some(row),
            ConditionAnswer::Applied | ConditionAnswer::Nothing => None,
        }
    }
}

/// The rows of a conditional write's answer, with their collections as the state that decided has them. In a BATCH all
/// conditions decide whether it is written.
pub(crate) async fn answer(
    context: &mut ClientContext,
    handle: &TableHandle,
    answers: &[ConditionAnswer],
    before: &Arc<dyn Snapshot>,
) -> Result<Rows> {
    if let Some(batch) = context.transaction.as_mut().and_then(Transaction::batch_mut) {
        answers.iter().for_each(|answer| batch.condition(answer.is_applied()));
    }
    let rows: Vec<Vec<Value>> = answers.iter().filter_map(ConditionAnswer::row).cloned().collect();
    let rows = FamilyInput::collections(handle).read(before, handle, handle.batch(&rows)?).await?;
    let mut next = 0_u64..;
    let place = |answer: &ConditionAnswer| answer.row().and_then(|_| next.next());
    let places: UInt64Array = answers.iter().map(place).collect();
    let without_row: BooleanArray =
        answers.iter().map(|answer| Some(matches!(answer, ConditionAnswer::Partition(_)))).collect();
    let schema = schema(&handle.table);
    let applied: BooleanArray = answers.iter().map(|answer| Some(answer.is_applied())).collect();
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(applied)];
    for field in schema.fields().iter().skip(1) {
        let shown = rows.shown(field.name()).ok_or_else(|| Error::internal("a column of the answer is missing"))?;
        let array = take(shown, &places, None)?;
        let column = handle.table.column(field.name());
        let of_row = column.is_some_and(|column| matches!(column.role, ColumnRole::Clustering { .. }));
        arrays.push(if of_row { nullif(&array, &without_row)? } else { array });
    }
    let batch = RecordBatch::try_new(schema.clone(), arrays)?;
    Ok(Rows::ready(schema, vec![batch]))
}
