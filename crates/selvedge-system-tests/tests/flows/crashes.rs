//! A server crashes at every statement of an operation on a flow: before the statement reaches Postgres, after it was
//! executed, and after the commit whose answer is lost. A fresh server recovers the flow with its reconcilers only,
//! callers without an answer repeat their call, and every flow ends in the same way.
//!
//! Each operation is repeated, each time on a new flow and with the crash one statement later, until it finishes without
//! a crash, so no statement is left out. Then all these flows are recovered together.

use selvedge_conformance::Sketch;
use selvedge_engine::Options;
use selvedge_engine::core::flow::{CancelMode, FlowState};
use selvedge_engine::core::plan::GraphDraft;
use selvedge_engine::core::rules::CallKey;
use selvedge_engine::core::rules::claim::ClaimDraft;
use selvedge_engine::core::rules::flows::submit::FlowDraft;
use selvedge_engine::core::rules::operator::Action;
use selvedge_engine::core::rules::report::Fence;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::{ExecutionId, FlowId, Name};
use selvedge_postgres::{PostgresStore, Settings};
use selvedge_system_tests::crash::{CrashPoint, CrashProxy};
use selvedge_system_tests::flows::{Flow, check_and_stop, check_invariants, permanent_failure};
use selvedge_system_tests::server::{Server, claim_of, complete_op, fence, operator, passive_options};
use selvedge_system_tests::{PlainConnection, Sandbox, wait_until};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// A server that crashes, and one next to it that does not.
struct CrashTest {
    sandbox: Sandbox,
    crasher: CrashProxy,
    /// A server with one connection for transactions, so that they run one after the other.
    dying: Server,
    other: Server,
    plain: PlainConnection,
}

/// A flow during whose operation the server crashed, with the data that the recovery needs.
struct CrashedFlow<P> {
    flow: Flow,
    more: P,
}

/// The expected states of a flow's nodes and of the flow itself.
struct Expected {
    /// The states of the nodes after the recovery.
    recovered: &'static str,
    /// The states of the nodes after everything has run.
    finished: &'static str,
    state: FlowState,
    /// The number of transactions of the operation without a crash.
    transactions: usize,
}

/// Returns the draft of a sketched flow. The kind of each node is its name, so that a claim can select nodes.
fn flow_draft(text: &str) -> FlowDraft {
    Sketch::from(text).0
}

/// Returns a claim of nodes with this name.
fn claim_of_node(name: &str) -> ClaimDraft {
    ClaimDraft { kinds: Some(vec![name.into()]), ..claim_of("one", 1) }
}

async fn claim(server: &Server, name: &str) -> Fence {
    let claimed = server.claim_as(claim_of_node(name)).await;
    fence(claimed.first().unwrap_or_else(|| panic!("{name} can be claimed")))
}

fn call_key(number: u64) -> Option<CallKey> {
    Some(CallKey { key: Name::trusted(&format!("call {number}")), digest: number })
}

impl CrashTest {
    async fn new() -> CrashTest {
        let sandbox = Sandbox::new();
        let crasher = CrashProxy::start(&sandbox.url("dying")).await;
        let settings = Settings { writers: 1, readers: 1, ..sandbox.settings() };
        let store = PostgresStore::connect_with(crasher.url(), settings).await.expect("the store opens");
        let dying = Server::new(Arc::new(store), passive_options()).await;
        let (other, plain) = (sandbox.server("other").await, sandbox.plain().await);
        CrashTest { sandbox, crasher, dying, other, plain }
    }

    /// Waits until the outbox has no row of a flow and the flow is settled.
    async fn flow_is_settled(&self, flow: FlowId) {
        let text = "select (select count(*) from outbox where id = $1 or id in (select execution from nodes where flow = $1)) \
                    + (select count(*) from flows where id = $1 and due_kind = 1)";
        wait_until("the outbox is empty", async || self.plain.number(text, &[&flow.0]).await == 0).await;
        self.sandbox.is_idle("dying").await;
    }

    /// Runs an operation on a flow and crashes at this point. Returns the statements if the operation finished without a
    /// crash.
    async fn crash_during(
        &self,
        at: CrashPoint,
        flow: FlowId,
        act: impl Future<Output = ()>,
    ) -> Option<Vec<String>> {
        self.crasher.arm(at);
        let rests = async {
            act.await;
            self.flow_is_settled(flow).await;
        };
        tokio::select! {
            () = self.crasher.has_died() => {}
            () = rests => {}
        }
        let (died, statements) = self.crasher.revive();
        // Waits until Postgres has committed or rolled back, before the next flow.
        self.sandbox.is_idle("dying").await;
        (!died).then_some(statements)
    }

