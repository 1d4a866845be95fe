//! A server dies at every statement of what it does to a flow: before the statement reaches Postgres, after it was executed,
//! and after the commit whose answer nobody hears. A fresh server finds what was left, with its reconcilers only; whoever
//! got no answer asks again; and every flow comes to the same end.
//!
//! Each operation is done again and again, on a flow of its own each time, and dies one statement later each time, until it
//! comes to rest without dying: so no statement is left out. Then all these flows are recovered together.

mod support;

use selvedge_conformance::Sketch;
use selvedge_engine::Options;
use selvedge_engine::core::flow::{CancelMode, FlowState};
use selvedge_engine::core::plan::GraphDraft;
use selvedge_engine::core::rules::CallKey;
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Fence;
use selvedge_engine::core::rules::submit_flow::FlowDraft;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{ExecutionId, FlowId, Name};
use selvedge_postgres::{PostgresStore, Settings};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use support::crash::{At, Crasher};
use support::flows::{Flow, broken, end, holds};
use support::test_server::{TestServer, claim_of, complete_op, fence, operator, passive_options};
use support::{Plain, Sandbox, until};
use uuid::Uuid;

/// A server that dies, and one beside it that does not.
struct Bed {
    sandbox: Sandbox,
    crasher: Crasher,
    /// One connection to write: its transactions come one after the other.
    dying: TestServer,
    other: TestServer,
    plain: Plain,
}

/// What of a flow the recovery needs to know.
struct Struck<P> {
    flow: Flow,
    more: P,
}

/// How the nodes of a flow stand, and the flow itself.
struct Ends {
    /// Once everything that was left to be done is.
    recovered: &'static str,
    /// Once everything has run.
    finished: &'static str,
    state: FlowState,
    /// How many transactions the operation takes where nobody dies.
    transactions: usize,
}

/// What is drawn; every node is of the kind of its name, so that a claim takes the nodes it wants.
fn drawn(text: &str) -> FlowDraft {
    Sketch::from(text).0
}

/// A claim of nodes of this name.
fn claim_of_node(name: &str) -> ClaimDraft {
    ClaimDraft { kinds: Some(vec![name.into()]), ..claim_of("one", 1) }
}

async fn claim(side: &TestServer, name: &str) -> Fence {
    let claimed = side.claim_as(claim_of_node(name)).await;
    fence(claimed.first().unwrap_or_else(|| panic!("{name} can be claimed")))
}

fn call_key(number: u64) -> Option<CallKey> {
    Some(CallKey { key: Name::trusted(&format!("call {number}")), digest: number })
}

impl Bed {
    async fn new() -> Bed {
        let sandbox = Sandbox::new();
        let crasher = Crasher::start(&sandbox.url("dying")).await;
        let settings = Settings { writers: 1, readers: 1, ..sandbox.settings() };
        let store = PostgresStore::connect_with(crasher.url(), settings).await.expect("the store opens");
        let dying = TestServer::new(Arc::new(store), passive_options()).await;
        let (other, plain) = (sandbox.side("other").await, sandbox.plain().await);
        Bed { sandbox, crasher, dying, other, plain }
    }

    /// Waits until nothing of a flow is left to be done.
    async fn is_at_rest(&self, flow: FlowId) {
        let text = "select (select count(*) from outbox where id = $1 or id in (select execution from nodes where flow = $1)) \
                    + (select count(*) from flows where id = $1 and due_kind = 1)";
        until("nothing is left to be done", async || self.plain.number(text, &[&flow.0]).await == 0).await;
        self.sandbox.is_at_rest("dying").await;
    }

    /// Does something to a flow and dies there. Gives the statements of a run that came to rest before.
    async fn strike(&self, at: At, flow: FlowId, act: impl Future<Output = ()>) -> Option<Vec<String>> {
        self.crasher.arm(at);
        let rests = async {
            act.await;
            self.is_at_rest(flow).await;
        };
        tokio::select! {
            () = self.crasher.has_died() => {}
            () = rests => {}
        }
        let (died, statements) = self.crasher.revive();
        // What Postgres was about to do is done or undone before the next flow comes.
        self.sandbox.is_at_rest("dying").await;
        (!died).then_some(statements)
    }

