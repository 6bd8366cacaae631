//! INSERT that looks first: IF NOT EXISTS (CQL), ON CONFLICT DO NOTHING and DO UPDATE (PostgreSQL).

use std::collections::HashMap;

use keyspan_cql::{ConflictAction, Insert, OnConflict};
use keyspan_model::{Error, ErrorKind, Mutation, Result, Value};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Schema;
use std::sync::Arc;

use super::assign::Assignments;
use super::change::{Found, change};
use super::condition::{self, Answer};
use super::insert::Rows;
use super::row::{NewRow, Written, alone, merged};
use super::target::Target;
use super::value::compile;
use crate::locks::RowName;
use crate::outcome::{Outcome, Tag};
use crate::session::Session;

/// The rows that are there, by name: those found, then those the statement itself adds.
struct Present {
    rows: HashMap<RowName, Vec<Value>>,
}

impl Present {
    fn new(written: &Written, found: &Found) -> Result<Present> {
        let mut rows = HashMap::with_capacity(found.keys.len());
        for (index, key) in found.keys.iter().enumerate() {
            rows.insert(written.name(key)?, written.values(&found.rows, index)?);
        }
        Ok(Present { rows })
    }
}

/// What is decided about each row of an INSERT that skips keys that exist.
struct Skipping {
    mutations: Vec<Mutation>,
    inserted: Vec<Vec<Value>>,
    answers: Vec<Answer>,
}

/// Inserts rows whose keys do not exist. Of two rows with one key the first is inserted and the second finds it.
fn insert_missing(insert: &Rows, found: &Found) -> Result<Skipping> {
    let written = &insert.written;
    let mut present = Present::new(written, found)?;
    let mut decided = Skipping { mutations: Vec::new(), inserted: Vec::new(), answers: Vec::new() };
    for row in &insert.rows {
        let name = written.name(&insert.key(row))?;
        if let Some(old) = present.rows.get(&name) {
            decided.answers.push(Answer { applied: false, row: Some(old.clone()) });
            continue;
        }
        present.rows.insert(name, alone(row));
        decided.mutations.push(insert.insert(row));
        decided.inserted.push(alone(row));
        decided.answers.push(Answer { applied: true, row: None });
    }
    insert.checks.check(&written.table, &written.batch(&decided.inserted)?)?;
    Ok(decided)
}

async fn skip_existing(
    session: &mut Session,
    insert: &Rows,
    parameters: &[Value],
) -> Result<(Vec<Vec<Value>>, Vec<Answer>)> {
    let target = Target::Keys(insert.rows.iter().map(|row| insert.key(row)).collect());
    change(session, &insert.written, &target, parameters, |_, found| {
        let decided = insert_missing(insert, found)?;
        Ok((decided.mutations, (decided.inserted, decided.answers)))
    })
    .await
}

/// `INSERT … IF NOT EXISTS`: one answer for each row.
pub(super) async fn if_not_exists(session: &mut Session, insert: Rows, parameters: &[Value]) -> Result<Outcome> {
    if insert.returning.is_some() {
        let error = Error::not_supported("IF NOT EXISTS cannot be combined with RETURNING");
        return Err(error.with_hint("Use ON CONFLICT DO NOTHING RETURNING …."));
    }
    let (inserted, answers) = skip_existing(session, &insert, parameters).await?;
    let tag = Tag::counted("INSERT", inserted.len() as u64);
    Ok(Outcome::with_rows(tag, condition::answer(&insert.written, &answers)?))
}

/// `INSERT … ON CONFLICT`.
pub(super) async fn on_conflict(
    session: &mut Session,
    statement: &Insert,
    clause: &OnConflict,
    insert: Rows,
    parameters: &[Value],
) -> Result<Outcome> {
    check_target(&insert.written, clause)?;
    match &clause.action {
        ConflictAction::Nothing => {
            let (inserted, _) = skip_existing(session, &insert, parameters).await?;
            insert.outcome(Tag::counted("INSERT", inserted.len() as u64), &inserted, parameters)
        }
        ConflictAction::Update { .. } => update(session, statement, clause, insert, parameters).await,
    }
}

