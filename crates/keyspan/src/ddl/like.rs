//! `CREATE TABLE (LIKE other …)`: the statement with the columns of another table in it.
//!
//! The rule: what comes along is what DESCRIBE says of the other table, read as if it had been written.

use keyspan_cql::{
    ColumnDefinition, Comment, CreateIndex, CreateTable, FamilyDefinition, Including, PrimaryKey, SourceExpression,
    Statement, TableLike, UniqueDefinition, parse_expression, parse_one,
};
use keyspan_model::{Catalog, Error, ErrorKind, Result, Right, TableDef};

use crate::context::ClientContext;
use crate::{describe, names};

/// A statement without LIKE, and those for what comes along, once its table is there.
#[derive(Debug)]
pub(crate) struct Expanded {
    pub(crate) table: CreateTable,
    pub(crate) indexes: Vec<CreateIndex>,
    pub(crate) comments: Vec<Comment>,
}

/// The statement with the columns of the tables that it is like.
///
/// # Errors
/// 42P01 and 42809 for what is no table, 42P16 for a second key.
pub(crate) fn expanded(context: &ClientContext, statement: &CreateTable) -> Result<Expanded> {
    let (catalog, path) = (context.catalog(), context.settings.search_path());
    let mut table = CreateTable { like: Vec::new(), ..statement.clone() };
    let (mut indexes, mut comments) = (Vec::new(), Vec::new());
    // From the last, so that the places of the others hold.
    for like in statement.like.iter().rev() {
        let source = names::table(&catalog, &path, &like.table)?;
        context.require(&source, Right::Select, &[])?;
        add(&mut table, like, described(&catalog, &source)?, &source)?;
        if like.including.indexes {
            indexes.extend(indexes_of(&source, statement)?);
        }
        if like.including.comments {
            comments.extend(comments_of(&source, statement, like.including)?);
        }
    }
    Ok(Expanded { table, indexes, comments })
}

fn described(catalog: &Catalog, source: &TableDef) -> Result<CreateTable> {
    match parse_one(&describe::table(catalog, source))?.statement {
        Statement::CreateTable(table) => Ok(*table),
        _ => Err(Error::internal("a table that is not described as one")),
    }
}

fn add(table: &mut CreateTable, like: &TableLike, source: CreateTable, definition: &TableDef) -> Result<()> {
    let Including { constraints, indexes, storage, .. } = like.including;
    let columns = source.columns.into_iter().map(|column| taken(column, like, definition));
    let columns = columns.collect::<Result<Vec<ColumnDefinition>>>()?;
    for behind in &mut table.families[like.families..] {
        behind.place += columns.len();
    }
    table.columns.splice(like.place..like.place, columns);
    let families = source.families.into_iter().map(|family| {
        let (place, position) = (like.place + family.place, like.table.position);
        FamilyDefinition { place, position, ..family }
    });
    table.families.splice(like.families..like.families, families);
    if constraints {
        table.checks.extend(source.checks);
    }
    if indexes {
        let key = source.primary_key.map(|key| PrimaryKey { name: None, ..key });
        if table.primary_key.is_some() && key.is_some() {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name.name);
            return Err(Error::new(ErrorKind::InvalidTableDefinition, message).at(like.table.position));
        }
        if key.is_some() {
            (table.primary_key, table.clustering_order) = (key, source.clustering_order);
        }
        let unnamed = |unique| UniqueDefinition { name: None, ..unique };
        table.uniques.extend(source.uniques.into_iter().map(unnamed));
    }
    if storage {
        let own: Vec<String> = table.options.iter().map(|option| option.name.clone()).collect();
        table.options.extend(source.options.into_iter().filter(|option| !own.contains(&option.name)));
    }
    Ok(())
}

/// A column as the new table has it. Of `serial` the number comes from the other table's sequence, as in PostgreSQL.
fn taken(column: ColumnDefinition, like: &TableLike, source: &TableDef) -> Result<ColumnDefinition> {
    let own = source.expect_column(&column.name)?;
    let is_identity = own.identity.is_some();
    let default = own.default.clone().filter(|_| like.including.defaults && !is_identity);
    let default = default.map(|text| parse_expression(&text).map(|expression| SourceExpression { text, expression }));
    Ok(ColumnDefinition {
        default: default.transpose()?,
        // Of a partition, which needs a key.
        is_static: column.is_static && like.including.indexes,
        // Those of a key are, whether the key comes along or not.
        not_null: own.not_null || own.is_key() || column.sequence.is_some(),
        sequence: column.sequence.filter(|_| is_identity && like.including.identity),
        position: like.table.position,
        ..column
    })
}

/// The indexes of a table that are no constraints, for the new one; their names are to be found anew.
fn indexes_of(source: &TableDef, statement: &CreateTable) -> Result<Vec<CreateIndex>> {
    let indexes = source.indexes.iter().filter(|index| !index.is_constraint());
    let parsed = indexes.map(|index| match parse_one(&describe::index(source, index))?.statement {
        Statement::CreateIndex(index) => Ok(CreateIndex { name: None, table: statement.name.clone(), ..index }),
        _ => Err(Error::internal("an index that is not described as one")),
    });
    parsed.collect()
}

/// The comments on columns of a table, and on its CHECKs where these come along: other constraints have names of their own.
fn comments_of(source: &TableDef, statement: &CreateTable, including: Including) -> Result<Vec<Comment>> {
    let parsed = describe::comments(source).into_iter().map(|(_, text)| match parse_one(&text)?.statement {
        Statement::Comment(comment) => Ok(Comment { name: statement.name.clone(), ..comment }),
        _ => Err(Error::internal("a comment that is not described as one")),
    });
    let is_check = |name: &Option<String>| source.checks.iter().any(|check| Some(&check.name) == name.as_ref());
    let comes = |comment: &Comment| comment.kind == "column" || including.constraints && is_check(&comment.column);
    parsed.filter(|comment| comment.as_ref().map_or(true, comes)).collect()
}
