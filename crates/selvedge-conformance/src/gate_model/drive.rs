//! Takes a store through the steps of the model of gates.

use super::super::gate_harness::{at_most, tokens};
use super::super::harness::{Harness, fence};
use super::super::signal_harness::{on, suspend};
use super::super::worker::Worker;
use super::command::{BudgetSpec, How, Limits, Operation, Spec, Step, WINDOW_MS};
use selvedge_core::filter::Filter;
use selvedge_core::gate::{Amounts, BudgetScope, Config, Draws, GateKind, GateName, LaneState, Rate, add};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::clock::What;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::{Fence, Op};
use selvedge_core::submission::When;
use selvedge_core::suspension::WaitDraft;
use selvedge_core::{Draft, DueKind, Execution, ExecutionId, FailureClass, Name, Policy, State};
use std::collections::BTreeMap;

/// More of anything than a sequence makes.
const ALL: u32 = 100_000;
/// After so long every gate that holds something was looked at.
const LONG_LOOK_MS: i64 = 61_000;
const LANES: [&str; 2] = ["default", "other"];
const BUDGETS: [&str; 2] = ["month", "year"];
const QUOTAS: [&str; 2] = ["calls", "mails"];
const KEYS: [&str; 2] = ["a", "b"];

/// A store on its way.
pub struct Drive {
    harness: Harness,
    executions: Vec<ExecutionId>,
    leases: Vec<Claimed>,
}

type Walked = Result<(), String>;

impl Drive {
    pub fn new(harness: Harness) -> Self {
        Drive { harness, executions: Vec::new(), leases: Vec::new() }
    }

    /// One step. What a rule refuses is a step that does nothing.
    pub async fn step(&mut self, step: &Step) -> Walked {
        let harness = self.harness.clone();
        match step {
            Step::Advance { ms } => harness.pass(*ms).await,
            Step::Submit { what } => {
                let rows = harness.submit_all(what.iter().map(draft).collect()).await;
                self.executions.extend(rows.iter().map(|row| row.id));
            }
            Step::Claim { lanes, max } => return self.claim(*lanes, *max).await,
            Step::Report { lease, how } => {
                if let Some(claimed) = pick(&self.leases, *lease) {
                    drop(harness.report(fence(claimed), report(*how)).await);
                }
            }
            Step::Operate { execution, what } => {
                if let Some(id) = pick(&self.executions, *execution) {
                    drop(harness.operate(*id, action(*what)).await);
                }
            }
            Step::Lapse { lease } => {
                if let Some(claimed) = pick(&self.leases, *lease) {
                    harness.tick(claimed.execution.id, What::Lapse).await;
                }
            }
            Step::StartBy { execution } => {
                if let Some(id) = pick(&self.executions, *execution) {
                    harness.tick(*id, What::Due(DueKind::Deadline)).await;
                }
            }
            Step::Spend { budget, count, execution } => {
                let by = execution.and_then(|place| pick(&self.executions, place)).copied();
                drop(harness.run(harness.spend_command(BUDGETS[*budget], tokens(*count), by)).await);
            }
            Step::Quota { quota, limits } => {
                let config = limits.map(limited);
                drop(harness.try_configure(&harness.quota(QUOTAS[*quota]), config).await);
            }
            Step::Lane { lane, limits, paused, weight } => {
                let state = if *paused { LaneState::Paused } else { LaneState::Active };
                let config = limits.map(|limits| Config { state, weight: *weight, ..limited(limits) });
                drop(harness.try_configure(&harness.lane(LANES[*lane]), config).await);
            }
            Step::Budget { budget, config } => {
                let whole = harness.budget(BUDGETS[*budget]);
                drop(harness.try_configure(&whole, config.map(spendable)).await);
                self.look_at_parts(&whole).await;
            }
            Step::Reset { budget } => {
                let gate = harness.budget(BUDGETS[*budget]);
                let actor = Name::trusted("operator");
                drop(harness.run(selvedge_core::rules::gates::budget::Reset { gate, actor }).await);
            }
            Step::Look => harness.look_at_due().await,
        }
        Ok(())
    }

