//! Families beside the columns of the rows that a statement reads in order to write: `SET f['q'] = f['q'] + 1`,
//! `IF f['q'] = …`, `SET l[0] = …`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, MapArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{concat, concat_batches, take, take_record_batch};
use arrow::datatypes::{Schema, SchemaRef};
use keyspan_cql::ast;
use keyspan_model::array::value_at;
use keyspan_model::{ColumnRole, Error, FamilyDef, Result, Span, Unchanged, Value};
use keyspan_query::{FamilyRead, family_field};
use keyspan_seam::Snapshot;

use super::FamilyCells;
use crate::context::{ClientContext, ROWS_LOCKED_MAX};
use crate::expression::Evaluator;
use crate::locks::RowName;
use crate::names::{columns_of, fold_case};
use crate::row::TableHandle;

/// The families that a statement reads.
#[derive(Clone, Debug)]
pub(crate) struct FamilyInput {
    reads: Vec<FamilyRead>,
    /// The table's columns, then these families.
    schema: SchemaRef,
    /// The static columns, if the statement reads some.
    statics: Option<Arc<TableHandle>>,
}

/// Rows with the families that a statement reads.
#[derive(Clone, Debug)]
pub(crate) struct FamilyRows {
    /// The rows, in [`FamilyInput::schema`].
    pub(crate) input: RecordBatch,
    /// Of each family its maps, by its name.
    maps: Vec<(String, MapArray)>,
}

impl FamilyInput {
    /// Those that the expressions name, and `whole` ones.
    pub(crate) fn new(
        context: &ClientContext,
        handle: &TableHandle,
        expressions: &[&ast::Expr],
        whole: &[&FamilyDef],
        parameters: &[Value],
    ) -> FamilyInput {
        let mut reads = Vec::new();
        for family in &handle.table.families {
            let whole = whole.iter().any(|each| each.name == family.name);
            let only = match asked(context, family, expressions, parameters) {
                Some(Asked::Only(only)) if !whole => Some(only),
                Some(_) => None,
                None if whole => None,
                None => continue,
            };
            reads.push(FamilyRead { only, ..whole_read(handle, family) });
        }
        let is_static =
            |name: &String| handle.table.column(name).is_some_and(|column| column.role == ColumnRole::Static);
        let reads_statics = || expressions.iter().any(|expression| columns_of(expression).iter().any(is_static));
        FamilyInput::of(handle, reads, handle.statics.clone().filter(|_| reads_statics()))
    }

    /// The table's columns, then all its families: what expressions may read.
    pub(crate) fn readable(handle: &TableHandle) -> SchemaRef {
        if handle.table.families.is_empty() {
            return handle.schema.clone();
        }
        let families = handle.table.families.iter().map(|family| Arc::new(family_field(family, None)));
        Arc::new(Schema::new(handle.schema.fields().iter().cloned().chain(families).collect::<Vec<_>>()))
    }

    /// The maps, sets and lists of the table, as a whole.
    pub(crate) fn collections(handle: &TableHandle) -> FamilyInput {
        let whole = handle.table.families.iter().filter(|family| family.kind.is_collection());
        FamilyInput::of(handle, whole.map(|family| whole_read(handle, family)).collect(), None)
    }

    fn of(handle: &TableHandle, reads: Vec<FamilyRead>, statics: Option<Arc<TableHandle>>) -> FamilyInput {
        let fields = handle.schema.fields().iter().cloned();
        let families = reads.iter().map(|read| Arc::new(family_field(&read.family, None)));
        let schema = match reads.is_empty() {
            true => handle.schema.clone(),
            false => Arc::new(Schema::new(fields.chain(families).collect::<Vec<_>>())),
        };
        FamilyInput { reads, schema, statics }
    }

    /// None.
    pub(crate) fn none(handle: &TableHandle) -> FamilyInput {
        FamilyInput { reads: Vec::new(), schema: handle.schema.clone(), statics: None }
    }

    /// Whether it has no families.
    pub(crate) fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// The table's columns, then the families.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows, which have all columns of the table, with their families.
    pub(crate) async fn read(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        handle: &TableHandle,
        rows: RecordBatch,
    ) -> Result<FamilyRows> {
        let key = &rows.columns()[..handle.key_len()];
        let mut maps = Vec::with_capacity(self.reads.len());
        for read in &self.reads {
            maps.push((read.family.name.clone(), read.maps(snapshot, key, rows.num_rows()).await?));
        }
        self.rows(rows, maps)
    }

    /// Rows that have no cells.
    pub(crate) fn without_cells(&self, rows: RecordBatch) -> Result<FamilyRows> {
        let map = |read: &FamilyRead| (read.family.name.clone(), read.no_cells(rows.num_rows()));
        let maps = self.reads.iter().map(map).collect();
        self.rows(rows, maps)
    }

    fn rows(&self, rows: RecordBatch, maps: Vec<(String, MapArray)>) -> Result<FamilyRows> {
        if self.reads.is_empty() {
            return Ok(FamilyRows { input: rows, maps });
        }
        let shown = self.reads.iter().zip(&maps).map(|(read, (_, map))| read.shown(map.clone()));
        let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
        columns.extend(shown.collect::<Result<Vec<_>>>()?);
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(FamilyRows { input: RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?, maps })
    }

    /// What must not have been written since, so that what was read of these rows is still true.
    pub(crate) fn unchanged(&self, keys: &[Vec<Value>], seq: u64) -> Vec<Unchanged> {
        let spans = match keys.len() <= ROWS_LOCKED_MAX {
            true => keys.iter().map(|key| Span::prefix(key.clone())).collect(),
            false => vec![Span::all()],
        };
        let of = |read: &FamilyRead| {
            let relation = read.relation.id;
            spans.iter().map(|span| Unchanged { relation, span: span.clone(), seq }).collect::<Vec<_>>()
        };
        self.reads.iter().flat_map(of).collect()
    }

