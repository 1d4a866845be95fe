//! A server crashes at every statement of an operation on an execution that is suspended or about to be: before the
//! statement reaches Postgres, after it was executed, and after the commit whose answer is lost. Callers without an
//! answer repeat their call through a fresh server, whose reconcilers do the rest; everything ends in the same way, and
//! each effect has happened once.
//!
//! Each operation is repeated, each time on a new execution and with the crash one statement later, until it finishes
//! without a crash, so no statement is left out. Then all these executions are recovered together.

use selvedge_conformance::Harness;
use selvedge_engine::core::rules::claim::{ClaimDraft, Claimed};
use selvedge_engine::core::rules::report::{Fence, Op};
use selvedge_engine::core::rules::signal::SignalDraft;
use selvedge_engine::core::rules::waitpoint::WaitpointDraft;
use selvedge_engine::core::signal::Effect;
use selvedge_engine::core::state::StateName;
use selvedge_engine::core::submission::When;
use selvedge_engine::core::suspension::{Condition, OnTimeout, WaitDraft};
use selvedge_engine::core::waitpoint::WaitpointState;
use selvedge_engine::core::{Draft, DueKind, ExecutionId, Outcome, Waitpoint};
use selvedge_engine::{Options, ReconcilerScope};
use selvedge_postgres::{PostgresStore, Settings};
use selvedge_system_tests::crash::{CrashPoint, CrashProxy};
use selvedge_system_tests::flows::{check_and_stop, flow_draft};
use selvedge_system_tests::server::{Server, claim_of, complete_op, fence, ids, passive_options};
use selvedge_system_tests::suspensions::{
    carried_signals, for_signal, name, recorded_as, signal_draft, step, with_timeout,
};
use selvedge_system_tests::{PlainConnection, Sandbox, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A server that crashes, and one next to it that does not.
struct CrashTest {
    sandbox: Sandbox,
    crasher: CrashProxy,
    /// A store with one connection for transactions, so that they run one after the other.
    store: Arc<PostgresStore>,
    dying: Server,
    other: Server,
    plain: PlainConnection,
}

impl CrashTest {
    async fn new() -> CrashTest {
        let sandbox = Sandbox::new();
        let crasher = CrashProxy::start(&sandbox.url("dying")).await;
        let settings = Settings { writers: 1, readers: 1, ..sandbox.settings() };
        let store = PostgresStore::connect_with(crasher.url(), settings).await.expect("the store opens");
        let store = Arc::new(store);
        let dying = Server::new(store.clone(), passive_options()).await;
        let (other, plain) = (sandbox.server("other").await, sandbox.plain().await);
        CrashTest { sandbox, crasher, store, dying, other, plain }
    }

    /// Starts a server on the crashing store whose reconcilers process only executions with this number.
    async fn dying_for(&self, number: usize) -> Server {
        let tag = Some(("number".into(), number.to_string()));
        let scope = ReconcilerScope { tag, ..ReconcilerScope::default() };
        Server::new(self.store.clone(), Options { scope, ..passive_options() }).await
    }

    /// Starts a new server without background work.
    async fn fresh(&self) -> Server {
        self.sandbox.server_with("fresh", Options { dispatch: false, ..passive_options() }).await
    }

    /// Runs an operation and crashes at this point. Returns the statements if the operation finished without a crash.
    async fn crash_during(&self, at: CrashPoint, act: impl Future<Output = ()>) -> Option<Vec<String>> {
        self.crasher.arm(at);
        let rests = async {
            act.await;
            self.sandbox.is_idle("dying").await;
        };
        tokio::select! {
            () = self.crasher.has_died() => {}
            () = rests => {}
        }
        let (died, statements) = self.crasher.revive();
        // Waits until Postgres has committed or rolled back, before the next run.
        self.sandbox.is_idle("dying").await;
        (!died).then_some(statements)
    }

    /// Crashes at every statement of an operation, which takes this number of transactions without a crash. `prepare`
    /// creates its target, `act` runs it to its end. Returns all targets.
    async fn crash_at_every_statement<P>(
        &self,
        transactions: usize,
        prepare: impl AsyncFn(usize) -> P,
        act: impl AsyncFn(&P),
    ) -> Vec<P> {
        let mut all = Vec::new();
        for cut in [CrashPoint::Before, CrashPoint::After] {
            for number in 0.. {
                let crashed = prepare(all.len()).await;
                let rested = self.crash_during(cut(number), act(&crashed)).await;
                all.push(crashed);
                let Some(statements) = rested else { continue };
                let commits = statements.iter().filter(|text| *text == "commit").count();
                // The operation crashed at each of them; now and then a run has one more statement.
                assert!(statements.len() <= number, "{statements:#?}");
                assert_eq!(commits, transactions, "{statements:#?}");
                break;
            }
        }
        all
    }

    /// Counts the executions in a state.
    async fn count(&self, all: &[ExecutionId], state: StateName) -> usize {
        let mut count = 0;
        for id in all {
            count += usize::from(self.other.state(*id).await == state);
        }
        count
    }

    async fn check_and_stop(&self, fresh: &Server) {
        check_and_stop(&[fresh, &self.dying, &self.other]).await;
    }
}

/// Submits and claims an execution. Earlier ones may be waiting, so each has a higher priority than all before.
async fn leased(server: &Server, number: usize, draft: Draft) -> (ExecutionId, Fence) {
    let id = server.submit(Draft { priority: number as i64, ..draft }).await;
    let claimed = server.claim_one("one").await;
    assert_eq!(claimed.execution.id, id);
    (id, fence(&claimed))
}

/// For an operation of one transaction, the number of runs that took effect before the call was repeated: the one whose
/// commit was not answered, and the two without a crash.
const COMMITTED: usize = 3;

/// Counts the public events in the log, by execution and type.
async fn event_counts(server: &Server) -> BTreeMap<(ExecutionId, &'static str), usize> {
    let log = Harness::new(server.engine.store().clone()).await.log().await;
    let mut counts = BTreeMap::new();
    for event in log.iter().flat_map(|(_, events)| events) {
        let Some(id) = event.execution else { continue };
        for (kind, _) in event.fact.public_events() {
            *counts.entry((id, kind)).or_default() += 1;
        }
    }
    counts
}

/// Asserts that each of these events happened once to each execution.
async fn each_once(server: &Server, all: &[ExecutionId], events: &[&'static str]) {
    let counts = event_counts(server).await;
    for id in all {
        for event in events {
            assert_eq!(counts.get(&(*id, *event)).copied(), Some(1), "{event} to {id}");
        }
    }
}

/// Claims and completes these executions, which are all that are waiting. Returns the claims.
async fn process_all(server: &Server, all: &[ExecutionId]) -> Vec<Claimed> {
    let claimed = server.claim("finisher", 1000).await;
    assert_eq!(BTreeSet::from_iter(ids(&claimed)), BTreeSet::from_iter(all.iter().copied()));
    assert_eq!(claimed.len(), all.len());
    for one in &claimed {
        server.complete(fence(one)).await.expect("the lease is held");
    }
    claimed
}

#[tokio::test]
async fn a_signal_survives_a_crash_at_every_statement() {
    let test = CrashTest::new().await;
    let draft = || SignalDraft { key: Some("key".into()), ..signal_draft("go") };
    let prepare = async |number| {
        let (id, lease) = leased(&test.other, number, Draft::new("kind")).await;
        let suspended = test.other.suspend(lease, recorded_as("wait", for_signal("go"))).await;
        assert_eq!(suspended.expect("the lease is held").state, StateName::Suspended);
        id
    };
    let act = async |id: &ExecutionId| {
        let _ = test.dying.namespace.signal(*id, draft(), &name("sender")).await;
    };
    let all = test.crash_at_every_statement(1, prepare, act).await;
    assert_eq!(test.count(&all, StateName::Waiting).await, COMMITTED);
    let fresh = test.fresh().await;
    let mut duplicates = 0;
    for id in &all {
        let first = fresh.send_draft(*id, draft()).await.expect("a repetition is accepted");
        assert_eq!((first.number, first.effect), (1, Effect::Resumed));
        duplicates += usize::from(first.duplicate);
        let again = fresh.send_draft(*id, draft()).await.expect("a repetition is accepted");
        assert_eq!((again.number, again.effect, again.duplicate), (1, Effect::Resumed, true));
        assert_eq!(fresh.signals(*id).await.len(), 1);
    }
    assert_eq!(duplicates, COMMITTED);
    for claimed in process_all(&fresh, &all).await {
        assert_eq!((carried_signals(&claimed), claimed.steps.len()), (vec!["go"], 1));
    }
    each_once(&fresh, &all, &["signal.delivered", "execution.resumed", "step.recorded"]).await;
    test.check_and_stop(&fresh).await;
}

#[tokio::test]
async fn a_delivery_by_token_survives_a_crash_at_every_statement() {
    let test = CrashTest::new().await;
    let prepare = async |number| {
        let (_, lease) = leased(&test.other, number, Draft::new("kind")).await;
        let waitpoint = WaitpointDraft::new(name("approval"));
        test.other.suspend_at(lease, waitpoint).await.waitpoints.remove(0)
    };
    let act = async |waitpoint: &Waitpoint| {
        let draft = SignalDraft { name: None, ..signal_draft("approval") };
        let token = test.other.namespace.token(waitpoint);
        let _ = test.dying.engine.deliver(waitpoint.id, &token, draft).await;
    };
    let all = test.crash_at_every_statement(1, prepare, act).await;
    let executions: Vec<ExecutionId> = all.iter().map(|waitpoint| waitpoint.execution).collect();
    assert_eq!(test.count(&executions, StateName::Waiting).await, COMMITTED);
    let fresh = test.fresh().await;
    let mut duplicates = 0;
    for waitpoint in &all {
        let first = fresh.deliver(waitpoint).await.expect("a repetition is accepted");
        assert_eq!((first.number, first.effect), (1, Effect::Resumed));
        duplicates += usize::from(first.duplicate);
        assert!(fresh.deliver(waitpoint).await.expect("a repetition is accepted").duplicate);
        let waitpoints = fresh.waitpoints(waitpoint.execution).await;
        let states: Vec<WaitpointState> = waitpoints.iter().map(|one| one.state).collect();
        assert_eq!(states, [WaitpointState::Delivered(1, Effect::Resumed)]);
    }
    assert_eq!(duplicates, COMMITTED);
    for claimed in process_all(&fresh, &executions).await {
        assert_eq!(carried_signals(&claimed), ["approval"]);
    }
    each_once(&fresh, &executions, &["signal.delivered", "execution.resumed", "waitpoint.created"]).await;
    test.check_and_stop(&fresh).await;
}

#[tokio::test]
async fn a_suspension_with_waitpoints_survives_a_crash_at_every_statement() {
    let test = CrashTest::new().await;
    let op = |server: &Server| -> Op {
        let waits = vec![
            recorded_as("approved", for_signal("approval")),
            recorded_as("given up", for_signal("refusal")),
        ];
        let waitpoints = ["approval", "refusal"].map(|called| WaitpointDraft::new(name(called)));
        server.namespace.suspend(waits, waitpoints.to_vec())
    };
    let prepare = async |number| leased(&test.dying, number, Draft::new("kind")).await;
    let act = async |(_, lease): &(ExecutionId, Fence)| {
        let _ = test.dying.namespace.report(vec![Ok((*lease, None, op(&test.dying)))], None).await;
    };
    let all = test.crash_at_every_statement(1, prepare, act).await;
    let executions: Vec<ExecutionId> = all.iter().map(|(id, _)| *id).collect();
    assert_eq!(test.count(&executions, StateName::Suspended).await, COMMITTED);
    let fresh = test.fresh().await;
    for (id, lease) in &all {
        let first = fresh.report(*lease, op(&fresh)).await.expect("a repeated report is accepted");
        assert_eq!((first.state, first.waitpoints.len()), (StateName::Suspended, 2));
        let again = test.other.report(*lease, op(&test.other)).await.expect("a repeated report is accepted");
        assert_eq!(first, again, "the tokens are the same");
        assert_eq!(
            (fresh.waitpoints(*id).await, fresh.steps(*id).await.len()),
            (first.waitpoints.clone(), 2)
        );
        let delivered = test.other.deliver(&first.waitpoints[0]).await.expect("the waitpoint is open");
        assert_eq!(delivered.effect, Effect::Resumed);
        // A repetition after the resume is accepted too.
        let late = fresh.report(*lease, op(&fresh)).await.expect("a repeated report is accepted");
        assert_eq!(late.state, StateName::Suspended);
    }
    for claimed in process_all(&fresh, &executions).await {
        let steps: Vec<&str> = claimed.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(
            (carried_signals(&claimed), steps, fence(&claimed).epoch),
            (vec!["approval"], vec!["approved"], 2)
        );
    }
    each_once(&fresh, &executions, &["execution.suspended", "execution.resumed", "step.recorded"]).await;
    test.check_and_stop(&fresh).await;
}

/// The server that handed out the lease has cached the row and only saves it.
#[tokio::test]
async fn a_suspension_from_a_cached_row_survives_a_crash_at_every_statement() {
    let test = CrashTest::new().await;
    let prepare = async |number| leased(&test.dying, number, Draft::new("kind")).await;
    let act = async |(_, lease): &(ExecutionId, Fence)| {
        let op = test.dying.namespace.suspend(vec![for_signal("go")], vec![]);
        let _ = test.dying.namespace.report(vec![Ok((*lease, None, op))], None).await;
    };
    let all = test.crash_at_every_statement(1, prepare, act).await;
    let executions: Vec<ExecutionId> = all.iter().map(|(id, _)| *id).collect();
    assert_eq!(test.count(&executions, StateName::Suspended).await, COMMITTED);
    let fresh = test.fresh().await;
    for (id, lease) in &all {
        // A signal in between counts, whether the execution was already suspended or not.
        let committed = fresh.state(*id).await == StateName::Suspended;
        let effect = fresh.send(*id, "go").await.expect("the execution is live").effect;
        assert_eq!(effect, if committed { Effect::Resumed } else { Effect::Buffered });
        let reported = fresh.suspend(*lease, for_signal("go")).await.expect("a repeated report is accepted");
        assert_eq!(reported.state, if committed { StateName::Suspended } else { StateName::Waiting });
    }
    for claimed in process_all(&fresh, &executions).await {
        assert_eq!(carried_signals(&claimed), ["go"]);
    }
    each_once(&fresh, &executions, &["execution.suspended", "execution.resumed"]).await;
    test.check_and_stop(&fresh).await;
}

/// A suspended execution with a due time, and the crashing server that acts on it.
struct Timed {
    id: ExecutionId,
    dying: Server,
}

impl CrashTest {
    /// Suspends an execution for this wait and waits until it is due for this kind.
    async fn timed(&self, number: usize, wait: WaitDraft, kind: DueKind) -> Timed {
        let tags = BTreeMap::from([("number".to_owned(), number.to_string())]);
        let (id, lease) = leased(&self.other, number, Draft { tags, ..Draft::new("kind") }).await;
        let suspended = self.other.suspend(lease, wait).await.expect("the lease is held");
        assert_eq!(suspended.state, StateName::Suspended);
        self.other.is_due(id, kind).await;
        Timed { id, dying: self.dying_for(number).await }
    }

    /// Crashes at every statement of a reconciler's tick, and lets a fresh server do the rest.
    async fn crash_reconciler(
        &self,
        fresh: &Server,
        reconciler: &str,
        kind: DueKind,
        wait: WaitDraft,
    ) -> Vec<ExecutionId> {
        let prepare = async |number| self.timed(number, wait.clone(), kind).await;
        let act = async |timed: &Timed| drop(timed.dying.engine.tick(reconciler).await);
        let all = self.crash_at_every_statement(1, prepare, act).await;
        let left = all.len() as u64 - COMMITTED as u64;
        let tally = fresh.tick(reconciler).await;
        assert_eq!((tally.scanned, tally.done, tally.errors), (left, left, 0), "{reconciler}");
        assert_eq!(fresh.tick(reconciler).await.scanned, 0);
        all.into_iter().map(|timed| timed.id).collect()
    }
}

#[tokio::test]
async fn the_end_of_a_sleep_survives_a_crash_at_every_statement() {
    let test = CrashTest::new().await;
    let fresh = test.fresh().await;
    let sleep = recorded_as("sleep", WaitDraft::new(Condition::until(When::AfterMs(1))));
    let all = test.crash_reconciler(&fresh, "delay_promoter", DueKind::Delay, sleep).await;
    for claimed in process_all(&fresh, &all).await {
        assert_eq!((carried_signals(&claimed), claimed.steps.len()), (vec![], 1));
    }
    each_once(&fresh, &all, &["execution.resumed", "step.recorded"]).await;
    test.check_and_stop(&fresh).await;
}

#[tokio::test]
async fn a_suspension_timeout_survives_a_crash_at_every_statement_for_each_policy() {
    let test = CrashTest::new().await;
    let fresh = test.fresh().await;
    for on_timeout in OnTimeout::ALL {
        let wait = recorded_as("wait", with_timeout(1, on_timeout, for_signal("go")));
        let all = test.crash_reconciler(&fresh, "suspension_timeout", DueKind::SuspensionTimeout, wait).await;
        let (ended, event) = match on_timeout {
            OnTimeout::Fail => (StateName::Failed, "execution.failed"),
            OnTimeout::Cancel => (StateName::Cancelled, "execution.cancelled"),
            OnTimeout::Expire => (StateName::Expired, "execution.expired"),
            OnTimeout::Resume => (StateName::Waiting, "execution.resumed"),
            OnTimeout::Escalate => (StateName::Suspended, "execution.escalated"),
        };
        assert_eq!(test.count(&all, ended).await, all.len(), "{on_timeout:?}");
        each_once(&fresh, &all, &[event]).await;
        match on_timeout {
            OnTimeout::Resume => {
                for claimed in process_all(&fresh, &all).await {
                    assert_eq!((carried_signals(&claimed), claimed.steps.len()), (vec!["timeout"], 1));
                }
            }
            OnTimeout::Escalate => {
                for id in &all {
                    let delivered = fresh.send(*id, "go").await.expect("the flow is still running");
                    assert_eq!(delivered.effect, Effect::Resumed);
                }
                process_all(&fresh, &all).await;
            }
            OnTimeout::Fail | OnTimeout::Cancel | OnTimeout::Expire => {
                assert!(fresh.claim("worker", 9).await.is_empty());
            }
        }
    }
    test.check_and_stop(&fresh).await;
}

#[tokio::test]
async fn a_step_survives_a_crash_at_every_statement() {
    let test = CrashTest::new().await;
    let prepare = async |number| leased(&test.dying, number, Draft::new("kind")).await;
    let act = async |(_, lease): &(ExecutionId, Fence)| {
        let _ = test.dying.namespace.report(vec![Ok((*lease, None, step("charge", "1")))], None).await;
    };
    let all = test.crash_at_every_statement(1, prepare, act).await;
    let fresh = test.fresh().await;
    let mut recorded = 0;
    for (id, lease) in &all {
        recorded += fresh.steps(*id).await.len();
        for server in [&fresh, &test.other] {
            server.report(*lease, step("charge", "1")).await.expect("a repetition is accepted");
        }
        let other = fresh.report(*lease, step("charge", "2")).await.expect_err("the step has another result");
        assert_eq!((other.code(), fresh.steps(*id).await.len()), ("idempotency_mismatch", 1));
        fresh.report(*lease, Op::Release).await.expect("the lease is held");
    }
    assert_eq!(recorded, COMMITTED);
    let executions: Vec<ExecutionId> = all.iter().map(|(id, _)| *id).collect();
    for claimed in process_all(&fresh, &executions).await {
        assert_eq!(claimed.steps.len(), 1, "the next attempt does not run it again");
    }
    each_once(&fresh, &executions, &["step.recorded"]).await;
    test.check_and_stop(&fresh).await;
}

#[tokio::test]
async fn the_end_of_a_child_and_the_update_of_its_parent_survive_a_crash_at_every_statement() {
    let test = CrashTest::new().await;
    let prepare = async |number| {
        let (parent, lease) = leased(&test.other, number, Draft::new("parent")).await;
        let spawn =
            test.other.namespace.spawn(flow_draft("child").graph, false).await.expect("the graph is valid");
        test.other.report(lease, spawn).await.expect("the lease is held");
        let wait = WaitDraft::new(Condition::children());
        let suspended =
            test.other.suspend(lease, recorded_as("join", wait)).await.expect("the lease is held");
        assert_eq!(suspended.state, StateName::Suspended);
        let text = "select count(*) from outbox where id = $1";
        wait_until("the end of the child is awaited", async || {
            test.plain.number(text, &[&parent.0]).await == 0
        })
        .await;
        let kind = ClaimDraft { kinds: Some(vec!["kind".into()]), ..claim_of("child", 1) };
        let child = fence(&test.dying.claim_as(kind).await[0]);
        (parent, child)
    };
    let act = async |(parent, child): &(ExecutionId, Fence)| {
        if test.dying.namespace.report(vec![Ok((*child, None, complete_op()))], None).await.is_ok() {
            let text = "select count(*) from outbox where id = $1";
            wait_until("the parent is updated", async || test.plain.number(text, &[&parent.0]).await == 0)
                .await;
        }
    };
    let all = test.crash_at_every_statement(2, prepare, act).await;
    let parents: Vec<ExecutionId> = all.iter().map(|(parent, _)| *parent).collect();
    assert_eq!(test.count(&parents, StateName::Waiting).await, COMMITTED);
    let fresh = test.fresh().await;
    for (_, child) in &all {
        fresh.complete(*child).await.expect("a repeated report is accepted");
    }
    fresh.reconcile(&test.plain).await;
    for claimed in process_all(&fresh, &parents).await {
        let outcomes: Vec<Option<Outcome>> = claimed.children.iter().map(|child| child.outcome).collect();
        assert_eq!((outcomes, claimed.steps.len()), (vec![Some(Outcome::Completed)], 1));
    }
    fresh.reconcile(&test.plain).await;
    each_once(&fresh, &parents, &["execution.resumed", "step.recorded"]).await;
    test.check_and_stop(&fresh).await;
}
