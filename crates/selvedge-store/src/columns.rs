//! The columns in which SQL stores keep executions, flows and schedules, and the conversions in both directions.
//!
//! A field that an index or an operator's query needs has a column of its own; the rest is readable JSON, to which fields may
//! be added. A value that cannot be decoded is an error that names it, never a default.

use bytes::Bytes;
use selvedge_core::execution::{Detail, Due, ROOT, Spec};
use selvedge_core::fact::Failure;
use selvedge_core::flow::{Counts, FlowDetail, FlowSpec, FlowState};
use selvedge_core::gate::GateName;
use selvedge_core::history::newest_claim;
use selvedge_core::rows::{Relative, StoredRelative};
use selvedge_core::schedule::{Schedule, ScheduleName, ScheduleSpec};
use selvedge_core::session::SessionDetail;
use selvedge_core::state::StateName;
use selvedge_core::wiring::Node;
use selvedge_core::{
    ClassId, Execution, ExecutionId, Flow, FlowId, History, Join, Lease, LeaseId, Name, NamespaceId,
    SessionId, State, Suspension, Timestamp, Wiring,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use uuid::Uuid;

/// The columns of an execution that are written at submission, and again only when its wiring changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fixed {
    pub id: Uuid,
    pub partition: i16,
    pub namespace: i32,
    pub class: i32,
    /// `flow`; null if the execution is its own flow.
    pub flow: Option<Uuid>,
    pub submitted_at: i64,
    /// `spec`; null if it equals the default.
    pub spec: Option<String>,
    /// `wiring`, encoded; null if there is none. Changes together with `flow`, when the flow grows.
    pub wiring: Option<Vec<u8>>,
}

/// The columns of an execution that any transition may change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moving {
    pub version: i32,
    /// `state`, see [`StateName::code`].
    pub state: i16,
    /// `claim_priority`, see [`Execution::claim_priority`].
    pub claim_priority: i16,
    pub ready_order: i64,
    pub epoch: i32,
    /// `due_kind`, see [`code`](selvedge_core::DueKind::code).
    pub due_kind: Option<i16>,
    pub due_at: Option<i64>,
    /// `session`, the lease's session.
    pub session: Option<i64>,
    pub lease_id: Option<Uuid>,
    /// `until_at`, microseconds: the end of the delay of a delayed execution, or of the first term of a lease.
    pub until_at: Option<i64>,
    pub started_at: Option<i64>,
    pub ended_at: Option<i64>,
    /// `tags`, a JSON object; null if there are none.
    pub tags: Option<String>,
    /// `detail`, a JSON object; null if it equals the default.
    pub detail: Option<String>,
    /// `history`, encoded lines.
    pub history: Vec<u8>,
    /// `joined`, the encoded join; null if there is none.
    pub joined: Option<Vec<u8>>,
    /// `suspension`, encoded; null unless the execution is suspended.
    pub suspension: Option<Vec<u8>>,
    /// `held_by`, the encoded name of the gate that holds the execution; null unless it is held.
    pub held_by: Option<Vec<u8>>,
    /// `gate`: the id of the gate that holds the execution or whose opening resumes it.
    pub gate: Option<i64>,
}

static DEFAULT_SPEC: LazyLock<Arc<Spec>> = LazyLock::new(Arc::default);

impl Fixed {
    /// Returns the fixed columns of an execution.
    pub fn of(row: &Execution) -> Fixed {
        Fixed {
            id: row.id.0,
            partition: ExecutionId(row.flow().0).partition(),
            namespace: row.namespace.0,
            class: row.class.0,
            flow: row.flow.map(|flow| flow.0),
            submitted_at: row.submitted_at.micros(),
            spec: (*row.spec != **DEFAULT_SPEC).then(|| to_json(&*row.spec)),
            wiring: row.wiring.as_ref().map(|wiring| wiring.encode()),
        }
    }
}

