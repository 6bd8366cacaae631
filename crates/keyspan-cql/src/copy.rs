//! `COPY`, with today's options and those from before PostgreSQL 9, which clients still send.

use keyspan_model::{Error, ErrorKind, Result};
use sqlparser::tokenizer::Token;

use crate::reader::Reader;
use crate::statement::{Copy, CopyFormat, CopyHeader, CopyOptions, CopySubject, CopyTarget, CopyVerbosity, Statement};

/// `COPY table [(columns)] | (query) FROM | TO STDIN | STDOUT | 'file' [[WITH] options] [WHERE …]`.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    reader.expect("copy")?;
    let subject = subject(reader)?;
    let position = reader.position();
    let Some(direction) = reader.eat_any(&["from", "to"]) else { return Err(reader.unexpected()) };
    let is_from = direction == "from";
    if is_from && matches!(subject, CopySubject::Query(_)) {
        return Err(crate::source::syntax("a query can only be copied TO", position - 1));
    }
    let target = match reader.word(0) {
        Some("stdin" | "stdout") => {
            reader.skip();
            CopyTarget::Standard
        }
        Some("program") => {
            let error = reader.not_supported("COPY with PROGRAM is not supported");
            return Err(error.with_hint("Pipe the program into psql's \\copy."));
        }
        _ => CopyTarget::File(reader.string()?),
    };
    let mut options = CopyOptions::default();
    reader.eat("with");
    if *reader.token(0) == Token::LParen {
        reader.parenthesized(|reader| option(reader, &mut options))?;
    } else {
        while legacy_option(reader, &mut options)? {}
    }
    let filter = if is_from { reader.filter()? } else { None };
    Ok(Statement::Copy(Box::new(Copy { subject, target, is_from, options, filter })))
}

fn subject(reader: &mut Reader) -> Result<CopySubject> {
    if *reader.token(0) != Token::LParen {
        let name = reader.object_name()?;
        let columns = if *reader.token(0) == Token::LParen { reader.columns()? } else { Vec::new() };
        return Ok(CopySubject::Table { name, columns });
    }
    reader.skip();
    if !reader.at_query() {
        let error = reader.not_supported("COPY takes a table or a query");
        return Err(error.with_hint("Write COPY (SELECT …) TO STDOUT."));
    }
    let query = reader.query()?;
    reader.expect_token(&Token::RParen)?;
    Ok(CopySubject::Query(query))
}

/// `NAME [value]` inside the parentheses.
fn option(reader: &mut Reader, options: &mut CopyOptions) -> Result<()> {
    let Token::Word(name) = reader.token(0).clone() else { return Err(reader.unexpected()) };
    let position = reader.position();
    reader.skip();
    match name.value.as_str() {
        "format" => options.format = format(reader)?,
        "header" => options.header = header(reader)?,
        "delimiter" => options.delimiter = Some(character(reader, "delimiter")?),
        "null" => options.null = Some(reader.string()?),
        "quote" => options.quote = Some(character(reader, "quote")?),
        "escape" => options.escape = Some(character(reader, "escape")?),
        "default" => options.default = Some(reader.string()?),
        "encoding" => options.encoding = Some(reader.string()?),
        "force_quote" => options.force_quote = Some(columns_or_star(reader)?),
        "force_not_null" => options.force_not_null = reader.names()?,
        "force_null" => options.force_null = reader.names()?,
        "on_error" => {
            let choices = [("stop", false), ("ignore", true)];
            options.ignore_errors = choice(reader, "ON_ERROR", &choices)?;
        }
        "reject_limit" => options.reject_limit = Some(reject_limit(reader)?),
        "log_verbosity" => {
            use CopyVerbosity as V;
            let choices = [("silent", V::Silent), ("default", V::Default), ("verbose", V::Verbose)];
            options.verbosity = choice(reader, "LOG_VERBOSITY", &choices)?;
        }
        // Rows become visible with their transaction, which is what FREEZE asks for.
        "freeze" => {
            boolean(reader)?;
        }
        "oids" => return Err(Error::not_supported("COPY with OIDS is not supported").at(position)),
        other => return Err(crate::source::syntax(format!("option \"{other}\" not recognized"), position - 1)),
    }
    Ok(())
}

