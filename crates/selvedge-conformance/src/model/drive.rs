//! Drives a store and the reference model through the same steps, and compares them after each.

use super::command::{Command, Content, Op, Step};
use super::compare::{Differ, compare, same};
use super::compare_records::{
    compare_claimed, compare_keys, compare_signals, compare_steps, compare_waitpoints,
};
use super::expect::{instance, newest};
use super::reference::{Answer, Known, Place, Reference, ttl_ms};
use super::rules::Shared;
use crate::harness::Harness;
use crate::rule::{Collect, Each};
use crate::signal_harness::secret;
use crate::subject::Advance;
use crate::worker::Worker;
use selvedge_core::rules::claim::{Claimed, Claims};
use selvedge_core::rules::heartbeat::Heartbeat;
use selvedge_core::rules::report::Fence;
use selvedge_core::rules::worker::Depart;
use selvedge_core::token::TokenKeyId;
use selvedge_core::{DueKind, ExecutionId, Name, Refusal, Timestamp, Waitpoint};
use uuid::Uuid;

/// The worker whose claims wait.
const WAITING: usize = 0;
/// How many executions they take: as many as a transaction makes ready.
const WAITING_MAX: u32 = 64;

/// A store and the reference model on their way.
pub struct Drive<'a> {
    pub(super) harness: &'a Harness,
    advance: Option<Advance>,
    pub(super) reference: Reference,
    start: Timestamp,
    /// Every id that was ever submitted, in order.
    pub(super) submitted: Vec<ExecutionId>,
    /// Every submission that was ever made.
    pub(super) submissions: Vec<(Option<Uuid>, Content)>,
    /// Every lease that was ever given, in order.
    pub(super) leases: Vec<Fence>,
    /// Every report that was ever made.
    pub(super) reports: Vec<(Fence, Option<u8>, Op)>,
    /// Every token that was ever signed: the waitpoint, the key, the text.
    pub(super) tokens: Vec<(Waitpoint, TokenKeyId, String)>,
}

impl<'a> Drive<'a> {
    /// At the beginning.
    pub async fn new(harness: &'a Harness, advance: Option<Advance>) -> Self {
        let reference = Reference { manual: advance.is_some(), ..Reference::default() };
        Drive {
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

    /// Whether a history has outgrown its row: receipts of old reports may be out of reach, so the comparison ends.
    pub async fn is_outgrown(&self) -> bool {
        let rows = self.harness.store.fetch(&self.submitted).await.expect("executions are read");
        rows.iter().any(|stored| stored.execution.detail.history_pages > 0)
    }

    /// Goes one step, and compares answers and rows.
    pub async fn step(&mut self, step: &Step) -> Differ {
        if !self.reference.manual {
            self.reference.now += 1;
        }
        match step {
            Step::Advance { ms } => {
                if let Some(advance) = &self.advance {
                    advance(*ms);
                    self.reference.now += ms * 1000;
                }
            }
            Step::Claim { worker, both_lanes, max } => self.claim(*worker, *both_lanes, *max).await?,
            Step::Heartbeat { worker, named } => self.heartbeat(*worker, *named).await?,
            Step::Depart { worker } => self.depart(*worker).await?,
            Step::Delete { execution } => {
                let due = Command::Due { execution: *execution, kind: DueKind::Retention };
                self.together(&[due]).await?;
            }
            Step::Together(commands) => self.together(commands).await?,
        }
        self.compare().await
    }

    async fn claim(&mut self, worker: usize, both_lanes: bool, max: u32) -> Differ {
        let claimed = self.harness.claim_as(&self.worker(worker, both_lanes), max).await;
        self.claimed(worker, both_lanes, max, claimed)
    }

    fn claimed(&mut self, worker: usize, both_lanes: bool, max: u32, claimed: Vec<Claimed>) -> Differ {
        let got: Vec<ExecutionId> = claimed.iter().map(|one| one.execution.id).collect();
        let expected = self.reference.claim(worker, both_lanes, max);
        same(|| format!("worker {worker} claims {max}"), expected, got)?;
        for one in &claimed {
            compare_claimed(&self.reference, one)?;
            let fence = Fence::of(&one.execution).ok_or("it was claimed and is not leased")?;
            self.reference.lease(fence, worker);
            self.leases.push(fence);
        }
        Ok(())
    }

    async fn heartbeat(&mut self, worker: usize, named: u8) -> Differ {
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
                leases: leases.clone(),
            })
            .await;
        let is_held = |fence: &&Fence| held.iter().any(|(of, _)| of == *fence);
        let is_asked = |fence: &&Fence| self.reference.executions[&fence.execution].cancel_until.is_some();
        let renewed: Vec<Fence> = leases.iter().filter(is_held).copied().collect();
        let asked: Vec<Fence> = renewed.iter().filter(is_asked).copied().collect();
        let lost = leases.iter().filter(|fence| !is_held(fence)).map(|fence| {
            let exists = self.reference.executions.contains_key(&fence.execution);
            (*fence, if exists { "stale_lease" } else { "not_found" })
        });
        let lost: Vec<(Fence, &str)> = lost.collect();
        let got = beat.lost.iter().map(|(fence, why)| (*fence, why.code())).collect();
        let session = self.reference.sessions.get(&worker);
        same(|| "drain".into(), session.is_some_and(|session| session.draining), beat.drain)?;
        same(|| "lost".into(), lost, got)?;
        same(|| "renewed".into(), renewed, beat.renewed)?;
        same(|| "asked to cancel".into(), asked, beat.cancel_requested)?;
        let orphans = self.reference.heartbeat(worker, &leases);
        same(|| "orphans".into(), orphans.clone(), beat.orphans)?;
        self.put_all_back(orphans, true).await
    }

