//! The dialect we show to `sqlparser`: PostgreSQL's, with eleven differences.
//!
//! VALUES may stand where a subquery may, ON is no alias, CONTAINS, ANN OF and pgvector's distances are operators
//! (`vector`), CQL's literals of collections and user types are expressions (`nested`), geometric types are off (`point`,
//! `path`, `line` are columns), SETTINGS is on (only [`crate::misread`] writes it), BETWEEN may be SYMMETRIC, the first
//! value of an IN list may be a subquery, joins nest without parentheses where [`crate::form`] finds that they do, and
//! expressions are metered: `sqlparser` tries a reserved word first as such and then as a name, which takes exponential
//! time on some nested input. Beyond a number of steps in proportion to the text it stops.

use std::any::TypeId;
use std::cell::Cell;

use sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    Ident, ObjectName, Statement, Subscript,
};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::{self, Keyword};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use crate::{nested, vector};

/// The function that gives the values of a map, and the elements of a set or list.
const COLLECTION_VALUES: &str = "collection_values";

/// The dialect of one statement.
#[derive(Debug)]
pub(crate) struct KeyspanDialect {
    postgres: PostgreSqlDialect,
    /// Expressions that may still be begun.
    steps: Cell<usize>,
    /// Whether `a JOIN b JOIN c ON … ON …` nests.
    nested_joins: bool,
}

impl KeyspanDialect {
    /// The dialect for a statement of so many tokens.
    pub(crate) fn new(tokens: usize) -> Self {
        KeyspanDialect {
            postgres: PostgreSqlDialect {},
            steps: Cell::new(20_000 + tokens.saturating_mul(64)),
            nested_joins: false,
        }
    }

    /// The same for a statement whose joins nest without parentheses, or do not.
    pub(crate) fn nesting_joins(self, nested_joins: bool) -> Self {
        KeyspanDialect { nested_joins, ..self }
    }
}

macro_rules! forward {
    ($($flag:ident)*) => { $(fn $flag(&self) -> bool { self.postgres.$flag() })* };
}

