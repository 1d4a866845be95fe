//! A whole graph is submitted: all of it or nothing, and once for its id and its key.

use super::CallKey;
use super::graft::{Graft, PlannedGraph};
use super::submit::check_lane;
use crate::fact::Fact;
use crate::flow::{Counts, Flow, FlowDetail, FlowSpec, FlowState};
use crate::name::{KEY_LIMIT, NAME_LIMIT};
use crate::plan::{GraphDraft, GraphPlan, GraphTarget};
use crate::policy::DEFAULT_IDEMPOTENCY_WINDOW_MS;
use crate::rows::{KeyName, KeyRow, KeyScope, Needs};
use crate::rule::{Phase, Profile, Rule};
use crate::submission::{check_duration, check_tags};
use crate::{ExecutionId, FlowId, Name, NamespaceId, Refusal, Work};
use bytes::Bytes;
use std::collections::BTreeMap;
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3;

/// A flow as a caller asked for it, not yet checked.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FlowDraft {
    /// The caller's id, for a submission that is safe to repeat.
    pub id: Option<Uuid>,
    /// A second submission with it is the first.
    pub idempotency_key: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Names and values to find it by.
    pub tags: BTreeMap<String, String>,
    /// Longest it may live.
    pub deadline_ms: Option<i64>,
    /// How long it stays after its end; the longest of its nodes', by default.
    pub retention_ms: Option<i64>,
    /// Its nodes, edges and groups.
    pub graph: GraphDraft,
}

/// A flow that was found valid. Only [`FlowDraft::check`] makes one.
#[derive(Clone, Debug)]
pub struct FlowSubmission {
    id: Option<FlowId>,
    key: Option<Name>,
    name: Option<Name>,
    tags: BTreeMap<String, String>,
    deadline_ms: Option<i64>,
    retention_ms: i64,
    digest: u64,
}

impl FlowDraft {
    /// Checks every field; the first wrong one is named.
    pub fn check(self) -> Result<(FlowSubmission, GraphPlan), Refusal> {
        let key = self.idempotency_key.as_deref().map(|key| Name::parse("/idempotency_key", key, KEY_LIMIT));
        let name = self.name.as_deref().map(|name| Name::parse("/name", name, NAME_LIMIT));
        let (key, name) = (key.transpose()?, name.transpose()?);
        for (pointer, ms) in [("/deadline_ms", self.deadline_ms), ("/retention_ms", self.retention_ms)] {
            ms.map_or(Ok(()), |ms| check_duration(pointer, ms))?;
        }
        let tags = check_tags("/tags", self.tags)?;
        let plan = self.graph.check(GraphTarget::NewFlow)?;
        let longest = plan.nodes().iter().map(|node| node.submission.policy.retention_ms).max();
        let mut hasher = Xxh3::new();
        let rest =
            (&self.name, &self.idempotency_key, &tags, self.deadline_ms, self.retention_ms, plan.digest());
        hasher.update(&postcard::to_stdvec(&rest).unwrap_or_default());
        let submission = FlowSubmission {
            id: self.id.map(FlowId),
            key,
            name,
            tags,
            deadline_ms: self.deadline_ms,
            retention_ms: self.retention_ms.or(longest).unwrap_or_default(),
            digest: hasher.digest(),
        };
        Ok((submission, plan))
    }
}

impl FlowSubmission {
    /// The caller's id, if it gave one.
    pub fn id(&self) -> Option<FlowId> {
        self.id
    }
}

/// Submit a flow.
#[derive(Clone, Debug)]
pub struct SubmitFlow {
    /// For whom.
    pub namespace: NamespaceId,
    /// Its id: the caller's, or one that the engine minted.
    pub id: FlowId,
    /// What.
    pub submission: FlowSubmission,
    /// Its nodes.
    pub planned: PlannedGraph,
    /// The caller's key for the call.
    pub call_key: Option<CallKey>,
    /// Whether the same call was made before and its answer was lost.
    pub repeated: bool,
}

/// An accepted flow.
#[derive(Clone, Debug)]
pub struct FlowSubmitted {
    /// The flow.
    pub flow: Flow,
    /// Whether it was there before.
    pub duplicate: bool,
}

impl Rule for SubmitFlow {
    type Reply = Result<FlowSubmitted, Refusal>;
    const PHASE: Phase = Phase::Submissions;

    fn profile(&self) -> Profile {
        let makes_ready = self.planned.roots().collect();
        Profile { makes_ready, ..Profile::weighing(self.planned.ids.len()) }
    }

    /// The keys, the flows they stand for, and the ids that the caller chose. Ids that the engine minted are looked up only
    /// when the call may have committed before.
    fn needs(&self, work: &Work, needs: &mut Needs) {
        if self.submission.id.is_some() || self.may_have_committed(work) {
            needs.flows.read([self.id]);
        }
        needs.executions.lock(self.submission.id.map(|id| ExecutionId(id.0)));
        needs.keys.read(self.key());
        needs.keys.read(self.call_key.as_ref().map(|call_key| call_key.key_name(self.namespace)));
        needs.executions.lock(self.planned.plan.ids().flatten());
        self.planned.needs(self.namespace, work, needs);
        let by_key = self.key().and_then(|key| work.key(&key)?.execution);
        needs.flows.read(by_key.map(|id| FlowId(id.0)));
        let stored = self.call_key.as_ref().map(|one| one.stored::<FlowId>(self.namespace, work));
        needs.flows.read(stored.and_then(Result::ok).flatten());
    }

