//! A store for this crate's tests: rows in a sorted list, honest about spans, order and limit.
//!
//! It delivers small batches, and rows of a scan without order backwards, so that nothing can lean on luck.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering as Atomic;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use futures::{StreamExt, TryStreamExt};
use keyspan_model::{
    Catalog, ColumnDef, ColumnId, ColumnRange, ColumnRole, ColumnType, Encoding, Error, ErrorKind, KeyColumn,
    KeyEncoder, Order, RelationDef, RelationId, Result, Retention, Scan, ScanColumn, TableDef, TextType, Value,
    WriteBatch, array_of, value_at,
};
use keyspan_seam::{
    Accepted, BatchStream, Changes, Conditions, Known, ScanCounters, ScanForm, ScanPlan, ScanStatistics, Snapshot,
    Split,
};

use crate::{ExplainOptions, QueryContext, QueryEngine, QueryOptions, QuerySession, SessionInfo};

const BATCH: usize = 7;

/// Tables and their rows.
#[derive(Debug, Default)]
pub struct Rows {
    pub catalog: Arc<Catalog>,
    /// Rows in key order: key columns, then value columns, as in the relation.
    pub relations: BTreeMap<RelationId, (RelationDef, Vec<Vec<Value>>)>,
    /// Rows that statistics claim, in place of the truth: to see plans of large tables. Of less than [`FEW`] a scan is not
    /// divided, as in the store.
    pub claimed: Option<u64>,
    /// What the store does not do: it says so, and leaves it to whoever asks.
    pub refuses: Accepted,
}

const FEW: u64 = 65_536;

