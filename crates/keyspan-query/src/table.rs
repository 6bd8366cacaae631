//! A table as DataFusion sees it: a schema, and scans of spans.
//!
//! The provider holds no snapshot: a plan may be cached, and each execution brings its own in the session's
//! [`StatementContext`](crate::context::StatementContext). Every filter that can be evaluated on one row is taken (`Exact`): what the spans do not answer, the
//! scan evaluates itself, after versions are merged.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Constraint, Constraints, DFSchema};
use datafusion::datasource::source_as_provider;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableScan, TableType};
use datafusion::physical_plan::ExecutionPlan;
use keyspan_model::{
    ColumnDef, ColumnId, ColumnRole, ColumnType, FamilyKind, Member, Order, RelationDef, Scan, ScanColumn, TableDef,
};
use keyspan_seam::Snapshot;

use crate::error::external;
use crate::family::{
    EXPIRES_AT, FamilyExec, FamilyOutput, FamilyRead, History, family_field, found, is_cells, is_found_mark, only_of,
};
use crate::scan::{KeyForm, ReadColumn, ReadPlan, SpanScanExec};
use crate::spans::{self, CTID, Pushed, ROW_KEY};
use crate::statics::{Rowless, RowlessColumn, RowlessExec, RowlessPartitions, StaticsRead, may_see_rowless};
use crate::types::value_of_literal;

/// Names that a statement mentions, for columns that exist only then.
#[derive(Clone, Debug, Default)]
pub struct Mentions {
    pub(crate) names: BTreeSet<String>,
    /// The greatest `$n`.
    pub parameters: usize,
    /// Names of the tables of which some SELECT makes more rows: `SELECT id, unnest(list) FROM t`.
    pub(crate) expanded: BTreeSet<String>,
    /// Columns from this number on do not exist: they are newer than the view that is read.
    pub(crate) columns_before: Option<ColumnId>,
}

impl Mentions {
    /// Whether the statement names such a column somewhere.
    pub fn names(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    fn knows(&self, column: ColumnId) -> bool {
        self.columns_before.is_none_or(|before| column < before)
    }
}

/// Only some rows of each prefix of the key are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrefixLimit {
    /// Key columns of the prefix.
    pub columns: usize,
    /// Rows of each prefix.
    pub rows: usize,
    /// From which end they are counted.
    pub order: Order,
}

/// A table of one catalog version.
#[derive(Clone, Debug)]
pub struct KeyspanTable {
    table: Arc<TableDef>,
    relation: Arc<RelationDef>,
    columns: Vec<ReadColumn>,
    schema: SchemaRef,
    constraints: Constraints,
    hidden: Vec<String>,
    limit: Option<PrefixLimit>,
    /// Which scan of its plan it is, where somebody counts them.
    number: usize,
    /// Other versions of its families than the newest.
    history: Option<Arc<History>>,
}

impl KeyspanTable {
    /// The table with its shown columns and those pseudo columns that the statement mentions.
    pub fn new(table: Arc<TableDef>, mentions: &Mentions) -> KeyspanTable {
        KeyspanTable::with_history(table, mentions, None)
    }

    /// The same, with other versions of its families.
    pub fn with_history(table: Arc<TableDef>, mentions: &Mentions, history: Option<History>) -> KeyspanTable {
        let definition = table.clone();
        KeyspanTable::with_members(table, &definition.members(), mentions, history)
    }

    /// The cells of a family. Their columns are shown as they are listed: they have the ids that they have in the table.
    pub fn of_cells(cells: TableDef, mentions: &Mentions) -> KeyspanTable {
        let cells = Arc::new(cells);
        let members: Vec<Member<'_>> = cells.columns.iter().map(Member::Column).collect();
        KeyspanTable::with_members(cells.clone(), &members, mentions, None)
    }

