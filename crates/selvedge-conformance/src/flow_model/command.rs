//! The steps of the model of flows, plain and small, and how random sequences of them are made.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use selvedge_core::join::EdgeCondition;

/// How long a delay is where the clock can be moved.
pub const DELAY_MS: i64 = 1_000;
/// How long a lease lives.
pub const TTL_MS: i64 = 30_000;
/// Two hours: on a clock that nobody moves this never passes within a test.
pub const LONG_MS: i64 = 7_200_000;

/// One step of a sequence. Numbers choose among what there is.
#[derive(Clone, Debug)]
pub enum Step {
    Advance {
        ms: i64,
    },
    Submit {
        nodes: Vec<NodeSpec>,
    },
    Grow {
        flow: usize,
        nodes: Vec<NodeSpec>,
        into: Vec<IntoSpec>,
    },
    Spawn {
        lease: usize,
        nodes: Vec<NodeSpec>,
        detach: bool,
    },
    Claim,
    Report {
        lease: usize,
        op: Op,
        tell: bool,
    },
    Cancel {
        node: usize,
        tell: bool,
    },
    Replay {
        node: usize,
        tell: bool,
    },
    Expire {
        node: usize,
        tell: bool,
    },
    Lapse {
        node: usize,
        tell: bool,
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
    /// A dispatch of a row that was dispatched before.
    DispatchAgain {
        row: usize,
    },
    Settle {
        flow: usize,
    },
}

/// A node: whom of those before it it waits for, how, and what bounds its life.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    pub upstreams: Vec<(usize, EdgeCondition)>,
    pub policy: Policy,
    pub delayed: bool,
    pub expires: bool,
    pub fragile: bool,
}

/// How the edges into a node join; a quorum of more than there are is of all of them.
#[derive(Clone, Copy, Debug)]
pub enum Policy {
    All,
    Any { let_run: bool },
    Quorum { k: usize, let_run: bool },
}

/// An edge into a node that is there, from any.
#[derive(Clone, Copy, Debug)]
pub struct IntoSpec {
    pub from: usize,
    pub to: usize,
    pub when: EdgeCondition,
}

/// What a worker reports.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    Complete,
    FailForGood,
    FailForNow,
    Delay,
    Release,
    /// Suspends it until its children have ended.
    Join,
}

fn condition() -> impl Strategy<Value = EdgeCondition> {
    prop_oneof![4 => Just(EdgeCondition::Success), 2 => Just(EdgeCondition::Failure), 2 => Just(EdgeCondition::Finished)]
}

fn policy() -> impl Strategy<Value = Policy> {
    prop_oneof![
        4 => Just(Policy::All),
        3 => any::<bool>().prop_map(|let_run| Policy::Any { let_run }),
        2 => (1..4_usize, any::<bool>()).prop_map(|(k, let_run)| Policy::Quorum { k, let_run }),
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

/// A node that is spawned: most often it waits for nobody, so that its parent comes to see its end.
fn child() -> impl Strategy<Value = NodeSpec> {
    (node(), 0..4_u8).prop_map(|(node, number)| match number {
        0 => node,
        _ => NodeSpec { upstreams: Vec::new(), ..node },
    })
}

fn submit(large: bool) -> impl Strategy<Value = Step> {
    let nodes = match large {
        true => {
            prop_oneof![20 => vec(node(), 1..9), 4 => vec(node(), 9..40), 1 => vec(node(), 100..200)].boxed()
        }
        false => prop_oneof![20 => vec(node(), 1..9), 2 => vec(node(), 9..20)].boxed(),
    };
    nodes.prop_map(|nodes| Step::Submit { nodes })
}

fn step(manual: bool) -> impl Strategy<Value = Step> {
    let index = || 0..256_usize;
    let into = (index(), index(), condition()).prop_map(|(from, to, when)| IntoSpec { from, to, when });
    let op = prop_oneof![
        5 => Just(Op::Complete),
        4 => Just(Op::FailForGood),
        1 => Just(Op::FailForNow),
        1 => Just(Op::Delay),
        1 => Just(Op::Release),
        4 => Just(Op::Join),
    ];
    let tell = any::<bool>;
    prop_oneof![
        if manual { 6 } else { 1 } => select(vec![400, 1_500, 40_000]).prop_map(|ms| Step::Advance { ms }),
        1 => submit(manual),
        4 => (index(), vec(node(), 0..3), vec(into, 0..3))
            .prop_map(|(flow, nodes, into)| Step::Grow { flow, nodes, into }),
        6 => (index(), vec(child(), 1..3), (0..4_u8).prop_map(|number| number == 0))
            .prop_map(|(lease, nodes, detach)| Step::Spawn { lease, nodes, detach }),
        20 => Just(Step::Claim),
        20 => (index(), op, tell()).prop_map(|(lease, op, tell)| Step::Report { lease, op, tell }),
        4 => (index(), tell()).prop_map(|(node, tell)| Step::Cancel { node, tell }),
        8 => (index(), tell()).prop_map(|(node, tell)| Step::Replay { node, tell }),
        4 => (index(), tell()).prop_map(|(node, tell)| Step::Expire { node, tell }),
        5 => (index(), tell()).prop_map(|(node, tell)| Step::Lapse { node, tell }),
        4 => index().prop_map(|node| Step::DelayOver { node }),
        1 => (index(), any::<bool>()).prop_map(|(flow, pending)| Step::CancelFlow { flow, pending }),
        24 => index().prop_map(|row| Step::Dispatch { row }),
        3 => index().prop_map(|row| Step::DispatchAgain { row }),
        3 => index().prop_map(|flow| Step::Settle { flow }),
    ]
}

/// Random sequences, each of which begins with a flow.
pub fn steps(manual: bool) -> impl Strategy<Value = Vec<Step>> {
    let longest = if manual { 120 } else { 50 };
    (submit(manual), vec(step(manual), 1..longest))
        .prop_map(|(first, rest)| std::iter::once(first).chain(rest).collect())
}
