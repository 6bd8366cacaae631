//! MERGE: which rows its clauses take is found on one snapshot, then each clause writes, in one transaction.
//!
//! ```text
//! source ─▶ rows ─┬─ MATCHED ─▶ keys of the table's rows ─▶ UPDATE, DELETE of these keys, joined with the source again
//!                 └─ NOT MATCHED ─▶ values ─▶ INSERT … ON CONFLICT DO NOTHING: fewer rows than values is 23505
//! ```
//!
//! A clause never sees what another wrote: keys and values are found before the first write. UPDATE and DELETE read the
//! newest state of their rows once more, with the rows locked, as they always do. Where a row no longer fits its clause by
//! then, all is taken back and done again on the newest state, as PostgreSQL tests the clauses again for such a row.

use std::collections::HashSet;

use arrow::array::RecordBatch;
use arrow::datatypes::Field;
use keyspan_cql::{ColumnName, ConflictAction, Delete, Insert, InsertSource, Merge, OnConflict, Update, ast, quoted};
use keyspan_model::array::{coerce, value_at};
use keyspan_model::{Error, ErrorKind, Result, Value};
use keyspan_query::GivenRelation;

use super::Session;
use crate::database::count;
use crate::dml;
use crate::given::relation;
use crate::merge::{self, Clause};
use crate::names;
use crate::outcome::{Outcome, Rows, Tag};
use crate::query;
use crate::row::TableHandle;
use crate::transaction::Transaction;
use crate::transaction_control;
use crate::violation::Uniqueness;

/// The name of the rows that a clause writes; no table has it.
const ROWS: &str = "\u{1}merge";

/// How often all is done again while others change the rows.
const TRIES_MAX: usize = 100;

/// What a clause is to write.
struct Found {
    clause: Clause,
    rows: GivenRelation,
    count: u64,
}

impl Session {
    /// MERGE.
    pub(super) async fn merge(&mut self, statement: &Merge, parameters: &[Value]) -> Result<Outcome> {
        let own = transaction_control::begin_several(&mut self.context)?;
        let before = self.context.given.len();
        let done = self.merged(statement, parameters).await;
        self.context.given.truncate(before);
        self.end_several(own, done).await
    }

    async fn merged(&mut self, statement: &Merge, parameters: &[Value]) -> Result<Outcome> {
        for _ in 0..TRIES_MAX {
            let before = self.context.given.len();
            transaction_control::mark(&mut self.context, ROWS);
            let (written, all_there) = self.merged_once(statement, parameters).await?;
            let again = !all_there && !self.context.transaction.as_ref().is_some_and(Transaction::has_one_snapshot);
            if !again {
                transaction_control::unmark(&mut self.context, ROWS)?;
                return Ok(Outcome::done(Tag::counted("MERGE", written)));
            }
            count(&self.context.database.counts().retries);
            transaction_control::back_to_mark(&mut self.context, ROWS)?;
            self.context.given.truncate(before);
            self.context.running.check()?;
        }
        let message = "could not serialize access: others kept changing the rows of MERGE";
        Err(Error::new(ErrorKind::Serialization, message).with_hint("Run the statement again."))
    }

