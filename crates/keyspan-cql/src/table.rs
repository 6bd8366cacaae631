//! `CREATE TABLE` and `CREATE TABLE AS`.
//!
//! CQL's and PostgreSQL's forms in one: compound keys, STATIC and CLUSTERING ORDER beside DEFAULT, CHECK and NOT NULL.
//! What would change the meaning of a table if it were ignored (EXCLUDE) is refused, never dropped.

use keyspan_model::{ColumnType, Error, ErrorKind, Result};
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::tokenizer::Token;

use crate::family;
use crate::foreign_key;
use crate::keyspace::option;
use crate::reader::Reader;
use crate::statement::{
    CheckDefinition, ClusteringOrder, ColumnDefinition, ColumnName, ColumnSequence, CreateTable, CreateTableAs,
    FamilyDefinition, ForeignKeyDefinition, Including, ObjectName, OnCommit, PrimaryKey, SequenceOptions,
    SourceExpression, Statement, TableLike, TableOption, UniqueDefinition,
};
use crate::{sequence, types};

/// The constraints of columns and of their table, as they are read.
#[derive(Default)]
pub(crate) struct Constraints {
    pub(crate) primary_key: Option<PrimaryKey>,
    pub(crate) checks: Vec<CheckDefinition>,
    pub(crate) uniques: Vec<UniqueDefinition>,
    pub(crate) foreign_keys: Vec<ForeignKeyDefinition>,
    /// `DESC` within PRIMARY KEY: the order of all clustering columns.
    pub(crate) key_order: Vec<ClusteringOrder>,
}

/// What stands between the parentheses and after them, as it is read.
#[derive(Default)]
struct Body {
    columns: Vec<ColumnDefinition>,
    families: Vec<FamilyDefinition>,
    /// Names without a type: CREATE TABLE AS.
    bare: Vec<ColumnName>,
    constraints: Constraints,
    clustering_order: Vec<ClusteringOrder>,
    options: Vec<TableOption>,
    /// Of a temporary table.
    on_commit: Option<OnCommit>,
    like: Vec<TableLike>,
}

/// `CREATE [TEMP] TABLE [IF NOT EXISTS] name …`.
pub(crate) fn create(reader: &mut Reader) -> Result<Statement> {
    reader.expect("create")?;
    // Safer than asked for.
    reader.eat("unlogged");
    // PostgreSQL has but one kind, too.
    reader.eat_any(&["local", "global"]);
    let temporary = reader.eat_any(&["temp", "temporary"]).is_some();
    reader.expect("table")?;
    let if_not_exists = reader.eat_all(&["if", "not", "exists"]);
    let name = reader.object_name()?;
    let mut body = Body { on_commit: temporary.then_some(OnCommit::PreserveRows), ..Body::default() };
    let has_list = *reader.token(0) == Token::LParen;
    if has_list {
        reader.parenthesized(|reader| element(reader, &mut body))?;
    }
    if !has_list && reader.at("like") {
        // CQL's, which takes all.
        let like = TableLike { including: Including::ALL, ..like(reader)? };
        body.like.push(like);
    }
    tail(reader, &mut body)?;
    if let Some(order) = body.constraints.key_order.first() {
        if !body.clustering_order.is_empty() {
            let message = "the order of clustering columns stands in PRIMARY KEY and in CLUSTERING ORDER BY";
            return Err(Error::new(ErrorKind::Syntax, message).at(order.position));
        }
        body.clustering_order = std::mem::take(&mut body.constraints.key_order);
    }
    if reader.eat("as") {
        return create_as(reader, name, if_not_exists, body);
    }
    if !has_list && body.like.is_empty() {
        return Err(reader.unexpected());
    }
    if let Some(column) = body.bare.first() {
        let message = format!("column \"{}\" has no type", column.name);
        return Err(Error::new(ErrorKind::Syntax, message).at(column.position));
    }
    let Body { columns, families, constraints, clustering_order, options, on_commit, like, .. } = body;
    let Constraints { primary_key, checks, uniques, foreign_keys, .. } = constraints;
    let table = CreateTable {
        name,
        if_not_exists,
        columns,
        families,
        primary_key,
        checks,
        uniques,
        foreign_keys,
        clustering_order,
        options,
        on_commit,
        like,
    };
    Ok(Statement::CreateTable(Box::new(table)))
}