    fn decide(&self, work: &mut Work) -> Self::Reply {
        if let Some(call_key) = &self.call_key
            && let Some(id) = call_key.stored::<FlowId>(self.namespace, work)?
        {
            let flow = work.flow(self.namespace, id)?.clone();
            return Ok(FlowSubmitted { flow, duplicate: true });
        }
        let submitted = self.decide_new(work)?;
        if let Some(call_key) = &self.call_key {
            call_key.store(self.namespace, &submitted.flow.id, work);
        }
        Ok(submitted)
    }
}

impl SubmitFlow {
    fn key(&self) -> Option<KeyName> {
        let (namespace, scope) = (self.namespace, KeyScope::Flow);
        self.submission.key.clone().map(|key| KeyName { namespace, scope, key })
    }

    /// Whether this very call may have committed before without its answer arriving.
    fn may_have_committed(&self, work: &Work) -> bool {
        self.repeated || work.is_repeated()
    }

    fn decide_new(&self, work: &mut Work) -> Result<FlowSubmitted, Refusal> {
        let minted = self.submission.id.is_none();
        if let Some(flow) = work.find_flow(self.id) {
            if flow.namespace == self.namespace && flow.spec.digest == self.submission.digest {
                return Ok(FlowSubmitted {
                    flow: flow.clone(),
                    duplicate: !(minted && self.may_have_committed(work)),
                });
            }
            return Err(Refusal::IdempotencyMismatch {
                pointer: "/id".into(),
                detail: "is in use for a flow with other content; use a new id".into(),
            });
        }
        if let Some(flow) = self.first_with_key(work)? {
            return Ok(FlowSubmitted { flow, duplicate: true });
        }
        if self.submission.id.is_some() && matches!(work.find(ExecutionId(self.id.0)), Ok(Some(_)) | Err(_)) {
            return Err(Refusal::IdempotencyMismatch {
                pointer: "/id".into(),
                detail: "is in use for an execution, which is its own flow; use a new id".into(),
            });
        }
        for (index, id) in self.planned.plan.ids().enumerate() {
            if let Some(id) = id.filter(|id| matches!(work.find(*id), Ok(Some(_)) | Err(_))) {
                return Err(Refusal::IdempotencyMismatch {
                    pointer: format!("/nodes/{index}/id"),
                    detail: format!("is in use for execution {id}, which is not of this flow; use a new id"),
                });
            }
        }
        for node in self.planned.plan.nodes() {
            check_lane(self.namespace, &node.submission, work)?;
        }
        self.create(work)
    }

    /// The flow that the submission's key already stands for.
    fn first_with_key(&self, work: &Work) -> Result<Option<Flow>, Refusal> {
        let Some(key) = self.key().and_then(|name| work.key(&name)) else { return Ok(None) };
        let Some(flow) = key.execution.and_then(|id| work.find_flow(FlowId(id.0))) else { return Ok(None) };
        let stands = !flow.has_ended() || flow.spec.kept_until.is_some_and(|until| work.now() < until);
        if !stands {
            return Ok(None);
        }
        if key.digest != self.submission.digest {
            return Err(Refusal::IdempotencyMismatch {
                pointer: "/idempotency_key".into(),
                detail: format!("stands for flow {} with other content; use a new key for new work", flow.id),
            });
        }
        Ok(Some(flow.clone()))
    }

    fn create(&self, work: &mut Work) -> Result<FlowSubmitted, Refusal> {
        let now = work.now();
        let one = &self.submission;
        let deadline_at = one.deadline_ms.map(|ms| now.plus_ms(ms));
        let (parent, there) = (None, &[][..]);
        let graft = Graft {
            namespace: self.namespace,
            flow: self.id,
            planned: &self.planned,
            old: &[],
            parent,
            there,
            deadline_at,
        };
        let depths = graft.check(work)?;
        let flow = Flow {
            id: self.id,
            namespace: self.namespace,
            submitted_at: now,
            name: one.name.clone(),
            tags: one.tags.clone(),
            spec: FlowSpec {
                deadline_at,
                retention_ms: one.retention_ms,
                idempotency_key: one.key.clone(),
                kept_until: one.key.as_ref().map(|_| now.plus_ms(DEFAULT_IDEMPOTENCY_WINDOW_MS)),
                digest: one.digest,
            },
            version: 1,
            state: FlowState::Running,
            ended_at: None,
            detail: FlowDetail::default(),
            counts: Counts::default(),
        };
        let plan = &self.planned.plan;
        let (nodes, edges) = (plan.nodes().len() as u32, plan.edges().len() as u32);
        work.insert_flow(flow.clone(), Fact::FlowSubmitted { name: one.name.clone(), nodes, edges });
        if let Some(name) = self.key() {
            let (execution, answer) = (Some(ExecutionId(self.id.0)), Bytes::new());
            work.put_key(KeyRow { name, execution, digest: one.digest, answer, expires_at: None });
        }
        graft.add(&depths, work);
        let counts = work.counts(&flow);
        Ok(FlowSubmitted { flow: Flow { counts, ..flow }, duplicate: false })
    }
}
