//! The SET list of UPDATE and DO UPDATE.

use arrow::array::{ArrayRef, RecordBatch};
use keyspan_cql::{Assignment, InsertValue, Update, ast, has_subquery};
use keyspan_model::array::value_at;
use keyspan_model::{ColumnDef, ColumnType, Error, ErrorKind, Identity, Result, Value};
use keyspan_query::CompiledExprs;

use super::target::Computed;
use crate::constraint::kept_value;
use crate::context::ClientContext;
use crate::expression::{Evaluator, Volatile, WithoutRow, compile};
use crate::names::{columns_of, fold_case};
use crate::row::{NewRow, TableHandle};
use arrow::datatypes::SchemaRef;

/// 0A000 for `SET (…) = (SELECT …)` where no query for the rows computes subqueries.
pub(crate) fn no_row_query() -> Error {
    Error::not_supported("SET (…) = (SELECT …) is not supported in DO UPDATE")
        .with_hint("Compute the values in the SELECT of the INSERT, and name them: SET a = excluded.a.")
}

/// A SET list ready to be evaluated.
#[derive(Clone, Debug)]
pub(crate) struct Assignments {
    /// Places of the columns with what they get.
    parts: Vec<(usize, AssignedValue)>,
    /// All expressions that read the row.
    compiled: Option<CompiledExprs>,
    evaluator: Evaluator,
}

#[derive(Clone, Debug)]
enum AssignedValue {
    /// The same whatever the row is.
    Constant(Value),
    /// An expression that reads no row, and has another value for each.
    Volatile(Volatile),
    /// An expression that reads the row: its place among the compiled ones.
    Computed(usize),
    /// One that the query for the rows computes: its place among these ([`by_query`]).
    Queried(usize),
    /// A field of a row that the query for the rows computes: the row's place, and the field's in it.
    Field(usize, usize),
    /// A counter gets so much more than it had; nothing counts as 0.
    Added(i64),
}

impl From<WithoutRow> for AssignedValue {
    fn from(value: WithoutRow) -> AssignedValue {
        match value {
            WithoutRow::Constant(value) => AssignedValue::Constant(value),
            WithoutRow::Volatile(volatile) => AssignedValue::Volatile(volatile),
        }
    }
}

/// 428C9 where a column that is GENERATED ALWAYS gets a value of the statement.
pub(crate) fn check_identity(column: &ColumnDef, assignment: &Assignment) -> Result<()> {
    if column.identity != Some(Identity::Always) || assignment.value == InsertValue::Default {
        return Ok(());
    }
    let name = &column.name;
    let error = Error::new(ErrorKind::GeneratedAlways, format!("column \"{name}\" can only be updated to DEFAULT"));
    let error = error.with_detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS."));
    Err(error.at(assignment.column.position))
}

impl Assignments {
    /// Compiles the list; `input` is what the expressions may read, but for those that a query computes.
    pub(crate) fn new(
        context: &mut ClientContext,
        handle: &TableHandle,
        list: &[Assignment],
        by_query: &dyn Fn(&ast::Expr) -> Option<usize>,
        input: &[(&str, SchemaRef)],
        parameters: &[Value],
    ) -> Result<Assignments> {
        let evaluator = Evaluator::new(context);
        let mut parts: Vec<(usize, AssignedValue)> = Vec::with_capacity(list.len());
        let mut computed: Vec<ast::Expr> = Vec::new();
        for assignment in list {
            let place = place(context, handle, assignment)?;
            if parts.iter().any(|(taken, _)| *taken == place) {
                let message = format!("multiple assignments to same column \"{}\"", assignment.column.name);
                return Err(Error::new(ErrorKind::Syntax, message).at(assignment.column.position));
            }
            check_identity(&handle.table.columns[place], assignment)?;
            let ty = handle.table.columns[place].ty;
            let part = match &assignment.value {
                value if handle.table.columns[place].counter => {
                    let column = &handle.table.columns[place];
                    AssignedValue::Added(added(context, &evaluator, column, value, parameters)?)
                }
                InsertValue::Default => match &handle.table.columns[place].default {
                    None => AssignedValue::Constant(Value::Null),
                    Some(text) => {
                        let expression = keyspan_cql::parse_expression(text)?;
                        evaluator.without_row(context, &expression, ty, &[])?.into()
                    }
                },
                InsertValue::Expression(expression) if by_query(expression).is_some() => {
                    AssignedValue::Queried(by_query(expression).unwrap_or_default())
                }
                InsertValue::OfRow { query, place } => {
                    let row = by_query(query).ok_or_else(no_row_query)?;
                    AssignedValue::Field(row, *place)
                }
                value => {
                    let expression = literal_for_a_column(&handle.table.columns[place], value)?;
                    if columns_of(&expression).is_empty() {
                        evaluator.without_row(context, &expression, ty, parameters)?.into()
                    } else {
                        computed.push(expression);
                        AssignedValue::Computed(computed.len() - 1)
                    }
                }
            };
            let part = match part {
                AssignedValue::Constant(value) => {
                    AssignedValue::Constant(kept_value(&handle.table, &handle.table.columns[place], value)?)
                }
                part => part,
            };
            parts.push((place, part));
        }
        let compiled = match computed.is_empty() {
            true => None,
            false => Some(compile(context, &computed.iter().collect::<Vec<_>>(), input, parameters)?),
        };
        Ok(Assignments { parts, compiled, evaluator })
    }