/// After `AS`.
fn create_as(reader: &mut Reader, name: ObjectName, if_not_exists: bool, body: Body) -> Result<Statement> {
    let first = body.columns.first().map(|column| column.position);
    if let Some(position) = first.or(body.families.first().map(|family| family.position)) {
        let message = "CREATE TABLE … AS takes its types from the query: name the columns only";
        return Err(Error::new(ErrorKind::Syntax, message).at(position));
    }
    let query = reader.query()?;
    let with_data = with_data(reader);
    let columns = body.bare.into_iter().map(|column| column.name).collect();
    if let Some(unique) = body.constraints.uniques.first() {
        let error = Error::not_supported("UNIQUE in CREATE TABLE … AS is not supported").at(unique.position);
        return Err(error.with_hint("Write ALTER TABLE … ADD UNIQUE (…) afterwards."));
    }
    if let Some(key) = body.constraints.foreign_keys.first() {
        let error = Error::not_supported("REFERENCES in CREATE TABLE … AS is not supported").at(key.position);
        return Err(error.with_hint("Write ALTER TABLE … ADD FOREIGN KEY (…) afterwards."));
    }
    let Body { constraints, clustering_order, options, on_commit, .. } = Body { bare: Vec::new(), ..body };
    let primary_key = constraints.primary_key;
    let table = CreateTableAs {
        name,
        if_not_exists,
        columns,
        primary_key,
        clustering_order,
        options,
        query,
        with_data,
        on_commit,
    };
    Ok(Statement::CreateTableAs(Box::new(table)))
}

/// `[WITH [NO] DATA]`: whether the rows are wanted.
pub(crate) fn with_data(reader: &mut Reader) -> bool {
    let with = !reader.eat_all(&["with", "no", "data"]);
    if with {
        reader.eat_all(&["with", "data"]);
    }
    with
}

/// `LIKE table [INCLUDING … | EXCLUDING …]`.
fn like(reader: &mut Reader) -> Result<TableLike> {
    reader.expect("like")?;
    let table = reader.object_name()?;
    let mut including = Including::default();
    while let Some(word) = reader.eat_any(&["including", "excluding"]) {
        let with = word == "including";
        let parts = ["all", "comments", "constraints", "defaults", "identity", "indexes", "storage"];
        // A table has none of these.
        let others = ["compression", "generated", "statistics"];
        match reader.eat_any(&parts) {
            Some("all") => including = if with { Including::ALL } else { Including::default() },
            Some("comments") => including.comments = with,
            Some("constraints") => including.constraints = with,
            Some("defaults") => including.defaults = with,
            Some("identity") => including.identity = with,
            Some("indexes") => including.indexes = with,
            Some(_) => including.storage = with,
            None if reader.eat_any(&others).is_some() => {}
            None => return Err(reader.unexpected()),
        }
    }
    Ok(TableLike { table, place: 0, families: 0, including })
}

/// One element of the parenthesized list: a column or a constraint.
fn element(reader: &mut Reader, body: &mut Body) -> Result<()> {
    if reader.at("like") && !matches!(reader.token(1), Token::Comma | Token::RParen) {
        let (place, families) = (body.columns.len(), body.families.len());
        body.like.push(TableLike { place, families, ..like(reader)? });
        return Ok(());
    }
    if table_constraint(reader, &mut body.constraints)? {
        return Ok(());
    }
    if matches!(reader.token(1), Token::Comma | Token::RParen) {
        body.bare.push(reader.column()?);
        return Ok(());
    }
    if family::at_definition(reader) {
        body.families.push(FamilyDefinition { place: body.columns.len(), ..family::definition(reader)? });
        return Ok(());
    }
    let column = column_definition(reader, &mut body.constraints)?;
    body.columns.push(column);
    Ok(())
}

