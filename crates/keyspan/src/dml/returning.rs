//! RETURNING: expressions over the rows as they are after the statement (before it, for DELETE).

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use keyspan_cql::ast;
use keyspan_model::array::coerce;
use keyspan_model::{ColumnType, Error, Result, Value};
use keyspan_query::CompiledExprs;

use crate::context::ClientContext;
use crate::expression::compile_typed;
use crate::names::fold_case;
use crate::outcome::Rows;
use crate::row::TableHandle;

/// A RETURNING list ready to be evaluated.
#[derive(Clone, Debug)]
pub(crate) struct Returning {
    compiled: CompiledExprs,
    schema: SchemaRef,
}

impl Returning {
    /// Compiles the list over the table's columns.
    pub(crate) fn new(
        context: &mut ClientContext,
        handle: &TableHandle,
        alias: Option<&str>,
        items: &[ast::SelectItem],
        types: &[Option<ColumnType>],
    ) -> Result<Returning> {
        let mut expressions = Vec::new();
        let mut labels = Vec::new();
        for item in items {
            match item {
                ast::SelectItem::UnnamedExpr(expression) => {
                    labels.push(label(expression));
                    expressions.push(expression.clone());
                }
                ast::SelectItem::ExprWithAlias { expr, alias } => {
                    labels.push(fold_case(alias));
                    expressions.push(expr.clone());
                }
                ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..) => {
                    for (_, column) in handle.shown() {
                        labels.push(column.name.clone());
                        expressions.push(ast::Expr::Identifier(ast::Ident::with_quote('"', &column.name)));
                    }
                }
                _ => return Err(Error::not_supported("this form of RETURNING is not supported")),
            }
        }
        let qualifier = alias.unwrap_or(&handle.table.name);
        let references: Vec<&ast::Expr> = expressions.iter().collect();
        let compiled = compile_typed(context, &references, &[(qualifier, handle.schema.clone())], types)?;
        let fields = labels.iter().zip(compiled.types()).map(|(label, ty)| ty.field(label, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Returning { compiled, schema })
    }

    /// The columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Types of the parameters it uses.
    pub(crate) fn parameters(&self) -> &[ColumnType] {
        self.compiled.parameters()
    }

    /// The list's values for each row of a batch of all columns.
    pub(crate) fn rows(&self, batch: &RecordBatch, parameters: &[Value]) -> Result<Rows> {
        let arrays = self.compiled.evaluate(batch, parameters)?;
        let typed = arrays.iter().zip(self.compiled.types());
        let arrays = typed.map(|(array, ty)| coerce(array, *ty)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?;
        Ok(Rows::ready(self.schema.clone(), vec![batch]))
    }
}

/// The label PostgreSQL gives an expression without an alias.
pub(crate) fn label(expression: &ast::Expr) -> String {
    use ast::Expr;
    match expression {
        Expr::Identifier(identifier) => fold_case(identifier),
        Expr::CompoundIdentifier(parts) => parts.last().map_or_else(unknown, fold_case),
        Expr::Nested(inner) => label(inner),
        Expr::Cast { expr, data_type, .. } => match label(expr) {
            inner if inner == unknown() => type_label(data_type),
            inner => inner,
        },
        Expr::Function(function) => {
            let last = function.name.0.last().and_then(|part| part.as_ident());
            last.map_or_else(unknown, fold_case)
        }
        Expr::Case { else_result, .. } => match else_result.as_deref().map(label) {
            Some(inner) if inner != unknown() => inner,
            _ => "case".into(),
        },
        Expr::Exists { .. } => "exists".into(),
        _ => unknown(),
    }
}

fn unknown() -> String {
    "?column?".into()
}

fn type_label(data_type: &ast::DataType) -> String {
    let name = keyspan_cql::column_type(data_type).map(|ty| ty.name());
    match name.as_deref() {
        Ok("bigint") => "int8".into(),
        Ok("int") => "int4".into(),
        Ok("smallint") => "int2".into(),
        Ok("boolean") => "bool".into(),
        Ok("double") => "float8".into(),
        Ok("real") => "float4".into(),
        Ok("timestamp") => "timestamptz".into(),
        Ok(name) if name.starts_with("decimal") => "numeric".into(),
        Ok(name) => name.to_string(),
        Err(_) => unknown(),
    }
}
