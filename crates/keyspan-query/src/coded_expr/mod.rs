//! Expressions over batches as the store delivers them: a column may be codes into its few distinct values.
//!
//! What depends on one column has one value for each of that column's, so it is computed for these, at most 256, and
//! not for each row. Its result is codes again:
//!
//! ```text
//! host  0 0 1 1 2 of [a b c]      host LIKE 'b%'      0 0 1 1 2 of [f t f]
//! ```
//!
//! Rule: a code may be one that no row has. So what fails for the values is computed for the rows, which may not fail.

mod comparison;
mod pattern;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, DictionaryArray, RecordBatch, RecordBatchOptions,
    UInt8Array, new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, filter, prep_null_mask_filter};
use arrow::datatypes::{SchemaRef, UInt8Type};
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::split_conjunction;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns, split_disjunction};
use datafusion::physical_expr_common::physical_expr::{PhysicalExpr, is_volatile};
use keyspan_model::array::rows_of_codes;
use keyspan_model::decoded;

use self::comparison::Comparison;
use self::pattern::Pattern;
use crate::error::external;

/// Values that a code can name.
const MOST_VALUES: usize = 256;

/// An expression over the columns that it needs, in their order there.
#[derive(Clone, Debug)]
pub(crate) struct CodedExpr {
    expr: Arc<dyn PhysicalExpr>,
    /// Places of these columns in a batch.
    places: Vec<usize>,
    schema: SchemaRef,
    /// Whether equal values of one column make equal results.
    of_one: bool,
    /// The expression, if there is code of ours for it.
    compiled: Option<Compiled>,
}

/// An expression of one column that is computed without DataFusion.
#[derive(Clone, Debug)]
enum Compiled {
    Pattern(Pattern),
    Comparison(Comparison),
}

impl Compiled {
    fn new(expr: &Arc<dyn PhysicalExpr>) -> Option<Compiled> {
        let comparison = Comparison::of(expr).map(Compiled::Comparison);
        comparison.or_else(|| Pattern::of(expr).map(Compiled::Pattern))
    }

    /// The results; `None` for arrays of a kind that it does not know.
    fn of_array(&self, array: &ArrayRef) -> Option<Result<ArrayRef>> {
        match self {
            Compiled::Pattern(pattern) => pattern.of_texts(array),
            Compiled::Comparison(comparison) => comparison.of_array(array).map(Ok),
        }
    }
}

