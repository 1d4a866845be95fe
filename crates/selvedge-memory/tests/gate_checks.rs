//! Checks of gates that hold hundreds of executions with different draws. Slots are given back and executions are
//! cancelled, reprioritised and submitted between the chunks of a check; no execution stays held that the gate would
//! admit.

use selvedge_conformance::{Harness, invariants};
use selvedge_core::amount::Amount;
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::gate::{Amounts, Config, GateKind, GateName, Limit, RequiredGates};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::operator::Action;
use selvedge_core::{Draft, Execution, Name, State, Timestamp};
use selvedge_memory::{Clock, MemoryStore};
use std::sync::Arc;

/// A pseudorandom generator with a fixed seed.
struct Random(u64);

impl Random {
    /// Returns a number from `from` up to but excluding `to`.
    fn range(&mut self, from: u32, to: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from + (self.0 >> 33) as u32 % (to - from)
    }
}

/// The draw of every execution: a concurrency key with a limit of its own, or tokens of a budget.
#[derive(Clone, Copy)]
enum Draw {
    Limit,
    Tokens,
}

const HARD: u32 = 100;

fn tokens(count: u32) -> Amounts {
    [("tokens".to_owned(), Amount::whole(count))].into()
}

/// Returns a draft. Most drafts are hard to admit (a small limit, many tokens), some are easy.
fn draft(draw: Draw, random: &mut Random) -> Draft {
    let hard = random.range(0, 10) > 0;
    let required_gates = match draw {
        Draw::Limit => {
            let limit = if hard { random.range(1, 3) } else { random.range(3, 7) };
            RequiredGates { concurrency: Some((Name::trusted("gate"), limit)), ..RequiredGates::default() }
        }
        Draw::Tokens => {
            let reserve = if hard { random.range(60, 110) } else { random.range(1, 30) };
            RequiredGates {
                budgets: vec![(Name::trusted("gate"), tokens(reserve))],
                ..RequiredGates::default()
            }
        }
    };
    Draft { required_gates, priority: random.range(0, 3).into(), ..Draft::new("kind") }
}

/// A random walk of commands on one gate.
struct Walk {
    harness: Harness,
    clock: Clock,
    gate: GateName,
    leases: Vec<Claimed>,
    random: Random,
    draw: Draw,
}

impl Walk {
    async fn begin(draw: Draw, seed: u64) -> Walk {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let harness = Harness::new(Arc::new(MemoryStore::with_clock(clock.clone()))).await;
        let kind = match draw {
            Draw::Limit => GateKind::Key,
            Draw::Tokens => GateKind::Budget,
        };
        let gate = GateName::new(harness.namespace, kind, Name::trusted("gate"));
        if kind == GateKind::Budget {
            let limit = Limit { hard: Some(Amount::whole(HARD)), soft: None };
            let config = Config { limits: [("tokens".to_owned(), limit)].into(), ..Config::default() };
            harness.configure(&gate, config).await;
        }
        let mut walk = Walk { harness, clock, gate, leases: Vec::new(), random: Random(seed), draw };
        walk.submit(350).await;
        walk
    }

    async fn submit(&mut self, count: usize) {
        let drafts = (0..count).map(|_| draft(self.draw, &mut self.random)).collect();
        self.harness.submit_all(drafts).await;
    }

    async fn rows(&self) -> Vec<Execution> {
        let all = Filter::all(self.harness.namespace);
        let listed = self.harness.store.list(&all, None, 100_000, Payloads::NONE).await;
        listed.expect("executions are listed").rows.into_iter().map(|stored| stored.execution).collect()
    }

    async fn operate_on_a_waiting_execution(&mut self, action: Action) {
        let waiting = |row: &Execution| matches!(row.state, State::Held(_) | State::Waiting);
        let rows: Vec<Execution> = self.rows().await.into_iter().filter(waiting).collect();
        if !rows.is_empty() {
            let id = rows[self.random.range(0, rows.len() as u32) as usize].id;
            self.harness.operate(id, action).await.expect("a waiting execution accepts it");
        }
    }

    async fn step(&mut self) {
        match self.random.range(0, 20) {
            0..5 => {
                let max = self.random.range(1, 6);
                self.leases.extend(self.harness.claim(max).await);
            }
            5..10 => {
                if !self.leases.is_empty() {
                    let place = self.random.range(0, self.leases.len() as u32) as usize;
                    let lease = self.leases.swap_remove(place);
                    self.harness.complete(&lease, b"1").await;
                }
            }
            10 => self.operate_on_a_waiting_execution(Action::Cancel { reason: None, grace_ms: 0 }).await,
            11 => {
                let priority = self.random.range(0, 3).into();
                self.operate_on_a_waiting_execution(Action::Prioritise { priority }).await;
            }
            12 => {
                let count = self.random.range(1, 4) as usize;
                self.submit(count).await;
            }
            13 => {
                if let Draw::Tokens = self.draw {
                    let by = self.random.range(1, 40);
                    self.harness.spend("gate", by, None).await;
                }
            }
            14 => {
                if let Draw::Tokens = self.draw {
                    self.harness.reset(&self.gate).await;
                }
            }
            _ => {
                self.clock.advance_ms(self.random.range(0, 60).into());
                self.harness.check_due_gates().await;
            }
        }
    }

    /// Checks due gates `times` times, then asserts that each held execution is refused by its gate, or the gate is due
    /// within a second.
    async fn assert_no_admissible_execution_stays_held(&self, times: usize) {
        for _ in 0..times {
            self.clock.advance_ms(1000);
            self.harness.check_due_gates().await;
        }
        let gate = self.harness.gate(&self.gate).await;
        let config = gate.config.clone().unwrap_or_default();
        let now = self.harness.now().await;
        let mut held = 0;
        for row in self.rows().await.iter().filter(|row| row.state.gate().is_some()) {
            let required_gates = &row.spec.required_gates;
            let own = required_gates.concurrency.as_ref().map(|(_, limit)| *limit);
            let refused = match required_gates.budgets.first() {
                None => gate.refuses(&config, own, Some(row.id), now).is_some(),
                Some((_, reserve)) => {
                    gate.refuses_to_spend(&config.limits, reserve, Some(row.id), now).is_some()
                }
            };
            let is_due = gate.due_at.is_some_and(|at| at <= now.plus_ms(1000));
            assert!(refused || is_due, "{} with {required_gates:?} stays held by {gate:?}", row.id);
            held += 1;
        }
        assert_eq!(held, self.harness.held_by(&self.gate).await);
        let violations = invariants::check(&*self.harness.store).await;
        assert!(violations.is_empty(), "{violations:#?}");
    }
}

async fn walk(draw: Draw) {
    for seed in (0..6).chain([160]) {
        let mut walk = Walk::begin(draw, seed).await;
        for _ in 0..150 {
            walk.step().await;
        }
        println!("seed {seed}");
        walk.assert_no_admissible_execution_stays_held(0).await;
        walk.assert_no_admissible_execution_stays_held(20).await;
    }
}

#[tokio::test]
async fn a_concurrency_key_with_different_limits_leaves_no_admissible_execution_held() {
    walk(Draw::Limit).await;
}

#[tokio::test]
async fn a_budget_with_large_and_small_reservations_leaves_no_admissible_execution_held() {
    walk(Draw::Tokens).await;
}
