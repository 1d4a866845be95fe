//! The commands of the model, plain and small, and how random sequences of them are made.

use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use selvedge_core::rule::{Phase, Rule};
use selvedge_core::rules::clock::Tick;
use selvedge_core::rules::operator::Operate;
use selvedge_core::rules::report::Report;
use selvedge_core::rules::signal::Deliver;
use selvedge_core::rules::submit::Submit;
use selvedge_core::rules::waitpoint::Rotate;
use selvedge_core::rules::worker::{Drain, PutBack};
use selvedge_core::step::StepKind;
use selvedge_core::suspension::{Distinct, OnTimeout};
use selvedge_core::{DueKind, FailureClass};

/// Two hours: on a clock that nobody moves this never passes within a test.
pub const LONG_MS: i64 = 7_200_000;

/// One step of a sequence.
#[derive(Clone, Debug)]
pub enum Step {
    /// Time passes.
    Advance { ms: i64 },
    /// A worker claims, from one lane or both.
    Claim { worker: usize, both_lanes: bool, max: u32 },
    /// A worker renews those of its leases whose bit is set, and names those of others whose bit is.
    Heartbeat { worker: usize, named: u8 },
    /// A worker says that it has gone; its leases are put back.
    Depart { worker: usize },
    /// Retention comes by for one execution.
    Delete { execution: usize },
    /// Commands that share a transaction.
    Together(Vec<Command>),
}

/// A command that may share its transaction.
#[derive(Clone, Debug)]
pub enum Command {
    Submit {
        id: Option<u8>,
        content: Content,
    },
    /// The same content as a submission before, with its id or without.
    SubmitAgain {
        earlier: usize,
        same_id: bool,
    },
    Report {
        lease: usize,
        spoil: Spoil,
        op_id: Option<u8>,
        op: Op,
    },
    /// The same report as one before.
    Repeat {
        report: usize,
    },
    PutBack {
        lease: usize,
        orphaned: bool,
    },
    Operate {
        execution: usize,
        action: Action,
        expect: Expect,
    },
    Lapse {
        execution: usize,
    },
    Due {
        execution: usize,
        kind: DueKind,
    },
    Drain {
        worker: usize,
    },
    /// A caller sends a signal.
    Signal {
        execution: usize,
        source: u8,
        sent: Sent,
    },
    /// Somebody delivers with the token of a waitpoint, which may be altered.
    Deliver {
        token: usize,
        altered: bool,
        named: bool,
        sent: Sent,
    },
    /// The key of tokens is changed.
    Rotate {
        grace_ms: i64,
    },
}

impl Command {
    /// When it is decided, relative to the others of its transaction.
    pub fn phase(&self) -> Phase {
        match self {
            Command::Submit { .. } | Command::SubmitAgain { .. } => Submit::PHASE,
            Command::Report { .. } | Command::Repeat { .. } => Report::PHASE,
            Command::PutBack { .. } => PutBack::PHASE,
            Command::Operate { .. } => Operate::PHASE,
            Command::Lapse { .. } | Command::Due { .. } => Tick::PHASE,
            Command::Drain { .. } => Drain::PHASE,
            Command::Signal { .. } | Command::Deliver { .. } => Deliver::PHASE,
            Command::Rotate { .. } => Rotate::PHASE,
        }
    }
}

/// A signal, but for who sends it.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub name: u8,
    pub key: Option<u8>,
    pub payload: u8,
}

/// What is submitted, but for its id.
#[derive(Clone, Debug, PartialEq)]
pub struct Content {
    pub second_lane: bool,
    pub priority: i16,
    pub idempotency: Option<(u8, i64)>,
    pub unique: Option<u8>,
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

/// What is wrong with a fence.
#[derive(Clone, Copy, Debug)]
pub enum Spoil {
    Nothing,
    Epoch,
    Attempt,
    Lease,
    Execution,
}

/// What a worker reports.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    Complete(u8),
    Fail { class: FailureClass, message: u8, retry_after_ms: Option<i64> },
    Progress(u8),
    Delay(i64),
    Release,
    Suspend { waits: Vec<Wait>, waitpoints: Vec<Point> },
    Waitpoint(Point),
    Step { name: u8, kind: StepKind, result: u8 },
}

/// A wait of a suspension.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    pub step: Option<(u8, StepKind)>,
    pub shape: Shape,
    pub timeout_ms: Option<i64>,
    pub on_timeout: OnTimeout,
}

