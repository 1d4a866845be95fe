//! Drives a store and the reference model through the same steps, and compares them after each.

use super::command::{Command, Expect, Op, Spoil, Step};
use super::reference::{Answer, Known, Place, Reference, ttl_ms};
use super::rules::{self, Shared};
use crate::Stored;
use crate::conformance::bench::{Bench, Worker, mint};
use crate::conformance::subject::Advance;
use selvedge_core::rules::clock::{Tick, What};
use selvedge_core::rules::heartbeat::Heartbeat;
use selvedge_core::rules::report::Fence;
use selvedge_core::rules::worker::{Drain, PutBack, Why};
use selvedge_core::{DueKind, ExecutionId, LeaseId, Name, State, Timestamp};
use std::collections::HashMap;
use std::fmt::Debug;
use uuid::Uuid;

/// What store and model differ in.
pub type Differ = Result<(), String>;

/// A store and the reference model on their way.
pub struct Drive<'a> {
    bench: &'a Bench,
    advance: Option<Advance>,
    reference: Reference,
    start: Timestamp,
    /// Every id that was ever submitted, in order.
    submitted: Vec<ExecutionId>,
    /// Every lease that was ever given, in order.
    leases: Vec<Fence>,
    /// Every report that was ever made.
    reports: Vec<(Fence, Option<u8>, Op)>,
}

fn same<T: PartialEq + Debug>(what: impl Fn() -> String, expected: T, got: T) -> Differ {
    match expected == got {
        true => Ok(()),
        false => Err(format!("{}: expected {expected:?}, got {got:?}", what())),
    }
}

/// The one at `index`, counted from the newest and round again.
fn newest<T: Copy>(items: &[T], index: usize) -> Option<T> {
    let back = index.checked_rem(items.len())?;
    items.get(items.len() - 1 - back).copied()
}

fn instance(worker: usize) -> String {
    format!("instance{worker}")
}

impl<'a> Drive<'a> {
    /// At the beginning.
    pub async fn new(bench: &'a Bench, advance: Option<Advance>) -> Self {
        let reference = Reference {
            manual: advance.is_some(),
            ..Reference::default()
        };
        Drive {
            start: bench.now().await,
            bench,
            advance,
            reference,
            submitted: Vec::new(),
            leases: Vec::new(),
            reports: Vec::new(),
        }
    }

