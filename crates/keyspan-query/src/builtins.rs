//! All functions that a query may call: those of [`crate::functions`] and those over the catalog of [`crate::pg_catalog`].

use std::sync::Arc;

use datafusion::catalog::TableFunction;
use datafusion::logical_expr::ScalarUDF;
use keyspan_model::nearest;

use crate::family;
use crate::functions::{self, Overload, named};
use crate::pg_catalog;

/// The functions of this name.
pub fn overloads(name: &str) -> Option<&'static [Overload]> {
    functions::overloads(name).or_else(|| pg_catalog::overloads(name))
}

/// Whether there is a function of this name, of ours or DataFusion's.
pub fn exists(name: &str) -> bool {
    functions::exists(name) || pg_catalog::overloads(name).is_some()
}

/// The function with the most similar name.
pub fn nearest_name(name: &str) -> Option<&'static str> {
    nearest(name, names())
}

fn names() -> impl Iterator<Item = &'static str> {
    functions::names().chain(pg_catalog::function_names())
}

/// Scalar functions.
pub fn scalar() -> Vec<Arc<ScalarUDF>> {
    let own = names().filter(|name| overloads(name).is_some_and(|each| each.iter().any(|overload| !overload.native)));
    let mut scalar: Vec<Arc<ScalarUDF>> = own.map(named).collect();
    scalar.push(named("pg_typeof"));
    scalar.extend(functions::lists());
    scalar.extend(family::functions());
    scalar
}

/// Functions in FROM.
pub fn table() -> Vec<Arc<TableFunction>> {
    vec![Arc::new(functions::series()), pg_catalog::keyword_function()]
}
