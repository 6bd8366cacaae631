//! The simple protocol: one message, any number of statements, each answered as it completes.
//!
//! The rule: several statements of one message are one implicit transaction, as far as none of them ends it; the
//! last answer leaves after its commit.

use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};

use crate::connection::Connection;
use crate::engine::{Outcome, Parsed, Statement, TransactionStatus};
use crate::extended::portal_exists;
use crate::failure::Failure;
use crate::rows::{RowSource, ValueFormat, row_description};

impl Connection {
    /// Answers a Query message, up to but not including ReadyForQuery.
    pub(crate) async fn query(&mut self, sql: &str) -> Result<(), Failure> {
        // As in Postgres, a simple query ends the unnamed statement and portal.
        self.statements.remove("");
        self.portals.remove("");
        let answered = self.text(sql).await;
        if answered.is_err() {
            self.session.end_failed_text(sql).await;
        }
        answered
    }

    async fn text(&mut self, sql: &str) -> Result<(), Failure> {
        let statements = self.session.parse(sql)?;
        let Some((last, earlier)) = statements.split_last() else {
            return Ok(self.out.message(&EmptyQueryResponse::new())?);
        };
        if earlier.is_empty() {
            let tag = self.simple_statement(last).await?;
            return Ok(self.out.message(&CommandComplete::new(tag))?);
        }
        let tag = self.several(earlier, last).await?;
        self.control.run(&mut self.reader, &mut self.out, self.session.end_implicit(true)).await?;
        Ok(self.out.message(&CommandComplete::new(tag))?)
    }

    async fn several(&mut self, earlier: &[Parsed], last: &Parsed) -> Result<String, Failure> {
        for statement in earlier {
            // What follows a COMMIT or ROLLBACK is a transaction of its own.
            self.session.begin_implicit();
            let tag = self.simple_statement(statement).await?;
            self.out.message(&CommandComplete::new(tag))?;
            if self.out.is_full() {
                self.control.send(&mut self.reader, self.out.flush()).await?;
            }
        }
        self.session.begin_implicit();
        self.simple_statement(last).await
    }

    /// Runs a statement, sends its rows, and answers its tag.
    async fn simple_statement(&mut self, parsed: &Parsed) -> Result<String, Failure> {
        self.control.begin_statement();
        if let Some(tag) = self.change_names(parsed)? {
            return Ok(tag);
        }
        let prepared = self.control.run(&mut self.reader, &mut self.out, self.session.prepare(parsed, &[])).await?;
        let outcome = self.run(&prepared, &[]).await?;
        if outcome.copy.is_some() {
            return self.copy(outcome).await;
        }
        let Outcome { tag, rows, .. } = outcome;
        let Some(rows) = rows else { return Ok(tag.text(0)) };
        let formats = vec![ValueFormat::Text; rows.schema().fields().len()];
        self.out.message(&row_description(rows.schema(), &formats)?)?;
        let mut source = RowSource::new(rows, formats, self.text_style())?;
        let sent = source.send(&mut self.out, &mut self.reader, &mut self.control, None).await?;
        drop(source);
        self.tell_changes()?;
        Ok(tag.text(sent.rows))
    }

    /// Forgets prepared statements and portals of the protocol that a statement of the language names: they share one
    /// space of names with its own statements and cursors. Answers the tag if that was all there was to do.
    ///
    /// # Errors
    /// 42P03 for a cursor that is to have the name of a portal.
    pub(crate) fn change_names(&mut self, parsed: &Parsed) -> Result<Option<String>, Failure> {
        // A transaction that has failed takes none of these.
        if self.session.status() == TransactionStatus::Failed {
            return Ok(None);
        }
        Ok(match &parsed.statement {
            Statement::Deallocate(Some(name)) => {
                let found = self.statements.remove(name);
                found.map(|_| {
                    self.session.forget_statement(Some(name));
                    "DEALLOCATE".to_owned()
                })
            }
            Statement::Deallocate(None) => {
                self.statements.clear();
                None
            }
            Statement::DeclareCursor(cursor) if self.portals.contains_key(&cursor.name) => {
                return Err(portal_exists(&cursor.name).into());
            }
            Statement::Close(Some(name)) => self.portals.remove(name).map(|_| "CLOSE CURSOR".to_owned()),
            Statement::Close(None) => {
                self.portals.clear();
                None
            }
            _ => None,
        })
    }
}
