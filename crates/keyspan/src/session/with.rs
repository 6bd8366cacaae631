//! WITH of statements that write: one after another, on one snapshot, in one transaction.
//!
//! ```text
//! WITH x AS (DELETE FROM t RETURNING *) INSERT INTO u SELECT * FROM x
//! snapshot ─▶ DELETE … RETURNING ─▶ rows given as x ─▶ INSERT ─▶ COMMIT
//! ```
//!
//! As in PostgreSQL the queries of the whole see none of its writes: rows go from one to another by RETURNING only. What
//! an UPDATE or DELETE changes it reads from the newest state, that of the statements before it among it.

use std::sync::Arc;

use keyspan_cql::{Parsed, With};
use keyspan_model::{Result, Value};

use super::Session;
use crate::given::named_rows;
use crate::outcome::Outcome;
use crate::prepared::Prepared;
use crate::transaction_control;

impl Session {
    /// WITH.
    pub(super) async fn with(
        &mut self,
        statement: &With,
        prepared: &Prepared,
        parameters: &[Value],
    ) -> Result<Outcome> {
        let own = transaction_control::begin_several(&mut self.context)?;
        let before = self.context.given.len();
        let done = self.parts(statement, prepared, parameters).await;
        self.context.given.truncate(before);
        self.end_several(own, done).await
    }

    /// Ends the transaction that a statement of several writes has opened for itself.
    pub(super) async fn end_several(&mut self, own: bool, done: Result<Outcome>) -> Result<Outcome> {
        if !own {
            return done;
        }
        match done {
            Ok(outcome) => self.end_implicit(true).await.map(|()| outcome),
            Err(error) => {
                self.end_implicit(false).await?;
                Err(error)
            }
        }
    }

    async fn parts(&mut self, statement: &With, prepared: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        // Taken before anything is written, and kept to the end.
        self.context.snapshot()?;
        let mut tag = None;
        for part in &statement.parts {
            let outcome = self.part(&part.body, prepared, parameters).await?;
            tag = Some(outcome.tag.clone());
            if let Some(rows) = outcome.rows {
                let schema = rows.schema().clone();
                let batches = rows.collect().await?;
                self.context.given.push(named_rows(part, &schema, batches)?);
            }
            transaction_control::next_write(&mut self.context);
        }
        let outcome = self.part(&statement.statement, prepared, parameters).await?.read_all().await?;
        Ok(match tag.filter(|_| statement.is_returning) {
            Some(tag) => Outcome { tag, ..outcome },
            None => outcome,
        })
    }

    /// Runs one of the statements; `whole` has the parameters' types.
    async fn part(&mut self, parsed: &Parsed, whole: &Prepared, parameters: &[Value]) -> Result<Outcome> {
        let types = whole.parameters.iter().copied().map(Some).collect();
        let prepared = self.prepare_again(Arc::new(parsed.clone()), types).await?;
        Box::pin(self.run_once(&prepared, parameters)).await
    }
}
