//! Record batches to columnar writes: what INSERT … SELECT, COPY and imports share. Columns of the source go to columns
//! of the rows, or to families and collections, as wholes.
//!
//! The rule: a batch comes out with exactly the table's types, defaults filled in, NOT NULL and lengths and CHECKs
//! satisfied, or it is an error and nothing of it is written.

mod cells;
pub(crate) mod gather;
pub(crate) mod whole;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, new_null_array,
};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use keyspan_cql::ast;
use keyspan_model::array::{array_of, coerce, constant, value_at};
use keyspan_model::schema::PRESENCE_COLUMN;
use keyspan_model::{
    BatchWrite, ColumnBuilder, ColumnDef, ColumnId, ColumnType, Error, ErrorKind, FamilyDef, Nested, Result, Stamp,
    TableDef, Value,
};
use keyspan_query::{CompiledExprs, Zone};

use crate::constraint::{Checks, drops_blanks, of_declared_type};
use crate::context::ClientContext;
use crate::database::Database;
use crate::expression::{Evaluator, assigned, compile, is_text, rows_without_columns, takes_zone};
use crate::row::TableHandle;
use crate::violation::null_value;

pub(crate) use cells::{GatheredCells, GatheredKey, Whole, before};

/// Where a column of the source goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The table's column at this place.
    Column(usize),
    /// The table's family at this place.
    Family(usize),
}

/// What one batch of the source writes.
#[derive(Debug)]
pub(crate) struct Writes {
    /// That of the rows, then that of static columns, if some are given.
    pub(crate) rows: Vec<BatchWrite>,
    /// What the rows have in the families that are given.
    pub(crate) wholes: Vec<Whole>,
}

/// Turns batches of some of a table's columns into writes.
#[derive(Clone, Debug)]
pub(crate) struct Intake {
    target: TableHandle,
    /// For each column of the source: its place in the table.
    places: Vec<Place>,
    /// Columns that the source has not, with what they get.
    defaults: Vec<(usize, ColumnDefault)>,
    checks: Option<Checks>,
    zone: Arc<Zone>,
    /// The next row number, for a table without a key.
    next_row_id: Option<i64>,
    pub(crate) ttl: u32,
}

#[derive(Clone, Debug)]
enum ColumnDefault {
    /// The same for all rows.
    Value(Value),
    /// Evaluated for each row: `uuid()`.
    Each(CompiledExprs),
}

impl Intake {
    /// Without the table's defaults and checks: for a table that is being made.
    pub(crate) fn new(target: TableHandle, columns: &[String], zone: Arc<Zone>) -> Result<Intake> {
        let mut places = Vec::with_capacity(columns.len());
        for name in columns {
            let place = target.table.columns.iter().position(|column| column.name == *name && !column.hidden);
            let family = || target.table.families.iter().position(|family| family.name == *name);
            let Some(place) = place.map(Place::Column).or_else(|| family().map(Place::Family)) else {
                return Err(target.table.expect_column(name).err().unwrap_or_else(|| hidden(name)));
            };
            if places.contains(&place) {
                let message = format!("column \"{name}\" specified more than once");
                return Err(Error::new(ErrorKind::DuplicateColumn, message));
            }
            places.push(place);
        }
        let ttl = target.table.default_ttl;
        Ok(Intake { places, defaults: Vec::new(), checks: None, zone, next_row_id: None, ttl, target })
    }

    /// With the table's defaults and checks. No columns means all that are not hidden.
    pub(crate) fn complete(context: &mut ClientContext, target: TableHandle, columns: &[String]) -> Result<Intake> {
        let zone = Arc::new(context.zone());
        let all = target.table.shown_names();
        let columns = if columns.is_empty() { &all } else { columns };
        let mut intake = Intake::new(target, columns, zone)?;
        intake.defaults = intake.find_defaults(context)?;
        intake.check_key()?;
        let checks = Checks::new(context, &intake.target)?;
        if !checks.is_empty() {
            // A row that is there already is refused, or there is none.
            let all_new = context.settings.postgres_writes() || !intake.target.table.has_key();
            if !all_new {
                intake.check_partial(&checks)?;
            }
            intake.checks = Some(checks);
        }
        Ok(intake)
    }