impl Dialect for KeyspanDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        self.postgres.identifier_quote_style(identifier)
    }

    fn is_identifier_start(&self, c: char) -> bool {
        self.postgres.is_identifier_start(c)
    }

    fn is_identifier_part(&self, c: char) -> bool {
        self.postgres.is_identifier_part(c)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        self.postgres.is_reserved_for_identifier(keyword)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        if contains(parser).is_some() || vector::is_ann(parser) {
            return Some(Ok(self.prec_value(Precedence::Like)));
        }
        if vector::distance(parser).is_some() {
            return Some(Ok(self.prec_value(Precedence::PgOther)));
        }
        self.postgres.get_next_precedence(parser)
    }

    /// ON CONFLICT may follow a query without FROM.
    fn is_column_alias(&self, keyword: &Keyword, _: &mut Parser) -> bool {
        *keyword != Keyword::ON && !keywords::RESERVED_FOR_COLUMN_ALIAS.contains(keyword)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        self.postgres.prec_value(precedence)
    }

    fn parse_statement(&self, parser: &mut Parser) -> Option<Result<Statement, ParserError>> {
        self.postgres.parse_statement(parser)
    }

    /// Meters every expression, and answers the commonest ones without `sqlparser`'s attempt to read a type first.
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let steps = self.steps.get();
        if steps == 0 {
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        self.steps.set(steps - 1);
        let [token, next, third] = parser.peek_tokens_ref::<3>();
        match &token.token {
            // `(VALUES (1))`, which `sqlparser` takes for a call.
            Token::LParen if begins_values(&next.token, &third.token) => {
                parser.advance_token();
                let query = parser.parse_query();
                let query = query.and_then(|query| parser.expect_token(&Token::RParen).map(|_| query));
                Some(query.map(Expr::Subquery))
            }
            Token::Number(..) | Token::SingleQuotedString(_) | Token::HexStringLiteral(_) | Token::Placeholder(_) => {
                Some(parser.parse_value().map(Expr::Value))
            }
            Token::LBrace => Some(nested::literal(parser)),
            Token::Word(word) if word.keyword == Keyword::NoKeyword && ends_name(&next.token) => {
                let name = Ident { value: word.value.clone(), quote_style: word.quote_style, span: token.span };
                parser.advance_token();
                Some(Ok(Expr::Identifier(name)))
            }
            _ => None,
        }
    }

    /// CQL's CONTAINS and ANN OF; distances; BETWEEN SYMMETRIC; `x IN ((SELECT …), y)`, of which `sqlparser` takes the
    /// first value for the subquery of all; and `a IS DISTINCT FROM b AND c`, of which it takes all that follows FROM
    /// for the right side.
    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        if let Some(key) = contains(parser) {
            (0..if key { 2 } else { 1 }).for_each(|_| parser.advance_token());
            let right = parser.parse_subexpr(self.prec_value(Precedence::Like)).map(nested::tuples);
            return Some(right.map(|right| if key { has_key(expr, right) } else { has_value(expr, right) }));
        }
        if let Some((function, tokens, precedence)) = vector::operator(parser) {
            (0..tokens).for_each(|_| parser.advance_token());
            let right = parser.parse_subexpr(self.prec_value(precedence));
            return Some(right.map(|right| nested::call(function, vec![expr.clone(), right])));
        }
        if let Some(negated) = in_list_of_subqueries(parser) {
            (0..if negated { 3 } else { 2 }).for_each(|_| parser.advance_token());
            let list = parser.parse_comma_separated(Parser::parse_expr);
            let list = list.and_then(|list| parser.expect_token(&Token::RParen).map(|_| list));
            return Some(list.map(|list| Expr::InList { expr: Box::new(expr.clone()), list, negated }));
        }
        if let Some(negated) = in_values(parser) {
            (0..if negated { 3 } else { 2 }).for_each(|_| parser.advance_token());
            let query = parser.parse_query();
            let query = query.and_then(|query| parser.expect_token(&Token::RParen).map(|_| query));
            let expr = Box::new(expr.clone());
            return Some(query.map(|subquery| Expr::InSubquery { expr, subquery, negated }));
        }
        if let Some(negated) = between_symmetric(parser) {
            (0..if negated { 3 } else { 2 }).for_each(|_| parser.advance_token());
            return Some(symmetric(parser, expr, negated));
        }
        let tokens = parser.peek_tokens_ref::<4>();
        let keyword = |at: usize, keyword| matches!(&tokens[at].token, Token::Word(word) if word.keyword == keyword);
        let negated = keyword(1, Keyword::NOT);
        let at = if negated { 2 } else { 1 };
        let distinct = keyword(0, Keyword::IS) && keyword(at, Keyword::DISTINCT) && keyword(at + 1, Keyword::FROM);
        if !distinct {
            return None;
        }
        (0..at + 2).for_each(|_| parser.advance_token());
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is));
        Some(right.map(|right| {
            let (left, right) = (Box::new(expr.clone()), Box::new(right));
            if negated { Expr::IsNotDistinctFrom(left, right) } else { Expr::IsDistinctFrom(left, right) }
        }))
    }

    fn supports_geometric_types(&self) -> bool {
        false
    }

    fn supports_left_associative_joins_without_parens(&self) -> bool {
        !self.nested_joins
    }

    fn supports_settings(&self) -> bool {
        true
    }

    fn supports_in_empty_list(&self) -> bool {
        true
    }

    forward! {
        supports_filter_during_aggregation supports_group_by_expr allow_extract_custom allow_extract_single_quotes
        supports_factorial_operator supports_bitwise_shift_operators supports_named_fn_args_with_colon_operator
        supports_named_fn_args_with_expr_name supports_empty_projections supports_array_typedef_with_brackets
        supports_notnull_operator supports_interval_options supports_comma_separated_trim
        supports_xml_expressions
    }
}

/// Whether `[NOT] IN (VALUES (` comes next, and NOT with it.
fn in_values(parser: &Parser) -> Option<bool> {
    let tokens = parser.peek_tokens_ref::<5>();
    let keyword = |at: usize, keyword| matches!(&tokens[at].token, Token::Word(word) if word.keyword == keyword);
    let negated = keyword(0, Keyword::NOT);
    let at = usize::from(negated);
    let is_in = keyword(at, Keyword::IN) && tokens[at + 1].token == Token::LParen;
    (is_in && begins_values(&tokens[at + 2].token, &tokens[at + 3].token)).then_some(negated)
}

/// Whether a query begins with `VALUES (`.
fn begins_values(first: &Token, second: &Token) -> bool {
    matches!(first, Token::Word(word) if word.keyword == Keyword::VALUES) && *second == Token::LParen
}

