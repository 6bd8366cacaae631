//! `scan`, `get` and `count`.
//!
//! A scan answers rows as SELECT does. Where it asks for versions, times or single cells it answers cells, one a row:
//! the key, `family:qualifier`, the time of the write, the value as text.

use keyspan_cql::{HbaseCommand, quoted};
use keyspan_model::{ColumnType, Error, FamilyDef, Result, TableDef};

use super::argument::{self, Arguments};
use super::filter::{CellNames, Filter};
use super::row::{self, Column};
use super::{invalid, literal, path};
use crate::dml::cells;

const ATTRIBUTES: &[&str] = &[
    "ROWPREFIXFILTER",
    "STARTROW",
    "STOPROW",
    "LIMIT",
    "COLUMNS",
    "REVERSED",
    "VERSIONS",
    "TIMERANGE",
    "TIMESTAMP",
    "FILTER",
];

/// How HBase should work, not what it should answer.
const IGNORED: &[&str] =
    &["CACHE", "CACHE_BLOCKS", "BATCH", "INTERVAL", "CONSISTENCY", "MAXLENGTH", "ALL_METRICS", "METRICS"];

/// `scan 't', {…}`.
pub(super) fn scan(table: &TableDef, command: &HbaseCommand) -> Result<String> {
    let mut arguments = Arguments::of(command);
    let selection = Selection::read(table, &mut arguments)?;
    arguments.end_of(ATTRIBUTES)?;
    selection.query()
}

/// `get 't', 'row' [, column …] [, {…}]`.
pub(super) fn get(table: &TableDef, command: &HbaseCommand) -> Result<String> {
    let mut arguments = Arguments::of(command);
    let key = argument::text(arguments.expect("row key")?)?;
    let mut selection = Selection { is_one: true, ..Selection::read(table, &mut arguments)? };
    while let Some(columns) = arguments.take_next() {
        selection.choose(argument::texts(columns)?)?;
    }
    arguments.end_of(ATTRIBUTES)?;
    selection.rows.push(row::is_row(table, key)?);
    selection.query()
}

/// `count 't' [, {…}]`.
pub(super) fn count(table: &TableDef, command: &HbaseCommand) -> Result<String> {
    let mut arguments = Arguments::of(command);
    // `count 't', 1000` is its interval.
    arguments.take_next();
    let selection = Selection::read(table, &mut arguments)?;
    arguments.end_of(ATTRIBUTES)?;
    if selection.is_of_cells() {
        let keys = row::key_names(table).join(", ");
        return Ok(format!(
            "SELECT count(*) FROM (SELECT DISTINCT {keys} FROM ({}) AS cells) AS rows",
            selection.cells()?
        ));
    }
    Ok(format!("SELECT count(*) FROM {}{}", selection.path, selection.filter()?))
}

/// What is read.
struct Selection<'a> {
    table: &'a TableDef,
    path: String,
    /// Whether it is one row, which needs no order.
    is_one: bool,
    /// Conditions on rows.
    rows: Vec<String>,
    columns: Vec<Column<'a>>,
    reversed: bool,
    limit: Option<i64>,
    versions: Option<i64>,
    /// Microseconds: from, and until, which is left out.
    time: Option<(i64, i64)>,
    filter: Option<Filter>,
}

