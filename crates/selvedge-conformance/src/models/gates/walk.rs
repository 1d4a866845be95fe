//! Runs the commands of the gate model on a store and checks the limits.

use super::super::compare::Comparison;
use super::command::{BudgetSpec, DrawSpec, GateCommand, Limits, OperatorAction, ReportKind, WINDOW_MS};
use crate::harness::gates::{token_limit, tokens};
use crate::harness::signals::{on_signal, suspend};
use crate::harness::worker::Worker;
use crate::harness::{Harness, fence};
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::gate::{
    Amounts, BudgetScope, Config, GateKind, GateName, LaneState, Rate, RequiredGates, add,
};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::{Fence, Op};
use selvedge_core::rules::timer::Timer;
use selvedge_core::submission::When;
use selvedge_core::suspension::WaitDraft;
use selvedge_core::{ClassId, Draft, DueKind, Execution, ExecutionId, FailureClass, Name, Policy, State};
use std::collections::BTreeMap;

/// More rows than any sequence creates.
const ALL: u32 = 100_000;
/// After this time every gate that holds executions is due for a check, in milliseconds.
const EVERY_CHECK_MS: i64 = 61_000;
const LANES: [&str; 2] = ["default", "other"];
const BUDGETS: [&str; 2] = ["month", "year"];
const QUOTAS: [&str; 2] = ["calls", "mails"];
const KEYS: [&str; 2] = ["a", "b"];

/// A store, and the executions and leases that the commands created.
pub struct Walk {
    harness: Harness,
    executions: Vec<ExecutionId>,
    leases: Vec<Claimed>,
}

impl Walk {
    /// Returns a walk with no executions, in which every quota and every budget exists and limits nothing.
    pub async fn begin(harness: Harness) -> Self {
        let quotas = QUOTAS.map(|name| harness.quota(name)).into_iter();
        for gate in quotas.chain(BUDGETS.map(|name| harness.budget(name))) {
            harness.configure(&gate, Config::default()).await;
        }
        Walk { harness, executions: Vec::new(), leases: Vec::new() }
    }

    /// Runs one command. A refusal is ignored: the command has no effect.
    pub async fn run(&mut self, command: &GateCommand) -> Comparison {
        let harness = self.harness.clone();
        match command {
            GateCommand::Advance { ms } => harness.advance_past(*ms).await,
            GateCommand::Submit { specs } => return self.submit(specs).await,
            GateCommand::Claim { lanes, max } => return self.claim(*lanes, *max).await,
            GateCommand::Report { lease, report } => {
                if let Some(claimed) = pick(&self.leases, *lease) {
                    drop(harness.report(fence(claimed), op(*report)).await);
                }
            }
            GateCommand::Operate { execution, action } => {
                if let Some(id) = pick(&self.executions, *execution) {
                    drop(harness.operate(*id, core_action(*action)).await);
                }
            }
            GateCommand::ExpireLease { lease } => {
                if let Some(claimed) = pick(&self.leases, *lease) {
                    harness.tick(claimed.execution.id, Timer::LeaseExpiry).await;
                }
            }
            GateCommand::PassStartBy { execution } => {
                if let Some(id) = pick(&self.executions, *execution) {
                    harness.tick(*id, Timer::Due(DueKind::Deadline)).await;
                }
            }
            GateCommand::Spend { budget, count, execution } => {
                let by = execution.and_then(|index| pick(&self.executions, index)).copied();
                drop(harness.run(harness.spend_command(BUDGETS[*budget], tokens(*count), by)).await);
            }
            GateCommand::Quota { quota, limits } => {
                let config = limits.map(limit_config);
                drop(harness.try_configure(&harness.quota(QUOTAS[*quota]), config).await);
            }
            GateCommand::Lane { lane, limits, paused, weight } => {
                let state = if *paused { LaneState::Paused } else { LaneState::Active };
                let config = limits.map(|limits| Config { state, weight: *weight, ..limit_config(limits) });
                drop(harness.try_configure(&harness.lane(LANES[*lane]), config).await);
            }
            GateCommand::Budget { budget, config } => {
                let whole = harness.budget(BUDGETS[*budget]);
                drop(harness.try_configure(&whole, config.map(budget_config)).await);
                self.check_parts(&whole).await;
            }
            GateCommand::Reset { budget } => {
                let gate = harness.budget(BUDGETS[*budget]);
                let actor = Name::trusted("operator");
                drop(harness.run(selvedge_core::rules::gates::budget::Reset { gate, actor }).await);
            }
            GateCommand::CheckDue => harness.check_due_gates().await,
        }
        Ok(())
    }