/// What a wait waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Signal(u8),
    Any(Vec<Shape>),
    All(Vec<Shape>),
    Count { n: u32, of: Vec<u8>, distinct: Distinct },
    Until(i64),
    Operator,
    Children,
}

/// A waitpoint that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub name: u8,
    pub source: Option<u8>,
    pub expires_ms: Option<i64>,
}

/// What an operator does.
#[derive(Clone, Debug)]
pub enum Action {
    Cancel { grace_ms: i64 },
    Revoke,
    Prioritise(i16),
    Reschedule(i64),
    Replay,
    Tag { name: u8, value: Option<u8> },
    Resume,
    RevokeWaitpoint(usize),
}

/// Which version an operator expects.
#[derive(Clone, Copy, Debug)]
pub enum Expect {
    Any,
    Current,
    Another,
}

/// A duration: some of every length where the clock can be moved, else nothing or for ever.
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
    let retries = (0..3_u32, 0..4_u32, any::<bool>(), ms());
    let limits = (weighted(0.3, positive(manual)), weighted(0.2, ms()), weighted(0.2, ms()), ms());
    (sorting, keys, weighted(0.3, ms()), retries, limits).prop_map(
        |((second_lane, priority), (idempotency, unique), delay_ms, retries, limits)| Content {
            second_lane,
            priority,
            idempotency,
            unique,
            delay_ms,
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

fn submit(manual: bool) -> impl Strategy<Value = Command> {
    (weighted(0.3, 0..3_u8), content(manual)).prop_map(|(id, content)| Command::Submit { id, content })
}

fn op(manual: bool) -> impl Strategy<Value = Op> {
    let class = select(FailureClass::ALL.to_vec());
    prop_oneof![
        2 => (0..2_u8).prop_map(Op::Complete),
        4 => (class, 0..2_u8, weighted(0.3, duration(manual)))
            .prop_map(|(class, message, retry_after_ms)| Op::Fail { class, message, retry_after_ms }),
        2 => (0..3_u8).prop_map(Op::Progress),
        2 => duration(manual).prop_map(Op::Delay),
        2 => Just(Op::Release),
        12 => (waits(manual), vec(point(manual), 0..3))
            .prop_map(|(waits, waitpoints)| Op::Suspend { waits, waitpoints }),
        3 => point(manual).prop_map(Op::Waitpoint),
        3 => (0..5_u8, select(vec![StepKind::Step, StepKind::Step, StepKind::Wait]), 0..2_u8)
            .prop_map(|(name, kind, result)| Op::Step { name, kind, result }),
    ]
}

/// Signals, waitpoints and what is waited for share a few names.
fn name() -> std::ops::Range<u8> {
    0..3
}

fn leaf(manual: bool) -> impl Strategy<Value = Shape> {
    let count = (1..3_u32, 0..2_u8, 1..3_u8, select(Distinct::ALL.to_vec()));
    prop_oneof![
        8 => name().prop_map(Shape::Signal),
        4 => count.prop_map(|(n, first, names, distinct)| {
            let of: Vec<u8> = (first..first + names).collect();
            let most = if distinct == Distinct::Sources { n } else { n.min(names.into()) };
            Shape::Count { n: most, of, distinct }
        }),
        2 => duration(manual).prop_map(Shape::Until),
        1 => Just(Shape::Operator),
        1 => Just(Shape::Children),
    ]
}

fn shape(manual: bool) -> impl Strategy<Value = Shape> {
    leaf(manual).prop_recursive(3, 8, 3, |part| {
        prop_oneof![vec(part.clone(), 1..3).prop_map(Shape::Any), vec(part, 1..4).prop_map(Shape::All)]
    })
}

/// One wait or two; those of one suspension have different steps.
fn waits(manual: bool) -> impl Strategy<Value = Vec<Wait>> {
    let kind = select(vec![StepKind::Wait, StepKind::Wait, StepKind::Sleep]);
    let step = weighted(0.6, (0..2_u8, kind));
    let timeout_ms = prop_oneof![1 => Just(0), 2 => duration(manual)];
    let timeout = (weighted(0.7, timeout_ms), select(OnTimeout::ALL.to_vec()));
    let wait = (step, shape(manual), timeout);
    vec(wait, 1..3).prop_map(|waits| {
        let waits = waits.into_iter().enumerate();
        let made = waits.map(|(index, (step, shape, (timeout_ms, on_timeout)))| Wait {
            step: step.map(|(name, kind)| (2 * index as u8 + name, kind)),
            shape,
            timeout_ms,
            on_timeout,
        });
        made.collect()
    })
}

fn point(manual: bool) -> impl Strategy<Value = Point> {
    (name(), weighted(0.3, 0..2_u8), weighted(0.5, duration(manual)))
        .prop_map(|(name, source, expires_ms)| Point { name, source, expires_ms })
}

fn sent() -> impl Strategy<Value = Sent> {
    (name(), weighted(0.3, 0..3_u8), 0..2_u8).prop_map(|(name, key, payload)| Sent { name, key, payload })
}

fn spoil() -> impl Strategy<Value = Spoil> {
    prop_oneof![
        12 => Just(Spoil::Nothing),
        1 => Just(Spoil::Epoch),
        1 => Just(Spoil::Attempt),
        1 => Just(Spoil::Lease),
        1 => Just(Spoil::Execution),
    ]
}

fn action(manual: bool) -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => duration(manual).prop_map(|grace_ms| Action::Cancel { grace_ms }),
        2 => Just(Action::Revoke),
        2 => (-1_i16..=1).prop_map(Action::Prioritise),
        2 => duration(manual).prop_map(Action::Reschedule),
        3 => Just(Action::Replay),
        2 => (0..2_u8, of(0..2_u8)).prop_map(|(name, value)| Action::Tag { name, value }),
        3 => Just(Action::Resume),
        2 => (0..8_usize).prop_map(Action::RevokeWaitpoint),
    ]
}