impl Moving {
    /// Returns the moving columns of an execution.
    pub fn of(row: &Execution) -> Moving {
        let lease = row.state.lease();
        let due: Option<Due> = row.due();
        Moving {
            version: row.version as i32,
            state: row.state.name().code(),
            claim_priority: row.claim_priority(),
            ready_order: row.ready_order.micros(),
            epoch: row.epoch as i32,
            due_kind: due.map(|due| due.kind.code()),
            due_at: due.map(|due| due.at.micros()),
            session: lease.map(|lease| lease.session.0),
            lease_id: lease.map(|lease| lease.id.0),
            until_at: match &row.state {
                State::Delayed { until } => Some(until.micros()),
                State::Active(lease) => Some(lease.first_term().micros()),
                State::WaitingDependencies
                | State::Waiting
                | State::Suspended(_)
                | State::Held(_)
                | State::Terminal(_) => None,
            },
            started_at: row.started_at.map(Timestamp::micros),
            ended_at: row.ended_at.map(Timestamp::micros),
            tags: (!row.tags.is_empty()).then(|| to_json(&row.tags)),
            detail: (row.detail != Detail::default()).then(|| to_json(&row.detail)),
            history: row.history.as_bytes().to_vec(),
            joined: row.join.as_ref().map(Join::encode),
            suspension: row.state.suspension().map(|suspension| suspension.encode()),
            held_by: match &row.state {
                State::Held(gate) => Some(gate.encode()),
                State::WaitingDependencies
                | State::Waiting
                | State::Delayed { .. }
                | State::Active(_)
                | State::Suspended(_)
                | State::Terminal(_) => None,
            },
            gate: row.state.gate().map(|gate| gate.id().0),
        }
    }

    /// Returns the rank in claim order among the executions of the same gate; none without a gate.
    pub fn gate_rank(&self) -> Option<i64> {
        self.gate.map(|_| selvedge_core::execution::rank(self.ready_order, self.claim_priority))
    }
}

/// Decodes the tags of an execution or a flow.
pub fn tags(text: Option<&str>) -> Result<BTreeMap<String, String>, String> {
    text.map_or(Ok(BTreeMap::new()), |text| from_json("tags", text))
}

/// The columns of an upstream or a child.
pub struct RelativeColumns<'a> {
    pub id: Uuid,
    pub spec: Option<&'a str>,
    pub state: i16,
    /// The size of the columns `detail` and `result`, in bytes.
    pub bytes: usize,
    /// The column `detail`; none if the two are larger than the limit of the read.
    pub detail: Option<&'a str>,
    /// The column `result`; none if the two are larger than the limit of the read.
    pub result: Option<Bytes>,
}

/// Decodes the part of an upstream or a child that a claim carries. `limit` is the limit of the read, in bytes.
pub fn relative(columns: RelativeColumns<'_>, limit: usize) -> Result<StoredRelative, String> {
    let RelativeColumns { id, spec, state, bytes, detail, result } = columns;
    #[derive(Default, Deserialize)]
    struct Named {
        node: Option<Node>,
    }
    #[derive(Default, Deserialize)]
    struct Failed {
        error: Option<Failure>,
    }
    let named: Named = spec.map_or(Ok(Named::default()), |text| from_json("spec", text))?;
    let failed: Failed = detail.map_or(Ok(Failed::default()), |text| from_json("detail", text))?;
    let outcome = StateName::from_code(state).ok_or_else(|| format!("unknown state {state}"))?.outcome();
    let relative = Relative {
        execution: ExecutionId(id),
        name: named.node.map_or_else(|| Name::trusted(ROOT), |node| node.name),
        outcome,
        error: failed.error.filter(|_| outcome.is_some()),
        result,
        left_out: outcome.is_some() && bytes > limit,
    };
    // A live execution has neither a result nor an error.
    let bytes = if outcome.is_some() { bytes } else { 0 };
    Ok(StoredRelative { relative, bytes })
}

/// Reports whether `detail` contains a cancellation request.
pub fn cancel_requested(detail: Option<&str>) -> Result<bool, String> {
    let detail: Detail = detail.map_or(Ok(Detail::default()), |text| from_json("detail", text))?;
    Ok(detail.cancel.is_some())
}

/// Encodes the detail of a session; none if it is empty.
pub fn session_detail_column(detail: &SessionDetail) -> Option<String> {
    (*detail != SessionDetail::default()).then(|| to_json(detail))
}

/// Decodes the detail of a session.
pub fn session_detail(detail: Option<&str>) -> Result<SessionDetail, String> {
    detail.map_or(Ok(SessionDetail::default()), |text| from_json("detail", text))
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("a stored column always serialises")
}