    /// How many rows were written, and whether every clause still found the rows that it was to take: else another
    /// session has changed them meanwhile, and another clause may be theirs.
    async fn merged_once(&mut self, statement: &Merge, parameters: &[Value]) -> Result<(u64, bool)> {
        self.context.snapshot()?;
        let statement = &self.with_source(statement, parameters).await?;
        let table = names::table(&self.context.catalog(), &self.context.settings.search_path(), &statement.table)?;
        let handle = self.context.handle(table.clone());
        if handle.table.has_counters() {
            let error = Error::not_supported("MERGE into a table with counters is not supported");
            return Err(error.with_hint("Write UPDATE and INSERT … SELECT in a transaction."));
        }
        let (mut all, mut seen) = (Vec::new(), HashSet::new());
        let clauses = merge::clauses(statement, &table)?;
        // Also where no row is found for it.
        for clause in &clauses {
            match clause {
                Clause::Insert(insert) => dml::rights::insert(&self.context, &table, insert)?,
                Clause::Update(update) => dml::rights::update(&self.context, &table, update)?,
                Clause::Delete(delete) => dml::rights::delete(&self.context, &table, delete)?,
                Clause::Nothing => {}
            }
        }
        for clause in clauses {
            let rows = match &clause {
                Clause::Nothing => continue,
                Clause::Insert(insert) => self.values(insert, parameters).await?,
                Clause::Update(Update { filter, .. }) | Clause::Delete(Delete { filter, .. }) => {
                    let keys = self.keys(statement, &handle, filter.clone(), parameters).await?;
                    each_once(&handle, &keys, &mut seen)?;
                    keys
                }
            };
            let count = rows.batches.iter().map(|batch| batch.num_rows() as u64).sum();
            all.push(Found { clause, rows, count });
        }
        let (mut written, mut all_there) = (0, true);
        for found in all.into_iter().filter(|found| found.count > 0) {
            let wanted = found.count;
            let rows = self.clause(&handle, found, parameters).await?;
            written += rows;
            all_there &= rows == wanted;
            transaction_control::next_write(&mut self.context);
        }
        Ok((written, all_there))
    }

    /// The statement with the rows of its source under the source's name, if that is a query: they are read once.
    async fn with_source(&mut self, statement: &Merge, parameters: &[Value]) -> Result<Merge> {
        let ast::TableFactor::Derived { alias: Some(alias), .. } = &statement.source else {
            return Ok(statement.clone());
        };
        let name = names::fold_case(&alias.name);
        let rows = self.source_rows(&merge::select(statement.source.clone(), None)?.query, parameters).await?;
        let fields = rows.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let batches = rows.collect().await?;
        self.context.given.push(relation(&name, fields, batches)?);
        Ok(Merge { source: merge::table_factor(&quoted(&name))?, ..statement.clone() })
    }

    async fn source_rows(&mut self, query: &ast::Query, parameters: &[Value]) -> Result<Rows> {
        let (schema, stream) = query::run(&mut self.context, query, parameters).await?;
        Ok(Rows::new(schema, self.context.running.guard_stream(stream)))
    }

    /// The rows that an INSERT's query has.
    async fn values(&mut self, insert: &Insert, parameters: &[Value]) -> Result<GivenRelation> {
        let InsertSource::Query(source) = &insert.source else {
            return Err(Error::internal("an INSERT of MERGE without a query"));
        };
        let rows = self.source_rows(&source.query, parameters).await?;
        given(rows).await
    }

    /// The keys of the table's rows that a clause takes.
    async fn keys(
        &mut self,
        statement: &Merge,
        handle: &TableHandle,
        filter: Option<ast::Expr>,
        parameters: &[Value],
    ) -> Result<GivenRelation> {
        let alias = quoted(statement.alias.as_ref().unwrap_or(&handle.table.name));
        let columns: Vec<String> = handle.table.key().map(|key| format!("{alias}.{}", quoted(&key.name))).collect();
        let text = format!("SELECT {} FROM {}", columns.join(", "), merge::target(statement));
        let mut query = names::parse_query(&text)?;
        if let ast::SetExpr::Select(select) = query.body.as_mut() {
            select.from.push(merge::source(statement));
            select.selection = filter;
        }
        let rows = self.source_rows(&query, parameters).await?;
        given(rows).await
    }

