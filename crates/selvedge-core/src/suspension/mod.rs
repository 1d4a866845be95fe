//! Suspensions: what an execution waits for while nobody holds it, and what of that has come.
//!
//! A suspension has one or more waits; it is over when one of them holds. A wait holds when its condition does, a tree whose
//! leaves are signals, counts of signals, times, the operator's word and the end of the children. Each leaf keeps what it
//! has heard, so that one more signal costs the same however many came before. What a condition has heard never becomes
//! less: once it holds it holds.

mod condition;

pub use condition::{Condition, DEPTH_MAX, Distinct, IncomingSignal, LEAVES_MAX, NAMES_MAX};

use crate::fact::LeaseRef;
use crate::gate::GateName;
use crate::name::NAME_LIMIT;
use crate::step::StepKind;
use crate::submission::{When, check_duration};
use crate::{Name, Outcome, Refusal, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How many waits a suspension may have.
pub const WAITS_MAX: usize = 100;

/// What happens to a wait that has waited for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum OnTimeout {
    /// The execution ends as failed.
    #[default]
    Fail,
    /// The execution ends as cancelled.
    Cancel,
    /// The execution ends as expired.
    Expire,
    /// It is ready, and its next claim carries a signal that says so.
    Resume,
    /// It stays as it is, and an event says so.
    Escalate,
}

impl OnTimeout {
    /// Every one.
    pub const ALL: [OnTimeout; 5] = [Self::Fail, Self::Cancel, Self::Expire, Self::Resume, Self::Escalate];

    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Cancel => "cancel",
            Self::Expire => "expire",
            Self::Resume => "resume",
            Self::Escalate => "escalate",
        }
    }

    /// The one with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }

    /// How an execution ends by it, if it does.
    pub fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Fail => Some(Outcome::Failed),
            Self::Cancel => Some(Outcome::Cancelled),
            Self::Expire => Some(Outcome::Expired),
            Self::Resume | Self::Escalate => None,
        }
    }
}

/// What made a suspended execution ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResumedBy {
    /// Its condition held.
    Condition,
    /// An operator.
    Operator,
    /// Its time was over.
    Timeout,
}

impl ResumedBy {
    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Condition => "condition",
            Self::Operator => "operator",
            Self::Timeout => "timeout",
        }
    }
}

/// A wait as a worker asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitDraft {
    /// The step that its end is recorded as.
    pub step: Option<(Name, StepKind)>,
    /// What for.
    pub condition: Condition,
    /// How long, counted from the first time that the step was waited for.
    pub timeout_ms: Option<i64>,
    /// What then.
    pub on_timeout: OnTimeout,
}

impl WaitDraft {
    /// A wait for this condition, without end.
    pub fn new(condition: Condition) -> WaitDraft {
        WaitDraft { step: None, condition, timeout_ms: None, on_timeout: OnTimeout::Fail }
    }

    /// Checks every field; the first wrong one is named.
    pub fn check(&self, pointer: &str) -> Result<(), Refusal> {
        if let Some((name, _)) = &self.step {
            Name::parse(&format!("{pointer}/step"), name, NAME_LIMIT)?;
        }
        self.condition.check(&format!("{pointer}/condition"))?;
        let timeout = format!("{pointer}/timeout_ms");
        self.timeout_ms.map_or(Ok(()), |ms| check_duration(&timeout, ms))
    }

    /// The wait that begins; its durations count from `since`.
    pub fn begin(&self, since: Timestamp) -> Wait {
        let mut condition = self.condition.clone();
        condition.resolve(since);
        Wait {
            step: self.step.as_ref().map(|(name, _)| name.clone()),
            condition,
            timeout_at: self.timeout_ms.map(|ms| since.plus_ms(ms)),
            on_timeout: self.on_timeout,
            escalated: false,
        }
    }
}

/// One thing that a suspended execution waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wait {
    /// The step that its end is recorded as.
    pub step: Option<Name>,
    /// What for.
    pub condition: Condition,
    /// Until when at most.
    pub timeout_at: Option<Timestamp>,
    /// What then.
    pub on_timeout: OnTimeout,
    /// Whether it was escalated, and so has no end any more.
    pub escalated: bool,
}

impl Wait {
    /// The signals that it takes when it ends: those by which it holds, or all that it has heard where it does not.
    pub fn taken(&self) -> Vec<u32> {
        let mut taken = Vec::new();
        match self.condition.holds() {
            true => self.condition.taken(&mut taken),
            false => self.condition.heard(&mut taken),
        }
        taken.sort_unstable();
        taken.dedup();
        taken
    }