fn from_json<T: for<'a> Deserialize<'a>>(column: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| format!("column {column}: {error}"))
}

/// Decodes an execution. The error names the column that is invalid.
pub fn execution(fixed: Fixed, moving: Moving) -> Result<Execution, String> {
    let detail: Detail =
        moving.detail.as_deref().map_or(Ok(Detail::default()), |text| from_json("detail", text))?;
    let history = History::from_bytes(moving.history);
    let name = StateName::from_code(moving.state).ok_or_else(|| format!("unknown state {}", moving.state))?;
    let until = || moving.until_at.map(Timestamp::from_micros).ok_or("until_at is missing".to_owned());
    let state = match name {
        StateName::WaitingDependencies => State::WaitingDependencies,
        StateName::Waiting => State::Waiting,
        StateName::Delayed => State::Delayed { until: until()? },
        StateName::Active => {
            // Worker and instance are stored only in the history line that the claim wrote.
            let lines = history.lines().map_err(|error| format!("column history: {error}"))?;
            let (claimed, ttl_ms) = newest_claim(&lines).ok_or("history has no claim")?;
            State::Active(Lease {
                id: LeaseId(moving.lease_id.ok_or("lease_id is missing")?),
                session: SessionId(moving.session.ok_or("session is missing")?),
                claimed_at: until()?.minus_ms(ttl_ms),
                worker: claimed.worker.clone(),
                instance: claimed.instance.clone(),
                ttl_ms,
            })
        }
        StateName::Suspended => {
            let suspension = encoded("suspension", moving.suspension.as_deref(), Suspension::decode)?;
            State::Suspended(suspension.ok_or("suspension is missing")?.into())
        }
        StateName::Held => {
            let gate = encoded("held_by", moving.held_by.as_deref(), GateName::decode)?;
            State::Held(gate.ok_or("held_by is missing")?.into())
        }
        StateName::Completed
        | StateName::Failed
        | StateName::Cancelled
        | StateName::Expired
        | StateName::Skipped => State::Terminal(name.outcome().ok_or("no outcome")?),
    };
    Ok(Execution {
        id: ExecutionId(fixed.id),
        namespace: NamespaceId(fixed.namespace),
        class: ClassId(fixed.class),
        flow: fixed.flow.map(FlowId),
        submitted_at: Timestamp::from_micros(fixed.submitted_at),
        spec: match fixed.spec.as_deref() {
            None => DEFAULT_SPEC.clone(),
            Some(text) => Arc::new(from_json("spec", text)?),
        },
        tags: tags(moving.tags.as_deref())?,
        version: number("version", moving.version)?,
        state,
        priority: detail.own_priority.unwrap_or(moving.claim_priority),
        ready_order: Timestamp::from_micros(moving.ready_order),
        epoch: number("epoch", moving.epoch)?,
        started_at: moving.started_at.map(Timestamp::from_micros),
        ended_at: moving.ended_at.map(Timestamp::from_micros),
        detail,
        history,
        wiring: encoded("wiring", fixed.wiring.as_deref(), Wiring::decode)?.map(Arc::new),
        join: encoded("joined", moving.joined.as_deref(), Join::decode)?,
    })
}

fn encoded<T, E: std::fmt::Display>(
    column: &str,
    bytes: Option<&[u8]>,
    decode: impl FnOnce(&[u8]) -> Result<T, E>,
) -> Result<Option<T>, String> {
    bytes.map(decode).transpose().map_err(|error| format!("column {column}: {error}"))
}