/// A column for [`Rows::create`]: name, type, and `p` (partition), `a`/`d` (clustering, ascending or descending) or `-`.
pub type Column = (&'static str, ColumnType, char);

impl Rows {
    /// Adds a table with rows, given in the columns' order.
    pub fn create(&mut self, name: &str, columns: &[Column], rows: Vec<Vec<Value>>) -> Arc<TableDef> {
        let mut catalog =
            if self.catalog.keyspaces.is_empty() { Catalog::initial() } else { Catalog::clone(&self.catalog) };
        let column = |(name, ty, role): &Column, id: ColumnId| ColumnDef {
            id,
            name: (*name).into(),
            ty: *ty,
            role: match role {
                'p' | 'r' => ColumnRole::Partition,
                'a' => ColumnRole::Clustering { descending: false },
                'd' => ColumnRole::Clustering { descending: true },
                _ => ColumnRole::Regular,
            },
            not_null: false,
            default: None,
            max_length: None,
            text_type: TextType::Text,
            hidden: *role == 'r',
            counter: false,
            identity: None,
        };
        let columns = columns.iter().map(|each| column(each, catalog.new_column_id())).collect();
        let table = Arc::new(TableDef {
            id: catalog.new_table_id(),
            keyspace: "public".into(),
            name: name.into(),
            version: 1,
            columns,
            rows: catalog.new_relation_id(),
            statics: None,
            families: Vec::new(),
            window: None,
            default_ttl: 0,
            retention: Retention::default(),
            encoding: Encoding::default(),
            gc_grace: 0,
            checks: Vec::new(),
            options: BTreeMap::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
        });
        catalog.tables.insert(table.id, table.clone());
        catalog.version += 1;
        self.catalog = Arc::new(catalog);
        let relation = table.rows_relation();
        let encoder = KeyEncoder::new(&relation.key);
        let mut rows = rows;
        rows.sort_by_key(|row| encoder.encode(&row[..relation.key.len()]).expect("a key"));
        self.relations.insert(table.rows, (relation, rows));
        table
    }

    fn matching(&self, scan: &Scan) -> Result<Vec<&Vec<Value>>> {
        let (relation, rows) = &self.relations[&scan.relation];
        let encoder = KeyEncoder::new(&relation.key);
        let spans = scan.spans.iter().map(|span| encoder.span_bytes(span)).collect::<Result<Vec<_>>>()?;
        let mut found: Vec<&Vec<Value>> = Vec::new();
        for row in rows {
            let key = encoder.encode(&row[..relation.key.len()])?;
            let inside =
                |(from, to): &(Vec<u8>, Option<Vec<u8>>)| key >= *from && to.as_ref().is_none_or(|to| key < *to);
            let in_ranges = || scan.ranges.iter().all(|range| in_key_range(&relation.key, row, range));
            if (self.refuses.spans || spans.iter().any(inside)) && (self.refuses.ranges || in_ranges()) {
                found.push(row);
            }
        }
        if scan.order != Order::Forward {
            found.reverse();
        }
        if let Some((columns, most)) = scan.per_prefix.filter(|_| !self.refuses.per_prefix) {
            let mut taken: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
            let prefix = KeyEncoder::new(&relation.key[..columns]);
            found.retain(|row| {
                let taken = taken.entry(prefix.encode(&row[..columns]).expect("a prefix")).or_default();
                *taken += 1;
                *taken <= most
            });
        }
        if self.refuses.order {
            // By a number that has nothing to do with the key: a batch has rows of everywhere, in no order.
            let mut shuffled: Vec<_> = found.into_iter().enumerate().collect();
            shuffled.sort_by_key(|(index, _)| index * 7919 % 1009);
            found = shuffled.into_iter().map(|(_, row)| row).collect();
        }
        Ok(found)
    }

    fn column(&self, relation: RelationId, column: ScanColumn) -> Result<(usize, ColumnType, String)> {
        let (relation, _) = &self.relations[&relation];
        let key = relation.key.iter().map(|column| (column.id, column.ty, &column.name));
        let values = relation.values.iter().map(|column| (column.id, column.ty, &column.name));
        let (id, ty) = match column {
            ScanColumn::Column(id) => (id, None),
            ScanColumn::WriteTime(id) => (id, Some(ColumnType::BigInt)),
            ScanColumn::Ttl(id) => (id, Some(ColumnType::Int)),
            ScanColumn::ExpiresAt(id) => (id, Some(ColumnType::Timestamp)),
        };
        let found = key.chain(values).enumerate().find(|(_, (each, _, _))| *each == id);
        let (place, (_, own, name)) = found.ok_or_else(|| Error::internal("no such column"))?;
        Ok((place, ty.unwrap_or(own), name.clone()))
    }
}

/// Whether a row lies in a range, if it is of a key column.
fn in_key_range(key: &[KeyColumn], row: &[Value], range: &ColumnRange) -> bool {
    let column = key.iter().zip(row).find(|(column, _)| column.id == range.column);
    column.is_none_or(|(column, value)| range.contains(column.ty, value))
}

#[async_trait]
impl Snapshot for Rows {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    fn seq(&self) -> u64 {
        1
    }

    fn now(&self) -> i64 {
        0
    }

    fn accept(&self, _: &Scan) -> Accepted {
        let Accepted { spans, ranges, order, limit, per_prefix } = self.refuses;
        Accepted { spans: !spans, ranges: !ranges, order: !order, limit: !limit, per_prefix: !per_prefix }
    }

    async fn plan(&self, scan: &Scan, want: usize) -> Result<ScanPlan> {
        let rows = self.matching(scan)?.len();
        let want = if self.claimed.is_some_and(|claimed| claimed < FEW) { 1 } else { want };
        let share = rows.div_ceil(want.max(1)).max(1);
        let splits = (0..rows).step_by(share).map(|from| {
            let to = (from + share).min(rows);
            Split { payload: format!("{from} {to}").into(), rows: (to - from) as u64 }
        });
        let known = match self.claimed {
            Some(claimed) => Known::Estimate(claimed),
            // More rows than there are in the spans.
            None if self.refuses.spans || !scan.ranges.is_empty() => Known::Estimate(rows as u64),
            None => Known::Exact(rows as u64),
        };
        let ranges = vec![Known::Unknown; scan.columns.len()];
        Ok(ScanPlan {
            splits: splits.collect(),
            form: if rows == 0 { ScanForm::Empty } else { ScanForm::Concatenate },
            memory_runs: 1,
            segments: 0,
            pruned: Vec::new(),
            statistics: ScanStatistics { rows: known, bytes: Known::Unknown, ranges },
            found: None,
        })
    }

    fn scan(&self, scan: &Scan, split: &Split, _: Conditions, counters: Arc<ScanCounters>) -> Result<BatchStream> {
        let text = String::from_utf8_lossy(&split.payload).into_owned();
        let bounds: Vec<usize> = text.split(' ').map(|part| part.parse().expect("our own")).collect();
        let matching = self.matching(scan)?;
        let mut rows = &matching[bounds[0]..bounds[1]];
        if let Some(limit) = scan.limit.filter(|_| !self.refuses.limit) {
            rows = &rows[..limit.min(rows.len())];
        }
        let schema = self.schema(scan.relation, &scan.columns)?;
        let mut batches = Vec::new();
        for chunk in rows.chunks(BATCH) {
            let mut arrays = Vec::new();
            for column in &scan.columns {
                let (place, ty, _) = self.column(scan.relation, *column)?;
                let values: Vec<Value> = chunk
                    .iter()
                    .map(|row| match column {
                        ScanColumn::Column(_) => row[place].clone(),
                        ScanColumn::WriteTime(_) => Value::BigInt(1_000),
                        ScanColumn::Ttl(_) | ScanColumn::ExpiresAt(_) => Value::Null,
                    })
                    .collect();
                arrays.push(array_of(ty, &values)?);
            }
            counters.rows.fetch_add(chunk.len() as u64, Atomic::Relaxed);
            let options = RecordBatchOptions::new().with_row_count(Some(chunk.len()));
            batches.push(Ok(RecordBatch::try_new_with_options(schema.clone(), arrays, &options)?));
        }
        Ok(futures::stream::iter(batches).boxed())
    }

    async fn get(&self, _: RelationId, _: &[Vec<Value>], _: &[ScanColumn]) -> Result<RecordBatch> {
        Err(Error::not_supported("get"))
    }

    async fn stamps_ahead(&self, _: RelationId, keys: &[Vec<Value>]) -> Result<Vec<Option<i64>>> {
        Ok(vec![None; keys.len()])
    }

    fn changed(&self, _: RelationId, _: ColumnId, _: u64) -> Result<Changes> {
        Ok(Changes::Anywhere)
    }

    fn with_writes(&self, _: &WriteBatch) -> Result<Arc<dyn Snapshot>> {
        Err(Error::not_supported("with_writes"))
    }

    fn with_catalog(&self, _: Arc<Catalog>) -> Result<Arc<dyn Snapshot>> {
        Err(Error::not_supported("with_catalog"))
    }

    fn lasting(&self) -> Result<Arc<dyn Snapshot>> {
        Err(Error::not_supported("lasting"))
    }

    fn relation_bytes(&self, _: RelationId) -> Known<u64> {
        Known::Unknown
    }

    fn schema(&self, relation: RelationId, columns: &[ScanColumn]) -> Result<SchemaRef> {
        let key_len = self.relations[&relation].0.key.len();
        let fields = columns.iter().map(|column| {
            let (place, ty, name) = self.column(relation, *column)?;
            Ok(ty.field(&name, place >= key_len))
        });
        Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<Field>>>()?)))
    }
}

