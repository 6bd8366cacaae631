//! `ADVISE table`: what the definition and the data of a table tell, and how it has been read, each with the statement
//! that mends it.
//!
//! It reads the table: counts of rows, partitions, cells and qualifiers.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::TryStreamExt;
use keyspan_cql::{ObjectName, quoted};
use keyspan_model::array::{array_of, value_at};
use keyspan_model::{ColumnDef, ColumnId, ColumnRole, ColumnType, FamilyDef, FamilyKind, Result, TableDef, Value};
use keyspan_query::{QueryContext, ShownHeat};

use super::{Finding, definition};
use crate::context::ClientContext;
use crate::outcome::{Outcome, Rows, Tag, text_schema};
use crate::{names, query};

/// Rows of a partition from which on it is wide.
const WIDE_PARTITION: i64 = 100_000;

/// Cells of a row from which on it is wide.
const WIDE_ROW: i64 = 1_000_000;

/// Versions of a cell from which on they are many.
const MANY_VERSIONS: i64 = 1_000;

/// Rows on disk for each live one from which on the dead ones are many, and how many there must be at all.
const DEAD_ROWS: (u64, u64) = (3, 10_000);

/// An index is not used where it finds more than one in so many rows.
const INDEX_SHARE: i64 = 64;

/// Rows from which on shares are told.
const ROWS_MIN: i64 = 1_000;

/// Reads of a table since the start from which on they tell how it is used, and scans of one kind from which on they are
/// many.
const READS_MIN: u64 = 100;
const SCANS_MIN: u64 = 10;

/// Uses of keys from which on it is told where they are, and the least number of their ranges.
const HEAT_MIN: i64 = 1_000;
const RANGES_MIN: usize = 4;

/// The columns of ADVISE.
pub(crate) fn schema() -> SchemaRef {
    text_schema(&["table", "finding", "hint", "remedy"])
}

/// `ADVISE table, …`.
pub(crate) async fn run(context: &mut ClientContext, tables: &[ObjectName]) -> Result<Outcome> {
    let mut rows: [Vec<Value>; 4] = Default::default();
    for name in tables {
        let table = names::table(&context.catalog(), &context.settings.search_path(), name)?;
        let mut found = definition::findings(&table);
        found.extend(Survey { context, table: &table }.findings().await?);
        for Finding { finding, hint, remedy } in found {
            let texts = [Some(table.name.clone()), Some(finding), Some(hint), remedy];
            rows.iter_mut().zip(texts).for_each(|(column, text)| column.push(text.map_or(Value::Null, Value::Text)));
        }
    }
    let columns = rows.iter().map(|values| array_of(ColumnType::Text, values)).collect::<Result<_>>()?;
    let batch = RecordBatch::try_new(schema(), columns)?;
    Ok(Outcome::with_rows(Tag::plain("ADVISE"), Rows::ready(schema(), vec![batch])))
}

struct Survey<'a> {
    context: &'a mut ClientContext,
    table: &'a TableDef,
}

