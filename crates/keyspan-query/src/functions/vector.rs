//! Similarities of vectors, as Cassandra 5 defines them, and distances, as pgvector does; over whole arrays.
//!
//! ```text
//! similarity_cosine       (1 + a·b / |a||b|) / 2      NULL where a vector is all zeros
//! similarity_euclidean    1 / (1 + |a − b|²)
//! similarity_dot_product  (1 + a·b) / 2
//! l2_distance             |a − b|                     a <-> b
//! cosine_distance         1 − a·b / |a||b|            a <=> b; NaN where a vector is all zeros
//! inner_product           a·b                         a <#> b is −a·b
//! ```

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, ListArray};
use arrow::datatypes::Float32Type;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use keyspan_model::{ColumnType as C, Error, ErrorKind, Value};

use super::overload::{Overload, Parameter};
use crate::error::external;

/// What compares two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Cosine,
    Euclidean,
    DotProduct,
    Distance,
    CosineDistance,
    InnerProduct,
    NegativeInnerProduct,
}

const MEASURES: [(&str, Measure); 7] = [
    ("similarity_cosine", Measure::Cosine),
    ("similarity_euclidean", Measure::Euclidean),
    ("similarity_dot_product", Measure::DotProduct),
    ("l2_distance", Measure::Distance),
    ("cosine_distance", Measure::CosineDistance),
    ("inner_product", Measure::InnerProduct),
    ("negative_inner_product", Measure::NegativeInnerProduct),
];

/// How many sums a loop keeps, so that it can add several numbers at once.
const LANES: usize = 8;

/// The functions.
pub fn functions() -> Vec<Overload> {
    let pair: &'static [Parameter] = &[Parameter::Array, Parameter::Array];
    let of = |(name, measure): (&'static str, Measure)| {
        let ty = if measure.is_similarity() { C::Real } else { C::Double };
        Overload::of_arrays(name, pair, ty, whole)
    };
    let mut all: Vec<Overload> = MEASURES.into_iter().map(of).collect();
    all.push(Overload::new("vector_dims", &[Parameter::Array], C::Int, |_, v| match &v[0] {
        Value::List(elements) => Ok(Value::Int(elements.len() as i32)),
        _ => Ok(Value::Null),
    }));
    all
}

/// Whether a function of this name compares two vectors.
pub fn is_of_two(name: &str) -> bool {
    measure(name).is_some()
}

fn measure(name: &str) -> Option<Measure> {
    MEASURES.into_iter().find(|(own, _)| *own == name).map(|(_, measure)| measure)
}

fn whole(name: &str, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
    let (Some(measure), [left, right]) = (measure(name), args) else {
        return Err(external(Error::internal(format!("{name} compares no two vectors"))));
    };
    measure.results(&Side::new(left)?, &Side::new(right)?, rows)
}

/// The vectors of an argument.
struct Side {
    lists: ListArray,
    floats: Float32Array,
    /// One vector for all rows.
    same: bool,
}

impl Side {
    fn new(arg: &ColumnarValue) -> Result<Side> {
        let (array, same) = match arg {
            ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
            ColumnarValue::Array(array) => (Arc::clone(array), false),
        };
        let lists = array.as_list_opt::<i32>().cloned();
        let floats = lists.as_ref().and_then(|lists| lists.values().as_primitive_opt::<Float32Type>().cloned());
        match (lists, floats) {
            (Some(lists), Some(floats)) => Ok(Side { lists, floats, same }),
            _ => Err(external(Error::internal(format!("no vectors: {}", array.data_type())))),
        }
    }

    /// The vector of a row.
    fn row(&self, row: usize) -> keyspan_model::Result<Option<&[f32]>> {
        let row = if self.same { 0 } else { row };
        if self.lists.is_null(row) {
            return Ok(None);
        }
        let offsets = self.lists.value_offsets();
        let own = offsets[row] as usize..offsets[row + 1] as usize;
        if self.floats.null_count() > 0 && own.clone().any(|place| self.floats.is_null(place)) {
            return Err(Error::new(ErrorKind::NullValueNotAllowed, "null is not supported inside vectors"));
        }
        Ok(Some(&self.floats.values()[own]))
    }
}