/// A session over some rows.
pub struct Bench {
    pub session: QuerySession,
    pub context: QueryContext,
}

/// Parses one query, as views' texts are parsed here.
pub fn parse(sql: &str) -> Result<Box<ast::Query>> {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql);
    let mut statements = parsed.map_err(|error| Error::new(ErrorKind::Syntax, error.to_string()))?;
    match statements.pop() {
        Some(ast::Statement::Query(query)) => Ok(query),
        _ => Err(Error::new(ErrorKind::Syntax, "not a query")),
    }
}

/// Parses one expression.
pub fn expression(sql: &str) -> ast::Expr {
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).expect("tokens");
    parser.parse_expr().expect("an expression")
}

impl Bench {
    pub fn new(rows: Rows) -> Bench {
        let options = QueryOptions { threads: 2, parser: Some(parse), ..QueryOptions::default() };
        let rows = Arc::new(rows);
        let context = QueryContext {
            newest: None,
            given: Vec::new(),
            unjudged_columns: 0,
            snapshot: rows,
            search_path: vec!["public".into()],
            time_zone: "UTC".into(),
            now: 1_700_000_000_000_000,
            statement_time: 1_700_000_000_000_000,
            parameter_types: Vec::new(),
            info: Arc::new(SessionInfo::default()),
        };
        Bench { session: QueryEngine::new(options).expect("an engine").session(), context }
    }

    /// Column labels, and the rows as texts.
    pub async fn query(&self, sql: &str) -> Result<(Vec<String>, Vec<Vec<String>>)> {
        self.query_with(sql, &[]).await
    }

    pub async fn query_with(&self, sql: &str, parameters: &[Value]) -> Result<(Vec<String>, Vec<Vec<String>>)> {
        let planned = self.session.plan(&*parse(sql)?, &self.context).await?;
        let stream = self.session.execute(&planned, parameters, &self.context).await?;
        let batches: Vec<RecordBatch> = stream.try_collect().await?;
        let labels = planned.schema.fields().iter().map(|field| field.name().clone()).collect();
        let mut rows = Vec::new();
        for batch in &batches {
            for row in 0..batch.num_rows() {
                let texts = batch.columns().iter().zip(planned.schema.fields()).map(|(array, field)| {
                    let ty = ColumnType::of_field(field).expect("a type");
                    let value = value_at(array.as_ref(), row, ty).expect("a value");
                    if value.is_null() { "∅".to_owned() } else { value.to_text(ty) }
                });
                rows.push(texts.collect());
            }
        }
        Ok((labels, rows))
    }

    /// Runs a query and counts its rows, whatever their types.
    pub async fn run(&self, sql: &str) -> Result<usize> {
        let planned = self.session.plan(&*parse(sql)?, &self.context).await?;
        let stream = self.session.execute(&planned, &[], &self.context).await?;
        let batches: Vec<RecordBatch> = stream.try_collect().await?;
        Ok(batches.iter().map(RecordBatch::num_rows).sum())
    }

    /// The lines of EXPLAIN.
    pub async fn explain(&self, sql: &str, analyze: bool) -> Result<String> {
        let planned = self.session.plan(&*parse(sql)?, &self.context).await?;
        let options = ExplainOptions { analyze, verbose: false };
        Ok(self.session.explain(&planned, &[], &self.context, options).await?.join("\n"))
    }
}
