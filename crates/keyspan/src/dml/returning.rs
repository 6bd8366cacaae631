//! RETURNING: expressions over the rows as they are after the statement (before it, for DELETE).

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use keyspan_cql::ast;
use keyspan_model::array::coerce;
use keyspan_model::{ColumnType, Error, Result, TableDef, Value};
use keyspan_query::CompiledExprs;
use keyspan_query::semantics::label;
use keyspan_seam::Snapshot;

use super::family::FamilyInput;
use crate::context::ClientContext;
use crate::expression::compile_typed;
use crate::intake;
use crate::names::fold_case;
use crate::outcome::Rows;
use crate::row::TableHandle;

/// A RETURNING list ready to be evaluated.
#[derive(Clone, Debug)]
pub(crate) struct Returning {
    compiled: CompiledExprs,
    schema: SchemaRef,
    /// The families that the list names.
    families: FamilyInput,
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
                    for name in intake::shown(&handle.table) {
                        expressions.push(ast::Expr::Identifier(ast::Ident::with_quote('"', &name)));
                        labels.push(name);
                    }
                }
                _ => return Err(Error::not_supported("this form of RETURNING is not supported")),
            }
        }
        let qualifier = alias.unwrap_or(&handle.table.name);
        for expression in &mut expressions {
            if is_map(&handle.table, expression) {
                *expression = keyspan_cql::parse_expression(&format!("to_jsonb({expression})"))?;
            }
        }
        let references: Vec<&ast::Expr> = expressions.iter().collect();
        let families = FamilyInput::new(context, handle, &references, &[], &[]);
        let compiled = compile_typed(context, &references, &[(qualifier, families.schema().clone())], types)?;
        let fields = labels.iter().zip(compiled.types()).map(|(label, ty)| ty.field(label, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Returning { compiled, schema, families })
    }

    /// The columns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Types of the parameters it uses.
    pub(crate) fn parameters(&self) -> &[ColumnType] {
        self.compiled.parameters()
    }

    /// Whether the list names families.
    pub(crate) fn reads_families(&self) -> bool {
        !self.families.is_empty()
    }

    /// The list's values for each row of a batch of all columns, with their families as they are in `state`.
    pub(crate) async fn rows(
        &self,
        state: Option<&Arc<dyn Snapshot>>,
        handle: &TableHandle,
        batch: RecordBatch,
        parameters: &[Value],
    ) -> Result<Rows> {
        let batch = match state.filter(|_| self.reads_families()) {
            Some(state) => self.families.read(state, handle, batch).await?.input,
            None => batch,
        };
        let arrays = self.compiled.evaluate(&batch, parameters)?;
        let typed = arrays.iter().zip(self.compiled.types());
        let arrays = typed.map(|(array, ty)| coerce(array, *ty)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?;
        Ok(Rows::ready(self.schema.clone(), vec![batch]))
    }
}

/// Whether an expression is a family or map alone, which clients get as `jsonb`.
fn is_map(table: &TableDef, expression: &ast::Expr) -> bool {
    let name = match expression {
        ast::Expr::Identifier(name) => name,
        ast::Expr::CompoundIdentifier(parts) => match parts.last() {
            Some(name) => name,
            None => return false,
        },
        _ => return false,
    };
    table.family(&fold_case(name)).is_some_and(|family| family.array_type().is_none())
}