    /// Does something at every statement of which the server dies. `prepare` makes a flow, `act` does it through the server
    /// that dies, `again` through a fresh one.
    async fn dies_everywhere<P>(
        self,
        ends: Ends,
        prepare: impl AsyncFn(&Bed, u64) -> Struck<P>,
        act: impl AsyncFn(&TestServer, &Struck<P>),
        again: impl AsyncFn(&TestServer, &Struck<P>),
    ) {
        let mut all = Vec::new();
        for cut in [At::Before, At::After] {
            for number in 0.. {
                let struck = prepare(&self, all.len() as u64).await;
                let rested = self.strike(cut(number), struck.flow.id, act(&self.dying, &struck)).await;
                all.push(struck);
                let Some(statements) = rested else { continue };
                let commits = statements.iter().filter(|text| *text == "commit").count();
                // It has died at each of them; a run now and then has one more, such as a look at the bounds of claims.
                assert!(statements.len() <= number, "{statements:#?}");
                assert_eq!(commits, ends.transactions, "{statements:#?}");
                break;
            }
        }
        self.recover(ends, all, again).await;
    }

    async fn recover<P>(self, ends: Ends, all: Vec<Struck<P>>, again: impl AsyncFn(&TestServer, &Struck<P>)) {
        let fresh = self.sandbox.side_with("fresh", Options { dispatch: false, ..passive_options() }).await;
        for struck in &all {
            again(&fresh, struck).await;
        }
        fresh.reconcile(&self.plain).await;
        // Nobody knows of the leases that are left.
        until("every lease has lapsed", async || {
            fresh.tick("lease_expiry").await;
            self.plain.number("select count(*) from executions where lease_id is not null", &[]).await == 0
        })
        .await;
        holds(&fresh).await;
        for (number, struck) in all.iter().enumerate() {
            let states = struck.flow.through(&fresh).states().await;
            assert_eq!(states, ends.recovered, "flow {number} of {}", all.len());
        }
        let flows: Vec<FlowId> = all.iter().map(|struck| struck.flow.id).collect();
        fresh.work_off(&flows).await;
        for struck in &all {
            let flow = struck.flow.through(&fresh);
            assert_eq!(
                (flow.states().await, fresh.flow_state(flow.id).await),
                (ends.finished.into(), ends.state)
            );
        }
        // What a child leaves when it ends is for its parent.
        fresh.reconcile(&self.plain).await;
        assert!(fresh.outbox().await.is_empty());
        end(&[&fresh, &self.dying, &self.other]).await;
    }
}

#[tokio::test]
async fn a_hop_through_the_outbox_survives_a_crash_at_every_statement() {
    let ends = Ends {
        recovered: "a:completed b:waiting c:waiting d:waiting_dependencies",
        finished: "a:completed b:completed c:completed d:completed",
        state: FlowState::Completed,
        transactions: 2,
    };
    // The server that dies did not hand out the lease, so it does not know whom the completion moves.
    let prepare = async |bed: &Bed, _| {
        let flow = bed.other.flow_of(drawn("a -> b c; b c -> d")).await;
        Struck { flow, more: claim(&bed.other, "a").await }
    };
    let act = async |side: &TestServer, struck: &Struck<Fence>| {
        let _ = side.namespace.report(vec![Ok((struck.more, None, complete_op()))], None).await;
    };
    let again = async |side: &TestServer, struck: &Struck<Fence>| {
        side.complete(struck.more).await.expect("it is the same report");
    };
    Bed::new().await.dies_everywhere(ends, prepare, act, again).await;
}

#[tokio::test]
async fn a_completion_with_its_hop_and_the_next_claim_survives_a_crash_at_every_statement() {
    let ends = Ends {
        recovered: "a:completed b:waiting c:waiting_dependencies",
        finished: "a:completed b:completed c:completed",
        state: FlowState::Completed,
        transactions: 1,
    };
    let prepare = async |bed: &Bed, _| {
        let flow = bed.other.flow_of(drawn("a -> b -> c")).await;
        Struck { flow, more: claim(&bed.dying, "a").await }
    };
    let act = async |side: &TestServer, struck: &Struck<Fence>| {
        // A session of its own each time, so that its row is written each time.
        let instance = struck.flow.id.to_string();
        let next = ClaimDraft { lease_ttl_ms: 500, instance, ..claim_of_node("b") };
        drop(side.namespace.report(vec![Ok((struck.more, None, complete_op()))], Some(next)).await);
    };
    let held = Cell::new(0);
    let again = async |side: &TestServer, struck: &Struck<Fence>| {
        side.complete(struck.more).await.expect("it is the same report");
        let leased = side.state(struck.flow.nodes["b"]).await == StateName::Active;
        held.set(held.get() + u32::from(leased));
    };
    Bed::new().await.dies_everywhere(ends, prepare, act, again).await;
    assert_eq!(
        held.get(),
        3,
        "a lease whose claim was not answered, and those of the two runs in which nobody died"
    );
}

