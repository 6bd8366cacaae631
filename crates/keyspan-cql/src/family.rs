//! Families of dynamic columns: their declaration, `name family<qualifier, value> [GC rule]`, the cells that a write
//! names, `name[qualifier]`, and maps, `{qualifier: value, …}`.

use keyspan_model::{ColumnType, Error, ErrorKind, GcRule, Result, Value};
use sqlparser::ast::Expr;
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{ColumnName, FamilyDefinition};
use crate::types;

/// Versions of a cell that are kept where no rule says otherwise.
const VERSIONS: GcRule = GcRule { max_versions: Some(1), max_age: None, both: false };

/// Whether the declaration of a family comes next.
pub(crate) fn at_definition(reader: &Reader) -> bool {
    reader.word(1) == Some("family") && *reader.token(2) == Token::Lt
}

/// `name family<qualifier, value> [GC rule]`.
pub(crate) fn definition(reader: &mut Reader) -> Result<FamilyDefinition> {
    let position = reader.position();
    let name = reader.name()?;
    reader.expect("family")?;
    reader.expect_token(&Token::Lt)?;
    if *reader.token(0) == Token::LParen {
        return Err(reader.not_supported("qualifiers of several parts are not yet supported"));
    }
    let qualifier = part(reader)?;
    if qualifier.allowed_in_key().is_err() {
        let message = format!("type {} is not supported for qualifiers", qualifier.postgres_name());
        return Err(Error::new(ErrorKind::InvalidTableDefinition, message).at(position));
    }
    reader.expect_token(&Token::Comma)?;
    let value = part(reader)?;
    reader.expect_token(&Token::Gt)?;
    let gc = if reader.at("gc") { rule(reader)? } else { VERSIONS };
    Ok(FamilyDefinition { name, qualifier, value, gc, position })
}

fn part(reader: &mut Reader) -> Result<ColumnType> {
    let position = reader.position();
    let read = types::read(reader)?;
    match read.max_length {
        None => Ok(read.column_type),
        Some(_) => Err(Error::not_supported("a length of a family's texts is not supported").at(position)),
    }
}

/// `GC NONE`, or `GC max_versions = n`, `max_age = 'duration'`, or both joined by OR (either removes a version) or AND
/// (both must).
pub(crate) fn rule(reader: &mut Reader) -> Result<GcRule> {
    reader.expect("gc")?;
    if reader.eat("none") {
        return Ok(GcRule::default());
    }
    let mut gc = GcRule::default();
    limit(reader, &mut gc)?;
    match reader.eat_any(&["and", "or"]) {
        Some(word) => {
            gc.both = word == "and";
            limit(reader, &mut gc)?;
        }
        None => gc.both = false,
    }
    Ok(gc)
}

fn limit(reader: &mut Reader, gc: &mut GcRule) -> Result<()> {
    let position = reader.position();
    let invalid = |message: String| Error::new(ErrorKind::InvalidParameter, message).at(position);
    let word = reader.eat_any(&["max_versions", "max_age"]).ok_or_else(|| {
        reader.unexpected().with_hint("A rule is max_versions = n, max_age = 'duration', both with AND or OR, or NONE.")
    })?;
    let taken = if word == "max_versions" { gc.max_versions.is_some() } else { gc.max_age.is_some() };
    if taken {
        return Err(invalid(format!("{word} is given twice")));
    }
    reader.expect_token(&Token::Eq)?;
    if word == "max_versions" {
        let versions = reader.integer()?;
        let versions = u32::try_from(versions).ok().filter(|versions| *versions > 0);
        gc.max_versions = Some(versions.ok_or_else(|| invalid("max_versions must be at least 1".into()))?);
        return Ok(());
    }
    let text = reader.string()?;
    let age = Value::parse(&text, ColumnType::Duration).map_err(|error| error.at(position))?;
    let Value::Duration(months, days, nanoseconds) = age else {
        return Err(invalid(format!("\"{text}\" is no duration")));
    };
    let microseconds = i64::from(days) * 86_400_000_000 + nanoseconds / 1_000;
    if months != 0 || microseconds <= 0 {
        return Err(invalid("max_age must be a positive time without months, such as '30d'".into()));
    }
    gc.max_age = Some(microseconds);
    Ok(())
}

/// A column to write, or the cell `family[qualifier]`.
pub(crate) fn target(reader: &mut Reader) -> Result<ColumnName> {
    let mut column = reader.column()?;
    if reader.eat_token(&Token::LBracket) {
        column.qualifier = Some(reader.expression()?);
        reader.expect_token(&Token::RBracket)?;
    }
    Ok(column)
}

/// `{key: value, …}`.
pub(crate) fn map(reader: &mut Reader) -> Result<Vec<(Expr, Expr)>> {
    reader.expect_token(&Token::LBrace)?;
    let mut entries = Vec::new();
    if reader.eat_token(&Token::RBrace) {
        return Ok(entries);
    }
    loop {
        let key = reader.expression()?;
        reader.expect_token(&Token::Colon)?;
        entries.push((key, reader.expression()?));
        if !reader.eat_token(&Token::Comma) {
            reader.expect_token(&Token::RBrace)?;
            return Ok(entries);
        }
    }
}
