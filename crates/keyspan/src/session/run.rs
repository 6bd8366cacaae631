//! A statement's way: parsed, prepared, and routed to its family.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyspan_cql::{Discard, Explain, Parsed, Statement};
use keyspan_model::{Catalog, ColumnType, Error, ErrorKind, Result, Value};
use keyspan_query::are_alike;
use keyspan_seam::ReadAt;

use super::Session;
use crate::database::count;
use crate::metrics::StatementKind;
use crate::outcome::{Outcome, Rows};
use crate::prepared::Prepared;
use crate::timer::{self, StatementTimer};
use crate::{
    advice, attach, audit, copy, cursor_control, ddl, dml, explain, maintain, prepare, select, set, show,
    transaction_control,
};

/// How often a statement is tried while others change the tables that it names.
const OVERTAKEN_MAX: usize = 100;

impl Session {
    /// Runs all statements of a text, as PostgreSQL's simple query does: several form one transaction unless they
    /// say otherwise. The rows of several statements are read into memory, so that an error among them undoes all;
    /// those of a single one are read while they are taken.
    ///
    /// # Errors
    /// The first one; what the text did before it is undone, unless it committed it.
    pub async fn execute(&mut self, sql: &str) -> Result<Vec<Outcome>> {
        let outcomes = self.execute_all(sql).await;
        if outcomes.is_err() {
            self.end_failed_text(sql).await;
        }
        outcomes
    }

    async fn execute_all(&mut self, sql: &str) -> Result<Vec<Outcome>> {
        let statements = self.parse(sql)?;
        let several = statements.len() > 1;
        let mut outcomes = Vec::with_capacity(statements.len());
        for parsed in &statements {
            if several {
                // What follows a COMMIT or ROLLBACK is a transaction of its own.
                self.begin_implicit();
            }
            match self.prepare_and_run(parsed, &[]).await {
                Ok(outcome) if several => match outcome.read_all().await {
                    Ok(outcome) => outcomes.push(outcome),
                    Err(error) => {
                        self.fail();
                        return Err(error);
                    }
                },
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => return Err(error),
            }
        }
        self.end_implicit(true).await?;
        Ok(outcomes)
    }

    /// Runs one statement with parameters and answers its rows; none of a statement that returns no rows.
    pub async fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Rows> {
        let statements = self.parse(sql)?;
        let [parsed] = statements.as_slice() else {
            return Err(Error::new(ErrorKind::Syntax, "cannot insert multiple commands into a prepared statement"));
        };
        let outcome = self.prepare_and_run(parsed, parameters).await?;
        Ok(outcome.rows.unwrap_or_else(Rows::none))
    }

    /// Prepares a statement and runs it at once, on one snapshot.
    async fn prepare_and_run(&mut self, parsed: &Parsed, parameters: &[Value]) -> Result<Outcome> {
        self.context.release_snapshot();
        let types: Vec<_> = parameters.iter().map(Value::natural_type).collect();
        let result = match self.begin_prepare(parsed, &types).await {
            Ok(prepared) => self.begin_run(&prepared, parameters).await,
            Err(error) => Err(error),
        };
        self.context.release_snapshot();
        result
    }

    /// The statements of a text, separated by semicolons.
    pub fn parse(&self, sql: &str) -> Result<Vec<Parsed>> {
        let parsed = keyspan_cql::parse(sql);
        parsed.inspect_err(|error| {
            timer::count_failed(&self.context.database, StatementKind::Other, Duration::ZERO, error);
        })
    }

    /// Finds a statement's parameter types and columns. `parameter_types` are those the client says, as far as it does.
    ///
    /// # Errors
    /// Whatever is wrong with names and types; 25P02 in a failed transaction.
    pub async fn prepare(&mut self, parsed: &Parsed, parameter_types: &[Option<ColumnType>]) -> Result<Prepared> {
        self.context.release_snapshot();
        self.context.follow_first_role();
        let result = self.begin_prepare(parsed, parameter_types).await;
        self.context.release_snapshot();
        result
    }

