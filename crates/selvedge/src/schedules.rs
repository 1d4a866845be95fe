//! Schedules: settings to save, and schedules and their runs as a program reads them.

use crate::submission::millis;
use crate::wire::submissions::{FlowBody, SubmissionBody};
use crate::wire::values::{duration, optional_duration, optional_json, optional_time, raw, time};
use crate::{Error, ExecutionId, Flow, FlowId, Submission, Timestamp};
use bytes::Bytes;
use selvedge_core::Draft;
use selvedge_core::rules::flows::submit::FlowDraft;
use selvedge_core::schedule::times::Timing;
use selvedge_core::schedule::{RunResult, RunSubject, ScheduleSpec, Template};
use selvedge_engine::RunView;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::time::Duration;

pub use selvedge_core::schedule::{CatchUp, Overlap};

/// The time zone of a cron expression, unless another one is set.
const TIME_ZONE: &str = "UTC";

/// The settings of a schedule: its times, and the execution or flow that it submits.
///
/// ```
/// use selvedge::Submission;
/// use selvedge::schedules::{CatchUp, Overlap, ScheduleSettings};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), selvedge::Error> {
/// let nightly = ScheduleSettings::cron("0 2 * * *", Submission::new("report").input("Europe")?)
///     .time_zone("Europe/Berlin")
///     .overlap(Overlap::Skip)
///     .catch_up(CatchUp::One);
/// let hourly = ScheduleSettings::every(Duration::from_secs(3600), "clean_up");
/// # drop((nightly, hourly));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleSettings {
    timing: Timing,
    work: ScheduledWork,
    overlap: Overlap,
    catch_up: CatchUp,
    jitter: Duration,
    paused: bool,
}

/// The execution or flow that a schedule submits. Made from a [`Submission`], a [`Flow`] or a kind.
#[derive(Clone, Debug, PartialEq)]
pub enum ScheduledWork {
    /// Submitted as one execution for each time.
    Execution(Box<Submission>),
    /// Submitted as one graph for each time.
    Flow(Box<Flow>),
}

impl From<Submission> for ScheduledWork {
    fn from(submission: Submission) -> ScheduledWork {
        ScheduledWork::Execution(Box::new(submission))
    }
}

impl From<&str> for ScheduledWork {
    fn from(kind: &str) -> ScheduledWork {
        ScheduledWork::Execution(Box::new(Submission::new(kind)))
    }
}

impl From<Flow> for ScheduledWork {
    fn from(flow: Flow) -> ScheduledWork {
        ScheduledWork::Flow(Box::new(flow))
    }
}

impl ScheduleSettings {
    /// Submits at the times of a cron expression of five fields.
    pub fn cron(expression: impl Into<String>, work: impl Into<ScheduledWork>) -> ScheduleSettings {
        let timing = Timing::Cron { expression: expression.into(), time_zone: TIME_ZONE.into() };
        ScheduleSettings::new(timing, work.into())
    }

    /// Submits again and again after this time, from one second to 366 days.
    pub fn every(interval: Duration, work: impl Into<ScheduledWork>) -> ScheduleSettings {
        ScheduleSettings::new(Timing::Interval { interval_ms: millis(interval) }, work.into())
    }

    fn new(timing: Timing, work: ScheduledWork) -> ScheduleSettings {
        ScheduleSettings {
            timing,
            work,
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            jitter: Duration::ZERO,
            paused: false,
        }
    }

    /// Sets the time zone of a cron expression, by its name in the IANA database. Default: `UTC`. An interval has none.
    pub fn time_zone(mut self, zone: impl Into<String>) -> ScheduleSettings {
        if let Timing::Cron { time_zone, .. } = &mut self.timing {
            *time_zone = zone.into();
        }
        self
    }

    /// Sets the reaction if a run still lives when the next time comes. Default: another run starts beside it.
    pub fn overlap(mut self, overlap: Overlap) -> ScheduleSettings {
        self.overlap = overlap;
        self
    }

    /// Sets the reaction to times that were missed because no server ran. Default: they are passed.
    pub fn catch_up(mut self, catch_up: CatchUp) -> ScheduleSettings {
        self.catch_up = catch_up;
        self
    }

    /// Sets the longest time by which a firing is delayed at random, up to a day. Default: none.
    pub fn jitter(mut self, jitter: Duration) -> ScheduleSettings {
        self.jitter = jitter;
        self
    }

    /// Sets whether the schedule is paused, so that no time fires. Default: it is not.
    pub fn paused(mut self, paused: bool) -> ScheduleSettings {
        self.paused = paused;
        self
    }

