//! What a statement assigns to families, for whichever row: constants, and expressions that read the row.

use arrow::array::ArrayRef;
use keyspan_cql::{Assignment, Change, ColumnName, InsertValue, ast};
use keyspan_model::{ColumnType, Error, ErrorKind, FamilyDef, FamilyKind, Result, TableDef, Value};
use keyspan_query::CompiledExprs;

use super::cells::FamilyCells;
use super::input::FamilyRows;
use super::{family_of, position, qualifier_type};
use crate::context::ClientContext;
use crate::dml::assign::no_row_query;
use crate::dml::target::{Computed, field_of};
use crate::dml::using::Timing;
use crate::expression::{Evaluator, Volatile, WithoutRow, compile};
use crate::intake::whole::{self, Entry, named, null_inside};
use crate::names::{columns_of, fold_case};
use arrow::datatypes::SchemaRef;

/// A value that a statement gives.
#[derive(Clone, Debug)]
enum Operand {
    /// The same whatever the row is.
    Constant(Value),
    /// An expression that reads no row, and has another value for each, and the type it is to have.
    Volatile(Volatile, ColumnType),
    /// An expression that reads the row: its place among the compiled ones, and the type it is to have.
    Computed(usize, ColumnType),
    /// One that the query for the rows computes: its place among these.
    Queried(usize, ColumnType),
    /// A field of a row that the query for the rows computes.
    Field(usize, usize, ColumnType),
}

/// A collection that a statement gives.
#[derive(Clone, Debug)]
enum Collection {
    /// Keys and values.
    Entries(Vec<(Operand, Operand)>),
    /// Elements, or keys.
    Elements(Vec<Operand>),
    /// A JSON object, an array, or NULL.
    Value(Operand),
}

/// What is done to a family.
#[derive(Clone, Debug)]
enum Write {
    /// `f[q] = v`.
    Cell(Operand, Operand),
    /// `l[i] = v`.
    Element(Operand, Operand),
    /// `f = {…}`.
    Replace(Collection),
    /// `f + {…}`, `[…] + l`, `f - {…}`.
    Change(Change, Collection),
    /// `DELETE f`.
    Delete,
}

/// What a statement assigns to families.
#[derive(Clone, Debug)]
pub(crate) struct FamilyAssignments {
    parts: Vec<(FamilyDef, Write)>,
    /// Expressions that read the row.
    expressions: Vec<ast::Expr>,
    compiled: Option<CompiledExprs>,
    evaluator: Evaluator,
}

impl FamilyAssignments {
    /// Nothing.
    pub(crate) fn none(context: &ClientContext) -> FamilyAssignments {
        let evaluator = Evaluator::new(context);
        FamilyAssignments { parts: Vec::new(), expressions: Vec::new(), compiled: None, evaluator }
    }

    /// Of a SET list, what is assigned to families; the rest is returned. `queried` says of an expression its place
    /// among those that the query for the rows computes.
    pub(crate) fn split(
        context: &mut ClientContext,
        table: &TableDef,
        assignments: &[Assignment],
        queried: &dyn Fn(&ast::Expr) -> Option<usize>,
        parameters: &[Value],
    ) -> Result<(FamilyAssignments, Vec<Assignment>)> {
        let (mut own, mut rest) = (FamilyAssignments::none(context), Vec::new());
        for Assignment { column, value } in assignments {
            match family_of(table, column) {
                Some(family) => own
                    .add(context, family, column, value, queried, parameters)
                    .map_err(|error| if error.position.is_some() { error } else { error.at(column.position) })?,
                None => rest.push(Assignment { column: column.clone(), value: value.clone() }),
            }
        }
        Ok((own, rest))
    }

