//! `ALTER TABLE` and `ALTER [MATERIALIZED] VIEW`, in PostgreSQL's and CQL's forms.

use keyspan_model::{Error, ErrorKind, Result};
use sqlparser::tokenizer::Token;

use crate::family;
use crate::foreign_key;
use crate::keyspace::{option, options};
use crate::reader::Reader;
use crate::sequence;
use crate::statement::{AlterAction, AlterTable, CheckDefinition, ColumnTypeChange, Statement};
use crate::table::{
    Constraints, at_unique, check, column_definition, default, immediate, primary_key, refuse_constraint, unique,
};
use crate::types;

/// `ALTER TABLE | [MATERIALIZED] VIEW [IF EXISTS] [ONLY] name action, …`.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    reader.expect("alter")?;
    let materialized = reader.eat("materialized");
    let kind = match reader.eat_any(&["table", "view"]) {
        Some("view") if materialized => "materialized view",
        Some("view") => "view",
        Some(_) if !materialized => "table",
        _ => return Err(reader.unexpected()),
    };
    let if_exists = reader.eat_all(&["if", "exists"]);
    reader.eat("only");
    let name = reader.object_name()?;
    let mut actions = Vec::new();
    action(reader, &mut actions)?;
    while reader.eat_token(&Token::Comma) {
        action(reader, &mut actions)?;
    }
    Ok(Statement::AlterTable(AlterTable { name, if_exists, kind, actions }))
}

fn action(reader: &mut Reader, actions: &mut Vec<AlterAction>) -> Result<()> {
    if reader.eat("add") {
        add(reader, actions)
    } else if reader.eat("drop") {
        drop(reader, actions)
    } else if reader.eat("rename") {
        rename(reader, actions)
    } else if reader.eat("with") {
        actions.push(AlterAction::SetOptions(options(reader)?));
        Ok(())
    } else if reader.eat("set") {
        actions.push(match reader.eat("schema") {
            true => AlterAction::SetKeyspace(reader.name()?),
            false => AlterAction::SetOptions(reader.parenthesized(option)?),
        });
        Ok(())
    } else if reader.eat("alter") {
        actions.push(alter_column(reader)?);
        Ok(())
    } else if reader.eat_all(&["owner", "to"]) {
        actions.push(AlterAction::OwnerTo(reader.role_name()?));
        Ok(())
    } else if reader.eat_all(&["validate", "constraint"]) {
        actions.push(AlterAction::ValidateConstraint(reader.name()?));
        Ok(())
    } else if let Some(which) = trigger(reader)? {
        actions.push(AlterAction::SetTrigger(which));
        Ok(())
    } else {
        Err(reader.unexpected())
    }
}

/// `ENABLE [REPLICA | ALWAYS] | DISABLE TRIGGER ALL | USER | name`: the name, if one is given.
fn trigger(reader: &mut Reader) -> Result<Option<Option<String>>> {
    let forms: [&[&str]; 4] = [
        &["disable", "trigger"],
        &["enable", "trigger"],
        &["enable", "replica", "trigger"],
        &["enable", "always", "trigger"],
    ];
    if !forms.iter().any(|words| reader.eat_all(words)) {
        return Ok(None);
    }
    let name = if reader.eat("all") { None } else { Some(reader.name()?).filter(|name| name != "user") };
    Ok(Some(name))
}

/// `ADD [COLUMN] [IF NOT EXISTS] column`, CQL's `ADD a int, b text` and `ADD (a int, b text)`, `ADD CHECK (…)`.
fn add(reader: &mut Reader, actions: &mut Vec<AlterAction>) -> Result<()> {
    let constraint = if reader.eat("constraint") { Some(reader.name()?) } else { None };
    if reader.at("check") {
        let check = check(reader)?;
        reader.eat_all(&["not", "valid"]);
        actions.push(AlterAction::AddCheck(CheckDefinition { name: constraint, check }));
        return Ok(());
    }
    if at_unique(reader) {
        actions.push(AlterAction::AddUnique(unique(reader, constraint)?));
        return Ok(());
    }
    if let Some(key) = foreign_key::of_table(reader, &constraint)? {
        actions.push(AlterAction::AddForeignKey(key));
        return Ok(());
    }
    refuse_constraint(reader)?;
    if reader.at_all(&["primary", "key"]) {
        if reader.word(2) == Some("using") {
            let error = reader.not_supported("PRIMARY KEY USING INDEX is not supported");
            return Err(error.with_hint("Name the columns: ADD PRIMARY KEY (…)."));
        }
        let (key, order) = primary_key(reader, constraint)?;
        immediate(reader)?;
        if let Some(order) = order.first() {
            let message = "the columns of a PRIMARY KEY that is added later have no order";
            return Err(Error::new(ErrorKind::Syntax, message).at(order.position));
        }
        actions.push(AlterAction::AddPrimaryKey(key));
        return Ok(());
    }
    if constraint.is_some() {
        return Err(reader.unexpected());
    }
    if reader.eat_token(&Token::LParen) {
        let added = reader.list(add_column)?;
        actions.extend(added);
        return reader.expect_token(&Token::RParen);
    }
    if reader.at("column") {
        reader.skip();
    }
    actions.push(add_column(reader)?);
    while *reader.token(0) == Token::Comma
        && !matches!(reader.word(1), Some("add" | "drop" | "rename" | "alter" | "set" | "with"))
    {
        reader.skip();
        actions.push(add_column(reader)?);
    }
    Ok(())
}

