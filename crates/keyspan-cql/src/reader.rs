//! Reads one statement's tokens: words and names ourselves, expressions and queries through `sqlparser`.
//!
//! The rule: words are compared as text, not as `sqlparser`'s keywords, so that no word is special before our grammar
//! says so; and every error has a position and PostgreSQL's wording.

use keyspan_model::{Error, ErrorKind, Result};
use sqlparser::ast::{Expr, SelectItem, Value};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Span, Token, TokenWithSpan};

use crate::dialect::KeyspanDialect;
use crate::keyword::{is_reserved, keywords, nearest_keyword};
use crate::source::{SourceText, end, start, syntax};
use crate::statement::{ColumnName, ObjectName, Parsed, RoleName, SourceExpression, Statement};

/// How deep `sqlparser` may recurse. Beyond what the token budget lets through it is only prefix operators.
const MAX_RECURSION: usize = 1_200;

/// Reads one statement of any kind.
pub(crate) type ParseStatement = fn(&mut Reader<'_>) -> Result<Statement>;

/// The tokens of one statement and where we are in them.
pub(crate) struct Reader<'a> {
    parser: Parser<'a>,
    /// The whole input.
    pub(crate) source: &'a SourceText<'a>,
    /// The character offset (from 0) where the statement ends.
    end: usize,
    /// Of `>>`, the next token, the first bracket has been taken.
    half_taken: bool,
}

impl<'a> Reader<'a> {
    /// A reader at the beginning of a statement.
    pub(crate) fn new(dialect: &'a KeyspanDialect, source: &'a SourceText<'a>, tokens: Vec<TokenWithSpan>) -> Self {
        let end = tokens.last().map_or(0, |last| end(last.span));
        let parser = Parser::new(dialect).with_recursion_limit(MAX_RECURSION).with_tokens_with_locations(tokens);
        Reader { parser, source, end, half_taken: false }
    }

    // ---- looking ----

    /// The `n`th token from here, counted from 0.
    pub(crate) fn token(&self, n: usize) -> &Token {
        &self.parser.peek_nth_token_ref(n).token
    }

    /// The `n`th token from here as a folded, unquoted word.
    pub(crate) fn word(&self, n: usize) -> Option<&str> {
        crate::budget::bare(self.token(n))
    }

    /// Whether the next word is this one.
    pub(crate) fn at(&self, word: &str) -> bool {
        self.word(0) == Some(word)
    }