/// One option without parentheses: `CSV HEADER DELIMITER AS '|'`; false if none stands here.
fn legacy_option(reader: &mut Reader, options: &mut CopyOptions) -> Result<bool> {
    if reader.eat("csv") {
        options.format = CopyFormat::Csv;
    } else if reader.eat("binary") {
        options.format = CopyFormat::Binary;
    } else if reader.eat("header") {
        options.header = CopyHeader::Present;
    } else if reader.eat("freeze") {
    } else if reader.eat_all(&["force", "quote"]) {
        options.force_quote =
            Some(if reader.eat_token(&Token::Mul) { Vec::new() } else { reader.list(Reader::name)? });
    } else if reader.eat_all(&["force", "not", "null"]) {
        options.force_not_null = reader.list(Reader::name)?;
    } else if reader.eat_all(&["force", "null"]) {
        options.force_null = reader.list(Reader::name)?;
    } else if let Some(name) = reader.eat_any(&["delimiter", "delimiters", "null", "quote", "escape", "encoding"]) {
        reader.eat("as");
        match name {
            "delimiter" | "delimiters" => options.delimiter = Some(character(reader, "delimiter")?),
            "null" => options.null = Some(reader.string()?),
            "quote" => options.quote = Some(character(reader, "quote")?),
            "escape" => options.escape = Some(character(reader, "escape")?),
            _ => options.encoding = Some(reader.string()?),
        }
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn format(reader: &mut Reader) -> Result<CopyFormat> {
    let position = reader.position();
    let name = match reader.token(0).clone() {
        Token::Word(word) => word.value,
        Token::SingleQuotedString(text) => text.to_lowercase(),
        _ => return Err(reader.unexpected()),
    };
    reader.skip();
    match name.as_str() {
        "text" => Ok(CopyFormat::Text),
        "csv" => Ok(CopyFormat::Csv),
        "binary" => Ok(CopyFormat::Binary),
        other => {
            let error =
                Error::new(ErrorKind::InvalidParameter, format!("COPY format \"{other}\" not recognized")).at(position);
            Err(error.with_hint("There are text, csv and binary; keyspan import and export read and write Parquet."))
        }
    }
}

fn header(reader: &mut Reader) -> Result<CopyHeader> {
    if reader.eat("match") {
        return Ok(CopyHeader::Match);
    }
    Ok(if boolean(reader)? { CopyHeader::Present } else { CopyHeader::None })
}

/// `true`, `on`, `1`, their opposites, or nothing, which means true.
fn boolean(reader: &mut Reader) -> Result<bool> {
    let value = match reader.token(0).clone() {
        Token::Comma | Token::RParen => return Ok(true),
        Token::Word(word) => word.value,
        Token::Number(text, _) => text,
        Token::SingleQuotedString(text) => text.to_lowercase(),
        _ => return Err(reader.unexpected()),
    };
    let on = match value.as_str() {
        "true" | "on" | "1" => true,
        "false" | "off" | "0" => false,
        _ => return Err(reader.unexpected()),
    };
    reader.skip();
    Ok(on)
}

/// A string of one character of one byte, as PostgreSQL asks.
fn character(reader: &mut Reader, what: &str) -> Result<char> {
    let position = reader.position();
    let text = reader.string()?;
    match text.chars().next() {
        Some(c) if text.len() == 1 => Ok(c),
        _ => {
            let message = format!("COPY {what} must be a single one-byte character");
            Err(Error::new(ErrorKind::NotSupported, message).at(position))
        }
    }
}

/// One of some words, bare or quoted.
fn choice<T: std::marker::Copy>(reader: &mut Reader, option: &str, choices: &[(&str, T)]) -> Result<T> {
    let position = reader.position();
    let name = match reader.token(0).clone() {
        Token::Word(word) => word.value,
        Token::SingleQuotedString(text) => text,
        _ => return Err(reader.unexpected()),
    };
    reader.skip();
    let found = choices.iter().find(|(choice, _)| name.eq_ignore_ascii_case(choice));
    found.map(|(_, value)| *value).ok_or_else(|| {
        Error::new(ErrorKind::InvalidParameter, format!("COPY {option} \"{name}\" not recognized")).at(position)
    })
}

/// A number above zero.
fn reject_limit(reader: &mut Reader) -> Result<u64> {
    let position = reader.position();
    let text = match reader.token(0).clone() {
        Token::Number(text, _) | Token::SingleQuotedString(text) => text,
        _ => return Err(reader.unexpected()),
    };
    reader.skip();
    match text.parse() {
        Ok(limit) if limit > 0 => Ok(limit),
        _ => {
            let message = format!("REJECT_LIMIT ({text}) must be greater than zero");
            Err(Error::new(ErrorKind::InvalidParameter, message).at(position))
        }
    }
}

fn columns_or_star(reader: &mut Reader) -> Result<Vec<String>> {
    if reader.eat_token(&Token::Mul) { Ok(Vec::new()) } else { reader.names() }
}
