//! Errors about rows that break a constraint, as PostgreSQL words them, with the names that drivers look for.

use keyspan_model::{ColumnDef, Error, ErrorKind, ErrorSubject, IndexDef, TableDef, Value};

/// What an error is about: a table.
pub(crate) fn subject(table: &TableDef) -> ErrorSubject {
    ErrorSubject { schema: table.keyspace.clone(), table: table.name.clone(), column: None, constraint: None }
}

/// 23502 as PostgreSQL words it.
pub(crate) fn null_value(table: &TableDef, column: &ColumnDef, row: Option<&[Value]>) -> Error {
    let message =
        format!("null value in column \"{}\" of relation \"{}\" violates not-null constraint", column.name, table.name);
    let subject = ErrorSubject { column: Some(column.name.clone()), ..subject(table) };
    let error = Error::new(ErrorKind::NotNull, message).about(subject);
    match row {
        Some(row) => error.with_detail(failing_row(table, row)),
        None => error,
    }
}

/// A key or unique index of a table: what an error says of it.
pub(crate) struct Uniqueness<'a> {
    table: &'a TableDef,
    name: String,
    columns: Vec<&'a ColumnDef>,
}

impl<'a> Uniqueness<'a> {
    /// The key of a table.
    pub(crate) fn of_key(table: &'a TableDef) -> Uniqueness<'a> {
        Uniqueness { table, name: table.key_name(), columns: table.key().collect() }
    }

    /// A unique index of a table.
    pub(crate) fn of_index(table: &'a TableDef, index: &IndexDef) -> Uniqueness<'a> {
        let columns = index.columns.iter().filter_map(|column| table.column_by_id(*column)).collect();
        Uniqueness { table, name: index.name.clone(), columns }
    }

    /// 23505 for values that a row has.
    pub(crate) fn exists(&self, values: &[Value]) -> Error {
        let message = format!("duplicate key value violates unique constraint \"{}\"", self.name);
        self.error(message).with_detail(format!("{} already exists.", self.shown(values)))
    }

    /// 23505 for rows of one statement that have the same values.
    pub(crate) fn comes_twice(&self) -> Error {
        let message = format!("duplicate key value violates unique constraint \"{}\"", self.name);
        self.error(message).with_detail("A key comes twice among the rows.")
    }

    /// 23505 for what cannot be made, since several rows have the same values.
    pub(crate) fn repeated(&self, values: &[Value]) -> Error {
        let message = format!("could not create unique index \"{}\"", self.name);
        self.error(message).with_detail(format!("{} is duplicated.", self.shown(values)))
    }

    fn error(&self, message: String) -> Error {
        let subject = ErrorSubject { constraint: Some(self.name.clone()), ..subject(self.table) };
        Error::new(ErrorKind::Unique, message).about(subject)
    }

    /// `Key (a, b)=(1, x)`.
    fn shown(&self, values: &[Value]) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let values: Vec<String> =
            self.columns.iter().zip(values).map(|(column, value)| value.to_text(column.ty)).collect();
        format!("Key ({})=({})", names.join(", "), values.join(", "))
    }
}

fn failing_row(table: &TableDef, row: &[Value]) -> String {
    let text = |place: usize| match &row[place] {
        Value::Null => "null".to_string(),
        value => value.to_text(table.columns[place].ty),
    };
    format!("Failing row contains ({}).", table.shown_places().map(text).collect::<Vec<_>>().join(", "))
}
