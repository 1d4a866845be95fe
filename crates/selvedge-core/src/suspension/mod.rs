//! Suspensions: the waits of an execution that has no lease, and their fulfilment so far.
//!
//! A suspension has one or more waits and is fulfilled when the condition of one of them holds. A condition is a tree
//! whose leaves are signals, counts of signals, times, operators and the end of children. Each leaf stores the signals
//! it has received, so the cost of a signal does not depend on the number of earlier ones. Fulfilment is never undone:
//! a condition that holds keeps holding.

mod condition;
pub mod signal;
pub mod step;
pub mod token;
pub mod waitpoint;

pub use condition::{Condition, DEPTH_MAX, Distinct, IncomingSignal, LEAVES_MAX, NAMES_MAX};

use crate::fact::LeaseRef;
use crate::gate::GateName;
use crate::name::NAME_LIMIT;
use crate::step::StepKind;
use crate::submission::{When, check_duration};
use crate::{Name, Outcome, Refusal, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The most waits of a suspension.
pub const WAITS_MAX: usize = 100;

/// The action when a wait times out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum OnTimeout {
    /// The execution ends as failed.
    #[default]
    Fail,
    /// The execution ends as cancelled.
    Cancel,
    /// The execution ends as expired.
    Expire,
    /// The execution resumes, and its next claim carries a timeout signal.
    Resume,
    /// The wait continues without a timeout, and the event `execution.escalated` is published.
    Escalate,
}

impl OnTimeout {
    pub const ALL: [OnTimeout; 5] = [Self::Fail, Self::Cancel, Self::Expire, Self::Resume, Self::Escalate];

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Cancel => "cancel",
            Self::Expire => "expire",
            Self::Resume => "resume",
            Self::Escalate => "escalate",
        }
    }

    /// Returns the action with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }

    /// Returns the outcome of the execution, if the action ends it.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Fail => Some(Outcome::Failed),
            Self::Cancel => Some(Outcome::Cancelled),
            Self::Expire => Some(Outcome::Expired),
            Self::Resume | Self::Escalate => None,
        }
    }
}

/// The reason why a suspended execution was resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumedBy {
    /// A condition held.
    Condition,
    Operator,
    /// A wait timed out.
    Timeout,
}

impl ResumedBy {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Condition => "condition",
            Self::Operator => "operator",
            Self::Timeout => "timeout",
        }
    }
}

/// A wait as a worker requests it.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitDraft {
    /// The step that records the end of the wait. Default: none.
    pub step: Option<(Name, StepKind)>,
    pub condition: Condition,
    /// The timeout, in milliseconds from the first suspension for the step. Default: none.
    pub timeout_ms: Option<i64>,
    /// The action when the wait times out. Default: fail.
    pub on_timeout: OnTimeout,
}

impl WaitDraft {
    /// Creates a wait for this condition, without a timeout.
    pub fn new(condition: Condition) -> WaitDraft {
        WaitDraft { step: None, condition, timeout_ms: None, on_timeout: OnTimeout::Fail }
    }

    /// Checks every field. The refusal names the first invalid one.
    pub fn check(&self, pointer: &str) -> Result<(), Refusal> {
        if let Some((name, _)) = &self.step {
            Name::parse(&format!("{pointer}/step"), name, NAME_LIMIT)?;
        }
        self.condition.check(&format!("{pointer}/condition"))?;
        let timeout = format!("{pointer}/timeout_ms");
        self.timeout_ms.map_or(Ok(()), |ms| check_duration(&timeout, ms))
    }

    /// Begins the wait. Its durations count from `since`. A wait without a timeout gets the default, unless a time ends it
    /// anyway.
    pub fn begin(&self, since: Timestamp, default_timeout_ms: Option<i64>) -> Wait {
        let default = default_timeout_ms.filter(|_| !self.condition.ends_by_time());
        let mut condition = self.condition.clone();
        condition.resolve(since);
        Wait {
            step: self.step.as_ref().map(|(name, _)| name.clone()),
            condition,
            timeout_at: self.timeout_ms.or(default).map(|ms| since.plus_ms(ms)),
            on_timeout: self.on_timeout,
            escalated: false,
        }
    }
}

/// A wait of a suspended execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// The step that records the end of the wait.
    pub step: Option<Name>,
    /// The condition, with its fulfilment so far.
    pub condition: Condition,
    /// The time at which the wait times out; none if it does not.
    pub timeout_at: Option<Timestamp>,
    /// The action when the wait times out.
    pub on_timeout: OnTimeout,
    /// True once the wait was escalated. It no longer times out.
    pub escalated: bool,
}

impl Wait {
    /// Returns the signals that the wait takes when it ends: those that make its condition hold, or all received ones
    /// if it does not hold.
    pub fn taken(&self) -> Vec<u32> {
        let mut taken = Vec::new();
        match self.condition.holds() {
            true => self.condition.taken(&mut taken),
            false => self.condition.received(&mut taken),
        }
        taken.sort_unstable();
        taken.dedup();
        taken
    }

