//! `INSERT`, and the tails that UPDATE and DELETE have in common with it.

use keyspan_model::{Error, ErrorKind, Result};
use sqlparser::ast::{self, Expr, Ident, SelectItem, SetExpr, TableFactor, TableWithJoins};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use crate::family::{self, target};
use crate::nested;
use crate::query::has_subquery;
use crate::reader::Reader;
use crate::row_query;
use crate::statement::{
    Assignment, Condition, ConflictAction, Insert, InsertSource, InsertValue, OnConflict, Query, Statement, Using,
};

/// `INSERT INTO table [AS alias] [(columns)] source [tails]`. The tails may stand in any order.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    reader.expect_all(&["insert", "into"])?;
    let table = reader.object_name()?;
    let alias = if reader.eat("as") { Some(reader.name()?) } else { None };
    let has_columns = *reader.token(0) == Token::LParen && !reader.at_query();
    let columns = if has_columns { reader.parenthesized(target)? } else { Vec::new() };
    if reader.at_all(&["overriding", "user"]) {
        let error = reader.not_supported("OVERRIDING USER VALUE is not supported");
        return Err(error.with_hint("Leave the identity column out."));
    }
    let overriding = reader.eat_all(&["overriding", "system", "value"]);
    let mut insert = Insert {
        table,
        alias,
        columns,
        source: InsertSource::DefaultValues,
        using: Using::default(),
        places: Vec::new(),
        overriding,
        if_not_exists: false,
        on_conflict: None,
        returning: None,
    };
    tails(reader, &mut insert)?;
    let given;
    (insert.source, given) = source(reader)?;
    match given {
        Some(places) if insert.columns.is_empty() => insert.places = places,
        Some(places) => insert.columns = keep_at(insert.columns, &places),
        None => {}
    }
    tails(reader, &mut insert)?;
    if insert.if_not_exists && insert.on_conflict.is_some() {
        let error = Error::new(ErrorKind::Syntax, "IF NOT EXISTS and ON CONFLICT exclude each other");
        return Err(error.at(insert.table.position));
    }
    Ok(Statement::Insert(Box::new(insert)))
}

/// The source, and the places of VALUES that it has columns for if DEFAULT stands at others.
fn source(reader: &mut Reader) -> Result<(InsertSource, Option<Vec<usize>>)> {
    if reader.eat("json") {
        let json = reader.expression()?;
        let unset = reader.eat_all(&["default", "unset"]);
        if !unset {
            reader.eat_all(&["default", "null"]);
        }
        return Ok((InsertSource::Json { json, unset }, None));
    }
    if reader.eat_all(&["default", "values"]) {
        return Ok((InsertSource::DefaultValues, None));
    }
    if reader.at("values") {
        let position = reader.position();
        reader.skip();
        let from = reader.offset();
        let rows = reader.list(|reader| reader.parenthesized(value))?;
        if rows.iter().any(|row| row.len() != rows[0].len()) {
            return Err(Error::new(ErrorKind::Syntax, "VALUES lists must all be the same length").at(position));
        }
        let mut values = rows.iter().flatten().flat_map(InsertValue::expressions);
        if !values.any(has_subquery) {
            return Ok((InsertSource::Values(rows), None));
        }
        let given = given(&rows)?;
        let rows = match &given {
            Some(places) => rows.into_iter().map(|row| keep_at(row, places)).collect(),
            None => rows,
        };
        return Ok((InsertSource::Query(query_of(rows, &reader.text_from(from))?), given));
    }
    Ok((InsertSource::Query(reader.query()?), None))
}

/// The places of VALUES that do not say DEFAULT, if others do.
///
/// # Errors
/// 0A000 where only some rows say DEFAULT at a place.
fn given(rows: &[Vec<InsertValue>]) -> Result<Option<Vec<usize>>> {
    let says_default = |row: &[InsertValue], place: usize| row.get(place) == Some(&InsertValue::Default);
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    let mut places = Vec::with_capacity(width);
    for place in 0..width {
        match rows.iter().filter(|row| says_default(row, place)).count() {
            0 => places.push(place),
            count if count == rows.len() => {}
            _ => {
                let message = "VALUES with subqueries where only some rows say DEFAULT are not supported";
                return Err(Error::not_supported(message).with_hint("Insert these rows by a statement of their own."));
            }
        }
    }
    Ok((places.len() < width).then_some(places))
}

