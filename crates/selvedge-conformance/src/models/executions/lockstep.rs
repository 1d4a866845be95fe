//! Runs the same steps on a store and on the reference model, and compares them after each.

use super::super::compare::{Comparison, expect_equal};
use super::command::{Content, ModelCommand, ReportSpec, ScriptStep};
use super::compare::compare;
use super::compare_records::{
    compare_claimed, compare_keys, compare_signals, compare_steps, compare_waitpoints,
};
use super::convert::CoreCommand;
use super::expect::{instance, newest};
use super::reference::{Answer, ModelExecution, ModelState, Reference, ttl_ms};
use crate::harness::Harness;
use crate::harness::runner::{PendingReply, RuleList};
use crate::harness::signals::secret;
use crate::harness::subject::Advance;
use crate::harness::worker::Worker;
use selvedge_core::filter::Payloads;
use selvedge_core::rules::claim::{Claimed, Claims};
use selvedge_core::rules::heartbeat::Heartbeat;
use selvedge_core::rules::report::Fence;
use selvedge_core::rules::worker::{BeginIncarnation, Depart};
use selvedge_core::token::TokenKeyId;
use selvedge_core::{DueKind, ExecutionId, Name, Refusal, Timestamp, Waitpoint};
use uuid::Uuid;

/// The worker that has waiting claims.
const WAITING: usize = 0;
/// The maximum of a waiting claim, larger than the number of executions that a transaction makes waiting.
const WAITING_MAX: u32 = 64;

/// A store and the reference model, after the same steps.
pub struct Lockstep<'a> {
    pub(super) harness: &'a Harness,
    advance: Option<Advance>,
    pub(super) reference: Reference,
    start: Timestamp,
    /// All submitted ids, in order.
    pub(super) submitted: Vec<ExecutionId>,
    /// All submissions, in order.
    pub(super) submissions: Vec<(Option<Uuid>, Content)>,
    /// All leases that were granted, in order.
    pub(super) leases: Vec<Fence>,
    /// All reports, in order.
    pub(super) reports: Vec<(Fence, Option<u8>, ReportSpec)>,
    /// All signed tokens: the waitpoint, the key and the text.
    pub(super) tokens: Vec<(Waitpoint, TokenKeyId, String)>,
}

impl<'a> Lockstep<'a> {
    /// Starts with an empty model.
    pub async fn new(harness: &'a Harness, advance: Option<Advance>) -> Self {
        let reference = Reference { manual: advance.is_some(), ..Reference::default() };
        Lockstep {
            start: harness.now().await,
            harness,
            advance,
            reference,
            submitted: Vec::new(),
            submissions: Vec::new(),
            leases: Vec::new(),
            reports: Vec::new(),
            tokens: Vec::new(),
        }
    }

    /// Returns true if history was moved out of a row: receipts of old reports may then be unavailable, so the sequence
    /// ends.
    pub async fn has_moved_history(&self) -> bool {
        let rows =
            self.harness.store.fetch(&self.submitted, Payloads::ALL).await.expect("executions are read");
        rows.iter().any(|stored| stored.execution.detail.history_pages > 0)
    }

    /// Runs one step on both and compares replies and rows.
    pub async fn run(&mut self, step: &ScriptStep) -> Comparison {
        if !self.reference.manual {
            self.reference.now += 1;
        }
        match step {
            ScriptStep::Advance { ms } => {
                if let Some(advance) = &self.advance {
                    advance(*ms);
                    self.reference.now += ms * 1000;
                }
            }
            ScriptStep::Claim { worker, both_lanes, max } => self.claim(*worker, *both_lanes, *max).await?,
            ScriptStep::Heartbeat { worker, named } => self.heartbeat(*worker, *named).await?,
            ScriptStep::Depart { worker } => self.depart(*worker).await?,
            ScriptStep::Restart { worker, late } => self.restart(*worker, *late).await?,
            ScriptStep::Delete { execution } => {
                let due = ModelCommand::Due { execution: *execution, kind: DueKind::Retention };
                self.run_batch(&[due]).await?;
            }
            ScriptStep::Batch(commands) => self.run_batch(commands).await?,
        }
        self.compare().await
    }

    async fn claim(&mut self, worker: usize, both_lanes: bool, max: u32) -> Comparison {
        let claimed = self.harness.claim_as(&self.worker(worker, both_lanes), max).await;
        self.compare_claims(worker, both_lanes, max, claimed)
    }

