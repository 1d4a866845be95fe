//! The steps of the model of gates, plain and small, and how random sequences of them are made.

use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use selvedge_core::gate::{BudgetScope, OnHard};

/// How long a delay is, and the window of a rate, where the clock can be moved.
pub const WINDOW_MS: i64 = 1_000;

/// One step of a sequence. Numbers choose among what there is.
#[derive(Clone, Debug)]
pub enum Step {
    Advance { ms: i64 },
    Submit { what: Vec<Spec> },
    Claim { lanes: usize, max: u32 },
    Report { lease: usize, how: How },
    Operate { execution: usize, what: Operation },
    Lapse { lease: usize },
    StartBy { execution: usize },
    Spend { budget: usize, count: u32, execution: Option<usize> },
    Quota { quota: usize, limits: Option<Limits> },
    Lane { lane: usize, limits: Option<Limits>, paused: bool, weight: Option<u32> },
    Budget { budget: usize, config: Option<BudgetSpec> },
    Reset { budget: usize },
    Look,
}

/// What one that is submitted draws on.
#[derive(Clone, Debug)]
pub struct Spec {
    pub lane: usize,
    pub priority: i64,
    pub key: Option<(usize, u32)>,
    pub quotas: [bool; 2],
    pub budget: Option<(usize, u32)>,
    pub fair: Option<usize>,
    pub start_by: bool,
}

/// How a lease ends.
#[derive(Clone, Copy, Debug)]
pub enum How {
    Complete,
    Fail,
    Retry,
    Delay,
    Release,
    Suspend,
}

/// What an operator does.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    Cancel,
    Revoke,
    Now,
    Later,
    Prioritise(i64),
    Replay,
    Resume,
}

/// So many at once, and so many starts in a window.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub at_once: Option<u32>,
    pub starts: Option<u32>,
}

/// What may be spent.
#[derive(Clone, Copy, Debug)]
pub struct BudgetSpec {
    pub hard: u32,
    pub scope: BudgetScope,
    pub on_hard: OnHard,
    pub period: bool,
}

fn spec() -> impl Strategy<Value = Spec> {
    let key = of((0..2_usize, 1..3_u32));
    let budget = weighted(0.7, (0..2_usize, 0..4_u32));
    (0..2_usize, 0..2_i64, key, any::<[bool; 2]>(), budget, of(0..2_usize), any::<bool>()).prop_map(
        |(lane, priority, key, quotas, budget, fair, start_by)| Spec {
            lane,
            priority,
            key,
            quotas,
            budget,
            fair,
            start_by,
        },
    )
}

fn limits() -> impl Strategy<Value = Limits> {
    (of(0..4_u32), of(0..4_u32)).prop_map(|(at_once, starts)| Limits { at_once, starts })
}

fn budget() -> impl Strategy<Value = BudgetSpec> {
    let scope = select(BudgetScope::ALL.to_vec());
    let on_hard = select(vec![OnHard::Hold, OnHard::Suspend, OnHard::Fail, OnHard::Suspend, OnHard::Fail]);
    (0..10_u32, scope, on_hard, any::<bool>()).prop_map(|(hard, scope, on_hard, period)| BudgetSpec {
        hard,
        scope,
        on_hard,
        period,
    })
}

/// Random sequences; for a store whose clock can be moved also through time.
pub fn steps(manual: bool) -> impl Strategy<Value = Vec<Step>> {
    let hows =
        vec![How::Complete, How::Complete, How::Fail, How::Retry, How::Delay, How::Release, How::Suspend];
    let operations = vec![
        Operation::Cancel,
        Operation::Revoke,
        Operation::Now,
        Operation::Later,
        Operation::Prioritise(1),
        Operation::Prioritise(-1),
        Operation::Replay,
        Operation::Resume,
    ];
    let pick = || any::<usize>();
    let advance = if manual { 0..2 * WINDOW_MS } else { 0..1 };
    let step = prop_oneof![
        2 => advance.prop_map(|ms| Step::Advance { ms }),
        6 => vec(spec(), 1..5).prop_map(|what| Step::Submit { what }),
        6 => (1..4_usize, 1..5_u32).prop_map(|(lanes, max)| Step::Claim { lanes, max }),
        6 => (pick(), select(hows)).prop_map(|(lease, how)| Step::Report { lease, how }),
        3 => (pick(), select(operations)).prop_map(|(execution, what)| Step::Operate { execution, what }),
        1 => pick().prop_map(|lease| Step::Lapse { lease }),
        1 => pick().prop_map(|execution| Step::StartBy { execution }),
        4 => (0..2_usize, 0..10_u32, of(pick()))
            .prop_map(|(budget, count, execution)| Step::Spend { budget, count, execution }),
        2 => (0..2_usize, of(limits())).prop_map(|(quota, limits)| Step::Quota { quota, limits }),
        2 => (0..2_usize, of(limits()), any::<bool>(), of(1..3_u32))
            .prop_map(|(lane, limits, paused, weight)| Step::Lane { lane, limits, paused, weight }),
        2 => (0..2_usize, of(budget())).prop_map(|(budget, config)| Step::Budget { budget, config }),
        1 => (0..2_usize).prop_map(|budget| Step::Reset { budget }),
        4 => Just(Step::Look),
    ];
    vec(step, 1..60)
}
