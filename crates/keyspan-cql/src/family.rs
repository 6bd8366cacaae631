//! Families of dynamic columns and collections: their declaration, `name family<qualifier, value> [GC rule]` or
//! `name map<key, value>`, the types of single qualifiers behind it, `(name type, …)`, the cells that a write names,
//! `name[qualifier]`, and collections that are written out.

use keyspan_model::{
    ColumnType, Error, ErrorKind, FamilyKind, GcRule, KnownCell, Nested, Result, parse_fixed_duration,
};
use sqlparser::ast::{BinaryOperator, Expr, Ident};
use sqlparser::tokenizer::Token;

use crate::nested;
use crate::reader::Reader;
use crate::statement::{Change, ColumnName, FamilyDefinition, InsertValue, QualifierPart};
use crate::types;

/// Versions of a cell that are kept where no rule says otherwise.
const VERSIONS: GcRule = GcRule { max_versions: Some(1), max_age: None, both: false, inner: Vec::new() };

/// Parentheses of a rule inside of each other.
const RULE_DEPTH: usize = 8;

/// The words that begin the type of a family.
const KINDS: &[(&str, FamilyKind)] =
    &[("family", FamilyKind::Family), ("map", FamilyKind::Map), ("set", FamilyKind::Set), ("list", FamilyKind::List)];

/// Whether the declaration of a family or collection comes next.
pub(crate) fn at_definition(reader: &Reader) -> bool {
    kind(reader, 1).is_some() && *reader.token(2) == Token::Lt
}

fn kind(reader: &Reader, place: usize) -> Option<FamilyKind> {
    let word = reader.word(place)?;
    KINDS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind)
}

/// `name family<qualifier, value> [GC rule]`, `name family<qualifier> [GC rule]`, whose values are true,
/// `name map<key, value>`, `name set<element>`, `name list<element>`.
pub(crate) fn definition(reader: &mut Reader) -> Result<FamilyDefinition> {
    let position = reader.position();
    let name = reader.name()?;
    let kind = kind(reader, 0).ok_or_else(|| reader.unexpected())?;
    reader.skip();
    reader.expect_token(&Token::Lt)?;
    let (qualifier, value) = match kind {
        FamilyKind::List => (only(ColumnType::BigInt), part(reader, kind)?),
        FamilyKind::Set => (only(part(reader, kind)?), ColumnType::Boolean),
        FamilyKind::Family | FamilyKind::Map => {
            let qualifier = match kind == FamilyKind::Family && *reader.token(0) == Token::LParen {
                true => several(reader)?,
                false => only(part(reader, kind)?),
            };
            let is_family = kind == FamilyKind::Family;
            let value = if is_family && *reader.token(0) == Token::Gt {
                // The qualifier is the data.
                ColumnType::Boolean
            } else {
                reader.expect_token(&Token::Comma)?;
                if is_family && reader.eat("variant") { ColumnType::variant() } else { part(reader, kind)? }
            };
            (qualifier, value)
        }
    };
    qualifier.iter().try_for_each(|part| check_part(part.column_type, kind).map_err(|error| error.at(position)))?;
    reader.close_bracket()?;
    let known = match *reader.token(0) == Token::LParen && value.is_variant() {
        true => known_cells(reader, &qualifier)?,
        false => Vec::new(),
    };
    let gc = match kind {
        FamilyKind::Family if reader.at("gc") => rule(reader)?,
        FamilyKind::Family => VERSIONS,
        FamilyKind::Map | FamilyKind::Set | FamilyKind::List => GcRule::default(),
    };
    if reader.at("static") {
        let error = reader.not_supported("static families and collections are not supported");
        return Err(error.with_hint("Keep what belongs to partitions in a table of their own."));
    }
    Ok(FamilyDefinition { name, kind, qualifier, value, gc, known, place: 0, position })
}

/// `(name type, …)`: the types of single qualifiers.
fn known_cells(reader: &mut Reader, qualifier: &[QualifierPart]) -> Result<Vec<KnownCell>> {
    let position = reader.position();
    if !matches!(qualifier, [QualifierPart { column_type: ColumnType::Text, .. }]) {
        let message = "types of single qualifiers are declared in families whose qualifiers are texts";
        return Err(Error::new(ErrorKind::InvalidTableDefinition, message).at(position));
    }
    let mut known: Vec<KnownCell> = Vec::new();
    let read = reader.parenthesized(|reader| {
        let position = reader.position();
        let name = reader.name()?;
        Ok((name, part(reader, FamilyKind::Family)?, position))
    })?;
    for (name, ty, position) in read {
        if known.iter().any(|other| other.name == name) {
            let message = format!("qualifier \"{name}\" specified more than once");
            return Err(Error::new(ErrorKind::DuplicateColumn, message).at(position));
        }
        if ty.variant_tag().is_none() {
            let message = format!("cells of a variant cannot have type {}", ty.postgres_name());
            let hint = "They have text, boolean, tinyint, int, bigint, real, double or blob.";
            return Err(Error::new(ErrorKind::InvalidTableDefinition, message).with_hint(hint).at(position));
        }
        known.push(KnownCell { name, ty });
    }
    Ok(known)
}

