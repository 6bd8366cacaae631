//! The point path: a SELECT that gives the whole key and asks for plain columns, or cells of families by their
//! qualifiers, goes straight to the store; so does one that gives several keys and asks for plain columns.

use std::sync::Arc;

use arrow::array::{ArrayRef, MapArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use futures::StreamExt;
use keyspan_cql::{ast, cql_tails};
use keyspan_model::array::{array_of, coerce};
use keyspan_model::{
    ColumnId, ColumnRole, ColumnType, FamilyDef, Member, Principal, Result, Right, ScanColumn, TableDef, Value,
};
use keyspan_query::{FamilyRead, KeyMatch, KeyPart, KeyRanges, Origin, Zone, compares_alike, key_of, no_constants};
use keyspan_seam::{BatchStream, Snapshot};

use crate::context::ClientContext;
use crate::database::count;
use crate::expression::Evaluator;
use crate::names::{self, TableOrView};
use crate::names::{fold_case, object_name};
use crate::outcome::{Outcome, Rows, Tag};
use crate::parameter::as_parameter;
use crate::row::TableHandle;

/// Keys of a statement that are read at a time.
const KEYS_AT_ONCE: usize = 64;
/// How many such reads there are side by side, since disks are waited for.
const SIDE_BY_SIDE: usize = 4;

/// A SELECT by whole keys.
#[derive(Clone, Debug)]
pub(crate) struct PointSelect {
    handle: TableHandle,
    keys: Keys,
    outputs: Vec<PointOutput>,
    pub(crate) schema: SchemaRef,
    /// FOR UPDATE was said.
    locks: bool,
}

#[derive(Clone, Debug)]
enum Keys {
    One(Vec<KeyPart>),
    Several(KeyRanges),
}

#[derive(Clone, Debug)]
enum PointOutput {
    /// The column at this place.
    Column(usize),
    /// The cell of the family at this place.
    Cell(usize, KeyPart),
    /// The family at this place.
    Family(usize),
    /// All key parts as one text.
    RowKey,
}

/// Recognizes a SELECT by whole keys of one table with nothing but plain columns.
pub(crate) fn recognize(
    context: &mut ClientContext,
    query: &ast::Query,
    types: &[Option<ColumnType>],
) -> Option<PointSelect> {
    let select = plain_select(query).filter(|_| !cql_tails(query).json)?;
    if query.locks.iter().any(|lock| lock.nonblock.is_some() || lock.of.is_some()) {
        return None;
    }
    let [from] = select.from.as_slice() else { return None };
    let ast::TableFactor::Table { name, alias: None, args: None, with_hints, version: None, partitions, .. } =
        &from.relation
    else {
        return None;
    };
    if !from.joins.is_empty() || !with_hints.is_empty() || !partitions.is_empty() {
        return None;
    }
    let name = object_name(name)?;
    if name.keyspace.as_deref().is_some_and(|keyspace| names::SYSTEM.contains(&keyspace)) {
        return None;
    }
    let named = names::find(&context.catalog(), &context.settings.search_path(), &name)?;
    let TableOrView::Table(table) = named else { return None };
    let time_zone = context.settings.time_zone();
    let keys = match key_of(select.selection.as_ref()?, &table, time_zone, types, &mut no_constants) {
        KeyMatch::WholeKey(key) => Keys::One(key),
        KeyMatch::WholeKeys(keys) => Keys::Several(keys),
        _ => return None,
    };
    let handle = context.handle(table);
    let (outputs, labels) = outputs(context, &handle, &select.projection, types)?;
    let of_rows = |output: &PointOutput| match output {
        PointOutput::Column(place) => handle.table.columns[*place].role != ColumnRole::Static,
        PointOutput::Cell(..) | PointOutput::Family(_) | PointOutput::RowKey => false,
    };
    if matches!(keys, Keys::Several(_)) && !(query.locks.is_empty() && outputs.iter().all(of_rows)) {
        return None;
    }
    let fields = outputs.iter().zip(&labels).map(|(output, label)| match output {
        PointOutput::Column(place) => {
            let column = &handle.table.columns[*place];
            let field = column.ty.field(label, !column.is_key());
            match Origin::of(&handle.table, column.id) {
                Some(origin) => origin.add_to(field),
                None => field,
            }
        }
        PointOutput::Cell(place, _) => handle.table.families[*place].value.ty.field(label, true),
        PointOutput::Family(place) => handle.table.families[*place].whole_type().field(label, true),
        PointOutput::RowKey => ColumnType::Text.field(label, false),
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Some(PointSelect { handle, keys, outputs, schema, locks: !query.locks.is_empty() })
}

/// The query's only SELECT, if nothing stands around it.
fn plain_select(query: &ast::Query) -> Option<&ast::Select> {
    let tails = cql_tails(query);
    let bare = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.for_clause.is_none()
        && query.format_clause.is_none()
        && query.pipe_operators.is_empty()
        && tails.per_partition_limit.is_none();
    let ast::SetExpr::Select(select) = &*query.body else { return None };
    let grouped = match &select.group_by {
        ast::GroupByExpr::Expressions(expressions, modifiers) => !expressions.is_empty() || !modifiers.is_empty(),
        ast::GroupByExpr::All(_) => true,
    };
    let plain = select.distinct.is_none()
        && select.top.is_none()
        && select.into.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.prewhere.is_none()
        && select.lateral_views.is_empty()
        && select.named_window.is_empty()
        && select.cluster_by.is_empty()
        && select.sort_by.is_empty()
        && select.distribute_by.is_empty()
        && !grouped;
    (bare && plain).then_some(select)
}

fn outputs(
    context: &ClientContext,
    handle: &TableHandle,
    projection: &[ast::SelectItem],
    types: &[Option<ColumnType>],
) -> Option<(Vec<PointOutput>, Vec<String>)> {
    let (mut outputs, mut labels) = (Vec::new(), Vec::new());
    for item in projection {
        let (expression, label) = match item {
            ast::SelectItem::Wildcard(options) if *options == ast::WildcardAdditionalOptions::default() => {
                for member in handle.table.members() {
                    if let Some(output) = whole(handle, member) {
                        outputs.push(output);
                        labels.push(member.name().to_owned());
                    }
                }
                continue;
            }
            ast::SelectItem::UnnamedExpr(expression) => (expression, None),
            ast::SelectItem::ExprWithAlias { expr, alias } => (expr, Some(fold_case(alias))),
            _ => return None,
        };
        if let Some((name, cell)) = cell(context, &handle.table, expression, types) {
            outputs.push(cell);
            labels.push(label.unwrap_or(name));
            continue;
        }
        let name = column_name(&handle.table, expression)?;
        let place = handle.table.columns.iter().position(|column| column.name == name);
        let family = handle.table.families.iter().position(|family| family.name == name);
        outputs.push(match (place, family) {
            (Some(place), _) => PointOutput::Column(place),
            (None, Some(family)) => PointOutput::Family(family),
            (None, None) if name == "row_key" => PointOutput::RowKey,
            (None, None) => return None,
        });
        labels.push(label.unwrap_or(name));
    }
    Some((outputs, labels))
}

/// A column or family that `*` stands for, if it shows it.
fn whole(handle: &TableHandle, member: Member<'_>) -> Option<PointOutput> {
    match member {
        Member::Column(column) if column.hidden => None,
        Member::Column(column) => {
            handle.table.columns.iter().position(|each| each.id == column.id).map(PointOutput::Column)
        }
        Member::Family(place, _) => Some(PointOutput::Family(place)),
    }
}

/// `family[qualifier]`, where the qualifier is a literal or a parameter, and the family's name.
fn cell(
    context: &ClientContext,
    table: &TableDef,
    expression: &ast::Expr,
    types: &[Option<ColumnType>],
) -> Option<(String, PointOutput)> {
    let ast::Expr::CompoundFieldAccess { root, access_chain } = expression else { return None };
    let [ast::AccessExpr::Subscript(ast::Subscript::Index { index })] = access_chain.as_slice() else { return None };
    let name = column_name(table, root)?;
    // Of a list a subscript counts elements.
    let is_map = |family: &FamilyDef| family.array_type().is_none();
    let place = table.families.iter().position(|family| family.name == name && is_map(family))?;
    let ty = table.families[place].qualifier_type();
    let qualifier = match as_parameter(index) {
        Some(parameter) => {
            let given = types.get(parameter).copied().flatten();
            compares_alike(given, ty).then_some(KeyPart::Parameter(parameter, ty))?
        }
        None => {
            let qualifier = Evaluator::new(context).simple(index, ty, &[])?.ok()?;
            // One of a type of its own is cast to it.
            table.families[place].known_type(&qualifier).is_none().then_some(KeyPart::Value(qualifier))?
        }
    };
    Some((name, PointOutput::Cell(place, qualifier)))
}

fn column_name(table: &TableDef, expression: &ast::Expr) -> Option<String> {
    match expression {
        ast::Expr::Identifier(identifier) => Some(fold_case(identifier)),
        ast::Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [qualifier, column] if fold_case(qualifier) == table.name => Some(fold_case(column)),
            _ => None,
        },
        _ => None,
    }
}

impl PointSelect {
    /// Types of `$1`, `$2`, … as far as they are key parts or qualifiers.
    pub(crate) fn parameter_types(&self) -> Vec<(usize, ColumnType)> {
        let qualifiers = self.outputs.iter().filter_map(|output| match output {
            PointOutput::Cell(_, qualifier) => Some(qualifier.clone()),
            PointOutput::Column(_) | PointOutput::Family(_) | PointOutput::RowKey => None,
        });
        match &self.keys {
            Keys::One(key) => key_parameters(&key.iter().cloned().chain(qualifiers).collect::<Vec<_>>()),
            Keys::Several(keys) => keys.parameters(),
        }
    }

    /// The cells of a family in the row with this key: all, or those of some qualifiers.
    async fn maps(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        place: usize,
        only: Option<Vec<Value>>,
        key: &[Value],
    ) -> Result<(FamilyRead, MapArray)> {
        let table = &self.handle.table;
        let family = &table.families[place];
        let columns = table.key().zip(key).map(|(column, value)| array_of(column.ty, std::slice::from_ref(value)));
        let relation = Arc::new(table.family_relation(family));
        let read = FamilyRead { family: family.clone(), relation, only, history: None };
        let maps = read.maps(snapshot, &columns.collect::<Result<Vec<_>>>()?, 1).await?;
        Ok((read, maps))
    }

    /// The values of a cell in these rows, which are the row with this key or none.
    async fn cells(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        (place, qualifier): (usize, Value),
        key: &[Value],
        rows: usize,
    ) -> Result<ArrayRef> {
        let ty = self.handle.table.families[place].value.ty;
        if rows == 0 || qualifier.is_null() {
            return array_of(ty, &vec![Value::Null; rows]);
        }
        let (_, maps) = self.maps(snapshot, place, Some(vec![qualifier]), key).await?;
        let values = maps.values();
        if values.is_empty() { array_of(ty, &[Value::Null]) } else { coerce(&values.slice(0, 1), ty) }
    }

    /// A family of these rows, which are the row with this key or none.
    async fn family(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        place: usize,
        key: &[Value],
        rows: usize,
        zone: Zone,
    ) -> Result<ArrayRef> {
        if rows == 0 {
            return array_of(self.handle.table.families[place].whole_type(), &[]);
        }
        let (read, maps) = self.maps(snapshot, place, None, key).await?;
        read.answer(maps, zone)
    }

    fn is_static(&self, place: usize) -> bool {
        self.handle.table.columns[place].role == ColumnRole::Static
    }

    /// A static column of these rows, which are the row with this key or none.
    async fn static_column(
        &self,
        snapshot: &Arc<dyn Snapshot>,
        place: usize,
        key: &[Value],
        rows: usize,
    ) -> Result<ArrayRef> {
        let column = &self.handle.table.columns[place];
        let Some(statics) = &self.handle.statics else { return array_of(column.ty, &vec![Value::Null; rows]) };
        let partition = [self.handle.partition(key)];
        let found = snapshot.get(statics.relation.id, &partition, &[ScanColumn::Column(column.id)]).await?;
        match found.num_rows().min(rows) {
            0 => array_of(column.ty, &vec![Value::Null; rows]),
            _ => coerce(found.column(0), column.ty),
        }
    }

    fn row_keys(&self, rows: &RecordBatch, key: &[Value]) -> Result<ArrayRef> {
        let parts = self.handle.table.key().zip(key).map(|(column, value)| value.to_text(column.ty));
        let text = Value::Text(parts.collect::<Vec<_>>().join("#"));
        array_of(ColumnType::Text, &vec![text; rows.num_rows()])
    }
}

/// The parameters among key parts, with their types.
pub(crate) fn key_parameters(parts: &[KeyPart]) -> Vec<(usize, ColumnType)> {
    let parameter = |part: &KeyPart| match part {
        KeyPart::Parameter(index, ty) => Some((*index, *ty)),
        KeyPart::Value(_) => None,
    };
    parts.iter().filter_map(parameter).collect()
}

impl PointSelect {
    /// The columns that it reads, the key among them.
    fn columns(&self) -> Vec<ColumnId> {
        let table = &self.handle.table;
        let read = self.outputs.iter().filter_map(|output| match output {
            PointOutput::Column(place) => Some(table.columns[*place].id),
            PointOutput::Cell(place, _) | PointOutput::Family(place) => Some(table.families[*place].value.id),
            PointOutput::RowKey => None,
        });
        read.chain(table.key().map(|column| column.id)).collect()
    }

    /// Those of them that are of the rows themselves, in the order of the outputs.
    fn columns_of_rows(&self) -> Vec<ScanColumn> {
        let column = |output: &PointOutput| match output {
            PointOutput::Column(place) if !self.is_static(*place) => {
                Some(ScanColumn::Column(self.handle.table.columns[*place].id))
            }
            PointOutput::Column(_) | PointOutput::Cell(..) | PointOutput::Family(_) | PointOutput::RowKey => None,
        };
        self.outputs.iter().filter_map(column).collect()
    }

    /// What EXPLAIN says of its keys.
    pub(crate) fn keys_text(&self, parameters: &[Value]) -> Result<String> {
        Ok(match &self.keys {
            Keys::One(_) => "Key: whole key".into(),
            Keys::Several(keys) => format!("Keys: {}", keys.keys_to_find(&self.handle.table, parameters)?.len()),
        })
    }

    /// Fails with 42501 where the session may not read these columns, or lock rows of the table.
    pub(crate) fn check_rights(&self, context: &ClientContext) -> Result<()> {
        if context.principal() == Principal::Owner {
            return Ok(());
        }
        if self.locks {
            context.require_lock(&self.handle.table)?;
        }
        context.require(&self.handle.table, Right::Select, &self.columns())
    }
}

/// Runs it.
pub(crate) async fn run(context: &mut ClientContext, select: &PointSelect, parameters: &[Value]) -> Result<Outcome> {
    select.check_rights(context)?;
    count(&context.database.counts().point_reads);
    let tag = Tag::streamed("SELECT");
    let key = match &select.keys {
        Keys::One(key) => key.iter().map(|part| part.find(parameters)).collect::<Result<Vec<_>>>()?,
        Keys::Several(keys) => {
            let rows = rows_of(context, select, keys.keys_to_find(&select.handle.table, parameters)?)?;
            return Ok(Outcome::with_rows(tag, Rows::new(select.schema.clone(), rows)));
        }
    };
    if key.iter().any(Value::is_null) {
        return Ok(Outcome::with_rows(tag, Rows::ready(select.schema.clone(), Vec::new())));
    }
    let snapshot = match select.locks {
        false => context.snapshot()?,
        true => {
            let locks = context.lock(vec![select.handle.name(&key)?]).await?;
            context.check_locked(&select.handle, std::slice::from_ref(&key))?;
            // Outside a transaction the lock would end with the statement.
            if let Some(transaction) = &mut context.transaction {
                transaction.keep(locks);
            }
            context.newest()?
        }
    };
    let snapshot = context.watched(snapshot);
    let columns = select.columns_of_rows();
    let rows = snapshot.get(select.handle.relation.id, std::slice::from_ref(&key), &columns).await?;
    let mut read = rows.columns().iter();
    let mut arrays = Vec::with_capacity(select.outputs.len());
    for output in &select.outputs {
        arrays.push(match output {
            PointOutput::RowKey => select.row_keys(&rows, &key)?,
            PointOutput::Cell(place, qualifier) => {
                let cell = (*place, qualifier.bind(parameters)?);
                select.cells(&snapshot, cell, &key, rows.num_rows()).await?
            }
            PointOutput::Family(place) => {
                select.family(&snapshot, *place, &key, rows.num_rows(), context.zone()).await?
            }
            PointOutput::Column(place) if select.is_static(*place) => {
                select.static_column(&snapshot, *place, &key, rows.num_rows()).await?
            }
            PointOutput::Column(place) => match read.next() {
                Some(array) => coerce(array, select.handle.table.columns[*place].ty)?,
                None => return Err(keyspan_model::Error::internal("the store left out a column")),
            },
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let batch = RecordBatch::try_new_with_options(select.schema.clone(), arrays, &options)?;
    Ok(Outcome::with_rows(tag, Rows::ready(select.schema.clone(), vec![batch])))
}

/// The rows with these keys, read some keys at a time while they are taken.
fn rows_of(context: &mut ClientContext, select: &PointSelect, keys: Vec<Vec<Value>>) -> Result<BatchStream> {
    let snapshot = context.snapshot()?;
    let (snapshot, relation, columns) =
        (context.watched(snapshot), select.handle.relation.id, select.columns_of_rows());
    let schema = select.schema.clone();
    let parts: Vec<Vec<Vec<Value>>> = keys.chunks(KEYS_AT_ONCE).map(<[_]>::to_vec).collect();
    let read = move |keys: Vec<Vec<Value>>| {
        let (snapshot, columns, schema) = (snapshot.clone(), columns.clone(), schema.clone());
        async move {
            tokio::task::yield_now().await;
            let rows = snapshot.get(relation, &keys, &columns).await?;
            let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
            Ok(RecordBatch::try_new_with_options(schema, rows.columns().to_vec(), &options)?)
        }
    };
    let rows = futures::stream::iter(parts).map(read).buffered(SIDE_BY_SIDE);
    Ok(context.running.guard_stream(Box::pin(rows)))
}