    /// Crashes at every statement of an operation. `prepare` creates a flow, `act` runs the operation through the
    /// crashing server, `again` repeats it through a fresh one.
    async fn crash_at_every_statement<P>(
        self,
        expected: Expected,
        prepare: impl AsyncFn(&CrashTest, u64) -> CrashedFlow<P>,
        act: impl AsyncFn(&Server, &CrashedFlow<P>),
        again: impl AsyncFn(&Server, &CrashedFlow<P>),
    ) {
        let mut all = Vec::new();
        for cut in [CrashPoint::Before, CrashPoint::After] {
            for number in 0.. {
                let crashed = prepare(&self, all.len() as u64).await;
                let rested =
                    self.crash_during(cut(number), crashed.flow.id, act(&self.dying, &crashed)).await;
                all.push(crashed);
                let Some(statements) = rested else { continue };
                let commits = statements.iter().filter(|text| *text == "commit").count();
                // The operation crashed at each of them. Now and then a run has one more statement, for example to
                // refresh bounds.
                assert!(statements.len() <= number, "{statements:#?}");
                assert_eq!(commits, expected.transactions, "{statements:#?}");
                break;
            }
        }
        self.recover(expected, all, again).await;
    }

    async fn recover<P>(
        self,
        expected: Expected,
        all: Vec<CrashedFlow<P>>,
        again: impl AsyncFn(&Server, &CrashedFlow<P>),
    ) {
        let fresh = self.sandbox.server_with("fresh", Options { dispatch: false, ..passive_options() }).await;
        for crashed in &all {
            again(&fresh, crashed).await;
        }
        fresh.reconcile(&self.plain).await;
        // No worker knows of the remaining leases.
        wait_until("every lease has expired", async || {
            fresh.tick("lease_expiry").await;
            self.plain.number("select count(*) from executions where lease_id is not null", &[]).await == 0
        })
        .await;
        check_invariants(&fresh).await;
        for (number, crashed) in all.iter().enumerate() {
            let states = crashed.flow.through(&fresh).states().await;
            assert_eq!(states, expected.recovered, "flow {number} of {}", all.len());
        }
        let flows: Vec<FlowId> = all.iter().map(|crashed| crashed.flow.id).collect();
        fresh.run_to_end(&flows).await;
        for crashed in &all {
            let flow = crashed.flow.through(&fresh);
            assert_eq!(
                (flow.states().await, fresh.flow_state(flow.id).await),
                (expected.finished.into(), expected.state)
            );
        }
        fresh.reconcile(&self.plain).await;
        assert!(fresh.outbox().await.is_empty());
        check_and_stop(&[&fresh, &self.dying, &self.other]).await;
    }
}

#[tokio::test]
async fn a_propagation_through_the_outbox_survives_a_crash_at_every_statement() {
    let expected = Expected {
        recovered: "a:completed b:waiting c:waiting d:waiting_dependencies",
        finished: "a:completed b:completed c:completed d:completed",
        state: FlowState::Completed,
        transactions: 2,
    };
    // The crashing server did not hand out the lease, so it does not know the downstreams of the execution.
    let prepare = async |test: &CrashTest, _| {
        let flow = test.other.flow_of(flow_draft("a -> b c; b c -> d")).await;
        CrashedFlow { flow, more: claim(&test.other, "a").await }
    };
    let act = async |server: &Server, crashed: &CrashedFlow<Fence>| {
        let _ = server.namespace.report(vec![Ok((crashed.more, None, complete_op()))], None).await;
    };
    let again = async |server: &Server, crashed: &CrashedFlow<Fence>| {
        server.complete(crashed.more).await.expect("a repeated report is accepted");
    };
    CrashTest::new().await.crash_at_every_statement(expected, prepare, act, again).await;
}

#[tokio::test]
async fn a_completion_with_its_propagation_and_the_next_claim_survives_a_crash_at_every_statement() {
    let expected = Expected {
        recovered: "a:completed b:waiting c:waiting_dependencies",
        finished: "a:completed b:completed c:completed",
        state: FlowState::Completed,
        transactions: 1,
    };
    let prepare = async |test: &CrashTest, _| {
        let flow = test.other.flow_of(flow_draft("a -> b -> c")).await;
        CrashedFlow { flow, more: claim(&test.dying, "a").await }
    };
    let act = async |server: &Server, crashed: &CrashedFlow<Fence>| {
        // A new session each time, so that its row is written each time.
        let instance = crashed.flow.id.to_string();
        let next = ClaimDraft { lease_ttl_ms: 500, instance, ..claim_of_node("b") };
        drop(server.namespace.report(vec![Ok((crashed.more, None, complete_op()))], Some(next)).await);
    };
    let active = Cell::new(0);
    let again = async |server: &Server, crashed: &CrashedFlow<Fence>| {
        server.complete(crashed.more).await.expect("a repeated report is accepted");
        let leased = server.state(crashed.flow.nodes["b"]).await == StateName::Active;
        active.set(active.get() + u32::from(leased));
    };
    CrashTest::new().await.crash_at_every_statement(expected, prepare, act, again).await;
    assert_eq!(
        active.get(),
        3,
        "the lease whose claim was not answered, and those of the two runs without a crash"
    );
}