    /// Submits executions, and checks that exactly those are refused that name a quota or a budget which does not exist.
    async fn submit(&mut self, specs: &[DrawSpec]) -> Comparison {
        let mut missing: Vec<GateName> = Vec::new();
        for name in QUOTAS
            .map(|name| self.harness.quota(name))
            .into_iter()
            .chain(BUDGETS.map(|name| self.harness.budget(name)))
        {
            if self.harness.gate(&name).await.config.is_none() {
                missing.push(name);
            }
        }
        let drafts: Vec<Draft> = specs.iter().map(draft).collect();
        let replies = self.harness.run(self.harness.submit_command(drafts.clone()).await).await;
        for (draft, reply) in drafts.into_iter().zip(replies) {
            let RequiredGates { budgets, quotas, .. } = draft.required_gates;
            let budgets = budgets.into_iter().map(|(name, _)| self.harness.named(GateKind::Budget, &name));
            let quotas = quotas.into_iter().map(|name| self.harness.named(GateKind::Quota, &name));
            let names_missing = budgets.chain(quotas).any(|name| missing.contains(&name));
            match reply {
                Ok(submitted) if !names_missing => self.executions.push(submitted.execution.id),
                Err(refusal) if names_missing && refusal.code().starts_with("unknown_") => {}
                reply => return Err(format!("{missing:?} do not exist, and the answer is {reply:?}")),
            }
        }
        Ok(())
    }

    async fn check_parts(&self, whole: &GateName) {
        for part in self.harness.store.parts_of(whole, ALL).await.expect("parts are read") {
            self.harness.check_gate(&part.name).await;
        }
    }

    /// Claims, and checks that no gate admitted more than its limit.
    async fn claim(&mut self, lanes: usize, max: u32) -> Comparison {
        let lanes = [&LANES[..1], &LANES[1..], &LANES[..]][lanes - 1];
        let worker = Worker { ttl_ms: 1, ..Worker::new("one").on(lanes) };
        let before = self.rows().await;
        let claimed = self.harness.claim_as(&worker, max).await;
        let after = self.rows().await;
        self.leases.extend(claimed.iter().cloned());
        let active = |rows: &[Execution], required_gates: &dyn Fn(&Execution) -> bool| {
            rows.iter().filter(|row| row.state.lease().is_some() && required_gates(row)).count() as u32
        };
        let mut limits: Vec<(String, u32, u32, u32)> = Vec::new();
        for quota in QUOTAS.map(|name| self.harness.quota(name)) {
            let limit = self.harness.gate(&quota).await.config.and_then(|config| config.concurrency);
            let required_gates = |row: &Execution| row.spec.required_gates.quotas.contains(&quota.name);
            let counts = (active(&before, &required_gates), active(&after, &required_gates));
            limits.extend(limit.map(|limit| (quota.to_string(), counts.0, counts.1, limit)));
        }
        for one in &claimed {
            let Some((key, limit)) = &one.execution.spec.required_gates.concurrency else { continue };
            let required_gates = |row: &Execution| {
                row.spec.required_gates.concurrency.as_ref().is_some_and(|(own, _)| own == key)
            };
            // Other executions of the same claim may bring a higher limit.
            let most =
                claimed.iter().filter_map(|one| one.execution.spec.required_gates.concurrency.as_ref());
            let most = most.filter(|(own, _)| own == key).map(|(_, limit)| *limit).max().unwrap_or(*limit);
            limits.push((
                format!("key {key}"),
                active(&before, &required_gates),
                active(&after, &required_gates),
                most,
            ));
        }
        for lane in LANES.map(|name| self.harness.lane(name)) {
            let gate = self.harness.gate(&lane).await;
            let Some(config) = gate.config else { continue };
            // Executions that were active when the limit was set count, too.
            let classes = self.classes_of(&lane.name).await;
            let counts = |row: &Execution| classes.contains(&row.class);
            let counts = (active(&before, &counts), active(&after, &counts));
            limits.extend(config.concurrency.map(|limit| (lane.to_string(), counts.0, counts.1, limit)));
            if config.state == LaneState::Paused && counts.1 > counts.0 {
                return Err(format!("{lane} is paused and admitted an execution"));
            }
        }
        for (gate, before, after, limit) in limits {
            if after > limit.max(before) {
                return Err(format!("{gate} allows {limit}; {before} executions were active, now {after}"));
            }
        }
        self.check_budgets(&claimed).await
    }

