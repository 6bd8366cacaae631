//! A column's DEFAULT as PostgreSQL shows it: `'x'::text`, `nextval('s'::regclass)`, `CURRENT_TIMESTAMP`. Tools that read
//! definitions (Rails, SQLAlchemy, Django) tell a literal from an expression by the cast behind it.

use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value};
use keyspan_model::ColumnDef;

use super::definition::{format_type, type_of_column, type_of_name};
use crate::syntax::parsed_expression;

/// Functions that are called without parentheses, which PostgreSQL writes in capitals.
const KEYWORDS: &[&str] = &[
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "session_user",
    "user",
];

/// The DEFAULT of a column; none if it has none, or one that says NULL, or if an identity's sequence makes its values.
pub fn default_text(column: &ColumnDef) -> Option<String> {
    let source = column.default.as_ref().filter(|_| column.identity.is_none())?;
    let Ok(expression) = parsed_expression(source) else { return Some(source.clone()) };
    match &expression {
        Expr::Value(value) if value.value == Value::Null => None,
        expression => Some(shown(expression, column).unwrap_or_else(|| source.clone())),
    }
}

/// The forms that are not shown as they were written.
fn shown(expression: &Expr, column: &ColumnDef) -> Option<String> {
    let literal = |expression: &Expr| match expression {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(format!("'{}'", text.replace('\'', "''"))),
            _ => None,
        },
        _ => None,
    };
    let of_type = |oid: i64| match oid {
        // As a type of literals it has no length, which `character` would have.
        1042 => "bpchar".to_owned(),
        oid => format_type(oid, -1),
    };
    match expression {
        Expr::Value(value) => match &value.value {
            Value::Boolean(value) => Some(value.to_string()),
            _ => Some(format!("{}::{}", literal(expression)?, of_type(type_of_column(column).0))),
        },
        Expr::Cast { expr, data_type, .. } => {
            let ty = type_of_name(&data_type.to_string())?;
            Some(format!("{}::{}", literal(expr)?, of_type(ty.oid)))
        }
        Expr::TypedString(typed) => {
            let ty = type_of_name(&typed.data_type.to_string())?;
            Some(format!("'{}'::{}", typed.value.to_string().trim_matches('\''), of_type(ty.oid)))
        }
        Expr::Identifier(name) => keyword(&name.value),
        Expr::Function(function) => {
            let name = function.name.to_string().to_lowercase();
            match &function.args {
                FunctionArguments::None => keyword(&name),
                FunctionArguments::List(list) if name == "nextval" => match list.args.as_slice() {
                    [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] => {
                        Some(format!("nextval({}::regclass)", literal(argument)?))
                    }
                    _ => None,
                },
                _ => None,
            }
        }
        _ => None,
    }
}

fn keyword(name: &str) -> Option<String> {
    KEYWORDS.iter().find(|keyword| keyword.eq_ignore_ascii_case(name)).map(|keyword| keyword.to_uppercase())
}
