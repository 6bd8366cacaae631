//! Steps of time over whole batches: what dashboards group by, so it is worth a loop of its own.
//!
//! `date_bin` and `time_bucket` keep the order of their times; where the session's zone is UTC, `date_trunc` is one of
//! them.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use arrow::error::ArrowError;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::Result;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{ColumnarValue, Expr};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use keyspan_model::infinity::infinite_micros;
use keyspan_model::{ColumnType, Value};

use super::bucket::Bucket;
use super::overload::scalar_value;
use super::time::{DAY, MONDAY, parts};
use crate::error::external;
use crate::types::Zone;
use crate::types::{literal, literal_text};

use ColumnType as C;

/// Whether the function puts times into steps, in order.
pub fn keeps_order(name: &str) -> bool {
    matches!(name, "date_bin" | "time_bucket")
}

/// Whether an expression has few values where a time has many: it is a step of that time, or a part of it.
pub fn is_step(expr: &Expr) -> bool {
    let found = expr.exists(|part| {
        Ok(match part {
            Expr::ScalarFunction(call) => keeps_order(call.name()) || matches!(call.name(), "date_trunc" | "date_part"),
            Expr::Cast(cast) => *cast.field.data_type() == DataType::Date32,
            _ => false,
        })
    });
    found.unwrap_or(false)
}

/// The order of a step function's results; `None` for other functions.
pub fn ordering(name: &str, inputs: &[ExprProperties]) -> Option<SortProperties> {
    let [step, at, origin @ ..] = inputs else { return None };
    let constant = |each: &ExprProperties| each.sort_properties == SortProperties::Singleton;
    (keeps_order(name) && constant(step) && origin.iter().all(constant)).then_some(at.sort_properties)
}

/// A constant number of microseconds, counted from an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Microseconds; positive.
    pub width: i64,
    /// An instant at which a step begins, in microseconds since 1970.
    pub origin: i64,
}

impl Step {
    /// The begin of the step that an instant falls into, infinity of infinity; `None` before the first instant there is.
    #[inline]
    pub fn start(&self, at: i64) -> Option<i64> {
        if infinite_micros(at).is_some() {
            return Some(at);
        }
        at.checked_sub(at.checked_sub(self.origin)?.rem_euclid(self.width))
    }

    /// The step of these arguments, if it is a constant number of microseconds.
    fn of(step: &ScalarValue, origin: Option<(&ScalarValue, C)>) -> Option<Step> {
        let origin = match origin {
            None => MONDAY,
            Some((origin, ty)) => match scalar_value(origin, ty).ok()? {
                Value::Timestamp(origin) if infinite_micros(origin).is_none() => origin,
                _ => return None,
            },
        };
        let (months, days, nanos) = match scalar_value(step, C::Duration).ok()? {
            step @ Value::Duration(..) => parts(&step),
            _ => return None,
        };
        let width = i64::from(days).checked_mul(DAY)?.checked_add(nanos / 1000)?;
        (months == 0 && width > 0).then_some(Step { width, origin })
    }

    /// A call of a step function, and the times that it is given.
    pub fn of_call(call: &Arc<dyn PhysicalExpr>) -> Option<(Step, &Arc<dyn PhysicalExpr>)> {
        let call = call.downcast_ref::<ScalarFunctionExpr>().filter(|call| keeps_order(call.name()))?;
        let [step, at, rest @ ..] = call.args() else { return None };
        let ty = match call.return_type() {
            DataType::Timestamp(TimeUnit::Microsecond, None) => C::LocalTimestamp,
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => C::Timestamp,
            _ => return None,
        };
        let literal = |expr: &'_ Arc<dyn PhysicalExpr>| expr.downcast_ref::<Literal>().map(|own| own.value().clone());
        let origin = match rest {
            [] => None,
            // Not a zone and not an offset.
            [origin] => Some(literal(origin).filter(|origin| origin.data_type() == *call.return_type())?),
            _ => return None,
        };
        Some((Step::of(&literal(step)?, origin.as_ref().map(|origin| (origin, ty)))?, at))
    }
}

