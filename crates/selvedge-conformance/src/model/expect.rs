//! Each command of the model made out: whom it names, the command of core that it is, and the answer that is expected.

use super::command::{Action, Command, Content, Expect, Op, Sent, Spoil};
use super::drive::Drive;
use super::recorded::{Made, Token};
use super::reference::{Answer, Known};
use super::rules::{self, Shared};
use crate::harness::mint;
use crate::signal_harness::secret;
use selvedge_core::rules::clock::{Tick, What};
use selvedge_core::rules::operator::{self, Operate};
use selvedge_core::rules::report::Fence;
use selvedge_core::rules::signal::{SignalDraft, Way};
use selvedge_core::rules::waitpoint::Rotate;
use selvedge_core::rules::worker::{Drain, PutBack, PutBackReason};
use selvedge_core::state::StateName;
use selvedge_core::{ExecutionId, LeaseId, Name, WaitpointId};
use uuid::Uuid;

/// The one at `index`, counted from the newest and round again.
pub fn newest<T: Copy>(items: &[T], index: usize) -> Option<T> {
    let back = index.checked_rem(items.len())?;
    items.get(items.len() - 1 - back).copied()
}

/// The same of what is not copied.
fn newest_of<T>(items: &[T], index: usize) -> Option<&T> {
    let back = index.checked_rem(items.len())?;
    items.get(items.len() - 1 - back)
}

/// A worker's instance.
pub fn instance(worker: usize) -> String {
    format!("instance{worker}")
}