    fn find_defaults(&self, context: &mut ClientContext) -> Result<Vec<(usize, ColumnDefault)>> {
        let table = self.target.table.clone();
        let mut defaults = Vec::new();
        for (place, column) in table.columns.iter().enumerate() {
            if let (false, Some(text)) = (self.places.contains(&Place::Column(place)), &column.default) {
                let expression = keyspan_cql::parse_expression(text)?;
                defaults.push((place, default(context, &expression, column)?));
            }
        }
        Ok(defaults)
    }

    fn is_given(&self, place: usize) -> bool {
        self.places.contains(&Place::Column(place)) || self.defaults.iter().any(|(given, _)| *given == place)
    }

    /// Every key column must get a value from somewhere, and every NOT NULL column too.
    fn check_key(&self) -> Result<()> {
        let missing =
            |(place, column): &(usize, &ColumnDef)| !column.hidden && column.not_null && !self.is_given(*place);
        match self.target.table.columns.iter().enumerate().find(missing) {
            Some((_, column)) => Err(null_value(&self.target.table, column, None)),
            None => Ok(()),
        }
    }

    /// A CHECK about a column that is not written would have to look at the old rows.
    fn check_partial(&self, checks: &Checks) -> Result<()> {
        let place = |name: &str| self.target.table.columns.iter().position(|column| column.name == name);
        if checks.read_only(&self.target.table, |name| place(name).is_some_and(|place| self.is_given(place))) {
            return Ok(());
        }
        let message = "a CHECK of this table is about a column that is not written";
        let hint = "Name all columns that its CHECKs are about, or SET write_semantics = 'postgres'.";
        Err(Error::not_supported(message).with_hint(hint))
    }

    /// The table written to.
    pub(crate) fn table(&self) -> &Arc<TableDef> {
        &self.target.table
    }

    /// The table written to, with what it takes to write it.
    pub(crate) fn target(&self) -> &TableHandle {
        &self.target
    }

    /// Numbers rows of a table without a key from here on.
    pub(crate) fn numbered_from(mut self, first: i64) -> Intake {
        self.next_row_id = Some(first);
        self
    }