    /// Returns the form that the engine saves. Fails if an input is not JSON.
    pub(crate) fn spec(self) -> Result<ScheduleSpec, Error> {
        let (submit, body) = match self.work {
            ScheduledWork::Execution(submission) => {
                let mut draft = Draft::from(*submission);
                // A trace belongs to one call; a schedule submits many executions.
                draft.trace = None;
                let body = WorkBody::Execution(SubmissionBody::new(&draft)?).text()?;
                (Template::Execution(Box::new(draft)), body)
            }
            ScheduledWork::Flow(flow) => {
                let mut draft = FlowDraft::from(*flow);
                draft.graph.nodes.iter_mut().for_each(|node| node.draft.trace = None);
                let body = WorkBody::Flow(FlowBody::new(&draft)?).text()?;
                (Template::Flow(Box::new(draft)), body)
            }
        };
        Ok(ScheduleSpec {
            timing: self.timing,
            submit,
            submit_text: Some(body),
            overlap: self.overlap,
            catch_up: self.catch_up,
            jitter_ms: millis(self.jitter),
            paused: self.paused,
        })
    }
}

/// The work of a schedule, as the HTTP API has it. Written at once, so its size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum WorkBody<'a> {
    Execution(SubmissionBody<'a>),
    Flow(FlowBody<'a>),
}

impl WorkBody<'_> {
    fn text(&self) -> Result<String, Error> {
        serde_json::to_string(self)
            .map_err(|error| Error::field("/submit", format!("cannot be serialised: {error}")))
    }
}

/// A specification, as the HTTP API has it.
#[derive(Serialize)]
pub(crate) struct ScheduleBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_zone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_ms: Option<i64>,
    submit: &'a RawValue,
    overlap: Overlap,
    catch_up: CatchUp,
    jitter_ms: i64,
    paused: bool,
}

impl<'a> ScheduleBody<'a> {
    /// Returns the body of a request that saves this specification.
    pub(crate) fn new(spec: &'a ScheduleSpec) -> Result<ScheduleBody<'a>, Error> {
        let (cron, time_zone, interval_ms) = match &spec.timing {
            Timing::Cron { expression, time_zone } => (Some(&**expression), Some(&**time_zone), None),
            Timing::Interval { interval_ms } => (None, None, Some(*interval_ms)),
        };
        let submit = spec.submit_text.as_deref().unwrap_or("null").as_bytes();
        Ok(ScheduleBody {
            cron,
            time_zone,
            interval_ms,
            submit: raw(submit).map_err(|error| Error::field("/submit", format!("is not JSON: {error}")))?,
            overlap: spec.overlap,
            catch_up: spec.catch_up,
            jitter_ms: spec.jitter_ms,
            paused: spec.paused,
        })
    }
}

/// A schedule as it was when the engine answered.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Schedule {
    /// Unique in its namespace.
    pub name: String,
    /// The cron expression; none if the schedule has an interval.
    pub cron: Option<String>,
    /// The time zone of the cron expression.
    pub time_zone: Option<String>,
    /// The interval; none if the schedule has a cron expression.
    #[serde(rename = "interval_ms", deserialize_with = "optional_duration")]
    pub interval: Option<Duration>,
    /// The execution or flow that it submits, as JSON text of the HTTP API.
    #[serde(deserialize_with = "optional_json")]
    pub submit: Option<Bytes>,
    /// The reaction if a run still lives when the next time comes.
    pub overlap: Overlap,
    /// The reaction to times that were missed because no server ran.
    pub catch_up: CatchUp,
    /// The longest time by which a firing is delayed at random.
    #[serde(rename = "jitter_ms", deserialize_with = "duration")]
    pub jitter: Duration,
    /// True if no time fires.
    pub paused: bool,
    /// The next time; none while the schedule is paused.
    #[serde(deserialize_with = "optional_time")]
    pub next_at: Option<Timestamp>,
    /// The last time that was decided.
    #[serde(deserialize_with = "optional_time")]
    pub last_scheduled_at: Option<Timestamp>,
    /// The number of times that wait for the end of the run before.
    pub queued: u64,
    /// The number of runs that started.
    pub fired: u64,
    /// The number of times that were skipped.
    pub skipped: u64,
    /// The number of times whose submission was refused.
    pub refused: u64,
    /// The version, raised by every change.
    pub version: u32,
    /// The time of the creation.
    #[serde(deserialize_with = "time")]
    pub created_at: Timestamp,
}

fn from_millis(ms: i64) -> Duration {
    Duration::from_millis(ms.max(0) as u64)
}

