//! Schedules: times at which the engine submits an execution or a flow by itself.
//!
//! A [`Schedule`] is one row. Its `spec` changes only when a caller saves it, its `state` with every decision. The state has a
//! *position*: every time up to it is decided. It never goes back, also if the clock of the store does, and the id of what a time
//! submits is derived from the schedule and that time ([`run_id`]). So each time is decided once, by any number of servers.
//!
//! [`plan`](Schedule::plan) alone says which times are decided next; `rules::schedule` carries the plan out.

pub mod cron;
pub mod times;

use crate::rules::flows::submit::FlowDraft;
use crate::{Draft, ExecutionId, FlowId, Name, NamespaceId, Refusal, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use times::{Times, Timing, WrongTiming};
use uuid::Uuid;

/// The time for which a time counts as not missed, in milliseconds.
pub const GRACE_MS: i64 = 60_000;
/// The maximum number of missed times that are caught up with.
pub const CATCH_UP_MAX: u32 = 1000;
/// The maximum number of times that wait for the end of the run before.
pub const QUEUE_MAX: usize = 100;
/// The maximum number of runs that a schedule shows.
pub const RUNS_MAX: usize = 20;
/// The maximum number of runs that may live of which a schedule knows.
const LIVE_MAX: usize = 20;
/// The maximum number of times that one transaction decides.
pub const TIMES_PER_TRANSACTION: usize = 100;
/// The maximum jitter, in milliseconds: a day.
pub const JITTER_MAX_MS: i64 = 24 * 3600 * 1000;
/// The shortest and the longest time until the end of a run is looked for, in milliseconds.
const LOOK_MS: (i64, i64) = (1000, 30_000);

/// The key of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduleName {
    pub namespace: NamespaceId,
    pub name: Name,
}

/// The reaction if a run still lives when the next time comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Starts another run beside it.
    #[default]
    Allow,
    /// Starts none for this time.
    Skip,
    /// Starts the run when the one before has ended.
    Queue,
}

impl Overlap {
    pub const ALL: [Overlap; 3] = [Overlap::Allow, Overlap::Skip, Overlap::Queue];

    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Overlap::Allow => "allow",
            Overlap::Skip => "skip",
            Overlap::Queue => "queue",
        }
    }

    /// Returns the value with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }
}

/// The reaction to times that were missed because no server ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    #[default]
    None,
    /// Fires the last one.
    One,
    /// Fires all of them, at most [`CATCH_UP_MAX`]: the newest.
    All,
}

impl CatchUp {
    pub const ALL: [CatchUp; 3] = [CatchUp::None, CatchUp::One, CatchUp::All];

    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            CatchUp::None => "none",
            CatchUp::One => "one",
            CatchUp::All => "all",
        }
    }

    /// Returns the value with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }

    fn count(self) -> u32 {
        match self {
            CatchUp::None => 0,
            CatchUp::One => 1,
            CatchUp::All => CATCH_UP_MAX,
        }
    }
}

/// The execution or flow that a schedule submits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Template {
    Execution(Box<Draft>),
    Flow(Box<FlowDraft>),
}

/// The part of a schedule that a caller saves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleSpec {
    pub timing: Timing,
    /// The execution or flow to submit.
    pub submit: Template,
    /// The text from which `submit` was read, as the caller sent it. Shown to callers, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submit_text: Option<String>,
    /// The reaction if a run still lives.
    #[serde(default)]
    pub overlap: Overlap,
    /// The reaction to missed times.
    #[serde(default)]
    pub catch_up: CatchUp,
    /// The longest time by which a firing is delayed, in milliseconds. Default: 0.
    #[serde(default)]
    pub jitter_ms: i64,
    /// True if no time fires.
    #[serde(default)]
    pub paused: bool,
}

