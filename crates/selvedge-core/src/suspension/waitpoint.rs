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

/// The id of a waitpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WaitpointId(pub Uuid);

impl fmt::Display for WaitpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The state of a waitpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitpointState {
    /// It accepts a delivery until it expires.
    Open,
    /// It accepted its delivery: the number of the signal, and the effect of the delivery.
    Delivered(u32, Effect),
    /// It expired without a delivery.
    Expired,
    /// An operator revoked its token.
    Revoked,
}

impl WaitpointState {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Delivered(..) => "delivered",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
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

/// A waitpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Waitpoint {
    /// The waitpoint's id.
    pub id: WaitpointId,
    /// The namespace.
    pub namespace: NamespaceId,
    /// The execution that receives the signal.
    pub execution: ExecutionId,
    /// The position among the waitpoints of its execution, from 1.
    pub number: u32,
    /// The waitpoint's name.
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
}

impl Waitpoint {
    /// Reports whether it accepts a delivery at `now`.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.state == WaitpointState::Open && self.expires_at.is_none_or(|at| at > now)
    }
}
