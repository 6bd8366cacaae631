//! How a function is declared, and how its code for one row runs over batches.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    Volatility,
};
use keyspan_model::{ColumnBuilder, ColumnType, Error, ErrorKind, Value, value_at};

use super::{step, whole_arrays};
use crate::context::Facts;
use crate::error::external;
use crate::types::Zone;
use crate::types::{field_of, literal};

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// This type, and what Postgres casts to it unasked.
    Is(ColumnType),
    /// A numeric of any scale.
    Numeric,
    /// Anything.
    Any,
    /// An array; all arrays and elements of a call are of one type.
    Array,
    /// An element of the arrays.
    Element,
}

impl Parameter {
    /// Whether a value of this type is one.
    pub fn takes(self, ty: ColumnType) -> bool {
        match self {
            Parameter::Is(own) => own == ty,
            Parameter::Numeric => matches!(ty, ColumnType::Decimal { .. }),
            Parameter::Any | Parameter::Element => true,
            Parameter::Array => ty.element().is_some(),
        }
    }
}

/// The type of a result.
#[derive(Clone, Copy, Debug)]
pub enum Returns {
    /// Always this.
    Is(ColumnType),
    /// From the arguments' types.
    From(fn(&[ColumnType]) -> ColumnType),
}

/// What a function may ask about its surroundings.
pub struct Call<'a> {
    /// The function's name.
    pub name: &'static str,
    /// The session's time zone.
    pub zone: Zone,
    /// The arguments' types.
    pub types: &'a [ColumnType],
    /// The result's type.
    pub result: ColumnType,
    /// What the session says of itself.
    pub facts: Facts,
}