    /// Checks that the reservations of these claims are within the limits of their budgets.
    async fn check_budgets(&self, claimed: &[Claimed]) -> Comparison {
        let mut reserved: BTreeMap<GateName, Amounts> = BTreeMap::new();
        for one in claimed {
            let required_gates =
                one.execution.spec.required_gates.budgets.iter().zip(&one.execution.detail.slots.parts);
            for ((name, reserve), part) in required_gates {
                let gate = GateName { part: part.clone(), ..self.harness.named(GateKind::Budget, name) };
                add(reserved.entry(gate).or_default(), reserve);
            }
        }
        for (name, by_claims) in reserved {
            let whole = self.harness.gate(&GateName { part: None, ..name.clone() }).await;
            let Some(limit) = whole.config.and_then(|config| config.limits.get("tokens").copied()) else {
                continue;
            };
            let Some(hard) = limit.hard else { continue };
            let state = self.harness.gate(&name).await.state;
            let of = |amounts: &Amounts| amounts.get("tokens").copied().unwrap_or_default();
            if of(&state.used) + of(&state.reserved) > hard || hard.is_zero() {
                return Err(format!("{name} allows {hard}, has {state:?}, and admitted {by_claims:?}"));
            }
        }
        Ok(())
    }

    /// Returns the classes of the executions in a lane.
    async fn classes_of(&self, lane: &str) -> Vec<ClassId> {
        vec![self.harness.class(lane, "kind").await]
    }

    async fn rows(&self) -> Vec<Execution> {
        let all = Filter::all(self.harness.namespace);
        let listed = self.harness.store.list(&all, None, ALL, Payloads::NONE).await;
        let listed = listed.expect("executions are listed").rows;
        listed.into_iter().map(|stored| stored.execution).collect()
    }

    /// Lets time pass without claims, then checks that each held execution is still refused by its gate.
    pub async fn check_releases(&self) -> Comparison {
        let harness = &self.harness;
        if !harness.has_manual_clock() {
            return Ok(());
        }
        harness.advance_past(EVERY_CHECK_MS).await;
        // A rate of one releases one execution per window.
        let held = self.rows().await.iter().filter(|row| row.state.gate().is_some()).count();
        for _ in 0..10 + held {
            harness.check_due_gates().await;
            harness.advance_past(WINDOW_MS).await;
        }
        // Promises that ended with the last step are over only when their gates have been checked.
        harness.check_due_gates().await;
        let now = harness.now().await;
        for row in self.rows().await {
            let Some(name) = row.state.gate() else { continue };
            let config =
                harness.gate(&GateName { part: None, ..name.clone() }).await.config.unwrap_or_default();
            let gate = harness.gate(name).await;
            let required_gates = &row.spec.required_gates;
            let refused = match name.kind {
                GateKind::Fair => gate.active > 0,
                GateKind::Lane => false,
                GateKind::Quota => gate.refuses(&config, None, Some(row.id), now).is_some(),
                GateKind::Key => {
                    let own = required_gates.concurrency.as_ref().map(|(_, limit)| *limit);
                    gate.refuses(&config, own, Some(row.id), now).is_some()
                }
                GateKind::Budget => {
                    let reserve = required_gates.budgets.iter().find(|(budget, _)| *budget == name.name);
                    let reserve = reserve.map(|(_, reserve)| reserve.clone()).unwrap_or_default();
                    // An execution held by a part that is no longer counted separately is released regardless of the
                    // part.
                    (config.scope == BudgetScope::Namespace) == name.part.is_none()
                        && gate.refuses_to_spend(&config.limits, &reserve, Some(row.id), now).is_some()
                }
            };
            if !refused {
                return Err(format!(
                    "{} stays held by {gate:?} with {config:?}, which would admit it",
                    row.id
                ));
            }
        }
        Ok(())
    }

    /// Removes all limits and checks that every execution ends. Suspended and delayed ones are resumed by an operator.
    pub async fn drain(&mut self) -> Comparison {
        let harness = self.harness.clone();
        let gates =
            LANES.map(|name| harness.lane(name)).into_iter().chain(QUOTAS.map(|name| harness.quota(name)));
        let gates: Vec<GateName> = gates.chain(BUDGETS.map(|name| harness.budget(name))).collect();
        for gate in &gates {
            drop(harness.try_configure(gate, None).await);
            self.check_parts(gate).await;
        }
        let worker = Worker::new("last").on(&LANES);
        for _ in 0..400 {
            let rows = self.rows().await;
            if rows.iter().all(|row| row.state.outcome().is_some()) {
                return self.check_gates_deleted(rows).await;
            }
            for row in &rows {
                match &row.state {
                    State::Active(_) => {
                        let fence = Fence::of(row).ok_or("an active execution has no lease")?;
                        let op = Op::Complete { result: "1".into() };
                        harness.report(fence, op).await.map_err(|refusal| format!("{refusal:?}"))?;
                    }
                    State::Suspended(_) => drop(harness.operate(row.id, Action::Resume).await),
                    State::Delayed { .. } => {
                        drop(harness.operate(row.id, core_action(OperatorAction::RescheduleNow)).await)
                    }
                    State::Held(gate) if !harness.has_manual_clock() => drop(harness.check_gate(gate).await),
                    State::Held(_) | State::WaitingDependencies | State::Waiting | State::Terminal(_) => {}
                }
            }
            if harness.has_manual_clock() {
                harness.advance_past(WINDOW_MS).await;
                harness.check_due_gates().await;
            }
            harness.claim_as(&worker, 100).await;
        }
        let live: Vec<Execution> =
            self.rows().await.into_iter().filter(|row| row.state.outcome().is_none()).collect();
        let mut gates = Vec::new();
        for name in live.iter().filter_map(|row| row.state.gate()) {
            gates.push(harness.find_gate(name).await);
        }
        let live: Vec<(ExecutionId, State)> = live.into_iter().map(|row| (row.id, row.state)).collect();
        Err(format!("these never end: {live:?}, with the gates {gates:?}"))
    }