/// `[CONSTRAINT name] PRIMARY KEY (…) | CHECK (…) | UNIQUE (…) | FOREIGN KEY (…) …`; false if something else stands here.
fn table_constraint(reader: &mut Reader, all: &mut Constraints) -> Result<bool> {
    let name = constraint_name(reader)?;
    if reader.at_all(&["primary", "key"]) {
        let (clause, order) = primary_key(reader, name)?;
        immediate(reader)?;
        set_key(&mut all.primary_key, clause)?;
        all.key_order = order;
    } else if reader.at("check") {
        let check = check(reader)?;
        all.checks.push(CheckDefinition { name, check });
    } else if at_unique(reader) {
        all.uniques.push(unique(reader, name)?);
    } else if let Some(key) = foreign_key::of_table(reader, &name)? {
        all.foreign_keys.push(key);
    } else {
        refuse_constraint(reader)?;
        return if name.is_some() { Err(reader.unexpected()) } else { Ok(false) };
    }
    Ok(true)
}

/// Whether `UNIQUE (…)` stands here, and not a column of that name.
pub(crate) fn at_unique(reader: &Reader) -> bool {
    reader.at("unique") && (*reader.token(1) == Token::LParen || matches!(reader.word(1), Some("nulls" | "using")))
}

/// `UNIQUE [NULLS DISTINCT] (columns)`, with what says how it is kept.
pub(crate) fn unique(reader: &mut Reader, name: Option<String>) -> Result<UniqueDefinition> {
    let position = reader.position();
    reader.expect("unique")?;
    check_nulls(reader)?;
    if reader.at("using") {
        let error = reader.not_supported("UNIQUE USING INDEX is not supported");
        return Err(error.with_hint("Name the columns: ADD UNIQUE (…)."));
    }
    let columns = reader.names()?;
    if reader.eat("include") {
        reader.names()?;
    }
    unique_end(reader)?;
    Ok(UniqueDefinition { name, columns, position })
}

/// `[NULLS DISTINCT]`, which holds anyway.
pub(crate) fn check_nulls(reader: &mut Reader) -> Result<()> {
    if reader.at_all(&["nulls", "not", "distinct"]) {
        let error = reader.not_supported("NULLS NOT DISTINCT is not supported");
        return Err(error.with_hint("NULLs are distinct: declare the columns NOT NULL if there may be none."));
    }
    reader.eat_all(&["nulls", "distinct"]);
    Ok(())
}

/// `[WITH (…)] [NOT DEFERRABLE] [INITIALLY IMMEDIATE]`.
fn unique_end(reader: &mut Reader) -> Result<()> {
    if reader.at("with") && *reader.token(1) == Token::LParen {
        reader.skip();
        reader.parenthesized(option)?;
    }
    immediate(reader)
}

/// `[NOT DEFERRABLE] [INITIALLY IMMEDIATE]`, which holds anyway.
pub(crate) fn immediate(reader: &mut Reader) -> Result<()> {
    reader.eat_all(&["not", "deferrable"]);
    reader.eat_all(&["initially", "immediate"]);
    if reader.at("deferrable") || reader.at_all(&["initially", "deferred"]) {
        let error = reader.not_supported("DEFERRABLE constraints are not supported");
        return Err(error.with_hint("Each statement is checked at its end."));
    }
    Ok(())
}

fn constraint_name(reader: &mut Reader) -> Result<Option<String>> {
    if reader.eat("constraint") { reader.name().map(Some) } else { Ok(None) }
}

fn set_key(key: &mut Option<PrimaryKey>, clause: PrimaryKey) -> Result<()> {
    if key.is_some() {
        let message = "multiple primary keys for one table are not allowed";
        let error = Error::new(ErrorKind::InvalidTableDefinition, message).at(clause.position);
        return Err(error.with_hint("Name all key columns in one clause: PRIMARY KEY ((partition, …), clustering, …)."));
    }
    *key = Some(clause);
    Ok(())
}

