//! From what each column has found in each run to the rows that are read: once for each key, in every run that has it.

use std::collections::BTreeSet;
use std::sync::Arc;

use keyspan_model::key::successor;
use keyspan_model::{ColumnId, Error, KeyEncoder, Result};

use super::super::plan::Chosen;
use super::super::{Run, ScanSource};
use super::{FoundRows, FoundRun, MOST, holds};
use crate::merge::cursor::Which;
use crate::run::{Keys, Overlap, WholeKey};
use keyspan_seam::ScanCounters;

/// What one column has found in the chosen runs, each by its place among them.
pub(super) struct Postings {
    pub(super) column: ColumnId,
    pub(super) count: usize,
    pub(super) runs: Vec<RunPostings>,
}

#[derive(Clone)]
pub(super) enum RunPostings {
    /// Ascending.
    Rows(Vec<u32>),
    /// Of a memtable, ascending.
    Keys(Vec<Vec<u8>>),
}

impl RunPostings {
    /// What both have found in the same run.
    fn intersect(self, other: &RunPostings) -> RunPostings {
        match (self, other) {
            (RunPostings::Rows(mut own), RunPostings::Rows(others)) => {
                own.retain(|row| others.binary_search(row).is_ok());
                RunPostings::Rows(own)
            }
            (RunPostings::Keys(mut own), RunPostings::Keys(others)) => {
                own.retain(|key| others.binary_search(key).is_ok());
                RunPostings::Keys(own)
            }
            (own, _) => own,
        }
    }

    /// Nothing, of the same kind of run.
    fn none(&self) -> RunPostings {
        match self {
            RunPostings::Rows(_) => RunPostings::Rows(Vec::new()),
            RunPostings::Keys(_) => RunPostings::Keys(Vec::new()),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            RunPostings::Rows(rows) => rows.len(),
            RunPostings::Keys(keys) => keys.len(),
        }
    }

    /// Adds what comes behind all others.
    fn push(&mut self, key: &[u8], row: Option<u32>) {
        match self {
            RunPostings::Rows(rows) => rows.extend(row),
            RunPostings::Keys(keys) => keys.push(key.to_vec()),
        }
    }

    fn has(&self, key: &[u8], row: Option<u32>) -> bool {
        match (self, row) {
            (RunPostings::Rows(rows), Some(row)) => rows.binary_search(&row).is_ok(),
            (RunPostings::Keys(keys), _) => keys.binary_search_by(|own| own.as_slice().cmp(key)).is_ok(),
            _ => false,
        }
    }
}

/// One place where a key was found: of a chosen run, and its row there; of a memtable no row.
type Place = (usize, Option<u32>);

/// A look-up, once each column has found its rows.
pub(super) struct Lookup<'a> {
    pub(super) source: &'a ScanSource,
    pub(super) chosen: &'a Chosen,
    /// The column that has found the fewest first.
    pub(super) postings: &'a [Postings],
    pub(super) counters: ScanCounters,
}

