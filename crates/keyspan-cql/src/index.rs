//! `CREATE INDEX`, parsed in full; the session decides what it means. `ALTER INDEX`.

use keyspan_model::Result;
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{CreateIndex, IndexedPart, OptionValue, RenameIndex, Statement};

/// `CREATE [UNIQUE | CUSTOM] INDEX [CONCURRENTLY] [IF NOT EXISTS] [name] ON table [USING method] (columns)
/// [USING 'class'] …`.
pub(crate) fn create(reader: &mut Reader) -> Result<Statement> {
    reader.expect("create")?;
    let unique = reader.eat("unique");
    reader.eat("custom");
    reader.expect("index")?;
    reader.eat("concurrently");
    let if_not_exists = reader.eat_all(&["if", "not", "exists"]);
    let name = if reader.at("on") { None } else { Some(reader.name()?) };
    reader.expect("on")?;
    reader.eat("only");
    let table = reader.object_name()?;
    let mut method = if reader.eat("using") { Some(reader.name()?) } else { None };
    let mut operator_class = None;
    let parts = reader.parenthesized(|reader| part(reader, &mut operator_class))?;
    // INCLUDE, WITH (…) and the like change how an index is kept, not what it answers. WHERE would change that.
    if reader.at("where") {
        let error = reader.not_supported("an index of some rows only is not supported");
        return Err(error.with_hint("Leave out WHERE."));
    }
    if reader.eat("include") {
        reader.names()?;
    }
    crate::table::check_nulls(reader)?;
    if reader.eat("using") {
        method = Some(reader.string()?);
    }
    let mut options = Vec::new();
    if reader.eat("with") {
        if reader.eat("options") {
            reader.expect_token(&Token::Eq)?;
            let OptionValue::Map(entries) = crate::keyspace::value(reader)? else { return Err(reader.unexpected()) };
            options = entries;
        } else {
            reader.parenthesized(crate::keyspace::option)?;
        }
    }
    Ok(Statement::CreateIndex(CreateIndex {
        name,
        table,
        parts,
        method,
        operator_class,
        options,
        unique,
        if_not_exists,
    }))
}

/// `ALTER INDEX [IF EXISTS] name RENAME TO name`.
pub(crate) fn alter(reader: &mut Reader) -> Result<Statement> {
    reader.expect_all(&["alter", "index"])?;
    let if_exists = reader.eat_all(&["if", "exists"]);
    let name = reader.object_name()?;
    if !reader.eat_all(&["rename", "to"]) {
        let error = reader.not_supported("ALTER INDEX is supported for RENAME TO only");
        return Err(error.with_hint("Drop it and create it anew."));
    }
    Ok(Statement::RenameIndex(RenameIndex { name, if_exists, to: reader.name()? }))
}

/// One indexed column with its ASC, DESC, NULLS FIRST; an expression stands as its text.
fn part(reader: &mut Reader, operator_class: &mut Option<String>) -> Result<IndexedPart> {
    let is_name =
        matches!(reader.token(0), Token::Word(_)) && !matches!(reader.token(1), Token::LParen | Token::Period);
    if let Some(part) = elements(reader)? {
        return Ok(part);
    }
    let part = match is_name {
        true => IndexedPart::Column(reader.name()?),
        false => IndexedPart::Expression(reader.source_expression()?.text),
    };
    if !matches!(reader.word(0), None | Some("asc" | "desc" | "nulls")) {
        *operator_class = Some(reader.object_name()?.name);
    }
    reader.eat_any(&["asc", "desc"]);
    if reader.eat("nulls") && reader.eat_any(&["first", "last"]).is_none() {
        return Err(reader.unexpected());
    }
    Ok(part)
}

/// CQL's `KEYS(m)` and its like; `FULL(c)` is the column.
fn elements(reader: &mut Reader) -> Result<Option<IndexedPart>> {
    let word = reader.word(0).filter(|word| matches!(*word, "keys" | "values" | "entries" | "full"));
    let Some(word) = word.map(str::to_owned) else { return Ok(None) };
    let named =
        matches!((reader.token(1), reader.token(2), reader.token(3)), (Token::LParen, Token::Word(_), Token::RParen));
    if !named {
        return Ok(None);
    }
    reader.skip();
    let mut names = reader.names()?;
    let name = names.pop().ok_or_else(|| reader.unexpected())?;
    Ok(Some(if word == "full" { IndexedPart::Column(name) } else { IndexedPart::Elements(word, name) }))
}
