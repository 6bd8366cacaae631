//! ALTER TABLE … ADD PRIMARY KEY, for a table that has none. Rows are stored by their key, so all are written anew.

use keyspan_cql::{ObjectName, PrimaryKey};
use keyspan_model::{Catalog, ColumnDef, ColumnRole, Error, ErrorKind, Result, TableDef};

use super::option;
use super::rewrite::Rewrite;
use super::table::{check_counters, name_key};
use crate::context::ClientContext;

const COPY: &str = "Write CREATE TABLE new (PRIMARY KEY (…)) AS SELECT … FROM old, then rename.";

/// `ALTER TABLE name ADD PRIMARY KEY (…)`.
pub(super) async fn add(context: &mut ClientContext, name: &ObjectName, key: &PrimaryKey) -> Result<()> {
    let rewrite = Rewrite { refused: "a PRIMARY KEY cannot be added", hint: COPY };
    rewrite.run(context, name, |catalog, table| Ok((with_key(catalog, table, key)?, Vec::new()))).await
}

/// The table with this key.
fn with_key(catalog: &mut Catalog, table: &TableDef, key: &PrimaryKey) -> Result<TableDef> {
    if table.has_key() {
        let message = format!("multiple primary keys for table \"{}\" are not allowed", table.name);
        let error = Error::new(ErrorKind::InvalidTableDefinition, message);
        return Err(error.with_hint(COPY).at(key.position));
    }
    let mut columns = key_columns(table, key).map_err(|error| error.at(key.position))?;
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    columns.extend(table.columns.iter().filter(|each| !each.hidden && !names.contains(&each.name)).cloned());
    let window = match table.options.contains_key("window") {
        true => table.window,
        false => option::window_column(&columns),
    };
    let mut keyed = TableDef { columns, window, ..table.clone() };
    check_counters(&keyed)?;
    name_key(catalog, &mut keyed, key)?;
    Ok(keyed)
}

fn key_columns(table: &TableDef, key: &PrimaryKey) -> Result<Vec<ColumnDef>> {
    let partition = key.partition.iter().map(|name| (name, ColumnRole::Partition));
    let clustering = key.clustering.iter().map(|name| (name, ColumnRole::Clustering { descending: false }));
    let mut columns: Vec<ColumnDef> = Vec::new();
    for (name, role) in partition.chain(clustering) {
        if columns.iter().any(|column| column.name == *name) {
            let message = format!("column \"{name}\" appears twice in primary key constraint");
            return Err(Error::new(ErrorKind::DuplicateColumn, message));
        }
        let Some(column) = table.column(name).filter(|column| !column.hidden) else {
            let message = format!("column \"{name}\" named in key does not exist");
            return Err(Error::new(ErrorKind::UndefinedColumn, message));
        };
        column.ty.allowed_in_key()?;
        columns.push(ColumnDef { role, not_null: true, ..column.clone() });
    }
    Ok(columns)
}