impl ScheduleSpec {
    /// Refuses wrong values. The template is checked on its own, with its pointers.
    pub fn check(&self) -> Result<(), Refusal> {
        Times::new(&self.timing, Timestamp::default()).map_err(|wrong| match wrong {
            WrongTiming::Expression(why) => Refusal::field("/cron", why),
            WrongTiming::TimeZone(why) => Refusal::field("/time_zone", why),
            WrongTiming::Interval(why) => Refusal::field("/interval_ms", why),
        })?;
        if !(0..=JITTER_MAX_MS).contains(&self.jitter_ms) {
            let detail = format!("is {}; it must be between 0 and {JITTER_MAX_MS}", self.jitter_ms);
            return Err(Refusal::field("/jitter_ms", detail));
        }
        let at = |field: &str, detail: &str| Err(Refusal::field(field, detail));
        let once = "stands for one execution, and a schedule submits many; leave it out";
        match &self.submit {
            Template::Execution(draft) if draft.id.is_some() => at("/submit/execution/id", once),
            Template::Execution(draft) if draft.idempotency_key.is_some() => {
                at("/submit/execution/idempotency_key", once)
            }
            Template::Flow(draft) if draft.id.is_some() => at("/submit/flow/id", once),
            Template::Flow(draft) if draft.idempotency_key.is_some() => {
                at("/submit/flow/idempotency_key", once)
            }
            Template::Flow(draft) => {
                match draft.graph.nodes.iter().position(|node| node.draft.id.is_some()) {
                    Some(index) => at(&format!("/submit/flow/nodes/{index}/id"), once),
                    None => Ok(()),
                }
            }
            Template::Execution(_) => Ok(()),
        }
    }
}

/// The schedule and the time that submitted an execution or a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduled {
    #[serde(rename = "name")]
    pub schedule: Name,
    /// The time that fired.
    pub at: Timestamp,
    /// Other times may wait for its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_awaited: bool,
}

/// An execution or flow that a schedule submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunSubject {
    Execution(ExecutionId),
    Flow(FlowId),
}

/// The result of a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunResult {
    /// It submitted an execution or a flow.
    Started(RunSubject),
    /// A run lived, or the queue was full.
    Skipped,
    /// The submission was refused.
    Refused {
        /// The code of the refusal.
        code: String,
        /// The message of the refusal.
        detail: String,
    },
}

/// A time that was decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The time of the schedule.
    pub at: Timestamp,
    /// The time of the decision.
    pub decided_at: Timestamp,
    /// True if a caller asked for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub manual: bool,
    pub result: RunResult,
}

/// The part of a schedule that decisions change.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ScheduleState {
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time from which an interval counts.
    pub anchor: Timestamp,
    /// The position: every time up to this one is decided.
    pub position: Timestamp,
    /// Times that wait for the end of the run before, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queue: Vec<Timestamp>,
    /// Runs that may live, oldest first, each with the time of its start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub live: Vec<(RunSubject, Timestamp)>,
    /// The last runs, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Run>,
    /// The number of runs that started.
    pub fired: u64,
    /// The number of times that were skipped.
    pub skipped: u64,
    /// The number of times whose submission was refused.
    pub refused: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    pub name: ScheduleName,
    /// Raised by every change.
    pub version: u32,
    /// The version at which the specification was written last.
    pub spec_version: u32,
    /// The part that a caller saves.
    pub spec: Arc<ScheduleSpec>,
    /// The part that decisions change.
    pub state: ScheduleState,
    /// The time at which the schedule is looked at next; none if it is paused. Not before the transaction that sets it.
    pub due_at: Option<Timestamp>,
}

/// The times that are decided next.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Plan {
    /// The position after them.
    pub position: Timestamp,
    /// The times, oldest first.
    pub due: Vec<Timestamp>,
    /// The times that may start now: all that are due, or only the first one of a queue.
    pub starts: Vec<Timestamp>,
}

impl Schedule {
    /// Returns its times. A stored timing that this build refuses has none.
    pub fn times(&self) -> Option<Times> {
        Times::new(&self.spec.timing, self.state.anchor).ok()
    }

    /// Returns the delay of a time, in milliseconds: less than the time until the next one.
    pub fn jitter_ms(&self, times: &Times, at: Timestamp) -> i64 {
        if self.spec.jitter_ms == 0 {
            return 0;
        }
        let until_next = times.next_after(at).map_or(i64::MAX, |next| next.millis() - at.millis());
        let most = self.spec.jitter_ms.min(until_next - 1);
        let random = u64::from_le_bytes(hash(&self.name, b"jitter", at)[..8].try_into().unwrap_or_default());
        (random % (most as u64 + 1)) as i64
    }

    /// Returns the time at which a time fires.
    fn fires_at(&self, times: &Times, at: Timestamp) -> Timestamp {
        at.plus_ms(self.jitter_ms(times, at))
    }

