//! Schedules: saved, listed, run at once, and their last runs.

pub(crate) mod prepared_runs;

use crate::Error;
use crate::namespace::{KeyedCalls, Namespace};
use prepared_runs::{check, prepare};
use selvedge_core::filter::Payloads;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::rules::schedule::{DeleteSchedule, RunSchedule, SaveReply, SaveSchedule};
use selvedge_core::schedule::{Run, RunResult, RunSubject, Schedule, ScheduleName, ScheduleSpec};
use selvedge_core::{ExecutionId, Flow, FlowId, Name, Outcome, Refusal, Timestamp};
use selvedge_store::PAGE_BYTES;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// The number of schedules that are read at once for a list. Their submissions may be large.
const READ_AT_ONCE: u32 = 20;

/// A run of a schedule, with the state of what it submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct RunView {
    pub run: Run,
    /// The state of the execution or flow, and its outcome if it has ended. None if the run started nothing, or if that was
    /// deleted.
    pub state: Option<(&'static str, Option<&'static str>)>,
}

fn no_schedule(name: &str) -> Error {
    Refusal::NotFound { what: "schedule".into(), id: name.into() }.into()
}

impl Namespace {
    fn schedule_name(&self, name: &str) -> Result<ScheduleName, Refusal> {
        Ok(ScheduleName { namespace: self.id(), name: Name::parse("/name", name, NAME_LIMIT)? })
    }

    /// Creates or replaces a schedule. Returns it, and whether it is new. With `expected_version`, returns none if the schedule
    /// has another version by then.
    pub async fn save_schedule(
        &self,
        name: &str,
        spec: ScheduleSpec,
        expected_version: Option<u32>,
        actor: &Name,
    ) -> Result<Option<(Schedule, bool)>, Error> {
        let name = self.schedule_name(name)?;
        spec.check()?;
        check(&spec.submit)?;
        let rule = SaveSchedule { name, spec: Arc::new(spec), expected_version, actor: actor.clone() };
        Ok(match self.run(rule).await? {
            SaveReply::Saved { schedule, created } => Some((*schedule, created)),
            SaveReply::Changed => None,
        })
    }

    /// Returns a schedule.
    pub async fn schedule(&self, name: &str) -> Result<Schedule, Error> {
        let key = self.schedule_name(name)?;
        self.inner().store.schedule(&key).await?.ok_or_else(|| no_schedule(name))
    }

    /// Returns a page of the schedules, by name, and whether more follow. A page ends with the schedule with which its
    /// submissions reach [`PAGE_BYTES`].
    pub async fn schedules(&self, after: Option<&Name>, limit: u32) -> Result<(Vec<Schedule>, bool), Error> {
        let (mut found, mut bytes): (Vec<Schedule>, usize) = (Vec::new(), 0);
        loop {
            let after = found.last().map_or(after, |last| Some(&last.name.name)).cloned();
            let read = self.inner().store.schedules(self.id(), after.as_ref(), READ_AT_ONCE).await?;
            let is_last = read.len() < READ_AT_ONCE as usize;
            for schedule in read {
                if found.len() == limit as usize || bytes >= PAGE_BYTES {
                    return Ok((found, true));
                }
                bytes += schedule.spec.submit_text.as_ref().map_or(0, String::len);
                found.push(schedule);
            }
            if is_last {
                return Ok((found, false));
            }
        }
    }

    /// Deletes a schedule. What it submitted stays.
    pub async fn delete_schedule(&self, name: &str, actor: &Name) -> Result<(), Error> {
        let name = self.schedule_name(name)?;
        Ok(self.run(DeleteSchedule { name, actor: actor.clone() }).await??)
    }

    /// Returns the last runs of a schedule, newest first.
    pub async fn schedule_runs(&self, name: &str) -> Result<Vec<RunView>, Error> {
        let mut runs = self.schedule(name).await?.state.runs;
        runs.reverse();
        let started = |run: &Run| match run.result {
            RunResult::Started(subject) => Some(subject),
            RunResult::Skipped | RunResult::Refused { .. } => None,
        };
        let execution = |run: &Run| match started(run)? {
            RunSubject::Execution(id) => Some(id),
            RunSubject::Flow(_) => None,
        };
        let flow = |run: &Run| match started(run)? {
            RunSubject::Flow(id) => Some(id),
            RunSubject::Execution(_) => None,
        };
        let executions: Vec<ExecutionId> = runs.iter().filter_map(execution).collect();
        let flows: Vec<FlowId> = runs.iter().filter_map(flow).collect();
        let store = &self.inner().store;
        let mut states: HashMap<Uuid, (&'static str, Option<&'static str>)> = HashMap::new();
        if !executions.is_empty() {
            let found = store.fetch(&executions, Payloads::NONE).await?;
            states.extend(found.iter().map(|stored| {
                let row = &stored.execution;
                (row.id.0, (row.state.name().as_str(), row.state.outcome().map(Outcome::as_str)))
            }));
        }
        if !flows.is_empty() {
            let found = store.fetch_flows(&flows).await?;
            states.extend(found.iter().map(|flow| (flow.id.0, (flow.state.as_str(), flow_outcome(flow)))));
        }
        let state = |run: &Run| match started(run)? {
            RunSubject::Execution(ExecutionId(id)) | RunSubject::Flow(FlowId(id)) => states.get(&id).copied(),
        };
        Ok(runs.into_iter().map(|run| RunView { state: state(&run), run }).collect())
    }

    /// Submits what a schedule submits, at once. See [`KeyedCalls::run_schedule`].
    pub async fn run_schedule(&self, name: &str, actor: &Name) -> Result<RunSubject, Error> {
        Ok(self.keyed(None).run_schedule(name, actor).await?.done)
    }
}

fn flow_outcome(flow: &Flow) -> Option<&'static str> {
    flow.ended_at.map(|_| flow.state.as_str())
}

impl KeyedCalls<'_> {
    /// Submits what a schedule submits, at once: also if it is paused, and beside a run that lives.
    pub async fn run_schedule(&self, name: &str, actor: &Name) -> Result<Answered<RunSubject>, Error> {
        let namespace = self.namespace;
        let schedule = namespace.schedule(name).await?;
        let inner = namespace.inner();
        let prepared = prepare(
            &*inner.store,
            &inner.registry,
            &inner.options.defaults,
            namespace.id(),
            &schedule.spec.submit,
        )
        .await??;
        let at = Timestamp::from_millis(namespace.now().await?.millis());
        let (name, id, actor) = (schedule.name, Uuid::now_v7(), actor.clone());
        self.run(RunSchedule { name, prepared, id, at, actor }).await
    }
}