impl CodedExpr {
    /// An expression over columns of this schema.
    pub(crate) fn new(expr: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Result<CodedExpr> {
        let mut places: Vec<usize> = collect_columns(expr).iter().map(|column| column.index()).collect();
        places.sort_unstable();
        places.dedup();
        let schema = Arc::new(schema.project(&places)?);
        let of_one = places.len() == 1 && !is_volatile(expr);
        let compiled = Compiled::new(expr);
        Ok(CodedExpr { expr: reassign_expr_columns(Arc::clone(expr), &schema)?, places, schema, of_one, compiled })
    }

    /// The expression, over those columns only that it needs.
    pub(crate) fn expr(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expr
    }

    /// The places of the columns that it needs.
    pub(crate) fn places(&self) -> &[usize] {
        &self.places
    }

    /// The place of the column that it is, if it is one.
    pub(crate) fn column(&self) -> Option<usize> {
        self.expr.is::<Column>().then(|| self.places[0])
    }

    /// The results of all rows, as codes where the one column is codes.
    pub(crate) fn evaluate(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        if let Some(place) = self.column() {
            return Ok(Arc::clone(&columns[place]));
        }
        match self.of_codes(columns, rows) {
            Some((codes, results)) => Ok(match columns[self.places[0]].as_dictionary_opt::<UInt8Type>() {
                // The same codes, so that they need not be checked again.
                Some(coded) if coded.keys().null_count() == 0 => Arc::new(coded.with_values(results)),
                _ => Arc::new(DictionaryArray::try_new(codes, results)?),
            }),
            None => self.over(self.places.iter().map(|place| value_of(&columns[*place])).collect::<Result<_>>()?, rows),
        }
    }

    fn over(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<ArrayRef> {
        let compiled = self.compiled.as_ref().zip(columns.first());
        if let Some(results) = compiled.and_then(|(compiled, array)| compiled.of_array(array)) {
            return results;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        self.expr.evaluate(&batch)?.into_array(rows)
    }

    /// For each row a code, and for each code a result, where there are codes, fewer than rows, and no result fails.
    fn of_codes(&self, columns: &[ArrayRef], rows: usize) -> Option<(UInt8Array, ArrayRef)> {
        if !self.of_one {
            return None;
        }
        let coded = columns[self.places[0]].as_dictionary_opt::<UInt8Type>()?;
        let (codes, values) = (coded.keys(), coded.values());
        let known = values.len();
        if codes.null_count() == 0 {
            let results = if known < rows { self.over(vec![Arc::clone(values)], known).ok()? } else { return None };
            return Some((codes.clone(), results));
        }
        if known >= rows.min(MOST_VALUES) {
            return None;
        }
        // NULL is a value too: it gets the code behind the others.
        let null = new_null_array(values.data_type(), 1);
        let results = self.over(vec![concat(&[values.as_ref(), null.as_ref()]).ok()?], known + 1).ok()?;
        if results.is_null(known) {
            return Some((codes.clone(), results.slice(0, known)));
        }
        let codes = codes.iter().map(|code| code.unwrap_or(known as u8)).collect::<Vec<u8>>();
        Some((codes.into(), results))
    }

    /// Rows of which the result is true, where codes tell.
    fn true_codes(&self, columns: &[ArrayRef], rows: usize) -> Option<BooleanBuffer> {
        let (codes, results) = self.of_codes(columns, rows)?;
        let results = is_true(&results).ok()?;
        if results.count_set_bits() == results.len() && codes.null_count() == 0 {
            return Some(BooleanBuffer::new_set(rows));
        }
        let mut wanted = [false; MOST_VALUES];
        wanted.iter_mut().zip(&results).for_each(|(wanted, is_true)| *wanted = is_true);
        Some(rows_of_codes(&codes, &wanted))
    }

    /// Of the rows that `among` has, those of which the result is true.
    fn true_rows(&self, columns: &[ArrayRef], among: &BooleanBuffer) -> Result<BooleanBuffer> {
        let left = among.count_set_bits();
        if left == 0 {
            return Ok(among.clone());
        }
        if left == among.len() || self.is_comparison() {
            let all = self.places.iter().map(|place| value_of(&columns[*place]));
            return Ok(among & &is_true(&self.over(all.collect::<Result<_>>()?, among.len())?)?);
        }
        let chosen = BooleanArray::new(among.clone(), None);
        let of_chosen = self.places.iter().map(|place| value_of(&filter(&columns[*place], &chosen)?));
        let found = is_true(&self.over(of_chosen.collect::<Result<_>>()?, left)?)?;
        let mut all = BooleanBufferBuilder::new(among.len());
        all.append_n(among.len(), false);
        among.set_indices().zip(&found).for_each(|(row, found)| all.set_bit(row, found));
        Ok(all.finish())
    }

    /// Whether it compares a column with a constant, which fails for no row and costs less than choosing rows.
    fn is_comparison(&self) -> bool {
        let Some(binary) = self.expr.downcast_ref::<BinaryExpr>() else { return false };
        let plain = |expr: &Arc<dyn PhysicalExpr>| expr.is::<Column>() || expr.is::<Literal>();
        let compares = matches!(
            binary.op(),
            Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
        );
        compares && plain(binary.left()) && plain(binary.right())
    }
}

/// A condition, of which only the rows count for which it is true.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Part(CodedExpr),
}

impl Condition {
    /// A condition over columns of this schema.
    pub(crate) fn new(expr: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Result<Condition> {
        let parts = |parts: Vec<&Arc<dyn PhysicalExpr>>| {
            parts.into_iter().map(|part| Condition::new(part, schema)).collect::<Result<Vec<_>>>()
        };
        let binary = expr.downcast_ref::<BinaryExpr>();
        match binary.map(BinaryExpr::op) {
            Some(Operator::And) => Ok(Condition::All(parts(split_conjunction(expr))?)),
            Some(Operator::Or) => Ok(Condition::Any(parts(split_disjunction(expr))?)),
            _ => CodedExpr::new(expr, schema).map(Condition::Part),
        }
    }

    /// What it is made of.
    pub(crate) fn parts(&self) -> Vec<&CodedExpr> {
        match self {
            Condition::Part(part) => vec![part],
            Condition::All(parts) | Condition::Any(parts) => parts.iter().flat_map(Condition::parts).collect(),
        }
    }

    /// Rows for which it is true.
    pub(crate) fn mask(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanArray> {
        Ok(BooleanArray::new(self.among(columns, &BooleanBuffer::new_set(rows))?, None))
    }

    /// Of the rows that `among` has, those for which it is true. Parts that codes answer come first; others are asked about
    /// the rows that are left.
    fn among(&self, columns: &[ArrayRef], among: &BooleanBuffer) -> Result<BooleanBuffer> {
        match self {
            Condition::Part(part) => match part.true_codes(columns, among.len()) {
                Some(found) => Ok(among & &found),
                None => part.true_rows(columns, among),
            },
            Condition::All(parts) => {
                let (mut left, mut others) = (among.clone(), Vec::new());
                for part in parts {
                    let found = match part {
                        Condition::Part(part) => part.true_codes(columns, among.len()),
                        _ => None,
                    };
                    match found {
                        Some(found) => left = &left & &found,
                        None => others.push(part),
                    }
                }
                others.into_iter().try_fold(left, |left, part| part.among(columns, &left))
            }
            Condition::Any(parts) => {
                let (mut found, mut left) = (BooleanBuffer::new_unset(among.len()), among.clone());
                for part in parts {
                    let own = part.among(columns, &left)?;
                    left = &left & &!&own;
                    found = &found | &own;
                }
                Ok(found)
            }
        }
    }
}

fn value_of(column: &ArrayRef) -> Result<ArrayRef> {
    decoded(column).map_err(external)
}

fn is_true(results: &ArrayRef) -> Result<BooleanBuffer> {
    let results = as_boolean_array(results)?;
    Ok(match results.null_count() {
        0 => results.values().clone(),
        _ => prep_null_mask_filter(results).values().clone(),
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int32Array, StringViewArray};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::{LikeExpr, binary, col, is_null, lit};

    use super::*;

    type Expr = Arc<dyn PhysicalExpr>;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Int32, true)]))
    }