    /// Whether a history has outgrown its row: receipts of old reports may be out of reach, so the comparison ends.
    pub async fn is_outgrown(&self) -> bool {
        let rows = self
            .bench
            .store
            .fetch(&self.submitted)
            .await
            .expect("executions are read");
        rows.iter()
            .any(|stored| stored.execution.detail.history_pages > 0)
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
            Step::Claim {
                worker,
                both_lanes,
                max,
            } => self.claim(*worker, *both_lanes, *max).await?,
            Step::Heartbeat { worker, named } => self.heartbeat(*worker, *named).await?,
            Step::Delete { execution } => {
                let due = Command::Due {
                    execution: *execution,
                    kind: DueKind::Retention,
                };
                self.together(&[due]).await?;
            }
            Step::Together(commands) => self.together(commands).await?,
        }
        self.compare().await
    }

    async fn claim(&mut self, worker: usize, both_lanes: bool, max: u32) -> Differ {
        let lanes: &[&str] = if both_lanes {
            &["first", "second"]
        } else {
            &["first"]
        };
        let claims = Worker {
            ttl_ms: ttl_ms(self.reference.manual, worker),
            ..Worker::new(&instance(worker)).on(lanes)
        };
        let claimed = self.bench.claim_as(&claims, max).await;
        let got: Vec<ExecutionId> = claimed.iter().map(|one| one.execution.id).collect();
        let expected = self.reference.claim(worker, both_lanes, max);
        same(|| format!("worker {worker} claims {max}"), expected, got)?;
        for one in &claimed {
            let fence = Fence::of(&one.execution).ok_or("it was claimed and is not leased")?;
            self.reference.lease(fence, worker);
            self.leases.push(fence);
        }
        Ok(())
    }

    async fn heartbeat(&mut self, worker: usize, named: u8) -> Differ {
        let held = self.reference.held_by(worker);
        let chosen = held
            .iter()
            .enumerate()
            .filter(|(index, _)| named >> (index % 7) & 1 == 1);
        let mut leases: Vec<Fence> = chosen.map(|(_, (fence, _))| *fence).collect();
        let other =
            newest(&self.leases, named.into()).filter(|fence| named >= 128 && !leases.contains(fence));
        leases.extend(other);
        let beat = self
            .bench
            .run(Heartbeat {
                namespace: self.bench.namespace,
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
        let got = beat
            .lost
            .iter()
            .map(|(fence, why)| (*fence, why.code()))
            .collect();
        let session = self.reference.sessions.get(&worker);
        same(
            || "drain".into(),
            session.is_some_and(|session| session.draining),
            beat.drain,
        )?;
        same(|| "lost".into(), lost, got)?;
        same(|| "renewed".into(), renewed, beat.renewed)?;
        same(|| "asked to cancel".into(), asked, beat.cancel_requested)?;
        let orphans = self.reference.heartbeat(worker, &leases);
        same(|| "orphans".into(), orphans.clone(), beat.orphans)?;
        for fence in orphans {
            self.run(vec![self.put_back(fence, true)], vec![Answer::Yes])
                .await?;
            self.reference.put_back(&fence);
        }
        Ok(())
    }

    async fn together(&mut self, commands: &[Command]) -> Differ {
        let (mut shared, mut expected) = (Vec::new(), Vec::new());
        for command in commands {
            let (rule, answer) = self.expect(command).await;
            shared.push(rule);
            expected.push(answer);
        }
        self.run(shared, expected).await
    }

    async fn run(&self, shared: Vec<Shared>, expected: Vec<Answer>) -> Differ {
        let got = self.bench.run(shared).await;
        same(|| "the answers".into(), expected, got)
    }

    fn execution(&self, index: usize) -> ExecutionId {
        newest(&self.submitted, index).unwrap_or(ExecutionId(Uuid::nil()))
    }

    /// A lease: for an even index one that is live, else any.
    fn lease(&self, index: usize) -> Fence {
        let live = |fence: &&Fence| {
            let known = self.reference.executions.get(&fence.execution);
            known.is_some_and(|known| known.holds(fence))
        };
        let live: Vec<Fence> = self.leases.iter().filter(live).copied().collect();
        let chosen = match index % 2 {
            0 => newest(&live, index / 2).or(newest(&self.leases, index / 2)),
            _ => newest(&self.leases, index / 2),
        };
        chosen.unwrap_or(Fence {
            execution: self.execution(index),
            attempt: 0,
            lease_id: LeaseId(Uuid::nil()),
            epoch: 1,
        })
    }

    fn put_back(&self, fence: Fence, orphaned: bool) -> Shared {
        Shared::PutBack(PutBack {
            namespace: self.bench.namespace,
            fence,
            why: if orphaned { Why::Orphaned } else { Why::Gone },
        })
    }

    /// The command for the store, and the answer that the model gives.
    async fn expect(&mut self, command: &Command) -> (Shared, Answer) {
        match command {
            Command::Submit { id, content } => {
                let given = id.map(|id| Uuid::from_u128(u128::from(id) + 1));
                let mut submit = self
                    .bench
                    .submit_command(vec![rules::draft(given, content)])
                    .await;
                let id = given.map_or_else(mint, ExecutionId);
                submit.items[0].id = id;
                if !self.submitted.contains(&id) {
                    self.submitted.push(id);
                }
                (Shared::Submit(submit), self.reference.submit(id, content))
            }
            Command::Report {
                lease,
                spoil,
                op_id,
                op,
            } => {
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
            Command::Operate {
                execution,
                action,
                expect,
            } => {
                let id = self.execution(*execution);
                let version = self
                    .reference
                    .executions
                    .get(&id)
                    .map_or(0, |known| known.version);
                let mut operate = self.bench.operate_command(id, rules::action(action));
                operate.if_version = match expect {
                    Expect::Any => None,
                    Expect::Current => Some(version),
                    Expect::Another => Some(version + 1),
                };
                (
                    Shared::Operate(operate),
                    self.reference.operate(id, action, *expect),
                )
            }
            Command::Lapse { execution } => {
                let execution = self.execution(*execution);
                let tick = Tick {
                    execution,
                    what: What::Lapse,
                };
                (Shared::Tick(tick), self.reference.lapse(execution))
            }
            Command::Due { execution, kind } => {
                let execution = self.execution(*execution);
                let tick = Tick {
                    execution,
                    what: What::Due(*kind),
                };
                (Shared::Tick(tick), self.reference.due(execution, *kind))
            }
            Command::Drain { worker } => {
                let drain = Drain {
                    namespace: self.bench.namespace,
                    instance: Name::trusted(&instance(*worker)),
                    actor: Name::trusted("operator"),
                };
                (Shared::Drain(drain), self.reference.drain(*worker))
            }
        }
    }

    fn report(&mut self, fence: Fence, op_id: Option<u8>, op: Op) -> (Shared, Answer) {
        let mut report = self.bench.report_command(fence, rules::op(&op));
        report.op_id = op_id.map(rules::word);
        let answer = self.reference.report(&fence, op_id, &op);
        self.reports.push((fence, op_id, op));
        (Shared::Report(report), answer)
    }

    /// Compares every row with what the model knows.
    async fn compare(&mut self) -> Differ {
        let found = self
            .bench
            .store
            .fetch(&self.submitted)
            .await
            .expect("executions are read");
        let rows: HashMap<ExecutionId, Stored> = found
            .into_iter()
            .map(|stored| (stored.execution.id, stored))
            .collect();
        let unknown = rows.keys().find(|id| !self.reference.executions.contains_key(id));
        same(|| "an execution that should be gone".into(), None, unknown)?;
        let (manual, start, now) = (self.reference.manual, self.start, self.reference.now);
        for known in self.reference.executions.values_mut() {
            let stored = rows.get(&known.id).ok_or(format!("{} is missing", known.id))?;
            compare_row(known, stored)?;
            let exact = |micros: i64| Timestamp::from_micros(start.micros() + micros);
            match (&known.place, &stored.execution.state) {
                (Place::Delayed(at), State::Delayed { until }) if manual => {
                    same(|| format!("{} is delayed until", known.id), exact(*at), *until)?;
                }
                (Place::Ready, State::Ready) => {
                    let told = stored.execution.ready_order;
                    if known.ready_order.is_none() && manual && told < exact(now) {
                        return Err(format!("{} was ready at {told:?}, before now", known.id));
                    }
                    let order = *known.ready_order.get_or_insert(told);
                    same(|| format!("{} became ready", known.id), order, told)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn compare_row(known: &Known, stored: &Stored) -> Differ {
    let row = &stored.execution;
    let what = |field: &'static str| move || format!("{} {field}", known.id);
    same(what("state"), known.place.name(), row.state.name())?;
    same(what("version"), known.version, row.version)?;
    same(what("epoch"), known.epoch, row.epoch)?;
    same(what("generation"), known.generation, row.detail.generation)?;
    same(what("retries"), known.retries, row.detail.retries)?;
    same(
        what("interruptions"),
        known.interruptions,
        row.detail.interruptions,
    )?;
    same(what("priority"), known.priority, row.priority)?;
    same(
        what("asked to cancel"),
        known.cancel_until.is_some(),
        row.detail.cancel.is_some(),
    )?;
    let tags = known
        .tags
        .iter()
        .map(|(name, value)| (rules::word(*name), rules::word(*value)));
    same(what("tags"), tags.collect(), row.tags.clone())?;
    same(
        what("result"),
        known.result.map(rules::result),
        stored.result.clone(),
    )?;
    same(what("fence"), fence_of(&known.place), Fence::of(row))
}

fn fence_of(place: &Place) -> Option<Fence> {
    match place {
        Place::Leased { fence, .. } => Some(*fence),
        Place::Ready | Place::Delayed(_) | Place::Ended(_) => None,
    }
}
