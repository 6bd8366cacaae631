//! Names, keywords, casts and calls in the tree of a statement, for all that changes or reads it.

mod keywords;
mod own;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    self, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, Query, TableFactor, TableWithJoins, Visit, Visitor,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use keyspan_model::ColumnType;

pub use keywords::{Keyword, keywords, quote_ident};
pub use own::{change_own, visit_own};

/// The name of a subquery that is made, which no table of an enclosing query has.
pub const QUERY: &str = "\u{1}q";

/// A name as it is looked up: folded to lower case unless quoted.
pub fn folded(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}

/// An expression from its text.
///
/// # Errors
/// What the parser says of a text that is none.
pub fn parsed_expression(text: &str) -> std::result::Result<Expr, ParserError> {
    Parser::new(&PostgreSqlDialect {}).try_with_sql(text)?.parse_expr()
}

/// The names of the columns in an expression, without what qualifies them.
pub fn columns_of(expression: &Expr) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let _ = ast::visit_expressions(expression, |part| {
        match part {
            Expr::Identifier(name) => drop(names.insert(folded(name))),
            Expr::CompoundIdentifier(parts) => names.extend(parts.last().map(folded)),
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    names
}

/// The parts of a table's name in a query: schema, if given, and name, folded to lower case unless quoted.
pub fn parts_of(name: &ast::ObjectName) -> Option<(Option<String>, String)> {
    let parts: Option<Vec<String>> = name.0.iter().map(|part| part.as_ident().map(folded)).collect();
    match parts?.as_slice() {
        [name] => Some((None, name.clone())),
        [schema, name] | [_, schema, name] => Some((Some(schema.clone()), name.clone())),
        _ => None,
    }
}

/// What FROM names, in its order; what stands in parentheses is one.
pub fn relations(from: &[TableWithJoins]) -> impl Iterator<Item = &TableFactor> {
    from.iter().flat_map(|table| std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)))
}

/// A type as a tree names it, whatever its name is in the search path.
pub fn data_type_of(ty: ColumnType) -> DataType {
    DataType::Custom(ObjectName::from(vec![Ident::with_quote('"', ty.code())]), Vec::new())
}

/// `expr::type`.
pub fn cast_to(expr: Expr, ty: ColumnType) -> Expr {
    Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(expr),
        data_type: data_type_of(ty),
        array: false,
        format: None,
    }
}

/// A call by name.
pub fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    let list = FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    Expr::Function(ast::Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Whether a SELECT has a GROUP BY.
pub fn has_groups(select: &ast::Select) -> bool {
    !matches!(&select.group_by, ast::GroupByExpr::Expressions(groups, _) if groups.is_empty())
}

/// Whether an expression has a query within it.
pub fn has_subquery(expr: &Expr) -> bool {
    struct Finder;
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    expr.visit(&mut Finder).is_break()
}

/// Whether an operator compares by order or equality.
pub fn is_comparison(op: &ast::BinaryOperator) -> bool {
    use ast::BinaryOperator as B;
    matches!(op, B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq)
}

/// The parts of a row value, `(a, b)` or `ROW(a, b)`.
pub fn row_of(expr: &Expr) -> Option<Vec<&Expr>> {
    match expr {
        Expr::Tuple(parts) => Some(parts.iter().collect()),
        Expr::Nested(inner) => row_of(inner),
        Expr::Function(ast::Function { name, args: FunctionArguments::List(list), over: None, .. }) => {
            let [name] = name.0.as_slice() else { return None };
            if !name.as_ident()?.value.eq_ignore_ascii_case("row") {
                return None;
            }
            let part = |arg| match arg {
                &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref part)) => Some(part),
                _ => None,
            };
            list.args.iter().map(part).collect()
        }
        _ => None,
    }
}
