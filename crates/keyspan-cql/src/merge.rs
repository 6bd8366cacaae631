//! `MERGE`.

use keyspan_model::Result;
use sqlparser::ast::TableFactor;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use crate::family::target;
use crate::insert::{alias, assignments, value};
use crate::reader::Reader;
use crate::statement::{Merge, MergeAction, MergeClause, Statement};

/// `MERGE INTO [ONLY] table [[AS] alias] USING source ON condition WHEN … [WHEN …]`.
pub(crate) fn statement(reader: &mut Reader) -> Result<Statement> {
    reader.expect_all(&["merge", "into"])?;
    reader.eat("only");
    let table = reader.object_name()?;
    let alias = alias(reader)?;
    reader.expect("using")?;
    let position = reader.position();
    let source = reader.parse(Parser::parse_table_factor)?;
    if matches!(source, TableFactor::Derived { alias: None, .. }) {
        let error = crate::source::syntax("subquery in USING must have an alias", position - 1);
        return Err(error.with_hint("For example, USING (SELECT …) AS s."));
    }
    reader.expect("on")?;
    let on = reader.expression()?;
    let mut clauses = Vec::new();
    while reader.at("when") {
        clauses.push(clause(reader)?);
    }
    if clauses.is_empty() {
        return Err(reader.unexpected());
    }
    Ok(Statement::Merge(Box::new(Merge { table, alias, source, on, clauses })))
}

fn clause(reader: &mut Reader) -> Result<MergeClause> {
    reader.expect("when")?;
    let matched = !reader.eat("not");
    reader.expect("matched")?;
    if !matched && reader.at_all(&["by", "source"]) {
        let error = reader.not_supported("WHEN NOT MATCHED BY SOURCE is not supported");
        return Err(error.with_hint("Write DELETE or UPDATE … WHERE NOT EXISTS (SELECT …) as a statement of its own."));
    }
    if !matched {
        reader.eat_all(&["by", "target"]);
    }
    let condition = if reader.eat("and") { Some(reader.expression()?) } else { None };
    reader.expect("then")?;
    let action = match reader.eat_any(&["do", "delete", "update", "insert"]) {
        Some("do") => {
            reader.expect("nothing")?;
            MergeAction::Nothing
        }
        Some("delete") if matched => MergeAction::Delete,
        Some("update") if matched => {
            reader.expect("set")?;
            MergeAction::Update(assignments(reader)?)
        }
        Some("insert") if !matched => insert(reader)?,
        _ => return Err(reader.unexpected()),
    };
    Ok(MergeClause { matched, condition, action })
}

fn insert(reader: &mut Reader) -> Result<MergeAction> {
    if reader.at_all(&["default", "values"]) {
        let error = reader.not_supported("INSERT DEFAULT VALUES in MERGE is not supported");
        return Err(error.with_hint("Write INSERT (column, …) VALUES (DEFAULT, …)."));
    }
    let columns = if *reader.token(0) == Token::LParen { reader.parenthesized(target)? } else { Vec::new() };
    let overriding = reader.eat_all(&["overriding", "system", "value"]);
    reader.expect("values")?;
    let position = reader.position();
    let values = reader.parenthesized(value)?;
    if !columns.is_empty() && columns.len() != values.len() {
        let message = match columns.len() < values.len() {
            true => "INSERT has more expressions than target columns",
            false => "INSERT has more target columns than expressions",
        };
        return Err(crate::source::syntax(message, position - 1));
    }
    Ok(MergeAction::Insert { columns, values, overriding })
}