fn add_column(reader: &mut Reader) -> Result<AlterAction> {
    let if_not_exists = reader.eat_all(&["if", "not", "exists"]);
    if family::at_definition(reader) {
        return Ok(AlterAction::AddFamily { if_not_exists, family: family::definition(reader)? });
    }
    let position = reader.position();
    let mut constraints = Constraints::default();
    let column = column_definition(reader, &mut constraints)?;
    let Constraints { primary_key, checks, uniques, foreign_keys, .. } = constraints;
    if primary_key.is_some() {
        let error = keyspan_model::Error::not_supported(
            "a column of the PRIMARY KEY cannot be added later: rows are stored by it",
        );
        return Err(error
            .at(position)
            .with_hint("Write CREATE TABLE new (PRIMARY KEY (…)) AS SELECT … FROM old, then rename."));
    }
    Ok(AlterAction::AddColumn { if_not_exists, column, checks, uniques, foreign_keys })
}

/// `DROP [COLUMN] [IF EXISTS] column [CASCADE]`, CQL's `DROP a, b` and `DROP (a, b)`, `DROP CONSTRAINT name`.
fn drop(reader: &mut Reader, actions: &mut Vec<AlterAction>) -> Result<()> {
    if reader.eat("constraint") {
        let if_exists = reader.eat_all(&["if", "exists"]);
        let name = reader.name()?;
        let cascade = reader.eat_any(&["cascade", "restrict"]) == Some("cascade");
        actions.push(AlterAction::DropConstraint { if_exists, name, cascade });
        return Ok(());
    }
    if reader.at_all(&["primary", "key"]) {
        return Err(reader.not_supported("the PRIMARY KEY of a table cannot be dropped: rows are stored by it"));
    }
    reader.eat("column");
    let if_exists = reader.eat_all(&["if", "exists"]);
    let columns = if *reader.token(0) == Token::LParen { reader.names()? } else { vec![reader.name()?] };
    let cascade = reader.eat_any(&["cascade", "restrict"]) == Some("cascade");
    actions.extend(columns.into_iter().map(|column| AlterAction::DropColumn { if_exists, column, cascade }));
    while *reader.token(0) == Token::Comma && matches!(reader.token(2), Token::Comma | Token::EOF) {
        reader.skip();
        actions.push(AlterAction::DropColumn { if_exists, column: reader.name()?, cascade: false });
    }
    if reader.at("using") {
        return Err(reader.not_supported("ALTER TABLE … DROP … USING TIMESTAMP is not supported"));
    }
    Ok(())
}

/// `RENAME [COLUMN] a TO b [AND c TO d]`, `RENAME CONSTRAINT a TO b`, `RENAME TO name`.
fn rename(reader: &mut Reader, actions: &mut Vec<AlterAction>) -> Result<()> {
    if reader.eat("to") {
        actions.push(AlterAction::RenameTo(reader.name()?));
        return Ok(());
    }
    if reader.eat("constraint") {
        let from = reader.name()?;
        reader.expect("to")?;
        actions.push(AlterAction::RenameConstraint { from, to: reader.name()? });
        return Ok(());
    }
    loop {
        reader.eat("column");
        let from = reader.name()?;
        reader.expect("to")?;
        actions.push(AlterAction::RenameColumn { from, to: reader.name()? });
        if !reader.eat("and") {
            return Ok(());
        }
    }
}

/// `ALTER [COLUMN] column SET | DROP DEFAULT | NOT NULL`, `… ADD | SET GENERATED …`, `… DROP IDENTITY`, `ALTER family SET GC
/// rule`.
fn alter_column(reader: &mut Reader) -> Result<AlterAction> {
    reader.eat("column");
    let column = reader.name()?;
    if reader.at_all(&["set", "gc"]) {
        reader.skip();
        Ok(AlterAction::SetGc { family: column, gc: family::rule(reader)? })
    } else if reader.eat_all(&["set", "default"]) {
        Ok(AlterAction::SetDefault { column, default: Some(default(reader)?) })
    } else if reader.eat_all(&["drop", "default"]) {
        Ok(AlterAction::SetDefault { column, default: None })
    } else if reader.eat_all(&["set", "not", "null"]) {
        Ok(AlterAction::SetNotNull { column, not_null: true })
    } else if reader.eat_all(&["drop", "not", "null"]) {
        Ok(AlterAction::SetNotNull { column, not_null: false })
    } else if reader.eat("add") {
        match sequence::identity(reader)? {
            Some(sequence) => Ok(AlterAction::AddIdentity { column, sequence }),
            None => Err(reader.unexpected()),
        }
    } else if reader.eat_all(&["drop", "identity"]) {
        Ok(AlterAction::DropIdentity { column, if_exists: reader.eat_all(&["if", "exists"]) })
    } else if reader.eat("type") || reader.eat_all(&["set", "data", "type"]) {
        let position = reader.position();
        let read = types::read(reader)?;
        let using = if reader.eat("using") { Some(reader.source_expression()?) } else { None };
        let (column_type, max_length, text_type) = (read.column_type, read.max_length, read.text_type);
        let change = ColumnTypeChange { column, column_type, max_length, text_type, using, position };
        Ok(AlterAction::SetType(change))
    } else if reader.at("set") || reader.at("restart") {
        let (identity, options) = sequence::change_identity(reader)?;
        Ok(AlterAction::SetIdentity { column, identity, options })
    } else {
        Err(reader.unexpected())
    }
}