    fn with_members(
        table: Arc<TableDef>,
        members: &[Member<'_>],
        mentions: &Mentions,
        history: Option<History>,
    ) -> KeyspanTable {
        let relation = table.rows_relation();
        let (mut columns, mut fields, mut hidden) = (Vec::new(), Vec::new(), Vec::new());
        for member in members {
            match member {
                Member::Column(column) if column.hidden && !mentions.names(&column.name) => {}
                Member::Column(column) if !mentions.knows(column.id) => {}
                Member::Family(_, family) if !mentions.knows(family.value.id) => {}
                Member::Column(column) => {
                    columns.push(read_column(column, ScanColumn::Column(column.id)));
                    fields.push(column.ty.field(&column.name, is_nullable(&table, column)));
                    if column.hidden {
                        hidden.push(column.name.clone());
                    }
                }
                Member::Family(place, family) => {
                    columns.push(ReadColumn::Family(*place));
                    fields.push(family_field(family, history.as_ref()));
                }
            }
        }
        for (name, column, ty) in pseudo_columns(&table, mentions) {
            columns.push(column);
            fields.push(ty.field(&name, !matches!(column, ReadColumn::RowKey(_)) || table.statics.is_some()));
            hidden.push(name);
        }
        let key: Vec<usize> = table
            .key()
            .filter_map(|key| columns.iter().position(|c| *c == ReadColumn::Scan(ScanColumn::Column(key.id))))
            .collect();
        let whole = key.len() == table.key_len() && !key.is_empty();
        // DataFusion takes a key for one of the expanded rows, too, and GROUP BY a key for GROUP BY all columns.
        let unique = whole && !mentions.expanded.contains(&table.name);
        let constraints = if unique { vec![Constraint::PrimaryKey(key)] } else { Vec::new() };
        KeyspanTable {
            relation: Arc::new(relation),
            columns,
            schema: Arc::new(Schema::new(fields)),
            constraints: Constraints::new_unverified(constraints),
            hidden,
            limit: None,
            number: 0,
            history: history.map(Arc::new),
            table,
        }
    }

    /// The table of a scan, if it is one of ours.
    pub fn of_scan(scan: &TableScan) -> Option<KeyspanTable> {
        source_as_provider(&scan.source).ok()?.downcast_ref::<KeyspanTable>().cloned()
    }

    /// Whether scans of both read the same columns of the same rows.
    pub fn reads_as(&self, other: &KeyspanTable) -> bool {
        self.table == other.table
            && self.columns == other.columns
            && self.limit == other.limit
            && self.history == other.history
    }

    /// The table.
    pub fn definition(&self) -> &Arc<TableDef> {
        &self.table
    }

    /// The relation of its rows.
    pub fn relation(&self) -> &RelationDef {
        &self.relation
    }

    /// Whether only some rows of each prefix are read.
    pub fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    /// The same table, of which only some rows of each prefix are read.
    pub fn limited(&self, limit: PrefixLimit) -> KeyspanTable {
        KeyspanTable { limit: Some(limit), ..self.clone() }
    }

    /// Whether it shows other versions of its families than the newest.
    pub fn has_history(&self) -> bool {
        self.history.is_some()
    }

    /// The same table as this scan of its plan.
    pub fn numbered(&self, number: usize) -> KeyspanTable {
        KeyspanTable { number, ..self.clone() }
    }

    /// Columns that `*` leaves out.
    pub fn hidden(&self) -> &[String] {
        &self.hidden
    }

    /// Whether an expression reads a family or a static column.
    fn reads_beside(&self, expr: &Expr) -> bool {
        let is_beside = |name: &str| {
            let place = self.schema.index_of(name);
            place.is_ok_and(|place| matches!(self.columns[place], ReadColumn::Family(_) | ReadColumn::Static(_)))
        };
        let none = self.table.families.is_empty() && self.table.statics.is_none();
        !none && expr.column_refs().iter().any(|column| is_beside(&column.name))
    }
}

/// Where a column is read.
fn read_column(column: &ColumnDef, scan: ScanColumn) -> ReadColumn {
    if column.role == ColumnRole::Static { ReadColumn::Static(scan) } else { ReadColumn::Scan(scan) }
}

/// Whether a column may be null: with static columns all but the partition key are in a partition without rows. NOT NULL is
/// said of writes: a cell may expire, or be deleted by an older write that comes later, while its row lives on.
fn is_nullable(table: &TableDef, column: &ColumnDef) -> bool {
    let rowless = table.statics.is_some() && column.role != ColumnRole::Partition;
    rowless || !column.is_key()
}

/// `row_key`, `ctid`, `writetime(x)` and `ttl(x)`, and `expires_at` of a family's cells, as far as the statement mentions them and no
/// declared column has the name.
fn pseudo_columns(table: &TableDef, mentions: &Mentions) -> Vec<(String, ReadColumn, ColumnType)> {
    let mut found = Vec::new();
    for (name, form) in [(ROW_KEY, KeyForm::Text), (CTID, KeyForm::Bytes)] {
        if mentions.names(name) && table.column(name).is_none() {
            found.push((name.to_owned(), ReadColumn::RowKey(form), ColumnType::Text));
        }
    }
    for column in table.columns.iter().filter(|column| !column.is_key()) {
        let written = format!("writetime({})", column.name);
        if mentions.names(&written) {
            found.push((written, read_column(column, ScanColumn::WriteTime(column.id)), ColumnType::BigInt));
        }
        let expires = format!("ttl({})", column.name);
        if mentions.names(&expires) {
            found.push((expires, read_column(column, ScanColumn::Ttl(column.id)), ColumnType::Int));
        }
        if is_cells(table) && mentions.names(EXPIRES_AT) {
            let expires_at = read_column(column, ScanColumn::ExpiresAt(column.id));
            found.push((EXPIRES_AT.to_owned(), expires_at, ColumnType::Timestamp));
        }
    }
    found
}

/// Whether an expression can be evaluated on one row alone: it has no subquery, and no column of an enclosing query.
pub(crate) fn is_of_one_row(expr: &Expr) -> bool {
    let mut plain = true;
    let walked = expr.apply(|part| {
        let refused = matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        );
        plain &= !refused;
        Ok(if refused { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.is_ok() && plain
}

#[async_trait]
impl TableProvider for KeyspanTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let each = filters.iter().map(|filter| match is_of_one_row(filter) {
            // A further filter would drop rows that the limit has counted.
            true if self.limit.is_none() && !self.reads_beside(filter) => TableProviderFilterPushDown::Exact,
            _ => TableProviderFilterPushDown::Unsupported,
        });
        Ok(each.collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let statement = state
            .config()
            .get_extension::<crate::context::StatementContext>()
            .ok_or_else(|| DataFusionError::Internal("a scan was planned without a statement's snapshot".into()))?;
        let wanted: Vec<usize> = projection.cloned().unwrap_or_else(|| (0..self.columns.len()).collect());
        let (found_marks, filters): (Vec<&Expr>, Vec<&Expr>) = filters.iter().partition(|filter| is_found_mark(filter));
        let (marks, parts): (Vec<&Expr>, Vec<&Expr>) =
            filters.into_iter().partition(|filter| only_of(filter).is_some());
        let pushed = spans::push(&parts, &self.relation);
        let rowless = self.rowless(state, &statement.snapshot, &wanted, &parts).await?;
        let families = self.families(&wanted, &marks);
        let statics = self.statics(&wanted);
        let beside = !families.is_empty() || statics.is_some();
        let (output, scanned) = self.with_key(&wanted, beside, rowless.is_some());
        let mut scan = self.limited_scan(&pushed);
        let found = match self.limit.is_none() && !found_marks.is_empty() {
            true => {
                let ranges_of = |filters: &[&Expr], relation: &RelationDef| spans::push(filters, relation).ranges;
                found(&statement.snapshot, &self.table, &pushed.spans, &found_marks, &ranges_of)
                    .await
                    .map_err(external)?
            }
            false => None,
        };
        if let Some(found) = &found {
            scan.spans = found.spans.clone();
        }
        let residual = conjunction(pushed.residual(&parts, &statement.snapshot.accept(&scan)));
        let read = self.read_columns(&scanned, residual.as_ref())?;
        let read_schema = Arc::new(self.schema.project(&read)?);
        let filter = match &residual {
            Some(expr) => Some(physical(state, expr, &read_schema)?),
            None => None,
        };
        let place = |index: &usize| read.iter().position(|each| each == index).unwrap_or_default();
        if residual.is_some() && self.limit.is_some() {
            return Err(DataFusionError::Internal("a filter stands below a limit for each prefix".into()));
        }
        let plan = ReadPlan {
            table: self.table.clone(),
            relation: self.relation.clone(),
            snapshot: statement.snapshot.clone(),
            read: read.iter().map(|index| self.columns[*index]).collect(),
            read_schema,
            filters: parts.into_iter().cloned().collect(),
            filter,
            constant: pushed.constant,
            scan,
            partitions: state.config().target_partitions(),
            number: self.number,
        };
        let exec = SpanScanExec::try_new(plan, scanned.iter().map(place).collect(), limit).await?;
        let mut exec: Arc<dyn ExecutionPlan> = Arc::new(exec);
        let snapshot = statement.snapshot.clone();
        let with_partition = self.with_partition(&wanted);
        if beside {
            let key = self.key_places().into_iter().map(|key| scanned.iter().position(|each| *each == key));
            let key = key.collect::<Option<Vec<_>>>().unwrap_or_default();
            let wanted = if rowless.is_some() { &with_partition } else { &wanted };
            let schema = Arc::new(self.schema.project(wanted)?);
            let families = families.into();
            let node = FamilyExec::new(exec, snapshot.clone(), key, families, statics, output, schema);
            exec = Arc::new(node.found_by(found.map(|found| found.indexes.into_iter().collect())));
        }
        let Some((rowless, found)) = rowless else { return Ok(exec) };
        let key = self.key_places().into_iter().take(self.table.partition_len());
        let key = key.map(|key| with_partition.iter().position(|each| *each == key));
        let key = key.collect::<Option<Vec<_>>>().unwrap_or_default();
        let schema = Arc::new(self.schema.project(&wanted)?);
        Ok(Arc::new(RowlessExec::new(exec, snapshot, rowless, found, key, schema)))
    }
}

impl KeyspanTable {
    /// What is read of the families among the wanted columns, in their order; the marks name the qualifiers.
    fn families(&self, wanted: &[usize], marks: &[&Expr]) -> Vec<FamilyRead> {
        let places = wanted.iter().filter_map(|index| match self.columns[*index] {
            ReadColumn::Family(place) => Some(place),
            _ => None,
        });
        let read = |place: usize| {
            let family = &self.table.families[place];
            let ty = family.qualifier_type();
            let named = marks.iter().find_map(|mark| only_of(mark).filter(|only| only.0 == family.name));
            // What is no literal by now is not known before rows are read.
            let only = named.and_then(|(_, qualifiers)| {
                qualifiers.iter().map(|qualifier| value_of_literal(qualifier, ty)).collect::<Option<Vec<_>>>()
            });
            let only = only.map(|only| only.into_iter().filter(|qualifier| !qualifier.is_null()).collect());
            let relation = Arc::new(self.table.family_relation(family));
            let history = self.history.clone().filter(|_| family.kind == FamilyKind::Family);
            FamilyRead { family: family.clone(), relation, only, history }
        };
        places.map(read).collect()
    }

    /// Places of the key columns.
    fn key_places(&self) -> Vec<usize> {
        let place = |id| self.columns.iter().position(|c| *c == ReadColumn::Scan(ScanColumn::Column(id)));
        self.table.key().filter_map(|key| place(key.id)).collect()
    }

    /// What is read of the static columns among the wanted ones, in their order.
    fn statics(&self, wanted: &[usize]) -> Option<StaticsRead> {
        let columns = wanted.iter().filter_map(|index| match self.columns[*index] {
            ReadColumn::Static(column) => Some(column),
            _ => None,
        });
        let columns: Vec<ScanColumn> = columns.collect();
        if columns.is_empty() { None } else { StaticsRead::new(&self.table, columns) }
    }

    /// The wanted columns, then those of the partition key that are not among them.
    fn with_partition(&self, wanted: &[usize]) -> Vec<usize> {
        let mut all = wanted.to_vec();
        for key in self.key_places().into_iter().take(self.table.partition_len()) {
            if !all.contains(&key) {
                all.push(key);
            }
        }
        all
    }

    /// Where each wanted column comes from, and the columns to scan for them. With something `beside` the rows, these
    /// are the columns that are of the rows, and the key; where partitions without rows are added, the partition key is
    /// wanted, too.
    fn with_key(&self, wanted: &[usize], beside: bool, rowless: bool) -> (Vec<FamilyOutput>, Vec<usize>) {
        let wanted = if rowless { self.with_partition(wanted) } else { wanted.to_vec() };
        if !beside {
            return (Vec::new(), wanted);
        }
        let is_beside = |index: usize| matches!(self.columns[index], ReadColumn::Family(_) | ReadColumn::Static(_));
        let mut scanned: Vec<usize> = wanted.iter().copied().filter(|index| !is_beside(*index)).collect();
        for key in self.key_places() {
            if !scanned.contains(&key) {
                scanned.push(key);
            }
        }
        let (mut families, mut statics) = (0.., 0..);
        let output = wanted.iter().map(|index| match self.columns[*index] {
            ReadColumn::Family(_) => FamilyOutput::Family(families.next().unwrap_or_default()),
            ReadColumn::Static(_) => FamilyOutput::Static(statics.next().unwrap_or_default()),
            _ => FamilyOutput::Input(scanned.iter().position(|each| each == index).unwrap_or_default()),
        });
        let output = output.collect();
        (output, scanned)
    }

    /// What looks for partitions without rows, and those that it has found, if there were few to look at; `None` where
    /// the scan shows none.
    async fn rowless(
        &self,
        state: &dyn Session,
        snapshot: &Arc<dyn Snapshot>,
        wanted: &[usize],
        filters: &[&Expr],
    ) -> Result<Option<(RowlessPartitions, Option<Rowless>)>> {
        if !may_see_rowless(&self.table, filters.iter().copied()) {
            return Ok(None);
        }
        let all: Vec<ScanColumn> = self.statics(wanted).map_or(Vec::new(), |statics| statics.columns);
        let Some(statics) = StaticsRead::new(&self.table, all.clone()) else { return Ok(None) };
        let filter = conjunction(filters.iter().map(|filter| (*filter).clone()));
        let read = self.read_columns(wanted, filter.as_ref())?;
        let schema = Arc::new(self.schema.project(&read)?);
        let column = |index: &usize| match self.columns[*index] {
            ReadColumn::Static(column) => all.iter().position(|each| *each == column).map(RowlessColumn::Static),
            ReadColumn::Scan(ScanColumn::Column(id)) => statics.relation.key_index(id).map(RowlessColumn::Key),
            _ => None,
        };
        let place = |index: &usize| read.iter().position(|each| each == index).unwrap_or_default();
        let rowless = RowlessPartitions {
            rows: self.relation.clone(),
            spans: spans::push(filters, &statics.relation).spans,
            columns: read.iter().map(column).collect(),
            filter: match &filter {
                Some(filter) => Some(physical(state, filter, &schema)?),
                None => None,
            },
            output: wanted.iter().map(place).collect(),
            schema,
            statics,
        };
        let found = rowless.few(snapshot).await.map_err(external)?;
        let none = found.as_ref().is_some_and(|found| found.rows.num_rows() == 0);
        Ok(if none { None } else { Some((rowless, found)) })
    }

    /// The scan of these spans, of the first rows of each prefix where only they are read. Its columns are still to come.
    pub(crate) fn limited_scan(&self, pushed: &Pushed) -> Scan {
        Scan {
            relation: self.relation.id,
            spans: pushed.spans.clone(),
            columns: Vec::new(),
            ranges: if self.limit.is_none() { pushed.ranges.clone() } else { Vec::new() },
            order: self.limit.map_or(Order::Any, |limit| limit.order),
            limit: None,
            per_prefix: self.limit.map(|limit| (limit.columns, limit.rows)),
            coded: true,
        }
    }

    /// The wanted columns, then those that only the filter needs.
    fn read_columns(&self, wanted: &[usize], residual: Option<&Expr>) -> Result<Vec<usize>> {
        let mut read = Vec::new();
        for index in wanted {
            if !read.contains(index) {
                read.push(*index);
            }
        }
        let mut names: Vec<&str> = residual
            .map_or(Vec::new(), |expr| expr.column_refs().into_iter().map(|column| column.name.as_str()).collect());
        names.sort_unstable();
        for name in names {
            let index = self.schema.index_of(name)?;
            if !read.contains(&index) {
                read.push(index);
            }
        }
        Ok(read)
    }
}

fn physical(
    state: &dyn Session,
    expr: &Expr,
    schema: &SchemaRef,
) -> Result<Arc<dyn datafusion::physical_expr::PhysicalExpr>> {
    let schema = DFSchema::try_from(schema.as_ref().clone())?;
    let unqualified = datafusion::logical_expr::expr_rewriter::unnormalize_col(expr.clone());
    state.create_physical_expr(unqualified, &schema)
}