    /// Writes what a clause has found; how many rows.
    async fn clause(&mut self, handle: &TableHandle, found: Found, parameters: &[Value]) -> Result<u64> {
        self.context.given.push(found.rows);
        let outcome = match found.clause {
            Clause::Update(mut update) => {
                update.from.push(rows()?);
                update.filter = only_found(handle, update.alias.as_deref(), update.filter)?;
                Box::pin(self.update(&update, parameters)).await
            }
            Clause::Delete(mut delete) => {
                delete.from.push(rows()?);
                delete.filter = only_found(handle, delete.alias.as_deref(), delete.filter)?;
                Box::pin(dml::delete::run(&mut self.context, &delete, parameters)).await
            }
            Clause::Insert(mut insert) => {
                insert.source = InsertSource::Query(merge::select(rows()?.relation, None)?);
                // Without a key no row can be there already.
                if handle.table.has_key() {
                    let columns = handle.table.key().map(|column| ColumnName {
                        name: column.name.clone(),
                        qualifier: None,
                        position: insert.table.position,
                    });
                    let (columns, constraint, action) = (columns.collect(), None, ConflictAction::Nothing);
                    insert.on_conflict = Some(OnConflict { columns, constraint, action });
                }
                Box::pin(dml::insert::run(&mut self.context, &insert, parameters)).await
            }
            Clause::Nothing => Ok(Outcome::done(Tag::counted("MERGE", 0))),
        };
        let inserts = matches!(outcome.as_ref().map(|outcome| outcome.tag.command()), Ok("INSERT"));
        self.context.given.pop();
        let written = outcome?.tag.rows().unwrap_or(0);
        if inserts && written < found.count {
            let error = Uniqueness::of_key(&handle.table).comes_twice();
            return Err(error.with_detail("MERGE inserts a key twice, or another session has inserted it meanwhile."));
        }
        Ok(written)
    }
}

/// Rows under the name [`ROWS`], their columns called by their places.
async fn given(rows: Rows) -> Result<GivenRelation> {
    let named = |(place, field): (usize, &std::sync::Arc<Field>)| {
        field.as_ref().clone().with_name(column(place)).with_nullable(true)
    };
    let fields = rows.schema().fields().iter().enumerate().map(named).collect();
    let batches: Vec<RecordBatch> = rows.collect().await?;
    relation(ROWS, fields, batches)
}

fn column(place: usize) -> String {
    format!("\u{1}{place}")
}

fn rows() -> Result<ast::TableWithJoins> {
    Ok(ast::TableWithJoins { relation: merge::table_factor(&format!("\"{ROWS}\""))?, joins: Vec::new() })
}

/// The condition of a clause, for rows whose keys it has found.
fn only_found(handle: &TableHandle, alias: Option<&str>, filter: Option<ast::Expr>) -> Result<Option<ast::Expr>> {
    let alias = quoted(alias.unwrap_or(&handle.table.name));
    let equal = |(place, key): (usize, &keyspan_model::ColumnDef)| {
        format!("{alias}.{} = \"{ROWS}\".\"{}\"", quoted(&key.name), column(place))
    };
    let equal: Vec<String> = handle.table.key().enumerate().map(equal).collect();
    let keys = keyspan_cql::parse_expression(&equal.join(" AND "))?;
    Ok(Some(match filter {
        Some(filter) => merge::both(keys, filter),
        None => keys,
    }))
}

/// 21000 where a row of the table is taken twice.
fn each_once(handle: &TableHandle, keys: &GivenRelation, seen: &mut HashSet<crate::locks::RowName>) -> Result<()> {
    let types: Vec<_> = handle.table.key().map(|key| key.ty).collect();
    for batch in &keys.batches {
        let arrays = batch.columns().iter().zip(&types).map(|(array, ty)| coerce(array, *ty));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let parts = arrays.iter().zip(&types).map(|(array, ty)| value_at(array, row, *ty));
            if !seen.insert(handle.name(&parts.collect::<Result<Vec<_>>>()?)?) {
                let error =
                    Error::new(ErrorKind::CardinalityViolation, "MERGE command cannot affect row a second time");
                return Err(error.with_hint("Ensure that not more than one source row matches any one target row."));
            }
        }
    }
    Ok(())
}
