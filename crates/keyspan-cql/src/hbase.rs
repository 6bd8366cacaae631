//! The commands of HBase's shell: `verb 'table', argument, …, {NAME => value, …}`, as Ruby reads them.
//!
//! The rule: a verb is HBase's only where a text in single quotes follows, which SQL and CQL never have there. What the
//! arguments mean is decided where the table is known.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{HbaseArgument, HbaseCommand, HbaseValue, HbaseVerb, ObjectName, Statement};

const VERBS: &[(&str, HbaseVerb)] = &[
    ("scan", HbaseVerb::Scan),
    ("get", HbaseVerb::Get),
    ("put", HbaseVerb::Put),
    ("delete", HbaseVerb::Delete),
    ("deleteall", HbaseVerb::DeleteAll),
    ("count", HbaseVerb::Count),
    ("incr", HbaseVerb::Incr),
    ("create", HbaseVerb::Create),
    ("describe", HbaseVerb::Describe),
    ("desc", HbaseVerb::Describe),
    ("list", HbaseVerb::List),
    ("exists", HbaseVerb::Exists),
    ("truncate", HbaseVerb::Truncate),
    ("drop", HbaseVerb::Drop),
    ("disable", HbaseVerb::Disable),
    ("enable", HbaseVerb::Enable),
];

/// The command that begins here.
pub(crate) fn verb(reader: &Reader) -> Option<HbaseVerb> {
    let word = reader.word(0)?;
    let (_, verb) = VERBS.iter().find(|(name, _)| *name == word)?;
    let next = reader.token(1);
    let is_command = match verb {
        // Neither begins anything else.
        HbaseVerb::Scan => true,
        HbaseVerb::List if *next == Token::EOF => true,
        _ => matches!(next, Token::SingleQuotedString(_)),
    };
    is_command.then_some(*verb)
}

/// `verb ['table'] [, argument …] [, {NAME => value, …}]`; the braces may be left out.
pub(crate) fn statement(reader: &mut Reader, verb: HbaseVerb) -> Result<Statement> {
    reader.skip();
    let table = if reader.at_end() && verb == HbaseVerb::List { None } else { Some(table(reader, verb)?) };
    let mut command = HbaseCommand { verb, table, arguments: Vec::new() };
    while reader.eat_token(&Token::Comma) {
        let position = reader.position();
        let is_attribute = *reader.token(1) == Token::RArrow;
        let value = if is_attribute { HbaseValue::Attributes(vec![attribute(reader)?]) } else { value(reader)? };
        match (command.arguments.last_mut().map(|last| &mut last.value), value) {
            // Without braces they are one list all the same.
            (Some(HbaseValue::Attributes(last)), HbaseValue::Attributes(more)) if is_attribute => last.extend(more),
            (_, value) => command.arguments.push(HbaseArgument { value, position }),
        }
    }
    Ok(Statement::Hbase(Box::new(command)))
}

/// `'table'`, `'namespace:table'`, or, of a scan, a name as SQL writes it; of LIST a pattern.
fn table(reader: &mut Reader, verb: HbaseVerb) -> Result<ObjectName> {
    if !matches!(reader.token(0), Token::SingleQuotedString(_)) {
        return reader.object_name();
    }
    let position = reader.position();
    let text = reader.string()?;
    let separators: &[char] = if verb == HbaseVerb::List { &[':'] } else { &[':', '.'] };
    let (keyspace, name) = match text.split_once(separators) {
        Some((keyspace, name)) => (Some(keyspace.to_owned()), name.to_owned()),
        None => (None, text),
    };
    Ok(ObjectName { database: None, keyspace, name, position })
}

/// `NAME => value`.
fn attribute(reader: &mut Reader) -> Result<(String, HbaseArgument)> {
    let (Token::Word(name), Token::RArrow) = (reader.token(0), reader.token(1)) else {
        return Err(reader.unexpected());
    };
    let name = name.value.to_uppercase();
    (0..2).for_each(|_| reader.skip());
    let position = reader.position();
    Ok((name, HbaseArgument { value: value(reader)?, position }))
}

fn value(reader: &mut Reader) -> Result<HbaseValue> {
    match reader.token(0) {
        Token::SingleQuotedString(_) => reader.string().map(HbaseValue::Text),
        // In Ruby both quotes are those of texts.
        Token::Word(word) if word.quote_style.is_some() => {
            let text = word.value.clone();
            reader.skip();
            Ok(HbaseValue::Text(text))
        }
        Token::Word(word) => {
            let word = word.value.to_uppercase();
            reader.skip();
            Ok(HbaseValue::Word(word))
        }
        Token::Minus | Token::Plus | Token::Number(..) => number(reader),
        Token::LBracket => {
            reader.skip();
            let values = if *reader.token(0) == Token::RBracket { Vec::new() } else { reader.list(value)? };
            reader.expect_token(&Token::RBracket)?;
            Ok(HbaseValue::List(values))
        }
        Token::LBrace => {
            reader.skip();
            let attributes = if *reader.token(0) == Token::RBrace { Vec::new() } else { reader.list(attribute)? };
            reader.expect_token(&Token::RBrace)?;
            Ok(HbaseValue::Attributes(attributes))
        }
        _ => Err(reader.unexpected()),
    }
}

fn number(reader: &mut Reader) -> Result<HbaseValue> {
    let negative = reader.eat_token(&Token::Minus);
    if !negative {
        reader.eat_token(&Token::Plus);
    }
    let Token::Number(digits, _) = reader.token(0) else { return Err(reader.unexpected()) };
    let number = if negative { format!("-{digits}") } else { digits.clone() };
    reader.skip();
    Ok(HbaseValue::Number(number))
}
