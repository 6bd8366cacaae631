//! Rows or cells of a span of keys.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use keyspan_cql::quoted;
use keyspan_model::schema::VERSION_COLUMN;
use keyspan_model::{ColumnDef, ColumnRole, Error, ErrorKind, Result, TableDef, Value};

use super::{Text, check_key, name, quoted_name};
use crate::dml::cells;
use crate::names::{self, TableOrView};
use crate::outcome::Rows;
use crate::session::Session;

/// A read of rows or cells by a span of their keys, in key order, for [`Session::read`].
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    table: String,
    family: Option<String>,
    prefix: Vec<Value>,
    range: (Bound<Value>, Bound<Value>),
    columns: Vec<String>,
    versions: Option<u64>,
    cells_per_row: Option<u64>,
    limit: Option<u64>,
    reversed: bool,
}

impl Read {
    /// The rows of a table, whose name may have its keyspace and a point before it.
    pub fn rows(table: &str) -> Read {
        Read {
            table: table.to_owned(),
            family: None,
            prefix: Vec::new(),
            range: (Bound::Unbounded, Bound::Unbounded),
            columns: Vec::new(),
            versions: None,
            cells_per_row: None,
            limit: None,
            reversed: false,
        }
    }

    /// The cells of a family or collection, as `cells('table', 'family')` gives them. Their key is the row key, then
    /// the qualifier, of a family then the write timestamp, newest first; then comes the value.
    pub fn cells(table: &str, family: &str) -> Read {
        Read { family: Some(family.to_owned()), ..Read::rows(table) }
    }

    /// Only those whose key begins with these values.
    #[must_use]
    pub fn prefix(mut self, key: impl IntoIterator<Item = impl Into<Value>>) -> Read {
        self.prefix = key.into_iter().map(Into::into).collect();
        self
    }

    /// Only those whose next key column, behind the prefix, lies in this range.
    #[must_use]
    pub fn range<V: Into<Value> + Clone>(mut self, range: impl RangeBounds<V>) -> Read {
        self.range = (range.start_bound().cloned().map(Into::into), range.end_bound().cloned().map(Into::into));
        self
    }

    /// Only these columns, in this order; without it all.
    #[must_use]
    pub fn columns(mut self, columns: impl IntoIterator<Item = impl Into<String>>) -> Read {
        self.columns = columns.into_iter().map(Into::into).collect();
        self
    }

    /// Of each cell so many versions at most, the newest. Of a read of cells.
    #[must_use]
    pub fn versions(mut self, most: u64) -> Read {
        self.versions = Some(most);
        self
    }

    /// Of each row so many cells at most, versions counted each. Of a read of cells.
    #[must_use]
    pub fn cells_per_row(mut self, most: u64) -> Read {
        self.cells_per_row = Some(most);
        self
    }

    /// So many rows, or cells, at most.
    #[must_use]
    pub fn limit(mut self, most: u64) -> Read {
        self.limit = Some(most);
        self
    }

    /// Against the order of the key.
    #[must_use]
    pub fn reversed(mut self) -> Read {
        self.reversed = true;
        self
    }

