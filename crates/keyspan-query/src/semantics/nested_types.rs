//! CQL's nested values in a tree: the types that casts name, and tuples that are values.
//!
//! A cast to a user type gets the type itself in place of its name, so that the planner needs no catalog:
//! `x::address` as `x::"{…}"`. `t = (1, 'x')` compares a tuple, `(a, b) = (1, 'x')` two columns; the first becomes
//! `t = cql_tuple(1, 'x')`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{self, DataType, Expr, VisitMut, VisitorMut};
use keyspan_model::{Catalog, ColumnType, Error, ErrorKind, Nested, Result, TypeName};

use crate::functions::nested;
use crate::syntax::{call, data_type_of, is_comparison, parts_of};
use crate::types::is_nested_literal;

/// What the names of user types stand for.
pub struct TypeNames<'a> {
    /// The user types.
    pub catalog: &'a Catalog,
    /// Where a name without a keyspace is looked for.
    pub search_path: &'a [String],
}

impl TypeNames<'_> {
    /// Changes the casts and tuples of a query or an expression.
    ///
    /// # Errors
    /// 42704 for a name inside of a type that means nothing.
    pub fn resolve(&self, tree: &mut impl VisitMut) -> Result<()> {
        match tree.visit(&mut Resolver(self)) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn find(&self, name: &TypeName) -> Result<ColumnType> {
        let found = match &name.keyspace {
            Some(keyspace) => self.catalog.user_type(keyspace, &name.name),
            None => self.search_path.iter().find_map(|keyspace| self.catalog.user_type(keyspace, &name.name)),
        };
        match found {
            Some(found) => Ok(ColumnType::nested(Nested::User((**found).clone()))),
            None => Err(self.catalog.undefined_type(name)),
        }
    }

    /// The nested type that a cast names, if it does.
    fn named(&self, data_type: &DataType) -> Result<Option<ColumnType>> {
        let DataType::Custom(name, arguments) = data_type else { return Ok(None) };
        let Some((keyspace, own)) = parts_of(name).filter(|_| arguments.is_empty()) else { return Ok(None) };
        if own == "variant" && keyspace.is_none() {
            return Ok(Some(ColumnType::variant()));
        }
        if own.starts_with('{') {
            let read = ColumnType::parse_code(&own);
            return read.map(|ty| ty.resolved(&|name| self.find(name))).transpose();
        }
        match ColumnType::parse(&own, &[]) {
            Err(error) if error.kind == ErrorKind::UndefinedObject => {
                Ok(self.find(&TypeName { keyspace, name: own }).ok())
            }
            _ => Ok(None),
        }
    }
}

struct Resolver<'a>(&'a TypeNames<'a>);

impl VisitorMut for Resolver<'_> {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Cast { expr: value, data_type, .. } => {
                match self.0.named(data_type) {
                    Ok(Some(ty)) => *data_type = data_type_of(ty),
                    Ok(None) => {}
                    Err(error) => return ControlFlow::Break(error),
                }
                match value.as_mut() {
                    // Its text is that of a row.
                    Expr::Tuple(parts) if is_text(data_type) => **value = call("row", std::mem::take(parts)),
                    value => as_value(value),
                }
            }
            Expr::BinaryOp { left, op, right } if is_comparison(op) => {
                if matches!(**left, Expr::Tuple(_)) {
                    row_as_tuple(right);
                } else if matches!(**right, Expr::Tuple(_)) {
                    row_as_tuple(left);
                }
                match (&**left, &**right) {
                    (Expr::Tuple(_), Expr::Tuple(_) | Expr::Subquery(_)) | (Expr::Subquery(_), Expr::Tuple(_)) => {}
                    _ => [left, right].into_iter().for_each(|side| as_value(side)),
                }
            }
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => match (&**left, &**right) {
                (Expr::Tuple(_), Expr::Tuple(_)) => {}
                _ => [left, right].into_iter().for_each(|side| as_value(side)),
            },
            Expr::InList { expr: value, list, .. } if !matches!(&**value, Expr::Tuple(_)) => {
                list.iter_mut().for_each(as_value);
            }
            // The qualifier of several parts, or a map's key that nests: f[('NY', 10001)].
            Expr::CompoundFieldAccess { access_chain, .. } => {
                for access in access_chain {
                    if let ast::AccessExpr::Subscript(ast::Subscript::Index { index }) = access {
                        match index {
                            // f[('NY', 10001)..('NY', 10100)].
                            Expr::Function(call) if call.name.to_string() == nested::SLICE => {
                                if let ast::FunctionArguments::List(list) = &mut call.args {
                                    list.args.iter_mut().filter_map(argument).for_each(as_value);
                                }
                            }
                            index => as_value(index),
                        }
                    }
                }
            }
            Expr::Between { expr: value, low, high, .. } if !matches!(&**value, Expr::Tuple(_)) => {
                [low, high].into_iter().for_each(|bound| as_value(bound));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// `ROW(1, 2)` as `(1, 2)`.
fn row_as_tuple(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let ast::FunctionArguments::List(list) = &mut function.args else { return };
    if function.name.to_string().eq_ignore_ascii_case("row") {
        let parts: Vec<Expr> = list.args.iter_mut().filter_map(argument).map(|part| part.clone()).collect();
        *expr = Expr::Tuple(parts);
    }
}

fn is_text(data_type: &ast::DataType) -> bool {
    use ast::DataType as T;
    matches!(data_type, T::Text | T::Varchar(_) | T::CharacterVarying(_) | T::Char(_) | T::Character(_))
}

fn argument(arg: &mut ast::FunctionArg) -> Option<&mut Expr> {
    match arg {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(value)) => Some(value),
        _ => None,
    }
}

/// A tuple, or a list of parameters or of values that nest, as a value, which has the type that it is compared with; and
/// those in it. Other lists are arrays.
fn as_value(expr: &mut Expr) {
    let nests = |element: &Expr| match element {
        Expr::Tuple(_) => true,
        Expr::Value(value) => matches!(value.value, ast::Value::Placeholder(_)),
        Expr::Function(function) => is_nested_literal(&function.name.to_string()),
        _ => false,
    };
    let (name, values) = match expr {
        Expr::Tuple(values) => ("cql_tuple", std::mem::take(values)),
        Expr::Array(array) if !array.named && array.elem.iter().any(nests) => {
            ("cql_list", std::mem::take(&mut array.elem))
        }
        _ => return,
    };
    let mut values = values;
    values.iter_mut().for_each(as_value);
    *expr = call(name, values);
}
