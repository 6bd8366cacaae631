//! Expressions in the rows of VALUES by their shape: those that differ only in which parameters they name are compiled
//! once and evaluated together.
//!
//! ```text
//! VALUES ($1::int, lower($2)), ($3::int, lower($4))      $1::int ─▶ [($1), ($3)]      lower($1) ─▶ [($2), ($4)]
//! ```
//!
//! The rule kept: what an expression costs does not grow with the statement's rows and parameters.

use std::collections::HashMap;
use std::ops::ControlFlow;

use arrow::array::ArrayRef;
use keyspan_cql::ast::{self, VisitMut, VisitorMut};
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Value};
use keyspan_query::CompiledExprs;

use crate::context::ClientContext;
use crate::expression::{Evaluator, compile_typed, one_row, rows_without_columns};
use crate::parameter::parameter_index;
use crate::row::NewRow;

/// An expression with its parameters numbered in the order in which they come.
#[derive(Debug)]
struct ExpressionShape {
    expression: ast::Expr,
    /// The places, among the statement's parameters, of `$1`, `$2`, … of the expression.
    places: Vec<usize>,
}

impl ExpressionShape {
    fn parse(expression: &ast::Expr) -> Result<ExpressionShape> {
        let mut shape = ExpressionShape { expression: expression.clone(), places: Vec::new() };
        let mut numbering = Numbering::default();
        if let ControlFlow::Break(error) = shape.expression.visit(&mut numbering) {
            return Err(error);
        }
        shape.places = numbering.places;
        Ok(shape)
    }
}

/// Numbers parameters anew.
#[derive(Default)]
struct Numbering {
    places: Vec<usize>,
}

impl VisitorMut for Numbering {
    type Break = Error;

    fn pre_visit_value(&mut self, value: &mut ast::ValueWithSpan) -> ControlFlow<Error> {
        let ast::Value::Placeholder(name) = &mut value.value else { return ControlFlow::Continue(()) };
        let Some(place) = parameter_index(name) else {
            let message = format!("there is no parameter {name}");
            return ControlFlow::Break(Error::new(ErrorKind::UndefinedParameter, message));
        };
        let known = self.places.iter().position(|other| *other == place);
        let number = known.unwrap_or_else(|| {
            self.places.push(place);
            self.places.len() - 1
        });
        *name = format!("${}", number + 1);
        ControlFlow::Continue(())
    }
}

/// A shape's text with the types of its parameters, as far as they are known.
type ShapeKey = (String, Vec<Option<ColumnType>>);

/// Types of parameters, found by compiling each shape once.
#[derive(Default)]
pub(crate) struct ShapeTypes {
    known: HashMap<ShapeKey, Vec<ColumnType>>,
}

impl ShapeTypes {
    /// The parameters of an expression without columns: their places and types, given those that are known.
    pub(crate) fn infer(
        &mut self,
        context: &mut ClientContext,
        expression: &ast::Expr,
        types: &[Option<ColumnType>],
    ) -> Result<Vec<(usize, ColumnType)>> {
        let shape = ExpressionShape::parse(expression)?;
        let given: Vec<_> = shape.places.iter().map(|place| types.get(*place).copied().flatten()).collect();
        if given.iter().all(Option::is_some) {
            return Ok(Vec::new());
        }
        let key = (shape.expression.to_string(), given);
        if !self.known.contains_key(&key) {
            let compiled = compile_typed(context, &[&shape.expression], &[], &key.1)?;
            self.known.insert(key.clone(), compiled.parameters().to_vec());
        }
        let found = self.known.get(&key).into_iter().flatten();
        Ok(shape.places.into_iter().zip(found.copied()).collect())
    }
}

/// Where a value goes, and the parameters that its expression names.
#[derive(Debug)]
struct PendingCell {
    row: usize,
    place: usize,
    values: Vec<Value>,
}

/// The cells whose expressions have one shape.
#[derive(Debug)]
struct PendingGroup {
    expression: ast::Expr,
    types: Vec<Option<ColumnType>>,
    cells: Vec<PendingCell>,
}