    /// Adds what is assigned to a cell or to a family as a whole.
    pub(crate) fn add(
        &mut self,
        context: &mut ClientContext,
        family: &FamilyDef,
        target: &ColumnName,
        value: &InsertValue,
        queried: &dyn Fn(&ast::Expr) -> Option<usize>,
        parameters: &[Value],
    ) -> Result<()> {
        let mut operands = Operands { context, queried, parameters, assignments: self };
        let write = match &target.qualifier {
            Some(qualifier) => {
                let qualifier = operands.operand(qualifier, qualifier_type(family))?;
                let value = match value {
                    InsertValue::Default => Operand::Constant(Value::Null),
                    InsertValue::OfRow { query, place } => {
                        let row = queried(query).ok_or_else(no_row_query)?;
                        Operand::Field(row, *place, family.value.ty)
                    }
                    value => match value.as_expression() {
                        Some(literal)
                            if !family.value.ty.is_scalar() || matches!(value, InsertValue::Expression(_)) =>
                        {
                            operands.operand(&literal, family.value.ty)?
                        }
                        _ => return Err(no_collection(family)),
                    },
                };
                match family.kind {
                    FamilyKind::Set => {
                        let message = format!("an element of {} cannot be assigned", named(family));
                        let hint = format!("Write {0} = {0} + {{…}}.", family.name);
                        return Err(Error::new(ErrorKind::DatatypeMismatch, message).with_hint(hint));
                    }
                    FamilyKind::List => Write::Element(qualifier, value),
                    FamilyKind::Family | FamilyKind::Map => Write::Cell(qualifier, value),
                }
            }
            None => operands.whole(family, value)?,
        };
        self.parts.push((family.clone(), write));
        Ok(())
    }

    /// Adds the deletion of a cell or of a family as a whole.
    pub(crate) fn delete(
        &mut self,
        context: &mut ClientContext,
        family: &FamilyDef,
        qualifier: Option<&ast::Expr>,
        parameters: &[Value],
    ) -> Result<()> {
        let mut operands = Operands { context, queried: &|_| None, parameters, assignments: self };
        let none = Operand::Constant(Value::Null);
        let write = match qualifier {
            None => Write::Delete,
            Some(qualifier) => match (family.kind, operands.operand(qualifier, qualifier_type(family))?) {
                (FamilyKind::List, index) => Write::Element(index, none),
                (_, qualifier) => Write::Cell(qualifier, none),
            },
        };
        self.parts.push((family.clone(), write));
        Ok(())
    }

    /// Whether nothing is assigned.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether the row must be read to know what is written.
    pub(crate) fn read_rows(&self) -> bool {
        let queried = |operand: &Operand| matches!(operand, Operand::Queried(..) | Operand::Field(..));
        !self.expressions.is_empty() || !self.lists().is_empty() || self.operands().any(queried)
    }

    fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.parts.iter().flat_map(|(_, write)| match write {
            Write::Cell(qualifier, value) | Write::Element(qualifier, value) => vec![qualifier, value],
            Write::Replace(collection) | Write::Change(_, collection) => collection.operands(),
            Write::Delete => Vec::new(),
        })
    }

    /// The expressions that read the row.
    pub(crate) fn expressions(&self) -> &[ast::Expr] {
        &self.expressions
    }

    /// The lists whose elements must be known.
    pub(crate) fn lists(&self) -> Vec<&FamilyDef> {
        let reads = |(family, write): &&(FamilyDef, Write)| match write {
            Write::Element(..) => true,
            Write::Change(Change::Remove, _) => family.kind == FamilyKind::List,
            _ => false,
        };
        self.parts.iter().filter(reads).map(|(family, _)| family).collect()
    }

    /// Compiles the expressions over the rows of `input`.
    pub(crate) fn compile(
        &mut self,
        context: &mut ClientContext,
        input: &[(&str, SchemaRef)],
        parameters: &[Value],
    ) -> Result<()> {
        if !self.expressions.is_empty() {
            let expressions: Vec<&ast::Expr> = self.expressions.iter().collect();
            self.compiled = Some(compile(context, &expressions, input, parameters)?);
        }
        Ok(())
    }

    /// The statement's timing for rows and cells: deletions of what families had come before it.
    pub(crate) fn timing(&self, timing: Timing) -> Timing {
        let replaces = self.parts.iter().any(|(_, write)| matches!(write, Write::Replace(_)));
        if replaces { timing.replacing() } else { timing }
    }

    /// The cells of a row by a statement that reads none.
    pub(crate) fn constant(&self) -> Result<FamilyCells> {
        self.cells(&[], 0, None)
    }

    /// The cells of each row of the input.
    pub(crate) fn rows(
        &self,
        input: &FamilyRows,
        queried: &[Computed],
        parameters: &[Value],
    ) -> Result<Vec<FamilyCells>> {
        let rows = 0..input.input.num_rows();
        if self.parts.is_empty() {
            return Ok(vec![FamilyCells::default(); rows.len()]);
        }
        let mut values: Vec<(ArrayRef, ColumnType)> = Vec::new();
        if let Some(compiled) = &self.compiled {
            values
                .extend(compiled.evaluate(&input.input, parameters)?.into_iter().zip(compiled.types().iter().copied()));
        }
        let queried = queried.iter().map(|each| (each.array.clone(), each.ty));
        let computed = values.len();
        values.extend(queried);
        rows.map(|row| self.cells(&values, computed, Some((input, row)))).collect()
    }

    /// The cells of one row. `values`: those of the expressions, and from `queried` on those that a query has computed.
    fn cells(
        &self,
        values: &[(ArrayRef, ColumnType)],
        queried: usize,
        input: Option<(&FamilyRows, usize)>,
    ) -> Result<FamilyCells> {
        let row = input.map_or(0, |(_, row)| row);
        let value = |operand: &Operand| match operand {
            Operand::Constant(value) => Ok(value.clone()),
            Operand::Volatile(volatile, to) => volatile.value(&self.evaluator, *to),
            Operand::Computed(at, to) => self.evaluator.assign(&values[*at].0, row, values[*at].1, *to),
            Operand::Queried(at, to) => {
                let (array, ty) = &values[queried + at];
                self.evaluator.assign(array, row, *ty, *to)
            }
            Operand::Field(at, field, to) => field_of(&values[queried + at].0, *field, row, &self.evaluator, *to),
        };
        let mut cells = FamilyCells::default();
        for (family, write) in &self.parts {
            let mut one = FamilyWrite { family, cells: &mut cells };
            match write {
                Write::Delete => one.cells.delete(family),
                Write::Cell(qualifier, new) => one.cell(value(qualifier)?, value(new)?)?,
                Write::Element(index, new) => {
                    let (rows, row) = input.ok_or_else(|| Error::internal("an element of a list that was not read"))?;
                    one.element(&rows.cells(family, row)?, value(index)?, value(new)?)?;
                }
                Write::Replace(collection) => {
                    one.cells.replace(family);
                    one.add(collection.values(family, Change::Append, &value)?, |count| 0..count as i64)?;
                }
                Write::Change(Change::Append, collection) => {
                    one.add(collection.values(family, Change::Append, &value)?, position::behind)?;
                }
                Write::Change(Change::Prepend, collection) => {
                    one.add(collection.values(family, Change::Prepend, &value)?, position::before)?;
                }
                Write::Change(Change::Remove, collection) => {
                    let gone = collection.values(family, Change::Remove, &value)?;
                    let had = match (family.kind, input) {
                        (FamilyKind::List, Some((rows, row))) => rows.cells(family, row)?,
                        _ => Vec::new(),
                    };
                    one.remove(gone.into_iter().map(|(key, _)| key).collect(), &had)?;
                }
            }
        }
        Ok(cells)
    }
}

/// Reads operands of one assignment.
struct Operands<'a> {
    context: &'a mut ClientContext,
    queried: &'a dyn Fn(&ast::Expr) -> Option<usize>,
    parameters: &'a [Value],
    assignments: &'a mut FamilyAssignments,
}