    /// Whether nothing is assigned.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether an expression reads the row.
    pub(crate) fn read_rows(&self) -> bool {
        let queried =
            |part: &(usize, AssignedValue)| matches!(part.1, AssignedValue::Queried(_) | AssignedValue::Field(..));
        self.compiled.is_some() || self.parts.iter().any(queried)
    }

    /// Whether counters are added to: their rows are read, and made.
    pub(crate) fn add(&self) -> bool {
        self.parts.iter().any(|(_, part)| matches!(part, AssignedValue::Added(_)))
    }

    /// Whether the column at this place is assigned.
    pub(crate) fn assign(&self, place: usize) -> bool {
        self.parts.iter().any(|(assigned, _)| *assigned == place)
    }

    /// What is written to each row of a batch of the inputs' columns; entries of other columns are none.
    pub(crate) fn rows(
        &self,
        handle: &TableHandle,
        input: &RecordBatch,
        queried: &[Computed],
        parameters: &[Value],
    ) -> Result<Vec<NewRow>> {
        let arrays = match &self.compiled {
            Some(compiled) => compiled.evaluate(input, parameters)?,
            None => Vec::new(),
        };
        let types = self.compiled.as_ref().map_or(&[][..], CompiledExprs::types);
        let volatile = self.parts.iter().map(|(_, part)| match part {
            AssignedValue::Volatile(volatile) => volatile.values(input.num_rows()).map(Some),
            _ => Ok(None),
        });
        let volatile: Vec<Option<(ArrayRef, ColumnType)>> = volatile.collect::<Result<_>>()?;
        let mut rows = Vec::with_capacity(input.num_rows());
        for index in 0..input.num_rows() {
            let mut row: NewRow = vec![None; handle.table.columns.len()];
            for ((place, part), volatile) in self.parts.iter().zip(&volatile) {
                let column = &handle.table.columns[*place];
                row[*place] = Some(match part {
                    AssignedValue::Constant(value) => value.clone(),
                    AssignedValue::Volatile(_) => {
                        let (array, ty) = volatile.as_ref().ok_or_else(|| Error::internal("no volatile values"))?;
                        let value = self.evaluator.assign(array, index, *ty, column.ty)?;
                        kept_value(&handle.table, column, value)?
                    }
                    AssignedValue::Added(more) => match value_at(input.column(*place), index, column.ty)? {
                        Value::BigInt(had) => Value::BigInt(had.checked_add(*more).ok_or_else(out_of_range)?),
                        _ => Value::BigInt(*more),
                    },
                    AssignedValue::Computed(at) => {
                        let value = self.evaluator.assign(&arrays[*at], index, types[*at], column.ty)?;
                        kept_value(&handle.table, column, value)?
                    }
                    AssignedValue::Queried(at) => {
                        let Computed { array, ty } = &queried[*at];
                        let value = self.evaluator.assign(array, index, *ty, column.ty)?;
                        kept_value(&handle.table, column, value)?
                    }
                    AssignedValue::Field(at, field) => {
                        let value = queried[*at].field(*field, index, &self.evaluator, column.ty)?;
                        kept_value(&handle.table, column, value)?
                    }
                });
            }
            rows.push(row);
        }
        Ok(rows)
    }
}

