//! What is behind the first candidates of a batch: some of these cannot be read, or gates refuse them, and what comes after them
//! is not to wait for that.

use selvedge_core::rows::Candidates;
use selvedge_core::rules::admit;
use selvedge_core::{ClassId, ExecutionId, Needs, Rows, Work};

/// How often a batch looks behind its first candidates, and how many it asks for at most when it does.
const LOOKS: u32 = 16;
const LOOK_LIMIT: u32 = 500;

/// What was asked for, and what to pass over to see what is behind it.
#[derive(Default)]
pub struct Behind {
    asked: Vec<Candidates>,
    /// All candidates that were found.
    found: Vec<ExecutionId>,
    unreadable: Vec<ExecutionId>,
    passed: usize,
    refused: usize,
    looks: u32,
}

impl Behind {
    /// These are the first candidates.
    pub fn of(asked: &[Candidates]) -> Behind {
        Behind { asked: asked.to_vec(), ..Behind::default() }
    }

    /// Takes note of what a load has found. Gives the candidates that came late: their gates were loaded before them.
    pub fn find(&mut self, rows: &Rows) -> Vec<ExecutionId> {
        for (execution, _) in &rows.unreadable {
            if !self.unreadable.contains(execution) {
                self.unreadable.push(*execution);
            }
        }
        self.found.extend(&rows.candidates);
        if self.looks > 0 { rows.candidates.clone() } else { Vec::new() }
    }

    /// Where rows that cannot be read stand at the head of a class, looks behind them: further each time.
    pub fn look(&mut self) -> Option<Needs> {
        if self.passed == self.unreadable.len() {
            return None;
        }
        self.passed = self.unreadable.len();
        let passed = self.unreadable.clone();
        self.further(passed)
    }

    /// Where gates refuse candidates, so that claims which want so many would go short, looks behind them: further each time.
    /// Those at hand are held by this transaction, and hide nothing from the next.
    pub fn look_past_refused(&mut self, wanted: usize, work: &Work) -> Option<Needs> {
        let mut classes: Vec<ClassId> = self.asked.iter().flat_map(|asked| asked.classes.clone()).collect();
        classes.sort_unstable();
        classes.dedup();
        let ready: Vec<ExecutionId> = work.ready(&classes).collect();
        let refused = |id: &&ExecutionId| {
            let row = work.find(**id).ok().flatten();
            row.is_some_and(|row| admit::knows(row, work) && admit::refuses(row, work).is_some())
        };
        let refused = ready.iter().filter(refused).count();
        let enough = ready.len() - refused >= wanted || refused >= LOOK_LIMIT as usize;
        if refused == self.refused || enough {
            return None;
        }
        self.refused = refused;
        let passed = self.found.iter().chain(&self.unreadable).copied().collect();
        self.further(passed)
    }

    fn further(&mut self, except: Vec<ExecutionId>) -> Option<Needs> {
        if self.asked.is_empty() || self.looks == LOOKS {
            return None;
        }
        self.looks += 1;
        for asked in &mut self.asked {
            asked.limit = asked.limit.max((asked.limit * 2).min(LOOK_LIMIT));
        }
        Some(Needs { candidates: self.asked.clone(), except, ..Needs::default() })
    }
}