    /// As [`FamilyInput::unchanged`], of the static values of these rows' partitions.
    pub(crate) fn unchanged_statics(&self, keys: &[Vec<Value>], seq: u64) -> Vec<Unchanged> {
        let Some(statics) = &self.statics else { return Vec::new() };
        if keys.len() > ROWS_LOCKED_MAX {
            return vec![Unchanged { relation: statics.relation.id, span: Span::all(), seq }];
        }
        keys.iter().map(|key| statics.unchanged(&statics.partition(key), seq)).collect()
    }

    /// The names among locks of the partitions of these rows, if the statement reads their static values.
    pub(crate) fn names_of_statics(&self, keys: &[Vec<Value>]) -> Result<Vec<RowName>> {
        let Some(statics) = &self.statics else { return Ok(Vec::new()) };
        let names = keys.iter().map(|key| statics.name(&statics.partition(key))).collect::<Result<BTreeSet<_>>>()?;
        Ok(names.into_iter().collect())
    }
}

fn whole_read(handle: &TableHandle, family: &FamilyDef) -> FamilyRead {
    let relation = Arc::new(handle.table.family_relation(family));
    FamilyRead { family: family.clone(), relation, only: None, history: None }
}

/// The families that rows to insert have, in the order of [`FamilyInput::readable`].
pub(crate) fn proposed(handle: &TableHandle, cells: &[&FamilyCells]) -> Result<Vec<ArrayRef>> {
    let array = |family: &FamilyDef| {
        let read = whole_read(handle, family);
        let of_row = |cells: &&FamilyCells| cells.of(family).map(|(key, value)| (key.clone(), value.clone())).collect();
        read.shown(read.of_values(cells.iter().map(of_row).collect())?)
    };
    handle.table.families.iter().map(array).collect()
}

impl FamilyRows {
    /// The values of a column or family of this name, if it is there.
    pub(crate) fn shown(&self, name: &str) -> Option<&ArrayRef> {
        self.input.column_by_name(name)
    }

    /// These rows, then others that the same families were read for.
    pub(crate) fn and(&self, other: &FamilyRows) -> Result<FamilyRows> {
        let both = |((name, own), (_, others)): (&(String, MapArray), &(String, MapArray))| {
            Ok((name.clone(), concat(&[own, others])?.as_map().clone()))
        };
        let maps = self.maps.iter().zip(&other.maps).map(both).collect::<Result<_>>()?;
        Ok(FamilyRows { input: concat_batches(&self.input.schema(), [&self.input, &other.input])?, maps })
    }

    /// Some of the rows, beside other columns.
    pub(crate) fn beside(&self, rows: &[usize], other: &RecordBatch) -> Result<FamilyRows> {
        let rows: UInt64Array = rows.iter().map(|row| *row as u64).collect();
        let taken = take_record_batch(&self.input, &rows)?;
        let schema = (taken.schema(), other.schema());
        let fields = schema.0.fields().iter().chain(schema.1.fields()).cloned().collect::<Vec<_>>();
        let arrays = taken.columns().iter().chain(other.columns()).cloned().collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let input = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?;
        let taken = |(name, map): &(String, MapArray)| Ok((name.clone(), take(map, &rows, None)?.as_map().clone()));
        Ok(FamilyRows { input, maps: self.maps.iter().map(taken).collect::<Result<_>>()? })
    }

    /// Qualifiers and values of the cells that a row has in a family, in their order.
    pub(super) fn cells(&self, family: &FamilyDef, row: usize) -> Result<Vec<(Value, Value)>> {
        let Some((_, map)) = self.maps.iter().find(|(name, _)| *name == family.name) else {
            return Err(Error::internal("a family that was not read"));
        };
        let offsets = map.value_offsets();
        let value = |array: &ArrayRef, at: i32, ty| value_at(array, at as usize, ty);
        (offsets[row]..offsets[row + 1])
            .map(|at| {
                let key = value(map.keys(), at, family.qualifier_type())?;
                Ok((key, value(map.values(), at, family.value.ty)?))
            })
            .collect()
    }
}

/// What expressions ask for of a family; `None` where they do not name it.
enum Asked {
    All,
    /// The cells of these qualifiers.
    Only(Vec<Value>),
}

fn asked(
    context: &ClientContext,
    family: &FamilyDef,
    expressions: &[&ast::Expr],
    parameters: &[Value],
) -> Option<Asked> {
    let is_family = |expression: &ast::Expr| match expression {
        ast::Expr::Identifier(name) => fold_case(name) == family.name,
        ast::Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|name| fold_case(name) == family.name),
        _ => false,
    };
    let evaluator = Evaluator::new(context);
    let (mut mentions, mut only) = (0, Vec::new());
    for expression in expressions {
        let _ = ast::visit_expressions(*expression, |part: &ast::Expr| {
            mentions += usize::from(is_family(part));
            if let ast::Expr::CompoundFieldAccess { root, access_chain } = part
                && let [ast::AccessExpr::Subscript(ast::Subscript::Index { index })] = access_chain.as_slice()
                && is_family(root)
                && let Some(Ok(qualifier)) = evaluator.simple(index, family.qualifier_type(), parameters)
            {
                only.push(qualifier);
            }
            ControlFlow::<()>::Continue(())
        });
    }
    let named_only = mentions == only.len() && family.array_type().is_none();
    only.retain(|qualifier| !qualifier.is_null());
    (mentions > 0).then_some(if named_only { Asked::Only(only) } else { Asked::All })
}
