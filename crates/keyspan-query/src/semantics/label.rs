//! The names Postgres gives to output columns: `avg`, `case`, `?column?`.

use datafusion::sql::sqlparser::ast::{DataType, Expr};

/// The label of an expression without an alias, as Postgres' `FigureColname` gives it.
pub fn label(expr: &Expr) -> String {
    name_of(expr).unwrap_or_else(|| "?column?".into())
}

fn name_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(folded(name)),
        Expr::CompoundIdentifier(names) => names.last().map(folded),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => name_of(inner),
        Expr::Function(function) => {
            let part = function.name.0.last().and_then(|part| part.as_ident());
            part.map(folded)
        }
        Expr::Cast { expr, data_type, .. } => name_of(expr).or_else(|| Some(type_label(data_type))),
        Expr::Case { else_result, .. } => {
            else_result.as_ref().and_then(|expr| name_of(expr)).or_else(|| Some("case".into()))
        }
        Expr::Exists { .. } => Some("exists".into()),
        Expr::Extract { .. } => Some("extract".into()),
        Expr::Substring { .. } => Some("substring".into()),
        Expr::Trim { .. } => Some("btrim".into()),
        Expr::Position { .. } => Some("position".into()),
        Expr::Overlay { .. } => Some("overlay".into()),
        Expr::Ceil { .. } => Some("ceil".into()),
        Expr::Floor { .. } => Some("floor".into()),
        Expr::Array(_) => Some("array".into()),
        Expr::TypedString(typed) => Some(type_label(&typed.data_type)),
        Expr::Interval(_) => Some("interval".into()),
        _ => None,
    }
}

fn type_label(data_type: &DataType) -> String {
    let name = data_type.to_string().to_lowercase();
    keyspan_model::ColumnType::parse(&name, &[]).map_or(name, keyspan_model::ColumnType::postgres_name)
}

fn folded(name: &datafusion::sql::sqlparser::ast::Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() }
}