    fn compare_claims(
        &mut self,
        worker: usize,
        both_lanes: bool,
        max: u32,
        claimed: Vec<Claimed>,
    ) -> Comparison {
        let got: Vec<ExecutionId> = claimed.iter().map(|one| one.execution.id).collect();
        let expected = self.reference.claim(worker, both_lanes, max);
        expect_equal(|| format!("worker {worker} claims {max}"), expected, got)?;
        for one in &claimed {
            compare_claimed(&self.reference, one)?;
            let fence = Fence::of(&one.execution).ok_or("a claimed execution has no lease")?;
            self.reference.lease(fence, worker);
            self.leases.push(fence);
        }
        Ok(())
    }

    async fn heartbeat(&mut self, worker: usize, named: u8) -> Comparison {
        let held = self.reference.held_by(worker);
        let chosen = held.iter().enumerate().filter(|(index, _)| named >> (index % 7) & 1 == 1);
        let mut leases: Vec<Fence> = chosen.map(|(_, (fence, _))| *fence).collect();
        let other =
            newest(&self.leases, named.into()).filter(|fence| named >= 128 && !leases.contains(fence));
        leases.extend(other);
        let beat = self
            .harness
            .run(Heartbeat {
                namespace: self.harness.namespace,
                instance: Name::trusted(&instance(worker)),
                incarnation: None,
                leases: leases.clone(),
                waits_since: None,
            })
            .await
            .map_err(|refusal| format!("a heartbeat is refused: {refusal}"))?;
        let is_held = |fence: &&Fence| held.iter().any(|(of, _)| of == *fence);
        let is_cancelling =
            |fence: &&Fence| self.reference.executions[&fence.execution].cancel_until.is_some();
        let renewed: Vec<Fence> = leases.iter().filter(is_held).copied().collect();
        let mut cancelling: Vec<Fence> = renewed.iter().filter(is_cancelling).copied().collect();
        let unnamed = held.iter().map(|(fence, _)| fence).filter(|fence| !leases.contains(fence));
        let unnamed: Vec<Fence> = unnamed.filter(is_cancelling).copied().collect();
        let lost = leases.iter().filter(|fence| !is_held(fence)).filter_map(|fence| {
            let known = self.reference.executions.get(&fence.execution);
            match known {
                None => Some((*fence, "not_found")),
                // The worker's own report ended the lease.
                Some(known) if known.endings.iter().any(|(of, ..)| of == fence) => None,
                Some(_) => Some((*fence, "stale_lease")),
            }
        });
        let lost: Vec<(Fence, &str)> = lost.collect();
        let got = beat.lost.iter().map(|(fence, why)| (*fence, why.code())).collect();
        let session = self.reference.sessions.get(&worker);
        expect_equal(|| "drain".into(), session.is_some_and(|session| session.draining), beat.drain)?;
        expect_equal(|| "lost".into(), lost, got)?;
        expect_equal(|| "renewed".into(), renewed, beat.renewed)?;
        let orphans = self.reference.heartbeat(worker, &leases);
        cancelling.extend(unnamed.into_iter().filter(|fence| !orphans.contains(fence)));
        expect_equal(|| "cancel requested".into(), cancelling, beat.cancel_requested)?;
        expect_equal(|| "orphans".into(), orphans.clone(), beat.orphans)?;
        self.put_all_back(orphans, true).await
    }

    async fn depart(&mut self, worker: usize) -> Comparison {
        let reply = self
            .harness
            .run(Depart {
                namespace: self.harness.namespace,
                instance: Name::trusted(&instance(worker)),
                incarnation: None,
            })
            .await;
        let mut got = reply.ok();
        got.iter_mut().for_each(|leases| leases.sort_by_key(|fence| fence.execution));
        let expected = self.reference.depart(worker);
        expect_equal(|| format!("worker {worker} departs"), expected.clone(), got)?;
        self.put_all_back(expected.unwrap_or_default(), false).await
    }

    /// Begins a new incarnation of a worker. With `late`, the predecessor of the current one tries to begin again and is
    /// refused.
    async fn restart(&mut self, worker: usize, late: bool) -> Comparison {
        let begun = self.reference.sessions.get(&worker).map_or(0, |session| session.incarnations);
        let begin = |number: u32| {
            let incarnation = Some(format!("incarnation{number}"));
            let worker = Worker { incarnation, ..self.worker(worker, true) };
            BeginIncarnation { claim: self.harness.claim_command(&worker, 1) }
        };
        if late && begun > 1 {
            let refused = self.harness.run(begin(begun - 1)).await.map_err(|refusal| refusal.code());
            return expect_equal(|| "a superseded incarnation begins".into(), Err("superseded"), refused);
        }
        let reply = self.harness.run(begin(begun + 1)).await;
        let mut got = reply.map_err(|refusal| format!("an incarnation is refused: {refusal}"))?;
        got.sort_by_key(|fence| fence.execution);
        let (_, expected) = self.reference.restart(worker);
        expect_equal(|| format!("worker {worker} restarts"), expected.clone(), got)?;
        self.put_all_back(expected, false).await
    }