/// `PRIMARY KEY ((a, b), c DESC)`, and the order of the clustering columns if one descends.
pub(crate) fn primary_key(reader: &mut Reader, name: Option<String>) -> Result<(PrimaryKey, Vec<ClusteringOrder>)> {
    let position = reader.position();
    reader.expect_all(&["primary", "key"])?;
    let mut parts = reader.parenthesized(|reader| {
        let position = reader.position();
        let names = match *reader.token(0) == Token::LParen {
            true => reader.names()?,
            false => vec![reader.name()?],
        };
        Ok((names, reader.eat_any(&["asc", "desc"]) == Some("desc"), position))
    })?;
    let (partition, descends, at) = parts.remove(0);
    if descends {
        let error =
            Error::new(ErrorKind::Syntax, "the partition key has no order: only clustering columns may be DESC");
        return Err(error.at(at).with_hint("The first column of a PRIMARY KEY is its partition key."));
    }
    let (mut clustering, mut order) = (Vec::new(), Vec::new());
    for (mut part, descending, position) in parts {
        match part.pop() {
            Some(name) if part.is_empty() => {
                order.push(ClusteringOrder { column: name.clone(), descending, position });
                clustering.push(name);
            }
            _ => {
                let message = "only the first part of a PRIMARY KEY may group columns: they are the partition key";
                return Err(Error::new(ErrorKind::Syntax, message).at(position));
            }
        }
    }
    if order.iter().all(|order| !order.descending) {
        order.clear();
    }
    Ok((PrimaryKey { name, partition, clustering, position }, order))
}

/// `CHECK (expression) [NO INHERIT]`; the text is what stands inside the parentheses.
pub(crate) fn check(reader: &mut Reader) -> Result<SourceExpression> {
    reader.expect("check")?;
    reader.expect_token(&Token::LParen)?;
    let check = reader.source_expression()?;
    reader.expect_token(&Token::RParen)?;
    reader.eat_all(&["no", "inherit"]);
    Ok(check)
}

/// Refuses the constraints that Keyspan cannot keep.
pub(crate) fn refuse_constraint(reader: &Reader) -> Result<()> {
    let (what, hint) = match (reader.word(0), reader.word(1)) {
        (Some("exclude"), Some("using")) => ("EXCLUDE is not supported", "Choose a key that cannot overlap."),
        (Some("masked"), Some("with")) => ("MASKED WITH is not supported", "Leave the column out in a view."),
        _ => return Ok(()),
    };
    Err(reader.not_supported(what).with_hint(hint))
}

/// `name type constraints`.
pub(crate) fn column_definition(reader: &mut Reader, constraints: &mut Constraints) -> Result<ColumnDefinition> {
    let position = reader.position();
    let name = reader.name()?;
    let counter = reader.eat("counter");
    let serial = sequence::serial(reader);
    let read = match (counter, serial) {
        (true, _) => types::ReadType::plain(ColumnType::BigInt, "counter"),
        (_, Some((column_type, text))) => types::ReadType::plain(column_type, text),
        (false, None) => types::read(reader)?,
    };
    let mut column = ColumnDefinition {
        name,
        counter,
        column_type: read.column_type,
        type_text: read.text,
        max_length: read.max_length,
        text_type: read.text_type,
        is_static: false,
        not_null: false,
        default: None,
        sequence: serial.map(|_| ColumnSequence { identity: None, name: None, options: SequenceOptions::default() }),
        position,
    };
    while column_constraint(reader, &mut column, constraints)? {}
    Ok(column)
}

/// One constraint of a column; false if none stands here.
fn column_constraint(reader: &mut Reader, column: &mut ColumnDefinition, all: &mut Constraints) -> Result<bool> {
    let name = constraint_name(reader)?;
    let position = reader.position();
    if reader.eat_all(&["primary", "key"]) {
        let partition = vec![column.name.clone()];
        set_key(&mut all.primary_key, PrimaryKey { name, partition, clustering: Vec::new(), position })?;
        immediate(reader)?;
    } else if reader.eat("static") {
        column.is_static = true;
    } else if reader.eat_all(&["not", "null"]) {
        column.not_null = true;
    } else if reader.eat("null") {
        column.not_null = false;
    } else if reader.eat("default") {
        column.default = Some(default(reader)?);
    } else if let Some(identity) = sequence::identity(reader)? {
        column.sequence = Some(identity);
    } else if reader.at("check") {
        let check = check(reader)?;
        all.checks.push(CheckDefinition { name, check });
    } else if reader.eat("unique") {
        check_nulls(reader)?;
        unique_end(reader)?;
        all.uniques.push(UniqueDefinition { name, columns: vec![column.name.clone()], position });
    } else if reader.at("references") {
        all.foreign_keys.push(foreign_key::of_column(reader, name, &column.name)?);
    } else if reader.eat("collate") {
        collation(reader)?;
    } else {
        refuse_constraint(reader)?;
        return if name.is_some() { Err(reader.unexpected()) } else { Ok(false) };
    }
    Ok(true)
}

