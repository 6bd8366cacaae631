//! `time_bucket_gapfill`, `locf` and `interpolate` as calls: their types. [`crate::gapfill`] computes them.

use keyspan_model::{ColumnType, Error, ErrorKind};

use super::overload::{Call, Code, Overload, Parameter};

/// The function that a query groups by.
pub const BUCKET: &str = "time_bucket_gapfill";
/// Carries the last value forward.
pub const LOCF: &str = "locf";
/// Interpolates between two values.
pub const INTERPOLATE: &str = "interpolate";

/// The types of the calls. Their code runs only where the rule has not taken the call out of the plan.
pub fn functions() -> Vec<Overload> {
    use ColumnType as C;
    use Parameter::{Any, Is, Numeric};
    const STEP: Parameter = Is(C::Duration);
    let mut all = Vec::new();
    let first = |types: &[C]| types[0];
    let second = |types: &[C]| types[1];
    let misplaced: Code = |_: &Call<'_>, _| {
        let message = "no top level time_bucket_gapfill in group by clause";
        Err(Error::new(ErrorKind::Grouping, message)
            .with_hint("locf() and interpolate() need GROUP BY time_bucket_gapfill(…) in the same SELECT."))
    };
    let mut add = |name, parameters, returns: fn(&[C]) -> C| {
        let overload = Overload::new(name, parameters, C::Text, misplaced);
        all.push(overload.returning(returns).with_nulls().stable());
    };
    add(BUCKET, &[STEP, Is(C::Timestamp)], second);
    add(BUCKET, &[STEP, Is(C::LocalTimestamp)], second);
    add(BUCKET, &[STEP, Is(C::Date)], second);
    add(BUCKET, &[STEP, Is(C::Timestamp), Is(C::Text)], second);
    add(BUCKET, &[STEP, Is(C::Timestamp), Is(C::Timestamp), Is(C::Timestamp)], second);
    add(BUCKET, &[STEP, Is(C::LocalTimestamp), Is(C::LocalTimestamp), Is(C::LocalTimestamp)], second);
    add(BUCKET, &[STEP, Is(C::Date), Is(C::Date), Is(C::Date)], second);
    add(BUCKET, &[STEP, Is(C::Timestamp), Is(C::Text), Is(C::Timestamp), Is(C::Timestamp)], second);
    add(BUCKET, &[Is(C::Int), Is(C::Int)], second);
    add(BUCKET, &[Is(C::Int), Is(C::Int), Is(C::Int), Is(C::Int)], second);
    add(BUCKET, &[Is(C::BigInt), Is(C::BigInt)], second);
    add(BUCKET, &[Is(C::BigInt), Is(C::BigInt), Is(C::BigInt), Is(C::BigInt)], second);
    add(LOCF, &[Any], first);
    add(LOCF, &[Any, Any], first);
    add(LOCF, &[Any, Any, Is(C::Boolean)], first);
    let numbers: [&'static [Parameter]; 5] = [
        &[Is(C::Int), Any, Any],
        &[Is(C::BigInt), Any, Any],
        &[Is(C::Real), Any, Any],
        &[Is(C::Double), Any, Any],
        &[Numeric, Any, Any],
    ];
    for with_ends in numbers {
        (1..=3).for_each(|arguments| add(INTERPOLATE, &with_ends[..arguments], first));
    }
    all
}