    /// `left op right` over columns and numbers.
    fn expr(left: Expr, op: Operator, right: Expr) -> Expr {
        binary(left, op, right, &schema()).expect("an expression")
    }

    fn column(name: &str) -> Expr {
        col(name, &schema()).expect("a column")
    }

    /// Codes into 0, 1, 2, 3; -1 is null.
    fn coded(codes: &[i32]) -> ArrayRef {
        let codes: UInt8Array = codes.iter().map(|code| u8::try_from(*code).ok()).collect();
        Arc::new(DictionaryArray::new(codes, Arc::new(Int32Array::from(vec![0, 1, 2, 3]))))
    }

    #[test]
    fn results_by_codes_are_those_of_rows() {
        let exprs = [
            expr(column("a"), Operator::Plus, lit(5)),
            expr(column("a"), Operator::Gt, lit(1)),
            is_null(column("a")).expect("an expression"),
            expr(column("a"), Operator::IsNotDistinctFrom, lit(2)),
        ];
        for codes in [&[0, 1, 1, 2, 3, 3, 2][..], &[1, -1, 2, -1, 0, 0], &[1, 2]] {
            let columns = [coded(codes), coded(codes)];
            let plain = [decoded(&columns[0]).expect("values"), decoded(&columns[1]).expect("values")];
            for expr in &exprs {
                let over = CodedExpr::new(expr, &schema()).expect("columns");
                let found = over.evaluate(&columns, codes.len()).expect("results");
                assert_eq!(found.as_dictionary_opt::<UInt8Type>().is_some(), codes.len() > 4, "{expr}");
                let expected = over.evaluate(&plain, codes.len()).expect("results");
                assert_eq!(&decoded(&found).expect("values"), &expected, "{expr}");
            }
        }
    }