    async fn look_at_parts(&self, whole: &GateName) {
        for part in self.harness.store.parts_of(whole, ALL).await.expect("parts are read") {
            self.harness.look_at(&part.name).await;
        }
    }

    /// Claims, and checks that nothing was taken of gates that had no room.
    async fn claim(&mut self, lanes: usize, max: u32) -> Walked {
        let lanes = [&LANES[..1], &LANES[1..], &LANES[..]][lanes - 1];
        let worker = Worker { ttl_ms: 1, ..Worker::new("one").on(lanes) };
        let before = self.rows().await;
        let claimed = self.harness.claim_as(&worker, max).await;
        let after = self.rows().await;
        self.leases.extend(claimed.iter().cloned());
        let active = |rows: &[Execution], draws: &dyn Fn(&Execution) -> bool| {
            rows.iter().filter(|row| row.state.lease().is_some() && draws(row)).count() as u32
        };
        let mut limits: Vec<(String, u32, u32, u32)> = Vec::new();
        for quota in QUOTAS.map(|name| self.harness.quota(name)) {
            let limit = self.harness.gate(&quota).await.config.and_then(|config| config.concurrency);
            let draws = |row: &Execution| row.spec.draws.quotas.contains(&quota.name);
            let counts = (active(&before, &draws), active(&after, &draws));
            limits.extend(limit.map(|limit| (quota.to_string(), counts.0, counts.1, limit)));
        }
        for one in &claimed {
            let Some((key, limit)) = &one.execution.spec.draws.concurrency else { continue };
            let draws =
                |row: &Execution| row.spec.draws.concurrency.as_ref().is_some_and(|(own, _)| own == key);
            // Others that were claimed along with it may allow more.
            let most = claimed.iter().filter_map(|one| one.execution.spec.draws.concurrency.as_ref());
            let most = most.filter(|(own, _)| own == key).map(|(_, limit)| *limit).max().unwrap_or(*limit);
            limits.push((format!("key {key}"), active(&before, &draws), active(&after, &draws), most));
        }
        for lane in LANES.map(|name| self.harness.lane(name)) {
            let gate = self.harness.gate(&lane).await;
            let Some(config) = gate.config else { continue };
            let counts = |row: &Execution| row.detail.slots.lane.as_ref() == Some(&lane.name);
            let counts = (active(&before, &counts), active(&after, &counts));
            limits.extend(config.concurrency.map(|limit| (lane.to_string(), counts.0, counts.1, limit)));
            if config.state == LaneState::Paused && counts.1 > counts.0 {
                return Err(format!("{lane} is paused, and gave something out"));
            }
        }
        for (gate, before, after, limit) in limits {
            if after > limit.max(before) {
                return Err(format!("{gate} allows {limit}, {before} were active, and {after} are"));
            }
        }
        self.check_budgets(&claimed).await
    }

    /// What was reserved by these claims fits.
    async fn check_budgets(&self, claimed: &[Claimed]) -> Walked {
        let mut reserved: BTreeMap<GateName, Amounts> = BTreeMap::new();
        for one in claimed {
            let draws = one.execution.spec.draws.budgets.iter().zip(&one.execution.detail.slots.parts);
            for ((name, reserve), part) in draws {
                let gate = GateName { part: part.clone(), ..self.harness.named(GateKind::Budget, name) };
                add(reserved.entry(gate).or_default(), reserve);
            }
        }
        for (name, by_these) in reserved {
            let whole = self.harness.gate(&GateName { part: None, ..name.clone() }).await;
            let Some(limit) = whole.config.and_then(|config| config.limits.get("tokens").copied()) else {
                continue;
            };
            let Some(hard) = limit.hard else { continue };
            let state = self.harness.gate(&name).await.state;
            let of = |amounts: &Amounts| amounts.get("tokens").copied().unwrap_or_default();
            if of(&state.used) + of(&state.reserved) > hard || hard.is_zero() {
                return Err(format!("{name} allows {hard}, counts {state:?}, and gave out {by_these:?}"));
            }
        }
        Ok(())
    }

