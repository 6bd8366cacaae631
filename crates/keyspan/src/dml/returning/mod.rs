//! RETURNING: expressions over the rows as they are after the statement (before it, for DELETE).
//!
//! ```text
//! UPDATE t SET … FROM s … RETURNING t.a + s.b
//! s.b ─▶ computed by the query that finds the rows ([`FromColumns`])      t.a + "\u{1}from0" ─▶ compiled
//! ```
//!
//! A list with subqueries is a query over the rows that the statement returns ([`with_subqueries`]).

mod from;
mod subqueries;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::datatypes::{Schema, SchemaRef};
use keyspan_cql::ast;
use keyspan_model::array::coerce;
use keyspan_model::{ColumnType, Error, ErrorKind, Result, TableDef, Value};
use keyspan_query::CompiledExprs;
use keyspan_query::semantics::label;
use keyspan_seam::Snapshot;

use super::family::FamilyInput;
use super::target::Computed;
use crate::context::ClientContext;
use crate::expression::compile_typed;
use crate::names::fold_case;
use crate::outcome::Rows;
use crate::row::TableHandle;

pub(crate) use from::FromColumns;
pub(crate) use subqueries::with_subqueries;

/// A RETURNING list ready to be evaluated.
#[derive(Clone, Debug)]
pub(crate) struct Returning {
    compiled: CompiledExprs,
    schema: SchemaRef,
    /// The families that the list names.
    families: FamilyInput,
    /// What it takes from the tables in FROM.
    from: SchemaRef,
}

impl Returning {
    /// Compiles the list over the columns of the table and those of FROM; no list gives none.
    pub(crate) fn new(
        context: &mut ClientContext,
        handle: &TableHandle,
        alias: Option<&str>,
        from: &FromColumns,
        types: &[Option<ColumnType>],
    ) -> Result<Option<Returning>> {
        let Some(list) = from.list() else { return Ok(None) };
        let from = from.schema().clone();
        let qualifier = alias.unwrap_or(&handle.table.name);
        let mut expressions = Vec::new();
        let mut labels = Vec::new();
        for item in list {
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
                    if let Some(other) = wildcard_of(item).filter(|name| name != qualifier) {
                        let message = format!("missing FROM-clause entry for table \"{other}\"");
                        return Err(Error::new(ErrorKind::UndefinedTable, message));
                    }
                    for name in handle.table.shown_names() {
                        expressions.push(ast::Expr::Identifier(ast::Ident::with_quote('"', &name)));
                        labels.push(name);
                    }
                }
                _ => return Err(Error::not_supported("this form of RETURNING is not supported")),
            }
        }
        for expression in &mut expressions {
            if is_map(&handle.table, expression) {
                *expression = keyspan_cql::parse_expression(&format!("to_jsonb({expression})"))?;
            }
        }
        let references: Vec<&ast::Expr> = expressions.iter().collect();
        let families = FamilyInput::new(context, handle, &references, &[], &[]);
        let input = [(qualifier, families.schema().clone()), ("\u{1}from", from.clone())];
        let compiled = compile_typed(context, &references, &input, types)?;
        let fields = labels.iter().zip(compiled.types()).map(|(label, ty)| ty.field(label, true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Some(Returning { compiled, schema, families, from }))
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

    /// The list's values for each row of a batch of all columns, with their families as they are in `state`, and what
    /// [`Returning::of_from`] has picked.
    pub(crate) async fn rows(
        &self,
        state: Option<&Arc<dyn Snapshot>>,
        handle: &TableHandle,
        batch: RecordBatch,
        from: Vec<ArrayRef>,
        parameters: &[Value],
    ) -> Result<Rows> {
        let batch = match state.filter(|_| self.reads_families()) {
            Some(state) => self.families.read(state, handle, batch).await?.input,
            None => batch,
        };
        let batch = self.with_from(batch, from)?;
        let arrays = self.compiled.evaluate(&batch, parameters)?;
        let typed = arrays.iter().zip(self.compiled.types());
        let arrays = typed.map(|(array, ty)| coerce(array, *ty)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?;
        Ok(Rows::ready(self.schema.clone(), vec![batch]))
    }

    /// What the list takes from the tables in FROM, of all that a query has computed for each row.
    pub(crate) fn of_from(&self, computed: &[Computed]) -> Result<Vec<ArrayRef>> {
        let taken = computed.iter().skip(computed.len().saturating_sub(self.from.fields().len()));
        taken.map(|each| coerce(&each.array, each.ty)).collect()
    }

    /// `xmax` of so many rows that an INSERT returns, where the list names it: 1 for those that it has updated, 0 for
    /// those that it has inserted. `updated` is empty where it has updated none.
    pub(crate) fn xmax(&self, rows: usize, updated: &[bool]) -> Vec<ArrayRef> {
        let xmax = |row: usize| i64::from(updated.get(row) == Some(&true));
        let xmax = || Arc::new(Int64Array::from_iter_values((0..rows).map(xmax))) as ArrayRef;
        self.from.fields().iter().map(|_| xmax()).collect()
    }

    fn with_from(&self, batch: RecordBatch, from: Vec<ArrayRef>) -> Result<RecordBatch> {
        if self.from.fields().is_empty() {
            return Ok(batch);
        }
        // Where no row was found, nothing was computed.
        let from = match from.is_empty() {
            true => self.from.fields().iter().map(|field| new_empty_array(field.data_type())).collect(),
            false => from,
        };
        let (schema, mut columns, rows) = batch.into_parts();
        let fields = schema.fields().iter().chain(self.from.fields()).cloned();
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        columns.extend(from);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }
}

/// The table whose columns `table.*` stands for.
fn wildcard_of(item: &ast::SelectItem) -> Option<String> {
    let ast::SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) = item else {
        return None;
    };
    name.0.last().and_then(|part| part.as_ident()).map(fold_case)
}

fn ident(name: &str) -> ast::Ident {
    ast::Ident::with_quote('"', name)
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