    #[test]
    fn doubles_are_compared_as_datafusion_compares_them() {
        let field = |name: &str| Field::new(name, DataType::Float64, true);
        let schema: SchemaRef = Arc::new(Schema::new(vec![field("x"), field("y")]));
        let numbers = [1.5, -0.0, 0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.5, 7.0];
        let doubles: ArrayRef = Arc::new(Float64Array::from_iter(numbers.map(Some).into_iter().chain([None])));
        let batch = RecordBatch::try_new(schema.clone(), vec![doubles.clone(), doubles.clone()]).expect("a batch");
        let ops = [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];
        for (op, constant) in ops.into_iter().flat_map(|op| numbers.map(|number| (op, number))) {
            let x = || col("x", &schema).expect("a column");
            for (left, right) in [(x(), lit(constant)), (lit(constant), x())] {
                let expr = binary(left, op, right, &schema).expect("an expression");
                let over = CodedExpr::new(&expr, &schema).expect("columns");
                assert_eq!(over.compiled.is_some(), !constant.is_nan(), "{expr}");
                let expected = expr.evaluate(&batch).expect("a result").into_array(9).expect("an array");
                assert_eq!(&over.evaluate(batch.columns(), 9).expect("results"), &expected, "{expr}");
            }
        }
    }

    #[test]
    fn whole_numbers_and_times_are_compared_as_datafusion_compares_them() {
        let numbers =
            Int32Array::from_iter([Some(-7), Some(0), Some(3), None, Some(i32::MAX), Some(i32::MIN), Some(3)]);
        let micros = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("UTC".into()));
        let types = [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64, DataType::Date32, micros];
        let ops = [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];
        for ty in types {
            // Those that a narrow type has not become null.
            let wide = match ty {
                DataType::Timestamp(..) => &arrow::compute::cast(&numbers, &DataType::Int64).expect("a cast"),
                _ => &(Arc::new(numbers.clone()) as ArrayRef),
            };
            let values = arrow::compute::cast(wide, &ty).expect("a cast");
            let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("x", ty.clone(), true)]));
            let batch = RecordBatch::try_new(schema.clone(), vec![values.clone()]).expect("a batch");
            for (op, row) in ops.into_iter().flat_map(|op| [0, 1, 2, 4, 5].map(|row| (op, row))) {
                let constant = ScalarValue::try_from_array(&values, row).expect("a value");
                let x = || col("x", &schema).expect("a column");
                for (left, right) in [(x(), lit(constant.clone())), (lit(constant.clone()), x())] {
                    let expr = binary(left, op, right, &schema).expect("an expression");
                    let over = CodedExpr::new(&expr, &schema).expect("columns");
                    assert_eq!(over.compiled.is_some(), !constant.is_null(), "{expr}");
                    let expected = expr.evaluate(&batch).expect("a result").into_array(values.len()).expect("an array");
                    assert_eq!(&over.evaluate(batch.columns(), values.len()).expect("results"), &expected, "{expr}");
                }
            }
        }
    }

    #[test]
    fn patterns_match_what_they_match_elsewhere() {
        let texts = ["host_1", "host_17", "HOST_17", "hostx17", "a.b", "a%b\nc", "", "äb", "ost_1", "(x)"];
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter(texts.into_iter().map(Some).chain([None])));
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("t", DataType::Utf8View, true)]));
        let batch = RecordBatch::try_new(schema.clone(), vec![texts.clone()]).expect("a batch");
        let mut compiled = 0;
        for pattern in [
            "host_1%",
            "%o_t%7",
            "host\\_1%",
            "a.b",
            "a_b",
            "a\\%b%",
            "%",
            "_",
            "__",
            "%(_)%",
            "HOST__7",
            "^host_[0-9]",
            "b$",
            "x|7$",
        ] {
            let pattern_of = || lit(ScalarValue::Utf8View(Some(pattern.into())));
            let column = || col("t", &schema).expect("a column");
            let mut exprs: Vec<Expr> = Vec::new();
            for (negated, insensitive) in [(false, false), (true, false), (false, true), (true, true)] {
                exprs.push(Arc::new(LikeExpr::new(negated, insensitive, column(), pattern_of())));
            }
            for op in [Operator::RegexMatch, Operator::RegexIMatch, Operator::RegexNotMatch, Operator::RegexNotIMatch] {
                exprs.push(binary(column(), op, pattern_of(), &schema).expect("an expression"));
            }
            for expr in exprs {
                let over = CodedExpr::new(&expr, &schema).expect("columns");
                compiled += usize::from(over.compiled.is_some());
                let expected = expr.evaluate(&batch).expect("a result").into_array(texts.len()).expect("an array");
                assert_eq!(
                    &over.evaluate(std::slice::from_ref(&texts), texts.len()).expect("results"),
                    &expected,
                    "{expr}"
                );
            }
        }
        assert!(compiled > 80);
    }

    #[test]
    fn what_no_row_has_does_not_fail() {
        let divided = expr(lit(12), Operator::Divide, column("a"));
        let over = CodedExpr::new(&divided, &schema()).expect("columns");
        let found = over.evaluate(&[coded(&[1, 2, 3, 3, 2, 1]), coded(&[])], 6).expect("no row is zero");
        assert_eq!(found.as_primitive::<arrow::datatypes::Int32Type>().values(), &[12, 6, 4, 4, 6, 12]);
        assert!(over.evaluate(&[coded(&[1, 0, 3, 3, 2, 1]), coded(&[])], 6).is_err());
    }

    #[test]
    fn conditions_are_asked_about_the_rows_that_are_left() {
        let not_zero = expr(column("a"), Operator::NotEq, lit(0));
        let divided = expr(expr(lit(12), Operator::Divide, column("a")), Operator::GtEq, column("b"));
        let condition = Condition::new(&expr(not_zero, Operator::And, divided), &schema()).expect("columns");
        let rows = [(0, 1), (1, 2), (2, 3), (3, 0), (-1, 1), (3, -1), (0, 0), (3, 3)];
        let codes = |of: fn(&(i32, i32)) -> i32| coded(&rows.iter().map(of).collect::<Vec<i32>>());
        let columns = [codes(|row| row.0), codes(|row| row.1)];
        let plain = columns.clone().map(|column| decoded(&column).expect("values"));
        for columns in [&columns, &plain] {
            let mask = condition.mask(columns, rows.len()).expect("no row that is left is zero");
            assert_eq!(mask.values().set_indices().collect::<Vec<_>>(), [1, 2, 3, 7]);
        }
        // Where one side of OR is true the other is not asked.
        let zero = expr(column("a"), Operator::Eq, lit(0));
        let large = expr(expr(lit(12), Operator::Divide, column("a")), Operator::Gt, lit(6));
        let either = Condition::new(&expr(zero, Operator::Or, large), &schema()).expect("columns");
        for columns in [&columns, &plain] {
            let mask = either.mask(columns, rows.len()).expect("no row that is asked is zero");
            assert_eq!(mask.values().set_indices().collect::<Vec<_>>(), [0, 1, 6]);
        }
        let never = Condition::new(&expr(column("a"), Operator::Gt, lit(7)), &schema()).expect("columns");
        assert_eq!(never.mask(&columns, rows.len()).expect("a mask").true_count(), 0);
    }
}