    async fn put_all_back(&mut self, leases: Vec<Fence>, orphaned: bool) -> Comparison {
        for fence in leases {
            self.run_commands(vec![self.put_back(fence, orphaned)], vec![Answer::Yes]).await?;
            self.reference.put_back(&fence);
        }
        Ok(())
    }

    async fn run_batch(&mut self, commands: &[ModelCommand]) -> Comparison {
        let waiting = self.wait_with_claim();
        let (mut core_commands, mut expected) = (Vec::new(), Vec::new());
        let mut commands: Vec<&ModelCommand> = commands.iter().collect();
        commands.sort_by_key(|command| command.phase());
        for command in commands {
            let (rule, answer) = self.prepare(command).await;
            core_commands.push(rule);
            expected.push(answer);
        }
        self.run_commands(core_commands, expected).await?;
        match waiting {
            Some(handed_over) => self.compare_handed_over(handed_over()),
            None => Ok(()),
        }
    }

    /// Registers a waiting claim for the next transaction, if no execution is waiting that the claim could take at
    /// once.
    fn wait_with_claim(&self) -> Option<PendingReply<Option<Result<Claims, Refusal>>>> {
        let waiting = |known: &ModelExecution| known.state == ModelState::Waiting;
        let none = !self.reference.executions.values().any(waiting);
        none.then(|| self.harness.claim_command(&self.worker(WAITING, true), WAITING_MAX))
            .and_then(|claim| self.harness.wait(&claim))
    }

    /// Compares the work handed over to the waiting claim. A claim that the transaction did not serve had no work to
    /// take.
    fn compare_handed_over(&mut self, handed_over: Option<Result<Claims, Refusal>>) -> Comparison {
        match handed_over {
            Some(claims) => {
                let claimed =
                    claims.map_err(|refusal| format!("a waiting claim is refused: {refusal}"))?.claimed;
                // The model does not predict the order in which executions became waiting: it takes that from the rows.
                for one in &claimed {
                    if let Some(known) = self.reference.executions.get_mut(&one.execution.id) {
                        known.ready_order = Some(one.execution.ready_order);
                    }
                }
                self.compare_claims(WAITING, true, WAITING_MAX, claimed)
            }
            None => {
                let waiting = |known: &&ModelExecution| known.state == ModelState::Waiting;
                let remaining: Vec<_> =
                    self.reference.executions.values().filter(waiting).map(|known| known.id).collect();
                expect_equal(|| "waiting executions beside a waiting claim".into(), Vec::new(), remaining)
            }
        }
    }

    fn worker(&self, worker: usize, both_lanes: bool) -> Worker {
        let lanes: &[&str] = if both_lanes { &["first", "second"] } else { &["first"] };
        Worker { ttl_ms: ttl_ms(self.reference.manual, worker), ..Worker::new(&instance(worker)).on(lanes) }
    }

    async fn run_commands(&self, core_commands: Vec<CoreCommand>, expected: Vec<Answer>) -> Comparison {
        let got = self.harness.run(RuleList(core_commands)).await;
        expect_equal(|| "the replies".into(), expected, got)
    }

    /// Compares every row with the model.
    async fn compare(&mut self) -> Comparison {
        let found =
            self.harness.store.fetch(&self.submitted, Payloads::ALL).await.expect("executions are read");
        let rows = found.into_iter().map(|stored| (stored.execution.id, stored)).collect();
        compare(&mut self.reference, self.start, &rows)?;
        self.compare_records().await
    }

    /// Compares the signals, steps and waitpoints of every changed execution, and signs the tokens of its waitpoints.
    async fn compare_records(&mut self) -> Comparison {
        let Reference { executions, keys, manual, .. } = &mut self.reference;
        let exact = manual.then_some(self.start);
        for known in executions.values_mut().filter(|known| known.record.compared != known.version) {
            known.record.compared = known.version;
            let id = known.id;
            compare_signals(known, &self.harness.signals(id).await)?;
            compare_steps(known, &self.harness.steps(id).await, exact)?;
            let waitpoints = self.harness.waitpoints(id).await;
            compare_waitpoints(known, keys, &waitpoints, exact)?;
            for waitpoint in waitpoints {
                let new = |(known, key, _): &(Waitpoint, TokenKeyId, String)| {
                    (known.id, known.issue, *key) != (waitpoint.id, waitpoint.issue, waitpoint.key)
                };
                if self.tokens.iter().all(new) {
                    let token = secret(1).sign(&waitpoint);
                    self.tokens.push((waitpoint.clone(), waitpoint.key, token));
                }
            }
        }
        let stored = self.harness.store.token_keys().await.expect("keys are read");
        compare_keys(keys, &stored, exact)
    }
}