    /// Returns the earliest time that it still waits for.
    pub fn next_time(&self) -> Option<Timestamp> {
        self.condition.next_time()
    }

    fn times_out_at(&self) -> Option<Timestamp> {
        self.timeout_at.filter(|_| !self.escalated)
    }
}

/// The suspension of an execution: it has no lease, and resumes when one of the waits ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspension {
    /// The number of the suspension among those of its execution, from 1.
    pub number: u32,
    /// The time at which it began.
    pub since: Timestamp,
    /// The lease that the suspension ended.
    pub lease: LeaseRef,
    /// The waits. The first one that ends resumes the execution.
    pub waits: Vec<Wait>,
}

impl Suspension {
    /// Encodes the suspension for a store.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a suspension always serialises")
    }

    /// Decodes the bytes of a store.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        crate::stored::decode(bytes)
    }

    /// Returns the suspension as the API shows it. Times are in milliseconds; the server formats them as text.
    pub fn public_data(&self) -> Value {
        let wait = |wait: &Wait| {
            let mut data = json!({
                "step": wait.step, "condition": wait.condition.public_data(), "on_timeout": wait.on_timeout.as_str(),
                "escalated": wait.escalated,
            });
            if let Some(at) = wait.timeout_at {
                data["timeout_at"] = json!(at.millis());
            }
            data
        };
        json!({
            "number": self.number, "since_at": self.since.millis(), "attempt": self.lease.attempt(),
            "waits": self.waits.iter().map(wait).collect::<Vec<_>>(),
        })
    }

    /// Reports whether the condition of one of its waits holds.
    pub fn holds(&self) -> bool {
        self.waits.iter().any(|wait| wait.condition.holds())
    }

    /// Applies a signal to the first wait that is waiting for it. Returns true if there is one. A wait whose condition
    /// holds receives no more signals, so signals delivered before the suspension have the same effect as those
    /// delivered after it.
    pub fn receive(&mut self, signal: IncomingSignal<'_>) -> bool {
        let mut waiting = self.waits.iter_mut().filter(|wait| !wait.condition.holds());
        waiting.any(|wait| wait.condition.receive(signal))
    }

    /// Marks the times that have passed. Returns true if one was not marked before.
    pub fn pass_times(&mut self, now: Timestamp) -> bool {
        self.mark(|leaf| match leaf {
            Condition::Until { at: When::At(at), passed } if *at <= now => !std::mem::replace(passed, true),
            _ => false,
        })
    }

    /// Marks the leaves that wait for an operator. Returns true if there were any.
    pub fn resume_by_operator(&mut self) -> bool {
        self.mark(|leaf| match leaf {
            Condition::Operator { resumed } => !std::mem::replace(resumed, true),
            _ => false,
        })
    }

    /// Marks the leaves that wait for this gate. Returns true if there were any.
    pub fn gate_opened(&mut self, opened: &GateName) -> bool {
        self.mark(|leaf| match leaf {
            Condition::Gate { gate, open } if gate == opened => !std::mem::replace(open, true),
            _ => false,
        })
    }

    /// Returns the gate that it waits for, if it waits for one.
    pub fn gate(&self) -> Option<&GateName> {
        let mut found = None;
        for wait in &self.waits {
            wait.condition.leaves(&mut |leaf| {
                if let Condition::Gate { gate, open: false } = leaf {
                    found = Some(gate);
                }
            });
        }
        found
    }

    /// Marks the leaves that wait for the children. Returns true if there were any.
    pub fn children_ended(&mut self) -> bool {
        self.mark(|leaf| match leaf {
            Condition::Children { ended } => !std::mem::replace(ended, true),
            _ => false,
        })
    }

    fn mark(&mut self, mut mark: impl FnMut(&mut Condition) -> bool) -> bool {
        let mut marked = false;
        for wait in &mut self.waits {
            wait.condition.leaves_mut(&mut |leaf| marked |= mark(leaf));
        }
        marked
    }

    /// Reports whether `leaf` accepts one of its leaves.
    fn waits_for(&self, leaf: impl Fn(&Condition) -> bool) -> bool {
        let mut waits = false;
        for wait in &self.waits {
            wait.condition.leaves(&mut |part| waits |= leaf(part));
        }
        waits
    }

    /// Reports whether it still waits for the children.
    pub fn waits_for_children(&self) -> bool {
        self.waits_for(|leaf| matches!(leaf, Condition::Children { ended: false }))
    }

    /// Returns the earliest time that it still waits for.
    pub fn next_time(&self) -> Option<Timestamp> {
        self.waits.iter().filter_map(Wait::next_time).min()
    }

    /// Returns the earliest timeout of its waits.
    pub fn times_out_at(&self) -> Option<Timestamp> {
        self.waits.iter().filter_map(Wait::times_out_at).min()
    }

    /// Returns the index of the wait that timed out first, if one has.
    pub fn overdue(&self, now: Timestamp) -> Option<usize> {
        let timed =
            self.waits.iter().enumerate().filter_map(|(index, wait)| Some((wait.times_out_at()?, index)));
        timed.filter(|(at, _)| *at <= now).min().map(|(_, index)| index)
    }
}
