//! The commands of the execution model, and the generator of random sequences.

use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use selvedge_core::rule::{Phase, Rule};
use selvedge_core::rules::operator::Operate;
use selvedge_core::rules::report::Report;
use selvedge_core::rules::signal::Deliver;
use selvedge_core::rules::submit::Submit;
use selvedge_core::rules::timer::FireTimer;
use selvedge_core::rules::waitpoint::RotateTokenKeys;
use selvedge_core::rules::worker::{Drain, PutBack};
use selvedge_core::step::StepKind;
use selvedge_core::suspension::{Distinct, OnTimeout};
use selvedge_core::{DueKind, FailureClass};

/// Two hours: on the system clock this never passes within a test.
pub const LONG_MS: i64 = 7_200_000;

/// One step of a sequence. Numbers choose among the existing executions, leases and reports.
#[derive(Clone, Debug)]
pub enum ScriptStep {
    /// Advances the clock.
    Advance { ms: i64 },
    /// Claims as a worker, from one lane or both.
    Claim { worker: usize, both_lanes: bool, max: u32 },
    /// Sends a heartbeat. The bits of `named` choose the leases that it names, which may include another worker's.
    Heartbeat { worker: usize, named: u8 },
    /// Announces that a worker departs; its leases are put back.
    Depart { worker: usize },
    /// Begins a new incarnation of a worker, whose predecessor's leases are put back; with `late`, the predecessor tries to
    /// begin again.
    Restart { worker: usize, late: bool },
    /// Deletes an execution if its retention is over.
    Delete { execution: usize },
    /// Runs commands in one transaction.
    Batch(Vec<ModelCommand>),
}

/// A command that may share its transaction with others.
#[derive(Clone, Debug)]
pub enum ModelCommand {
    Submit {
        id: Option<u8>,
        content: Content,
    },
    /// Repeats the content of an earlier submission, with its id or without.
    SubmitAgain {
        earlier: usize,
        same_id: bool,
    },
    Report {
        lease: usize,
        defect: FenceDefect,
        op_id: Option<u8>,
        op: ReportSpec,
    },
    /// Repeats an earlier report.
    Repeat {
        report: usize,
    },
    PutBack {
        lease: usize,
        orphaned: bool,
    },
    Operate {
        execution: usize,
        action: OperatorAction,
        expect: ExpectedVersion,
    },
    ExpireLease {
        execution: usize,
    },
    Due {
        execution: usize,
        kind: DueKind,
    },
    Drain {
        worker: usize,
    },
    /// Sends a signal as a caller.
    Signal {
        execution: usize,
        source: u8,
        sent: SignalSpec,
    },
    /// Delivers a signal with the token of a waitpoint, which may be altered.
    Deliver {
        token: usize,
        altered: bool,
        named: bool,
        sent: SignalSpec,
    },
    /// Answers a waitpoint as an operator.
    Answer {
        execution: usize,
        waitpoint: usize,
        named: bool,
        sent: SignalSpec,
    },
    /// Rotates the key of tokens.
    Rotate {
        grace_ms: i64,
    },
}

impl ModelCommand {
    /// Returns the phase of its transaction in which the command is decided.
    pub fn phase(&self) -> Phase {
        match self {
            ModelCommand::Submit { .. } | ModelCommand::SubmitAgain { .. } => Submit::PHASE,
            ModelCommand::Report { .. } | ModelCommand::Repeat { .. } => Report::PHASE,
            ModelCommand::PutBack { .. } => PutBack::PHASE,
            ModelCommand::Operate { .. } => Operate::PHASE,
            ModelCommand::ExpireLease { .. } | ModelCommand::Due { .. } => FireTimer::PHASE,
            ModelCommand::Drain { .. } => Drain::PHASE,
            ModelCommand::Signal { .. } | ModelCommand::Deliver { .. } | ModelCommand::Answer { .. } => {
                Deliver::PHASE
            }
            ModelCommand::Rotate { .. } => RotateTokenKeys::PHASE,
        }
    }
}

/// A signal without its source.
#[derive(Clone, Copy, Debug)]
pub struct SignalSpec {
    pub name: u8,
    pub key: Option<u8>,
    pub payload: u8,
}

/// The content of a submission, without its id.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    pub second_lane: bool,
    pub priority: i16,
    pub idempotency: Option<(u8, i64)>,
    pub unique: Option<u8>,
    /// The key, the delay and the maximum of a debounce.
    pub debounce: Option<(u8, i64, Option<i64>)>,
    pub delay_ms: Option<i64>,
    pub max_retries: u32,
    pub max_interruptions: u32,
    pub retry_permanent: bool,
    pub backoff_ms: i64,
    pub attempt_timeout_ms: Option<i64>,
    pub deadline_ms: Option<i64>,
    pub start_by_ms: Option<i64>,
    pub retention_ms: i64,
}

