//! Resolves each command of the model: chooses the rows that it names, converts it to a command of core, and asks the
//! model for the expected reply.

use super::command::{
    Content, ExpectedVersion, FenceDefect, ModelCommand, OperatorAction, ReportSpec, SignalSpec,
};
use super::convert::{self, CoreCommand};
use super::lockstep::Lockstep;
use super::records::{ModelWaitpoint, PresentedToken};
use super::reference::{Answer, ModelExecution};
use crate::harness::new_id;
use crate::harness::signals::secret;
use selvedge_core::rules::operator::{self, Operate};
use selvedge_core::rules::report::Fence;
use selvedge_core::rules::signal::{SignalDraft, SignalSender};
use selvedge_core::rules::timer::{FireTimer, Timer};
use selvedge_core::rules::waitpoint::RotateTokenKeys;
use selvedge_core::rules::worker::{Drain, PutBack, PutBackReason};
use selvedge_core::state::StateName;
use selvedge_core::{ExecutionId, LeaseId, Name, WaitpointId};
use uuid::Uuid;

/// Returns the item at `index`, counted from the newest and wrapping around.
pub fn newest<T: Copy>(items: &[T], index: usize) -> Option<T> {
    let back = index.checked_rem(items.len())?;
    items.get(items.len() - 1 - back).copied()
}

/// Returns a reference to the item at `index`, counted from the newest and wrapping around.
fn newest_of<T>(items: &[T], index: usize) -> Option<&T> {
    let back = index.checked_rem(items.len())?;
    items.get(items.len() - 1 - back)
}

/// Returns the fence with one field wrong.
fn with_defect(mut fence: Fence, defect: FenceDefect) -> Fence {
    match defect {
        FenceDefect::None => {}
        FenceDefect::Epoch => fence.epoch += 1,
        FenceDefect::Attempt => fence.attempt += 1,
        FenceDefect::Lease => fence.lease_id = LeaseId(Uuid::max()),
        FenceDefect::Execution => fence.execution = ExecutionId(Uuid::max()),
    }
    fence
}

/// Returns the instance of a worker.
pub fn instance(worker: usize) -> String {
    format!("instance{worker}")
}