fn only(column_type: ColumnType) -> Vec<QualifierPart> {
    vec![QualifierPart { name: "qualifier".to_owned(), column_type, descending: false }]
}

/// `(name type [ASC | DESC], …)`.
fn several(reader: &mut Reader) -> Result<Vec<QualifierPart>> {
    let mut parts: Vec<QualifierPart> = Vec::new();
    let read = reader.parenthesized(|reader| {
        let position = reader.position();
        let name = reader.name()?;
        let column_type = part(reader, FamilyKind::Family)?;
        let descending = reader.eat_any(&["asc", "desc"]) == Some("desc");
        Ok((QualifierPart { name, column_type, descending }, position))
    })?;
    for (part, position) in read {
        if parts.iter().any(|other| other.name == part.name) || matches!(part.name.as_str(), "value" | "written_at") {
            let message = format!("a part of a qualifier cannot be called \"{}\" here", part.name);
            let hint = "Parts have names of their own, and cells() has the columns value and written_at.";
            return Err(Error::new(ErrorKind::DuplicateColumn, message).with_hint(hint).at(position));
        }
        parts.push(part);
    }
    Ok(parts)
}

/// A map's keys and a family's qualifiers are compared with the one that is asked for, which arrays in Arrow cannot be.
fn check_part(qualifier: ColumnType, kind: FamilyKind) -> Result<()> {
    let array = qualifier.element().is_some() && kind != FamilyKind::Set;
    if !array && qualifier.allowed_in_key().is_ok() {
        return Ok(());
    }
    let parts = match kind {
        FamilyKind::Set => "elements of sets",
        FamilyKind::Map => "keys of maps",
        FamilyKind::Family | FamilyKind::List => "qualifiers",
    };
    let message = format!("type {} is not supported for {parts}", qualifier.postgres_name());
    Err(Error::new(ErrorKind::InvalidTableDefinition, message))
}

/// A type inside of a collection or family, which must be frozen; the texts are Cassandra's.
fn part(reader: &mut Reader, kind: FamilyKind) -> Result<ColumnType> {
    let position = reader.position();
    let read = types::read(reader)?;
    if read.max_length.is_some() {
        return Err(Error::not_supported("lengths of a family's texts and times are not supported").at(position));
    }
    if read.thawed {
        let user = matches!(read.column_type.as_nested(), Some(Nested::Named(_)));
        if user
            && let Err(error) = ColumnType::parse(&read.text, &[])
            && error.hint.is_some()
        {
            return Err(error.at(position));
        }
        let what = if user { "Non-frozen UDTs" } else { "Non-frozen collections" };
        let holder = if kind.is_collection() { "collections" } else { "families" };
        let message = format!("{what} are not allowed inside {holder}: {}", read.text);
        let error = Error::new(ErrorKind::InvalidTableDefinition, message).at(position);
        return Err(error.with_hint(format!("Write frozen<{}>.", read.text)));
    }
    Ok(read.column_type)
}

/// `GC NONE`, or `GC` and limits, `max_versions = n` and `max_age = 'duration'`, joined by OR (either removes a version)
/// and AND (all must), with parentheses.
pub(crate) fn rule(reader: &mut Reader) -> Result<GcRule> {
    reader.expect("gc")?;
    if reader.eat("none") {
        return Ok(GcRule::default());
    }
    either(reader, 0)
}

/// Rules joined by OR.
fn either(reader: &mut Reader, depth: usize) -> Result<GcRule> {
    let mut rules = vec![both(reader, depth)?];
    while reader.eat("or") {
        rules.push(both(reader, depth)?);
    }
    Ok(joined(rules, false))
}

/// Rules joined by AND.
fn both(reader: &mut Reader, depth: usize) -> Result<GcRule> {
    let mut rules = vec![limit(reader, depth)?];
    while reader.eat("and") {
        rules.push(limit(reader, depth)?);
    }
    Ok(joined(rules, true))
}

/// The rule that joins these: single limits, and rules that are joined in the same way, become part of it; others stand
/// inside of it.
fn joined(mut rules: Vec<GcRule>, both: bool) -> GcRule {
    if rules.len() == 1 {
        return rules.remove(0);
    }
    let mut all = GcRule { both, ..GcRule::default() };
    for rule in rules {
        let limits = usize::from(rule.max_versions.is_some()) + usize::from(rule.max_age.is_some()) + rule.inner.len();
        if limits > 1 && rule.both != both {
            all.inner.push(rule);
            continue;
        }
        all.max_versions = one_limit(all.max_versions, rule.max_versions, both);
        all.max_age = one_limit(all.max_age, rule.max_age, both);
        all.inner.extend(rule.inner);
    }
    all
}