impl Drive<'_> {
    fn execution(&self, index: usize) -> ExecutionId {
        newest(&self.submitted, index).unwrap_or(ExecutionId(Uuid::nil()))
    }

    /// An execution: for three of four indices one that is `likely` to be acted on, else any.
    fn likely(&self, index: usize, likely: impl Fn(&Known) -> bool) -> ExecutionId {
        let known = |id: &&ExecutionId| self.reference.executions.get(id).is_some_and(&likely);
        let chosen: Vec<ExecutionId> = self.submitted.iter().filter(known).copied().collect();
        match index % 4 {
            0 => self.execution(index / 4),
            _ => newest(&chosen, index / 4).unwrap_or_else(|| self.execution(index / 4)),
        }
    }

    /// A lease: for three of four indices one that is live, else any.
    fn lease(&self, index: usize) -> Fence {
        let live = |fence: &&Fence| {
            let known = self.reference.executions.get(&fence.execution);
            known.is_some_and(|known| known.holds(fence))
        };
        let live: Vec<Fence> = self.leases.iter().filter(live).copied().collect();
        let chosen = match index % 4 {
            0 => newest(&self.leases, index / 4),
            _ => newest(&live, index / 4).or(newest(&self.leases, index / 4)),
        };
        chosen.unwrap_or(Fence {
            execution: self.execution(index),
            attempt: 0,
            lease_id: LeaseId(Uuid::nil()),
            epoch: 1,
        })
    }

    pub(super) fn put_back(&self, fence: Fence, orphaned: bool) -> Shared {
        Shared::PutBack(PutBack {
            namespace: self.harness.namespace,
            fence,
            why: if orphaned { PutBackReason::Orphaned } else { PutBackReason::Gone },
        })
    }

    /// The command for the store, and the answer that the model gives.
    pub(super) async fn expect(&mut self, command: &Command) -> (Shared, Answer) {
        match command {
            Command::Submit { id, content } => {
                let given = id.map(|id| Uuid::from_u128(u128::from(id) + 1));
                self.submit(given, content.clone()).await
            }
            Command::SubmitAgain { earlier, same_id } => {
                let back = earlier.checked_rem(self.submissions.len());
                match back.and_then(|back| self.submissions.iter().rev().nth(back)).cloned() {
                    Some((given, content)) => self.submit(given.filter(|_| *same_id), content).await,
                    None => {
                        let tick = Tick { execution: self.execution(0), what: What::Lapse };
                        (Shared::Tick(tick), Answer::Lost)
                    }
                }
            }
            Command::Report { lease, spoil, op_id, op } => {
                let mut fence = self.lease(*lease);
                match spoil {
                    Spoil::Nothing => {}
                    Spoil::Epoch => fence.epoch += 1,
                    Spoil::Attempt => fence.attempt += 1,
                    Spoil::Lease => fence.lease_id = LeaseId(Uuid::max()),
                    Spoil::Execution => fence.execution = ExecutionId(Uuid::max()),
                }
                self.report(fence, *op_id, op.clone())
            }
            Command::Repeat { report } => {
                let back = report.checked_rem(self.reports.len());
                let (fence, op_id, op) = match back.and_then(|back| self.reports.iter().rev().nth(back)) {
                    Some(report) => report.clone(),
                    None => (self.lease(0), None, Op::Release),
                };
                self.report(fence, op_id, op)
            }
            Command::PutBack { lease, orphaned } => {
                let fence = self.lease(*lease);
                (self.put_back(fence, *orphaned), self.reference.put_back(&fence))
            }
            Command::Operate { execution, action, expect } => {
                let id = match action {
                    Action::Resume => self.likely(*execution, Known::is_suspended),
                    Action::RevokeWaitpoint(_) => {
                        self.likely(*execution, |known| known.record.waitpoints.iter().any(Made::is_open))
                    }
                    _ => self.execution(*execution),
                };
                let version = self.reference.executions.get(&id).map_or(0, |known| known.version);
                let mut operate = self.harness.operate_command(id, rules::action(action));
                let action = &self.chosen(id, action, &mut operate);
                operate.if_version = match expect {
                    Expect::Any => None,
                    Expect::Current => Some(version),
                    Expect::Another => Some(version + 1),
                };
                (Shared::Operate(operate), self.reference.operate(id, action, *expect))
            }
            Command::Lapse { execution } => {
                let execution = self.likely(*execution, |known| known.place.name() == StateName::Active);
                let tick = Tick { execution, what: What::Lapse };
                (Shared::Tick(tick), self.reference.lapse(execution))
            }
            Command::Due { execution, kind } => {
                let now = self.reference.now;
                let turn = |known: &Known| known.next_due().is_some_and(|(at, of)| of == *kind && at <= now);
                let execution = self.likely(*execution, turn);
                let tick = Tick { execution, what: What::Due(*kind) };
                (Shared::Tick(tick), self.reference.due(execution, *kind))
            }
            Command::Signal { execution, source, sent } => {
                let id = self.likely(*execution, Known::is_suspended);
                let draft = self.draft(*sent, true);
                let deliver = self.harness.signal_command(id, draft, &rules::word(*source));
                (Shared::Deliver(deliver), self.reference.signal(id, *source, *sent))
            }
            Command::Deliver { token, altered, named, sent } => self.deliver(*token, *altered, *named, *sent),
            Command::Rotate { grace_ms } => {
                let (namespace, actor) = (self.harness.namespace, Name::trusted("operator"));
                let fingerprint = secret(1).fingerprint();
                let rotate = Rotate { namespace, grace_ms: *grace_ms, fingerprint, actor };
                (Shared::Rotate(rotate), self.reference.rotate(*grace_ms))
            }
            Command::Drain { worker } => {
                let drain = Drain {
                    namespace: self.harness.namespace,
                    instance: Name::trusted(&instance(*worker)),
                    actor: Name::trusted("operator"),
                };
                (Shared::Drain(drain), self.reference.drain(*worker))
            }
        }
    }

    /// Puts the waitpoint that an action is about in its place: one of the execution's, or none that there is.
    fn chosen(&self, id: ExecutionId, action: &Action, operate: &mut Operate) -> Action {
        let Action::RevokeWaitpoint(index) = action else { return action.clone() };
        let known = self.reference.executions.get(&id).map_or(&[][..], |known| &known.record.waitpoints);
        let place = index.checked_rem(known.len() + 1).unwrap_or_default();
        let waitpoint = known.get(place).and_then(|one| one.id).unwrap_or(WaitpointId(Uuid::nil()));
        operate.action = operator::Action::RevokeWaitpoint { waitpoint };
        Action::RevokeWaitpoint(place)
    }

    fn draft(&self, sent: Sent, named: bool) -> SignalDraft {
        SignalDraft {
            name: named.then(|| rules::word(sent.name)),
            payload: rules::payload(sent.payload),
            key: sent.key.map(rules::word),
        }
    }

    fn deliver(&mut self, index: usize, altered: bool, named: bool, sent: Sent) -> (Shared, Answer) {
        let Some((waitpoint, key, text)) = newest_of(&self.tokens, index) else {
            let tick = Tick { execution: ExecutionId(Uuid::nil()), what: What::Lapse };
            return (Shared::Tick(tick), Answer::Lost);
        };
        let (execution, waitpoint, key) = (waitpoint.execution, waitpoint.id, *key);
        let token = if altered { format!("{text}A") } else { text.clone() };
        let way = Way::Token { waitpoint, token, secret: secret(1) };
        let deliver = self.draft(sent, named).check(execution, way).expect("it is well formed");
        let token = Token { execution, waitpoint, key, altered };
        (Shared::Deliver(deliver), self.reference.deliver(token, named, sent))
    }

    async fn submit(&mut self, given: Option<Uuid>, content: Content) -> (Shared, Answer) {
        let mut submit = self.harness.submit_command(vec![rules::draft(given, &content)]).await;
        let id = given.map_or_else(mint, ExecutionId);
        submit.items[0].id = id;
        if !self.submitted.contains(&id) {
            self.submitted.push(id);
        }
        let answer = self.reference.submit(id, &content);
        self.submissions.push((given, content));
        (Shared::Submit(submit), answer)
    }

    fn report(&mut self, fence: Fence, op_id: Option<u8>, op: Op) -> (Shared, Answer) {
        let mut report = self.harness.report_command(fence, rules::op(&op));
        report.op_id = op_id.map(rules::word);
        let answer = self.reference.report(&fence, op_id, &op);
        self.reports.push((fence, op_id, op));
        (Shared::Report(report), answer)
    }
}
