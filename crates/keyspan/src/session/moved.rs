//! UPDATE of key columns, as PostgreSQL has it: rows are stored by their key, so that one with another key is another row.
//!
//! ```text
//! UPDATE t SET id = id + 1 WHERE … RETURNING *
//! DELETE FROM t WHERE … RETURNING id + 1 AS id, v, … ─▶ rows ─▶ INSERT INTO t … RETURNING *, in one transaction
//! ```
//!
//! All old rows go before the first new one comes, so that keys may change places; one that another row has is 23505. Only
//! under `write_semantics = postgres`: in CQL the key says which row is meant.

use keyspan_cql::{ColumnName, Delete, Insert, InsertSource, InsertValue, Update, ast, quoted};
use keyspan_model::{Error, ErrorKind, Result, TableDef, Value};

use super::Session;
use crate::dml;
use crate::given::relation;
use crate::merge;
use crate::names;
use crate::outcome::{Outcome, Tag};
use crate::transaction_control;

/// The name of the rows that move; no table has it.
const ROWS: &str = "\u{1}moved";

impl Session {
    /// UPDATE.
    pub(super) async fn update(&mut self, statement: &Update, parameters: &[Value]) -> Result<Outcome> {
        let context = &mut self.context;
        let table = names::table(&context.catalog(), &context.settings.search_path(), &statement.table)?;
        let is_key = |name: &str| table.column(name).is_some_and(keyspan_model::ColumnDef::is_key);
        let moves = statement.assignments.iter().any(|assignment| is_key(&assignment.column.name));
        if !moves || !context.settings.postgres_writes() {
            return Box::pin(dml::update::run(context, statement, parameters)).await;
        }
        check(&table, statement)?;
        let own = transaction_control::begin_several(&mut self.context)?;
        let before = self.context.given.len();
        let done = self.moved(&table, statement, parameters).await;
        self.context.given.truncate(before);
        self.end_several(own, done).await
    }

    async fn moved(&mut self, table: &TableDef, statement: &Update, parameters: &[Value]) -> Result<Outcome> {
        self.context.snapshot()?;
        let delete = Delete {
            columns: Vec::new(),
            table: statement.table.clone(),
            family: None,
            alias: statement.alias.clone(),
            using: statement.using.clone(),
            from: statement.from.clone(),
            filter: statement.filter.clone(),
            condition: None,
            returning: Some(new_values(table, statement)?),
        };
        let deleted = Box::pin(dml::delete::run(&mut self.context, &delete, parameters)).await?;
        let count = deleted.tag.rows().unwrap_or(0);
        let Some(rows) = deleted.rows else { return Err(Error::internal("a DELETE that returns nothing")) };
        let fields = rows.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let rows = relation(ROWS, fields, rows.collect().await?)?;
        self.context.given.push(rows);
        transaction_control::next_write(&mut self.context);
        let position = statement.table.position;
        let column = |name: &str| ColumnName { name: name.to_owned(), qualifier: None, position };
        let insert = Insert {
            table: statement.table.clone(),
            alias: statement.alias.clone(),
            columns: table.shown_columns().map(|each| column(&each.name)).collect(),
            source: InsertSource::Query(merge::select(merge::table_factor(&quoted(ROWS))?, None)?),
            places: Vec::new(),
            using: statement.using.clone(),
            overriding: true,
            if_not_exists: false,
            on_conflict: None,
            returning: statement.returning.clone(),
        };
        let inserted = Box::pin(dml::insert::run(&mut self.context, &insert, parameters)).await?.read_all().await?;
        Ok(Outcome { tag: Tag::counted("UPDATE", count), ..inserted })
    }
}

/// Fails for columns that are not there or are assigned twice, and for rows that have more than the values of columns.
fn check(table: &TableDef, statement: &Update) -> Result<()> {
    for (place, assignment) in statement.assignments.iter().enumerate() {
        let (name, position) = (&assignment.column.name, assignment.column.position);
        let column = table.expect_column(name).map_err(|error| error.at(position))?;
        dml::assign::check_identity(column, assignment)?;
        if statement.assignments[..place].iter().any(|other| other.column.name == *name) {
            let message = format!("multiple assignments to same column \"{name}\"");
            return Err(Error::new(ErrorKind::Syntax, message).at(position));
        }
    }
    let plain = table.families.is_empty() && table.statics.is_none() && !table.has_counters();
    let said = statement.condition.is_some() || statement.using != keyspan_cql::Using::default();
    match plain && !said {
        true => Ok(()),
        false => {
            let message = format!("a key of table \"{}\" cannot be changed by this UPDATE", table.name);
            let hint = "It has families, static columns or counters, or the statement says USING or IF. DELETE the row \
                        and INSERT it with the other key.";
            Err(Error::not_supported(message).with_hint(hint))
        }
    }
}

/// The values of the rows to come, in the order of the table's columns.
fn new_values(table: &TableDef, statement: &Update) -> Result<Vec<ast::SelectItem>> {
    let alias = quoted(statement.alias.as_deref().unwrap_or(&table.name));
    let value = |column: &keyspan_model::ColumnDef| {
        let assigned = statement.assignments.iter().find(|assignment| assignment.column.name == column.name);
        let expression = match assigned.map(|assignment| &assignment.value) {
            None => keyspan_cql::parse_expression(&format!("{alias}.{}", quoted(&column.name)))?,
            Some(InsertValue::Default) => match &column.default {
                Some(default) => keyspan_cql::parse_expression(default)?,
                None => keyspan_cql::parse_expression("NULL")?,
            },
            Some(value) => value.as_expression().ok_or_else(|| {
                Error::not_supported("SET (…) = (SELECT …) beside a column of the key is not supported")
                    .with_hint("Write each column with a subquery of its own.")
            })?,
        };
        let expr = merge::typed(expression, column.ty)?;
        Ok(ast::SelectItem::ExprWithAlias { expr, alias: ast::Ident::with_quote('"', &column.name) })
    };
    table.shown_columns().map(value).collect()
}