/// The defect of a fence: the field that is wrong.
#[derive(Clone, Copy, Debug)]
pub enum FenceDefect {
    None,
    Epoch,
    Attempt,
    Lease,
    Execution,
}

/// A report of a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportSpec {
    Complete(u8),
    Fail { class: FailureClass, message: u8, retry_after_ms: Option<i64> },
    Progress(u8),
    Delay(i64),
    Release,
    Cancelled,
    Suspend { waits: Vec<WaitSpec>, waitpoints: Vec<WaitpointSpec> },
    Waitpoint(WaitpointSpec),
    Step { name: u8, kind: StepKind, result: u8 },
}

/// A wait of a suspension.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitSpec {
    pub step: Option<(u8, StepKind)>,
    pub condition: ConditionSpec,
    pub timeout_ms: Option<i64>,
    pub on_timeout: OnTimeout,
}

/// The resume condition of a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum ConditionSpec {
    Signal(u8),
    Any(Vec<ConditionSpec>),
    All(Vec<ConditionSpec>),
    Count { n: u32, of: Vec<u8>, distinct: Distinct },
    Until(i64),
    Operator,
    Children,
}

/// A waitpoint to create.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitpointSpec {
    pub name: u8,
    pub source: Option<u8>,
    pub expires_ms: Option<i64>,
    pub signals: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
pub enum OperatorAction {
    Cancel { grace_ms: i64 },
    Revoke,
    Prioritise(i16),
    Reschedule(i64),
    Replay,
    Tag { name: u8, value: Option<u8> },
    Resume,
    RevokeWaitpoint(usize),
    ReissueWaitpoint { waitpoint: usize, expires_ms: Option<i64> },
}

/// The version that an operator expects.
#[derive(Clone, Copy, Debug)]
pub enum ExpectedVersion {
    Any,
    Current,
    Another,
}

/// Generates a duration: of any length on a manual clock, else zero or longer than any test.
fn duration(manual: bool) -> BoxedStrategy<i64> {
    match manual {
        true => prop_oneof![Just(0_i64), Just(1), Just(40), Just(700), Just(5_000), Just(LONG_MS)].boxed(),
        false => prop_oneof![Just(0_i64), Just(LONG_MS)].boxed(),
    }
}

fn positive(manual: bool) -> BoxedStrategy<i64> {
    match manual {
        true => prop_oneof![Just(1_i64), Just(300), Just(LONG_MS)].boxed(),
        false => Just(LONG_MS).boxed(),
    }
}

fn content(manual: bool) -> impl Strategy<Value = Content> {
    let ms = move || duration(manual);
    let sorting = (any::<bool>(), -1_i16..=1);
    let keys = (weighted(0.3, (0..3_u8, ms())), weighted(0.2, 0..2_u8));
    let debounce = (0..2_u8, positive(manual), weighted(0.5, positive(manual)));
    let delays = (weighted(0.3, ms()), weighted(0.2, debounce));
    let retries = (0..3_u32, 0..4_u32, any::<bool>(), ms());
    let limits = (weighted(0.3, positive(manual)), weighted(0.2, ms()), weighted(0.2, ms()), ms());
    (sorting, keys, delays, retries, limits).prop_map(
        |((second_lane, priority), (idempotency, unique), (delay_ms, debounce), retries, limits)| Content {
            second_lane,
            priority,
            idempotency,
            unique: unique.filter(|_| debounce.is_none()),
            debounce: debounce.map(|(key, delay, max)| (key, delay, max.map(|max| max.max(delay)))),
            delay_ms: delay_ms.filter(|_| debounce.is_none()),
            max_retries: retries.0,
            max_interruptions: retries.1,
            retry_permanent: retries.2,
            backoff_ms: retries.3,
            attempt_timeout_ms: limits.0,
            deadline_ms: limits.1,
            start_by_ms: limits.2,
            retention_ms: limits.3,
        },
    )
}

fn submit(manual: bool) -> impl Strategy<Value = ModelCommand> {
    (weighted(0.3, 0..3_u8), content(manual)).prop_map(|(id, content)| ModelCommand::Submit { id, content })
}

