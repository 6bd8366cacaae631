//! USING TTL and TIMESTAMP. Error texts are Cassandra's.

use keyspan_cql::{Using, ast};
use keyspan_model::{ColumnType, Error, ErrorKind, Result, Stamp, TableDef, Value};

use crate::context::ClientContext;
use crate::expression::Evaluator;
use crate::transaction::{OpenBatch, Transaction};

/// Cassandra's longest time to live: 20 years, in seconds.
pub(crate) const TTL_MAX: i64 = 630_720_000;

/// When a statement's writes count as written, and how long they live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    pub(crate) stamp: Stamp,
    /// Seconds; 0: for ever.
    pub(crate) ttl: u32,
    /// Whether USING TIMESTAMP was said.
    pub(crate) custom: bool,
    /// Whether the timestamp before it is free for deletions that come first: so it is in a BATCH.
    pub(crate) room_before: bool,
}

impl Timing {
    /// The same, with a timestamp before it for deletions of what the statement replaces.
    pub(crate) fn replacing(self) -> Timing {
        match self.stamp {
            Stamp::Server(statement) if !self.room_before => Timing { stamp: Stamp::Server(statement + 1), ..self },
            _ => self,
        }
    }
}

/// What USING says, and the table's default where it says nothing.
pub(crate) fn timing(
    context: &mut ClientContext,
    using: &Using,
    table: &TableDef,
    parameters: &[Value],
) -> Result<Timing> {
    let mut timestamp = self::timestamp(context, using.timestamp.as_ref(), parameters)?;
    let batch = context.transaction.as_ref().and_then(Transaction::batch);
    check_counters(using, table, batch)?;
    let in_batch = batch.filter(|batch| !batch.is_of_counters()).map(OpenBatch::stamp);
    if let Some(Stamp::At(of_batch)) = in_batch {
        if timestamp.is_some() {
            let message = "Timestamp must be set either on BATCH or individual statements";
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        timestamp = Some(of_batch);
    }
    let ttl = match number(context, using.ttl.as_ref(), parameters)? {
        None => table.default_ttl,
        Some(ttl) if ttl < 0 => {
            let message = format!("A TTL must be greater or equal to 0, but was {ttl}");
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        Some(ttl) if ttl > TTL_MAX => {
            let message = format!("ttl is too large. requested ({ttl}) maximum ({TTL_MAX})");
            return Err(Error::new(ErrorKind::InvalidParameter, message));
        }
        Some(ttl) => ttl as u32,
    };
    let stamp = timestamp.map_or_else(|| context.stamp(), Stamp::At);
    Ok(Timing { stamp, ttl, custom: timestamp.is_some(), room_before: in_batch.is_some() })
}

/// What statements on tables with counters may not say, and where they may stand. The texts are Cassandra's.
fn check_counters(using: &Using, table: &TableDef, batch: Option<&OpenBatch>) -> Result<()> {
    let counters = table.has_counters();
    let message = match batch.map(OpenBatch::is_of_counters) {
        _ if counters && using.timestamp.is_some() => "Cannot provide custom timestamp for counter updates",
        _ if counters && using.ttl.is_some() => "Cannot provide custom TTL for counter updates",
        Some(false) if counters => "Cannot include a counter statement in a logged batch",
        Some(true) if !counters => "Cannot include non-counter statement in a counter batch",
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::InvalidParameter, message))
}

/// The microseconds of USING TIMESTAMP.
pub(crate) fn timestamp(
    context: &mut ClientContext,
    expression: Option<&ast::Expr>,
    parameters: &[Value],
) -> Result<Option<i64>> {
    let timestamp = number(context, expression, parameters)?;
    if timestamp == Some(i64::MIN) {
        let message = format!("Out of bound timestamp, must be in [{}, {}]", i64::MIN + 1, i64::MAX);
        return Err(Error::new(ErrorKind::InvalidParameter, message));
    }
    Ok(timestamp)
}

fn number(context: &mut ClientContext, expression: Option<&ast::Expr>, parameters: &[Value]) -> Result<Option<i64>> {
    let Some(expression) = expression else { return Ok(None) };
    match Evaluator::new(context).constant(context, expression, ColumnType::BigInt, parameters)? {
        Value::BigInt(number) => Ok(Some(number)),
        _ => Ok(None),
    }
}