/// How much a SET adds to a counter.
fn added(
    context: &mut ClientContext,
    evaluator: &Evaluator,
    column: &ColumnDef,
    value: &InsertValue,
    parameters: &[Value],
) -> Result<i64> {
    let is_counter = |side: &ast::Expr| matches!(side, ast::Expr::Identifier(name) if fold_case(name) == column.name);
    let (minus, more) = match value {
        InsertValue::Expression(ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Plus, right })
            if is_counter(left) =>
        {
            (false, right)
        }
        InsertValue::Expression(ast::Expr::BinaryOp { left, op: ast::BinaryOperator::Minus, right })
            if is_counter(left) =>
        {
            (true, right)
        }
        _ => {
            // Cassandra's text.
            let name = &column.name;
            let message = format!(
                "Cannot set the value of counter column {name} (counters can only be incremented/decremented, not set)"
            );
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
    };
    match evaluator.constant(context, more, ColumnType::BigInt, parameters)? {
        Value::BigInt(more) if minus => more.checked_neg().ok_or_else(out_of_range),
        Value::BigInt(more) => Ok(more),
        _ => Err(Error::new(ErrorKind::NotNull, "Invalid null value for counter increment/decrement")),
    }
}

fn out_of_range() -> Error {
    Error::new(ErrorKind::NumericOverflow, "bigint out of range")
}

/// The values of a SET list that only a query can compute, in their order.
pub(crate) fn by_query(update: &Update) -> Vec<&ast::Expr> {
    let expressions = update.assignments.iter().flat_map(|assignment| assignment.value.expressions());
    expressions.filter(|expression| needs_query(expression, &update.from)).collect()
}

/// Whether an expression has a subquery, or may read other tables.
pub(crate) fn needs_query(expression: &ast::Expr, from: &[ast::TableWithJoins]) -> bool {
    (!from.is_empty() && !columns_of(expression).is_empty()) || has_subquery(expression)
}

fn place(context: &ClientContext, handle: &TableHandle, assignment: &Assignment) -> Result<usize> {
    let (name, position) = (&assignment.column.name, assignment.column.position);
    let column = handle.table.expect_column(name).map_err(|error| error.at(position))?;
    if assignment.column.qualifier.is_some() {
        return Err(no_family(column).at(position));
    }
    if column.is_key() {
        let error = Error::new(ErrorKind::InvalidColumnReference, format!("PRIMARY KEY part {name} found in SET part"));
        let hint = match context.settings.postgres_writes() {
            true => "DO UPDATE keeps the key of the row. DELETE the row and INSERT it with the other key.",
            false => "DELETE the row and INSERT it with the other key, or SET write_semantics = 'postgres'.",
        };
        return Err(error.with_hint(hint).at(position));
    }
    let place = handle.table.columns.iter().position(|other| other.id == column.id);
    place.ok_or_else(|| Error::internal("a column without a place"))
}

/// 0A000 for `column[x]` of a column that is no family.
pub(crate) fn no_family(column: &ColumnDef) -> Error {
    let message = format!("an element of column \"{}\" cannot be written alone", column.name);
    Error::not_supported(message).with_hint("Write the whole value, or declare a map<…>, list<…> or family<…>.")
}

/// What a column gets: an expression, or the literal of a frozen collection; 42804 for a collection where none can be.
pub(crate) fn literal_for_a_column(column: &ColumnDef, value: &InsertValue) -> Result<ast::Expr> {
    let literal = !matches!(value, InsertValue::Expression(_));
    if literal && column.ty.is_scalar() {
        return Err(collection_for_a_column(column));
    }
    value.as_expression().ok_or_else(|| {
        let message = format!("column \"{}\" is frozen: it is written as a whole", column.name);
        Error::not_supported(message).with_hint("Declare it without frozen<…> to write its elements.")
    })
}

fn collection_for_a_column(column: &ColumnDef) -> Error {
    let (name, ty) = (&column.name, column.ty.postgres_name());
    let message = format!("column \"{name}\" is of type {ty} but expression is a collection");
    let hint = "Collections are written to columns of such types, and maps to families, too.";
    Error::new(ErrorKind::DatatypeMismatch, message).with_hint(hint)
}
