//! A statement whose parameter types and output columns are settled, ready to run many times.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use keyspan_cql::{Parsed, Statement};
use keyspan_model::{Catalog, ColumnType, Error, ErrorKind, Result, Value};
use keyspan_query::PlannedQuery;

use crate::expression::Evaluator;
use crate::outcome::{Outcome, Tag};
use crate::point::PointSelect;
use crate::session::Session;

/// A prepared statement. Cheap to clone; valid for the session that made it.
///
/// When tables have changed since, running it prepares it anew; if its columns would then be others, that is an error.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Types of `$1`, `$2`, …; of an array that of its elements.
    pub parameters: Vec<ColumnType>,
    /// The places in [`Prepared::parameters`] of arrays, and whether their elements are said to be `oid`s. Their values
    /// are given as texts: `{1,2,NULL}`.
    pub arrays: BTreeMap<usize, bool>,
    /// The columns of its rows; none: it returns no rows.
    pub schema: Option<SchemaRef>,
    pub(crate) parsed: Arc<Parsed>,
    /// The statement as it was written, if it has array parameters: their elements are put into it.
    pub(crate) template: Option<Arc<Parsed>>,
    pub(crate) plan: Plan,
    /// The types the client gave, to prepare again with.
    pub(crate) given: Vec<Option<ColumnType>>,
    /// The catalog it was prepared against.
    pub(crate) catalog: Arc<Catalog>,
}

/// What is settled about a statement beyond its text.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// Nothing: it is worked out when it runs.
    None,
    /// A SELECT by whole key.
    Point(Arc<PointSelect>),
    /// A SELECT that DataFusion planned.
    Query(PlannedQuery),
    /// What EXPLAIN explains.
    Explained(Arc<Prepared>),
}

impl Prepared {
    /// The statement.
    pub fn statement(&self) -> &Statement {
        &self.parsed.statement
    }

    /// The statement with its source text.
    pub fn parsed(&self) -> &Parsed {
        &self.parsed
    }
}

/// SQL's `PREPARE`.
pub(crate) async fn prepare(session: &mut Session, statement: &keyspan_cql::Prepare) -> Result<Outcome> {
    if session.statements.contains_key(&statement.name) {
        let message = format!("prepared statement \"{}\" already exists", statement.name);
        return Err(Error::new(ErrorKind::DuplicateStatement, message));
    }
    if !can_be_prepared(&statement.statement.statement) {
        return Err(Error::new(ErrorKind::Syntax, "only SELECT, INSERT, UPDATE, DELETE and VALUES can be prepared"));
    }
    let types = statement.types.iter().copied().map(Some).collect();
    let prepared = Box::pin(crate::prepare::prepare(session, Arc::new((*statement.statement).clone()), types)).await?;
    session.statements.insert(statement.name.clone(), prepared);
    Ok(Outcome::done(Tag::plain("PREPARE")))
}

fn can_be_prepared(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Query(_) | Statement::Scan(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)
    )
}

/// SQL's `EXECUTE`.
pub(crate) async fn execute(
    session: &mut Session,
    statement: &keyspan_cql::Execute,
    parameters: &[Value],
) -> Result<Outcome> {
    let Some(prepared) = session.statements.get(&statement.name).cloned() else { return Err(unknown(&statement.name)) };
    if statement.arguments.len() != prepared.parameters.len() {
        let message = format!("wrong number of parameters for prepared statement \"{}\"", statement.name);
        let (expected, got) = (prepared.parameters.len(), statement.arguments.len());
        let detail = format!("Expected {expected} parameters but got {got}.");
        return Err(Error::new(ErrorKind::Syntax, message).with_detail(detail));
    }
    let evaluator = Evaluator::new(session);
    let mut arguments = Vec::with_capacity(statement.arguments.len());
    for (index, (argument, ty)) in statement.arguments.iter().zip(&prepared.parameters).enumerate() {
        let ty = if prepared.arrays.contains_key(&index) { ColumnType::Text } else { *ty };
        arguments.push(evaluator.constant(session, argument, ty, parameters)?);
    }
    Box::pin(session.run_prepared(&prepared, &arguments)).await
}

/// SQL's `DEALLOCATE`.
pub(crate) fn deallocate(session: &mut Session, name: Option<&str>) -> Result<Outcome> {
    match name {
        None => {
            session.statements.clear();
            Ok(Outcome::done(Tag::plain("DEALLOCATE ALL")))
        }
        Some(name) => match session.statements.remove(name) {
            Some(_) => Ok(Outcome::done(Tag::plain("DEALLOCATE"))),
            None => Err(unknown(name)),
        },
    }
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::UndefinedStatement, format!("prepared statement \"{name}\" does not exist"))
}