    async fn depart(&mut self, worker: usize) -> Differ {
        let reply = self
            .harness
            .run(Depart { namespace: self.harness.namespace, instance: Name::trusted(&instance(worker)) })
            .await;
        let mut got = reply.ok();
        got.iter_mut().for_each(|leases| leases.sort_by_key(|fence| fence.execution));
        let expected = self.reference.depart(worker);
        same(|| format!("worker {worker} departs"), expected.clone(), got)?;
        self.put_all_back(expected.unwrap_or_default(), false).await
    }

    async fn put_all_back(&mut self, leases: Vec<Fence>, orphaned: bool) -> Differ {
        for fence in leases {
            self.run(vec![self.put_back(fence, orphaned)], vec![Answer::Yes]).await?;
            self.reference.put_back(&fence);
        }
        Ok(())
    }

    async fn together(&mut self, commands: &[Command]) -> Differ {
        let waiting = self.wait();
        let (mut shared, mut expected) = (Vec::new(), Vec::new());
        let mut commands: Vec<&Command> = commands.iter().collect();
        commands.sort_by_key(|command| command.phase());
        for command in commands {
            let (rule, answer) = self.expect(command).await;
            shared.push(rule);
            expected.push(answer);
        }
        self.run(shared, expected).await?;
        match waiting {
            Some(handed) => self.handed(handed()),
            None => Ok(()),
        }
    }

    /// Lets a claim wait for the transaction that comes, if nothing is ready that it could have taken before.
    fn wait(&self) -> Option<Collect<Option<Result<Claims, Refusal>>>> {
        let ready = |known: &Known| known.place == Place::Waiting;
        let none = !self.reference.executions.values().any(ready);
        none.then(|| self.harness.claim_command(&self.worker(WAITING, true), WAITING_MAX))
            .and_then(|claim| self.harness.wait(&claim))
    }

    /// A claim that waited was handed what the transaction made ready; one that was not taken along had nothing to take.
    fn handed(&mut self, handed: Option<Result<Claims, Refusal>>) -> Differ {
        match handed {
            Some(claims) => {
                let claimed =
                    claims.map_err(|refusal| format!("a waiting claim is refused: {refusal}"))?.claimed;
                // In which order they became ready is not for the model to say: it learns that from the rows.
                for one in &claimed {
                    if let Some(known) = self.reference.executions.get_mut(&one.execution.id) {
                        known.ready_order = Some(one.execution.ready_order);
                    }
                }
                self.claimed(WAITING, true, WAITING_MAX, claimed)
            }
            None => {
                let ready = |known: &&Known| known.place == Place::Waiting;
                let left: Vec<_> =
                    self.reference.executions.values().filter(ready).map(|known| known.id).collect();
                same(|| "ready beside a waiting claim".into(), Vec::new(), left)
            }
        }
    }

    fn worker(&self, worker: usize, both_lanes: bool) -> Worker {
        let lanes: &[&str] = if both_lanes { &["first", "second"] } else { &["first"] };
        Worker { ttl_ms: ttl_ms(self.reference.manual, worker), ..Worker::new(&instance(worker)).on(lanes) }
    }

    async fn run(&self, shared: Vec<Shared>, expected: Vec<Answer>) -> Differ {
        let got = self.harness.run(Each(shared)).await;
        same(|| "the answers".into(), expected, got)
    }

    /// Compares every row with what the model knows.
    async fn compare(&mut self) -> Differ {
        let found = self.harness.store.fetch(&self.submitted).await.expect("executions are read");
        let rows = found.into_iter().map(|stored| (stored.execution.id, stored)).collect();
        compare(&mut self.reference, self.start, &rows)?;
        self.compare_records().await
    }

    /// Compares what is recorded of every execution that has changed, and learns the tokens of its waitpoints.
    async fn compare_records(&mut self) -> Differ {
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
                    (known.id, *key) != (waitpoint.id, waitpoint.key)
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