    async fn begin_prepare(&mut self, parsed: &Parsed, types: &[Option<ColumnType>]) -> Result<Prepared> {
        transaction_control::check_not_failed(&self.context, &parsed.statement)?;
        // A cancel request that came after the last statement does not concern this one.
        self.context.running = self.cancel.begin(self.context.settings.statement_timeout());
        let began = Instant::now();
        let result = self.prepare_again(Arc::new(parsed.clone()), types.to_vec()).await;
        self.context.planning = began.elapsed();
        result.inspect_err(|error| {
            self.fail();
            let kind = StatementKind::of(&parsed.statement);
            timer::count_failed(&self.context.database, kind, self.context.planning, error);
        })
    }

    /// Prepares a statement within a running one. EXECUTE answers with the columns of the statement that it names.
    pub(super) async fn prepare_again(
        &mut self,
        parsed: Arc<Parsed>,
        types: Vec<Option<ColumnType>>,
    ) -> Result<Prepared> {
        let mut prepared = prepare::prepare(&mut self.context, parsed, types).await?;
        if let Statement::Execute(execute) = prepared.statement() {
            let named = self.statements.get(&execute.name);
            prepared.schema = named.and_then(|named| named.schema.clone());
        }
        Ok(prepared)
    }

    /// Runs a prepared statement. The parameters have (or can be cast to) the types of [`Prepared::parameters`].
    ///
    /// Rows are read while they are taken from the outcome; an error while they are read does not fail an open
    /// transaction by itself: who takes the rows calls [`Session::fail`].
    pub async fn run(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        self.context.release_snapshot();
        let result = self.begin_run(prepared, parameters).await;
        self.context.release_snapshot();
        result
    }

    async fn begin_run(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        self.context.begin(self.cancel.begin(self.context.settings.statement_timeout()));
        self.copying = None;
        let timer = StatementTimer::begin(&mut self.context, prepared);
        let result = match transaction_control::begin_statement(&mut self.context, prepared.statement()) {
            Ok(()) => self.run_prepared(prepared, parameters).await,
            Err(error) => Err(error),
        };
        let result = result.inspect_err(|_| self.fail());
        let (outcome, copying) = timer.watch(&self.context, result)?;
        self.copying = copying;
        Ok(outcome)
    }

    /// Runs a prepared statement. One by itself that fails since others have changed tables while it
    /// ran has written nothing, and runs again; but for COPY, which may have committed rows.
    async fn run_prepared(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        let once = self.context.transaction.is_some() || matches!(prepared.statement(), Statement::Copy(_));
        for _ in 1..if once { 1 } else { OVERTAKEN_MAX } {
            let before = self.catalog();
            match self.run_once(prepared, parameters).await {
                Err(error) if self.is_overtaken(&error, &before) => {
                    count(&self.context.database.counts().retries);
                    self.await_catalog_after(&before).await?;
                }
                other => return other,
            }
        }
        self.run_once(prepared, parameters).await
    }

    /// Whether a statement has failed with this error since tables are no longer as this catalog has them. The store sees
    /// a change before that is durable, and before the session's catalog has it.
    fn is_overtaken(&self, error: &Error, before: &Arc<Catalog>) -> bool {
        match error.kind {
            ErrorKind::Redefined => true,
            ErrorKind::UndefinedColumn | ErrorKind::UndefinedTable => {
                let newest = self.context.database.store().snapshot(ReadAt::Newest);
                newest.is_ok_and(|newest| !Arc::ptr_eq(before, newest.catalog()))
            }
            _ => false,
        }
    }

