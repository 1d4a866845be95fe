//! The rows around one execution. They are served to the transaction driver, which runs a command on them.

use super::gated::{gate_rows, held_by, limited_lane};
use super::record::{CHILD, signals_of, token_keys, waitpoints_of};
use super::rows::{
    CLASS, FLOW, ID, NAMESPACE, NODE, PARENT, UPSTREAMS, child, flow, now, parent, session, upstream,
};
use super::{Command, Row, outbox_row};
use bytes::Bytes;
use selvedge_core::GateId;
use selvedge_core::driver::{Alone, Demand, Driver};
use selvedge_core::flow::FlowCancel;
use selvedge_core::rows::{KeyName, KeyRow, KeySubject, Relative, StoredRelative};
use selvedge_core::rule::Queued;
use selvedge_core::table::Access;
use selvedge_core::{Changes, Class, Execution, ExecutionId, Flow, Name, Needs, Rows, Rule, State};
use std::collections::BTreeSet;

/// An execution, or none, and the command to run on it. Together they determine every other row.
pub struct Scene<'a> {
    pub row: &'a Row,
    pub command: &'a Command,
}

impl Scene<'_> {
    /// Runs a rule. Returns its reply and its changes.
    pub fn run<R: Rule>(&self, rule: R) -> (R::Reply, Changes) {
        let mut driver = Driver::new(Alone::default(), vec![Queued::new(rule)]);
        let mut needs = driver.begin(0);
        loop {
            match driver.next(self.rows(&needs)) {
                Demand::Load(more) => needs = more,
                Demand::Save(changes) => {
                    let reply = driver.take_tasks().0.pop().and_then(Queued::into_reply);
                    return (reply.expect("a rule that runs alone is decided"), *changes);
                }
                Demand::Abort(why) => panic!("{:?} on {:?}: {why}", self.command, self.row),
            }
        }
    }

    /// Returns the rows that a load requests.
    fn rows(&self, needs: &Needs) -> Rows {
        let mut rows = Rows { now: now(), ..Rows::default() };
        let mut asked: BTreeSet<ExecutionId> = BTreeSet::new();
        asked.extend(needs.executions.returned());
        for candidates in &needs.queries.candidates {
            let ready = self.row.iter().filter(|row| row.state == State::Waiting);
            let found = ready.filter(|row| candidates.classes.contains(&row.class));
            rows.found
                .candidates
                .extend(found.map(|row| row.id).filter(|id| !needs.queries.except.contains(id)));
        }
        for held in &needs.queries.held {
            let waits = self.row.iter().filter(|row| held_by(row) == Some(held.gate));
            rows.found.held.push((*held, waits.map(|row| row.id).collect()));
        }
        for members in &needs.queries.members {
            let member = self.member().filter(|_| members.flow == FLOW && members.skip == 0);
            rows.found.members.push((*members, member.map(|row| row.id).into_iter().collect()));
        }
        asked.extend(&rows.found.candidates);
        asked.extend(rows.found.held.iter().flat_map(|(_, held)| held));
        asked.extend(rows.found.members.iter().flat_map(|(_, members)| members));
        rows.executions.extend(asked.iter().filter_map(|id| self.execution(*id)));
        let inputs = rows.found.candidates.iter().chain(needs.inputs.keys());
        rows.inputs.extend(inputs.map(|id| (*id, Bytes::from_static(b"null").into())));
        rows.relatives.extend(needs.relatives.keys().map(|id| StoredRelative::whole(self.relative(*id))));
        let gates: Vec<GateId> =
            needs.lanes.keys().chain(needs.gates.keys()).chain(needs.parts.keys()).copied().collect();
        if matches!(self.command, Command::Adopt) {
            rows.gates.extend(Some(limited_lane()).filter(|lane| gates.contains(&lane.id())));
        }
        rows.gates.extend(gate_rows().iter().filter(|gate| gates.contains(&gate.id())).cloned());
        rows.outbox.extend(
            outbox_row(self.command).filter(|row| needs.outbox.with(Access::Lock).contains(&row.name)),
        );
        let quiet = self.row.iter().filter_map(|row| {
            let name = KeyName::of_debounce(NAMESPACE, row.spec.debounce.as_ref()?);
            let subject = Some(KeySubject::Execution(row.id));
            Some(KeyRow { name, subject, digest: 1, answer: Bytes::new(), expires_at: None })
        });
        rows.keys.extend(quiet.filter(|key| needs.keys.keys().any(|name| *name == key.name)));
        let flows = needs.flows.keys();
        rows.flows.extend(flows.filter(|id| **id == FLOW).map(|_| self.flow()));
        for (flow, name) in needs.nodes.keys().filter(|(flow, name)| *flow == FLOW && name.as_str() == NODE) {
            rows.nodes.extend(self.member().map(|row| (*flow, name.clone(), row.id)));
        }
        let sessions = needs.sessions.keys();
        rows.sessions.extend(sessions.filter(|id| **id == session().id).map(|_| session()));
        rows.found
            .classes
            .extend(needs.queries.classes_after.filter(|after| *after < CLASS).map(|_| (CLASS, class())));
        self.add_recorded(needs, &mut rows);
        rows
    }

    /// Adds the signals, waitpoints and token keys. No step is recorded.
    fn add_recorded(&self, needs: &Needs, rows: &mut Rows) {
        rows.found.records.extend(&needs.queries.records);
        if needs.queries.records.contains(&ID) || needs.queries.untaken.contains(&ID) {
            rows.signals.extend(self.row.iter().flat_map(signals_of));
        }
        if needs.queries.waitpoints.contains(&ID) {
            rows.waitpoints.extend(self.row.iter().flat_map(waitpoints_of));
        }
        if needs.queries.token_keys {
            rows.token_keys.extend(token_keys());
        }
    }

    /// Returns the row if it is a member of the flow.
    fn member(&self) -> Option<&Execution> {
        self.row.as_ref().filter(|row| row.flow == Some(FLOW))
    }

    fn execution(&self, id: ExecutionId) -> Option<Execution> {
        match self.command {
            Command::Dispatch(index, generation, outcome) if id == UPSTREAMS[*index] => {
                Some(upstream(*index, *generation, *outcome))
            }
            Command::DispatchToParent(outcome) if id == CHILD => Some(child(*outcome)),
            Command::UpdateParent if id == PARENT => Some(parent()),
            _ if id == CHILD && self.row.as_ref().is_some_and(is_parent) => Some(child(None)),
            _ => self.row.clone().filter(|row| row.id == id),
        }
    }

    /// Returns an upstream or a child as a claim sees it.
    fn relative(&self, execution: ExecutionId) -> Relative {
        let (name, left_out) = (Name::trusted("relative"), false);
        Relative { execution, name, outcome: None, error: None, result: None, left_out }
    }

    /// Returns the flow. For a command that cancels its members, the flow is cancelled.
    fn flow(&self) -> Flow {
        let mut flow = flow();
        if let Command::CancelMembers(mode) = self.command {
            let actor = Name::trusted("operator");
            flow.detail.cancel = Some(FlowCancel { mode: *mode, actor, reason: None, draining: true });
        }
        flow
    }
}

fn is_parent(row: &Execution) -> bool {
    !row.wiring().children.is_empty()
}

/// Returns the class of every row.
fn class() -> Class {
    let [lane, kind] = ["default", "kind"].map(Name::trusted);
    Class { namespace: NAMESPACE, lane, kind, capabilities: Default::default(), pool: None }
}
