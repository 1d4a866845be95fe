//! Waitpoints: where an outside party delivers one signal to an execution, with a token instead of a key to the API.

use crate::signal::Effect;
use crate::token::TokenKeyId;
use crate::{ExecutionId, Name, NamespaceId, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

/// How many waitpoints an execution may have.
pub const WAITPOINTS_MAX: u32 = 1000;

/// Names one waitpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WaitpointId(pub Uuid);

impl fmt::Display for WaitpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a waitpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitpointState {
    /// It takes a delivery.
    Open,
    /// It has taken one: the signal of this number, which did that.
    Delivered(u32, Effect),
    /// Its time was over.
    Expired,
    /// An operator revoked its token.
    Revoked,
}

impl WaitpointState {
    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Delivered(..) => "delivered",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }

    /// The numbers a store keeps: which state, the number of the signal, and the code of its effect. Stable for ever.
    pub fn codes(self) -> (i16, Option<u32>, Option<i16>) {
        match self {
            Self::Open => (0, None, None),
            Self::Delivered(number, effect) => (1, Some(number), Some(effect.code())),
            Self::Expired => (2, None, None),
            Self::Revoked => (3, None, None),
        }
    }

    /// The state with these numbers.
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
    /// Its id.
    pub id: WaitpointId,
    /// Its namespace.
    pub namespace: NamespaceId,
    /// Whose.
    pub execution: ExecutionId,
    /// Its place among the waitpoints of its execution, from 1.
    pub number: u32,
    /// Its name.
    pub name: Name,
    /// Whose word a delivery through it is.
    pub source: Name,
    /// The key that its token is signed with.
    pub key: TokenKeyId,
    /// When it was made.
    pub created_at: Timestamp,
    /// Until when it takes a delivery.
    pub expires_at: Option<Timestamp>,
    /// Where it stands.
    pub state: WaitpointState,
}

impl Waitpoint {
    /// Whether it takes a delivery at `now`.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.state == WaitpointState::Open && self.expires_at.is_none_or(|at| at > now)
    }
}
