//! Text to tokens: PostgreSQL's lexical rules with CQL's comments and literals.
//!
//! Our own lexer emits `sqlparser`'s tokens, without space and comments. Literals become one token here, so that the
//! parser cannot misread them: `1h30m` would be `1 AS h30m`, an all-digit uuid would be arithmetic, `x > ?-1` would be
//! the operator `?-`.
//!
//! | text | token |
//! |---|---|
//! | `'..'`, `E'..'`, `U&'..'`, `N'..'`, `$$..$$` | `SingleQuotedString`, decoded, so later stages know one kind |
//! | `0xCAFE`, `X'CAFE'` | `HexStringLiteral` (a blob) |
//! | `62c36092-82a1-3a00-93d1-46196ee77204` | the two tokens of `UUID '…'` |
//! | `1h30m`, `P1DT2H` | the two tokens of `INTERVAL '…'`, in PostgreSQL's words |
//! | `?`, `:name`, `$1` | `Placeholder`, still as written |
//! | a name | `Word`, folded to lower case unless quoted |

use std::borrow::Cow;

use keyspan_model::{Error, ErrorKind};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::literal::{decode_escapes, decode_unicode, duration_words, is_uuid, iso_duration_words};
use crate::operator::operator;
use crate::source::{span, syntax};

/// The most tokens one input may have.
pub(crate) const MAX_TOKENS: usize = 4_000_000;

/// An error of the lexer.
#[derive(Debug)]
pub(crate) struct LexError {
    /// The error.
    pub(crate) error: Error,
    /// The text ended inside a string, name or comment: more text could complete it.
    pub(crate) unterminated: bool,
}

impl From<Error> for LexError {
    fn from(error: Error) -> Self {
        LexError { error, unterminated: false }
    }
}

/// The tokens of a text.
pub(crate) fn tokenize(text: &str) -> Result<Vec<TokenWithSpan>, LexError> {
    let mut lexer = Lexer { text, ascii: text.is_ascii(), byte: 0, character: 0, start: (0, 0), tokens: Vec::new() };
    while lexer.token()? {
        if lexer.tokens.len() > MAX_TOKENS {
            let error = Error::new(ErrorKind::TooComplex, format!("statement has more than {MAX_TOKENS} tokens"));
            return Err(error.with_hint("Send it in parts, or load the rows with COPY.").into());
        }
    }
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    text: &'a str,
    ascii: bool,
    /// The position, in bytes and in characters.
    byte: usize,
    character: usize,
    /// Where the token began, in bytes and in characters.
    start: (usize, usize),
    tokens: Vec<TokenWithSpan>,
}