#[tokio::test]
async fn a_sibling_cancellation_survives_a_crash_at_every_statement() {
    let expected = Expected {
        recovered: "a:completed b:cancelled c:cancelled win:waiting",
        finished: "a:completed b:cancelled c:cancelled win:completed",
        state: FlowState::Completed,
        transactions: 2,
    };
    // One sibling is active and one is waiting.
    let prepare = async |test: &CrashTest, _| {
        let flow = test.other.flow_of(flow_draft("a b c -> win: any_of")).await;
        claim(&test.other, "b").await;
        CrashedFlow { flow, more: claim(&test.dying, "a").await }
    };
    let act = async |server: &Server, crashed: &CrashedFlow<Fence>| {
        let _ = server.namespace.report(vec![Ok((crashed.more, None, complete_op()))], None).await;
    };
    let again = async |server: &Server, crashed: &CrashedFlow<Fence>| {
        server.complete(crashed.more).await.expect("a repeated report is accepted");
    };
    CrashTest::new().await.crash_at_every_statement(expected, prepare, act, again).await;
}

#[tokio::test]
async fn a_failure_whose_children_are_cancelled_survives_a_crash_at_every_statement() {
    let expected = Expected {
        recovered: "after:skipped child:cancelled free:waiting grandchild:cancelled parent:failed",
        finished: "after:skipped child:cancelled free:completed grandchild:cancelled parent:failed",
        state: FlowState::Failed,
        transactions: 2,
    };
    // The detached child lives on.
    let prepare = async |test: &CrashTest, _: u64| {
        let mut flow = test.other.flow_of(flow_draft("parent -> after")).await;
        let parent = claim(&test.dying, "parent").await;
        for (text, detach) in [("child -> grandchild", false), ("free", true)] {
            let spawn =
                test.other.namespace.spawn(flow_draft(text).graph, detach).await.expect("the graph is valid");
            let reported = test.other.report(parent, spawn).await.expect("the lease is held");
            flow.nodes.extend(reported.spawned.into_iter().map(|(name, id)| (name.to_string(), id)));
        }
        CrashedFlow { flow, more: parent }
    };
    let act = async |server: &Server, crashed: &CrashedFlow<Fence>| {
        let _ = server.namespace.report(vec![Ok((crashed.more, None, permanent_failure()))], None).await;
    };
    let again = async |server: &Server, crashed: &CrashedFlow<Fence>| {
        server.report(crashed.more, permanent_failure()).await.expect("a repeated report is accepted");
    };
    CrashTest::new().await.crash_at_every_statement(expected, prepare, act, again).await;
}

#[tokio::test]
async fn a_cancel_of_a_flow_survives_a_crash_at_every_statement() {
    let expected = Expected {
        recovered: "a:cancelled b:cancelled c:cancelled d:completed",
        finished: "a:cancelled b:cancelled c:cancelled d:completed",
        state: FlowState::Cancelled,
        transactions: 3,
    };
    let prepare = async |test: &CrashTest, _| {
        let flow = test.other.flow_of(flow_draft("a -> b -> c; d")).await;
        claim(&test.other, "a").await;
        let d = claim(&test.other, "d").await;
        test.other.complete(d).await.expect("the lease is held");
        CrashedFlow { flow, more: () }
    };
    let cancel = async |server: &Server, crashed: &CrashedFlow<()>| {
        let (id, wait) = (crashed.flow.id, Duration::ZERO);
        server.namespace.cancel_flow(id, CancelMode::All, None, &operator(), wait).await
    };
    let act = async |server: &Server, crashed: &CrashedFlow<()>| drop(cancel(server, crashed).await);
    let again = async |server: &Server, crashed: &CrashedFlow<()>| {
        cancel(server, crashed).await.expect("a repeated cancel is accepted");
    };
    CrashTest::new().await.crash_at_every_statement(expected, prepare, act, again).await;
}