fn keep_at<T>(all: Vec<T>, places: &[usize]) -> Vec<T> {
    all.into_iter().enumerate().filter(|(place, _)| places.contains(place)).map(|(_, each)| each).collect()
}

/// Rows of VALUES with subqueries as a query, in their order.
///
/// ```text
/// VALUES (a, (SELECT …)), (b, c)     SELECT c0, c1 FROM (SELECT a AS c0, (SELECT …) AS c1, 0 AS row
///                                    UNION ALL SELECT b, c, 1) AS rows ORDER BY row
/// ```
fn query_of(rows: Vec<Vec<InsertValue>>, text: &str) -> Result<Query> {
    let columns: Vec<String> =
        (0..rows.first().map_or(0, Vec::len)).map(|place| format!("\"\u{1}c{place}\"")).collect();
    let several = rows.len() > 1;
    let outer = match several {
        true => format!("SELECT {} FROM (SELECT 1) AS \"\u{1}rows\" ORDER BY \"\u{1}row\"", columns.join(", ")),
        false => "SELECT 1".to_owned(),
    };
    let mut query = parsed(&outer)?;
    let template = parsed("SELECT 1")?.query.body;
    let mut all: Option<Box<SetExpr>> = None;
    for (number, row) in rows.into_iter().enumerate() {
        let mut body = template.clone();
        if let SetExpr::Select(select) = body.as_mut() {
            let named = |(place, value): (usize, InsertValue)| {
                let expr = value.as_expression().ok_or_else(|| Error::internal("DEFAULT in a query"))?;
                let alias = Ident::with_quote('"', format!("\u{1}c{place}"));
                Ok(if several { SelectItem::ExprWithAlias { expr, alias } } else { SelectItem::UnnamedExpr(expr) })
            };
            select.projection = row.into_iter().enumerate().map(named).collect::<Result<_>>()?;
            if several {
                let expr = Expr::Value(ast::Value::Number(number.to_string(), false).into());
                let alias = Ident::with_quote('"', "\u{1}row");
                select.projection.push(SelectItem::ExprWithAlias { expr, alias });
            }
        }
        all = Some(match all {
            None => body,
            Some(left) => Box::new(SetExpr::SetOperation {
                op: ast::SetOperator::Union,
                set_quantifier: ast::SetQuantifier::All,
                left,
                right: body,
            }),
        });
    }
    let body = match query.query.body.as_mut() {
        SetExpr::Select(select) if several => match select.from.first_mut().map(|from| &mut from.relation) {
            Some(TableFactor::Derived { subquery, .. }) => &mut subquery.body,
            _ => return Err(Error::internal("a subquery in FROM is none")),
        },
        _ => &mut query.query.body,
    };
    if let Some(all) = all {
        *body = all;
    }
    query.text = text.to_owned();
    Ok(query)
}

fn parsed(text: &str) -> Result<Query> {
    match crate::parse_one(text)?.statement {
        Statement::Query(query) => Ok(query),
        _ => Err(Error::internal("a SELECT is not a query")),
    }
}

/// An expression, a collection or DEFAULT.
pub(crate) fn value(reader: &mut Reader) -> Result<InsertValue> {
    if family::at_collection(reader, 0) {
        return family::collection(reader);
    }
    if reader.eat("default") {
        return Ok(InsertValue::Default);
    }
    reader.expression().map(|value| InsertValue::Expression(nested::tuples(value)))
}

fn tails(reader: &mut Reader, insert: &mut Insert) -> Result<()> {
    loop {
        if reader.at_all(&["if", "not", "exists"]) && !insert.if_not_exists {
            insert.if_not_exists = reader.eat_all(&["if", "not", "exists"]);
        } else if reader.at("using") {
            using(reader, &mut insert.using)?;
        } else if reader.at_all(&["on", "conflict"]) && insert.on_conflict.is_none() {
            insert.on_conflict = Some(on_conflict(reader)?);
        } else if reader.at("returning") && insert.returning.is_none() {
            insert.returning = reader.returning()?;
        } else {
            return Ok(());
        }
    }
}

/// `USING TTL n AND TIMESTAMP n`, either or both.
pub(crate) fn using(reader: &mut Reader, using: &mut Using) -> Result<()> {
    reader.expect("using")?;
    loop {
        let place = match reader.word(0) {
            Some("ttl") => &mut using.ttl,
            Some("timestamp") => &mut using.timestamp,
            _ => return Err(reader.unexpected()),
        };
        if place.is_some() {
            return Err(reader.unexpected());
        }
        reader.skip();
        // The next AND belongs to USING, not to the number.
        let precedence = PostgreSqlDialect {}.prec_value(Precedence::And);
        *place = Some(reader.parse(|parser| parser.parse_subexpr(precedence))?);
        if !reader.eat("and") {
            return Ok(());
        }
    }
}