type Lexed<T> = Result<T, LexError>;

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.byte..]
    }

    fn advance(&mut self, bytes: usize) {
        let passed = &self.text[self.byte..self.byte + bytes];
        self.character += if self.ascii { bytes } else { passed.chars().count() };
        self.byte += bytes;
    }

    fn push(&mut self, token: Token) {
        let span = span(self.start.1, self.character);
        self.tokens.push(TokenWithSpan { token, span });
    }

    /// Pushes after taking `bytes`.
    fn take(&mut self, bytes: usize, token: Token) {
        self.advance(bytes);
        self.push(token);
    }

    fn unterminated(&self, what: &str) -> LexError {
        let near: String = self.text[self.start.0..].chars().take(40).collect();
        let error = syntax(format!("unterminated {what} at or near \"{near}\""), self.start.1);
        LexError { error, unterminated: true }
    }

    /// Takes one token; false at the end.
    fn token(&mut self) -> Lexed<bool> {
        self.skip_space()?;
        self.start = (self.byte, self.character);
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(false) };
        match first {
            '\'' => self.string(0)?,
            '"' => self.quoted_name(0)?,
            '$' => self.dollar()?,
            '0'..='9' => self.number()?,
            // Between the bounds of a slice; the second point begins no number.
            '.' if rest.starts_with("..") => {
                self.take(1, Token::Period);
                self.start = (self.byte, self.character);
                self.take(1, Token::Period);
            }
            '.' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number()?,
            ':' => self.colon(),
            '?' => self.question(),
            c if is_name_start(c) => self.word()?,
            _ => self.punctuation(first)?,
        }
        Ok(true)
    }

    fn skip_space(&mut self) -> Lexed<()> {
        loop {
            let rest = self.rest();
            let space = rest.len() - rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}').len();
            if space > 0 {
                self.advance(space);
            } else if rest.starts_with("--") || rest.starts_with("//") {
                self.advance(rest.find('\n').unwrap_or(rest.len()));
            } else if rest.starts_with("/*") {
                self.skip_comment()?;
            } else {
                return Ok(());
            }
        }
    }

    /// A `/* … */` comment; they nest.
    fn skip_comment(&mut self) -> Lexed<()> {
        self.start = (self.byte, self.character);
        let (rest, mut depth, mut at) = (self.rest().as_bytes(), 0usize, 0usize);
        while at < rest.len() {
            if rest[at..].starts_with(b"/*") {
                depth += 1;
                at += 2;
            } else if rest[at..].starts_with(b"*/") {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    self.advance(at);
                    return Ok(());
                }
            } else {
                at += 1;
            }
        }
        Err(self.unterminated("/* comment"))
    }

    /// The bytes of a quoted text that begins after `prefix` bytes, without its quotes, and its whole length.
    fn quoted(&self, prefix: usize, quote: char, escapes: bool, what: &str) -> Lexed<(&'a str, usize)> {
        let body = &self.rest()[prefix + 1..];
        let (bytes, mut at) = (body.as_bytes(), 0);
        while at < bytes.len() {
            if escapes && bytes[at] == b'\\' {
                at += 2;
            } else if bytes[at] != quote as u8 {
                at += 1;
            } else if bytes.get(at + 1) == Some(&(quote as u8)) {
                at += 2;
            } else {
                return Ok((&body[..at], prefix + at + 2));
            }
        }
        Err(self.unterminated(what))
    }

    /// `'…'`, and what follows on later lines: `'a'` newline `'b'` is `'ab'`.
    fn string(&mut self, prefix: usize) -> Lexed<()> {
        let mut value = String::new();
        let mut prefix = prefix;
        loop {
            let (body, length) = self.quoted(prefix, '\'', false, "quoted string")?;
            value.push_str(&body.replace("''", "'"));
            self.advance(length);
            let Some(space) = self.continued() else { break };
            self.advance(space);
            prefix = 0;
        }
        self.no_zero(&value)?;
        self.push(Token::SingleQuotedString(value));
        Ok(())
    }

    /// The space before a string that continues this one: it must hold a line break.
    fn continued(&self) -> Option<usize> {
        let rest = self.rest();
        let after = rest.trim_start();
        let space = &rest[..rest.len() - after.len()];
        (after.starts_with('\'') && space.contains('\n')).then_some(space.len())
    }

    fn no_zero(&self, value: &str) -> Lexed<()> {
        if value.contains('\0') {
            let error = Error::new(ErrorKind::InvalidEncoding, "invalid byte sequence for encoding \"UTF8\": 0x00");
            return Err(error.at(self.start.1 + 1).into());
        }
        Ok(())
    }

    fn escaped_string(&mut self) -> Lexed<()> {
        let (body, length) = self.quoted(1, '\'', true, "quoted string")?;
        let value = decode_escapes(body).map_err(|message| syntax(message, self.start.1))?;
        self.no_zero(&value)?;
        self.take(length, Token::SingleQuotedString(value));
        Ok(())
    }

    fn unicode_string(&mut self) -> Lexed<()> {
        let (body, length) = self.quoted(2, '\'', false, "quoted string")?;
        let value = decode_unicode(&body.replace("''", "'")).map_err(|message| syntax(message, self.start.1))?;
        self.no_zero(&value)?;
        self.take(length, Token::SingleQuotedString(value));
        Ok(())
    }

    fn quoted_name(&mut self, prefix: usize) -> Lexed<()> {
        let (body, length) = self.quoted(prefix, '"', false, "quoted identifier")?;
        let mut name = body.replace("\"\"", "\"");
        if prefix > 0 {
            name = decode_unicode(&name).map_err(|message| syntax(message, self.start.1))?;
        }
        if name.is_empty() {
            return Err(syntax("zero-length delimited identifier at or near \"\"\"\"", self.start.1).into());
        }
        self.no_zero(&name)?;
        self.take(length, Token::Word(Word { value: name, quote_style: Some('"'), keyword: Keyword::NoKeyword }));
        Ok(())
    }

    /// `$1`, `$$…$$`, `$tag$…$tag$`.
    fn dollar(&mut self) -> Lexed<()> {
        let rest = &self.rest()[1..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 {
            let text = format!("${}", &rest[..digits]);
            if rest[digits..].starts_with(is_name_start) {
                return Err(self.junk("parameter", 1 + digits));
            }
            self.take(1 + digits, Token::Placeholder(text));
            return Ok(());
        }
        let tag = rest.len() - rest.trim_start_matches(|c: char| is_name_part(c) && c != '$').len();
        if !rest[tag..].starts_with('$') {
            return Err(syntax("syntax error at or near \"$\"", self.start.1).into());
        }
        let mark = &self.rest()[..tag + 2];
        let Some(length) = rest[tag + 1..].find(mark) else { return Err(self.unterminated("dollar-quoted string")) };
        let value = rest[tag + 1..tag + 1 + length].to_owned();
        self.no_zero(&value)?;
        self.take(2 * mark.len() + length, Token::SingleQuotedString(value));
        Ok(())
    }

    fn junk(&self, after: &str, bytes: usize) -> LexError {
        let rest = self.rest();
        let name = rest[bytes..].len() - rest[bytes..].trim_start_matches(is_name_part).len();
        let near = &rest[..bytes + name];
        syntax(format!("trailing junk after {after} at or near \"{near}\""), self.start.1).into()
    }

    /// A number, or one of CQL's literals that begin with a digit: uuid, duration, blob.
    fn number(&mut self) -> Lexed<()> {
        let rest = self.rest();
        let run = &rest[..rest.len() - rest.trim_start_matches(is_name_part).len()];
        if self.uuid() {
            return Ok(());
        }
        if let Some(hex) = run.strip_prefix("0x").or_else(|| run.strip_prefix("0X")) {
            return self.blob(hex, run.len());
        }
        if let Some(words) = duration_words(run) {
            self.interval(run.len(), words);
            return Ok(());
        }
        let length = number_length(rest);
        if rest[length..].starts_with(is_name_start) {
            return Err(self.junk("numeric literal", length));
        }
        self.take(length, Token::Number(rest[..length].replace('_', ""), false));
        Ok(())
    }

    fn blob(&mut self, hex: &str, length: usize) -> Lexed<()> {
        if !hex.chars().all(|c| c.is_ascii_hexdigit()) || !hex.len().is_multiple_of(2) {
            let near = &self.rest()[..length];
            return Err(syntax(format!("invalid hexadecimal blob literal at or near \"{near}\""), self.start.1).into());
        }
        self.take(length, Token::HexStringLiteral(hex.to_owned()));
        Ok(())
    }

    fn interval(&mut self, length: usize, words: String) {
        self.take(length, Token::make_keyword("interval"));
        self.push(Token::SingleQuotedString(words));
    }

    fn uuid(&mut self) -> bool {
        let rest = self.rest();
        let Some(text) = rest.get(..36).filter(|text| is_uuid(text)) else { return false };
        if rest[36..].starts_with(|c: char| is_name_part(c) || c == '-') {
            return false;
        }
        self.take(36, Token::make_keyword("uuid"));
        self.push(Token::SingleQuotedString(text.to_ascii_lowercase()));
        true
    }

    /// `::`, `:=`, `:name`, `:`.
    fn colon(&mut self) {
        let rest = &self.rest()[1..];
        if rest.starts_with(':') {
            self.take(2, Token::DoubleColon);
        } else if rest.starts_with('=') {
            self.take(2, Token::Assignment);
        } else if !self.after_operand() && rest.starts_with(is_name_start) {
            let name = &rest[..rest.len() - rest.trim_start_matches(is_name_part).len()];
            self.take(1 + name.len(), Token::Placeholder(format!(":{}", fold(name))));
        } else {
            self.take(1, Token::Colon);
        }
    }

    /// A parameter where an operand must stand; after an operand, jsonb's `?`, `?|`, `?&`.
    fn question(&mut self) {
        let rest = &self.rest()[1..];
        let is_operator = self.after_operand()
            && (rest.starts_with(['|', '&']) && !rest.starts_with("||") || begins_operand(rest.trim_start()));
        if !is_operator {
            self.take(1, Token::Placeholder("?".into()));
        } else if rest.starts_with('|') {
            self.take(2, Token::QuestionPipe);
        } else if rest.starts_with('&') {
            self.take(2, Token::QuestionAnd);
        } else {
            self.take(1, Token::Question);
        }
    }

    /// Whether an operand has just ended, so that an operator must follow.
    fn after_operand(&self) -> bool {
        match self.tokens.last().map(|last| &last.token) {
            Some(Token::Word(word)) if word.quote_style.is_none() => !awaits_operand(&word.value),
            Some(token) => matches!(
                token,
                Token::Word(_)
                    | Token::Number(..)
                    | Token::SingleQuotedString(_)
                    | Token::HexStringLiteral(_)
                    | Token::Placeholder(_)
                    | Token::RParen
                    | Token::RBracket
                    | Token::RBrace
            ),
            None => false,
        }
    }

    /// Whether the last word wants a name after it, so that `FROM P1D` is a table.
    fn names_follow(&self) -> bool {
        let word = self.tokens.last().and_then(|last| crate::budget::bare(&last.token));
        matches!(word, Some("as" | "from" | "into" | "join" | "on" | "only" | "table" | "to"))
    }

    /// A name or keyword, or one of the literals that begin with a letter.
    fn word(&mut self) -> Lexed<()> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        match (bytes[0].to_ascii_lowercase(), bytes.get(1)) {
            (b'e', Some(b'\'')) => return self.escaped_string(),
            (b'n', Some(b'\'')) => return self.string(1),
            (b'x', Some(b'\'')) => {
                let (hex, length) = self.quoted(1, '\'', false, "hexadecimal string")?;
                return self.blob(hex, length);
            }
            (b'b', Some(b'\'')) => {
                let error = Error::not_supported("bit strings are not supported").at(self.start.1 + 1);
                return Err(error.with_hint("Write a blob as 0xCAFE.").into());
            }
            (b'u', Some(b'&')) if bytes.get(2) == Some(&b'\'') => return self.unicode_string(),
            (b'u', Some(b'&')) if bytes.get(2) == Some(&b'"') => return self.quoted_name(2),
            _ => {}
        }
        if self.uuid() {
            return Ok(());
        }
        let name = &rest[..rest.len() - rest.trim_start_matches(is_name_part).len()];
        let may_be_duration = name.starts_with('P')
            && !self.after_operand()
            && !self.names_follow()
            && !rest[name.len()..].starts_with(['.', '(', '"']);
        if let Some(words) = iso_duration_words(name).filter(|_| may_be_duration) {
            self.interval(name.len(), words);
            return Ok(());
        }
        self.take(name.len(), word(&fold(name)));
        Ok(())
    }

    fn punctuation(&mut self, first: char) -> Lexed<()> {
        let token = match first {
            ',' => Token::Comma,
            '(' => Token::LParen,
            ')' => Token::RParen,
            '[' => Token::LBracket,
            ']' => Token::RBracket,
            '{' => Token::LBrace,
            '}' => Token::RBrace,
            ';' => Token::SemiColon,
            '.' => Token::Period,
            '\\' => Token::Backslash,
            _ => {
                let Some((length, token)) = operator(self.rest()) else {
                    return Err(syntax(format!("syntax error at or near \"{first}\""), self.start.1).into());
                };
                self.take(length, token);
                return Ok(());
            }
        };
        self.take(1, token);
        Ok(())
    }
}

