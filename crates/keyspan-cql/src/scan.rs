//! HBase's `scan 'table', {ROWPREFIXFILTER => 'STC#22#', LIMIT => 10}`, as its shell reads it.

use keyspan_model::{Error, ErrorKind, Result};
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{ObjectName, Scan, ScanAttribute, Statement};

const ATTRIBUTES: &[&str] = &["ROWPREFIXFILTER", "STARTROW", "STOPROW", "LIMIT", "COLUMNS", "COLUMN", "REVERSED"];

/// `scan 'table' [, {NAME => value, …}]`; the braces may be left out.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    reader.expect("scan")?;
    let table = table(reader)?;
    let mut attributes = Vec::new();
    if reader.eat_token(&Token::Comma) {
        let braced = reader.eat_token(&Token::LBrace);
        if !braced || *reader.token(0) != Token::RBrace {
            attributes = reader.list(attribute)?;
        }
        if braced {
            reader.expect_token(&Token::RBrace)?;
        }
    }
    Ok(Statement::Scan(Scan { table, attributes }))
}

/// `'table'`, `'namespace:table'`, or a name as SQL writes it.
fn table(reader: &mut Reader) -> Result<ObjectName> {
    if !matches!(reader.token(0), Token::SingleQuotedString(_)) {
        return reader.object_name();
    }
    let position = reader.position();
    let text = reader.string()?;
    let (keyspace, name) = match text.split_once([':', '.']) {
        Some((keyspace, name)) => (Some(keyspace.to_owned()), name.to_owned()),
        None => (None, text),
    };
    Ok(ObjectName { database: None, keyspace, name, position })
}

fn attribute(reader: &mut Reader) -> Result<ScanAttribute> {
    let position = reader.position();
    let Token::Word(name) = reader.token(0) else { return Err(reader.unexpected()) };
    let name = name.value.to_uppercase();
    reader.skip();
    reader.expect_token(&Token::RArrow)?;
    Ok(match name.as_str() {
        "ROWPREFIXFILTER" => ScanAttribute::RowPrefix(reader.string()?),
        "STARTROW" => ScanAttribute::StartRow(reader.string()?),
        "STOPROW" | "ENDROW" => ScanAttribute::StopRow(reader.string()?),
        "LIMIT" => {
            let limit = reader.integer()?;
            let limit = u64::try_from(limit)
                .map_err(|_| Error::new(ErrorKind::InvalidParameter, "LIMIT must not be negative").at(position))?;
            ScanAttribute::Limit(limit)
        }
        "COLUMNS" | "COLUMN" => ScanAttribute::Columns(columns(reader)?),
        "REVERSED" => match reader.eat_any(&["true", "false"]) {
            Some(word) => ScanAttribute::Reversed(word == "true"),
            None => return Err(reader.unexpected()),
        },
        _ => {
            let error = Error::not_supported(format!("scan attribute {name} is not supported")).at(position);
            return Err(error.with_hint(format!("There are {}. SELECT can do the rest.", ATTRIBUTES.join(", "))));
        }
    })
}

/// `'a'` or `['a', 'b']`.
fn columns(reader: &mut Reader) -> Result<Vec<String>> {
    if !reader.eat_token(&Token::LBracket) {
        return reader.string().map(|column| vec![column]);
    }
    let columns = reader.list(Reader::string)?;
    reader.expect_token(&Token::RBracket)?;
    Ok(columns)
}