    async fn rows(&self) -> Vec<Execution> {
        let all = Filter::all(self.harness.namespace);
        let listed = self.harness.store.list(&all, None, ALL).await.expect("executions are listed");
        listed.into_iter().map(|stored| stored.execution).collect()
    }

    /// When time has passed and nobody has claimed, nothing is held that its gate would let go on: each was let go, or asks for
    /// more than there is.
    pub async fn nobody_is_left_behind(&self) -> Walked {
        let harness = &self.harness;
        if !harness.is_manual() {
            return Ok(());
        }
        harness.pass(LONG_LOOK_MS).await;
        // A rate of one lets one go on in each window.
        let held = self.rows().await.iter().filter(|row| row.state.gate().is_some()).count();
        for _ in 0..10 + held {
            harness.look_at_due().await;
            harness.pass(WINDOW_MS).await;
        }
        let now = harness.now().await;
        for row in self.rows().await {
            let Some(name) = row.state.gate() else { continue };
            let config =
                harness.gate(&GateName { part: None, ..name.clone() }).await.config.unwrap_or_default();
            let gate = harness.gate(name).await;
            let draws = &row.spec.draws;
            let stays = match name.kind {
                GateKind::Fair => gate.active > 0,
                GateKind::Lane => false,
                GateKind::Quota => gate.refuses(&config, None, now).is_some(),
                GateKind::Key => {
                    let own = draws.concurrency.as_ref().map(|(_, limit)| *limit);
                    gate.refuses(&config, own, now).is_some()
                }
                GateKind::Budget => {
                    let reserve = draws.budgets.iter().find(|(budget, _)| *budget == name.name);
                    let reserve = reserve.map(|(_, reserve)| reserve.clone()).unwrap_or_default();
                    // One of a part that is not counted any more goes on whatever the part says.
                    (config.scope == BudgetScope::Namespace) == name.part.is_none()
                        && gate.refuses_to_spend(&config.limits, &reserve).is_some()
                }
            };
            if !stays {
                return Err(format!("{} is left behind by {gate:?}, {config:?}", row.id));
            }
        }
        Ok(())
    }

    /// When nothing is limited any more everything comes to its end, by itself but for what waits for people.
    pub async fn drain(&mut self) -> Walked {
        let harness = self.harness.clone();
        let gates =
            LANES.map(|name| harness.lane(name)).into_iter().chain(QUOTAS.map(|name| harness.quota(name)));
        let gates: Vec<GateName> = gates.chain(BUDGETS.map(|name| harness.budget(name))).collect();
        for gate in &gates {
            drop(harness.try_configure(gate, None).await);
            self.look_at_parts(gate).await;
        }
        let worker = Worker::new("last").on(&LANES);
        for _ in 0..400 {
            let rows = self.rows().await;
            if rows.iter().all(|row| row.state.outcome().is_some()) {
                return self.nothing_is_left(rows).await;
            }
            for row in &rows {
                match &row.state {
                    State::Active(_) => {
                        let fence = Fence::of(row).ok_or("it is leased")?;
                        let op = Op::Complete { result: "1".into() };
                        harness.report(fence, op).await.map_err(|refusal| format!("{refusal:?}"))?;
                    }
                    State::Suspended(_) => drop(harness.operate(row.id, Action::Resume).await),
                    State::Delayed { .. } => drop(harness.operate(row.id, action(Operation::Now)).await),
                    State::Held(gate) if !harness.is_manual() => drop(harness.look_at(gate).await),
                    State::Held(_) | State::WaitingDependencies | State::Waiting | State::Terminal(_) => {}
                }
            }
            if harness.is_manual() {
                harness.pass(WINDOW_MS).await;
                harness.look_at_due().await;
            }
            harness.claim_as(&worker, 100).await;
        }
        let left: Vec<Execution> =
            self.rows().await.into_iter().filter(|row| row.state.outcome().is_none()).collect();
        let mut gates = Vec::new();
        for name in left.iter().filter_map(|row| row.state.gate()) {
            gates.push(harness.find_gate(name).await);
        }
        let left: Vec<(ExecutionId, State)> = left.into_iter().map(|row| (row.id, row.state)).collect();
        Err(format!("these never end: {left:?}, and of their gates there is {gates:?}"))
    }

