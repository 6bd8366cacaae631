//! Functions that DataFusion lacks, or whose answers differ from Postgres'. A function here replaces DataFusion's of the
//! same name.
//!
//! [`overload`] says how a function is declared: parameter types, result, and the code for one row. The tables of them,
//! by subject, are `math`, `logarithm`, `text`, `time`, `json`, `array`, `nested`, `variant`, `vector`, `blob`,
//! `collection`, `masking`, `system`, `peers` and `identity`; `list` does the same for functions over lists.

mod aggregate_calls;
pub mod arithmetic;
pub mod array;
pub(crate) mod asof;
mod blob;
pub(crate) mod bounds;
pub(crate) mod bucket;
pub mod cast;
pub(crate) mod collection;
mod compiled;
pub(crate) mod counter;
mod distinct;
pub(crate) mod expand;
pub(crate) mod extreme;
mod format;
pub(crate) mod gapfill;
mod group_state;
pub(crate) mod histogram;
mod identifier;
mod identity;
pub(crate) mod interval_sum;
pub(crate) mod json;
pub(crate) mod list;
mod logarithm;
mod masking;
mod math;
pub(crate) mod moving;
pub(crate) mod nested;
pub(crate) mod once;
mod overload;
pub(crate) mod pairs;
pub(crate) mod pattern;
mod peers;
mod percentile;
pub(crate) mod refold;
mod retyped;
pub mod row_key;
pub mod row_text;
pub(crate) mod series;
pub(crate) mod shift;
pub(crate) mod step;
mod string_agg;
mod system;
mod term;
mod text;
mod time;
pub(crate) mod variance;
pub(crate) mod variant;
pub(crate) mod vector;
mod whole_arrays;
mod whole_row;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use datafusion::catalog::TableFunction;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{AggregateUDF, Expr, ScalarUDF, WindowUDF};
use keyspan_model::{ColumnType, Error};

use crate::error::external;
pub use aggregate_calls::has_aggregate;
pub use identity::TIMEUUID_ORDER;
use overload::{Alias, Named, ValueFunction};
pub use overload::{Call, Code, Overload, Parameter, scalar_value};
pub use pattern::{MATCHES_ALL, MATCHES_ANY, SIMILAR_PATTERN, similar_pattern, translated};
pub use retyped::retyped;
pub use system::{MARK_OF_SHARED, POSTGRES_VERSION, POSTGRES_VERSION_NUM, ROW_COUNT, ROW_OFFSET};
pub use term::{RECURSIVE_TERM, recursive_term};
pub use time::{DAY, day, interval_to, now};
pub use whole_row::WHOLE_ROW;

fn catalog() -> &'static BTreeMap<&'static str, Vec<Overload>> {
    static CATALOG: OnceLock<BTreeMap<&'static str, Vec<Overload>>> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let mut catalog: BTreeMap<&'static str, Vec<Overload>> = BTreeMap::new();
        let tables = [
            logarithm::functions(),
            math::functions(),
            text::functions(),
            pattern::functions(),
            time::functions(),
            bucket::functions(),
            asof::functions(),
            gapfill::functions(),
            format::functions(),
            json::functions(),
            system::functions(),
            peers::functions(),
            identity::functions(),
            array::functions(),
            extreme::functions(),
            once::functions(),
            nested::functions(),
            variant::functions(),
            vector::functions(),
            blob::functions(),
            collection::functions(),
            masking::functions(),
        ];
        for overload in tables.into_iter().flatten() {
            catalog.entry(overload.name).or_default().push(overload);
        }
        catalog
    })
}

/// The functions, by name.
pub fn names() -> impl Iterator<Item = &'static str> {
    catalog().keys().copied()
}

/// The functions of this name.
pub fn overloads(name: &str) -> Option<&'static [Overload]> {
    catalog().get(name).map(Vec::as_slice)
}

/// Whether there is a function of this name, of ours or DataFusion's.
pub fn exists(name: &str) -> bool {
    catalog().contains_key(name) || OTHERS.contains(&name) || ALIASES.contains(&name)
}

