//! Waitpoints: an outside party delivers one signal to an execution through a waitpoint, with a token instead of an API
//! key.

use crate::signal::Effect;
use crate::token::TokenKeyId;
use crate::{ExecutionId, Name, NamespaceId, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

/// The most waitpoints of one execution.
pub const WAITPOINTS_MAX: u32 = 1000;
/// The most signals that a token may choose from.
pub const CHOICES_MAX: usize = 100;
/// The longest prompt of a waitpoint, in bytes.
pub const PROMPT_LIMIT: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WaitpointId(pub Uuid);

impl fmt::Display for WaitpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitpointState {
    /// It accepts a delivery until it expires.
    Open,
    /// It accepted its delivery: the number of the signal, and the effect of the delivery.
    Delivered(u32, Effect),
    /// It expired without a delivery: its time has passed, or its execution or the vote that it served ended before.
    Expired,
    /// An operator revoked its token.
    Revoked,
}

impl WaitpointState {
    /// Returns the state without its data.
    pub fn name(self) -> WaitpointStateName {
        match self {
            Self::Open => WaitpointStateName::Open,
            Self::Delivered(..) => WaitpointStateName::Delivered,
            Self::Expired => WaitpointStateName::Expired,
            Self::Revoked => WaitpointStateName::Revoked,
        }
    }

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        self.name().as_str()
    }

    /// Returns the numbers under which stores keep this state: the state, the number of the signal, and the code of the
    /// effect. They never change.
    pub fn codes(self) -> (i16, Option<u32>, Option<i16>) {
        match self {
            Self::Open => (0, None, None),
            Self::Delivered(number, effect) => (1, Some(number), Some(effect.code())),
            Self::Expired => (2, None, None),
            Self::Revoked => (3, None, None),
        }
    }

    /// Returns the state with these numbers.
    pub fn from_codes(state: i16, signal: Option<u32>, effect: Option<i16>) -> Option<Self> {
        match (state, signal, effect) {
            (0, None, None) => Some(Self::Open),
            (1, Some(number), Some(effect)) => Some(Self::Delivered(number, Effect::from_code(effect)?)),
            (2, None, None) => Some(Self::Expired),
            (3, None, None) => Some(Self::Revoked),
            _ => None,
        }
    }
}

/// A state of a waitpoint without its data, as filters and the indexes of stores use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitpointStateName {
    Open,
    Delivered,
    Expired,
    Revoked,
}

impl WaitpointStateName {
    pub const ALL: [WaitpointStateName; 4] = [Self::Open, Self::Delivered, Self::Expired, Self::Revoked];

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Delivered => "delivered",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    /// Returns the state with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }

    /// Returns the number under which stores keep this state. Never changes.
    pub fn code(self) -> i16 {
        match self {
            Self::Open => 0,
            Self::Delivered => 1,
            Self::Expired => 2,
            Self::Revoked => 3,
        }
    }
}

/// Selects waitpoints of a namespace. All given conditions must match.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitpointFilter {
    pub namespace: NamespaceId,
    /// The state; none for all.
    pub state: Option<WaitpointStateName>,
    /// The source of signals delivered through it; none for all.
    pub source: Option<Name>,
}

impl WaitpointFilter {
    /// Selects all waitpoints of a namespace.
    pub fn all(namespace: NamespaceId) -> Self {
        WaitpointFilter { namespace, state: None, source: None }
    }

    /// Returns the states that it selects.
    pub fn states(&self) -> Vec<WaitpointStateName> {
        self.state.map_or_else(|| WaitpointStateName::ALL.to_vec(), |state| vec![state])
    }

    /// Reports whether it selects a waitpoint.
    pub fn selects(&self, waitpoint: &Waitpoint) -> bool {
        waitpoint.namespace == self.namespace
            && self.state.is_none_or(|state| state == waitpoint.state.name())
            && self.source.as_ref().is_none_or(|source| *source == waitpoint.source)
    }
}

/// The position of a waitpoint in a list: newest first, then by descending id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitpointPosition {
    /// The time of creation.
    pub created_at: Timestamp,
    pub id: WaitpointId,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Waitpoint {
    pub id: WaitpointId,
    pub namespace: NamespaceId,
    /// The execution that receives the signal.
    pub execution: ExecutionId,
    /// The position among the waitpoints of its execution, from 1.
    pub number: u32,
    pub name: Name,
    /// The source of signals delivered through it.
    pub source: Name,
    /// The key that signs its token.
    pub key: TokenKeyId,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time at which it expires; none if it does not.
    pub expires_at: Option<Timestamp>,
    /// The current state.
    pub state: WaitpointState,
    /// The names of the signals that its token may send. None if an earlier build created it: then its token may send
    /// any signal that does not have the name of another waitpoint.
    pub signals: Option<Vec<Name>>,
    /// The question to the holder of the token.
    pub prompt: Option<String>,
    /// The number of times that its token was issued again. Each issue ends the token before it.
    pub issue: u32,
}

impl Waitpoint {
    /// Reports whether it accepts a delivery at `now`.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.state == WaitpointState::Open && self.expires_at.is_none_or(|at| at > now)
    }

    /// Reports whether it expired although its time has not passed at `now`: nobody needs its delivery, because its execution
    /// or the vote that it served has ended.
    pub fn expired_early(&self, now: Timestamp) -> bool {
        self.state == WaitpointState::Expired && self.expires_at.is_none_or(|at| at > now)
    }

    /// Returns the state at `now`: an open waitpoint whose time has passed is expired, even before that is recorded.
    pub fn state_at(&self, now: Timestamp) -> WaitpointStateName {
        match self.state {
            WaitpointState::Open if !self.is_open(now) => WaitpointStateName::Expired,
            state => state.name(),
        }
    }

    /// Returns the names of the signals that its token is meant to send.
    pub fn choices(&self) -> &[Name] {
        self.signals.as_deref().unwrap_or(std::slice::from_ref(&self.name))
    }

    /// Returns the name of a signal that is delivered without one: the waitpoint's name, or the only choice. None if
    /// the sender must choose.
    pub fn default_signal(&self) -> Option<&Name> {
        match self.choices() {
            [only] => Some(only),
            choices => choices.iter().find(|choice| **choice == self.name),
        }
    }

    /// Returns its position in a list.
    pub fn position(&self) -> WaitpointPosition {
        WaitpointPosition { created_at: self.created_at, id: self.id }
    }

    /// Encodes the names of its signals for a store.
    pub fn encode_signals(&self) -> Option<String> {
        let signals = self.signals.as_ref()?;
        Some(serde_json::to_string(signals).expect("a list of names always serialises"))
    }

    /// Decodes the names of signals that a store kept.
    pub fn decode_signals(text: Option<&str>) -> Result<Option<Vec<Name>>, serde_json::Error> {
        text.map(serde_json::from_str).transpose()
    }
}