    /// Gates that count nothing are gone; of a budget it is kept which period it was in.
    async fn nothing_is_left(&self, rows: Vec<Execution>) -> Walked {
        let mut names: Vec<GateName> = KEYS.map(|name| self.harness.key(name)).to_vec();
        names.extend(QUOTAS.map(|name| self.harness.quota(name)));
        names.extend(LANES.map(|name| self.harness.lane(name)));
        names.extend(rows.iter().filter_map(selvedge_core::gate::draws::fairness_line_of));
        for name in names {
            // Where time cannot be made to pass nobody has looked at what is due in a while.
            if !self.harness.is_manual() {
                self.harness.look_at(&name).await;
            }
            if let Some(gate) = self.harness.find_gate(&name).await {
                return Err(format!("{name} is still there: {gate:?}"));
            }
        }
        Ok(())
    }
}

fn pick<T>(all: &[T], place: usize) -> Option<&T> {
    all.get(place.checked_rem(all.len())?)
}

fn draft(spec: &Spec) -> Draft {
    let quotas =
        QUOTAS.iter().zip(spec.quotas).filter(|(_, draws)| *draws).map(|(name, _)| Name::trusted(name));
    let start_by_ms = spec.start_by.then_some(WINDOW_MS);
    Draft {
        lane: LANES[spec.lane].into(),
        priority: spec.priority,
        policy: Policy { start_by_ms, ..Policy::default() },
        draws: Draws {
            budgets: spec
                .budget
                .map(|(place, reserve)| (Name::trusted(BUDGETS[place]), tokens(reserve)))
                .into_iter()
                .collect(),
            quotas: quotas.collect(),
            concurrency: spec.key.map(|(place, limit)| (Name::trusted(KEYS[place]), limit)),
            fairness_key: spec.fair.map(|place| Name::trusted(KEYS[place])),
        },
        ..Draft::new("kind")
    }
}

fn limited(limits: Limits) -> Config {
    let rate = limits.starts.map(|count| Rate { count, window_ms: WINDOW_MS });
    Config { concurrency: limits.at_once, rate, ..Config::default() }
}

fn spendable(spec: BudgetSpec) -> Config {
    let BudgetSpec { hard, scope, on_hard, period } = spec;
    Config { scope, on_hard, period_ms: period.then_some(WINDOW_MS), ..at_most(hard) }
}

fn report(how: How) -> Op {
    let fail = |class| Op::Fail { message: "it broke".into(), class, retry_after_ms: Some(0) };
    match how {
        How::Complete => Op::Complete { result: "1".into() },
        How::Fail => fail(FailureClass::Permanent),
        How::Retry => fail(FailureClass::Transient),
        How::Delay => Op::Delay { until: When::AfterMs(WINDOW_MS) },
        How::Release => Op::Release,
        How::Suspend => suspend(vec![WaitDraft::new(on("go"))], vec![]),
    }
}

fn action(what: Operation) -> Action {
    match what {
        Operation::Cancel => Action::Cancel { reason: None, grace_ms: 0 },
        Operation::Revoke => Action::Revoke { reason: None },
        Operation::Now => Action::Reschedule { until: When::AfterMs(0) },
        Operation::Later => Action::Reschedule { until: When::AfterMs(WINDOW_MS) },
        Operation::Prioritise(priority) => Action::Prioritise { priority },
        Operation::Replay => Action::Replay,
        Operation::Resume => Action::Resume,
    }
}