impl Lookup<'_> {
    fn run(&self, place: usize) -> &Run {
        &self.source.runs[self.chosen.runs[place]]
    }

    /// The rows to look at; `None`: too many.
    pub(super) fn found(&self) -> Result<Option<FoundRows>> {
        if self.source.relation.counts_versions() { self.versions() } else { self.rows().map(Some) }
    }

    fn rows(&self) -> Result<FoundRows> {
        let meeting = self.meeting();
        let mut runs: Vec<RunPostings> = (0..meeting.len()).map(|place| self.alone(place, &meeting[place])).collect();
        let (mut keys, mut apart) = (runs.iter().map(RunPostings::len).sum::<usize>(), true);
        for (key, places) in self.in_several(&meeting)? {
            keys += 1;
            apart &= places.len() == 1;
            places.into_iter().for_each(|(place, row)| runs[place].push(&key, row));
        }
        let columns = self.postings.iter().map(|postings| postings.column).collect();
        Ok(FoundRows { runs: self.found_runs(&runs)?, apart, keys: keys as u64, columns })
    }

    /// Of a family whose versions are counted: all versions of the cells that the first column has found.
    fn versions(&self) -> Result<Option<FoundRows>> {
        let first = &self.postings[0];
        let mut cells: BTreeSet<Vec<u8>> = BTreeSet::new();
        for (place, found) in first.runs.iter().enumerate() {
            match (found, self.run(place).sorted()) {
                (RunPostings::Rows(rows), Some(run)) => {
                    let mut keys = Keys::new(run);
                    for row in rows {
                        cells.insert(self.source.group_start(keys.at(*row as usize, &self.counters)?).to_vec());
                    }
                }
                (RunPostings::Keys(keys), _) => {
                    cells.extend(keys.iter().map(|key| self.source.group_start(key).to_vec()));
                }
                _ => {}
            }
        }
        let mut runs: Vec<RunPostings> = first.runs.iter().map(RunPostings::none).collect();
        let mut keys = 0;
        for cell in &cells {
            let end = successor(cell);
            for (place, found) in runs.iter_mut().enumerate() {
                keys += self.add_within(place, (cell, end.as_deref()), found)?;
            }
            if keys > MOST {
                return Ok(None);
            }
        }
        let apart = runs.iter().filter(|run| run.len() > 0).count() < 2;
        Ok(Some(FoundRows { runs: self.found_runs(&runs)?, apart, keys, columns: vec![first.column] }))
    }

    /// Adds the rows of a run in `[start, end)`, and says how many.
    fn add_within(&self, place: usize, (start, end): (&[u8], Option<&[u8]>), found: &mut RunPostings) -> Result<u64> {
        let (run, before) = (self.run(place), found.len());
        if !run.meta().all.overlaps(start, end) {
            return Ok(0);
        }
        match (run, run.sorted()) {
            (Run::Memtable(view), _) => view.keys_within(start, end).iter().for_each(|key| found.push(key, None)),
            (_, Some(run)) => {
                let from = run.lower_bound(start, &self.counters)?;
                let to = match end {
                    Some(end) => run.lower_bound(end, &self.counters)?,
                    None => run.meta().all.rows as usize,
                };
                (from..to).for_each(|row| found.push(&[], Some(row as u32)));
            }
            _ => {}
        }
        Ok((found.len() - before) as u64)
    }

    /// For each run those that may have rows of it.
    fn meeting(&self) -> Vec<Vec<usize>> {
        let count = self.chosen.runs.len();
        let others = |one: usize| (0..count).filter(|other| *other != one && self.meet(one, *other)).collect();
        (0..count).map(others).collect()
    }

    /// What all columns have found in a run that meets no other; nothing of one that does.
    fn alone(&self, place: usize, meeting: &[usize]) -> RunPostings {
        let first = &self.postings[0].runs[place];
        match meeting {
            [] => self.postings[1..].iter().fold(first.clone(), |own, other| own.intersect(&other.runs[place])),
            _ => first.none(),
        }
    }

    fn found_runs(&self, runs: &[RunPostings]) -> Result<Vec<FoundRun>> {
        let some = runs.iter().enumerate().filter(|(_, run)| run.len() > 0);
        some.map(|(place, run)| self.found_run(place, run)).collect()
    }

    fn found_run(&self, place: usize, found: &RunPostings) -> Result<FoundRun> {
        let at = self.chosen.runs[place];
        Ok(match (self.run(place), found) {
            (Run::Memtable(view), RunPostings::Keys(keys)) => {
                FoundRun { at, rows: Which::All, opened: Some(Arc::new(view.rows_of(keys)?)) }
            }
            (_, RunPostings::Rows(rows)) => FoundRun { at, rows: Which::Only(rows.as_slice().into()), opened: None },
            (_, RunPostings::Keys(_)) => {
                return Err(Error::internal("keys were found in a run that has numbered rows"));
            }
        })
    }

    /// Whether a row may be in both of two runs, as far as is known without comparing keys.
    fn meet(&self, one: usize, other: usize) -> bool {
        let (one, other) = (self.run(one), self.run(other));
        if one.meta().all.disjoint(&other.meta().all) {
            return false;
        }
        match (one, other) {
            (Run::Memtable(_), _) | (_, Run::Memtable(_)) => true,
            _ => match (one.whole(), other.whole()) {
                (Ok(one), Ok(other)) => Overlap::known(&one, &other) != Some(Overlap::Disjoint),
                _ => true,
            },
        }
    }

    /// The keys found in runs that meet others, ascending, with all places where they are. `meeting`: for each run those
    /// that it meets.
    fn in_several(&self, meeting: &[Vec<usize>]) -> Result<Vec<(Vec<u8>, Vec<Place>)>> {
        let mut found: Vec<(Vec<u8>, Place)> = Vec::new();
        for place in (0..meeting.len()).filter(|place| !meeting[*place].is_empty()) {
            match (&self.postings[0].runs[place], self.run(place).sorted()) {
                (RunPostings::Rows(rows), Some(run)) => {
                    let mut keys = Keys::new(run);
                    for row in rows {
                        let key = keys.at(*row as usize, &self.counters)?;
                        if holds(self.chosen, key) {
                            found.push((key.to_vec(), (place, Some(*row))));
                        }
                    }
                }
                (RunPostings::Keys(keys), _) => found.extend(keys.iter().map(|key| (key.clone(), (place, None)))),
                _ => {}
            }
        }
        found.sort_unstable();
        let encoder = KeyEncoder::new(&self.source.relation.key);
        let mut keys = Vec::new();
        for group in found.chunk_by(|one, other| one.0 == other.0) {
            let mut places: Vec<Place> = group.iter().map(|(_, place)| *place).collect();
            self.look_elsewhere(&WholeKey::new(&encoder, &group[0].0), &mut places, meeting)?;
            let key = &group[0].0;
            let has = |postings: &Postings| places.iter().any(|(place, row)| postings.runs[*place].has(key, *row));
            if self.postings[1..].iter().all(has) {
                keys.push((key.clone(), places));
            }
        }
        Ok(keys)
    }

    /// Adds the places of a key in runs whose postings do not have it.
    fn look_elsewhere(&self, key: &WholeKey<'_>, places: &mut Vec<Place>, meeting: &[Vec<usize>]) -> Result<()> {
        let mut others: Vec<usize> = places.iter().flat_map(|(place, _)| meeting[*place].clone()).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|other| places.iter().all(|(place, _)| place != other));
        for other in others {
            match self.run(other) {
                Run::Memtable(view) => places.extend(view.get(key.bytes).map(|_| (other, None))),
                run => {
                    let Some(sorted) = run.sorted().filter(|_| run.may_contain(key)) else { continue };
                    let row = sorted.find(key.bytes, &self.counters)?;
                    places.extend(row.map(|row| (other, Some(row as u32))));
                }
            }
        }
        Ok(())
    }
}
