//! Flows as a program sees them.

use crate::wire::values::{optional_time, time};
use crate::{FlowId, FlowState, Timestamp};
use selvedge_core::Flow;
use selvedge_core::state::StateName;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use std::collections::BTreeMap;

/// A flow as it was when the engine answered.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct FlowView {
    /// Generated, unless the submission set it.
    pub id: FlowId,
    /// The name that the submission gave it. Default: none.
    pub name: Option<String>,
    /// Running until every member has ended; then the outcome of the flow.
    #[serde(deserialize_with = "state")]
    pub state: FlowState,
    /// The number of its executions in each state, by the name of the state, and in `total`.
    pub counts: BTreeMap<String, i64>,
    /// The tags, by name.
    pub tags: BTreeMap<String, String>,
    /// The time of the submission.
    #[serde(deserialize_with = "time")]
    pub submitted_at: Timestamp,
    /// The time at which the last member ended; none until then.
    #[serde(deserialize_with = "optional_time")]
    pub ended_at: Option<Timestamp>,
    /// The version, raised by every change.
    pub version: u32,
}

fn state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FlowState, D::Error> {
    let word = String::deserialize(deserializer)?;
    FlowState::parse(&word).ok_or_else(|| D::Error::custom(format!("{word:?} is not a state of a flow")))
}

impl From<Flow> for FlowView {
    fn from(flow: Flow) -> FlowView {
        let count = |state: StateName| (state.as_str().to_owned(), flow.counts.of(state).into());
        let mut counts: BTreeMap<String, i64> = StateName::ALL.into_iter().map(count).collect();
        counts.insert("total".into(), flow.counts.total().into());
        FlowView {
            id: flow.id,
            name: flow.name.as_ref().map(|name| name.to_string()),
            state: flow.state,
            counts,
            tags: flow.tags,
            submitted_at: flow.submitted_at,
            ended_at: flow.ended_at,
            version: flow.version,
        }
    }
}