fn op(manual: bool) -> impl Strategy<Value = ReportSpec> {
    let class = select(FailureClass::ALL.to_vec());
    prop_oneof![
        2 => (0..2_u8).prop_map(ReportSpec::Complete),
        4 => (class, 0..2_u8, weighted(0.3, duration(manual)))
            .prop_map(|(class, message, retry_after_ms)| ReportSpec::Fail { class, message, retry_after_ms }),
        2 => (0..3_u8).prop_map(ReportSpec::Progress),
        2 => duration(manual).prop_map(ReportSpec::Delay),
        2 => Just(ReportSpec::Release),
        2 => Just(ReportSpec::Cancelled),
        12 => (waits(manual), vec(point(manual), 0..3))
            .prop_map(|(waits, waitpoints)| ReportSpec::Suspend { waits, waitpoints }),
        3 => point(manual).prop_map(ReportSpec::Waitpoint),
        3 => (0..5_u8, select(vec![StepKind::Step, StepKind::Step, StepKind::Wait]), 0..2_u8)
            .prop_map(|(name, kind, result)| ReportSpec::Step { name, kind, result }),
    ]
}

/// Generates a name. Signals, waitpoints and conditions share a few names.
fn name() -> std::ops::Range<u8> {
    0..3
}

fn leaf(manual: bool) -> impl Strategy<Value = ConditionSpec> {
    let count = (1..3_u32, 0..2_u8, 1..3_u8, select(Distinct::ALL.to_vec()));
    prop_oneof![
        8 => name().prop_map(ConditionSpec::Signal),
        4 => count.prop_map(|(n, first, names, distinct)| {
            let of: Vec<u8> = (first..first + names).collect();
            let most = if distinct == Distinct::Sources { n } else { n.min(names.into()) };
            ConditionSpec::Count { n: most, of, distinct }
        }),
        2 => duration(manual).prop_map(ConditionSpec::Until),
        1 => Just(ConditionSpec::Operator),
        1 => Just(ConditionSpec::Children),
    ]
}

fn condition(manual: bool) -> impl Strategy<Value = ConditionSpec> {
    leaf(manual).prop_recursive(3, 8, 3, |part| {
        prop_oneof![
            vec(part.clone(), 1..3).prop_map(ConditionSpec::Any),
            vec(part, 1..4).prop_map(ConditionSpec::All)
        ]
    })
}

/// Generates one or two waits. The waits of one suspension have different steps.
fn waits(manual: bool) -> impl Strategy<Value = Vec<WaitSpec>> {
    let kind = select(vec![StepKind::Wait, StepKind::Wait, StepKind::Sleep]);
    let step = weighted(0.6, (0..2_u8, kind));
    let timeout_ms = prop_oneof![1 => Just(0), 2 => duration(manual)];
    let timeout = (weighted(0.7, timeout_ms), select(OnTimeout::ALL.to_vec()));
    let wait = (step, condition(manual), timeout);
    vec(wait, 1..3).prop_map(|waits| {
        let waits = waits.into_iter().enumerate();
        let made = waits.map(|(index, (step, condition, (timeout_ms, on_timeout)))| WaitSpec {
            step: step.map(|(name, kind)| (2 * index as u8 + name, kind)),
            condition,
            timeout_ms,
            on_timeout,
        });
        made.collect()
    })
}

fn point(manual: bool) -> impl Strategy<Value = WaitpointSpec> {
    let signals = weighted(0.5, vec(name(), 1..3));
    (name(), weighted(0.3, 0..2_u8), weighted(0.5, duration(manual)), signals)
        .prop_map(|(name, source, expires_ms, signals)| WaitpointSpec { name, source, expires_ms, signals })
}

fn sent() -> impl Strategy<Value = SignalSpec> {
    (name(), weighted(0.3, 0..3_u8), 0..2_u8).prop_map(|(name, key, payload)| SignalSpec {
        name,
        key,
        payload,
    })
}

fn defect() -> impl Strategy<Value = FenceDefect> {
    prop_oneof![
        12 => Just(FenceDefect::None),
        1 => Just(FenceDefect::Epoch),
        1 => Just(FenceDefect::Attempt),
        1 => Just(FenceDefect::Lease),
        1 => Just(FenceDefect::Execution),
    ]
}

fn action(manual: bool) -> impl Strategy<Value = OperatorAction> {
    prop_oneof![
        3 => duration(manual).prop_map(|grace_ms| OperatorAction::Cancel { grace_ms }),
        2 => Just(OperatorAction::Revoke),
        2 => (-1_i16..=1).prop_map(OperatorAction::Prioritise),
        2 => duration(manual).prop_map(OperatorAction::Reschedule),
        3 => Just(OperatorAction::Replay),
        2 => (0..2_u8, of(0..2_u8)).prop_map(|(name, value)| OperatorAction::Tag { name, value }),
        3 => Just(OperatorAction::Resume),
        2 => (0..8_usize).prop_map(OperatorAction::RevokeWaitpoint),
        2 => (0..8_usize, weighted(0.5, duration(manual))).prop_map(|(waitpoint, expires_ms)| {
            OperatorAction::ReissueWaitpoint { waitpoint, expires_ms }
        }),
    ]
}