    /// The earliest time that it still waits for.
    pub fn next_time(&self) -> Option<Timestamp> {
        self.condition.next_time()
    }

    fn times_out_at(&self) -> Option<Timestamp> {
        self.timeout_at.filter(|_| !self.escalated)
    }
}

/// What an execution waits for while nobody holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspension {
    /// Which suspension of the execution this is, from 1.
    pub number: u32,
    /// Since when.
    pub since: Timestamp,
    /// The lease that ended with it.
    pub lease: LeaseRef,
    /// What it waits for; one is enough.
    pub waits: Vec<Wait>,
}

impl Suspension {
    /// The bytes that a store keeps.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// From the bytes that a store kept.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        postcard::from_bytes(bytes)
    }

    /// As the API shows it. Times are in milliseconds; the edge writes them as text.
    pub fn public_data(&self) -> Value {
        let wait = |wait: &Wait| {
            let mut told = json!({
                "step": wait.step, "condition": wait.condition.public_data(), "on_timeout": wait.on_timeout.as_str(),
                "escalated": wait.escalated,
            });
            if let Some(at) = wait.timeout_at {
                told["timeout_at"] = json!(at.millis());
            }
            told
        };
        json!({
            "number": self.number, "since_at": self.since.millis(), "attempt": self.lease.attempt(),
            "waits": self.waits.iter().map(wait).collect::<Vec<_>>(),
        })
    }

    /// Whether one of its waits holds.
    pub fn holds(&self) -> bool {
        self.waits.iter().any(|wait| wait.condition.holds())
    }

    /// Tells it of a signal, which the first wait takes that still waits for it. Says whether one does. One that holds waits
    /// no more: so signals that came before a suspension do what they would have done after it.
    pub fn receive(&mut self, arrival: IncomingSignal<'_>) -> bool {
        let mut waiting = self.waits.iter_mut().filter(|wait| !wait.condition.holds());
        waiting.any(|wait| wait.condition.receive(arrival))
    }

    /// Marks the times that have come. Says whether one had.
    pub fn pass(&mut self, now: Timestamp) -> bool {
        self.mark(|leaf| match leaf {
            Condition::Until { at: When::At(at), passed } if *at <= now => !std::mem::replace(passed, true),
            _ => false,
        })
    }

    /// Marks what waits for an operator. Says whether something had.
    pub fn allow(&mut self) -> bool {
        self.mark(|leaf| match leaf {
            Condition::Operator { said } => !std::mem::replace(said, true),
            _ => false,
        })
    }

    /// Marks what waits for a gate. Says whether something had.
    pub fn gate_opened(&mut self, opened: &GateName) -> bool {
        self.mark(|leaf| match leaf {
            Condition::Gate { gate, open } if gate == opened => !std::mem::replace(open, true),
            _ => false,
        })
    }

    /// The gate that it waits for, if it does.
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

    /// Marks what waits for the children. Says whether something had.
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

    /// Whether something in it still waits for what `leaf` says.
    fn waits_for(&self, leaf: impl Fn(&Condition) -> bool) -> bool {
        let mut waits = false;
        for wait in &self.waits {
            wait.condition.leaves(&mut |part| waits |= leaf(part));
        }
        waits
    }

    /// Whether something in it waits for the children.
    pub fn waits_for_children(&self) -> bool {
        self.waits_for(|leaf| matches!(leaf, Condition::Children { ended: false }))
    }

    /// Whether something in it waits for an operator.
    pub fn waits_for_operator(&self) -> bool {
        self.waits_for(|leaf| matches!(leaf, Condition::Operator { said: false }))
    }

    /// The earliest time that it still waits for.
    pub fn next_time(&self) -> Option<Timestamp> {
        self.waits.iter().filter_map(Wait::next_time).min()
    }

    /// When the first of its waits has waited for too long.
    pub fn times_out_at(&self) -> Option<Timestamp> {
        self.waits.iter().filter_map(Wait::times_out_at).min()
    }

    /// The wait that has waited for too long, the one that did first.
    pub fn overdue(&self, now: Timestamp) -> Option<usize> {
        let timed =
            self.waits.iter().enumerate().filter_map(|(index, wait)| Some((wait.times_out_at()?, index)));
        timed.filter(|(at, _)| *at <= now).min().map(|(_, index)| index)
    }
}