#[tokio::test]
async fn a_sibling_cancellation_survives_a_crash_at_every_statement() {
    let ends = Ends {
        recovered: "a:completed b:cancelled c:cancelled win:waiting",
        finished: "a:completed b:cancelled c:cancelled win:completed",
        state: FlowState::Completed,
        transactions: 2,
    };
    // Of the siblings one runs and one waits for a worker.
    let prepare = async |bed: &Bed, _| {
        let flow = bed.other.flow_of(drawn("a b c -> win: any_of")).await;
        claim(&bed.other, "b").await;
        Struck { flow, more: claim(&bed.dying, "a").await }
    };
    let act = async |side: &TestServer, struck: &Struck<Fence>| {
        let _ = side.namespace.report(vec![Ok((struck.more, None, complete_op()))], None).await;
    };
    let again = async |side: &TestServer, struck: &Struck<Fence>| {
        side.complete(struck.more).await.expect("it is the same report");
    };
    Bed::new().await.dies_everywhere(ends, prepare, act, again).await;
}

#[tokio::test]
async fn a_failure_whose_children_are_cancelled_survives_a_crash_at_every_statement() {
    let ends = Ends {
        recovered: "after:skipped child:cancelled free:waiting grandchild:cancelled parent:failed",
        finished: "after:skipped child:cancelled free:completed grandchild:cancelled parent:failed",
        state: FlowState::Failed,
        transactions: 3,
    };
    // One child was spawned detached, and lives on. The last transaction tells the parent that children have ended.
    let prepare = async |bed: &Bed, _: u64| {
        let mut flow = bed.other.flow_of(drawn("parent -> after")).await;
        let parent = claim(&bed.dying, "parent").await;
        for (text, detach) in [("child -> grandchild", false), ("free", true)] {
            let spawn = bed.other.namespace.spawn(drawn(text).graph, detach).await.expect("it is valid");
            let reported = bed.other.report(parent, spawn).await.expect("it holds the lease");
            flow.nodes.extend(reported.spawned.into_iter().map(|(name, id)| (name.to_string(), id)));
        }
        Struck { flow, more: parent }
    };
    let act = async |side: &TestServer, struck: &Struck<Fence>| {
        let _ = side.namespace.report(vec![Ok((struck.more, None, broken()))], None).await;
    };
    let again = async |side: &TestServer, struck: &Struck<Fence>| {
        side.report(struck.more, broken()).await.expect("it is the same report");
    };
    Bed::new().await.dies_everywhere(ends, prepare, act, again).await;
}

#[tokio::test]
async fn a_cancel_of_a_flow_survives_a_crash_at_every_statement() {
    let ends = Ends {
        recovered: "a:cancelled b:cancelled c:cancelled d:completed",
        finished: "a:cancelled b:cancelled c:cancelled d:completed",
        state: FlowState::Cancelled,
        transactions: 3,
    };
    let prepare = async |bed: &Bed, _| {
        let flow = bed.other.flow_of(drawn("a -> b -> c; d")).await;
        claim(&bed.other, "a").await;
        let d = claim(&bed.other, "d").await;
        bed.other.complete(d).await.expect("it holds the lease");
        Struck { flow, more: () }
    };
    let cancel = async |side: &TestServer, struck: &Struck<()>| {
        let (id, wait) = (struck.flow.id, Duration::ZERO);
        side.namespace.cancel_flow(id, CancelMode::All, None, &operator(), wait).await
    };
    let act = async |side: &TestServer, struck: &Struck<()>| drop(cancel(side, struck).await);
    let again = async |side: &TestServer, struck: &Struck<()>| {
        cancel(side, struck).await.expect("it may be asked for again");
    };
    Bed::new().await.dies_everywhere(ends, prepare, act, again).await;
}