    /// Checks that gates which count nothing have no row. Budgets are excluded: their row keeps the period.
    async fn check_gates_deleted(&self, rows: Vec<Execution>) -> Comparison {
        let mut names: Vec<GateName> = KEYS.map(|name| self.harness.key(name)).to_vec();
        names.extend(QUOTAS.map(|name| self.harness.quota(name)));
        names.extend(LANES.map(|name| self.harness.lane(name)));
        names.extend(rows.iter().filter_map(selvedge_core::gate::draws::fairness_line_of));
        for name in names {
            // On the system clock no gate has become due for its check yet.
            if !self.harness.has_manual_clock() {
                self.harness.check_gate(&name).await;
            }
            if let Some(gate) = self.harness.find_gate(&name).await {
                return Err(format!("{name} still has a row: {gate:?}"));
            }
        }
        Ok(())
    }
}

fn pick<T>(all: &[T], index: usize) -> Option<&T> {
    all.get(index.checked_rem(all.len())?)
}

fn draft(spec: &DrawSpec) -> Draft {
    let quotas = QUOTAS
        .iter()
        .zip(spec.quotas)
        .filter(|(_, required_gates)| *required_gates)
        .map(|(name, _)| Name::trusted(name));
    let start_by_ms = spec.start_by.then_some(WINDOW_MS);
    Draft {
        lane: LANES[spec.lane].into(),
        priority: spec.priority,
        policy: Policy { start_by_ms, ..Policy::default() },
        required_gates: RequiredGates {
            budgets: spec
                .budget
                .map(|(index, reserve)| (Name::trusted(BUDGETS[index]), tokens(reserve)))
                .into_iter()
                .collect(),
            quotas: quotas.collect(),
            concurrency: spec.key.map(|(index, limit)| (Name::trusted(KEYS[index]), limit)),
            fairness_key: spec.fair.map(|index| Name::trusted(KEYS[index])),
        },
        ..Draft::new("kind")
    }
}

fn limit_config(limits: Limits) -> Config {
    let rate = limits.rate.map(|count| Rate { count, window_ms: WINDOW_MS });
    Config { concurrency: limits.concurrency, rate, ..Config::default() }
}

fn budget_config(spec: BudgetSpec) -> Config {
    let BudgetSpec { hard, scope, on_hard, period } = spec;
    Config { scope, on_hard, period_ms: period.then_some(WINDOW_MS), ..token_limit(hard) }
}

fn op(report: ReportKind) -> Op {
    let fail = |class| Op::Fail { message: "it broke".into(), class, retry_after_ms: Some(0) };
    match report {
        ReportKind::Complete => Op::Complete { result: "1".into() },
        ReportKind::Fail => fail(FailureClass::Permanent),
        ReportKind::Retry => fail(FailureClass::Transient),
        ReportKind::Delay => Op::Delay { until: When::AfterMs(WINDOW_MS) },
        ReportKind::Release => Op::Release,
        ReportKind::Suspend => suspend(vec![WaitDraft::new(on_signal("go"))], vec![]),
    }
}

fn core_action(action: OperatorAction) -> Action {
    match action {
        OperatorAction::Cancel => Action::Cancel { reason: None, grace_ms: 0 },
        OperatorAction::Revoke => Action::Revoke { reason: None },
        OperatorAction::RescheduleNow => Action::Reschedule { until: When::AfterMs(0) },
        OperatorAction::RescheduleLater => Action::Reschedule { until: When::AfterMs(WINDOW_MS) },
        OperatorAction::Prioritise(priority) => Action::Prioritise { priority },
        OperatorAction::Replay => Action::Replay,
        OperatorAction::Resume => Action::Resume,
    }
}