impl Operands<'_> {
    fn operand(&mut self, expression: &ast::Expr, ty: ColumnType) -> Result<Operand> {
        if let Some(place) = (self.queried)(expression) {
            return Ok(Operand::Queried(place, ty));
        }
        if columns_of(expression).is_empty() {
            let evaluator = self.assignments.evaluator.clone();
            return Ok(match evaluator.without_row(self.context, expression, ty, self.parameters)? {
                WithoutRow::Constant(value) => Operand::Constant(value),
                WithoutRow::Volatile(volatile) => Operand::Volatile(volatile, ty),
            });
        }
        self.assignments.expressions.push(expression.clone());
        Ok(Operand::Computed(self.assignments.expressions.len() - 1, ty))
    }

    fn operands(&mut self, expressions: &[ast::Expr], ty: ColumnType) -> Result<Collection> {
        expressions.iter().map(|each| self.operand(each, ty)).collect::<Result<_>>().map(Collection::Elements)
    }

    /// What is assigned to a family as a whole.
    fn whole(&mut self, family: &FamilyDef, value: &InsertValue) -> Result<Write> {
        if let InsertValue::Changed { column, change, value } = value {
            if column.name != family.name {
                let message = format!("only {0} = {0} + … and the like are supported", family.name);
                return Err(Error::not_supported(message).at(column.position));
            }
            return self.change(family, *change, value);
        }
        if let InsertValue::Expression(expression) = value
            && let Some((change, operand)) = changed(family, expression)
        {
            return self.change(family, change, &InsertValue::Expression(operand.clone()));
        }
        self.collection(family, value, false).map(Write::Replace)
    }

    fn change(&mut self, family: &FamilyDef, change: Change, value: &InsertValue) -> Result<Write> {
        if change == Change::Prepend && family.kind != FamilyKind::List {
            let message = format!("only lists can be prepended to: {}", named(family));
            return Err(Error::new(ErrorKind::DatatypeMismatch, message));
        }
        let keys = change == Change::Remove;
        self.collection(family, value, keys).map(|collection| Write::Change(change, collection))
    }

    /// A collection of a family's elements, or of keys to remove.
    fn collection(&mut self, family: &FamilyDef, value: &InsertValue, keys: bool) -> Result<Collection> {
        let (key, of_value) = (family.qualifier_type(), family.value.ty);
        Ok(match (value, family.kind) {
            (InsertValue::Default, _) => Collection::Elements(Vec::new()),
            (InsertValue::Map(entries), _) if entries.is_empty() => Collection::Elements(Vec::new()),
            (InsertValue::Map(entries), FamilyKind::Family | FamilyKind::Map) if !keys => {
                let mut operands = Vec::with_capacity(entries.len());
                for (qualifier, value) in entries {
                    operands.push((self.operand(qualifier, key)?, self.operand(value, of_value)?));
                }
                Collection::Entries(operands)
            }
            (InsertValue::Set(elements), FamilyKind::Set) => self.operands(elements, key)?,
            (InsertValue::Set(elements), FamilyKind::Family | FamilyKind::Map) if keys => {
                self.operands(elements, key)?
            }
            (InsertValue::Set(qualifiers), FamilyKind::Family) if of_value == ColumnType::Boolean => {
                let is_there = || Operand::Constant(Value::Boolean(true));
                let cell = |qualifier| Ok((self.operand(qualifier, key)?, is_there()));
                Collection::Entries(qualifiers.iter().map(cell).collect::<Result<_>>()?)
            }
            (InsertValue::List(elements), FamilyKind::List) => self.operands(elements, of_value)?,
            (
                InsertValue::Expression(name @ (ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_))),
                FamilyKind::Family | FamilyKind::Map,
            ) if !keys && !columns_of(name).is_empty() && (self.queried)(name).is_none() => {
                // A family is a map; what is assigned is JSON.
                let call = keyspan_cql::parse_expression(&format!("to_jsonb({name})"))?;
                Collection::Value(self.operand(&call, ColumnType::Jsonb)?)
            }
            (InsertValue::Expression(expression), FamilyKind::Family | FamilyKind::Map) if keys => {
                Collection::Value(self.operand(expression, key.into_list()?)?)
            }
            (InsertValue::Expression(expression), _) => {
                Collection::Value(self.operand(expression, family.whole_type())?)
            }
            _ => return Err(not_of_this_kind(family, keys)),
        })
    }
}

/// `c + x`, `c - x` and `x + c`, where c is the family, and x.
pub(crate) fn changed<'a>(family: &FamilyDef, expression: &'a ast::Expr) -> Option<(Change, &'a ast::Expr)> {
    let ast::Expr::BinaryOp { left, op, right } = expression else { return None };
    let is_family = |side: &ast::Expr| matches!(side, ast::Expr::Identifier(name) if fold_case(name) == family.name);
    match op {
        ast::BinaryOperator::Plus if is_family(left) => Some((Change::Append, right)),
        ast::BinaryOperator::Plus if is_family(right) => Some((Change::Prepend, left)),
        ast::BinaryOperator::Minus if is_family(left) => Some((Change::Remove, right)),
        _ => None,
    }
}

impl Collection {
    fn operands(&self) -> Vec<&Operand> {
        match self {
            Collection::Entries(entries) => entries.iter().flat_map(|(key, value)| [key, value]).collect(),
            Collection::Elements(elements) => elements.iter().collect(),
            Collection::Value(value) => vec![value],
        }
    }

