//! Functions over lists, which have no place among functions of single values ([`super::overload`]): how one is declared.
//!
//! The code of most is in `bounds`, `identifier`, `expand`, `json` and `pattern`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, ListArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use keyspan_model::schema::temporary::is_temporary;
use keyspan_model::{ColumnType, Error, ErrorKind};

use super::{bounds, expand, identifier, row_key, row_text, series};
use crate::context::Facts;
use crate::error::{external, several_rows};
use crate::types::{Ty, field_type};

/// What a function gives for arguments of these fields; an error if there is none for them.
pub type Returns = fn(&'static str, &[FieldRef]) -> Result<Field>;
/// The code for a batch.
pub type Code = fn(&ScalarFunctionArgs) -> Result<ColumnarValue>;

/// The functions.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let own = [ListFunction::new("current_schemas", 1, |name, _| Ok(texts(name)), schemas).stable()];
    let all = own.into_iter().chain(bounds::functions()).chain(identifier::functions()).chain(expand::functions());
    let all = all.chain(series::functions());
    let all = all.chain(super::json::over_lists()).chain(super::pattern::over_lists());
    let all = all.chain([row_key::function(), row_text::function()]);
    all.map(ScalarUDF::from).chain([super::whole_row::function()]).map(Arc::new).collect()
}

/// A function over lists, as DataFusion sees it.
#[derive(Debug)]
pub struct ListFunction {
    name: &'static str,
    signature: Signature,
    returns: Returns,
    code: Code,
}

impl ListFunction {
    /// A function of so many arguments whose result only depends on them.
    pub fn new(name: &'static str, arguments: usize, returns: Returns, code: Code) -> ListFunction {
        ListFunction { name, signature: Signature::any(arguments, Volatility::Immutable), returns, code }
    }

    /// May be called with so many arguments, too.
    pub fn or_with(self, arguments: usize) -> ListFunction {
        let ways = vec![self.signature.type_signature, datafusion::logical_expr::TypeSignature::Any(arguments)];
        ListFunction { signature: Signature::one_of(ways, self.signature.volatility), ..self }
    }

    /// The same all through a statement.
    pub fn stable(self) -> ListFunction {
        let signature = Signature { volatility: Volatility::Stable, ..self.signature };
        ListFunction { signature, ..self }
    }
}

/// 42883 for a call with arguments of these fields.
pub fn missing<T>(name: &str, arguments: &[FieldRef]) -> Result<T> {
    let types: Vec<String> = arguments.iter().map(|field| field_type(field).name()).collect();
    let message = format!("function {name}({}) does not exist", types.join(", "));
    let hint = "No function matches the given name and argument types. You might need to add explicit type casts.";
    Err(external(Error::new(ErrorKind::UndefinedFunction, message).with_hint(hint)))
}

/// Checks what a subquery has found: the number of its rows, and the value of one of them.
const SINGLE_ROW: &str = "single_row";

/// The value of a subquery that may have one row only; 21000 if it has more.
pub fn single_row(rows: Expr, value: Expr) -> Expr {
    let function = ListFunction::new(
        SINGLE_ROW,
        2,
        |name, args| Ok(args[1].as_ref().clone().with_name(name).with_nullable(true)),
        single,
    );
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), vec![rows, value]))
}

fn single(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let rows = args.args[0].to_array(args.number_rows)?;
    if rows.as_primitive::<Int64Type>().iter().flatten().any(|rows| rows > 1) {
        return Err(external(several_rows()));
    }
    Ok(args.args[1].clone())
}

/// A list of texts.
pub fn texts(name: &str) -> Field {
    Field::new(name, DataType::new_list(DataType::Utf8View, true), true)
}

/// Whether an argument is a list; a bare NULL may be one.
pub fn is_list(field: &Field) -> bool {
    matches!(field.data_type(), DataType::List(_) | DataType::Null)
}

/// Whether an argument is an integer; a bare NULL may be one.
pub fn is_integer(field: &Field) -> bool {
    use ColumnType as C;
    let known = |ty| matches!(ty, C::TinyInt | C::SmallInt | C::Int | C::BigInt);
    match field_type(field) {
        Ty::Known(ty) => known(ty),
        Ty::Unknown => *field.data_type() == DataType::Null,
        Ty::Other(_) => false,
    }
}

/// The lists of an argument.
pub fn lists(array: &ArrayRef) -> Result<&ListArray> {
    array.as_list_opt::<i32>().ok_or_else(|| external(Error::internal("a list was expected")))
}

impl PartialEq for ListFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ListFunction {}

impl Hash for ListFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for ListFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let fields: Vec<FieldRef> = types.iter().map(|ty| Arc::new(Field::new("", ty.clone(), true))).collect();
        (self.returns)(self.name, &fields).map(|field| field.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        (self.returns)(self.name, args.arg_fields).map(Arc::new)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        (self.code)(&args)
    }
}

fn schemas(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let facts = Facts::of(&args.config_options);
    let implicit = matches!(&args.args[0], ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))));
    let (own, path): (Vec<_>, Vec<_>) = facts.search_path.iter().cloned().partition(|name| is_temporary(name));
    let system = own.into_iter().chain(["pg_catalog".to_owned()]).filter(|_| implicit);
    let names = system.chain(path);
    let names: Vec<ScalarValue> = names.map(|name| ScalarValue::Utf8View(Some(name))).collect();
    Ok(ColumnarValue::Scalar(ScalarValue::List(ScalarValue::new_list_nullable(&names, &DataType::Utf8View))))
}