#[tokio::test]
async fn a_growth_survives_a_crash_at_every_statement() {
    let expected = Expected {
        recovered: "a:completed b:waiting_dependencies c:waiting d:waiting_dependencies e:waiting x:waiting",
        finished: "a:completed b:completed c:completed d:completed e:completed x:completed",
        state: FlowState::Completed,
        transactions: 1,
    };
    let prepare = async |test: &CrashTest, number: u64| {
        let mut flow = test.other.flow_of(flow_draft("a; x -> b")).await;
        let a = claim(&test.other, "a").await;
        test.other.complete(a).await.expect("the lease is held");
        let graph = flow_draft("c; a c -> d; c -> b; a -> e").graph;
        // The caller chooses the ids, so that the nodes are known even without an answer.
        let mut graph = GraphDraft {
            nodes: graph.nodes.into_iter().filter(|node| !flow.nodes.contains_key(&node.name)).collect(),
            ..graph
        };
        for node in &mut graph.nodes {
            let id = Uuid::now_v7();
            node.draft.id = Some(id);
            flow.nodes.insert(node.name.clone(), ExecutionId(id));
        }
        CrashedFlow { flow, more: (graph, number) }
    };
    type More = (GraphDraft, u64);
    let act = async |server: &Server, crashed: &CrashedFlow<More>| {
        let (graph, number) = crashed.more.clone();
        drop(server.namespace.grow_flow(crashed.flow.id, graph, call_key(number)).await);
    };
    let again = async |server: &Server, crashed: &CrashedFlow<More>| {
        let (graph, number) = crashed.more.clone();
        let grown = server.namespace.grow_flow(crashed.flow.id, graph, call_key(number)).await;
        let grown = grown.expect("a repeated call is accepted");
        for (name, id) in grown.executions {
            assert_eq!(crashed.flow.nodes[name.as_str()], id);
        }
        assert_eq!(grown.flow.counts.total(), 6);
    };
    CrashTest::new().await.crash_at_every_statement(expected, prepare, act, again).await;
}

#[tokio::test]
async fn a_submission_of_a_flow_survives_a_crash_at_every_statement() {
    let expected = Expected {
        recovered: "a:waiting b:waiting c:waiting_dependencies d:waiting_dependencies",
        finished: "a:completed b:completed c:completed d:completed",
        state: FlowState::Completed,
        transactions: 1,
    };
    let prepare = async |test: &CrashTest, number: u64| {
        let id = Uuid::now_v7();
        let mut draft = FlowDraft {
            id: Some(id),
            idempotency_key: Some(format!("flow {number}")),
            name: Some("crashed".into()),
            tags: [("number".into(), number.to_string())].into(),
            ..flow_draft("a b -> c; a -> d")
        };
        let mut nodes = BTreeMap::new();
        for node in &mut draft.graph.nodes {
            let id = Uuid::now_v7();
            node.draft.id = Some(id);
            nodes.insert(node.name.clone(), ExecutionId(id));
        }
        CrashedFlow {
            flow: Flow { server: test.other.clone(), id: FlowId(id), nodes },
            more: (draft, number),
        }
    };
    type More = (FlowDraft, u64);
    let act = async |server: &Server, crashed: &CrashedFlow<More>| {
        let (draft, number) = crashed.more.clone();
        drop(server.namespace.submit_flow(draft, call_key(number)).await);
    };
    let again = async |server: &Server, crashed: &CrashedFlow<More>| {
        let (draft, number) = crashed.more.clone();
        for _ in 0..2 {
            let grown = server.namespace.submit_flow(draft.clone(), call_key(number)).await;
            let flow = Flow::new(server, grown.expect("a repeated call is accepted"));
            assert_eq!((flow.id, &flow.nodes), (crashed.flow.id, &crashed.flow.nodes));
        }
    };
    CrashTest::new().await.crash_at_every_statement(expected, prepare, act, again).await;
}

#[tokio::test]
async fn a_replay_that_reopens_others_survives_a_crash_at_every_statement() {
    let expected = Expected {
        recovered: "a:waiting b:waiting_dependencies c:waiting_dependencies",
        finished: "a:completed b:completed c:completed",
        state: FlowState::Completed,
        transactions: 3,
    };
    let prepare = async |test: &CrashTest, _| {
        let flow = test.other.flow_of(flow_draft("a -> b -> c")).await;
        test.other.cancel(flow.nodes["a"]).await.expect("the execution is waiting");
        test.flow_is_settled(flow.id).await;
        assert_eq!(flow.states().await, "a:cancelled b:skipped c:skipped");
        CrashedFlow { flow, more: () }
    };
    let act = async |server: &Server, crashed: &CrashedFlow<()>| {
        let id = crashed.flow.nodes["a"];
        drop(server.namespace.operate(id, Action::Replay, None, &operator()).await);
    };
    let again = async |server: &Server, crashed: &CrashedFlow<()>| {
        let a = crashed.flow.nodes["a"];
        let replayed = server.operate(a, Action::Replay).await;
        let row = server.row(a).await;
        assert_eq!((row.detail.generation, row.state.name()), (1, StateName::Waiting), "{replayed:?}");
    };
    CrashTest::new().await.crash_at_every_statement(expected, prepare, act, again).await;
}