    /// The columns a source must have, with their types.
    pub(crate) fn schema(&self) -> SchemaRef {
        let table = &self.target.table;
        let fields = self.places.iter().map(|place| match place {
            Place::Column(place) => table.columns[*place].ty.field(&table.columns[*place].name, true),
            Place::Family(place) => table.families[*place].whole_type().field(&table.families[*place].name, true),
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Makes sure that the next `rows` rows of a table without a key have numbers.
    pub(crate) async fn reserve(&mut self, database: &Database, rows: usize) -> Result<()> {
        if self.target.table.columns[0].hidden {
            self.next_row_id = Some(database.new_row_ids(&self.target.relation, rows).await?);
        }
        Ok(())
    }

    /// The families that the source has.
    pub(crate) fn families(&self) -> Vec<FamilyDef> {
        let family = |place: &Place| match place {
            Place::Family(place) => Some(self.target.table.families[*place].clone()),
            Place::Column(_) => None,
        };
        self.places.iter().filter_map(family).collect()
    }

    /// What the rows of a batch have in the families that are given.
    pub(crate) fn wholes(&self, source: &RecordBatch) -> Result<Vec<Whole>> {
        let mut wholes = Vec::new();
        for (index, place) in self.places.iter().enumerate() {
            let Place::Family(place) = place else { continue };
            let family = self.target.table.families[*place].clone();
            let values = self.convert(source, index, &family.name, family.whole_type())?;
            wholes.push(Whole { family, values });
        }
        Ok(wholes)
    }

    /// The writes of one batch, whose columns are those of [`Intake::schema`] in order, of any castable types.
    pub(crate) fn write(&mut self, source: &RecordBatch, stamp: Stamp) -> Result<Writes> {
        let (columns, batch) = self.typed(source)?;
        let ttl = self.ttl;
        let write = |target: &TableHandle| -> Result<BatchWrite> {
            let own =
                |id: &ColumnId| target.relation.key_index(*id).or(target.relation.value(*id).map(|_| 0)).is_some();
            let places: Vec<usize> = (0..columns.len()).filter(|place| own(&columns[*place])).collect();
            Ok(BatchWrite {
                relation: target.relation.id,
                columns: places.iter().map(|place| columns[*place]).collect(),
                batch: batch.project(&places)?,
                marker: !target.is_of_statics(),
                null_deletes: true,
                stamp,
                ttl,
            })
        };
        let mut rows = vec![write(&self.target)?];
        if let Some(statics) = self.target.statics.as_ref().filter(|_| rows[0].columns.len() < columns.len()) {
            rows.push(write(statics)?);
        }
        let wholes = self.wholes(source)?;
        // What expires takes its presence with it, so that presence is written by itself.
        if !wholes.is_empty() && ttl == 0 {
            rows[0] = with_presence(rows[0].clone())?;
        }
        Ok(Writes { rows, wholes })
    }

    /// A batch with the table's types, defaults filled in, and the columns that it has.
    pub(crate) fn typed(&mut self, source: &RecordBatch) -> Result<(Vec<ColumnId>, RecordBatch)> {
        if source.num_columns() != self.places.len() {
            let message = match source.num_columns() > self.places.len() {
                true => "INSERT has more expressions than target columns",
                false => "INSERT has more target columns than expressions",
            };
            return Err(Error::new(ErrorKind::Syntax, message));
        }
        let rows = source.num_rows();
        let (mut ids, mut arrays, mut fields) = (Vec::new(), Vec::new(), Vec::new());
        let table = self.target.table.clone();
        for (place, column) in table.columns.iter().enumerate() {
            let Some(array) = self.column(source, place, column)? else { continue };
            let array = kept_column(&table, column, array)?;
            ids.push(column.id);
            fields.push(column.ty.field(&column.name, true));
            arrays.push(array);
        }
        if let Some(checks) = &self.checks {
            checks.check(&table, &self.with_all_columns(&ids, &arrays, rows)?)?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?;
        Ok((ids, batch))
    }

    fn column(&mut self, source: &RecordBatch, place: usize, column: &ColumnDef) -> Result<Option<ArrayRef>> {
        let rows = source.num_rows();
        if let Some(index) = self.places.iter().position(|given| *given == Place::Column(place)) {
            return self.convert(source, index, &column.name, column.ty).map(Some);
        }
        if column.hidden {
            let first = self.next_row_id.unwrap_or(1);
            self.next_row_id = Some(first + rows as i64);
            return Ok(Some(Arc::new(Int64Array::from_iter_values(first..first + rows as i64))));
        }
        match self.defaults.iter().find(|(given, _)| *given == place) {
            None => Ok(None),
            Some((_, ColumnDefault::Value(value))) => constant(column.ty, value, rows).map(Some),
            Some((_, ColumnDefault::Each(compiled))) => {
                let arrays = compiled.evaluate(&rows_without_columns(rows)?, &[])?;
                self.cast(&arrays[0], Some(compiled.types()[0]), column.ty).map(Some)
            }
        }
    }

    fn convert(&self, source: &RecordBatch, index: usize, name: &str, to: ColumnType) -> Result<ArrayRef> {
        let from = ColumnType::of_field(source.schema_ref().field(index));
        self.cast(source.column(index), from, to).map_err(|error| mismatch(error, name, to, from))
    }

    /// Values of the type `from`, if it is known, as a column of type `to` stores them.
    fn cast(&self, array: &ArrayRef, from: Option<ColumnType>, to: ColumnType) -> Result<ArrayRef> {
        let utc = self.zone.is_utc();
        let zoned = |from| match from {
            ColumnType::Text => to == ColumnType::Timestamp && !utc,
            // In UTC whole arrays are cast, but for texts, which tell an instant from a time without a zone.
            from => takes_zone(from, to) && (!utc || is_text(to)),
        };
        match from {
            // A vector comes as a list of one length, too.
            Some(from) if from == to && matches!(array.data_type(), DataType::FixedSizeList(..)) => {
                let lists = arrow::compute::cast(array, &to.arrow())?;
                let value = |row| match (value_at(&lists, row, to)?, to.as_nested()) {
                    (Value::List(elements), Some(Nested::Vector(dimension))) => {
                        Value::vector(elements, usize::from(*dimension))
                    }
                    (value, _) => Ok(value),
                };
                array_of(to, &(0..array.len()).map(value).collect::<Result<Vec<_>>>()?)
            }
            Some(from) if from == to && from.as_nested().is_some() => Ok(array.clone()),
            Some(from) if zoned(from) || of_values(from, to) => {
                let value = |row| assigned(value_at(array, row, from)?, from, to, &self.zone);
                array_of(to, &(0..array.len()).map(value).collect::<Result<Vec<_>>>()?)
            }
            _ => coerce(array, to),
        }
    }

    /// The batch with all of the table's columns, for CHECKs.
    fn with_all_columns(&self, ids: &[ColumnId], arrays: &[ArrayRef], rows: usize) -> Result<RecordBatch> {
        let column = |column: &ColumnDef| match ids.iter().position(|id| *id == column.id) {
            Some(index) => arrays[index].clone(),
            None => new_null_array(&column.ty.arrow(), rows),
        };
        let all = self.target.table.columns.iter().map(column).collect();
        Ok(RecordBatch::try_new(self.target.schema.clone(), all)?)
    }
}

/// The rows with their presence entries.
fn with_presence(mut write: BatchWrite) -> Result<BatchWrite> {
    let present: ArrayRef = Arc::new(BooleanArray::from(vec![true; write.batch.num_rows()]));
    let mut fields: Vec<_> = write.batch.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(ColumnType::Boolean.field("presence", true)));
    let arrays = write.batch.columns().iter().cloned().chain([present]).collect();
    write.batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
    write.columns.push(PRESENCE_COLUMN);
    Ok(write)
}

/// Whether values of these types must be cast one by one: their Arrow forms do not tell enough.
fn of_values(from: ColumnType, to: ColumnType) -> bool {
    let json = matches!(from, ColumnType::Json | ColumnType::Jsonb) && !to.is_scalar();
    json || from.as_nested().is_some() || to.as_nested().is_some()
}

fn hidden(name: &str) -> Error {
    Error::new(ErrorKind::InvalidColumnReference, format!("cannot insert a value into the hidden column \"{name}\""))
}

fn mismatch(error: Error, name: &str, to: ColumnType, from: Option<ColumnType>) -> Error {
    match (error.kind, from) {
        (ErrorKind::DatatypeMismatch | ErrorKind::CannotCoerce, Some(from)) => {
            let message = format!(
                "column \"{name}\" is of type {} but expression is of type {}",
                to.postgres_name(),
                from.postgres_name()
            );
            let error = Error::new(ErrorKind::DatatypeMismatch, message);
            error.with_hint("You will need to rewrite or cast the expression.")
        }
        _ => error,
    }
}

/// The values as their column keeps them, checked against NOT NULL and the column's length.
fn kept_column(table: &TableDef, column: &ColumnDef, array: ArrayRef) -> Result<ArrayRef> {
    if array.null_count() > 0 && (column.not_null || column.is_key()) {
        return Err(null_value(table, column, None));
    }
    let Some(length) = column.max_length else { return Ok(array) };
    // Bytes are at least as many as characters.
    let drops_blanks = drops_blanks(column);
    let fits = |text: &str| text.len() <= length as usize && !(drops_blanks && text.ends_with(' '));
    if array.as_string_view_opt().is_some_and(|texts| texts.iter().flatten().all(fits)) {
        return Ok(array);
    }
    let values = (0..array.len()).map(|row| of_declared_type(column, value_at(&array, row, column.ty)?));
    let mut kept = ColumnBuilder::new(column.ty);
    for value in values {
        kept.append(&value?)?;
    }
    Ok(kept.finish())
}

/// A literal is evaluated once, anything else for each batch: `now()` is the statement's time either way.
fn default(context: &mut ClientContext, expression: &ast::Expr, column: &ColumnDef) -> Result<ColumnDefault> {
    match Evaluator::new(context).simple(expression, column.ty, &[]) {
        Some(value) => Ok(ColumnDefault::Value(value?)),
        None => Ok(ColumnDefault::Each(compile(context, &[expression], &[], &[])?)),
    }
}