/// The code for one row.
pub type Code = fn(&Call<'_>, &[Value]) -> keyspan_model::Result<Value>;

/// The code for whole arrays, by the function's name and with the number of rows.
pub type ArrayCode = fn(&str, &[ColumnarValue], usize) -> Result<ArrayRef>;

/// What a function gives of an infinite date or timestamp.
#[derive(Clone, Copy, Debug)]
pub enum OfInfinity {
    /// Its code knows.
    Call,
    /// The infinity, if the argument with this number is one.
    Same(usize),
    /// Null, if any argument is one.
    Null,
    /// 22008 with this message, if any argument is one.
    Error(&'static str),
}

/// A function of one name and these parameter types.
#[derive(Clone, Debug)]
pub struct Overload {
    /// Name in SQL; functions behind operators have names too.
    pub name: &'static str,
    /// Types of parameters.
    pub parameters: &'static [Parameter],
    /// Whether the last parameter may come any number of times.
    pub variadic: bool,
    /// Type of the result.
    pub returns: Returns,
    /// Whether a null argument makes the result null without a call.
    pub strict: bool,
    /// What infinite dates and timestamps give.
    pub of_infinity: OfInfinity,
    /// Whether DataFusion's function of the name does the work; then only the types matter here.
    pub native: bool,
    /// How far the result may be computed ahead.
    pub volatility: Volatility,
    /// The code for one row.
    pub code: Code,
    /// The code for whole arrays, where there is such.
    pub of_arrays: Option<ArrayCode>,
}

impl Overload {
    /// A strict function whose result only depends on its arguments.
    pub const fn new(
        name: &'static str,
        parameters: &'static [Parameter],
        returns: ColumnType,
        code: Code,
    ) -> Overload {
        Overload {
            name,
            parameters,
            variadic: false,
            returns: Returns::Is(returns),
            strict: true,
            of_infinity: OfInfinity::Call,
            native: false,
            volatility: Volatility::Immutable,
            code,
            of_arrays: None,
        }
    }

    /// A function that is computed for whole arrays.
    pub const fn of_arrays(
        name: &'static str,
        parameters: &'static [Parameter],
        returns: ColumnType,
        code: ArrayCode,
    ) -> Overload {
        let nothing: Code = |_, _| Ok(Value::Null);
        Overload { of_arrays: Some(code), ..Overload::new(name, parameters, returns, nothing) }
    }

    /// Parameter types of a function that DataFusion has.
    pub const fn native(name: &'static str, parameters: &'static [Parameter]) -> Overload {
        let nothing: Code = |_, _| Ok(Value::Null);
        Overload { native: true, ..Overload::new(name, parameters, ColumnType::Text, nothing) }
    }

    /// The result's type depends on the arguments'.
    pub const fn returning(self, returns: fn(&[ColumnType]) -> ColumnType) -> Overload {
        Overload { returns: Returns::From(returns), ..self }
    }

    /// Is called with nulls, too.
    pub const fn with_nulls(self) -> Overload {
        Overload { strict: false, ..self }
    }

    /// What infinite dates and timestamps give.
    pub const fn of_infinity(self, of_infinity: OfInfinity) -> Overload {
        Overload { of_infinity, ..self }
    }

    /// The last parameter may repeat.
    pub const fn variadic(self) -> Overload {
        Overload { variadic: true, ..self }
    }

    /// The same all through a statement.
    pub const fn stable(self) -> Overload {
        Overload { volatility: Volatility::Stable, ..self }
    }

    /// New for each row.
    pub const fn volatile(self) -> Overload {
        Overload { volatility: Volatility::Volatile, ..self }
    }
}

/// A call of an overload, as DataFusion sees it.
#[derive(Debug)]
pub struct ValueFunction {
    overload: Overload,
    types: Vec<ColumnType>,
    result: ColumnType,
    signature: Signature,
}

impl ValueFunction {
    /// The function for arguments of these types.
    pub fn new(overload: Overload, types: Vec<ColumnType>, result: Option<ColumnType>) -> ValueFunction {
        let result = result.unwrap_or_else(|| match overload.returns {
            Returns::Is(ty) => ty,
            Returns::From(of) => of(&types),
        });
        let signature = match types.len() {
            0 => Signature::nullary(overload.volatility),
            count => Signature::any(count, overload.volatility),
        };
        ValueFunction { overload, types, result, signature }
    }

    fn rows(&self, call: &Call<'_>, args: &[ColumnarValue], rows: usize) -> Result<ArrayRef> {
        let inputs = args.iter().zip(&self.types).map(|(arg, ty)| match arg {
            ColumnarValue::Scalar(scalar) => Ok(Input::Same(scalar_value(scalar, *ty)?)),
            ColumnarValue::Array(array) => Ok(match array.as_string_view_opt() {
                Some(texts) if *ty == ColumnType::Text => Input::Texts(texts.clone()),
                _ => Input::Each(array.clone(), *ty),
            }),
        });
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let mut builder = ColumnBuilder::with_capacity(self.result, rows);
        let constant = |input: &Input| if let Input::Same(value) = input { value.clone() } else { Value::Null };
        let mut values: Vec<Value> = inputs.iter().map(constant).collect();
        for row in 0..rows {
            for (value, input) in values.iter_mut().zip(&inputs) {
                match input {
                    Input::Each(array, ty) => *value = value_at(array.as_ref(), row, *ty).map_err(external)?,
                    Input::Texts(texts) if texts.is_valid(row) => match value {
                        Value::Text(own) => {
                            own.clear();
                            own.push_str(texts.value(row));
                        }
                        value => *value = Value::Text(texts.value(row).to_owned()),
                    },
                    Input::Texts(_) => *value = Value::Null,
                    Input::Same(_) => {}
                }
            }
            let result = self.one(call, &values).map_err(external)?;
            builder.append(&result).map_err(external)?;
        }
        Ok(builder.finish())
    }

    fn one(&self, call: &Call<'_>, values: &[Value]) -> keyspan_model::Result<Value> {
        if self.overload.strict && values.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        match self.infinite(values) {
            Some(result) => result,
            None => (self.overload.code)(call, values),
        }
    }

    /// The result where an infinite argument decides it.
    fn infinite(&self, values: &[Value]) -> Option<keyspan_model::Result<Value>> {
        let any = || values.iter().find_map(Value::infinity);
        match self.overload.of_infinity {
            OfInfinity::Call => None,
            OfInfinity::Same(argument) => values[argument].infinity().map(|infinity| {
                Ok(match self.result {
                    ColumnType::Date => Value::infinite_date(infinity),
                    _ => Value::infinite_timestamp(infinity),
                })
            }),
            OfInfinity::Null => any().map(|_| Ok(Value::Null)),
            OfInfinity::Error(message) => any().map(|_| Err(Error::new(ErrorKind::DatetimeOverflow, message))),
        }
    }
}

enum Input {
    Same(Value),
    Each(ArrayRef, ColumnType),
    /// The same of texts, whose place is taken by those of the next row.
    Texts(StringViewArray),
}

/// The scalar as a value, at run time.
pub fn scalar_value(scalar: &ScalarValue, ty: ColumnType) -> Result<Value> {
    if scalar.is_null() {
        return Ok(Value::Null);
    }
    value_at(scalar.to_array()?.as_ref(), 0, ty).map_err(external)
}

/// The session's zone.
pub fn zone_of(options: &ConfigOptions) -> Result<Zone> {
    Zone::parse(options.execution.time_zone.as_deref().unwrap_or("UTC")).map_err(external)
}

impl PartialEq for ValueFunction {
    fn eq(&self, other: &Self) -> bool {
        self.overload.name == other.overload.name && self.types == other.types && self.result == other.result
    }
}

impl Eq for ValueFunction {}

impl Hash for ValueFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.overload.name, &self.types, self.result).hash(state);
    }
}