/// Cells of an INSERT that are still to be evaluated.
#[derive(Default)]
pub(crate) struct PendingValues {
    groups: Vec<PendingGroup>,
    by_key: HashMap<ShapeKey, usize>,
}

impl PendingValues {
    /// Adds the cell of a row at a place, which is to have the value of this expression.
    pub(crate) fn add(
        &mut self,
        (row, place): (usize, usize),
        expression: &ast::Expr,
        parameters: &[Value],
        types: &[Option<ColumnType>],
    ) -> Result<()> {
        let ExpressionShape { expression, places } = ExpressionShape::parse(expression)?;
        let value = |place: &usize| {
            let missing = || Error::new(ErrorKind::UndefinedParameter, format!("there is no parameter ${}", place + 1));
            parameters.get(*place).cloned().ok_or_else(missing)
        };
        let values = places.iter().map(value).collect::<Result<Vec<_>>>()?;
        let types: Vec<_> = places.iter().map(|place| types.get(*place).copied().flatten()).collect();
        let group = *self.by_key.entry((expression.to_string(), types.clone())).or_insert_with(|| {
            self.groups.push(PendingGroup { expression, types, cells: Vec::new() });
            self.groups.len() - 1
        });
        self.groups[group].cells.push(PendingCell { row, place, values });
        Ok(())
    }

    /// Evaluates all and puts the values into the rows, each cast to the type of its place.
    pub(crate) fn evaluate_into(
        self,
        context: &mut ClientContext,
        types: &[ColumnType],
        rows: &mut [NewRow],
    ) -> Result<()> {
        let evaluator = Evaluator::new(context);
        let mut put = |cell: &PendingCell, array: &ArrayRef, index: usize, from: ColumnType| -> Result<()> {
            rows[cell.row][cell.place] = Some(evaluator.assign(array, index, from, types[cell.place])?);
            Ok(())
        };
        let (constants, others): (Vec<_>, Vec<_>) = self.groups.into_iter().partition(PendingGroup::is_constant);
        if !constants.is_empty() {
            // Expressions that occur once are cheapest in one plan.
            let expressions: Vec<&ast::Expr> = constants.iter().map(|group| &group.expression).collect();
            let compiled = compile_typed(context, &expressions, &[], &[])?;
            let arrays = compiled.evaluate(&one_row()?, &[])?;
            for ((group, array), ty) in constants.iter().zip(&arrays).zip(compiled.types()) {
                group.cells.iter().try_for_each(|cell| put(cell, array, 0, *ty))?;
            }
        }
        for group in others {
            let compiled = compile_typed(context, &[&group.expression], &[], &group.types)?;
            for (from, array) in group.arrays(&compiled)? {
                for index in 0..array.len() {
                    put(&group.cells[from + index], &array, index, compiled.types()[0])?;
                }
            }
        }
        Ok(())
    }
}

impl PendingGroup {
    /// Whether it is one cell that has no parameters.
    fn is_constant(&self) -> bool {
        self.types.is_empty() && self.cells.len() == 1
    }

    /// The cells' values: arrays, each with the cell that it begins with.
    fn arrays(&self, compiled: &CompiledExprs) -> Result<Vec<(usize, ArrayRef)>> {
        if self.types.is_empty() {
            return Ok(vec![(0, compiled.evaluate(&rows_without_columns(self.cells.len())?, &[])?.swap_remove(0))]);
        }
        if self.cells.len() > 1 {
            let lists: Vec<_> = self.cells.iter().map(|cell| cell.values.clone()).collect();
            if let Ok(mut arrays) = compiled.evaluate_each(&lists) {
                return Ok(vec![(0, arrays.swap_remove(0))]);
            }
        }
        // One by one: a function may take constants only, and of several errors the first row's counts.
        let row = one_row()?;
        let each = self.cells.iter().enumerate();
        each.map(|(at, cell)| Ok((at, compiled.evaluate(&row, &cell.values)?.swap_remove(0)))).collect()
    }
}