impl Step {
    /// An expression that has one value within each step of a time, and another in each: the step, and the time. Days are
    /// steps where the session's zone is UTC.
    ///
    /// ```text
    /// floor(extract(epoch from at) / 300) * 300        Grafana's $__timeGroup
    /// to_timestamp(floor(extract(epoch from at) / 300) * 300)
    /// at::date
    /// ```
    pub fn of_one_value(expr: &Arc<dyn PhysicalExpr>, utc: bool) -> Option<(Step, &Arc<dyn PhysicalExpr>)> {
        let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
        let is_time = |at: &Arc<dyn PhysicalExpr>, call: &ScalarFunctionExpr| {
            call.args().iter().any(|arg| Arc::ptr_eq(arg, at)) && at.downcast_ref::<Column>().is_some()
        };
        match (call.name(), call.args()) {
            ("floor", [divided]) => {
                let divided = divided.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.name() == "/")?;
                let [seconds, by] = divided.args() else { return None };
                let seconds = seconds.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.name() == "extract")?;
                let [field, at] = seconds.args() else { return None };
                let epoch = field.downcast_ref::<Literal>()?.value().try_as_str().flatten() == Some("epoch");
                let width = whole_seconds(by).filter(|_| epoch && is_time(at, seconds))?;
                Some((Step { width, origin: 0 }, at))
            }
            ("cast_to_date", [at]) if utc && is_time(at, call) => Some((Step { width: DAY, origin: 0 }, at)),
            ("to_timestamp" | "cast_to_double" | "cast_to_bigint", [inner]) => Step::of_one_value(inner, utc),
            ("*", [inner, factor]) => whole_seconds(factor).and_then(|_| Step::of_one_value(inner, utc)),
            _ => None,
        }
    }
}

/// A literal whole number of seconds, up to a year, in microseconds.
fn whole_seconds(expr: &Arc<dyn PhysicalExpr>) -> Option<i64> {
    let seconds = match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Decimal128(Some(seconds), _, 0) => i64::try_from(*seconds).ok()?,
        ScalarValue::Int64(Some(seconds)) => *seconds,
        ScalarValue::Int32(Some(seconds)) => i64::from(*seconds),
        _ => return None,
    };
    (1..=366 * 86_400).contains(&seconds).then(|| seconds * 1_000_000)
}

/// The whole batch at once, if everything but the times is constant.
pub fn whole(name: &str, types: &[C], args: &[ColumnarValue]) -> Option<Result<ArrayRef>> {
    let [ColumnarValue::Scalar(step), ColumnarValue::Array(at), rest @ ..] = args else { return None };
    if !keeps_order(name) || !matches!(types[1], C::Timestamp | C::LocalTimestamp) {
        return None;
    }
    let constant = |arg: &ColumnarValue| match arg {
        ColumnarValue::Scalar(scalar) if !scalar.is_null() => Some(scalar.clone()),
        _ => None,
    };
    let rest = rest.iter().map(constant).collect::<Option<Vec<_>>>()?;
    let at = at.as_primitive_opt::<TimestampMicrosecondType>()?;
    let quick = match rest.as_slice() {
        [] => Step::of(step, None),
        [origin] if types[2] == types[1] => Step::of(step, Some((origin, types[2]))),
        _ => None,
    };
    if let Some(quick) = quick {
        let start = |at| quick.start(at).ok_or_else(|| super::time::overflow("timestamp out of range"));
        return Some(stepped(at, start));
    }
    let step = scalar_value(step, C::Duration).ok().filter(|step| !step.is_null())?;
    let rest = rest.iter().zip(&types[2..]).map(|(scalar, ty)| Ok((scalar_value(scalar, *ty)?, *ty)));
    let rest = match rest.collect::<Result<Vec<_>>>() {
        Ok(rest) => rest,
        Err(error) => return Some(Err(error)),
    };
    let start = |bucket: Bucket, at| infinite_micros(at).map_or_else(|| bucket.start(at), |_| Ok(at));
    Some(Bucket::new(&step, &rest).map_err(external).and_then(|bucket| stepped(at, |at| start(bucket, at))))
}

fn stepped(at: &TimestampMicrosecondArray, start: impl Fn(i64) -> keyspan_model::Result<i64>) -> Result<ArrayRef> {
    let start = |at| start(at).map_err(|error| ArrowError::ExternalError(Box::new(error)));
    let steps: TimestampMicrosecondArray = at.try_unary(start)?;
    Ok(Arc::new(steps.with_timezone_opt(at.timezone())))
}

/// `date_trunc(unit, at)` as a step, where it is one.
pub fn of_trunc(args: &[Expr], ty: C, zone: Zone) -> Option<Expr> {
    let [unit, at] = args else { return None };
    let unzoned = ty == C::LocalTimestamp || (ty == C::Timestamp && matches!(zone, Zone::Fixed(0)));
    if !unzoned {
        return None;
    }
    let nanos = match literal_text(unit)?.to_lowercase().as_str() {
        "second" | "seconds" => 1_000_000_000,
        "minute" | "minutes" => 60_000_000_000,
        "hour" | "hours" => 3_600_000_000_000,
        "day" | "days" => 86_400_000_000_000,
        "week" => 7 * 86_400_000_000_000,
        _ => return None,
    };
    let step = literal(&Value::Duration(0, 0, nanos), C::Duration).ok()?;
    let origin = literal(&Value::Timestamp(MONDAY), ty).ok()?;
    super::value_call("date_bin", vec![step, at.clone(), origin], &[C::Duration, ty, ty]).ok()
}