#[tokio::test]
async fn a_growth_survives_a_crash_at_every_statement() {
    let ends = Ends {
        recovered: "a:completed b:waiting_dependencies c:waiting d:waiting_dependencies e:waiting x:waiting",
        finished: "a:completed b:completed c:completed d:completed e:completed x:completed",
        state: FlowState::Completed,
        transactions: 1,
    };
    let prepare = async |bed: &Bed, number: u64| {
        let mut flow = bed.other.flow_of(drawn("a; x -> b")).await;
        let a = claim(&bed.other, "a").await;
        bed.other.complete(a).await.expect("it holds the lease");
        let graph = drawn("c; a c -> d; c -> b; a -> e").graph;
        // Its ids are the caller's, so that its nodes are known whether it was answered or not.
        let mut graph = GraphDraft {
            nodes: graph.nodes.into_iter().filter(|node| !flow.nodes.contains_key(&node.name)).collect(),
            ..graph
        };
        for node in &mut graph.nodes {
            let id = Uuid::now_v7();
            node.draft.id = Some(id);
            flow.nodes.insert(node.name.clone(), ExecutionId(id));
        }
        Struck { flow, more: (graph, number) }
    };
    type More = (GraphDraft, u64);
    let act = async |side: &TestServer, struck: &Struck<More>| {
        let (graph, number) = struck.more.clone();
        drop(side.namespace.grow_flow(struck.flow.id, graph, call_key(number)).await);
    };
    let again = async |side: &TestServer, struck: &Struck<More>| {
        let (graph, number) = struck.more.clone();
        let grown = side.namespace.grow_flow(struck.flow.id, graph, call_key(number)).await;
        let grown = grown.expect("it is the same call");
        for (name, id) in grown.executions {
            assert_eq!(struck.flow.nodes[name.as_str()], id);
        }
        assert_eq!(grown.flow.counts.total(), 6);
    };
    Bed::new().await.dies_everywhere(ends, prepare, act, again).await;
}

#[tokio::test]
async fn a_submission_of_a_flow_survives_a_crash_at_every_statement() {
    let ends = Ends {
        recovered: "a:waiting b:waiting c:waiting_dependencies d:waiting_dependencies",
        finished: "a:completed b:completed c:completed d:completed",
        state: FlowState::Completed,
        transactions: 1,
    };
    let prepare = async |bed: &Bed, number: u64| {
        let id = Uuid::now_v7();
        let mut draft = FlowDraft {
            id: Some(id),
            idempotency_key: Some(format!("flow {number}")),
            name: Some("struck".into()),
            tags: [("number".into(), number.to_string())].into(),
            ..drawn("a b -> c; a -> d")
        };
        let mut nodes = BTreeMap::new();
        for node in &mut draft.graph.nodes {
            let id = Uuid::now_v7();
            node.draft.id = Some(id);
            nodes.insert(node.name.clone(), ExecutionId(id));
        }
        Struck { flow: Flow { side: bed.other.clone(), id: FlowId(id), nodes }, more: (draft, number) }
    };
    type More = (FlowDraft, u64);
    let act = async |side: &TestServer, struck: &Struck<More>| {
        let (draft, number) = struck.more.clone();
        drop(side.namespace.submit_flow(draft, call_key(number)).await);
    };
    let again = async |side: &TestServer, struck: &Struck<More>| {
        let (draft, number) = struck.more.clone();
        for _ in 0..2 {
            let grown = side.namespace.submit_flow(draft.clone(), call_key(number)).await;
            let flow = Flow::new(side, grown.expect("it is the same call"));
            assert_eq!((flow.id, &flow.nodes), (struck.flow.id, &struck.flow.nodes));
        }
    };
    Bed::new().await.dies_everywhere(ends, prepare, act, again).await;
}

#[tokio::test]
async fn a_replay_that_opens_others_again_survives_a_crash_at_every_statement() {
    let ends = Ends {
        recovered: "a:waiting b:waiting_dependencies c:waiting_dependencies",
        finished: "a:completed b:completed c:completed",
        state: FlowState::Completed,
        transactions: 3,
    };
    let prepare = async |bed: &Bed, _| {
        let flow = bed.other.flow_of(drawn("a -> b -> c")).await;
        bed.other.cancel(flow.nodes["a"]).await.expect("it waits");
        bed.is_at_rest(flow.id).await;
        assert_eq!(flow.states().await, "a:cancelled b:skipped c:skipped");
        Struck { flow, more: () }
    };
    let act = async |side: &TestServer, struck: &Struck<()>| {
        let id = struck.flow.nodes["a"];
        drop(side.namespace.operate(id, Action::Replay, None, &operator()).await);
    };
    let again = async |side: &TestServer, struck: &Struck<()>| {
        let a = struck.flow.nodes["a"];
        let replayed = side.operate(a, Action::Replay).await;
        let row = side.row(a).await;
        assert_eq!((row.detail.generation, row.state.name()), (1, StateName::Waiting), "{replayed:?}");
    };
    Bed::new().await.dies_everywhere(ends, prepare, act, again).await;
}