impl Measure {
    fn is_similarity(self) -> bool {
        matches!(self, Measure::Cosine | Measure::Euclidean | Measure::DotProduct)
    }

    fn results(self, left: &Side, right: &Side, rows: usize) -> Result<ArrayRef> {
        let one = |row: usize| match (left.row(row)?, right.row(row)?) {
            (Some(a), Some(b)) if a.len() != b.len() => {
                let message = format!("different vector dimensions {} and {}", a.len(), b.len());
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
            (Some(a), Some(b)) => Ok(self.of(a, b)),
            _ => Ok(None),
        };
        let results = (0..rows).map(one).collect::<keyspan_model::Result<Vec<Option<f64>>>>().map_err(external)?;
        Ok(match self.is_similarity() {
            true => Arc::new(results.into_iter().map(|own| own.map(|own| own as f32)).collect::<Float32Array>()),
            false => Arc::new(Float64Array::from(results)),
        })
    }

    fn of(self, a: &[f32], b: &[f32]) -> Option<f64> {
        Some(match self {
            Measure::Cosine => (1.0 + cosine(a, b).filter(|own| !own.is_nan())?) / 2.0,
            Measure::Euclidean => 1.0 / (1.0 + squared_distance(a, b)),
            Measure::DotProduct => (1.0 + dot(a, b)) / 2.0,
            Measure::Distance => squared_distance(a, b).sqrt(),
            Measure::CosineDistance => cosine(a, b).map_or(f64::NAN, |own| 1.0 - own),
            Measure::InnerProduct => dot(a, b),
            Measure::NegativeInnerProduct => -dot(a, b),
        })
    }
}

/// The cosine of the angle between two vectors; `None` where one is all zeros.
fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    (lengths > 0.0).then(|| (dot(a, b) / lengths).clamp(-1.0, 1.0))
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    sum(a, b, |a, b| a * b)
}

fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    sum(a, b, |a, b| (a - b) * (a - b))
}

/// The sum over all places, kept in several sums, which a processor adds at once. Products of floats may be too large for
/// a float, or too small.
#[inline]
fn sum(a: &[f32], b: &[f32], each: impl Fn(f64, f64) -> f64) -> f64 {
    let each = |(a, b): (&f32, &f32)| each(f64::from(*a), f64::from(*b));
    let mut sums = [0.0; LANES];
    let (left, right) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f64 = left.remainder().iter().zip(right.remainder()).map(each).sum();
    for (a, b) in left.zip(right) {
        sums.iter_mut().zip(a.iter().zip(b)).for_each(|(sum, pair)| *sum += each(pair));
    }
    sums.into_iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_those_of_cassandra_and_pgvector() {
        let (a, b) = ([0.1_f32, 0.2], [0.3_f32, 0.4]);
        let near = |measure: Measure, expected: f64| {
            let own = measure.of(&a, &b).expect("a number");
            assert!((own - expected).abs() < 1e-6, "{measure:?} {own}");
        };
        near(Measure::Cosine, 0.991_935);
        near(Measure::Euclidean, 0.925_926);
        near(Measure::DotProduct, 0.555);
        near(Measure::Distance, 0.282_843);
        near(Measure::CosineDistance, 0.016_130);
        near(Measure::NegativeInnerProduct, -0.11);
        assert_eq!(Measure::Cosine.of(&[0.0, 0.0], &b), None);
    }

    #[test]
    fn long_vectors_are_summed_whole() {
        let ones = vec![1.0_f32; 1537];
        assert_eq!(dot(&ones, &ones), 1537.0);
        assert_eq!(squared_distance(&ones, &vec![3.0; 1537]), 4.0 * 1537.0);
        for length in [1e20, 1e-30] {
            assert_eq!(Measure::Cosine.of(&[length, 0.0], &[1.0, 0.0]), Some(1.0), "{length}");
        }
        assert!(Measure::Distance.of(&[3e38], &[-3e38]).is_some_and(f64::is_finite));
    }
}
