//! The schedules of one transaction.

use super::Work;
use crate::schedule::{RunSubject, Schedule, ScheduleName};

impl Work {
    /// Returns a schedule, if it exists.
    pub fn schedule(&self, name: &ScheduleName) -> Option<&Schedule> {
        self.schedules.get(name)
    }

    /// Writes a schedule, with the next version.
    pub fn put_schedule(&mut self, schedule: Schedule) {
        self.schedules.put(schedule);
    }

    /// Deletes a schedule.
    pub fn delete_schedule(&mut self, name: &ScheduleName) {
        self.schedules.delete(name);
    }

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
