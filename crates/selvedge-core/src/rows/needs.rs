//! The rows that a decision needs: requests by key, and queries.

use crate::driver::Stage;
use crate::execution::ClaimOrder;
use crate::gate::{GateId, GateName};
use crate::rows::{Needs, inline_limit};
use crate::{ClassId, ExecutionId, FlowId, Name, NamespaceId};

impl Needs {
    /// Returns the size up to which the inputs of candidates and of [`inputs`](Needs::inputs) are read, in bytes.
    pub fn inline_inputs(&self) -> usize {
        let candidates: usize = self.queries.candidates.iter().map(|asked| asked.limit as usize).sum();
        inline_limit(candidates.saturating_add(self.inputs.len()))
    }

    /// Returns the size up to which the results and errors of [`relatives`](Needs::relatives) are read, in bytes.
    pub fn inline_relatives(&self) -> usize {
        inline_limit(self.relatives.len())
    }

    /// Reports whether sessions are locked: by id, or all of an instance.
    pub fn locks_sessions(&self) -> bool {
        self.sessions.has_locks() || !self.queries.instances.is_empty()
    }
}

/// Queries for rows that are not found by their key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queries {
    /// Members of flows, read without locks.
    pub members: Vec<Members>,
    /// Waiting executions to lock, skipping those that another transaction has locked.
    pub candidates: Vec<Candidates>,
    /// Executions to exclude from the candidates.
    pub except: Vec<ExecutionId>,
    /// Gates that refuse many of the first candidates. For each query for candidates, a store also locks the first
    /// executions whose specification names none of these gates, among the first [`PASSED_MAX`]. They may be found behind
    /// thousands that the gates refuse, and it would take many transactions to hold those. A store may leave out others
    /// that have the same text: nothing depends on this search, because claims hold what a gate refuses.
    pub refusing: Vec<GateName>,
    /// Executions that gates hold, to lock, skipping those that another transaction has locked.
    pub held: Vec<HeldBy>,
    /// Executions of which to read all steps and signals, with their payloads.
    pub records: Vec<ExecutionId>,
    /// Executions of which to read the signals that no suspension has taken, without payloads.
    pub untaken: Vec<ExecutionId>,
    /// Signals to read by the keys of their senders, without payloads.
    pub signal_keys: Vec<(ExecutionId, Name)>,
    /// Executions whose waitpoints to read.
    pub waitpoints: Vec<ExecutionId>,
    /// Worker instances of which to lock the sessions and then read the leases.
    pub instances: Vec<(NamespaceId, Name)>,
    /// Read all token keys.
    pub token_keys: bool,
    /// Read the classes that were interned after this one.
    pub classes_after: Option<ClassId>,
}

impl Queries {
    /// Reports whether there is no query.
    pub fn is_empty(&self) -> bool {
        let Queries {
            members,
            candidates,
            except,
            refusing: _,
            held,
            records,
            untaken,
            signal_keys,
            waitpoints,
            instances,
            token_keys,
            classes_after,
        } = self;
        members.is_empty()
            && candidates.is_empty()
            && except.is_empty()
            && held.is_empty()
            && records.is_empty()
            && untaken.is_empty()
            && signal_keys.is_empty()
            && waitpoints.is_empty()
            && instances.is_empty()
            && !token_keys
            && classes_after.is_none()
    }

    /// Returns the stages at which queries lock rows.
    pub(crate) fn locked_stages(&self) -> impl Iterator<Item = Stage> {
        let stages = [
            (!self.candidates.is_empty(), Stage::Candidates),
            (!self.held.is_empty(), Stage::Held),
            (!self.instances.is_empty(), Stage::Sessions),
        ];
        stages.into_iter().filter(|(locks, _)| *locks).map(|(_, stage)| stage)
    }

    /// Drops the queries that lock rows.
    pub(crate) fn drop_locks(&mut self) {
        self.candidates.clear();
        self.except.clear();
        self.held.clear();
        self.instances.clear();
    }

    /// Drops the queries that `loaded` contains, and adds the rest to it.
    pub(crate) fn only_new(&mut self, loaded: &mut Queries) {
        fn retain_new<T: Clone + Ord>(wanted: &mut Vec<T>, loaded: &mut Vec<T>) {
            wanted.sort_unstable();
            wanted.dedup();
            if !loaded.is_empty() {
                wanted.retain(|one| loaded.binary_search(one).is_err());
            }
            if !wanted.is_empty() {
                loaded.extend(wanted.iter().cloned());
                loaded.sort_unstable();
            }
        }
        let Queries {
            members,
            candidates: _,
            except: _,
            refusing: _,
            held,
            records,
            untaken,
            signal_keys,
            waitpoints,
            instances,
            token_keys,
            classes_after,
        } = self;
        retain_new(members, &mut loaded.members);
        retain_new(held, &mut loaded.held);
        retain_new(records, &mut loaded.records);
        retain_new(untaken, &mut loaded.untaken);
        retain_new(signal_keys, &mut loaded.signal_keys);
        retain_new(waitpoints, &mut loaded.waitpoints);
        retain_new(instances, &mut loaded.instances);
        *token_keys &= !loaded.token_keys;
        loaded.token_keys |= *token_keys;
        // Classes are read after every row of the same load, so once is enough.
        *classes_after = classes_after.filter(|_| loaded.classes_after.is_none());
        loaded.classes_after = loaded.classes_after.or(*classes_after);
    }
}

/// A query for a page of the members of a flow, ordered by time of submission, then by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Members {
    pub flow: FlowId,
    /// Number of members to skip.
    pub skip: u32,
    /// Maximum number of members to return.
    pub limit: u32,
}

/// The maximum number of waiting executions of a class and priority among which a store looks for some that name no refusing
/// gate.
pub const PASSED_MAX: u32 = 20_000;

/// Returns the text by which a stored specification names a gate.
pub fn mention(gate: &GateName) -> String {
    serde_json::to_string(gate.name.as_str()).unwrap_or_default()
}

/// A query for the first waiting executions of some classes, in claim order.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidates {
    /// The classes, in id order.
    pub classes: Vec<ClassId>,
    /// Maximum number of executions to return.
    pub limit: u32,
}

/// A query for the first executions that a gate holds, in claim order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeldBy {
    pub gate: GateId,
    /// Maximum number of executions to return.
    pub limit: u32,
    /// Return only executions behind this position in the claim order. Default: from the first on.
    pub after: Option<ClaimOrder>,
}

impl HeldBy {
    /// Returns a query for the first executions that a gate holds.
    pub fn first(gate: GateId, limit: u32) -> Self {
        HeldBy { gate, limit, after: None }
    }
}
