//! `SELECT`, `WITH`, `VALUES`, `TABLE`: `sqlparser`'s trees, less what would write; SELECT INTO is CREATE TABLE AS.

use std::ops::ControlFlow;

use keyspan_model::{Error, Result};
use sqlparser::ast::{Expr, Ident, Query, SelectInto, SelectItem, SetExpr, Spanned, Visit, Visitor};
use sqlparser::parser::Parser;

use crate::reader::Reader;
use crate::source::{end, start, syntax};
use crate::statement::{self, CreateTableAs, ObjectName, OnCommit, Statement, cql_tails, folded};

/// A query; with INTO it makes a table.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    let from = reader.offset();
    let mut query = reader.parse(Parser::parse_query)?;
    let into = match query.body.as_mut() {
        SetExpr::Select(select) => select.into.take(),
        _ => None,
    };
    let query = finished(reader, query, from)?;
    match into {
        Some(into) => made_table(into, query, from),
        None => Ok(Statement::Query(query)),
    }
}

/// `SELECT … INTO [TEMPORARY] table FROM …` as CREATE TABLE AS.
fn made_table(into: SelectInto, query: statement::Query, offset: usize) -> Result<Statement> {
    let parts: Vec<String> = into.name.0.iter().filter_map(|part| part.as_ident().map(folded)).collect();
    let name = ObjectName::of_parts(parts, offset + 1)?;
    Ok(Statement::CreateTableAs(Box::new(CreateTableAs {
        name,
        if_not_exists: false,
        columns: Vec::new(),
        primary_key: None,
        clustering_order: Vec::new(),
        options: Vec::new(),
        query,
        with_data: true,
        on_commit: into.temporary.then_some(OnCommit::PreserveRows),
    })))
}

fn finished(reader: &Reader, query: Box<Query>, from: usize) -> Result<statement::Query> {
    refuse_writes(&query, from)?;
    let tails = cql_tails(&query);
    Ok(statement::Query { query, text: reader.text_from(from), tails })
}

impl Reader<'_> {
    /// A query with its text.
    pub(crate) fn query(&mut self) -> Result<statement::Query> {
        if !self.at_query() {
            return Err(self.unexpected());
        }
        let from = self.offset();
        let query = self.parse(Parser::parse_query)?;
        finished(self, query, from)
    }
}

/// Refuses INSERT, UPDATE, DELETE and MERGE inside a query, and SELECT INTO.
pub(crate) fn refuse_writes(query: &Query, offset: usize) -> Result<()> {
    struct Writes {
        offset: usize,
    }
    impl Visitor for Writes {
        type Break = Error;

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
            if let Some((named, alias)) = text_alias(&query.body) {
                let message = format!("syntax error at or near \"'{}'\"", alias.value);
                let hint = "Write a comma before it, or the name of a column in double quotes.";
                // The alias has no span.
                let named = named.span();
                let at = if named.start.line == 0 { self.offset } else { end(named) };
                return ControlFlow::Break(syntax(message, at).with_hint(hint));
            }
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
        SetExpr::Select(select) if select.into.is_some() => {
            Some(("SELECT INTO inside a query", "Write CREATE TABLE … AS SELECT."))
        }
        SetExpr::SetOperation { left, right, .. } => written(left).or_else(|| written(right)),
        _ => None,
    }
}

/// A column and its alias that is a text: a comma before it was forgotten.
fn text_alias(body: &SetExpr) -> Option<(&Expr, &Ident)> {
    match body {
        SetExpr::Select(select) => select.projection.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if alias.quote_style == Some('\'') => Some((expr, alias)),
            _ => None,
        }),
        SetExpr::SetOperation { left, right, .. } => text_alias(left).or_else(|| text_alias(right)),
        _ => None,
    }
}

/// Whether an expression has a query within it.
pub fn has_subquery(expression: &Expr) -> bool {
    struct Finder;
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    // Most values are literals.
    !matches!(expression, Expr::Value(_)) && expression.visit(&mut Finder).is_break()
}
