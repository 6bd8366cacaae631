//! CQL's literals of values in values, as calls that the rest of Keyspan knows by name:
//!
//! ```text
//! {'k': 1}          cql_map('k', 1)
//! {'a', 'b'}        cql_set('a', 'b')
//! ['a', 'b']        cql_list('a', 'b')       inside of another literal, and where a value is written; else an array
//! {street: 'x'}     cql_user('street', 'x')
//! (1, 'x')          cql_tuple(1, 'x')        inside of another literal, and where a value is written
//! {}                cql_map()                which an empty set is, too
//! ```

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName, Value,
};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Word};

const MAP: &str = "cql_map";
const SET: &str = "cql_set";
const LIST: &str = "cql_list";
const USER: &str = "cql_user";
const TUPLE: &str = "cql_tuple";

/// A literal, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub enum NestedLiteral<'a> {
    /// Keys and values.
    Map(Vec<(&'a Expr, &'a Expr)>),
    /// Elements.
    Set(Vec<&'a Expr>),
    /// Elements.
    List(Vec<&'a Expr>),
    /// Fields by name.
    User(Vec<(&'a str, &'a Expr)>),
    /// Values by place.
    Tuple(Vec<&'a Expr>),
}

/// The literal that an expression is, if it is one.
pub fn nested_literal(expr: &Expr) -> Option<NestedLiteral<'_>> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else { return None };
    let [part] = name.0.as_slice() else { return None };
    let name = part.as_ident()?.value.as_str();
    if !name.starts_with("cql_") {
        return None;
    }
    let args = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    let args = args.collect::<Option<Vec<&Expr>>>()?;
    let pairs = || args.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    Some(match name {
        MAP => NestedLiteral::Map(pairs().collect()),
        SET => NestedLiteral::Set(args),
        LIST => NestedLiteral::List(args),
        TUPLE => NestedLiteral::Tuple(args),
        USER => NestedLiteral::User(pairs().map(|(name, value)| Some((text(name)?, value))).collect::<Option<_>>()?),
        _ => return None,
    })
}

/// `from_json('…')`: a value that JSON says, of the type of the column that gets it.
pub fn from_json(json: &str) -> Expr {
    call("from_json", vec![Expr::Value(Value::SingleQuotedString(json.to_owned()).into())])
}

/// The argument of a call of `from_json`, or `fromJson`.
pub fn from_json_argument(expr: &Expr) -> Option<&Expr> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else { return None };
    let ([part], [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))]) = (name.0.as_slice(), list.args.as_slice())
    else {
        return None;
    };
    let name = &part.as_ident()?.value;
    (name.eq_ignore_ascii_case("from_json") || name.eq_ignore_ascii_case("fromjson")).then_some(argument)
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// A call of a function.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Whether a literal in brackets begins with this token.
pub(crate) fn begins(token: &Token) -> bool {
    matches!(token, Token::LBrace | Token::LBracket)
}

/// A literal in brackets, which comes next.
pub(crate) fn literal(parser: &mut Parser) -> Result<Expr, ParserError> {
    if parser.consume_token(&Token::LBracket) {
        let elements = elements(parser, &Token::RBracket, Vec::new())?;
        return Ok(call(LIST, elements));
    }
    parser.expect_token(&Token::LBrace)?;
    if parser.consume_token(&Token::RBrace) {
        return Ok(call(MAP, Vec::new()));
    }
    let [first, colon] = parser.peek_tokens_ref::<2>();
    if let (Token::Word(word), Token::Colon) = (&first.token, &colon.token)
        && !is_value(word)
    {
        let name = word.value.clone();
        parser.advance_token();
        return fields(parser, name);
    }
    let first = part(parser)?;
    if !parser.consume_token(&Token::Colon) {
        let all = match parser.consume_token(&Token::Comma) {
            true => elements(parser, &Token::RBrace, vec![first])?,
            false => {
                parser.expect_token(&Token::RBrace)?;
                vec![first]
            }
        };
        return Ok(call(SET, all));
    }
    let mut all = vec![first, part(parser)?];
    while parser.consume_token(&Token::Comma) {
        all.push(part(parser)?);
        parser.expect_token(&Token::Colon)?;
        all.push(part(parser)?);
    }
    parser.expect_token(&Token::RBrace)?;
    Ok(call(MAP, all))
}

/// Whether a word is a value and no name: the key of a map.
fn is_value(word: &Word) -> bool {
    let values = ["null", "true", "false"];
    word.quote_style.is_none() && values.iter().any(|value| word.value.eq_ignore_ascii_case(value))
}

/// The fields of a user type after the first one's name.
fn fields(parser: &mut Parser, first: String) -> Result<Expr, ParserError> {
    let name = |name: String| Expr::Value(Value::SingleQuotedString(name).into());
    let mut all = vec![name(first)];
    loop {
        parser.expect_token(&Token::Colon)?;
        all.push(part(parser)?);
        if !parser.consume_token(&Token::Comma) {
            break;
        }
        let next = parser.parse_identifier()?;
        all.push(name(next.value));
    }
    parser.expect_token(&Token::RBrace)?;
    Ok(call(USER, all))
}

fn elements(parser: &mut Parser, end: &Token, mut all: Vec<Expr>) -> Result<Vec<Expr>, ParserError> {
    if all.is_empty() && parser.consume_token(end) {
        return Ok(all);
    }
    loop {
        all.push(part(parser)?);
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    parser.expect_token(end)?;
    Ok(all)
}

fn part(parser: &mut Parser) -> Result<Expr, ParserError> {
    parser.parse_expr().map(tuples)
}

/// The value with tuples and lists as literals, where rows of values and arrays have no place.
pub fn tuples(expr: Expr) -> Expr {
    match expr {
        Expr::Tuple(values) => call(TUPLE, values.into_iter().map(tuples).collect()),
        Expr::Array(array) if !array.named => call(LIST, array.elem.into_iter().map(tuples).collect()),
        other => other,
    }
}

/// `{key: value, …}`.
pub(crate) fn map_of(entries: &[(Expr, Expr)]) -> Expr {
    call(MAP, entries.iter().flat_map(|(key, value)| [key.clone(), value.clone()]).collect())
}

/// `{element, …}`.
pub(crate) fn set_of(elements: &[Expr]) -> Expr {
    call(SET, elements.to_vec())
}

/// `[element, …]`.
pub(crate) fn list_of(elements: &[Expr]) -> Expr {
    call(LIST, elements.to_vec())
}