impl Survey<'_> {
    async fn findings(&mut self) -> Result<Vec<Finding>> {
        let rows = self.number(&format!("SELECT count(*) FROM {}", self.path())).await?;
        let mut found = Vec::new();
        found.extend(self.dead_rows(rows)?);
        found.extend(self.wide_partition().await?);
        found.extend(self.scans(rows).await?);
        found.extend(self.hot_range());
        let table = self.table;
        for family in table.families.iter().filter(|family| family.kind == FamilyKind::Family) {
            found.extend(self.unread_family(family).await?);
            found.extend(self.wide_row(family).await?);
            found.extend(self.many_versions(family).await?);
            found.extend(self.fixed_qualifiers(family, rows).await?);
        }
        // A unique index is there for its constraint, too.
        for index in table
            .indexes
            .iter()
            .filter(|index| index.unique.is_none() && index.similarity.is_none() && index.columns.len() == 1)
        {
            for column in table.columns.iter().filter(|column| index.columns.contains(&column.id)) {
                found.extend(self.coarse_index(&index.name, &column.name, rows).await?);
            }
        }
        Ok(found)
    }

    /// Rows on disk that are overwritten, deleted or expired; only the embedded store knows.
    fn dead_rows(&self, live: i64) -> Result<Option<Finding>> {
        let Ok(stats) = self.context.database.stats() else { return Ok(None) };
        let Some(stored) = stats.relations.iter().find(|relation| relation.relation == self.table.rows) else {
            return Ok(None);
        };
        let live = u64::try_from(live).unwrap_or_default();
        let (share, least) = DEAD_ROWS;
        if stored.segment_rows < least || stored.segment_rows < live.saturating_mul(share) {
            return Ok(None);
        }
        let finding =
            format!("{} rows on disk, {live} of them live: the rest is read and left out", stored.segment_rows);
        let hint = "Deletions are remembered for gc_grace_seconds, which only a restore from elsewhere needs; \
                    a time to live needs no deletions at all.";
        Ok(Some(Finding { finding, hint: hint.to_owned(), remedy: Some(format!("COMPACT {}", self.path())) }))
    }

    async fn wide_partition(&mut self) -> Result<Option<Finding>> {
        let key: Vec<String> = self.table.key().map(|column| quoted(&column.name)).collect();
        let (partition, clustering) = key.split_at(self.table.partition_len());
        if clustering.is_empty() {
            return Ok(None);
        }
        let sql = format!(
            "SELECT max(n) FROM (SELECT count(*) AS n FROM {} GROUP BY {}) AS p",
            self.path(),
            partition.join(", ")
        );
        let rows = self.number(&sql).await?;
        if rows < WIDE_PARTITION {
            return Ok(None);
        }
        let finding = format!("a partition has {rows} rows");
        let hint =
            "Queries without a range on the clustering columns read all of it. Divide it by time, or by a shard.";
        let better = format!("PRIMARY KEY (({}, day), {})", partition.join(", "), clustering.join(", "));
        Ok(Some(Finding { finding, hint: format!("{hint} For instance {better}."), remedy: None }))
    }

    /// Scans of the whole table, and what would make them read less.
    async fn scans(&mut self, rows: i64) -> Result<Vec<Finding>> {
        let reads = self.context.database.usage().of(self.table.rows);
        if rows < ROWS_MIN || reads.whole < SCANS_MIN {
            return Ok(Vec::new());
        }
        let table = self.table;
        let asked = |column: &&ColumnDef| reads.whole_by_value.get(&column.id).is_some_and(|times| *times >= SCANS_MIN);
        let mut found = Vec::new();
        let indexed: Vec<ColumnId> = table.indexes.iter().flat_map(|index| index.columns.iter().copied()).collect();
        for column in table.columns.iter().filter(asked).filter(|column| !indexed.contains(&column.id)) {
            let sql = format!("SELECT count(DISTINCT {}) FROM {}", quoted(&column.name), self.path());
            let values = self.number(&sql).await?;
            let times = reads.whole_by_value[&column.id];
            let name = &column.name;
            let finding = format!(
                "{times} statements since the start have read the whole table for one value of \"{name}\", which has \
                 {values} in {rows} rows"
            );
            let is_usual = reads.by_value[&column.id] * 10 >= reads.scans * 9;
            found.push(match values >= INDEX_SHARE && !column.is_key() && column.role != ColumnRole::Static {
                true => Finding {
                    finding,
                    hint: format!("An index on \"{name}\" finds them."),
                    remedy: Some(format!("CREATE INDEX ON {} ({})", self.path(), quoted(name))),
                },
                false if is_usual => Finding {
                    finding,
                    hint: format!("Nearly all reads ask for one: \"{name}\" belongs first into the key."),
                    remedy: self.turned_copy(column),
                },
                false => Finding {
                    finding,
                    hint: "It has few values: restrict the leading columns of the key beside it.".to_owned(),
                    remedy: None,
                },
            });
        }
        // What an index finds by now was read before there was one.
        let by_index: u64 = reads.whole_by_value.iter().filter(|(id, _)| indexed.contains(id)).map(|(_, n)| n).sum();
        let (whole, scans) = (reads.whole.saturating_sub(by_index), reads.scans);
        if found.is_empty() && whole >= SCANS_MIN && whole * 10 >= scans {
            let finding = format!("{whole} of {scans} scans since the start have read the whole table");
            let hint =
                "SET full_scan = 'warn' tells which queries do; a rollup or a materialized view keeps what they ask.";
            found.push(Finding { finding, hint: hint.to_owned(), remedy: None });
        }
        Ok(found)
    }

    /// A copy of the table with a column first in its key, where that can be said in one statement.
    fn turned_copy(&self, column: &ColumnDef) -> Option<String> {
        let is_plain = self.table.families.is_empty()
            && self.table.columns.iter().all(|column| !column.hidden && column.role != ColumnRole::Static)
            && !self.table.has_counters();
        let rest = self.table.key().filter(|key| key.id != column.id).map(|key| quoted(&key.name));
        let key: Vec<String> = std::iter::once(quoted(&column.name)).chain(rest).collect();
        let copy = quoted(&format!("{}_by_{}", self.table.name, column.name));
        let (keyspace, key) = (quoted(&self.table.keyspace), key.join(", "));
        is_plain
            .then(|| format!("CREATE TABLE {keyspace}.{copy} (PRIMARY KEY ({key})) AS SELECT * FROM {}", self.path()))
    }

    /// A range of keys that takes more than half of what the last hour did with the table.
    fn hot_range(&self) -> Option<Finding> {
        let shown = self.context.database.heat().shown(&self.context.catalog());
        let of_rows = || shown.iter().filter(|heat| heat.relation == self.table.rows && heat.first.is_some());
        let mut found = Vec::new();
        for (what, uses) in [("writes", (|heat| heat.writes) as fn(&ShownHeat) -> i64), ("reads", |heat| heat.reads)] {
            let mut ranges: BTreeMap<(&Option<String>, &Option<String>), i64> = BTreeMap::new();
            for heat in of_rows() {
                *ranges.entry((&heat.first, &heat.last)).or_default() += uses(heat);
            }
            let all: i64 = ranges.values().sum();
            let hottest = ranges.iter().max_by_key(|(_, uses)| **uses);
            let Some(((Some(first), Some(last)), most)) = hottest else { continue };
            if all >= HEAT_MIN && ranges.len() >= RANGES_MIN && most * 2 > all {
                let share = most * 100 / all;
                let range = if first == last { format!("key {first}") } else { format!("keys {first} to {last}") };
                found.push(format!("{range} got about {share} % of the {what} of the last hour"));
            }
        }
        let hint = "keyspan_heat tells it by the minute. A shard as a further column of the partition key spreads writes; \
                    counters and rows that all write to are better summed up from rows of their own.";
        (!found.is_empty()).then(|| Finding { finding: found.join("; "), hint: hint.to_owned(), remedy: None })
    }

    /// A family that nobody has read, while the table was read often.
    async fn unread_family(&mut self, family: &FamilyDef) -> Result<Option<Finding>> {
        let usage = self.context.database.usage();
        let (table, own) = (usage.of(self.table.rows), usage.of(family.relation));
        if table.scans + table.lookups < READS_MIN || own.scans + own.lookups > 0 {
            return Ok(None);
        }
        let cells = self.number(&format!("SELECT count(*) FROM {}", self.cells(family))).await?;
        if cells == 0 {
            return Ok(None);
        }
        let finding = format!("nobody has read family \"{}\" since the start; it has {cells} cells", family.name);
        let (path, name) = (self.path(), quoted(&family.name));
        // No remedy: it would delete, and who reads once a month may be yet to come.
        let hint = format!("If it is not needed for ever: ALTER TABLE {path} ALTER {name} SET GC max_age = '30d'.");
        Ok(Some(Finding { finding, hint, remedy: None }))
    }

    async fn wide_row(&mut self, family: &FamilyDef) -> Result<Option<Finding>> {
        let keys = self.keys();
        let sql = format!("SELECT max(n) FROM (SELECT count(*) AS n FROM {} GROUP BY {keys}) AS r", self.cells(family));
        let cells = self.number(&sql).await?;
        if cells < WIDE_ROW {
            return Ok(None);
        }
        let finding = format!("a row has {cells} cells in family \"{}\"", family.name);
        let hint =
            format!("Reading the family as a whole reads all of them: read ranges of cells({}).", self.names(family));
        Ok(Some(Finding { finding, hint, remedy: None }))
    }

    async fn many_versions(&mut self, family: &FamilyDef) -> Result<Option<Finding>> {
        if family.gc.keeps_one() {
            return Ok(None);
        }
        let parts = family.qualifier.iter().map(|part| quoted(&part.name)).collect::<Vec<_>>().join(", ");
        let (keys, cells) = (self.keys(), self.cells(family));
        let sql = format!("SELECT max(n) FROM (SELECT count(*) AS n FROM {cells} GROUP BY {keys}, {parts}) AS c");
        let versions = self.number(&sql).await?;
        if versions < MANY_VERSIONS {
            return Ok(None);
        }
        let finding = format!("a cell of family \"{}\" has {versions} versions", family.name);
        let hint = "A rule for versions keeps what is needed.".to_owned();
        let remedy = format!("ALTER TABLE {} ALTER {} SET GC max_versions = 100", self.path(), quoted(&family.name));
        Ok(Some(Finding { finding, hint, remedy: Some(remedy) }))
    }

    /// A qualifier that nearly every row has is a column.
    async fn fixed_qualifiers(&mut self, family: &FamilyDef, rows: i64) -> Result<Option<Finding>> {
        let of_text = matches!(family.qualifier_type(), ColumnType::Text | ColumnType::Ascii);
        // No column can be a variant.
        if rows < ROWS_MIN || !of_text || family.value.ty.is_variant() {
            return Ok(None);
        }
        let keys = self.keys();
        let sql = format!(
            "SELECT qualifier, count(*) AS n FROM (SELECT DISTINCT {keys}, qualifier FROM {}) AS c \
             GROUP BY qualifier HAVING count(*) * 10 >= {rows} * 9 ORDER BY qualifier LIMIT 5",
            self.cells(family)
        );
        let mut qualifiers = Vec::new();
        for batch in self.answer(&sql).await? {
            for row in 0..batch.num_rows() {
                if let Value::Text(text) = value_at(batch.column(0).as_ref(), row, ColumnType::Text)? {
                    qualifiers.push(text);
                }
            }
        }
        let Some(first) = qualifiers.first() else { return Ok(None) };
        let names = qualifiers.join(", ");
        let finding = format!("nearly all rows have {names} in family \"{}\"", family.name);
        let hint = format!(
            "What all rows have is faster to scan as a column; then UPDATE it from {}['{first}'].",
            family.name
        );
        let ty = family.value.ty.postgres_name();
        let remedy = format!("ALTER TABLE {} ADD {} {ty}", self.path(), quoted(first));
        Ok(Some(Finding { finding, hint, remedy: Some(remedy) }))
    }

    async fn coarse_index(&mut self, index: &str, column: &str, rows: i64) -> Result<Option<Finding>> {
        if rows < ROWS_MIN {
            return Ok(None);
        }
        let values = self.number(&format!("SELECT count(DISTINCT {}) FROM {}", quoted(column), self.path())).await?;
        if values == 0 || values >= INDEX_SHARE {
            return Ok(None);
        }
        let finding = format!("index \"{index}\": \"{column}\" has {values} values in {rows} rows");
        let hint = format!("A value that more than one in {INDEX_SHARE} rows has is found by reading the table.");
        let remedy = format!("DROP INDEX {}.{}", quoted(&self.table.keyspace), quoted(index));
        Ok(Some(Finding { finding, hint, remedy: Some(remedy) }))
    }

    fn path(&self) -> String {
        format!("{}.{}", quoted(&self.table.keyspace), quoted(&self.table.name))
    }

    fn keys(&self) -> String {
        self.table.key().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ")
    }

    fn names(&self, family: &FamilyDef) -> String {
        let quote = |text: &str| format!("'{}'", text.replace('\'', "''"));
        format!("{}, {}", quote(&format!("{}.{}", self.table.keyspace, self.table.name)), quote(&family.name))
    }

    fn cells(&self, family: &FamilyDef) -> String {
        format!("cells({})", self.names(family))
    }

    /// The number that a query of one value answers; 0 for NULL.
    async fn number(&mut self, sql: &str) -> Result<i64> {
        let batches = self.answer(sql).await?;
        let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else { return Ok(0) };
        match value_at(batch.column(0).as_ref(), 0, ColumnType::BigInt)? {
            Value::BigInt(number) => Ok(number),
            _ => Ok(0),
        }
    }

    /// The rows of a query. Nobody is told of what it reads: that is not how the table is used.
    async fn answer(&mut self, sql: &str) -> Result<Vec<RecordBatch>> {
        let query = names::parse_query(sql)?;
        let snapshot = self.context.snapshot()?;
        let query_context = QueryContext { snapshot: snapshot.clone(), ..self.context.query_context(snapshot, &[]) };
        let (_, stream) = query::run_on(self.context, &query, &[], query_context).await?;
        self.context.running.guard(stream.try_collect()).await
    }
}
