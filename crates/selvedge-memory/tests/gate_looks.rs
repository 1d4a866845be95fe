//! Looks at gates that hold hundreds which ask for different things: whatever is given back, cancelled, raised or submitted while a
//! look is on its way, nobody is left behind whom the gate would let go on.

use selvedge_conformance::{Harness, invariants};
use selvedge_core::amount::Amount;
use selvedge_core::filter::Filter;
use selvedge_core::gate::{Amounts, Config, Draws, GateKind, GateName, Limit};
use selvedge_core::rules::claim::Claimed;
use selvedge_core::rules::operator::Action;
use selvedge_core::{Draft, Execution, Name, State, Timestamp};
use selvedge_memory::{Clock, MemoryStore};
use std::sync::Arc;

/// Numbers that look random, the same for the same seed.
struct Chance(u64);

impl Chance {
    /// One of `from` and what comes before `to`.
    fn of(&mut self, from: u32, to: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from + (self.0 >> 33) as u32 % (to - from)
    }
}

/// What one asks for: a limit of its own, or so many tokens.
#[derive(Clone, Copy)]
enum Asks {
    Limit,
    Tokens,
}

const HARD: u32 = 100;

fn tokens(count: u32) -> Amounts {
    [("tokens".to_owned(), Amount::whole(count))].into()
}

/// Most ask for much, some for little.
fn draft(asks: Asks, random: &mut Chance) -> Draft {
    let much = random.of(0, 10) > 0;
    let draws = match asks {
        Asks::Limit => {
            let limit = if much { random.of(1, 3) } else { random.of(3, 7) };
            Draws { concurrency: Some((Name::trusted("gate"), limit)), ..Draws::default() }
        }
        Asks::Tokens => {
            let reserve = if much { random.of(60, 110) } else { random.of(1, 30) };
            Draws { budgets: vec![(Name::trusted("gate"), tokens(reserve))], ..Draws::default() }
        }
    };
    Draft { draws, priority: random.of(0, 3).into(), ..Draft::new("kind") }
}

struct Walk {
    harness: Harness,
    clock: Clock,
    gate: GateName,
    leases: Vec<Claimed>,
    random: Chance,
    asks: Asks,
}

impl Walk {
    async fn begin(asks: Asks, seed: u64) -> Walk {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let harness = Harness::new(Arc::new(MemoryStore::with_clock(clock.clone()))).await;
        let kind = match asks {
            Asks::Limit => GateKind::Key,
            Asks::Tokens => GateKind::Budget,
        };
        let gate = GateName::new(harness.namespace, kind, Name::trusted("gate"));
        if kind == GateKind::Budget {
            let limit = Limit { hard: Some(Amount::whole(HARD)), soft: None };
            let config = Config { limits: [("tokens".to_owned(), limit)].into(), ..Config::default() };
            harness.configure(&gate, config).await;
        }
        let mut walk = Walk { harness, clock, gate, leases: Vec::new(), random: Chance(seed), asks };
        walk.submit(350).await;
        walk
    }

    async fn submit(&mut self, count: usize) {
        let drafts = (0..count).map(|_| draft(self.asks, &mut self.random)).collect();
        self.harness.submit_all(drafts).await;
    }

    async fn rows(&self) -> Vec<Execution> {
        let listed = self.harness.store.list(&Filter::all(self.harness.namespace), None, 100_000).await;
        listed.expect("they are listed").into_iter().map(|stored| stored.execution).collect()
    }

    async fn act_on_one_that_waits(&mut self, action: Action) {
        let waiting = |row: &Execution| matches!(row.state, State::Held(_) | State::Waiting);
        let rows: Vec<Execution> = self.rows().await.into_iter().filter(waiting).collect();
        if !rows.is_empty() {
            let id = rows[self.random.of(0, rows.len() as u32) as usize].id;
            self.harness.operate(id, action).await.expect("it waits");
        }
    }

    async fn step(&mut self) {
        match self.random.of(0, 20) {
            0..5 => {
                let max = self.random.of(1, 6);
                self.leases.extend(self.harness.claim(max).await);
            }
            5..10 => {
                if !self.leases.is_empty() {
                    let place = self.random.of(0, self.leases.len() as u32) as usize;
                    let lease = self.leases.swap_remove(place);
                    self.harness.complete(&lease, b"1").await;
                }
            }
            10 => self.act_on_one_that_waits(Action::Cancel { reason: None, grace_ms: 0 }).await,
            11 => {
                let priority = self.random.of(0, 3).into();
                self.act_on_one_that_waits(Action::Prioritise { priority }).await;
            }
            12 => {
                let count = self.random.of(1, 4) as usize;
                self.submit(count).await;
            }
            13 => {
                if let Asks::Tokens = self.asks {
                    let by = self.random.of(1, 40);
                    self.harness.spend("gate", by, None).await;
                }
            }
            14 => {
                if let Asks::Tokens = self.asks {
                    self.harness.reset(&self.gate).await;
                }
            }
            _ => {
                self.clock.advance_ms(self.random.of(0, 60).into());
                self.harness.look_at_due().await;
            }
        }
    }

    /// After so many looks, each that its gate would let go on was let go, or the gate is to be looked at within a second.
    async fn nobody_is_left_behind(&self, looks: usize) {
        for _ in 0..looks {
            self.clock.advance_ms(1000);
            self.harness.look_at_due().await;
        }
        let gate = self.harness.gate(&self.gate).await;
        let config = gate.config.clone().unwrap_or_default();
        let now = self.harness.now().await;
        let mut held = 0;
        for row in self.rows().await.iter().filter(|row| row.state.gate().is_some()) {
            let draws = &row.spec.draws;
            let own = draws.concurrency.as_ref().map(|(_, limit)| *limit);
            let refused = match draws.budgets.first() {
                None => gate.refuses(&config, own, now).is_some(),
                Some((_, reserve)) => gate.refuses_to_spend(&config.limits, reserve).is_some(),
            };
            let looked_at = gate.due_at.is_some_and(|at| at <= now.plus_ms(1000));
            assert!(refused || looked_at, "{} asks for {draws:?}, and stays held by {gate:?}", row.id);
            held += 1;
        }
        assert_eq!(held, self.harness.held_by(&self.gate).await);
        let broken = invariants::check(&*self.harness.store).await;
        assert!(broken.is_empty(), "{broken:#?}");
    }
}

async fn walk(asks: Asks) {
    for seed in (0..6).chain([160]) {
        let mut walk = Walk::begin(asks, seed).await;
        for _ in 0..150 {
            walk.step().await;
        }
        println!("seed {seed}");
        walk.nobody_is_left_behind(0).await;
        walk.nobody_is_left_behind(20).await;
    }
}

#[tokio::test]
async fn nobody_is_left_behind_by_a_key_whose_holders_bring_different_limits() {
    walk(Asks::Limit).await;
}

#[tokio::test]
async fn nobody_is_left_behind_by_a_budget_of_which_some_ask_for_much_and_some_for_little() {
    walk(Asks::Tokens).await;
}