/// The token of a folded word. Words that `sqlparser` takes for other systems' keywords and PostgreSQL does not are
/// plain names.
pub(crate) fn word(folded: &str) -> Token {
    const PLAIN: &[&str] = &["convert", "lambda", "prewhere", "safe_cast", "settings", "try_convert"];
    match Token::make_word(folded, None) {
        Token::Word(word) if PLAIN.contains(&folded) => Token::Word(Word { keyword: Keyword::NoKeyword, ..word }),
        token => token,
    }
}

/// An unquoted name as it is meant.
fn fold(name: &str) -> Cow<'_, str> {
    if name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(name.to_lowercase())
    }
}

/// Whether a name may begin with this character.
pub(crate) fn is_name_start(c: char) -> bool {
    c.is_alphabetic() || c == '_' || (!c.is_ascii() && !c.is_whitespace() && !c.is_control())
}

/// Whether a name may go on with this character.
pub(crate) fn is_name_part(c: char) -> bool {
    is_name_start(c) || c.is_ascii_digit() || c == '$'
}

/// Whether after this word (folded) an operand must stand and no operator can.
fn awaits_operand(word: &str) -> bool {
    const AWAITING: &[&str] = &[
        "between",
        "by",
        "contains",
        "escape",
        "ilike",
        "in",
        "is",
        "key",
        "like",
        "limit",
        "offset",
        "returning",
        "set",
        "similar",
        "timestamp",
        "ttl",
        "values",
    ];
    const OPERANDS: &[&str] =
        &["current_date", "current_time", "current_timestamp", "current_user", "end", "false", "null", "true"];
    AWAITING.contains(&word) || (crate::keyword::is_reserved(word) && !OPERANDS.contains(&word))
}

/// Whether the text begins with something that can stand after an operator.
fn begins_operand(rest: &str) -> bool {
    let name = &rest[..rest.len() - rest.trim_start_matches(is_name_part).len()];
    if rest.starts_with(is_name_start) && !name.is_empty() {
        const TAILS: &[&str] =
            &["allow", "if", "per", "union", "using", "where", "escape", "as", "is", "between", "like"];
        let folded = fold(name);
        return !crate::keyword::is_reserved(&folded) && !TAILS.contains(&&*folded);
    }
    rest.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '\'' | '"' | '$' | '(' | ':' | '?'))
}

/// The length of the number that the text begins with.
fn number_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let digits = |from: usize| {
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let mut at = from;
        while is_digit(at) || (at > from && bytes.get(at) == Some(&b'_') && is_digit(at + 1)) {
            at += 1;
        }
        at
    };
    let mut at = digits(0);
    if bytes.get(at) == Some(&b'.') && bytes.get(at + 1) != Some(&b'.') {
        at = digits(at + 1);
    }
    if bytes.get(at).is_some_and(|b| b.eq_ignore_ascii_case(&b'e')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        let end = digits(at + 1 + sign);
        if end > at + 1 + sign {
            at = end;
        }
    }
    at
}