/// Whether `IN ((…), …` comes next, and NOT before it.
fn in_list_of_subqueries(parser: &Parser) -> Option<bool> {
    let tokens = parser.peek_tokens_ref::<4>();
    let keyword = |at: usize, keyword| matches!(&tokens[at].token, Token::Word(word) if word.keyword == keyword);
    let negated = keyword(0, Keyword::NOT);
    let at = usize::from(negated);
    let parenthesis = |at: usize| tokens[at].token == Token::LParen;
    if !keyword(at, Keyword::IN) || !parenthesis(at + 1) || !parenthesis(at + 2) {
        return None;
    }
    // Each token once: to ask for the one at a place counts all before it.
    let ahead = (0..).map(|place| parser.peek_nth_token_no_skip(place).token);
    let mut ahead = ahead.filter(|token| !matches!(token, Token::Whitespace(_))).skip(at + 3);
    let mut depth = 1;
    while depth > 0 {
        match ahead.next()? {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::EOF => return None,
            _ => {}
        }
    }
    (ahead.next()? == Token::Comma).then_some(negated)
}

/// Whether `[NOT] BETWEEN SYMMETRIC` comes next, and NOT with it.
fn between_symmetric(parser: &Parser) -> Option<bool> {
    let tokens = parser.peek_tokens_ref::<3>();
    let is = |at: usize, name: &str| crate::budget::bare(&tokens[at].token) == Some(name);
    match () {
        () if is(0, "between") && is(1, "symmetric") => Some(false),
        () if is(0, "not") && is(1, "between") && is(2, "symmetric") => Some(true),
        () => None,
    }
}

/// `x BETWEEN SYMMETRIC a AND b` as `(x BETWEEN a AND b OR x BETWEEN b AND a)`.
fn symmetric(parser: &mut Parser, expr: &Expr, negated: bool) -> Result<Expr, ParserError> {
    let precedence = PostgreSqlDialect {}.prec_value(Precedence::Between);
    let low = parser.parse_subexpr(precedence)?;
    parser.expect_keyword_is(Keyword::AND)?;
    let high = parser.parse_subexpr(precedence)?;
    let between = |low: &Expr, high: &Expr| {
        let (expr, low, high) = (Box::new(expr.clone()), Box::new(low.clone()), Box::new(high.clone()));
        Box::new(Expr::Between { expr, negated, low, high })
    };
    let op = if negated { BinaryOperator::And } else { BinaryOperator::Or };
    let (left, right) = (between(&low, &high), between(&high, &low));
    Ok(Expr::Nested(Box::new(Expr::BinaryOp { left, op, right })))
}

/// Whether CONTAINS comes next, and KEY behind it. A column may have that name: an operand must follow.
fn contains(parser: &Parser) -> Option<bool> {
    let [word, key, operand] = parser.peek_tokens_ref::<3>();
    let is = |token: &Token, name: &str| matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name));
    let begins_operand = |token: &Token| match token {
        Token::Word(word) => matches!(word.keyword, Keyword::NoKeyword | Keyword::TRUE | Keyword::FALSE),
        Token::Number(..) | Token::SingleQuotedString(_) | Token::HexStringLiteral(_) | Token::Placeholder(_) => true,
        token => matches!(token, Token::LParen | Token::Minus) || nested::begins(token),
    };
    if !is(&word.token, "contains") {
        return None;
    }
    if is(&key.token, "key") && begins_operand(&operand.token) {
        return Some(true);
    }
    begins_operand(&key.token).then_some(false)
}

/// `m CONTAINS KEY k` as `m[k] IS NOT NULL`: a map has no nulls.
fn has_key(map: &Expr, key: Expr) -> Expr {
    let access_chain = vec![AccessExpr::Subscript(Subscript::Index { index: key })];
    Expr::IsNotNull(Box::new(Expr::CompoundFieldAccess { root: Box::new(map.clone()), access_chain }))
}

/// `c CONTAINS v` as `v = ANY (collection_values(c))`.
fn has_value(collection: &Expr, value: Expr) -> Expr {
    let argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(collection.clone()));
    let args = FunctionArgumentList { duplicate_treatment: None, args: vec![argument], clauses: Vec::new() };
    let values = Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(COLLECTION_VALUES)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(args),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    });
    let (left, right) = (Box::new(value), Box::new(values));
    Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, is_some: false }
}

/// Whether a name before this token is a plain column.
fn ends_name(token: &Token) -> bool {
    matches!(
        token,
        Token::Comma
            | Token::RParen
            | Token::Eq
            | Token::Neq
            | Token::Lt
            | Token::Gt
            | Token::LtEq
            | Token::GtEq
            | Token::RBrace
            | Token::RBracket
            | Token::EOF
    )
}