    /// Returns the times to decide at `now`, at most `limit`.
    pub fn plan(&self, now: Timestamp, limit: usize) -> Plan {
        let mut plan = Plan { position: self.state.position, ..Plan::default() };
        let Some(times) = self.times().filter(|_| !self.spec.paused) else { return plan };
        plan.position = self.after_missed(&times, now.minus_ms(GRACE_MS));
        while plan.due.len() < limit.min(TIMES_PER_TRANSACTION) {
            let next = times.next_after(plan.position);
            let Some(next) = next.filter(|next| self.fires_at(&times, *next) <= now) else { break };
            plan.position = next;
            plan.due.push(next);
        }
        plan.starts = match self.spec.overlap {
            // A time may start although an earlier one is due: the submission of that one may be refused.
            Overlap::Allow | Overlap::Skip => plan.due.clone(),
            Overlap::Queue => self.state.queue.first().or(plan.due.first()).copied().into_iter().collect(),
        };
        plan
    }

    /// Returns the position behind the times that are passed because they were missed: those that should have fired before
    /// `late`, but for the newest ones that are caught up with.
    fn after_missed(&self, times: &Times, late: Timestamp) -> Timestamp {
        let position = self.state.position;
        let before = |at: Timestamp| times.last_until(Timestamp::from_micros(at.micros() - 1));
        let mut missed = times.last_until(late);
        while let Some(at) = missed.filter(|at| *at > position && self.fires_at(times, *at) >= late) {
            missed = before(at);
        }
        for _ in 0..self.spec.catch_up.count() {
            missed = missed.filter(|at| *at > position).and_then(before);
        }
        missed.map_or(position, |at| at.max(position))
    }

    /// Sets the time at which the schedule is looked at next.
    pub fn set_due(&mut self, now: Timestamp) {
        self.due_at = self.times().filter(|_| !self.spec.paused).and_then(|times| {
            let next = times.next_after(self.state.position).map(|next| self.fires_at(&times, next));
            let look = (!self.state.queue.is_empty()).then(|| match self.state.live.last() {
                None => now,
                // The longer a run takes, the less its end is looked for.
                Some((_, since)) => now.plus_ms((now.ms_since(*since) / 8).clamp(LOOK_MS.0, LOOK_MS.1)),
            });
            let due = [next, look].into_iter().flatten().min()?;
            Some(due.max(now))
        });
    }

    /// Returns the next times from `now` on, as far as they are known: without jitter, and also of a paused schedule.
    pub fn next_times(&self, now: Timestamp, count: usize) -> Vec<Timestamp> {
        let Some(times) = self.times() else { return Vec::new() };
        let first = times.next_after(self.state.position.max(now));
        std::iter::successors(first, |at| times.next_after(*at)).take(count).collect()
    }

    pub fn add_run(&mut self, run: Run) {
        match &run.result {
            RunResult::Started(subject) => {
                self.state.fired += 1;
                self.state.live.push((*subject, run.decided_at));
                let surplus = self.state.live.len().saturating_sub(LIVE_MAX);
                self.state.live.drain(..surplus);
            }
            RunResult::Skipped => self.state.skipped += 1,
            RunResult::Refused { .. } => self.state.refused += 1,
        }
        self.state.runs.push(run);
        let surplus = self.state.runs.len().saturating_sub(RUNS_MAX);
        self.state.runs.drain(..surplus);
    }
}

/// Returns the id of what a time of a schedule submits.
pub fn run_id(name: &ScheduleName, at: Timestamp) -> Uuid {
    uuid_of(&hash(name, b"run", at))
}

/// Returns the id of a node of a flow that a schedule submits.
pub fn node_id(flow: Uuid, node: usize) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(b"node");
    hash.update(flow.as_bytes());
    hash.update((node as u64).to_le_bytes());
    uuid_of(&hash.finalize().into())
}

fn hash(name: &ScheduleName, purpose: &[u8], at: Timestamp) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(purpose);
    hash.update(name.namespace.0.to_le_bytes());
    hash.update((name.name.len() as u64).to_le_bytes());
    hash.update(name.name.as_bytes());
    hash.update(at.micros().to_le_bytes());
    hash.finalize().into()
}

/// Returns a UUID of version 8 with these bits.
fn uuid_of(hash: &[u8; 32]) -> Uuid {
    let mut bytes: [u8; 16] = hash[..16].try_into().unwrap_or_default();
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid::from_bytes(bytes)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
