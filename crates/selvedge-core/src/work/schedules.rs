//! The schedules of one transaction.

use super::Work;
use crate::schedule::RunSubject;

impl Work {
    /// Reports whether a run has not ended. Its row was requested before. One that cannot be read, or is gone, has ended.
    pub fn is_live(&self, run: RunSubject) -> bool {
        match run {
            RunSubject::Execution(id) => {
                self.find(id).ok().flatten().is_some_and(|row| row.state.outcome().is_none())
            }
            RunSubject::Flow(id) => self.find_flow(id).is_some_and(|flow| !flow.has_ended()),
        }
    }
}