fn on_conflict(reader: &mut Reader) -> Result<OnConflict> {
    reader.expect_all(&["on", "conflict"])?;
    let columns = if *reader.token(0) == Token::LParen { reader.columns()? } else { Vec::new() };
    let constraint = if reader.eat_all(&["on", "constraint"]) { Some(reader.name()?) } else { None };
    if reader.at("where") {
        return Err(reader
            .not_supported("ON CONFLICT (…) WHERE is not supported")
            .with_hint("The row key alone is unique."));
    }
    reader.expect("do")?;
    let action = if reader.eat("nothing") {
        ConflictAction::Nothing
    } else {
        reader.expect_all(&["update", "set"])?;
        ConflictAction::Update { assignments: assignments(reader)?, filter: reader.filter()? }
    };
    Ok(OnConflict { columns, constraint, action })
}

/// `a = 1, (b, c) = (2, 3)`.
pub(crate) fn assignments(reader: &mut Reader) -> Result<Vec<Assignment>> {
    Ok(reader.list(assignment)?.into_iter().flatten().collect())
}

fn assignment(reader: &mut Reader) -> Result<Vec<Assignment>> {
    if *reader.token(0) != Token::LParen {
        let column = target(reader)?;
        if let Some(value) = family::added(reader, &column)? {
            return Ok(vec![Assignment { column, value }]);
        }
        reader.expect_token(&Token::Eq)?;
        let value = match family::assigned(reader)? {
            Some(value) => value,
            None => value(reader)?,
        };
        return Ok(vec![Assignment { column, value }]);
    }
    let columns = reader.parenthesized(target)?;
    reader.expect_token(&Token::Eq)?;
    reader.eat("row");
    let position = reader.position();
    let values = match reader.at_query() {
        true => row_query::parts(reader.expression()?, columns.len()).map_err(|error| error.at(position))?,
        false => reader.parenthesized(value)?,
    };
    if values.len() != columns.len() {
        let message = "number of columns does not match number of values";
        return Err(crate::source::syntax(message, position - 1));
    }
    Ok(columns.into_iter().zip(values).map(|(column, value)| Assignment { column, value }).collect())
}

/// The tails of UPDATE and DELETE, in any order.
#[derive(Default)]
pub(crate) struct Tails {
    /// `WHERE`.
    pub(crate) filter: Option<Expr>,
    /// `IF`.
    pub(crate) condition: Option<Condition>,
    /// `RETURNING`.
    pub(crate) returning: Option<Vec<SelectItem>>,
}

impl Tails {
    /// Reads them.
    pub(crate) fn read(reader: &mut Reader) -> Result<Tails> {
        let mut tails = Tails::default();
        loop {
            if reader.at_all(&["where", "current", "of"]) {
                let error = reader.not_supported("WHERE CURRENT OF is not supported");
                return Err(error.with_hint("Name the row by its key."));
            } else if reader.at("where") && tails.filter.is_none() {
                tails.filter = reader.filter()?;
            } else if reader.at("if") && tails.condition.is_none() {
                tails.condition = Some(condition(reader)?);
            } else if reader.at("returning") && tails.returning.is_none() {
                tails.returning = reader.returning()?;
            } else {
                return Ok(tails);
            }
        }
    }
}

fn condition(reader: &mut Reader) -> Result<Condition> {
    reader.expect("if")?;
    if reader.at("exists") && *reader.token(1) != Token::LParen {
        reader.skip();
        return Ok(Condition::Exists);
    }
    reader.expression().map(Condition::If)
}

/// Tables that a statement reads beside the one that it writes.
pub(crate) fn tables(reader: &mut Reader) -> Result<Vec<TableWithJoins>> {
    reader.parse(|parser| parser.parse_comma_separated(Parser::parse_table_and_joins))
}

/// `[AS] alias`, unless one of the words that may follow a table comes next.
pub(crate) fn alias(reader: &mut Reader) -> Result<Option<String>> {
    let is_alias = reader.eat("as")
        || (matches!(reader.token(0), Token::Word(_))
            && !matches!(reader.word(0), Some("set" | "using" | "where" | "if" | "returning")));
    if is_alias { reader.name().map(Some) } else { Ok(None) }
}
