//! The commands of the flow model, and the generator of random sequences.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use selvedge_core::join::EdgeCondition;

/// The length of a delay on a manual clock, in milliseconds.
pub const DELAY_MS: i64 = 1_000;
/// Time to live of leases, in milliseconds.
pub const TTL_MS: i64 = 30_000;
/// Two hours: on the system clock this never passes within a test.
pub const LONG_MS: i64 = 7_200_000;

/// One command of a sequence. Numbers choose among the existing flows, nodes, leases and outbox rows.
#[derive(Clone, Debug)]
pub enum FlowCommand {
    Advance {
        ms: i64,
    },
    Submit {
        nodes: Vec<NodeSpec>,
    },
    Grow {
        flow: usize,
        nodes: Vec<NodeSpec>,
        into: Vec<EdgeSpec>,
    },
    Spawn {
        lease: usize,
        nodes: Vec<NodeSpec>,
        detach: bool,
    },
    Claim,
    Report {
        lease: usize,
        op: ReportKind,
        propagate: bool,
    },
    Cancel {
        node: usize,
        propagate: bool,
    },
    Replay {
        node: usize,
        propagate: bool,
    },
    PassDeadline {
        node: usize,
        propagate: bool,
    },
    ExpireLease {
        node: usize,
        propagate: bool,
    },
    DelayOver {
        node: usize,
    },
    CancelFlow {
        flow: usize,
        pending: bool,
    },
    Dispatch {
        row: usize,
    },
    /// Dispatches a row that was dispatched before.
    DispatchAgain {
        row: usize,
    },
    Settle {
        flow: usize,
    },
}

/// A node: its upstreams among the earlier nodes, its join policy and its limits.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    pub upstreams: Vec<(usize, EdgeCondition)>,
    pub policy: PolicySpec,
    pub delayed: bool,
    pub expires: bool,
    pub fragile: bool,
}

/// A join policy. A quorum larger than the number of edges means all of them.
#[derive(Clone, Copy, Debug)]
pub enum PolicySpec {
    All,
    Any { let_run: bool },
    Quorum { k: usize, let_run: bool },
}

/// An edge from any node into an existing node.
#[derive(Clone, Copy, Debug)]
pub struct EdgeSpec {
    pub from: usize,
    pub to: usize,
    pub when: EdgeCondition,
}

/// A report of a worker.
#[derive(Clone, Copy, Debug)]
pub enum ReportKind {
    Complete,
    FailPermanently,
    FailTransiently,
    Delay,
    Release,
    /// Suspends the node until its children have ended.
    AwaitChildren,
}

fn condition() -> impl Strategy<Value = EdgeCondition> {
    prop_oneof![
        4 => Just(EdgeCondition::Success),
        2 => Just(EdgeCondition::Failure),
        1 => Just(EdgeCondition::FailureOrSkipped),
        2 => Just(EdgeCondition::Finished),
    ]
}

fn policy() -> impl Strategy<Value = PolicySpec> {
    prop_oneof![
        4 => Just(PolicySpec::All),
        3 => any::<bool>().prop_map(|let_run| PolicySpec::Any { let_run }),
        2 => (1..4_usize, any::<bool>()).prop_map(|(k, let_run)| PolicySpec::Quorum { k, let_run }),
    ]
}

fn node() -> impl Strategy<Value = NodeSpec> {
    let upstreams = vec((0..64_usize, condition()), 0..4);
    let rarely = || (0..8_u8).prop_map(|number| number == 0);
    (upstreams, policy(), rarely(), rarely(), rarely()).prop_map(
        |(upstreams, policy, delayed, expires, fragile)| NodeSpec {
            upstreams,
            policy,
            delayed,
            expires,
            fragile,
        },
    )
}

/// Generates a node to spawn. Most have no upstreams, so that the parent sees them end.
fn child() -> impl Strategy<Value = NodeSpec> {
    (node(), 0..4_u8).prop_map(|(node, number)| match number {
        0 => node,
        _ => NodeSpec { upstreams: Vec::new(), ..node },
    })
}

fn submit(large: bool) -> impl Strategy<Value = FlowCommand> {
    let nodes = match large {
        true => {
            prop_oneof![20 => vec(node(), 1..9), 4 => vec(node(), 9..40), 1 => vec(node(), 100..200)].boxed()
        }
        false => prop_oneof![20 => vec(node(), 1..9), 2 => vec(node(), 9..20)].boxed(),
    };
    nodes.prop_map(|nodes| FlowCommand::Submit { nodes })
}

fn command(manual: bool) -> impl Strategy<Value = FlowCommand> {
    let index = || 0..256_usize;
    let into = (index(), index(), condition()).prop_map(|(from, to, when)| EdgeSpec { from, to, when });
    let op = prop_oneof![
        5 => Just(ReportKind::Complete),
        4 => Just(ReportKind::FailPermanently),
        1 => Just(ReportKind::FailTransiently),
        1 => Just(ReportKind::Delay),
        1 => Just(ReportKind::Release),
        4 => Just(ReportKind::AwaitChildren),
    ];
    let propagate = any::<bool>;
    prop_oneof![
        if manual { 6 } else { 1 } => select(vec![400, 1_500, 40_000]).prop_map(|ms| FlowCommand::Advance { ms }),
        1 => submit(manual),
        4 => (index(), vec(node(), 0..3), vec(into, 0..3))
            .prop_map(|(flow, nodes, into)| FlowCommand::Grow { flow, nodes, into }),
        6 => (index(), vec(child(), 1..3), (0..4_u8).prop_map(|number| number == 0))
            .prop_map(|(lease, nodes, detach)| FlowCommand::Spawn { lease, nodes, detach }),
        20 => Just(FlowCommand::Claim),
        20 => (index(), op, propagate()).prop_map(|(lease, op, propagate)| FlowCommand::Report { lease, op, propagate }),
        4 => (index(), propagate()).prop_map(|(node, propagate)| FlowCommand::Cancel { node, propagate }),
        8 => (index(), propagate()).prop_map(|(node, propagate)| FlowCommand::Replay { node, propagate }),
        4 => (index(), propagate()).prop_map(|(node, propagate)| FlowCommand::PassDeadline { node, propagate }),
        5 => (index(), propagate()).prop_map(|(node, propagate)| FlowCommand::ExpireLease { node, propagate }),
        4 => index().prop_map(|node| FlowCommand::DelayOver { node }),
        1 => (index(), any::<bool>()).prop_map(|(flow, pending)| FlowCommand::CancelFlow { flow, pending }),
        24 => index().prop_map(|row| FlowCommand::Dispatch { row }),
        3 => index().prop_map(|row| FlowCommand::DispatchAgain { row }),
        3 => index().prop_map(|flow| FlowCommand::Settle { flow }),
    ]
}

/// Generates random sequences, each of which starts with the submission of a flow.
pub fn commands(manual: bool) -> impl Strategy<Value = Vec<FlowCommand>> {
    let longest = if manual { 120 } else { 50 };
    (submit(manual), vec(command(manual), 1..longest))
        .prop_map(|(first, rest)| std::iter::once(first).chain(rest).collect())
}