impl<'a> Selection<'a> {
    fn read(table: &'a TableDef, arguments: &mut Arguments) -> Result<Selection<'a>> {
        arguments.ignore(IGNORED);
        let reversed = arguments.take(&["REVERSED"]).map(argument::boolean).transpose()?.unwrap_or(false);
        let mut selection = Selection {
            table,
            path: path(table),
            is_one: false,
            rows: Vec::new(),
            columns: Vec::new(),
            reversed,
            limit: arguments.take(&["LIMIT"]).map(limit).transpose()?,
            versions: arguments.take(&["VERSIONS", "MAXVERSIONS"]).map(argument::count).transpose()?,
            time: arguments.take(&["TIMERANGE"]).map(argument::range).transpose()?,
            filter: None,
        };
        if let Some(at) = arguments.take(&["TIMESTAMP"]) {
            let from = argument::microseconds(at)?;
            selection.time = Some((from, from.saturating_add(1_000)));
        }
        selection.restrict(arguments)?;
        if let Some(columns) = arguments.take(&["COLUMNS", "COLUMN"]) {
            selection.choose(argument::texts(columns)?)?;
        }
        Ok(selection)
    }

    /// Which rows, and which of their cells.
    fn restrict(&mut self, arguments: &mut Arguments) -> Result<()> {
        if let Some(prefix) = arguments.take(&["ROWPREFIXFILTER"]) {
            self.rows.extend(row::has_prefix(self.table, argument::text(prefix)?));
        }
        for (name, start) in [("STARTROW", true), ("STOPROW", false), ("ENDROW", false)] {
            if let Some(text) = arguments.take(&[name]) {
                self.rows.push(row::bound(self.table, argument::text(text)?, start, self.reversed));
            }
        }
        if let Some(text) = arguments.take(&["FILTER"]) {
            let filter = Filter::parse(argument::text(text)?)?;
            match filter.is_of_rows() {
                true => self.rows.push(filter.row_condition(self.table)?),
                false => self.filter = Some(filter),
            }
        }
        Ok(())
    }

    fn choose(&mut self, columns: Vec<&str>) -> Result<()> {
        for text in columns {
            self.columns.push(row::column(self.table, text)?);
        }
        Ok(())
    }

    fn is_of_cells(&self) -> bool {
        self.versions.is_some() || self.time.is_some() || self.filter.is_some()
    }

    fn query(&self) -> Result<String> {
        let order = row::order(self.table, self.reversed);
        if !self.is_of_cells() {
            let rows = format!("SELECT {} FROM {}{}", self.output(), self.path, self.filter()?);
            let limit = self.limit.map(|rows| format!(" LIMIT {rows}")).unwrap_or_default();
            return Ok(if self.is_one { rows } else { format!("{rows} ORDER BY {order}{limit}") });
        }
        let limit = match self.limit.filter(|_| !self.limits_rows_first()) {
            Some(rows) => format!(" QUALIFY dense_rank() OVER (ORDER BY {order}) <= {rows}"),
            None => String::new(),
        };
        Ok(format!(
            "SELECT * FROM ({}) AS cells{limit} ORDER BY {order}, \"column\", \"timestamp\" DESC",
            self.cells()?
        ))
    }

    /// The key, which HBase shows always, and the columns.
    fn output(&self) -> String {
        if self.columns.is_empty() {
            return "*".to_owned();
        }
        let mut output = row::key_names(self.table);
        for column in self.columns.iter().filter(|column| !is_key(column)) {
            output.push(format!("{} AS {}", column.expression(), quoted(&column.label())));
        }
        output.join(", ")
    }

    /// The conditions on rows: those given, and that a row has one of the columns.
    fn filter(&self) -> Result<String> {
        let mut conditions = self.rows.clone();
        if !self.columns.is_empty() && !self.columns.iter().any(is_key) {
            let each = self.columns.iter().map(|column| format!("{} IS NOT NULL", column.expression()));
            conditions.push(format!("({})", each.collect::<Vec<_>>().join(" OR ")));
        }
        Ok(where_all(&conditions))
    }

    /// The cells, those of each family and each column by themselves.
    fn cells(&self) -> Result<String> {
        let mut arms = Vec::new();
        for column in &self.columns {
            match column {
                Column::Plain(column) if !column.is_key() => arms.push(self.cells_of_column(&column.name, column.ty)?),
                Column::Plain(_) => {}
                Column::Family(family) => arms.push(self.cells_of_family(family, None)?),
                Column::Cell(family, qualifier) => arms.push(self.cells_of_family(family, Some(qualifier))?),
            }
        }
        if self.columns.is_empty() {
            for column in self.table.columns.iter().filter(|column| !column.is_key() && !column.hidden) {
                arms.push(self.cells_of_column(&column.name, column.ty)?);
            }
            // Elements of collections have no versions, and are no cells.
            for family in self.table.families.iter().filter(|family| !family.kind.is_collection()) {
                arms.push(self.cells_of_family(family, None)?);
            }
        }
        if arms.is_empty() {
            return Err(invalid("there are no cells but those of the key"));
        }
        Ok(arms.join(" UNION ALL "))
    }

    fn cells_of_family(&self, family: &FamilyDef, qualifier: Option<&str>) -> Result<String> {
        if family.kind.is_collection() || family.several_parts {
            let what = if family.several_parts { "qualifiers of several parts" } else { "a collection" };
            let error = Error::not_supported(format!("versions and filters of \"{}\", {what}", family.name));
            return Err(error.with_hint(format!("Query cells('{}', '{}').", self.table.name, family.name)));
        }
        let mut conditions = self.rows_limited()?;
        if let Some(qualifier) = qualifier {
            conditions.push(format!("qualifier = {}", literal(qualifier)));
        }
        if let Some((from, until)) = self.time {
            conditions.push(format!("WRITETIME(value) >= {from} AND WRITETIME(value) < {until}"));
        }
        let keys = row::key_names(self.table).join(", ");
        let names = CellNames {
            family: family.name.clone(),
            qualifier: ("qualifier".to_owned(), family.qualifier[0].ty),
            value: ("value".to_owned(), family.value.ty),
        };
        Ok(format!(
            "SELECT {keys}, {} || qualifier::text AS \"column\", written_at AS \"timestamp\", value::text AS value \
             FROM (SELECT * FROM {}{} QUALIFY row_number() OVER \
             (PARTITION BY {keys}, qualifier ORDER BY written_at DESC) <= {}) AS versions{}",
            literal(&format!("{}:", family.name)),
            cells::source(self.table, &family.name),
            where_all(&conditions),
            self.versions.unwrap_or(1),
            self.cell_filter(&names)?
        ))
    }

    /// The cells of a column, of which there is one version.
    fn cells_of_column(&self, name: &str, ty: ColumnType) -> Result<String> {
        let column = quoted(name);
        let mut conditions = self.rows_limited()?;
        conditions.push(format!("{column} IS NOT NULL"));
        if let Some((from, until)) = self.time {
            conditions.push(format!("WRITETIME({column}) >= {from} AND WRITETIME({column}) < {until}"));
        }
        let names = CellNames {
            family: name.to_owned(),
            qualifier: (literal(name), ColumnType::Text),
            value: (column.clone(), ty),
        };
        if let Some(filter) = &self.filter {
            conditions.push(filter.condition(self.table, &names)?);
        }
        Ok(format!(
            "SELECT {}, {} AS \"column\", 'epoch'::timestamptz + WRITETIME({column}) * INTERVAL '1 microsecond' \
             AS \"timestamp\", {column}::text AS value FROM {}{}",
            row::key_names(self.table).join(", "),
            literal(name),
            self.path,
            where_all(&conditions)
        ))
    }

    fn cell_filter(&self, names: &CellNames) -> Result<String> {
        match &self.filter {
            Some(filter) => Ok(format!(" WHERE {}", filter.condition(self.table, names)?)),
            None => Ok(String::new()),
        }
    }

    /// Whether a limit can be applied before cells are read: no filter and no time decides which rows have any.
    fn limits_rows_first(&self) -> bool {
        self.filter.is_none() && self.time.is_none()
    }

    /// The conditions on rows; with a limit only the first of those that have one of the columns.
    fn rows_limited(&self) -> Result<Vec<String>> {
        let mut conditions = self.rows.clone();
        if let Some(rows) = self.limit.filter(|_| self.limits_rows_first()) {
            let keys = row::key_names(self.table).join(", ");
            let order = row::order(self.table, self.reversed);
            let tuple = if self.table.key().count() == 1 { keys.clone() } else { format!("({keys})") };
            let of_rows = self.filter()?;
            conditions
                .push(format!("{tuple} IN (SELECT {keys} FROM {}{of_rows} ORDER BY {order} LIMIT {rows})", self.path));
        }
        Ok(conditions)
    }
}

fn is_key(column: &Column) -> bool {
    matches!(column, Column::Plain(column) if column.is_key())
}

/// LIMIT, where HBase takes -1 for none.
fn limit(argument: &keyspan_cql::HbaseArgument) -> Result<i64> {
    match argument::integer(argument)? {
        -1 => Ok(i64::MAX),
        rows if rows >= 0 => Ok(rows),
        _ => Err(invalid("LIMIT must not be negative").at(argument.position)),
    }
}

fn where_all(conditions: &[String]) -> String {
    if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) }
}