fn expect() -> impl Strategy<Value = ExpectedVersion> {
    prop_oneof![6 => Just(ExpectedVersion::Any), 1 => Just(ExpectedVersion::Current), 1 => Just(ExpectedVersion::Another)]
}

fn command(manual: bool) -> impl Strategy<Value = ModelCommand> {
    let kind = select(vec![
        DueKind::Delay,
        DueKind::Deadline,
        DueKind::AttemptTimeout,
        DueKind::SuspensionTimeout,
        DueKind::SuspensionTimeout,
        DueKind::WaitpointExpiry,
    ]);
    let index = || 0..64_usize;
    prop_oneof![
        5 => submit(manual),
        3 => (index(), any::<bool>())
            .prop_map(|(earlier, same_id)| ModelCommand::SubmitAgain { earlier, same_id }),
        10 => (index(), defect(), weighted(0.3, 0..3_u8), op(manual))
            .prop_map(|(lease, defect, op_id, op)| ModelCommand::Report { lease, defect, op_id, op }),
        3 => index().prop_map(|report| ModelCommand::Repeat { report }),
        1 => (index(), any::<bool>()).prop_map(|(lease, orphaned)| ModelCommand::PutBack { lease, orphaned }),
        6 => (index(), action(manual), expect())
            .prop_map(|(execution, action, expect)| ModelCommand::Operate { execution, action, expect }),
        8 => index().prop_map(|execution| ModelCommand::ExpireLease { execution }),
        10 => (index(), kind).prop_map(|(execution, kind)| ModelCommand::Due { execution, kind }),
        12 => (index(), 0..2_u8, sent())
            .prop_map(|(execution, source, sent)| ModelCommand::Signal { execution, source, sent }),
        5 => (index(), (0..8_u8).prop_map(|number| number == 0), any::<bool>(), sent())
            .prop_map(|(token, altered, named, sent)| ModelCommand::Deliver { token, altered, named, sent }),
        3 => (index(), 0..8_usize, any::<bool>(), sent()).prop_map(|(execution, waitpoint, named, sent)| {
            ModelCommand::Answer { execution, waitpoint, named, sent }
        }),
        1 => duration(manual).prop_map(|grace_ms| ModelCommand::Rotate { grace_ms }),
    ]
}

fn step(manual: bool) -> impl Strategy<Value = ScriptStep> {
    let durations = prop_oneof![Just(1_i64), Just(39), Just(400), Just(1_500), Just(4_000), Just(LONG_MS)];
    let worker = || 0..super::reference::WORKERS;
    let batch = prop_oneof![
        4 => vec(command(manual), 1),
        2 => vec(command(manual), 2..5),
    ];
    let drain = worker().prop_map(|worker| ScriptStep::Batch(vec![ModelCommand::Drain { worker }]));
    prop_oneof![
        if manual { 12 } else { 1 } => durations.prop_map(|ms| ScriptStep::Advance { ms }),
        36 => (worker(), any::<bool>(), 1..5_u32)
            .prop_map(|(worker, both_lanes, max)| ScriptStep::Claim { worker, both_lanes, max }),
        14 => (worker(), any::<u8>()).prop_map(|(worker, named)| ScriptStep::Heartbeat { worker, named }),
        6 => (0..64_usize).prop_map(|execution| ScriptStep::Delete { execution }),
        60 => batch.prop_map(ScriptStep::Batch),
        1 => drain,
        1 => worker().prop_map(|worker| ScriptStep::Depart { worker }),
        1 => (worker(), any::<bool>()).prop_map(|(worker, late)| ScriptStep::Restart { worker, late }),
    ]
}

/// Generates random sequences, each of which starts with submissions. Sequences for a manual clock are longer, because
/// those run in memory.
pub fn steps(manual: bool) -> impl Strategy<Value = Vec<ScriptStep>> {
    let longest = if manual { 120 } else { 60 };
    let first = vec(submit(manual), 1..4).prop_map(ScriptStep::Batch);
    (first, vec(step(manual), 1..longest))
        .prop_map(|(first, rest)| std::iter::once(first).chain(rest).collect())
}