/// The conflict must be about the primary key, the only unique thing there is.
fn check_target(written: &Written, clause: &OnConflict) -> Result<()> {
    let table = &written.table;
    if let Some(constraint) = &clause.constraint {
        if *constraint == format!("{}_pkey", table.name) {
            return Ok(());
        }
        let message = format!("constraint \"{constraint}\" for table \"{}\" does not exist", table.name);
        return Err(Error::new(ErrorKind::UndefinedObject, message));
    }
    for column in &clause.columns {
        table.expect_column(&column.name).map_err(|error| error.at(column.position))?;
    }
    let named: Vec<&str> = clause.columns.iter().map(|column| column.name.as_str()).collect();
    let key: Vec<&str> = table.key().map(|column| column.name.as_str()).collect();
    if named.is_empty() || (named.len() == key.len() && key.iter().all(|column| named.contains(column))) {
        return Ok(());
    }
    let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
    let hint = format!("Only the primary key is unique: ON CONFLICT ({}).", key.join(", "));
    Err(Error::new(ErrorKind::InvalidColumnReference, message).with_hint(hint))
}

async fn update(
    session: &mut Session,
    statement: &Insert,
    clause: &OnConflict,
    mut insert: Rows,
    parameters: &[Value],
) -> Result<Outcome> {
    let ConflictAction::Update { assignments, filter } = &clause.action else {
        return Err(Error::internal("not a DO UPDATE"));
    };
    insert.fold()?;
    let written = insert.written.clone();
    let qualifier = statement.alias.clone().unwrap_or_else(|| written.table.name.clone());
    let input = [(qualifier.as_str(), written.schema.clone()), ("excluded", written.schema.clone())];
    let assignments = Assignments::new(session, &written, assignments, &input, parameters)?;
    let filter = match filter {
        Some(filter) => Some(compile(session, &[filter], &input, parameters)?),
        None => None,
    };
    let target = Target::Keys(insert.rows.iter().map(|row| insert.key(row)).collect());
    let insert = &insert;
    let after = change(session, &written, &target, parameters, |_, found| {
        let present = Present::new(&insert.written, found)?;
        let (mut mutations, mut after) = (Vec::new(), Vec::new());
        for row in &insert.rows {
            let Some(old) = present.rows.get(&insert.written.name(&insert.key(row))?) else {
                mutations.push(insert.insert(row));
                after.push(alone(row));
                continue;
            };
            let both = beside(&insert.written, old, &alone(row))?;
            if let Some(filter) = &filter {
                let result = filter.evaluate(&both, parameters)?;
                if !result[0].as_boolean_opt().is_some_and(|holds| holds.is_valid(0) && holds.value(0)) {
                    continue;
                }
            }
            let new = assignments.rows(&insert.written, &both, parameters)?.remove(0);
            mutations.push(insert.written.write(
                &keyed(insert, &new, old),
                false,
                insert.timing.stamp,
                insert.timing.ttl,
            ));
            after.push(merged(old, &new));
        }
        insert.checks.check(&insert.written.table, &insert.written.batch(&after)?)?;
        Ok((mutations, after))
    })
    .await?;
    insert.outcome(Tag::counted("INSERT", after.len() as u64), &after, parameters)
}

fn keyed(insert: &Rows, row: &NewRow, old: &[Value]) -> NewRow {
    let key_len = insert.written.key_len();
    old[..key_len].iter().cloned().map(Some).chain(row[key_len..].iter().cloned()).collect()
}

/// The old row and the one that was to be inserted, side by side.
fn beside(written: &Written, old: &[Value], excluded: &[Value]) -> Result<RecordBatch> {
    let old = written.batch(&[old.to_vec()])?;
    let excluded = written.batch(&[excluded.to_vec()])?;
    let fields = old.schema().fields().iter().chain(excluded.schema().fields()).cloned().collect::<Vec<_>>();
    let arrays = old.columns().iter().chain(excluded.columns()).cloned().collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}
