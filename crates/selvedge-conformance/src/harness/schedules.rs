//! Helpers that save schedules and fire them as a server does.

use super::Harness;
use super::signals::name;
use selvedge_core::Draft;
use selvedge_core::rules::schedule::{FireReply, FireSchedule, PreparedRun, SaveReply, SaveSchedule};
use selvedge_core::schedule::times::Timing;
use selvedge_core::schedule::{CatchUp, Overlap, Schedule, ScheduleName, ScheduleSpec, Template};
use selvedge_core::{Refusal, Timestamp};
use std::sync::Arc;

/// Returns the specification of an interval that submits an execution.
pub fn every(interval_ms: i64, draft: Draft) -> ScheduleSpec {
    ScheduleSpec {
        timing: Timing::Interval { interval_ms },
        submit: Template::Execution(Box::new(draft)),
        submit_text: None,
        overlap: Overlap::Allow,
        catch_up: CatchUp::None,
        jitter_ms: 0,
        paused: false,
    }
}

impl Harness {
    /// Returns the key of a schedule.
    pub fn schedule_name(&self, text: &str) -> ScheduleName {
        ScheduleName { namespace: self.namespace, name: name(text) }
    }

    /// Creates or replaces a schedule.
    pub async fn save_schedule(&self, text: &str, spec: ScheduleSpec) -> Schedule {
        let save = SaveSchedule {
            name: self.schedule_name(text),
            spec: Arc::new(spec),
            expected_version: None,
            actor: name("operator"),
        };
        match self.run(save).await {
            SaveReply::Saved { schedule, .. } => *schedule,
            SaveReply::Changed => panic!("a schedule is saved whatever its version"),
        }
    }

    /// Returns a schedule.
    pub async fn schedule(&self, text: &str) -> Schedule {
        let found = self.store.schedule(&self.schedule_name(text)).await;
        found.expect("schedules are read").expect("the schedule exists")
    }

    /// Prepares the submission of a schedule as a server does.
    pub async fn prepare(&self, template: &Template) -> Result<PreparedRun, Refusal> {
        match template {
            Template::Execution(draft) => {
                let submission = (**draft).clone().check()?;
                let class = submission.class(self.namespace);
                let class = self.intern(vec![class.clone()]).await.find(&class).expect("it is interned");
                Ok(PreparedRun::Execution { submission, class })
            }
            Template::Flow(draft) => {
                let (submission, plan) = (**draft).clone().check()?;
                let classes = self.planned(plan.clone()).await.classes;
                Ok(PreparedRun::Flow { submission, plan, classes })
            }
        }
    }

    /// Returns the command that decides the times of a schedule up to a time.
    pub async fn fire_command(&self, schedule: &Schedule, upto: Timestamp) -> FireSchedule {
        let prepared = self.prepare(&schedule.spec.submit).await;
        FireSchedule { name: schedule.name.clone(), spec_version: schedule.spec_version, prepared, upto }
    }

    /// Decides the times of a schedule up to a time, as one tick of a server does.
    pub async fn fire(&self, text: &str, upto: Timestamp) -> FireReply {
        let schedule = self.schedule(text).await;
        self.run(self.fire_command(&schedule, upto).await).await
    }
}