fn number(column: &str, value: i32) -> Result<u32, String> {
    u32::try_from(value).map_err(|_| format!("column {column} is {value}"))
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowColumns {
    pub id: Uuid,
    pub namespace: i32,
    pub submitted_at: i64,
    pub name: Option<String>,
    /// `tags`, a JSON object; null if there are none.
    pub tags: Option<String>,
    /// `spec`, a JSON object.
    pub spec: String,
    pub version: i32,
    /// `state`, see [`FlowState::code`].
    pub state: i16,
    pub ended_at: Option<i64>,
    /// The end of its retention, microseconds: the value of `due_at` once its end is settled.
    pub delete_at: Option<i64>,
    /// `detail`, a JSON object; null if it equals the default.
    pub detail: Option<String>,
    /// One count for each of [`COUNTED`], in that order.
    pub counts: [i32; COUNTED.len()],
}

/// The columns of counts and the states that they count, live states first.
pub const COUNTED: [(&str, StateName); 11] = [
    ("waiting_dependencies", StateName::WaitingDependencies),
    ("waiting", StateName::Waiting),
    ("delayed", StateName::Delayed),
    ("active", StateName::Active),
    ("suspended", StateName::Suspended),
    ("held", StateName::Held),
    ("completed", StateName::Completed),
    ("failed", StateName::Failed),
    ("cancelled", StateName::Cancelled),
    ("expired", StateName::Expired),
    ("skipped", StateName::Skipped),
];

/// Returns the counts, one for each of [`COUNTED`].
pub fn counts(counts: &Counts) -> [i32; COUNTED.len()] {
    COUNTED.map(|(_, state)| counts.of(state))
}

impl FlowColumns {
    pub fn of(flow: &Flow) -> FlowColumns {
        FlowColumns {
            id: flow.id.0,
            namespace: flow.namespace.0,
            submitted_at: flow.submitted_at.micros(),
            name: flow.name.as_ref().map(Name::to_string),
            tags: (!flow.tags.is_empty()).then(|| to_json(&flow.tags)),
            spec: to_json(&flow.spec),
            version: flow.version as i32,
            state: flow.state.code(),
            ended_at: flow.ended_at.map(Timestamp::micros),
            delete_at: flow.delete_at().map(Timestamp::micros),
            detail: (flow.detail != FlowDetail::default()).then(|| to_json(&flow.detail)),
            counts: counts(&flow.counts),
        }
    }

    /// Decodes the flow. The error names the column that is invalid.
    pub fn flow(self) -> Result<Flow, String> {
        let mut counts = Counts::default();
        for ((_, state), count) in COUNTED.into_iter().zip(self.counts) {
            counts.add(state, count);
        }
        let spec: FlowSpec = from_json("spec", &self.spec)?;
        Ok(Flow {
            id: FlowId(self.id),
            namespace: NamespaceId(self.namespace),
            submitted_at: Timestamp::from_micros(self.submitted_at),
            name: self.name.as_deref().map(Name::trusted),
            tags: tags(self.tags.as_deref())?,
            spec,
            version: number("version", self.version)?,
            state: FlowState::from_code(self.state).ok_or_else(|| format!("unknown state {}", self.state))?,
            ended_at: self.ended_at.map(Timestamp::from_micros),
            detail: self
                .detail
                .as_deref()
                .map_or(Ok(FlowDetail::default()), |text| from_json("detail", text))?,
            counts,
        })
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleColumns {
    pub namespace: i32,
    pub name: String,
    pub version: i32,
    pub spec_version: i32,
    /// `spec`, a JSON object; none if it is not written.
    pub spec: Option<String>,
    /// `state`, a JSON object.
    pub state: String,
    pub due_at: Option<i64>,
}

impl ScheduleColumns {
    /// Returns the columns of a schedule. `expected` is the version that the store has; none for a new schedule.
    pub fn of(row: &Schedule, expected: Option<u32>) -> ScheduleColumns {
        let is_new = expected.is_none_or(|expected| row.spec_version > expected);
        ScheduleColumns {
            namespace: row.name.namespace.0,
            name: row.name.name.to_string(),
            version: row.version as i32,
            spec_version: row.spec_version as i32,
            spec: is_new.then(|| to_json(&*row.spec)),
            state: to_json(&row.state),
            due_at: row.due_at.map(Timestamp::micros),
        }
    }

    /// Decodes the schedule. The error names the column that is invalid.
    pub fn schedule(self) -> Result<Schedule, String> {
        let spec: ScheduleSpec = from_json("spec", &self.spec.ok_or("spec is missing")?)?;
        Ok(Schedule {
            name: ScheduleName { namespace: NamespaceId(self.namespace), name: Name::trusted(&self.name) },
            version: number("version", self.version)?,
            spec_version: number("spec_version", self.spec_version)?,
            spec: Arc::new(spec),
            state: from_json("state", &self.state)?,
            due_at: self.due_at.map(Timestamp::from_micros),
        })
    }
}