/// `DEFAULT expression`: without NOT, AND and OR outside parentheses, as in PostgreSQL, since `NOT NULL` may follow.
pub(crate) fn default(reader: &mut Reader) -> Result<SourceExpression> {
    let from = reader.offset();
    let precedence = PostgreSqlDialect {}.prec_value(Precedence::Is);
    let expression = reader.parse(|parser| parser.parse_subexpr(precedence))?;
    Ok(SourceExpression { expression, text: reader.text_from(from) })
}

fn collation(reader: &mut Reader) -> Result<()> {
    let (name, position) = (reader.object_name()?, reader.position());
    if matches!(name.name.as_str(), "C" | "c" | "POSIX" | "posix" | "default" | "ucs_basic") {
        return Ok(());
    }
    let error = Error::not_supported(format!("collation {name} is not supported")).at(position);
    Err(error.with_hint("Text is ordered by its bytes: COLLATE \"C\"."))
}

/// What follows the parentheses, in any order.
fn tail(reader: &mut Reader, body: &mut Body) -> Result<()> {
    loop {
        if reader.at_all(&["primary", "key"]) {
            let (clause, order) = primary_key(reader, None)?;
            set_key(&mut body.constraints.primary_key, clause)?;
            body.constraints.key_order = order;
        } else if reader.eat("with") {
            if *reader.token(0) == Token::LParen {
                body.options.extend(reader.parenthesized(option)?);
            } else {
                with_options(reader, body)?;
            }
        } else if reader.eat_all(&["without", "oids"]) {
        } else if reader.at_all(&["on", "commit"]) {
            on_commit(reader, body)?;
        } else if matches!(reader.word(0), Some("tablespace" | "inherits" | "partition")) {
            let word = reader.word(0).unwrap_or_default().to_uppercase();
            let error = reader.not_supported(format!("{word} of a table is not supported"));
            return Err(error.with_hint("The first part of the PRIMARY KEY partitions a table."));
        } else {
            return Ok(());
        }
    }
}

/// `ON COMMIT PRESERVE ROWS | DELETE ROWS | DROP`.
fn on_commit(reader: &mut Reader, body: &mut Body) -> Result<()> {
    let position = reader.position();
    reader.expect_all(&["on", "commit"])?;
    if body.on_commit.is_none() {
        let message = "ON COMMIT can only be used on temporary tables";
        return Err(Error::new(ErrorKind::InvalidTableDefinition, message).at(position));
    }
    body.on_commit = Some(match reader.eat_any(&["preserve", "delete", "drop"]) {
        Some("drop") => OnCommit::Drop,
        Some(word) => {
            reader.expect("rows")?;
            if word == "delete" { OnCommit::DeleteRows } else { OnCommit::PreserveRows }
        }
        None => return Err(reader.unexpected()),
    });
    Ok(())
}

/// `WITH CLUSTERING ORDER BY (…) AND option = value …`.
fn with_options(reader: &mut Reader, body: &mut Body) -> Result<()> {
    loop {
        if reader.eat_all(&["clustering", "order", "by"]) {
            body.clustering_order.extend(reader.parenthesized(clustering_order)?);
        } else if reader.at_all(&["compact", "storage"]) {
            let error = reader.not_supported("COMPACT STORAGE is not supported");
            return Err(error.with_hint("Leave it out: Cassandra has dropped it too."));
        } else {
            body.options.push(option(reader)?);
        }
        if !reader.eat("and") {
            return Ok(());
        }
    }
}

fn clustering_order(reader: &mut Reader) -> Result<ClusteringOrder> {
    let position = reader.position();
    let column = reader.name()?;
    let descending = reader.eat_any(&["asc", "desc"]) == Some("desc");
    Ok(ClusteringOrder { column, descending, position })
}
