//! Refreshing rollups: of their stale buckets the rows that changed are written, together with the seq up to
//! which the view is right, in one batch.
//!
//! One background task refreshes all rollups of a database: each [`PAUSE`] after the last time, or later, so that it
//! takes at most [`SHARE`] of one core's time. Readers do not depend on it: they compute what is stale
//! ([`keyspan_query::rollup`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::row::{RowConverter, SortField};
use futures::StreamExt;
use keyspan_model::array::value_at;
use keyspan_model::{
    CellWrite, ColumnDef, Error, ErrorKind, Mutation, Result, RollupDef, RowDelete, RowWrite, Stamp, TableDef, TableId,
    Value, WriteBatch,
};
use keyspan_query::rollup::{Progress, progress};
use keyspan_query::session::Refresh;
use keyspan_query::{QueryContext, Zone};
use keyspan_seam::{ReadAt, Store};

use crate::cancel::CancelHandle;
use crate::context::ClientContext;
use crate::database::Database;
use crate::intake::Intake;
use crate::intake::gather::Gather;
use crate::row::TableHandle;

/// Time between two refreshes of a view, at least.
const PAUSE: Duration = Duration::from_secs(5);
/// Refreshing a view takes at most one part in so many of the time.
const SHARE: u32 = 10;
/// How often the task looks whether a refresh is due.
const TICK: Duration = Duration::from_secs(1);

/// Begins to refresh the database's views in the background, unless that goes on already.
pub(crate) fn begin(database: &Database) -> Result<()> {
    if !database.begin_refreshing() {
        return Ok(());
    }
    let weak = database.downgrade();
    database.threads().spawn(async move {
        let mut due = BTreeMap::new();
        loop {
            tokio::time::sleep(TICK).await;
            let Some(database) = weak.upgrade() else { return };
            if let Err(error) = refresh_due(&database, &mut due).await {
                tracing::debug!(%error, "materialized views are refreshed no longer");
                return;
            }
        }
    })
}

/// Refreshes the views whose time has come. Fails when the database closes; other errors wait for the next time.
async fn refresh_due(database: &Database, due: &mut BTreeMap<TableId, Instant>) -> Result<()> {
    let catalog = database.catalog();
    due.retain(|id, _| catalog.views.contains_key(id));
    for view in catalog.views.values().filter(|view| view.rollup().is_some()) {
        if due.get(&view.id).is_some_and(|due| Instant::now() < *due) {
            continue;
        }
        let begun = Instant::now();
        match refresh(database, view.id).await {
            Err(error) if error.kind == ErrorKind::Shutdown => return Err(error),
            Err(error) => tracing::warn!(%error, view = view.name, "a materialized view could not be refreshed"),
            Ok(()) => {}
        }
        due.insert(view.id, Instant::now() + PAUSE.max(begun.elapsed() * (SHARE - 1)));
    }
    Ok(())
}

/// Brings the rows of a view up to date. Nothing to do where it was dropped meanwhile.
///
/// # Errors
/// Those of its query, and of writing.
pub(crate) async fn refresh(database: &Database, view: TableId) -> Result<()> {
    let _lock = database.lock_refresh(view).await;
    let snapshot = database.store().snapshot(ReadAt::Acknowledged)?;
    let Some(view) = snapshot.catalog().views.get(&view).cloned() else { return Ok(()) };
    let Some(rollup) = view.rollup() else { return Ok(()) };
    let mut context = ClientContext::new(database.clone(), &CancelHandle::default());
    let query_context: QueryContext = context.query_context(snapshot, &[]);
    let queries = context.queries.clone();
    let (store, of) = (database.store().clone(), view.clone());
    let work = async move {
        match (keyspan_query::session::refresh(&queries, &of, &query_context).await?, of.rollup()) {
            (Some(read), Some(rollup)) => write(&store, rollup, read).await.map(Some),
            _ => Ok(None),
        }
    };
    if let Some(batch) = database.threads().run(work).await? {
        match database.store().apply(batch).await {
            Err(error) if matches!(error.kind, ErrorKind::UndefinedTable | ErrorKind::Redefined) => return Ok(()),
            applied => drop(applied?),
        }
    }
    report_progress(database, rollup).await
}

/// Tells the store up to which seq all views of the source have read it.
async fn report_progress(database: &Database, rollup: &RollupDef) -> Result<()> {
    let snapshot = database.store().snapshot(ReadAt::Acknowledged)?;
    let catalog = snapshot.catalog();
    let Some(source) = catalog.tables.get(&rollup.source) else { return Ok(()) };
    let mut seen: Option<u64> = None;
    for (_, rollup) in catalog.rollups_of(source.id) {
        let progress = progress(snapshot.as_ref(), rollup).await?.filter(|progress| progress.relation == source.rows);
        let seq = progress.map_or(0, |progress| progress.seq);
        seen = Some(seen.map_or(seq, |least| least.min(seq)));
    }
    database.store().followed(source.rows, seen.unwrap_or(0));
    Ok(())
}

