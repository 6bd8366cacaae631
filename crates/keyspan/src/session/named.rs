//! SQL's PREPARE, EXECUTE and DEALLOCATE.

use std::sync::Arc;

use keyspan_cql::Statement;
use keyspan_model::{Error, ErrorKind, Result, Value};
use keyspan_query::ShownStatement;

use super::Session;
use crate::expression::Evaluator;
use crate::outcome::{Outcome, Tag};
use crate::transaction_control;

impl Session {
    /// SQL's `PREPARE`; `text` is all of it.
    pub(super) async fn prepare_named(&mut self, statement: &keyspan_cql::Prepare, text: &str) -> Result<Outcome> {
        if !can_be_prepared(&statement.statement.statement) {
            return Err(Error::new(
                ErrorKind::Syntax,
                "only SELECT, INSERT, UPDATE, DELETE and VALUES can be prepared",
            ));
        }
        let types = statement.types.iter().copied().map(Some).collect();
        let prepared = Box::pin(self.prepare_again(Arc::new((*statement.statement).clone()), types)).await?;
        let parameters = prepared.parameters.iter().map(|ty| keyspan_query::type_oid(*ty)).collect();
        self.context.peer.add_prepared(ShownStatement {
            name: statement.name.clone(),
            text: text.to_string(),
            prepared: self.context.statement_time,
            parameters,
            by_sql: true,
        })?;
        self.statements.insert(statement.name.clone(), prepared);
        Ok(Outcome::done(Tag::plain("PREPARE")))
    }

    /// SQL's `EXECUTE`.
    pub(super) async fn execute_named(
        &mut self,
        statement: &keyspan_cql::Execute,
        parameters: &[Value],
    ) -> Result<Outcome> {
        let Some(prepared) = self.statements.get(&statement.name).cloned() else {
            return Err(unknown(&statement.name));
        };
        if statement.arguments.len() != prepared.parameters.len() {
            let message = format!("wrong number of parameters for prepared statement \"{}\"", statement.name);
            let (expected, got) = (prepared.parameters.len(), statement.arguments.len());
            let detail = format!("Expected {expected} parameters but got {got}.");
            return Err(Error::new(ErrorKind::Syntax, message).with_detail(detail));
        }
        transaction_control::check_writable(&self.context, prepared.statement())?;
        let evaluator = Evaluator::new(&self.context);
        let mut arguments = Vec::with_capacity(statement.arguments.len());
        for (argument, ty) in statement.arguments.iter().zip(&prepared.parameters) {
            arguments.push(evaluator.constant(&mut self.context, argument, *ty, parameters)?);
        }
        Box::pin(self.run_once(&prepared, &arguments)).await
    }

    /// SQL's `DEALLOCATE`.
    pub(super) fn deallocate(&mut self, name: Option<&str>) -> Result<Outcome> {
        match name {
            None => {
                self.forget_statement(None);
                Ok(Outcome::done(Tag::plain("DEALLOCATE ALL")))
            }
            Some(name) if self.statements.contains_key(name) => {
                self.forget_statement(Some(name));
                Ok(Outcome::done(Tag::plain("DEALLOCATE")))
            }
            Some(name) => Err(unknown(name)),
        }
    }
}

/// Whether PREPARE takes a statement.
pub(super) fn can_be_prepared(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Query(_)
            | Statement::Hbase(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Merge(_)
            | Statement::With(_)
    )
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::UndefinedStatement, format!("prepared statement \"{name}\" does not exist"))
}