/// What two limits of one kind come to: both say so beyond the greater one, either beyond the lesser.
fn one_limit<T: Ord>(one: Option<T>, other: Option<T>, both: bool) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if both { one.max(other) } else { one.min(other) }),
        (one, other) => one.or(other),
    }
}

/// One limit, or a rule in parentheses.
fn limit(reader: &mut Reader, depth: usize) -> Result<GcRule> {
    let position = reader.position();
    let invalid = |message: String| Error::new(ErrorKind::InvalidParameter, message).at(position);
    if reader.eat_token(&Token::LParen) {
        if depth == RULE_DEPTH {
            return Err(invalid(format!("a rule has more than {RULE_DEPTH} parentheses inside of each other")));
        }
        let rule = either(reader, depth + 1)?;
        reader.expect_token(&Token::RParen)?;
        return Ok(rule);
    }
    let word = reader.eat_any(&["max_versions", "max_age"]).ok_or_else(|| {
        let hint =
            "A rule is max_versions = n, max_age = 'duration', some of them with AND, OR and parentheses, or NONE.";
        reader.unexpected().with_hint(hint)
    })?;
    reader.expect_token(&Token::Eq)?;
    if word == "max_versions" {
        let versions = reader.integer()?;
        let versions = u32::try_from(versions).ok().filter(|versions| *versions > 0);
        let versions = versions.ok_or_else(|| invalid("max_versions must be at least 1".into()))?;
        return Ok(GcRule { max_versions: Some(versions), ..GcRule::default() });
    }
    let text = reader.string()?;
    let age = parse_fixed_duration(&text).map_err(|error| error.at(position))?;
    let unfit = || invalid("max_age must be a positive time without months, such as '30d'".into());
    Ok(GcRule { max_age: Some(age.ok_or_else(unfit)?), ..GcRule::default() })
}

/// A column to write, or the cell `family[qualifier]`.
pub(crate) fn target(reader: &mut Reader) -> Result<ColumnName> {
    let mut column = reader.column()?;
    if reader.eat_token(&Token::LBracket) {
        column.qualifier = Some(nested::tuples(reader.expression()?));
        reader.expect_token(&Token::RBracket)?;
    }
    Ok(column)
}

/// Whether a collection that is written out comes next.
pub(crate) fn at_collection(reader: &Reader, place: usize) -> bool {
    nested::begins(reader.token(place))
}

/// `{key: value, …}`, `{element, …}`, `[element, …]`, or `{field: value, …}`, which is an expression.
pub(crate) fn collection(reader: &mut Reader) -> Result<InsertValue> {
    reader.parse(nested::literal).map(InsertValue::of_literal)
}

/// `+= value` or `-= value` behind a target: CQL's short form of `target = target + value`.
pub(crate) fn added(reader: &mut Reader, target: &ColumnName) -> Result<Option<InsertValue>> {
    let change = match reader.token(0) {
        Token::Plus => Change::Append,
        Token::Minus => Change::Remove,
        _ => return Ok(None),
    };
    if *reader.token(1) != Token::Eq || target.qualifier.is_some() {
        return Ok(None);
    }
    (0..2).for_each(|_| reader.skip());
    if at_collection(reader, 0) {
        let value = Box::new(collection(reader)?);
        return Ok(Some(InsertValue::Changed { column: target.clone(), change, value }));
    }
    let op = if change == Change::Append { BinaryOperator::Plus } else { BinaryOperator::Minus };
    let left = Box::new(Expr::Identifier(Ident::with_quote('"', &target.name)));
    let right = Box::new(Expr::Nested(Box::new(reader.expression()?)));
    Ok(Some(InsertValue::Expression(Expr::BinaryOp { left, op, right })))
}

/// What a SET assigns of a collection that is written out, if one comes next: `{…}`, `column + {…}`, `column - {…}`,
/// `[…] + column`.
pub(crate) fn assigned(reader: &mut Reader) -> Result<Option<InsertValue>> {
    if at_collection(reader, 0) {
        let value = collection(reader)?;
        if !reader.eat_token(&Token::Plus) {
            return Ok(Some(value));
        }
        let column = reader.column()?;
        return Ok(Some(InsertValue::Changed { column, change: Change::Prepend, value: Box::new(value) }));
    }
    let change = match reader.token(1) {
        Token::Plus => Change::Append,
        Token::Minus => Change::Remove,
        _ => return Ok(None),
    };
    if !matches!(reader.token(0), Token::Word(_)) || !at_collection(reader, 2) {
        return Ok(None);
    }
    let column = reader.column()?;
    reader.skip();
    let value = Box::new(collection(reader)?);
    Ok(Some(InsertValue::Changed { column, change, value }))
}
