//! Waitpoints as an operator sees them, without their tokens.

use crate::wire::values::{optional_time, time};
use crate::{ExecutionId, Timestamp, WaitpointId};
use selvedge_core::waitpoint::WaitpointStateName;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

pub use selvedge_core::waitpoint::WaitpointStateName as WaitpointState;

/// A waitpoint of the namespace.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct WaitpointView {
    /// The id by which operators answer, revoke and reissue it.
    pub id: WaitpointId,
    /// The execution that receives the signal.
    pub execution: ExecutionId,
    /// Chosen by its creator. Default name of the signal that its token sends.
    pub name: String,
    /// The source of signals that are delivered through it.
    pub source: String,
    /// Only an open one takes an answer.
    #[serde(deserialize_with = "state")]
    pub state: WaitpointState,
    /// The names of the signals that its token may send.
    pub signals: Vec<String>,
    /// The question to the holder of the token.
    pub prompt: Option<String>,
    /// The time of its creation.
    #[serde(deserialize_with = "time")]
    pub created_at: Timestamp,
    /// The time at which it expires; none if it does not.
    #[serde(deserialize_with = "optional_time")]
    pub expires_at: Option<Timestamp>,
}

fn state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<WaitpointState, D::Error> {
    let word = String::deserialize(deserializer)?;
    WaitpointStateName::parse(&word)
        .ok_or_else(|| D::Error::custom(format!("{word:?} is not a state of a waitpoint")))
}

impl From<selvedge_core::Waitpoint> for WaitpointView {
    fn from(waitpoint: selvedge_core::Waitpoint) -> WaitpointView {
        WaitpointView {
            signals: waitpoint.choices().iter().map(ToString::to_string).collect(),
            id: waitpoint.id,
            execution: waitpoint.execution,
            name: waitpoint.name.to_string(),
            source: waitpoint.source.to_string(),
            state: waitpoint.state.name(),
            prompt: waitpoint.prompt,
            created_at: waitpoint.created_at,
            expires_at: waitpoint.expires_at,
        }
    }
}

/// Selects waitpoints. All conditions that are set must match. Default: every waitpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitpointFilter {
    /// Only waitpoints in this state.
    pub state: Option<WaitpointState>,
    /// Only waitpoints whose signals have this source, such as a person.
    pub source: Option<String>,
    /// Only waitpoints of this execution.
    pub execution: Option<ExecutionId>,
}
