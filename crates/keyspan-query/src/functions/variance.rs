//! `variance`, `stddev` and their kin of integers and numerics as numeric.
//!
//! DataFusion computes variances of all numbers as floats. Of exact numbers the count, the sum and the sum of squares
//! ([`Sums`]) are kept as whole numbers of the column's last digit, so that a frame can take back what leaves it:
//!
//! ```text
//! var_pop = (n · Σx² − (Σx)²) / n²        var_samp = the same / (n · (n − 1))        stddev = the root
//! ```

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array, Decimal256Array, Int64Array};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Field, FieldRef, Int64Type, i256};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};
use keyspan_model::ColumnType;

use super::distinct::{Distinct, distinct_state};
use super::group_state::{GroupState, ManyGroups, OneGroup};
use crate::error::external;
use crate::types::arithmetic::{divided, out_of_range, root};
use crate::types::{decimal, number_rank, scale_of};

/// Digits of a 256-bit number.
const WIDE: u8 = 76;

/// The variance of this name over exact numbers, and the type its argument is to have; `None` for other functions and types.
pub fn of_exact(name: &str, ty: ColumnType) -> Option<(Arc<AggregateUDF>, ColumnType)> {
    let (name, sample, root) = match name {
        "var" | "var_samp" | "variance" => ("var", true, false),
        "var_pop" => ("var_pop", false, false),
        "stddev" | "stddev_samp" => ("stddev", true, true),
        "stddev_pop" => ("stddev_pop", false, true),
        _ => return None,
    };
    if number_rank(ty)? > 6 {
        return None;
    }
    // A bigint's variance may need more digits before the point.
    let wide = matches!(ty, ColumnType::BigInt | ColumnType::VarInt) && !root;
    let (given, shown) = (scale_of(ty), if wide { 8 } else { scale_of(ty).max(16) });
    let signature = Signature::any(1, Volatility::Immutable);
    let function = Variance { name, form: Form { sample, root, given, shown }, signature };
    Some((Arc::new(AggregateUDF::from(function)), decimal(given)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Variance {
    name: &'static str,
    form: Form,
    signature: Signature,
}

impl AggregateUDFImpl for Variance {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(decimal(self.form.shown).arrow())
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let of_all = OneGroup::<Sums>::new(self.form);
        Ok(match args.is_distinct {
            true => Box::new(Distinct::<Decimal128Type, _>::new(decimal(self.form.given).arrow(), of_all)),
            false => Box::new(of_all),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            return Ok(distinct_state(args.name, decimal(self.form.given).arrow()));
        }
        let field = |part: &str, ty| Arc::new(Field::new(format!("{}[{part}]", args.name), ty, true));
        let wide = || DataType::Decimal256(WIDE, 0);
        Ok(vec![field("count", DataType::Int64), field("sum", wide()), field("squares", wide())])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(ManyGroups::<Sums>::new(self.form)))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// What is made of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Form {
    /// Of a sample, not of all.
    sample: bool,
    /// The standard deviation.
    root: bool,
    /// Digits after the point of the argument.
    given: i8,
    /// Digits after the point of the result.
    shown: i8,
}

impl Form {
    fn overflow(&self) -> DataFusionError {
        let error = out_of_range(decimal(self.shown));
        external(error.with_hint("Cast the argument to double precision."))
    }

    /// The result's digits, none of too few values.
    fn value(&self, sums: &Sums) -> Result<Option<i128>> {
        if sums.count < 1 + i64::from(self.sample) {
            return Ok(None);
        }
        self.digits(sums).map(Some).ok_or_else(|| self.overflow())
    }

    fn digits(&self, sums: &Sums) -> Option<i128> {
        let count = i256::from_i128(i128::from(sums.count));
        let above = count.checked_mul(sums.squares)?.checked_sub(sums.sum.checked_mul(sums.sum)?)?;
        let below = count.checked_mul(i256::from_i128(i128::from(sums.count - i64::from(self.sample))))?;
        // The root halves the number of digits after the point.
        let shown = i32::from(self.shown) * if self.root { 2 } else { 1 };
        let shift = shown - 2 * i32::from(self.given);
        let power = |digits: i32| i256::from_i128(10).checked_pow(u32::try_from(digits).ok()?);
        let variance = match shift >= 0 {
            true => divided(above.checked_mul(power(shift)?)?, below)?,
            false => divided(above, below.checked_mul(power(-shift)?)?)?,
        };
        let digits = if self.root { root(variance)?.to_i128()? } else { variance.to_i128()? };
        (digits.unsigned_abs() < 10_u128.pow(38)).then_some(digits)
    }
}

/// Of some values, in units of their last digit.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    count: i64,
    sum: i256,
    squares: i256,
}

impl Sums {
    /// Takes a value in; none if the sums have too many digits.
    fn take_in(&mut self, value: i128) -> Option<()> {
        self.squares = self.squares.checked_add(square(value)?)?;
        self.sum = self.sum.checked_add(i256::from_i128(value))?;
        self.count += 1;
        Some(())
    }

    fn let_go(&mut self, value: i128) -> Option<()> {
        self.squares = self.squares.checked_sub(square(value)?)?;
        self.sum = self.sum.checked_sub(i256::from_i128(value))?;
        self.count -= 1;
        Some(())
    }

    fn take_over(&mut self, other: Sums) -> Option<()> {
        self.count += other.count;
        self.sum = self.sum.checked_add(other.sum)?;
        self.squares = self.squares.checked_add(other.squares)?;
        Some(())
    }
}

fn square(value: i128) -> Option<i256> {
    match value.checked_mul(value) {
        Some(square) => Some(i256::from_i128(square)),
        None => i256::from_i128(value).checked_mul(i256::from_i128(value)),
    }
}

impl GroupState for Sums {
    type Function = Form;
    type Arguments<'a> = &'a [i128];

    const TAKES_BACK: bool = true;

    fn arguments(values: &[ArrayRef]) -> &[i128] {
        values[0].as_primitive::<Decimal128Type>().values()
    }

    fn add(&mut self, form: Form, values: &&[i128], row: usize) -> Result<()> {
        self.take_in(values[row]).ok_or_else(|| form.overflow())
    }

    fn take_back(&mut self, form: Form, values: &&[i128], row: usize) -> Result<()> {
        self.let_go(values[row]).ok_or_else(|| form.overflow())
    }

    fn join(&mut self, form: Form, other: Sums) -> Result<()> {
        self.take_over(other).ok_or_else(|| form.overflow())
    }

    fn results(form: Form, groups: &[Sums]) -> Result<ArrayRef> {
        let digits = groups.iter().map(|sums| form.value(sums)).collect::<Result<Decimal128Array>>()?;
        Ok(Arc::new(digits.with_data_type(decimal(form.shown).arrow())))
    }

    fn columns(groups: &[Sums]) -> Vec<ArrayRef> {
        let wide = |of: fn(&Sums) -> i256| {
            let digits = Decimal256Array::from_iter_values(groups.iter().map(of));
            Arc::new(digits.with_data_type(DataType::Decimal256(WIDE, 0))) as ArrayRef
        };
        let counts = Int64Array::from_iter_values(groups.iter().map(|sums| sums.count));
        vec![Arc::new(counts), wide(|sums| sums.sum), wide(|sums| sums.squares)]
    }

    fn of_columns(columns: &[ArrayRef]) -> Vec<Sums> {
        let counts = columns[0].as_primitive::<Int64Type>().values().iter();
        let [sums, squares] = [1, 2].map(|at| columns[at].as_primitive::<Decimal256Type>().values().iter());
        let each = counts.zip(sums).zip(squares);
        each.map(|((count, sum), squares)| Sums { count: *count, sum: *sum, squares: *squares }).collect()
    }
}
