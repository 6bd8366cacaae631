//! `ADVISE table`: what the definition and the data of a table tell, each with the statement that mends it.
//!
//! It reads the table: counts of rows, partitions, cells and qualifiers.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::TryStreamExt;
use keyspan_cql::{ObjectName, quoted};
use keyspan_model::array::{array_of, value_at};
use keyspan_model::{ColumnType, FamilyDef, FamilyKind, Result, TableDef, Value};

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
        let table = self.table;
        for family in table.families.iter().filter(|family| family.kind == FamilyKind::Family) {
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

    async fn answer(&mut self, sql: &str) -> Result<Vec<RecordBatch>> {
        let query = names::parse_query(sql)?;
        let (_, stream) = query::run(self.context, &query, &[]).await?;
        self.context.running.guard(stream.try_collect()).await
    }
}