/// The batch that makes the stored rows those that were computed.
async fn write(store: &Arc<dyn Store>, rollup: &RollupDef, read: Refresh) -> Result<WriteBatch> {
    let Refresh { mut kept, mut computed, progress } = read;
    let rows = Arc::new(rollup.rows.clone());
    let mut stored: Option<StoredRows> = None;
    while let Some(batch) = kept.next().await {
        let batch = batch?;
        stored.get_or_insert(StoredRows::new(&rows, &batch)?).remember(&batch)?;
    }
    let stamp = Stamp::Server(0);
    let mut target: Option<(Intake, Gather)> = None;
    while let Some(batch) = computed.next().await {
        let batch = batch?;
        let changed = match &mut stored {
            Some(stored) => stored.take_changed(&batch)?,
            None => batch,
        };
        if changed.num_rows() == 0 {
            continue;
        }
        let (intake, gather) = match &mut target {
            Some(target) => target,
            None => {
                let names: Vec<String> = changed.schema().fields().iter().map(|field| field.name().clone()).collect();
                let intake = Intake::new(TableHandle::new(rows.clone()), &names, Arc::new(Zone::Fixed(0)))?;
                let gather = Gather::new(store, intake.target());
                target.insert((intake, gather))
            }
        };
        gather.push(intake.write(&changed, stamp)?).await?;
    }
    let mut mutations: Vec<Mutation> = match target {
        Some((_, gather)) => gather.finish().await?,
        None => Vec::new(),
    };
    if let Some(stored) = stored {
        let gone = stored.into_keys()?.into_iter();
        mutations.extend(gone.map(|key| Mutation::DeleteRow(RowDelete { relation: rows.rows, key, stamp })));
    }
    mutations.push(progress_row(&rollup.progress, progress, stamp)?);
    Ok(WriteBatch { mutations, ..WriteBatch::default() })
}

fn progress_row(table: &TableDef, progress: Progress, stamp: Stamp) -> Result<Mutation> {
    let seq = i64::try_from(progress.seq).map_err(|_| Error::internal("a commit order beyond bigint"))?;
    let numbers = [i64::from(progress.relation.0), seq];
    let columns = table.columns.iter().filter(|column| !column.is_key());
    let cells = columns.zip(numbers).map(|(column, number)| (column.id, CellWrite::Value(Value::BigInt(number))));
    let cells = cells.collect();
    Ok(Mutation::Row(RowWrite { relation: table.rows, key: vec![Value::Int(0)], marker: true, cells, stamp, ttl: 0 }))
}

/// The stored rows of a view's stale buckets, by key, until the same keys come among those computed.
struct StoredRows {
    /// The key's columns: types, and places in the batches.
    key: Vec<(ColumnDef, usize)>,
    values: Vec<usize>,
    keys_of: RowConverter,
    values_of: RowConverter,
    rows: HashMap<Box<[u8]>, Box<[u8]>>,
}

impl StoredRows {
    fn new(table: &TableDef, batch: &RecordBatch) -> Result<StoredRows> {
        let schema = batch.schema();
        let place = |column: &ColumnDef| Ok((column.clone(), schema.index_of(&column.name)?));
        let key: Vec<(ColumnDef, usize)> = table.key().map(place).collect::<Result<_>>()?;
        let values =
            (0..batch.num_columns()).filter(|at| !key.iter().any(|(_, place)| place == at)).collect::<Vec<_>>();
        let field = |at: usize| SortField::new(schema.field(at).data_type().clone());
        let keys_of = RowConverter::new(key.iter().map(|(_, at)| field(*at)).collect())?;
        let values_of = RowConverter::new(values.iter().map(|at| field(*at)).collect())?;
        Ok(StoredRows { key, values, keys_of, values_of, rows: HashMap::new() })
    }

    fn encoded(&self, batch: &RecordBatch) -> Result<(arrow::row::Rows, arrow::row::Rows)> {
        let keys: Vec<ArrayRef> = self.key.iter().map(|(_, at)| batch.column(*at).clone()).collect();
        let values: Vec<ArrayRef> = self.values.iter().map(|at| batch.column(*at).clone()).collect();
        let values_of = if values.is_empty() { None } else { Some(self.values_of.convert_columns(&values)?) };
        let empty = || self.values_of.empty_rows(0, 0);
        Ok((self.keys_of.convert_columns(&keys)?, values_of.unwrap_or_else(empty)))
    }

    fn remember(&mut self, batch: &RecordBatch) -> Result<()> {
        let (keys, values) = self.encoded(batch)?;
        for row in 0..batch.num_rows() {
            let value = if self.values.is_empty() { Box::default() } else { values.row(row).data().into() };
            self.rows.insert(keys.row(row).data().into(), value);
        }
        Ok(())
    }

    /// The computed rows that differ from what is stored. Their keys are stored rows no longer.
    fn take_changed(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let (keys, values) = self.encoded(batch)?;
        let mut changed = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let kept = self.rows.remove(keys.row(row).data());
            let same = kept.is_some_and(|kept| self.values.is_empty() || *kept == *values.row(row).data());
            changed.push(!same);
        }
        Ok(filter_record_batch(batch, &BooleanArray::from(changed))?)
    }

    /// The keys of the rows for which nothing was computed.
    fn into_keys(self) -> Result<Vec<Vec<Value>>> {
        let parser = self.keys_of.parser();
        let arrays = self.keys_of.convert_rows(self.rows.keys().map(|key| parser.parse(key)))?;
        let rows = arrays.first().map_or(0, |array| array.len());
        let value = |row: usize| {
            let values = arrays.iter().zip(&self.key).map(|(array, (column, _))| value_at(array, row, column.ty));
            values.collect::<Result<Vec<Value>>>()
        };
        (0..rows).map(value).collect()
    }
}
