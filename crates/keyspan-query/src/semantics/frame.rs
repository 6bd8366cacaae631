//! Frames of windows: `RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND CURRENT ROW`.
//!
//! DataFusion reads the offsets as texts before it knows what they are offsets of. They are given to it in the only forms that
//! it takes ([`literals`]), and checked and read as PostgreSQL does once the order's type is known ([`of_order`]).

use arrow::array::types::IntervalMonthDayNano;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{ExprSchemable, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::sql::sqlparser::ast::{self, Value as Literal};
use keyspan_model::{ColumnType, Error, ErrorKind, Value};

use super::cast::implicit;
use super::mark::{mark_of, unmark};
use crate::error::external;
use crate::types::number_rank;
use crate::types::{Ty, fail, type_of};

/// Makes literals of a frame's offsets.
///
/// # Errors
/// 0A000 for what is no literal; 22013 and 42804 for what is no count where rows or groups are counted.
pub fn literals(spec: &mut ast::WindowSpec) -> Result<(), Error> {
    let Some(frame) = &mut spec.window_frame else { return Ok(()) };
    for bound in [Some(&mut frame.start_bound), frame.end_bound.as_mut()].into_iter().flatten() {
        if let ast::WindowFrameBound::Preceding(Some(offset)) | ast::WindowFrameBound::Following(Some(offset)) = bound {
            **offset = literal(offset)?;
            if !matches!(frame.units, ast::WindowFrameUnits::Range) {
                check_count(offset, &frame.units)?;
            }
        }
    }
    Ok(())
}

/// ROWS and GROUPS count.
fn check_count(offset: &ast::Expr, units: &ast::WindowFrameUnits) -> Result<(), Error> {
    match offset {
        ast::Expr::Value(value) if value.to_string().starts_with('-') => {
            Err(Error::new(ErrorKind::InvalidFrameOffset, "the offset of a window frame must not be negative"))
        }
        ast::Expr::Value(value) if value.to_string().parse::<u64>().is_ok() => Ok(()),
        _ => Err(Error::new(ErrorKind::DatatypeMismatch, format!("argument of {units} must be type bigint"))),
    }
}

fn literal(offset: &ast::Expr) -> Result<ast::Expr, Error> {
    let mut number = offset.clone();
    unmark(&mut number);
    match &number {
        ast::Expr::Value(value) if matches!(value.value, Literal::Number(..)) => return Ok(number),
        ast::Expr::Nested(inner) => return literal(inner),
        _ => {}
    }
    interval(offset)
        .map(|text| {
            ast::Expr::Interval(ast::Interval {
                value: Box::new(ast::Expr::Value(Literal::SingleQuotedString(text).into())),
                leading_field: None,
                leading_precision: None,
                last_field: None,
                fractional_seconds_precision: None,
            })
        })
        .ok_or_else(|| {
            Error::not_supported("the offset of a window frame must be a number or an interval, written as a literal")
        })
}

/// The text of a marked interval: `INTERVAL '1' hour`, `'1 hour'`, `CAST('1 hour' AS interval)`.
fn interval(offset: &ast::Expr) -> Option<String> {
    let text = |expr: &ast::Expr| match expr {
        ast::Expr::Value(value) => value.value.clone().into_string(),
        _ => None,
    };
    let ast::Expr::BinaryOp { left, op, .. } = offset else { return text(offset) };
    let mark = mark_of(op)?;
    match mark.kind {
        "interval" => text(left).map(|number| format!("{number} {}", mark.detail).trim_end().to_owned()),
        "cast" if mark.detail.eq_ignore_ascii_case("interval") => text(left),
        _ => None,
    }
}

/// The frame of a window in this order, whose expression may be replaced by one that has distances.
///
/// # Errors
/// 42P20, 22013 and 0A000 where PostgreSQL has them.
pub fn of_order(frame: WindowFrame, order: &mut [SortExpr], schema: &DFSchema) -> Result<WindowFrame> {
    check_bounds(&frame)?;
    if frame.units != WindowFrameUnits::Range {
        return Ok(frame);
    }
    if offset(&frame.start_bound).or(offset(&frame.end_bound)).is_none() {
        return of_peers(frame, order, schema);
    }
    let [sort] = order else {
        let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
        return fail(Error::new(ErrorKind::Windowing, message));
    };
    let ty = type_of(&sort.expr, schema)?;
    if ty == Ty::Known(ColumnType::Date) {
        // As PostgreSQL: a day less half a day is noon of the day before.
        sort.expr = implicit(sort.expr.clone(), &ty, ColumnType::LocalTimestamp)?;
    }
    let read = |bound: WindowFrameBound| -> Result<WindowFrameBound> {
        Ok(match bound {
            WindowFrameBound::Preceding(offset) => WindowFrameBound::Preceding(distance(offset, &ty)?),
            WindowFrameBound::Following(offset) => WindowFrameBound::Following(distance(offset, &ty)?),
            WindowFrameBound::CurrentRow => bound,
        })
    };
    Ok(WindowFrame::new_bounds(frame.units, read(frame.start_bound)?, read(frame.end_bound)?))
}

/// From the first row to the current one and those like it is the same in RANGE and in GROUPS, and DataFusion has RANGE only for
/// types that have distances.
fn of_peers(frame: WindowFrame, order: &[SortExpr], schema: &DFSchema) -> Result<WindowFrame> {
    let types = order.iter().map(|sort| sort.expr.get_type(schema)).collect::<Result<Vec<_>>>()?;
    let without_distance = |ty: &DataType| {
        matches!(
            ty,
            DataType::Binary
                | DataType::BinaryView
                | DataType::LargeBinary
                | DataType::FixedSizeBinary(_)
                | DataType::Time64(_)
                | DataType::Interval(_)
        )
    };
    if types.iter().any(without_distance) {
        return Ok(WindowFrame::new_bounds(WindowFrameUnits::Groups, frame.start_bound, frame.end_bound));
    }
    Ok(frame)
}

fn offset(bound: &WindowFrameBound) -> Option<&ScalarValue> {
    match bound {
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => {
            Some(offset).filter(|offset| !offset.is_null())
        }
        WindowFrameBound::CurrentRow => None,
    }
}

/// A frame must not end before it starts by its very words.
fn check_bounds(frame: &WindowFrame) -> Result<()> {
    use WindowFrameBound::{CurrentRow, Following, Preceding};
    let fault = match (&frame.start_bound, &frame.end_bound) {
        (CurrentRow, Preceding(_)) => "frame starting from current row cannot have preceding rows",
        (Following(_), CurrentRow) => "frame starting from following row cannot end with current row",
        (Following(_), Preceding(_)) => "frame starting from following row cannot have preceding rows",
        _ => return Ok(()),
    };
    fail(Error::new(ErrorKind::Windowing, fault))
}

/// An offset as a distance between two values of this type.
fn distance(offset: ScalarValue, ty: &Ty) -> Result<ScalarValue> {
    if offset.is_null() {
        return Ok(offset);
    }
    let text = offset.to_string();
    let is_number = text.trim().parse::<f64>().is_ok();
    match ty {
        Ty::Known(ColumnType::Timestamp | ColumnType::LocalTimestamp | ColumnType::Date) if !is_number => {
            let value = Value::parse(&text, ColumnType::Duration).map_err(external)?;
            let Value::Duration(months, days, nanos) = value else { return refused(ty, "interval") };
            if months < 0 || days < 0 || nanos < 0 {
                return negative();
            }
            Ok(ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(months, days, nanos))))
        }
        Ty::Known(number) if number_rank(*number).is_some() && is_number => {
            if text.trim().starts_with('-') {
                return negative();
            }
            Ok(offset)
        }
        ty => refused(ty, if is_number { "numeric" } else { "interval" }),
    }
}

fn negative<T>() -> Result<T> {
    fail(Error::new(ErrorKind::InvalidFrameOffset, "invalid preceding or following size in window function"))
}

fn refused<T>(ty: &Ty, offset: &str) -> Result<T> {
    let message = format!(
        "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset type {offset}",
        ty.name()
    );
    fail(Error::not_supported(message))
}
