//! The numbers of sequences.
//!
//! The rule: a number is given out once, also after a crash. So numbers are taken in blocks: before the first of a block is
//! used, the last one is durable in the sequence's one row. What is left of a block when the process dies is lost, which
//! leaves a gap. Numbers are not part of a transaction: what is undone leaves a gap, too.
//!
//! Of a sequence that an open transaction has made there is no row yet. Its numbers are kept with the session, and its
//! row is written when the transaction commits.

use std::collections::HashMap;
use std::sync::Arc;

use futures::executor::block_on;
use keyspan_model::array::value_at;
use keyspan_model::{
    Catalog, CellWrite, Mutation, RelationId, Result, RowWrite, ScanColumn, SequenceDef, SequenceState, Stamp, TableId,
    Value, WriteBatch,
};
use keyspan_query::Sequences;
use keyspan_seam::{ReadAt, Store};
use parking_lot::Mutex;

/// Numbers of a first block, and of the largest: blocks grow while they are used up.
const BLOCK: (u32, u32) = (32, 8_192);

/// The numbers of all sequences of a database.
#[derive(Debug)]
pub(crate) struct SequenceNumbers {
    store: Arc<dyn Store>,
    blocks: Mutex<HashMap<RelationId, Block>>,
}

/// What is left of a block.
#[derive(Clone, Copy, Debug)]
struct Block {
    state: SequenceState,
    left: u32,
    /// Numbers of the next block.
    next: u32,
}

impl SequenceNumbers {
    /// Those of a store.
    pub(crate) fn new(store: Arc<dyn Store>) -> SequenceNumbers {
        SequenceNumbers { store, blocks: Mutex::default() }
    }

    fn next(&self, sequence: &SequenceDef) -> Result<i64> {
        let mut blocks = self.blocks.lock();
        let block = match blocks.get_mut(&sequence.state.rows) {
            Some(block) => block,
            None => {
                let block = Block { state: self.stored(sequence)?, left: 0, next: BLOCK.0 };
                blocks.entry(sequence.state.rows).or_insert(block)
            }
        };
        let value = sequence.next(block.state)?;
        if block.left == 0 {
            let (end, left) = block_from(sequence, value, block.next);
            self.store(sequence, end)?;
            (block.left, block.next) = (left, (block.next * 2).min(BLOCK.1));
        }
        block.left -= 1;
        block.state = SequenceState { last: value, called: true };
        Ok(value)
    }

    fn set(&self, sequence: &SequenceDef, state: SequenceState) -> Result<()> {
        let mut blocks = self.blocks.lock();
        self.store(sequence, state)?;
        blocks.insert(sequence.state.rows, Block { state, left: 0, next: BLOCK.0 });
        Ok(())
    }

    /// How far it is: of what was given out where this process has given out some.
    fn state(&self, sequence: &SequenceDef) -> Result<SequenceState> {
        let known = self.blocks.lock().get(&sequence.state.rows).map(|block| block.state);
        known.map_or_else(|| self.stored(sequence), Ok)
    }

    fn stored(&self, sequence: &SequenceDef) -> Result<SequenceState> {
        let [_, last, called] = sequence.state.columns.as_slice() else { return Ok(sequence.first()) };
        let columns = [ScanColumn::Column(last.id), ScanColumn::Column(called.id)];
        let snapshot = self.store.snapshot(ReadAt::Newest)?;
        let rows = block_on(snapshot.get(sequence.state.rows, &[vec![Value::Int(1)]], &columns))?;
        if rows.num_rows() == 0 {
            return Ok(sequence.first());
        }
        let value = |place: usize, ty| value_at(rows.column(place), 0, ty);
        match (value(0, last.ty)?, value(1, called.ty)?) {
            (Value::BigInt(last), Value::Boolean(called)) => Ok(SequenceState { last, called }),
            _ => Ok(sequence.first()),
        }
    }

    fn store(&self, sequence: &SequenceDef, state: SequenceState) -> Result<()> {
        let batch = WriteBatch { mutations: vec![row(sequence, state)], ..WriteBatch::default() };
        block_on(self.store.apply(batch)).map(drop)
    }
}

