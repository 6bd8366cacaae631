//! `SELECT`, `WITH`, `VALUES`, `TABLE`: `sqlparser`'s trees, less what would write.

use std::ops::ControlFlow;

use keyspan_model::{Error, Result};
use sqlparser::ast::{Query, SetExpr, Visit, Visitor};
use sqlparser::parser::Parser;

use crate::reader::Reader;
use crate::source::start;
use crate::statement::{self, Statement, cql_tails};

/// A query, or one of the statements that may begin with WITH.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    reader.query().map(Statement::Query)
}

impl Reader<'_> {
    /// A query with its text.
    pub(crate) fn query(&mut self) -> Result<statement::Query> {
        if !self.at_query() {
            return Err(self.unexpected());
        }
        let from = self.offset();
        let query = self.parse(Parser::parse_query)?;
        refuse_writes(&query, from)?;
        let tails = cql_tails(&query);
        Ok(statement::Query { query, text: self.text_from(from), tails })
    }
}

/// Refuses INSERT, UPDATE, DELETE and MERGE inside a query, and SELECT INTO.
fn refuse_writes(query: &Query, offset: usize) -> Result<()> {
    struct Writes {
        offset: usize,
    }
    impl Visitor for Writes {
        type Break = Error;

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
            match written(&query.body) {
                Some((what, hint)) => {
                    let at = query.with.as_ref().map_or(self.offset, |with| start(with.with_token.0.span));
                    ControlFlow::Break(
                        Error::not_supported(format!("{what} is not supported")).at(at + 1).with_hint(hint),
                    )
                }
                None => ControlFlow::Continue(()),
            }
        }
    }
    match query.visit(&mut Writes { offset }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn written(body: &SetExpr) -> Option<(&'static str, &'static str)> {
    const APART: &str = "Run the statement by itself, with RETURNING if its rows are needed.";
    match body {
        SetExpr::Insert(_) => Some(("INSERT inside a query", APART)),
        SetExpr::Update(_) => Some(("UPDATE inside a query", APART)),
        SetExpr::Delete(_) => Some(("DELETE inside a query", APART)),
        SetExpr::Merge(_) => Some(("MERGE inside a query", APART)),
        SetExpr::Select(select) if select.into.is_some() => Some(("SELECT INTO", "Write CREATE TABLE … AS SELECT.")),
        SetExpr::SetOperation { left, right, .. } => written(left).or_else(|| written(right)),
        _ => None,
    }
}