/// Aggregates whose argument types are checked by the planner of calls.
const OTHERS: [&str; 10] =
    ["avg", "sum", "string_agg", "bool_and", "bool_or", "delta", "increase", "rate", "irate", "histogram"];

/// Aggregates that another one is, with other arguments: `first(v, ts)` is `first_value(v ORDER BY ts)`.
const ALIASES: [&str; 7] = ["first", "last", "arg_min", "arg_max", "min_by", "max_by", "approx_percentile"];

/// A call of one of our functions with arguments that already have these types.
///
/// # Errors
/// XX000 when there is none.
pub fn value_call(name: &str, args: Vec<Expr>, types: &[ColumnType]) -> Result<Expr> {
    let fits = |overload: &&Overload| {
        let parameters = overload.parameters;
        let count = parameters.len() == types.len() || (overload.variadic && types.len() + 1 >= parameters.len());
        let each = types.iter().enumerate().all(|(index, ty)| {
            parameters.get(index).or(parameters.last()).is_some_and(|parameter| parameter.takes(*ty))
        });
        count && each
    };
    match overloads(name).and_then(|overloads| overloads.iter().find(fits)) {
        Some(overload) => Ok(call_overload(overload, args, types, None)),
        None => Err(external(Error::internal(format!("no function {name} of these types")))),
    }
}

/// A call of the first function of this name, whose result is of this type.
///
/// # Errors
/// XX000 when there is none.
pub fn typed_call(name: &str, args: Vec<Expr>, types: &[ColumnType], result: ColumnType) -> Result<Expr> {
    match overloads(name).and_then(<[Overload]>::first) {
        Some(overload) => Ok(call_overload(overload, args, types, Some(result))),
        None => Err(external(Error::internal(format!("no function {name}")))),
    }
}

/// A call of this function with arguments of these types; `result` goes before the type that it declares.
pub fn call_overload(overload: &Overload, args: Vec<Expr>, types: &[ColumnType], result: Option<ColumnType>) -> Expr {
    let function = ValueFunction::new(overload.clone(), types.to_vec(), result);
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(function)), args))
}

/// Whether a planned function only stands for a name that nothing has.
pub fn is_missing(function: &ScalarUDF) -> bool {
    function.inner().is::<Named>()
}

/// A function that stands for a name until the types of its arguments are known.
pub fn named(name: &str) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Named::new(name)))
}

/// DataFusion's `sum`.
pub fn sum() -> Arc<AggregateUDF> {
    datafusion::functions_aggregate::sum::sum_udaf()
}

/// DataFusion's `count`.
pub fn count() -> Arc<AggregateUDF> {
    datafusion::functions_aggregate::count::count_udaf()
}

/// DataFusion's `array_agg`.
pub fn array_agg() -> Arc<AggregateUDF> {
    datafusion::functions_aggregate::array_agg::array_agg_udaf()
}

/// Aggregate functions.
pub fn aggregate() -> Vec<Arc<AggregateUDF>> {
    let mut functions = counter::functions();
    functions.extend(pairs::functions());
    functions.push(histogram::function());
    functions.push(percentile::function());
    functions.push(string_agg::function());
    functions.extend(ALIASES.map(|name| Arc::new(AggregateUDF::from(Alias::new(name)))));
    functions
}

/// Window functions.
pub fn window() -> Vec<Arc<WindowUDF>> {
    Vec::new()
}

/// Functions over lists.
pub fn lists() -> Vec<Arc<ScalarUDF>> {
    list::functions()
}

/// The function over lists of this name, which is known to exist.
pub fn list_function(name: &str) -> Arc<ScalarUDF> {
    static LISTS: OnceLock<BTreeMap<String, Arc<ScalarUDF>>> = OnceLock::new();
    let lists = LISTS.get_or_init(|| lists().into_iter().map(|each| (each.name().to_owned(), each)).collect());
    Arc::clone(&lists[name])
}

/// `generate_series` in FROM.
pub fn series() -> TableFunction {
    TableFunction::new("generate_series".into(), Arc::new(series::GenerateSeries))
}