    fn text(&self, session: &Session) -> Result<Text> {
        if self.family.is_none() && (self.versions.is_some() || self.cells_per_row.is_some()) {
            let message = format!("versions and cells are counted in a read of cells: \"{}\"", self.table);
            return Err(Error::new(ErrorKind::InvalidParameter, message).with_hint("Take Read::cells, or limit."));
        }
        let named = names::expect(&session.catalog(), &session.settings().search_path(), &name(&self.table))?;
        let (table, cells) = match (named, &self.family) {
            (TableOrView::Table(table), Some(family)) => {
                let cells = cells::handle(&table, family)?.table;
                (Some(table), Some(cells))
            }
            (TableOrView::Table(table), None) => (Some(table), None),
            (TableOrView::View(view), Some(_)) => {
                let message = format!("\"{}\" is a view, and has no families", view.name);
                return Err(Error::new(ErrorKind::WrongObjectType, message));
            }
            // Its rows have no key.
            (TableOrView::View(_), None) => (None, None),
        };
        let visible = |table: &Arc<TableDef>| table.key().filter(|column| !column.hidden).cloned().collect();
        let key: Vec<ColumnDef> = cells.as_ref().or(table.as_ref()).map(visible).unwrap_or_default();
        let names: Vec<String> = key.iter().map(|column| column.name.clone()).collect();
        check_key(&self.table, &names, &self.prefix)?;
        let mut text = Text::default();
        let columns: Vec<String> = self.columns.iter().map(|column| quoted(column)).collect();
        text.push(&format!("SELECT {} FROM ", if columns.is_empty() { "*".into() } else { columns.join(", ") }));
        match (&self.family, &table) {
            (Some(family), Some(table)) => text.push(&format!("{} AS cells", cells::source(table, family))),
            _ => text.push(&quoted_name(&name(&self.table))),
        }
        self.push_filter(&self.table, &names, &mut text)?;
        let order = |reversed: bool| {
            let each = key.iter().map(|column| {
                let descending = matches!(column.role, ColumnRole::Clustering { descending: true });
                format!("{} {}", quoted(&column.name), if descending != reversed { "DESC" } else { "ASC" })
            });
            each.collect::<Vec<_>>().join(", ")
        };
        let mut kept = Vec::new();
        if let (Some(cells), Some(table)) = (&cells, &table) {
            let first = |columns: usize, order: String, most: u64| {
                let columns = names.iter().take(columns).map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
                format!("row_number() OVER (PARTITION BY {columns} ORDER BY {order}) <= {most}")
            };
            let qualifiers = cells.key().filter(|column| column.id != VERSION_COLUMN).count();
            kept.extend(self.versions.map(|most| first(qualifiers, order(false), most)));
            kept.extend(self.cells_per_row.map(|most| first(table.key().count(), order(self.reversed), most)));
        }
        if !kept.is_empty() {
            text.push(&format!(" QUALIFY {}", kept.join(" AND ")));
        }
        if !key.is_empty() {
            text.push(&format!(" ORDER BY {}", order(self.reversed)));
        }
        if let Some(limit) = self.limit {
            text.push(&format!(" LIMIT {limit}"));
        }
        Ok(text)
    }

    fn push_filter(&self, table: &str, key: &[String], text: &mut Text) -> Result<()> {
        let bounds = match &self.range {
            (Bound::Unbounded, Bound::Unbounded) => vec![],
            (start, end) => vec![(start, [">=", ">"]), (end, ["<=", "<"])],
        };
        if !bounds.is_empty() {
            let next = self.prefix.iter().cloned().chain([Value::Null]).collect::<Vec<_>>();
            check_key(table, key, &next)?;
        }
        text.push(if self.prefix.is_empty() && bounds.is_empty() { "" } else { " WHERE " });
        text.equal(key, &self.prefix);
        let mut first = self.prefix.is_empty();
        for (bound, [inclusive, exclusive]) in bounds {
            let (operator, value) = match bound {
                Bound::Included(value) => (inclusive, value),
                Bound::Excluded(value) => (exclusive, value),
                Bound::Unbounded => continue,
            };
            text.push(if first { "" } else { " AND " });
            first = false;
            text.push(&format!("{} {operator} ", quoted(&key[self.prefix.len()])));
            text.value(value);
        }
        Ok(())
    }
}

impl Session {
    /// Reads rows or cells, in the order of their keys.
    ///
    /// # Errors
    /// 42P01 and 42703 for names that there are not.
    pub async fn read(&mut self, read: &Read) -> Result<Rows> {
        let text = read.text(self)?;
        let outcome = self.run_text(text).await?;
        Ok(outcome.rows.unwrap_or_else(Rows::none))
    }
}