fn expect() -> impl Strategy<Value = Expect> {
    prop_oneof![6 => Just(Expect::Any), 1 => Just(Expect::Current), 1 => Just(Expect::Another)]
}

fn command(manual: bool) -> impl Strategy<Value = Command> {
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
            .prop_map(|(earlier, same_id)| Command::SubmitAgain { earlier, same_id }),
        10 => (index(), spoil(), weighted(0.2, 0..3_u8), op(manual))
            .prop_map(|(lease, spoil, op_id, op)| Command::Report { lease, spoil, op_id, op }),
        3 => index().prop_map(|report| Command::Repeat { report }),
        1 => (index(), any::<bool>()).prop_map(|(lease, orphaned)| Command::PutBack { lease, orphaned }),
        6 => (index(), action(manual), expect())
            .prop_map(|(execution, action, expect)| Command::Operate { execution, action, expect }),
        8 => index().prop_map(|execution| Command::Lapse { execution }),
        10 => (index(), kind).prop_map(|(execution, kind)| Command::Due { execution, kind }),
        12 => (index(), 0..2_u8, sent())
            .prop_map(|(execution, source, sent)| Command::Signal { execution, source, sent }),
        5 => (index(), (0..8_u8).prop_map(|number| number == 0), any::<bool>(), sent())
            .prop_map(|(token, altered, named, sent)| Command::Deliver { token, altered, named, sent }),
        1 => duration(manual).prop_map(|grace_ms| Command::Rotate { grace_ms }),
    ]
}

fn step(manual: bool) -> impl Strategy<Value = Step> {
    let moved = prop_oneof![Just(1_i64), Just(39), Just(400), Just(1_500), Just(4_000), Just(LONG_MS)];
    let worker = || 0..super::reference::WORKERS;
    let together = prop_oneof![
        4 => vec(command(manual), 1),
        2 => vec(command(manual), 2..5),
    ];
    let drain = worker().prop_map(|worker| Step::Together(vec![Command::Drain { worker }]));
    prop_oneof![
        if manual { 12 } else { 1 } => moved.prop_map(|ms| Step::Advance { ms }),
        36 => (worker(), any::<bool>(), 1..5_u32)
            .prop_map(|(worker, both_lanes, max)| Step::Claim { worker, both_lanes, max }),
        14 => (worker(), any::<u8>()).prop_map(|(worker, named)| Step::Heartbeat { worker, named }),
        6 => (0..64_usize).prop_map(|execution| Step::Delete { execution }),
        60 => together.prop_map(Step::Together),
        1 => drain,
        1 => worker().prop_map(|worker| Step::Depart { worker }),
    ]
}

/// Random sequences, each of which begins with submissions: longer ones where time can be passed, and memory is all they
/// take.
pub fn steps(manual: bool) -> impl Strategy<Value = Vec<Step>> {
    let longest = if manual { 120 } else { 60 };
    let first = vec(submit(manual), 1..4).prop_map(Step::Together);
    (first, vec(step(manual), 1..longest))
        .prop_map(|(first, rest)| std::iter::once(first).chain(rest).collect())
}