impl From<selvedge_core::schedule::Schedule> for Schedule {
    fn from(schedule: selvedge_core::schedule::Schedule) -> Schedule {
        let times = schedule.times().filter(|_| !schedule.spec.paused);
        let (spec, state) = (&schedule.spec, &schedule.state);
        let (cron, time_zone, interval) = match &spec.timing {
            Timing::Cron { expression, time_zone } => {
                (Some(expression.clone()), Some(time_zone.clone()), None)
            }
            Timing::Interval { interval_ms } => (None, None, Some(from_millis(*interval_ms))),
        };
        Schedule {
            cron,
            time_zone,
            interval,
            submit: spec.submit_text.clone().map(Bytes::from),
            overlap: spec.overlap,
            catch_up: spec.catch_up,
            jitter: from_millis(spec.jitter_ms),
            paused: spec.paused,
            next_at: times.and_then(|times| times.next_after(state.position)),
            last_scheduled_at: state.runs.iter().rev().find(|run| !run.manual).map(|run| run.at),
            queued: state.queue.len() as u64,
            fired: state.fired,
            skipped: state.skipped,
            refused: state.refused,
            version: schedule.version,
            created_at: state.created_at,
            name: schedule.name.name.to_string(),
        }
    }
}

/// An execution or flow that a schedule submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduledId {
    /// The id of the one execution.
    Execution(ExecutionId),
    /// The id of the graph.
    Flow(FlowId),
}

impl ScheduledId {
    /// Returns the execution, if the schedule submits one.
    pub fn execution(self) -> Option<ExecutionId> {
        match self {
            ScheduledId::Execution(id) => Some(id),
            ScheduledId::Flow(_) => None,
        }
    }

    /// Returns the flow, if the schedule submits one.
    pub fn flow(self) -> Option<FlowId> {
        match self {
            ScheduledId::Execution(_) => None,
            ScheduledId::Flow(id) => Some(id),
        }
    }
}

impl From<RunSubject> for ScheduledId {
    fn from(subject: RunSubject) -> ScheduledId {
        match subject {
            RunSubject::Execution(id) => ScheduledId::Execution(id),
            RunSubject::Flow(id) => ScheduledId::Flow(id),
        }
    }
}

/// A time of a schedule that was decided, or a run that a caller asked for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScheduleRun {
    /// The time of the schedule.
    pub scheduled_at: Timestamp,
    /// The time of the decision.
    pub decided_at: Timestamp,
    /// True if a caller asked for it.
    pub manual: bool,
    /// Started, skipped or refused.
    pub result: ScheduleRunResult,
    /// The state of the execution or flow: the words of [`State`](crate::State) or [`FlowState`](crate::FlowState). None if the
    /// run started nothing, or if that was deleted.
    pub state: Option<String>,
}

/// The result of a time of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleRunResult {
    /// It submitted an execution or a flow.
    Started(ScheduledId),
    /// It was skipped: a run still lived, or too many times were queued.
    Skipped,
    /// The submission was refused.
    Refused {
        /// The code of the refusal.
        code: String,
        /// The cause, for people.
        detail: String,
    },
}

/// A run, as the HTTP API has it.
#[derive(Deserialize)]
pub(crate) struct ScheduleRunItem {
    #[serde(deserialize_with = "time")]
    scheduled_at: Timestamp,
    #[serde(deserialize_with = "time")]
    decided_at: Timestamp,
    manual: bool,
    result: String,
    execution: Option<ExecutionId>,
    flow: Option<FlowId>,
    state: Option<String>,
    error: Option<ScheduleRunError>,
}

#[derive(Deserialize)]
pub(crate) struct ScheduleRunError {
    code: String,
    detail: String,
}

impl TryFrom<ScheduleRunItem> for ScheduleRun {
    type Error = Error;

    fn try_from(item: ScheduleRunItem) -> Result<ScheduleRun, Error> {
        let result = match (item.result.as_str(), item.execution, item.flow, item.error) {
            ("started", Some(id), _, _) => ScheduleRunResult::Started(ScheduledId::Execution(id)),
            ("started", None, Some(id), _) => ScheduleRunResult::Started(ScheduledId::Flow(id)),
            ("skipped", ..) => ScheduleRunResult::Skipped,
            ("refused", _, _, Some(ScheduleRunError { code, detail })) => {
                ScheduleRunResult::Refused { code, detail }
            }
            (other, ..) => return Err(Error::Failed(format!("a run has the unknown result {other:?}"))),
        };
        let ScheduleRunItem { scheduled_at, decided_at, manual, state, .. } = item;
        Ok(ScheduleRun { scheduled_at, decided_at, manual, result, state })
    }
}

impl From<RunView> for ScheduleRun {
    fn from(view: RunView) -> ScheduleRun {
        let run = view.run;
        ScheduleRun {
            scheduled_at: run.at,
            decided_at: run.decided_at,
            manual: run.manual,
            result: match run.result {
                RunResult::Started(subject) => ScheduleRunResult::Started(subject.into()),
                RunResult::Skipped => ScheduleRunResult::Skipped,
                RunResult::Refused { code, detail } => ScheduleRunResult::Refused { code, detail },
            },
            state: view.state.map(|(state, _)| state.to_owned()),
        }
    }
}
