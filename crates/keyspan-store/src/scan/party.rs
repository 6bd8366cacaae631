//! Parties: runs of a scan that no row is known to keep apart are one party and are merged; rows that stand in several
//! parties are merged on their own, each **circle** of runs that share any of them for itself: a merge holds a block of each of
//! its runs, so that many runs in one cost memory, or are read again and again. All others are read run by run, as if
//! their run were alone.
//!
//! ```text
//! a ═══════════════     party 1: a without x ─▶ as it is
//! b    x ══════════     party 2: b and c without x ─▶ merged      circle: x of a and b ─▶ merged
//! c      ══════
//! ```

use std::sync::Arc;

use keyspan_model::Result;

use super::ScanSource;
use super::plan::Chosen;
use crate::merge::cursor::Which;
use crate::run::Meeting;

/// Two runs, and the rows of each that the other has too.
struct Pair {
    runs: [usize; 2],
    rows: [Arc<[u32]>; 2],
}

/// How the chosen runs of a scan stand to each other; they are named by their places among the chosen.
#[derive(Debug)]
pub(crate) struct Parties {
    /// For each run the first run of its party.
    first: Vec<usize>,
    /// For each run its rows that other parties have too, ascending.
    shared: Vec<Arc<[u32]>>,
    /// For each run the first run of its circle. Runs that have a row in common are in one.
    circle: Vec<usize>,
}

impl ScanSource {
    /// The parties of these runs. `look`: where boxes meet keys are looked at, once for a pair of runs.
    pub(crate) fn parties(&self, chosen: &Chosen, look: bool) -> Result<Parties> {
        let count = chosen.runs.len();
        let mut first: Vec<usize> = (0..count).collect();
        let mut found: Vec<Pair> = Vec::new();
        for one in 0..count {
            for other in one + 1..count {
                match self.meeting(chosen.runs[one], chosen.runs[other], look)? {
                    Meeting::Apart => {}
                    Meeting::Shared(own, others) => found.push(Pair { runs: [one, other], rows: [own, others] }),
                    Meeting::Unclear => unite(&mut first, one, other),
                }
            }
        }
        let mut shared = vec![Vec::new(); count];
        let mut circle: Vec<usize> = (0..count).collect();
        // What two runs of one party share is merged there.
        for Pair { runs, rows } in found.iter().filter(|pair| first[pair.runs[0]] != first[pair.runs[1]]) {
            runs.iter().zip(rows).for_each(|(run, rows)| shared[*run].extend_from_slice(rows));
            unite(&mut circle, runs[0], runs[1]);
        }
        let sorted = |mut rows: Vec<u32>| {
            rows.sort_unstable();
            rows.dedup();
            rows.into()
        };
        Ok(Parties { first, shared: shared.into_iter().map(sorted).collect(), circle })
    }

    fn meeting(&self, one: usize, other: usize, look: bool) -> Result<Meeting> {
        let (one, other) = (&self.runs[one], &self.runs[other]);
        if one.meta().all.disjoint(&other.meta().all) {
            return Ok(Meeting::Apart);
        }
        if !look {
            return Ok(Meeting::Unclear);
        }
        Ok(Meeting::find(&self.relation, &one.whole()?, &other.whole()?))
    }
}

/// Makes one party, or circle, of those of two runs.
fn unite(first: &mut [usize], one: usize, other: usize) {
    let (least, greatest) = (first[one].min(first[other]), first[one].max(first[other]));
    first.iter_mut().filter(|first| **first == greatest).for_each(|first| *first = least);
}

impl Parties {
    /// Whether no row is in two runs.
    pub(crate) fn all_apart(&self) -> bool {
        self.first.iter().enumerate().all(|(run, first)| run == *first) && !self.any_shared()
    }

    /// Whether there is more to read than one party.
    pub(crate) fn are_several(&self) -> bool {
        self.first.iter().any(|first| *first != 0)
    }

    /// The first run of each party.
    pub(crate) fn leaders(&self) -> impl Iterator<Item = usize> {
        self.first.iter().enumerate().filter(|(run, first)| run == *first).map(|(run, _)| run)
    }

    /// The runs of a party, by its first run.
    pub(crate) fn members(&self, leader: usize) -> impl Iterator<Item = usize> {
        (0..self.first.len()).filter(move |run| self.first[*run] == leader)
    }

    /// Whether any row stands in several parties.
    fn any_shared(&self) -> bool {
        self.shared.iter().any(|rows| !rows.is_empty())
    }

    /// The first run of each circle, and how many rows of its runs stand in several parties, once for each run.
    pub(crate) fn circles(&self) -> impl Iterator<Item = (usize, u64)> {
        let rows = |leader| self.sharing(leader).map(|run| self.shared[run].len() as u64).sum();
        let leaders = self.circle.iter().enumerate().filter(|(run, first)| run == *first).map(|(run, _)| run);
        leaders.map(move |leader| (leader, rows(leader))).filter(|(_, rows)| *rows > 0)
    }

    /// The runs of a circle, by its first run, that have rows that stand in several parties.
    pub(crate) fn sharing(&self, leader: usize) -> impl Iterator<Item = usize> {
        (0..self.shared.len()).filter(move |run| self.circle[*run] == leader && !self.shared[*run].is_empty())
    }

    /// The rows of a run that its party alone has.
    pub(crate) fn own(&self, run: usize) -> Which {
        let rows = &self.shared[run];
        if rows.is_empty() { Which::All } else { Which::Without(Arc::clone(rows)) }
    }

    /// The rows of a run that stand in several parties.
    pub(crate) fn common(&self, run: usize) -> Which {
        Which::Only(Arc::clone(&self.shared[run]))
    }
}