impl ScalarUDFImpl for ValueFunction {
    fn name(&self) -> &str {
        self.overload.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.arrow())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(field_of(self.result, self.overload.name, true)))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        match (self.overload.name, info.query_execution_start_time()) {
            ("now", Some(start)) => {
                let value = Value::Timestamp(start.timestamp_micros());
                Ok(ExprSimplifyResult::Simplified(literal(&value, ColumnType::Timestamp)?))
            }
            ("date_trunc", _) => {
                let zone = zone_of(info.config_options())?;
                Ok(match step::of_trunc(&args, self.result, zone) {
                    Some(step) => ExprSimplifyResult::Simplified(step),
                    None => ExprSimplifyResult::Original(args),
                })
            }
            _ => Ok(ExprSimplifyResult::Original(args)),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(step::ordering(self.overload.name, inputs).unwrap_or_default())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let call = Call {
            name: self.overload.name,
            zone: zone_of(&args.config_options)?,
            types: &self.types,
            result: self.result,
            facts: Facts::of(&args.config_options),
        };
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        if constant && self.overload.volatility != Volatility::Volatile {
            let array = match self.overload.of_arrays {
                Some(code) => code(self.overload.name, &args.args, 1)?,
                None => self.rows(&call, &args.args, 1)?,
            };
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        if let Some(code) = self.overload.of_arrays {
            return code(self.overload.name, &args.args, args.number_rows).map(ColumnarValue::Array);
        }
        if let Some(steps) = step::whole(self.overload.name, &self.types, &args.args) {
            return steps.map(ColumnarValue::Array);
        }
        if let Some(array) = whole_arrays::call(&call, &args.args) {
            return Ok(ColumnarValue::Array(array));
        }
        Ok(ColumnarValue::Array(self.rows(&call, &args.args, args.number_rows)?))
    }
}

/// Stands for a name until the arguments' types are known; never runs.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Named {
    name: String,
    signature: Signature,
}

impl Named {
    /// The name.
    pub fn new(name: &str) -> Named {
        Named { name: name.to_owned(), signature: Signature::variadic_any(Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for Named {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Null)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(external(Error::internal(format!("function {} was not resolved", self.name))))
    }
}

/// Stands for the name of an aggregate that another one is; never runs.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Alias {
    name: &'static str,
    signature: Signature,
}

impl Alias {
    /// The name.
    pub fn new(name: &'static str) -> Alias {
        Alias { name, signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Alias {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Null)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Err(external(Error::internal(format!("aggregate {} was not resolved", self.name))))
    }
}