    /// Whether the next words are these.
    pub(crate) fn at_all(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(n, word)| self.word(n) == Some(word))
    }

    /// Whether nothing is left.
    pub(crate) fn at_end(&self) -> bool {
        *self.token(0) == Token::EOF
    }

    /// The character offset (from 0) of the next token.
    pub(crate) fn offset(&self) -> usize {
        let span = self.parser.peek_token_ref().span;
        if span.start.line == 0 { self.end } else { start(span) }
    }

    /// The position (from 1) of the next token, for errors and for trees.
    pub(crate) fn position(&self) -> usize {
        self.offset() + 1
    }

    /// The source text from a character offset up to the last token taken.
    pub(crate) fn text_from(&self, from: usize) -> String {
        let mut text = self.source.slice(from, self.taken_end().max(from)).to_owned();
        if self.half_taken {
            text.push('>');
        }
        text
    }

    /// The character offset just after the last token taken, by us or by `sqlparser`.
    fn taken_end(&self) -> usize {
        let span = self.parser.get_current_token().span;
        if span.start.line == 0 { self.end } else { end(span) }
    }

    // ---- taking ----

    /// Takes the next token, whatever it is.
    pub(crate) fn skip(&mut self) {
        if !self.at_end() {
            self.parser.advance_token();
        }
    }

    /// Takes the word if it comes next.
    pub(crate) fn eat(&mut self, word: &str) -> bool {
        let found = self.at(word);
        if found {
            self.skip();
        }
        found
    }

    /// Takes the words if they come next.
    pub(crate) fn eat_all(&mut self, words: &[&str]) -> bool {
        let found = self.at_all(words);
        if found {
            words.iter().for_each(|_| self.skip());
        }
        found
    }

    /// Takes one of the words if it comes next.
    pub(crate) fn eat_any(&mut self, words: &[&'static str]) -> Option<&'static str> {
        let found = words.iter().copied().find(|word| self.at(word))?;
        self.skip();
        Some(found)
    }

    /// Takes the word, which must come next.
    pub(crate) fn expect(&mut self, word: &str) -> Result<()> {
        if self.eat(word) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// A name; CQL writes those of roles in quotes of strings, too.
    pub(crate) fn word_or_string(&mut self) -> Result<String> {
        if matches!(self.token(0), Token::SingleQuotedString(_)) { self.string() } else { self.name() }
    }

    /// A role that there is, by name, or one of the session's.
    pub(crate) fn role_name(&mut self) -> Result<RoleName> {
        Ok(match self.eat_any(&["public", "current_user", "current_role", "session_user"]) {
            Some("public") => RoleName::Public,
            Some("session_user") => RoleName::Session,
            Some(_) => RoleName::Current,
            None => RoleName::Named(self.word_or_string()?),
        })
    }

    /// Takes the words, which must come next.
    pub(crate) fn expect_all(&mut self, words: &[&str]) -> Result<()> {
        words.iter().try_for_each(|word| self.expect(word))
    }

    /// Takes the token if it comes next.
    pub(crate) fn eat_token(&mut self, token: &Token) -> bool {
        let found = self.token(0) == token;
        if found {
            self.skip();
        }
        found
    }

    /// Takes the token, which must come next.
    pub(crate) fn expect_token(&mut self, token: &Token) -> Result<()> {
        if self.eat_token(token) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Takes `>`, which must come next; the tokenizer takes two of them for one operator.
    pub(crate) fn close_bracket(&mut self) -> Result<()> {
        if std::mem::take(&mut self.half_taken) {
            self.skip();
            return Ok(());
        }
        if *self.token(0) == Token::ShiftRight {
            self.half_taken = true;
            return Ok(());
        }
        self.expect_token(&Token::Gt)
    }

    /// A name: quoted, or any word that PostgreSQL does not reserve.
    pub(crate) fn name(&mut self) -> Result<String> {
        match self.token(0) {
            Token::Word(word) if word.quote_style.is_some() || !is_reserved(&word.value) => {
                let name = word.value.clone();
                self.skip();
                Ok(name)
            }
            _ => Err(self.unexpected()),
        }
    }

    /// A column's name.
    pub(crate) fn column(&mut self) -> Result<ColumnName> {
        let position = self.position();
        Ok(ColumnName { name: self.name()?, qualifier: None, position })
    }

    /// `(a, b, …)`.
    pub(crate) fn columns(&mut self) -> Result<Vec<ColumnName>> {
        self.parenthesized(Reader::column)
    }

    /// `(a, b, …)` as plain names.
    pub(crate) fn names(&mut self) -> Result<Vec<String>> {
        self.parenthesized(Reader::name)
    }

    /// `name`, `keyspace.name` or `database.keyspace.name`.
    pub(crate) fn object_name(&mut self) -> Result<ObjectName> {
        let position = self.position();
        let mut parts = vec![self.name()?];
        while self.eat_token(&Token::Period) {
            // After a period every word is a name.
            let Token::Word(word) = self.token(0) else { return Err(self.unexpected()) };
            parts.push(word.value.clone());
            self.skip();
        }
        ObjectName::of_parts(parts, position)
    }

    /// One or more of something, with commas between.
    pub(crate) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat_token(&Token::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// A list in parentheses.
    pub(crate) fn parenthesized<T>(&mut self, item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect_token(&Token::LParen)?;
        let items = self.list(item)?;
        self.expect_token(&Token::RParen)?;
        Ok(items)
    }

    /// A quoted string.
    pub(crate) fn string(&mut self) -> Result<String> {
        let Token::SingleQuotedString(value) = self.token(0) else { return Err(self.unexpected()) };
        let value = value.clone();
        self.skip();
        Ok(value)
    }

    /// A whole number, perhaps with a sign.
    pub(crate) fn integer(&mut self) -> Result<i64> {
        let negative = self.eat_token(&Token::Minus);
        if !negative {
            self.eat_token(&Token::Plus);
        }
        let Token::Number(digits, _) = self.token(0) else { return Err(self.unexpected()) };
        let text = if negative { format!("-{digits}") } else { digits.clone() };
        let Ok(value) = text.parse() else { return Err(self.unexpected()) };
        self.skip();
        Ok(value)
    }

    /// The end of the statement, which must come here.
    pub(crate) fn finish(&self) -> Result<()> {
        if self.at_end() { Ok(()) } else { Err(self.unexpected()) }
    }

    // ---- what sqlparser reads ----

    /// Runs a part of `sqlparser`'s grammar.
    pub(crate) fn parse<T>(&mut self, part: impl FnOnce(&mut Parser<'a>) -> Result<T, ParserError>) -> Result<T> {
        part(&mut self.parser).map_err(|error| self.mapped(error))
    }

    /// An expression.
    pub(crate) fn expression(&mut self) -> Result<Expr> {
        // INSERTs of many rows are literals: building those here is several times faster.
        if matches!(self.token(1), Token::Comma | Token::RParen) {
            let TokenWithSpan { token, span } = self.parser.peek_token_ref();
            let value = match token {
                Token::Number(digits, _) => Some(Value::Number(digits.clone(), false)),
                Token::SingleQuotedString(text) => Some(Value::SingleQuotedString(text.clone())),
                Token::HexStringLiteral(hex) => Some(Value::HexStringLiteral(hex.clone())),
                Token::Placeholder(number) => Some(Value::Placeholder(number.clone())),
                _ => None,
            };
            if let Some(value) = value {
                let value = value.with_span(*span);
                self.skip();
                return Ok(Expr::Value(value));
            }
        }
        self.parse(Parser::parse_expr)
    }

    /// An expression with its text.
    pub(crate) fn source_expression(&mut self) -> Result<SourceExpression> {
        let from = self.offset();
        let expression = self.expression()?;
        Ok(SourceExpression { expression, text: self.text_from(from) })
    }

    /// Whether a query begins here.
    pub(crate) fn at_query(&self) -> bool {
        let mut n = 0;
        while *self.token(n) == Token::LParen {
            n += 1;
        }
        match self.word(n) {
            Some("select" | "with") => true,
            // These may be a column's name in a list.
            Some("values") => *self.token(n + 1) == Token::LParen,
            _ => false,
        }
    }

    /// A statement inside another, read by `parse`. Whoever cut the tokens fills in its parameters.
    pub(crate) fn nested(&mut self, parse: ParseStatement) -> Result<Parsed> {
        let offset = self.offset();
        let statement = parse(self)?;
        Ok(Parsed { statement, text: self.text_from(offset), offset, parameters: Vec::new() })
    }

    /// `RETURNING …`, if it comes next.
    pub(crate) fn returning(&mut self) -> Result<Option<Vec<SelectItem>>> {
        if !self.eat("returning") {
            return Ok(None);
        }
        self.parse(|parser| parser.parse_comma_separated(Parser::parse_select_item)).map(Some)
    }

    /// `WHERE …`, if it comes next.
    pub(crate) fn filter(&mut self) -> Result<Option<Expr>> {
        if self.eat("where") { self.expression().map(Some) } else { Ok(None) }
    }

    // ---- errors ----

    /// The next token does not fit.
    pub(crate) fn unexpected(&self) -> Error {
        self.syntax_error(self.parser.peek_token_ref().span)
    }

    /// Something the language knows and Keyspan does not do, at the next token.
    pub(crate) fn not_supported(&self, message: impl Into<String>) -> Error {
        Error::not_supported(message).at(self.position())
    }

    /// PostgreSQL's syntax error at a token; an empty span is the end of the input.
    fn syntax_error(&self, at: Span) -> Error {
        if at.start.line == 0 {
            return self.with_near(syntax("syntax error at end of input", self.end), None, self.end);
        }
        let text = self.source.of(at);
        if text.starts_with('{') {
            return Error::not_supported("collection literals are not yet supported").at(start(at) + 1);
        }
        let near: String = text.chars().take(64).collect();
        self.with_near(syntax(format!("syntax error at or near \"{near}\""), start(at)), Some(at), start(at))
    }

    /// Adds the nearest keyword, if the word at the error, or the one before it, looks like a misspelled one.
    fn with_near(&self, error: Error, at: Option<Span>, offset: usize) -> Error {
        let mut suspects: Vec<Span> = at.into_iter().collect();
        let mut n = 0;
        let mut before = None;
        loop {
            let token = self.parser.token_at(n);
            if token.token == Token::EOF || start(token.span) >= offset {
                break;
            }
            before = matches!(&token.token, Token::Word(word) if word.quote_style.is_none()).then_some(token.span);
            n += 1;
        }
        suspects.extend(before);
        let near = suspects.into_iter().find_map(|span| {
            let word = self.source.of(span);
            let is_word = word.chars().all(char::is_alphabetic) && word.chars().count() > 2;
            let candidates: Vec<&str> = keywords();
            if !is_word || candidates.contains(&word.to_uppercase().as_str()) {
                return None;
            }
            nearest_keyword(word, candidates)
        });
        match near {
            Some(near) => error.with_hint(format!("Perhaps you meant {near}.")),
            None => error,
        }
    }

    /// `sqlparser`'s error as ours.
    fn mapped(&self, error: ParserError) -> Error {
        let message = match error {
            ParserError::RecursionLimitExceeded => {
                return Error::new(ErrorKind::TooComplex, "statement is too complex: its expressions nest too deeply")
                    .at(self.position())
                    .with_hint("Split the statement, or name parts of it in WITH.");
            }
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        };
        let (text, place) = match message.rsplit_once(" at Line: ") {
            Some((text, place)) => {
                (text, place.rsplit_once("Column: ").and_then(|(_, column)| column.trim().parse::<u64>().ok()))
            }
            None => (message.as_str(), None),
        };
        match place {
            _ if text.ends_with("found: EOF") => self.syntax_error(Span::empty()),
            Some(column) => self.syntax_error(self.span_at(column)),
            None if text.starts_with("Expected") => self.unexpected(),
            None => syntax(text.to_owned(), self.offset()),
        }
    }

    /// The span of the token that begins at this column.
    fn span_at(&self, column: u64) -> Span {
        (0..)
            .map(|n| self.parser.token_at(n))
            .take_while(|token| token.token != Token::EOF)
            .find(|token| token.span.start.column >= column)
            .map_or_else(Span::empty, |token| token.span)
    }
}
