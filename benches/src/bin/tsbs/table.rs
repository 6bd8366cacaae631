//! The table of all times, as Markdown, with the ratio to the best peer of each query.

use keyspan_benches::tsbs::Query;

use crate::Answers;

/// Times by query and engine.
pub struct Table {
    queries: Vec<&'static str>,
    own: Vec<(String, Answers)>,
    peers: Vec<(String, Answers)>,
}

impl Table {
    /// An empty table of these queries.
    pub fn new(queries: &[Query]) -> Table {
        Table { queries: queries.iter().map(|query| query.name).collect(), own: Vec::new(), peers: Vec::new() }
    }

    /// A way of asking Keyspan.
    pub fn add(&mut self, name: &str, answers: Answers) {
        self.own.push((name.to_owned(), answers));
    }

    /// A peer's times.
    pub fn add_peer(&mut self, name: &str, answers: Answers) {
        self.peers.push((name.to_owned(), answers));
    }

    /// Prints it. The ratio is that of the settled state, from text to Arrow, to the fastest peer; answers that differ from those are
    /// marked.
    pub fn print(&self) {
        let engines: Vec<&str> = self.own.iter().chain(&self.peers).map(|(name, _)| name.as_str()).collect();
        println!("\n| query | {} | ratio to the best peer |", engines.join(" | "));
        println!("|{}", "---|".repeat(engines.len() + 2));
        let settled = self.own.iter().find(|(name, _)| name == "settled").map(|(_, answers)| answers);
        let mut logs = Vec::new();
        for query in &self.queries {
            let Some(mine) = settled.and_then(|answers| answers.get(*query)) else { continue };
            let mut cells = Vec::new();
            for (name, answers) in self.own.iter().chain(&self.peers) {
                cells.push(answers.get(*query).map_or_else(String::new, |measured| {
                    // Planning has no answer, other constants have another, and what arrives meanwhile is in the live one.
                    let asked = !["planning", "others", "live"].contains(&name.as_str());
                    let off = (measured.sum - mine.sum).abs() > 1e-6 * mine.sum.abs().max(1.0);
                    let wrong = asked && (measured.rows != mine.rows || off);
                    format!("{:.2}{}", measured.ms, if wrong { " (ANSWER DIFFERS)" } else { "" })
                }));
            }
            let best = self.peers.iter().filter_map(|(_, answers)| answers.get(*query)).map(|peer| peer.ms);
            let ratio = best.min_by(f64::total_cmp).map(|best| mine.ms / best);
            logs.extend(ratio.map(f64::ln));
            let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
            println!("| {query} | {} | {ratio} |", cells.join(" | "));
        }
        if !logs.is_empty() {
            let mean = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
            println!("| geometric mean |{} **{mean:.2}** |", " |".repeat(engines.len()));
        }
    }
}