    /// Keys with values. The keys of elements to add to a list are their values; keys to remove have no value.
    fn values(
        &self,
        family: &FamilyDef,
        change: Change,
        value: &impl Fn(&Operand) -> Result<Value>,
    ) -> Result<Vec<Entry>> {
        let single = |value: Value| if value.is_null() { Err(null_inside(family)) } else { Ok((value, None)) };
        match self {
            Collection::Entries(entries) => {
                let entry = |(key, new): &(Operand, Operand)| {
                    let (key, new) = (value(key)?, value(new)?);
                    if key.is_null() || new.is_null() { Err(null_inside(family)) } else { Ok((key, Some(new))) }
                };
                entries.iter().map(entry).collect()
            }
            Collection::Elements(elements) => elements.iter().map(|element| single(value(element)?)).collect(),
            Collection::Value(whole) => {
                let whole = match value(whole)? {
                    Value::Text(_) if change == Change::Remove => None,
                    whole => whole::entries(family, whole)?,
                };
                whole.ok_or_else(|| not_of_this_kind(family, change == Change::Remove))
            }
        }
    }
}

/// Writes to one family of one row.
struct FamilyWrite<'a> {
    family: &'a FamilyDef,
    cells: &'a mut FamilyCells,
}

impl FamilyWrite<'_> {
    fn cell(&mut self, qualifier: Value, value: Value) -> Result<()> {
        if qualifier.is_null() {
            let message = format!("a qualifier of {} cannot be null", named(self.family));
            return Err(Error::new(ErrorKind::NotNull, message));
        }
        self.cells.put(self.family, qualifier, Some(value).filter(|value| !value.is_null()))
    }

    /// An element by its place from 0, as in CQL, of a list that has these positions.
    fn element(&mut self, had: &[(Value, Value)], index: Value, value: Value) -> Result<()> {
        let place = match index {
            Value::Int(place) => usize::try_from(place).ok(),
            _ => None,
        };
        let Some((position, _)) = place.and_then(|place| had.get(place)) else {
            // Cassandra's texts.
            let message = match (had.is_empty(), value.is_null()) {
                (true, true) => "Attempted to delete an element from a list which is null".to_owned(),
                (true, false) => "Attempted to set an element on a list which is null".to_owned(),
                (false, _) => {
                    let shown = index.to_text(ColumnType::Int);
                    format!("List index {shown} out of bound, list has size {}", had.len())
                }
            };
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        };
        self.cells.put(self.family, position.clone(), Some(value).filter(|value| !value.is_null()))
    }

    fn add(&mut self, entries: Vec<Entry>, positions: impl Fn(usize) -> std::ops::Range<i64>) -> Result<()> {
        let positions = positions(entries.len());
        for ((key, value), position) in entries.into_iter().zip(positions) {
            match self.family.kind {
                FamilyKind::Set => self.cells.put_element(self.family, key, Some(Value::Boolean(true)))?,
                FamilyKind::List => self.cells.put(self.family, Value::BigInt(position), Some(key))?,
                FamilyKind::Family | FamilyKind::Map => self.cells.put(self.family, key, value)?,
            }
        }
        Ok(())
    }

    /// Removes keys, or of a list, which had these, all elements that are among those.
    fn remove(&mut self, gone: Vec<Value>, had: &[(Value, Value)]) -> Result<()> {
        if self.family.kind == FamilyKind::List {
            let positions = had.iter().filter(|(_, element)| gone.contains(element));
            return positions
                .map(|(position, _)| position.clone())
                .try_for_each(|position| self.cells.put(self.family, position, None));
        }
        gone.into_iter().try_for_each(|key| self.cells.put_element(self.family, key, None))
    }
}

fn no_collection(family: &FamilyDef) -> Error {
    let message = format!("a collection is no value of type {}", family.value.ty.postgres_name());
    Error::new(ErrorKind::DatatypeMismatch, message)
}

fn not_of_this_kind(family: &FamilyDef, keys: bool) -> Error {
    let wanted = match (family.kind, keys) {
        (FamilyKind::Family | FamilyKind::Map, false) => "{key: value, …}",
        (FamilyKind::List, _) => "[element, …]",
        _ => "{element, …}",
    };
    let message = format!("a value for {} must be {wanted}", named(family));
    Error::new(ErrorKind::DatatypeMismatch, message)
}