    /// Waits until a change of the catalog is durable and seen, for as long as a sync may take.
    async fn await_catalog_after(&self, before: &Arc<Catalog>) -> Result<()> {
        for _ in 0..200 {
            if !Arc::ptr_eq(before, &self.catalog()) {
                break;
            }
            self.context.running.check()?;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Fails if a prepared statement, were it prepared now, would have other columns: tables have changed under it.
    ///
    /// # Errors
    /// 0A000 "cached plan must not change result type"; those of preparing it.
    pub async fn check_columns(&mut self, prepared: &Prepared) -> Result<()> {
        if prepared.schema.is_none() || Arc::ptr_eq(&prepared.catalog, &self.catalog()) {
            return Ok(());
        }
        self.context.release_snapshot();
        let again = self.prepare_again(prepared.parsed.clone(), prepared.given.clone()).await;
        self.context.release_snapshot();
        again.and_then(|again| check_alike(prepared, &again)).inspect_err(|_| self.fail())
    }

    /// Prepares again what tables have changed under, casts the parameters, and routes: a statement by itself, or one within
    /// another.
    pub(super) async fn run_once(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        let again;
        let mut prepared = prepared;
        self.context.follow_first_role();
        // Not by its version: a transaction that is undone has used numbers that others use again.
        if !Arc::ptr_eq(&prepared.catalog, &self.catalog()) {
            again = Box::pin(self.prepare_again(prepared.parsed.clone(), prepared.given.clone())).await?;
            check_alike(prepared, &again)?;
            prepared = &again;
        }
        let parameters = prepared.typed(&self.context.zone(), parameters)?;
        let around = std::mem::replace(&mut self.context.parameter_types, prepared.parameters.clone());
        let outcome = self.route(prepared, &parameters).await;
        self.context.parameter_types = around;
        let outcome = outcome.map_err(|error| self.context.without_hidden_values(prepared.placed(error)))?;
        audit::record(&self.context, prepared.statement(), &outcome);
        Ok(outcome)
    }

    /// Each statement to its family.
    async fn route(&mut self, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        let context = &mut self.context;
        match prepared.statement() {
            Statement::CreateKeyspace(statement) => on_heap(move || ddl::keyspace::create(context, statement)).await,
            Statement::AlterKeyspace(statement) => on_heap(move || ddl::keyspace::alter(context, statement)).await,
            Statement::CreateTable(statement) => on_heap(move || self.create_table(statement)).await,
            Statement::CreateTableAs(statement) => {
                on_heap(move || ddl::create_as::run(context, statement, parameters)).await
            }
            Statement::CreateView(statement) => on_heap(move || ddl::view::create(context, statement)).await,
            Statement::AlterTable(statement) => on_heap(move || self.alter_table(statement)).await,
            Statement::Drop(statement) => on_heap(move || ddl::drop::run(context, statement)).await,
            Statement::Truncate(statement) => on_heap(move || ddl::drop::truncate(context, statement)).await,
            Statement::CreateIndex(statement) => on_heap(move || ddl::index::create(context, statement)).await,
            Statement::RenameIndex(statement) => on_heap(move || ddl::index::rename(context, statement)).await,
            Statement::Comment(statement) => on_heap(move || ddl::comment::run(context, statement)).await,
            Statement::CreateExtension(statement) => ddl::extension::create(context, statement),
            Statement::DropExtension(statement) => ddl::extension::drop(context, statement),
            Statement::CreateType(statement) => on_heap(move || ddl::user_type::create(context, statement)).await,
            Statement::AlterType(statement) => on_heap(move || ddl::user_type::alter(context, statement)).await,
            Statement::CreateSequence(statement) => on_heap(move || ddl::sequence::create(context, statement)).await,
            Statement::AlterSequence(statement) => on_heap(move || ddl::sequence::alter(context, statement)).await,
            Statement::CreateRole(statement) => on_heap(move || ddl::role::create(context, statement)).await,
            Statement::AlterRole(statement) => on_heap(move || ddl::role::alter(context, statement)).await,
            Statement::DropRole(statement) => on_heap(move || ddl::role::drop(context, statement)).await,
            Statement::GrantRoles(statement) => on_heap(move || ddl::grant::roles(context, statement)).await,
            Statement::GrantRights(statement) => on_heap(move || ddl::grant::rights(context, statement)).await,
            Statement::Insert(statement) => on_heap(move || dml::insert::run(context, statement, parameters)).await,
            Statement::Update(statement) => on_heap(move || self.update(statement, parameters)).await,
            Statement::Delete(statement) => on_heap(move || dml::delete::run(context, statement, parameters)).await,
            Statement::Merge(statement) => on_heap(move || self.merge(statement, parameters)).await,
            Statement::With(statement) => on_heap(move || self.with(statement, prepared, parameters)).await,
            Statement::Query(_) => on_heap(move || select::run(context, prepared, parameters)).await,
            Statement::Hbase(_) => Err(Error::internal("a command that was not translated")),
            Statement::Explain(statement) => on_heap(move || self.explain(statement, prepared, parameters)).await,
            Statement::Show(statement) => show::run(context, statement),
            Statement::Describe(statement) => show::describe(context, statement),
            Statement::Use(keyspace) => set::use_keyspace(context, keyspace),
            Statement::Set(statement) => set::set(context, statement),
            Statement::Reset(name) => set::reset(context, name.as_deref()),
            Statement::Discard(what) => on_heap(move || self.discard(*what)).await,
            Statement::SetTransaction(statement) => transaction_control::set(context, statement),
            Statement::SetConstraints(statement) => set::set_constraints(context, statement),
            Statement::Begin(modes) => transaction_control::begin(context, *modes),
            Statement::BeginBatch(statement) => transaction_control::begin_batch(context, statement, parameters),
            Statement::ApplyBatch => {
                on_heap(move || transaction_control::apply_batch(context, prepared.schema.as_ref())).await
            }
            Statement::Commit(end) => on_heap(move || transaction_control::commit(context, end.chain)).await,
            Statement::Rollback(end) => transaction_control::rollback(context, end.chain),
            Statement::Savepoint(name) => transaction_control::savepoint(context, name),
            Statement::Release(name) => transaction_control::release(context, name),
            Statement::RollbackTo(name) => transaction_control::rollback_to(context, name),
            Statement::Prepare(statement) => {
                on_heap(move || self.prepare_named(statement, &prepared.parsed.text)).await
            }
            Statement::Execute(statement) => on_heap(move || self.execute_named(statement, parameters)).await,
            Statement::Deallocate(name) => self.deallocate(name.as_deref()),
            Statement::DeclareCursor(statement) => {
                on_heap(move || cursor_control::declare(context, statement, &prepared.parsed.text, parameters)).await
            }
            Statement::Fetch(statement) => on_heap(move || cursor_control::fetch(context, statement)).await,
            Statement::Close(name) => cursor_control::close(context, name.as_deref()),
            Statement::Copy(statement) => on_heap(move || copy::statement::run(context, statement, parameters)).await,
            Statement::Listen(_) | Statement::Unlisten(_) | Statement::Notify(_) => {
                maintain::channel(context, prepared.statement())
            }
            Statement::Attach(statement) => on_heap(move || attach::attach(context, statement)).await,
            Statement::Detach(statement) => on_heap(move || attach::detach(context, statement)).await,
            Statement::Advise(tables) => on_heap(move || advice::run(context, tables)).await,
            Statement::Maintain(statement) => on_heap(move || maintain::run(context, statement)).await,
        }
    }

    /// EXPLAIN. With ANALYZE what is not planned as a query is run here.
    async fn explain(&mut self, statement: &Explain, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        let explained = explain::explained(prepared)?;
        let mut lines = explain::lines(&mut self.context, statement, explained, parameters).await?;
        if statement.analyze && !explained.is_planned() {
            transaction_control::check_writable(&self.context, explained.statement())?;
            let began = Instant::now();
            let outcome = Box::pin(self.run_once(explained, parameters)).await?;
            lines.extend(explain::measured(outcome, began).await?);
        }
        explain::answer(statement, lines)
    }

    async fn discard(&mut self, what: Discard) -> Result<Outcome> {
        let outcome = set::discard(&mut self.context, what).await?;
        if what == Discard::All {
            self.forget_statement(None);
        }
        Ok(outcome)
    }
}

/// A future on the heap. It is made in here: in the frame of [`Session::route`] there would be room for one of each kind,
/// and statements run within others.
#[inline(never)]
fn on_heap<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::pin(make())
}

fn check_alike(prepared: &Prepared, again: &Prepared) -> Result<()> {
    let alike = match (&prepared.schema, &again.schema) {
        (Some(before), Some(now)) => are_alike(before, now),
        (Some(_), None) => false,
        (None, _) => true,
    };
    if alike { Ok(()) } else { Err(Error::cached_plan()) }
}