impl Lockstep<'_> {
    fn execution(&self, index: usize) -> ExecutionId {
        newest(&self.submitted, index).unwrap_or(ExecutionId(Uuid::nil()))
    }

    /// Chooses an execution: for three of four indices one for which `likely` is true, if there is one, else any.
    fn choose_execution(&self, index: usize, likely: impl Fn(&ModelExecution) -> bool) -> ExecutionId {
        let known = |id: &&ExecutionId| self.reference.executions.get(id).is_some_and(&likely);
        let chosen: Vec<ExecutionId> = self.submitted.iter().filter(known).copied().collect();
        match index % 4 {
            0 => self.execution(index / 4),
            _ => newest(&chosen, index / 4).unwrap_or_else(|| self.execution(index / 4)),
        }
    }

    /// Chooses a lease: for three of four indices a live one, if there is one, else any.
    fn choose_lease(&self, index: usize) -> Fence {
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

    pub(super) fn put_back(&self, fence: Fence, orphaned: bool) -> CoreCommand {
        CoreCommand::PutBack(PutBack {
            namespace: self.harness.namespace,
            fence,
            why: if orphaned { PutBackReason::Orphaned } else { PutBackReason::WorkerDeparted },
        })
    }

    /// Returns the command for the store and the reply that the model expects.
    pub(super) async fn prepare(&mut self, command: &ModelCommand) -> (CoreCommand, Answer) {
        match command {
            ModelCommand::Submit { id, content } => {
                let given = id.map(|id| Uuid::from_u128(u128::from(id) + 1));
                self.submit(given, content.clone()).await
            }
            ModelCommand::SubmitAgain { earlier, same_id } => {
                let back = earlier.checked_rem(self.submissions.len());
                match back.and_then(|back| self.submissions.iter().rev().nth(back)).cloned() {
                    Some((given, content)) => self.submit(given.filter(|_| *same_id), content).await,
                    None => {
                        let tick = FireTimer { execution: self.execution(0), timer: Timer::LeaseExpiry };
                        (CoreCommand::Tick(tick), Answer::Lost)
                    }
                }
            }
            ModelCommand::Report { lease, defect, op_id, op } => {
                let fence = with_defect(self.choose_lease(*lease), *defect);
                self.report(fence, *op_id, op.clone())
            }
            ModelCommand::Repeat { report } => {
                let back = report.checked_rem(self.reports.len());
                let (fence, op_id, op) = match back.and_then(|back| self.reports.iter().rev().nth(back)) {
                    Some(report) => report.clone(),
                    None => (self.choose_lease(0), None, ReportSpec::Release),
                };
                self.report(fence, op_id, op)
            }
            ModelCommand::PutBack { lease, orphaned } => {
                let fence = self.choose_lease(*lease);
                (self.put_back(fence, *orphaned), self.reference.put_back(&fence))
            }
            ModelCommand::Operate { execution, action, expect } => self.operate(*execution, action, *expect),
            ModelCommand::ExpireLease { execution } => {
                let execution =
                    self.choose_execution(*execution, |known| known.state.name() == StateName::Active);
                let tick = FireTimer { execution, timer: Timer::LeaseExpiry };
                (CoreCommand::Tick(tick), self.reference.expire_lease(execution))
            }
            ModelCommand::Due { execution, kind } => {
                let now = self.reference.now;
                let is_due = |known: &ModelExecution| {
                    known.next_due().is_some_and(|(at, of)| of == *kind && at <= now)
                };
                let execution = self.choose_execution(*execution, is_due);
                let tick = FireTimer { execution, timer: Timer::Due(*kind) };
                (CoreCommand::Tick(tick), self.reference.due(execution, *kind))
            }
            ModelCommand::Signal { execution, source, sent } => {
                let id = self.choose_execution(*execution, ModelExecution::is_suspended);
                let draft = self.draft(*sent, true);
                let deliver = self.harness.signal_command(id, draft, &convert::word(*source));
                (CoreCommand::Deliver(deliver), self.reference.signal(id, *source, *sent))
            }
            ModelCommand::Deliver { token, altered, named, sent } => {
                self.deliver(*token, *altered, *named, *sent)
            }
            ModelCommand::Answer { execution, waitpoint, named, sent } => {
                self.answer(*execution, *waitpoint, *named, *sent)
            }
            ModelCommand::Rotate { grace_ms } => {
                let (namespace, actor) = (self.harness.namespace, Name::trusted("operator"));
                let fingerprint = secret(1).fingerprint();
                let rotate = RotateTokenKeys { namespace, grace_ms: *grace_ms, fingerprint, actor };
                (CoreCommand::Rotate(rotate), self.reference.rotate(*grace_ms))
            }
            ModelCommand::Drain { worker } => {
                let drain = Drain {
                    namespace: self.harness.namespace,
                    instance: Name::trusted(&instance(*worker)),
                    actor: Name::trusted("operator"),
                };
                (CoreCommand::Drain(drain), self.reference.drain(*worker))
            }
        }
    }

    fn operate(
        &mut self,
        index: usize,
        action: &OperatorAction,
        expect: ExpectedVersion,
    ) -> (CoreCommand, Answer) {
        let has_open_waitpoint =
            |known: &ModelExecution| known.record.waitpoints.iter().any(ModelWaitpoint::is_open);
        let id = match action {
            OperatorAction::Resume => self.choose_execution(index, ModelExecution::is_suspended),
            OperatorAction::RevokeWaitpoint(_) => self.choose_execution(index, has_open_waitpoint),
            OperatorAction::ReissueWaitpoint { .. } => {
                self.choose_execution(index, |known| !known.record.waitpoints.is_empty())
            }
            _ => self.execution(index),
        };
        let version = self.reference.executions.get(&id).map_or(0, |known| known.version);
        let mut operate = self.harness.operate_command(id, convert::action(action));
        let action = &self.choose_waitpoint(id, action, &mut operate);
        operate.if_version = match expect {
            ExpectedVersion::Any => None,
            ExpectedVersion::Current => Some(version),
            ExpectedVersion::Another => Some(version + 1),
        };
        (CoreCommand::Operate(operate), self.reference.operate(id, action, expect))
    }

    /// Sets the waitpoint of an action about one: a waitpoint of the execution, or an unknown one.
    fn choose_waitpoint(
        &self,
        id: ExecutionId,
        action: &OperatorAction,
        operate: &mut Operate,
    ) -> OperatorAction {
        match (action, &mut operate.action) {
            (OperatorAction::RevokeWaitpoint(index), operator::Action::RevokeWaitpoint { waitpoint }) => {
                let index = self.choose_waitpoint_of(id, *index, waitpoint);
                OperatorAction::RevokeWaitpoint(index)
            }
            (
                OperatorAction::ReissueWaitpoint { waitpoint: index, expires_ms },
                operator::Action::ReissueWaitpoint(reissue),
            ) => {
                let index = self.choose_waitpoint_of(id, *index, &mut reissue.waitpoint);
                OperatorAction::ReissueWaitpoint { waitpoint: index, expires_ms: *expires_ms }
            }
            _ => action.clone(),
        }
    }

    /// Chooses a waitpoint of an execution, or an unknown one, and returns its index.
    fn choose_waitpoint_of(&self, id: ExecutionId, index: usize, waitpoint: &mut WaitpointId) -> usize {
        let known = self.reference.executions.get(&id).map_or(&[][..], |known| &known.record.waitpoints);
        let index = index.checked_rem(known.len() + 1).unwrap_or_default();
        *waitpoint = known.get(index).and_then(|one| one.id).unwrap_or(WaitpointId(Uuid::nil()));
        index
    }

    fn answer(
        &mut self,
        execution: usize,
        index: usize,
        named: bool,
        sent: SignalSpec,
    ) -> (CoreCommand, Answer) {
        let id = self.choose_execution(execution, |known| !known.record.waitpoints.is_empty());
        let mut waitpoint = WaitpointId(Uuid::nil());
        let index = self.choose_waitpoint_of(id, index, &mut waitpoint);
        let (namespace, actor) = (self.harness.namespace, Name::trusted("operator"));
        let sender = SignalSender::Operator { namespace, waitpoint, actor };
        let deliver = self.draft(sent, named).check(id, sender).expect("a signal of the model is valid");
        (CoreCommand::Deliver(deliver), self.reference.answer(id, index, named, sent))
    }

    fn draft(&self, sent: SignalSpec, named: bool) -> SignalDraft {
        SignalDraft {
            name: named.then(|| convert::word(sent.name)),
            payload: convert::payload(sent.payload),
            key: sent.key.map(convert::word),
        }
    }

    fn deliver(
        &mut self,
        index: usize,
        altered: bool,
        named: bool,
        sent: SignalSpec,
    ) -> (CoreCommand, Answer) {
        let Some((waitpoint, key, text)) = newest_of(&self.tokens, index) else {
            let tick = FireTimer { execution: ExecutionId(Uuid::nil()), timer: Timer::LeaseExpiry };
            return (CoreCommand::Tick(tick), Answer::Lost);
        };
        let (execution, waitpoint, key, issue) = (waitpoint.execution, waitpoint.id, *key, waitpoint.issue);
        let token = if altered { format!("{text}A") } else { text.clone() };
        let way = SignalSender::TokenHolder { waitpoint, token, secret: secret(1) };
        let deliver = self.draft(sent, named).check(execution, way).expect("a signal of the model is valid");
        let token = PresentedToken { execution, waitpoint, key, issue, altered };
        (CoreCommand::Deliver(deliver), self.reference.deliver(token, named, sent))
    }

    async fn submit(&mut self, given: Option<Uuid>, content: Content) -> (CoreCommand, Answer) {
        let mut submit = self.harness.submit_command(vec![convert::draft(given, &content)]).await;
        let id = given.map_or_else(new_id, ExecutionId);
        submit.items[0].id = id;
        if !self.submitted.contains(&id) {
            self.submitted.push(id);
        }
        let answer = self.reference.submit(id, &content);
        self.submissions.push((given, content));
        (CoreCommand::Submit(submit), answer)
    }

    fn report(&mut self, fence: Fence, op_id: Option<u8>, op: ReportSpec) -> (CoreCommand, Answer) {
        let mut report = self.harness.report_command(fence, convert::op(&op));
        report.op_id = op_id.map(convert::word);
        let answer = self.reference.report(&fence, op_id, &op);
        self.reports.push((fence, op_id, op));
        (CoreCommand::Report(report), answer)
    }
}
