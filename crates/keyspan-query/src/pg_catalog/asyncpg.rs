//! asyncpg's question about types that it does not know by heart, arrays among them: `WITH RECURSIVE typeinfo_tree …`.
//!
//! It walks from a type to what it is made of, over correlated subqueries that are not planned here. Types here are made
//! of nothing, and arrays of such types, so the walk has two steps, which this asks in its place.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, Expr, Query, SetExpr, VisitMut, VisitorMut};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// The name of asyncpg's tree.
const TREE: &str = "typeinfo_tree";
/// Stands for the condition on `ti.oid`.
const ASKED: &str = "asked";

/// What answers the question. `asked` is the condition that asyncpg begins with.
const STEPS: &str = "
    SELECT ti.*, CASE WHEN asked THEN 0 ELSE 1 END FROM types AS ti
    WHERE asked OR ti.oid IN (SELECT ti.elemtype FROM types AS ti WHERE asked)";
/// A type as asyncpg reads it.
const TYPES: &str = "
    (SELECT t.oid AS oid, ns.nspname AS ns, t.typname AS name, t.typtype AS kind, CAST(NULL AS bigint) AS basetype,
        t.typelem AS elemtype, t.typdelim AS elemdelim, CAST(NULL AS bigint) AS range_subtype,
        CAST(NULL AS text) AS attrtypoids, CAST(NULL AS text) AS attrnames
     FROM pg_catalog.pg_type AS t JOIN pg_catalog.pg_namespace AS ns ON ns.oid = t.typnamespace)";

/// Puts the two steps in the tree's place, if the query has it.
pub fn simplify(query: &mut Query) {
    let Some(with) = &mut query.with else { return };
    for table in &mut with.cte_tables {
        let SetExpr::SetOperation { left, .. } = table.query.body.as_ref() else { continue };
        let SetExpr::Select(first) = left.as_ref() else { continue };
        let (true, Some(asked)) = (table.alias.name.value == TREE, first.selection.clone()) else { continue };
        let text = STEPS.replace("types", TYPES);
        let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql(&text).and_then(|mut parser| parser.parse_query());
        let Ok(mut steps) = parsed else { return };
        let _ = steps.visit(&mut Asked(asked));
        table.query = steps;
        with.recursive = false;
    }
}

/// The places, from 0, of the parameters that a query casts to `oid[]`: to be described so, since asyncpg knows this array
/// by heart, and asks its question with one.
pub fn oid_array_parameters(query: &Query) -> Vec<usize> {
    let mut places = Vec::new();
    let _ = ast::visit_expressions(query, |expr| {
        if let Expr::Cast { expr, data_type, .. } = expr
            && let Expr::Value(value) = expr.as_ref()
            && let ast::Value::Placeholder(name) = &value.value
            && data_type.to_string().eq_ignore_ascii_case("oid[]")
            && let Some(number) = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok())
        {
            places.extend(number.checked_sub(1));
        }
        ControlFlow::<()>::Continue(())
    });
    places
}

struct Asked(Expr);

impl VisitorMut for Asked {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Identifier(name) if name.value == ASKED) {
            *expr = self.0.clone();
        }
        ControlFlow::Continue(())
    }
}
