//! The commands of the gate model, and the generator of random sequences.

use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use selvedge_core::gate::{BudgetScope, OnHard};

/// The length of delays, of rate windows and of budget periods, in milliseconds.
pub const WINDOW_MS: i64 = 1_000;

/// One command of a sequence. Numbers choose among the existing executions, leases and gates.
#[derive(Clone, Debug)]
pub enum GateCommand {
    Advance { ms: i64 },
    Submit { specs: Vec<DrawSpec> },
    Claim { lanes: usize, max: u32 },
    Report { lease: usize, report: ReportKind },
    Operate { execution: usize, action: OperatorAction },
    ExpireLease { lease: usize },
    PassStartBy { execution: usize },
    Spend { budget: usize, count: u32, execution: Option<usize> },
    Quota { quota: usize, limits: Option<Limits> },
    Lane { lane: usize, limits: Option<Limits>, paused: bool, weight: Option<u32> },
    Budget { budget: usize, config: Option<BudgetSpec> },
    Reset { budget: usize },
    CheckDue,
}

/// An execution to submit: its lane, its draws, and whether it has a start-by limit.
#[derive(Clone, Debug)]
pub struct DrawSpec {
    pub lane: usize,
    pub priority: i64,
    pub key: Option<(usize, u32)>,
    pub quotas: [bool; 2],
    pub budget: Option<(usize, u32)>,
    pub fair: Option<usize>,
    pub start_by: bool,
}

/// The report that ends a lease.
#[derive(Clone, Copy, Debug)]
pub enum ReportKind {
    Complete,
    Fail,
    Retry,
    Delay,
    Release,
    Suspend,
}

#[derive(Clone, Copy, Debug)]
pub enum OperatorAction {
    Cancel,
    Revoke,
    RescheduleNow,
    RescheduleLater,
    Prioritise(i64),
    Replay,
    Resume,
}

/// A limit of active executions, and a limit of starts in a window.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub concurrency: Option<u32>,
    pub rate: Option<u32>,
}

/// The configuration of a budget.
#[derive(Clone, Copy, Debug)]
pub struct BudgetSpec {
    pub hard: u32,
    pub scope: BudgetScope,
    pub on_hard: OnHard,
    pub period: bool,
}

fn spec() -> impl Strategy<Value = DrawSpec> {
    let key = of((0..2_usize, 1..3_u32));
    let budget = weighted(0.7, (0..2_usize, 0..4_u32));
    (0..2_usize, 0..2_i64, key, any::<[bool; 2]>(), budget, of(0..2_usize), any::<bool>()).prop_map(
        |(lane, priority, key, quotas, budget, fair, start_by)| DrawSpec {
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
    (of(0..4_u32), of(0..4_u32)).prop_map(|(concurrency, rate)| Limits { concurrency, rate })
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

/// Generates random sequences. Time passes only on a manual clock.
pub fn commands(manual: bool) -> impl Strategy<Value = Vec<GateCommand>> {
    let reports = vec![
        ReportKind::Complete,
        ReportKind::Complete,
        ReportKind::Fail,
        ReportKind::Retry,
        ReportKind::Delay,
        ReportKind::Release,
        ReportKind::Suspend,
    ];
    let actions = vec![
        OperatorAction::Cancel,
        OperatorAction::Revoke,
        OperatorAction::RescheduleNow,
        OperatorAction::RescheduleLater,
        OperatorAction::Prioritise(1),
        OperatorAction::Prioritise(-1),
        OperatorAction::Replay,
        OperatorAction::Resume,
    ];
    let pick = || any::<usize>();
    let advance = if manual { 0..2 * WINDOW_MS } else { 0..1 };
    let command = prop_oneof![
        2 => advance.prop_map(|ms| GateCommand::Advance { ms }),
        6 => vec(spec(), 1..5).prop_map(|specs| GateCommand::Submit { specs }),
        6 => (1..4_usize, 1..5_u32).prop_map(|(lanes, max)| GateCommand::Claim { lanes, max }),
        6 => (pick(), select(reports)).prop_map(|(lease, report)| GateCommand::Report { lease, report }),
        6 => (pick(), select(actions)).prop_map(|(execution, action)| GateCommand::Operate { execution, action }),
        1 => pick().prop_map(|lease| GateCommand::ExpireLease { lease }),
        1 => pick().prop_map(|execution| GateCommand::PassStartBy { execution }),
        4 => (0..2_usize, 0..10_u32, of(pick()))
            .prop_map(|(budget, count, execution)| GateCommand::Spend { budget, count, execution }),
        2 => (0..2_usize, of(limits())).prop_map(|(quota, limits)| GateCommand::Quota { quota, limits }),
        2 => (0..2_usize, of(limits()), any::<bool>(), of(1..3_u32))
            .prop_map(|(lane, limits, paused, weight)| GateCommand::Lane { lane, limits, paused, weight }),
        2 => (0..2_usize, of(budget())).prop_map(|(budget, config)| GateCommand::Budget { budget, config }),
        1 => (0..2_usize).prop_map(|budget| GateCommand::Reset { budget }),
        4 => Just(GateCommand::CheckDue),
    ];
    vec(command, 1..60)
}