/// The last number of a block that begins with this one, and how many it has.
fn block_from(sequence: &SequenceDef, first: i64, numbers: u32) -> (SequenceState, u32) {
    let (mut end, mut left) = (SequenceState { last: first, called: true }, 1);
    while left < numbers {
        let Ok(next) = sequence.next(end) else { break };
        (end.last, left) = (next, left + 1);
    }
    (end, left)
}

/// The write of a sequence's row.
fn row(sequence: &SequenceDef, state: SequenceState) -> Mutation {
    let values = [Value::BigInt(state.last), Value::Boolean(state.called)];
    let columns = sequence.state.columns.iter().skip(1);
    let cells = columns.zip(values).map(|(column, value)| (column.id, CellWrite::Value(value))).collect();
    Mutation::Row(RowWrite {
        relation: sequence.state.rows,
        key: vec![Value::Int(1)],
        marker: true,
        cells,
        stamp: Stamp::Server(0),
        ttl: 0,
    })
}

/// The sequences as one session uses them.
#[derive(Debug)]
pub(crate) struct SessionSequences {
    shared: Arc<SequenceNumbers>,
    state: Mutex<SessionState>,
}

#[derive(Debug, Default)]
struct SessionState {
    /// Of sequences that the open transaction has made.
    own: HashMap<RelationId, SequenceState>,
    /// The number that each sequence has last given to the session.
    given: HashMap<TableId, i64>,
    last: Option<i64>,
}

impl SessionSequences {
    /// Those of a new session.
    pub(crate) fn new(shared: Arc<SequenceNumbers>) -> SessionSequences {
        SessionSequences { shared, state: Mutex::default() }
    }

    /// The transaction ends: the rows of the sequences that it has made and used. `catalog`: what it commits.
    pub(crate) fn end_transaction(&self, catalog: Option<&Catalog>) -> Vec<Mutation> {
        let own = std::mem::take(&mut self.state.lock().own);
        let sequences = catalog.into_iter().flat_map(|catalog| catalog.sequences.values());
        sequences.filter_map(|sequence| Some(row(sequence, *own.get(&sequence.state.rows)?))).collect()
    }

    /// DISCARD SEQUENCES: `currval` and `lastval` know nothing.
    pub(crate) fn discard(&self) {
        let mut state = self.state.lock();
        state.given.clear();
        state.last = None;
    }

    /// Whether the store has the sequence's row, or may have.
    fn is_stored(&self, sequence: &SequenceDef) -> bool {
        self.shared.store.catalog().sequences.get(&sequence.id).is_some_and(|stored| stored.state == sequence.state)
    }
}

impl Sequences for SessionSequences {
    fn next(&self, sequence: &SequenceDef) -> Result<i64> {
        let value = match self.is_stored(sequence) {
            true => self.shared.next(sequence)?,
            false => {
                let mut state = self.state.lock();
                let own = state.own.entry(sequence.state.rows).or_insert_with(|| sequence.first());
                let value = sequence.next(*own)?;
                *own = SequenceState { last: value, called: true };
                value
            }
        };
        let mut state = self.state.lock();
        state.given.insert(sequence.id, value);
        state.last = Some(value);
        Ok(value)
    }

    fn current(&self, sequence: &SequenceDef) -> Option<i64> {
        self.state.lock().given.get(&sequence.id).copied()
    }

    fn last(&self) -> Option<i64> {
        self.state.lock().last
    }

    fn set(&self, sequence: &SequenceDef, to: SequenceState) -> Result<()> {
        sequence.check(to.last)?;
        match self.is_stored(sequence) {
            true => self.shared.set(sequence, to)?,
            false => drop(self.state.lock().own.insert(sequence.state.rows, to)),
        }
        if to.called {
            self.state.lock().given.insert(sequence.id, to.last);
        }
        Ok(())
    }

    fn state(&self, sequence: &SequenceDef) -> Result<SequenceState> {
        match self.is_stored(sequence) {
            true => self.shared.state(sequence),
            false => Ok(self.state.lock().own.get(&sequence.state.rows).copied().unwrap_or(sequence.first())),
        }
    }
}
