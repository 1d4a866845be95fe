//! A server dies at every statement of what it does to an execution that waits, or is about to: before the statement reaches
//! Postgres, after it was executed, and after the commit whose answer nobody hears. Whoever got no answer asks a fresh server
//! again, whose reconcilers find the rest; everything comes to the same end, and each effect has happened once.
//!
//! Each operation is done again and again, on an execution of its own each time, and dies one statement later each time,
//! until it comes to rest without dying: so no statement is left out. Then all these executions are recovered together.

mod support;

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
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use support::crash::{At, Crasher};
use support::flows::{drawn, end};
use support::suspensions::{at_most, carried, known_as, name, on, said, step};
use support::test_server::{TestServer, claim_of, complete_op, fence, ids, passive_options};
use support::{Plain, Sandbox, until};

/// A server that dies, and one beside it that does not.
struct Bed {
    sandbox: Sandbox,
    crasher: Crasher,
    /// One connection to write: its transactions come one after the other.
    store: Arc<PostgresStore>,
    dying: TestServer,
    other: TestServer,
    plain: Plain,
}

impl Bed {
    async fn new() -> Bed {
        let sandbox = Sandbox::new();
        let crasher = Crasher::start(&sandbox.url("dying")).await;
        let settings = Settings { writers: 1, readers: 1, ..sandbox.settings() };
        let store = PostgresStore::connect_with(crasher.url(), settings).await.expect("the store opens");
        let store = Arc::new(store);
        let dying = TestServer::new(store.clone(), passive_options()).await;
        let (other, plain) = (sandbox.side("other").await, sandbox.plain().await);
        Bed { sandbox, crasher, store, dying, other, plain }
    }

    /// A server on the store that dies, whose reconcilers look only after executions with this number.
    async fn dying_for(&self, number: usize) -> TestServer {
        let tag = Some(("number".into(), number.to_string()));
        let scope = ReconcilerScope { tag, ..ReconcilerScope::default() };
        TestServer::new(self.store.clone(), Options { scope, ..passive_options() }).await
    }

    /// A server that was not there, and does only what it is asked to.
    async fn fresh(&self) -> TestServer {
        self.sandbox.side_with("fresh", Options { dispatch: false, ..passive_options() }).await
    }

    /// Does something and dies there. Gives the statements of a run that came to rest before.
    async fn strike(&self, at: At, act: impl Future<Output = ()>) -> Option<Vec<String>> {
        self.crasher.arm(at);
        let rests = async {
            act.await;
            self.sandbox.is_at_rest("dying").await;
        };
        tokio::select! {
            () = self.crasher.has_died() => {}
            () = rests => {}
        }
        let (died, statements) = self.crasher.revive();
        // What Postgres was about to do is done or undone before the next one comes.
        self.sandbox.is_at_rest("dying").await;
        (!died).then_some(statements)
    }

    /// Does something at every statement of which the server dies: so many transactions where it does not. `prepare` makes
    /// what it is done to, `act` does it and comes back when all of it is done. Gives everything that it was done to.
    async fn dies_everywhere<P>(
        &self,
        transactions: usize,
        prepare: impl AsyncFn(usize) -> P,
        act: impl AsyncFn(&P),
    ) -> Vec<P> {
        let mut all = Vec::new();
        for cut in [At::Before, At::After] {
            for number in 0.. {
                let struck = prepare(all.len()).await;
                let rested = self.strike(cut(number), act(&struck)).await;
                all.push(struck);
                let Some(statements) = rested else { continue };
                let commits = statements.iter().filter(|text| *text == "commit").count();
                // It has died at each of them; a run now and then has one more.
                assert!(statements.len() <= number, "{statements:#?}");
                assert_eq!(commits, transactions, "{statements:#?}");
                break;
            }
        }
        all
    }

    /// How many of these are in a state.
    async fn count(&self, all: &[ExecutionId], state: StateName) -> usize {
        let mut count = 0;
        for id in all {
            count += usize::from(self.other.state(*id).await == state);
        }
        count
    }

    async fn end(&self, fresh: &TestServer) {
        end(&[fresh, &self.dying, &self.other]).await;
    }
}

/// Submits and claims. What came before it may be ready, so each is more urgent than all before.
async fn leased(side: &TestServer, number: usize, draft: Draft) -> (ExecutionId, Fence) {
    let id = side.submit(Draft { priority: number as i64, ..draft }).await;
    let claimed = side.claim_one("one").await;
    assert_eq!(claimed.execution.id, id);
    (id, fence(&claimed))
}

/// Of an operation of one transaction, how many runs had their effect before anybody asked again: the one whose commit was
/// not answered, and the two in which nobody died.
const COMMITTED: usize = 3;

/// How often what happened to whom, as the log tells it.
async fn told(side: &TestServer) -> BTreeMap<(ExecutionId, &'static str), usize> {
    let log = Harness::new(side.engine.store().clone()).await.log().await;
    let mut told = BTreeMap::new();
    for event in log.iter().flat_map(|(_, events)| events) {
        let Some(id) = event.execution else { continue };
        for (kind, _) in event.fact.public_events() {
            *told.entry((id, kind)).or_default() += 1;
        }
    }
    told
}

/// Each of these happened once to each of them.
async fn each_once(side: &TestServer, all: &[ExecutionId], events: &[&'static str]) {
    let told = told(side).await;
    for id in all {
        for event in events {
            assert_eq!(told.get(&(*id, *event)).copied(), Some(1), "{event} to {id}");
        }
    }
}

/// Claims all of these, which are all that is ready, and completes them. Gives the claims.
async fn work_off(side: &TestServer, all: &[ExecutionId]) -> Vec<Claimed> {
    let claimed = side.claim("finisher", 1000).await;
    assert_eq!(BTreeSet::from_iter(ids(&claimed)), BTreeSet::from_iter(all.iter().copied()));
    assert_eq!(claimed.len(), all.len());
    for one in &claimed {
        side.complete(fence(one)).await.expect("it holds the lease");
    }
    claimed
}

#[tokio::test]
async fn a_signal_survives_a_crash_at_every_statement() {
    let bed = Bed::new().await;
    let draft = || SignalDraft { key: Some("key".into()), ..said("go") };
    let prepare = async |number| {
        let (id, lease) = leased(&bed.other, number, Draft::new("kind")).await;
        let suspended = bed.other.suspend(lease, known_as("wait", on("go"))).await;
        assert_eq!(suspended.expect("it holds the lease").state, StateName::Suspended);
        id
    };
    let act = async |id: &ExecutionId| {
        let _ = bed.dying.namespace.signal(*id, draft(), &name("sender")).await;
    };
    let all = bed.dies_everywhere(1, prepare, act).await;
    assert_eq!(bed.count(&all, StateName::Waiting).await, COMMITTED);
    let fresh = bed.fresh().await;
    let mut duplicates = 0;
    for id in &all {
        let first = fresh.send_draft(*id, draft()).await.expect("it is the same");
        assert_eq!((first.number, first.effect), (1, Effect::Resumed));
        duplicates += usize::from(first.duplicate);
        let again = fresh.send_draft(*id, draft()).await.expect("it is the same");
        assert_eq!((again.number, again.effect, again.duplicate), (1, Effect::Resumed, true));
        assert_eq!(fresh.signals(*id).await.len(), 1);
    }
    assert_eq!(duplicates, COMMITTED);
    for claimed in work_off(&fresh, &all).await {
        assert_eq!((carried(&claimed), claimed.steps.len()), (vec!["go"], 1));
    }
    each_once(&fresh, &all, &["signal.delivered", "execution.resumed", "step.recorded"]).await;
    bed.end(&fresh).await;
}

#[tokio::test]
async fn a_delivery_by_token_survives_a_crash_at_every_statement() {
    let bed = Bed::new().await;
    let prepare = async |number| {
        let (_, lease) = leased(&bed.other, number, Draft::new("kind")).await;
        let waitpoint = WaitpointDraft::new(name("approval"));
        bed.other.suspend_at(lease, waitpoint).await.waitpoints.remove(0)
    };
    let act = async |waitpoint: &Waitpoint| {
        let draft = SignalDraft { name: None, ..said("approval") };
        let token = bed.other.namespace.token(waitpoint);
        let _ = bed.dying.engine.deliver(waitpoint.id, &token, draft).await;
    };
    let all = bed.dies_everywhere(1, prepare, act).await;
    let executions: Vec<ExecutionId> = all.iter().map(|waitpoint| waitpoint.execution).collect();
    assert_eq!(bed.count(&executions, StateName::Waiting).await, COMMITTED);
    let fresh = bed.fresh().await;
    let mut duplicates = 0;
    for waitpoint in &all {
        let first = fresh.deliver(waitpoint).await.expect("it is the same");
        assert_eq!((first.number, first.effect), (1, Effect::Resumed));
        duplicates += usize::from(first.duplicate);
        assert!(fresh.deliver(waitpoint).await.expect("it is the same").duplicate);
        let waitpoints = fresh.waitpoints(waitpoint.execution).await;
        let states: Vec<WaitpointState> = waitpoints.iter().map(|one| one.state).collect();
        assert_eq!(states, [WaitpointState::Delivered(1, Effect::Resumed)]);
    }
    assert_eq!(duplicates, COMMITTED);
    for claimed in work_off(&fresh, &executions).await {
        assert_eq!(carried(&claimed), ["approval"]);
    }
    each_once(&fresh, &executions, &["signal.delivered", "execution.resumed", "waitpoint.created"]).await;
    bed.end(&fresh).await;
}

#[tokio::test]
async fn a_suspension_with_waitpoints_survives_a_crash_at_every_statement() {
    let bed = Bed::new().await;
    let op = |side: &TestServer| -> Op {
        let waits = vec![known_as("approved", on("approval")), known_as("given up", on("refusal"))];
        let waitpoints = ["approval", "refusal"].map(|called| WaitpointDraft::new(name(called)));
        side.namespace.suspend(waits, waitpoints.to_vec())
    };
    let prepare = async |number| leased(&bed.dying, number, Draft::new("kind")).await;
    let act = async |(_, lease): &(ExecutionId, Fence)| {
        let _ = bed.dying.namespace.report(vec![Ok((*lease, None, op(&bed.dying)))], None).await;
    };
    let all = bed.dies_everywhere(1, prepare, act).await;
    let executions: Vec<ExecutionId> = all.iter().map(|(id, _)| *id).collect();
    assert_eq!(bed.count(&executions, StateName::Suspended).await, COMMITTED);
    let fresh = bed.fresh().await;
    for (id, lease) in &all {
        let first = fresh.report(*lease, op(&fresh)).await.expect("it is the same report");
        assert_eq!((first.state, first.waitpoints.len()), (StateName::Suspended, 2));
        let again = bed.other.report(*lease, op(&bed.other)).await.expect("it is the same report");
        assert_eq!(first, again, "with the same tokens");
        assert_eq!(
            (fresh.waitpoints(*id).await, fresh.steps(*id).await.len()),
            (first.waitpoints.clone(), 2)
        );
        let delivered = bed.other.deliver(&first.waitpoints[0]).await.expect("it is open");
        assert_eq!(delivered.effect, Effect::Resumed);
        // Also when it has gone on.
        let late = fresh.report(*lease, op(&fresh)).await.expect("it is the same report");
        assert_eq!(late.state, StateName::Suspended);
    }
    for claimed in work_off(&fresh, &executions).await {
        let steps: Vec<&str> = claimed.steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(
            (carried(&claimed), steps, fence(&claimed).epoch),
            (vec!["approval"], vec!["approved"], 2)
        );
    }
    each_once(&fresh, &executions, &["execution.suspended", "execution.resumed", "step.recorded"]).await;
    bed.end(&fresh).await;
}

/// The row is remembered by the server that handed out the lease, and only saved.
#[tokio::test]
async fn a_suspension_from_a_remembered_row_survives_a_crash_at_every_statement() {
    let bed = Bed::new().await;
    let prepare = async |number| leased(&bed.dying, number, Draft::new("kind")).await;
    let act = async |(_, lease): &(ExecutionId, Fence)| {
        let op = bed.dying.namespace.suspend(vec![on("go")], vec![]);
        let _ = bed.dying.namespace.report(vec![Ok((*lease, None, op))], None).await;
    };
    let all = bed.dies_everywhere(1, prepare, act).await;
    let executions: Vec<ExecutionId> = all.iter().map(|(id, _)| *id).collect();
    assert_eq!(bed.count(&executions, StateName::Suspended).await, COMMITTED);
    let fresh = bed.fresh().await;
    for (id, lease) in &all {
        // A signal that comes in between is heard, whether it was suspended or is yet to be.
        let committed = fresh.state(*id).await == StateName::Suspended;
        let effect = fresh.send(*id, "go").await.expect("it is live").effect;
        assert_eq!(effect, if committed { Effect::Resumed } else { Effect::Buffered });
        let reported = fresh.suspend(*lease, on("go")).await.expect("it is the same report");
        assert_eq!(reported.state, if committed { StateName::Suspended } else { StateName::Waiting });
    }
    for claimed in work_off(&fresh, &executions).await {
        assert_eq!(carried(&claimed), ["go"]);
    }
    each_once(&fresh, &executions, &["execution.suspended", "execution.resumed"]).await;
    bed.end(&fresh).await;
}

/// What time does, through a server that dies and looks only after its own.
struct Timed {
    id: ExecutionId,
    dying: TestServer,
}

impl Bed {
    /// Suspended until this wait ends, and something of this kind is due.
    async fn timed(&self, number: usize, wait: WaitDraft, kind: DueKind) -> Timed {
        let tags = BTreeMap::from([("number".to_owned(), number.to_string())]);
        let (id, lease) = leased(&self.other, number, Draft { tags, ..Draft::new("kind") }).await;
        let suspended = self.other.suspend(lease, wait).await.expect("it holds the lease");
        assert_eq!(suspended.state, StateName::Suspended);
        self.other.is_due(id, kind).await;
        Timed { id, dying: self.dying_for(number).await }
    }

    /// Time does something of this kind to a wait, and the server dies everywhere. A fresh one does the rest.
    async fn time_passes(
        &self,
        fresh: &TestServer,
        reconciler: &str,
        kind: DueKind,
        wait: WaitDraft,
    ) -> Vec<ExecutionId> {
        let prepare = async |number| self.timed(number, wait.clone(), kind).await;
        let act = async |timed: &Timed| drop(timed.dying.engine.tick(reconciler).await);
        let all = self.dies_everywhere(1, prepare, act).await;
        let left = all.len() as u64 - COMMITTED as u64;
        let tally = fresh.tick(reconciler).await;
        assert_eq!((tally.scanned, tally.done, tally.errors), (left, left, 0), "{reconciler}");
        assert_eq!(fresh.tick(reconciler).await.scanned, 0);
        all.into_iter().map(|timed| timed.id).collect()
    }
}

#[tokio::test]
async fn a_time_that_comes_survives_a_crash_at_every_statement() {
    let bed = Bed::new().await;
    let fresh = bed.fresh().await;
    let sleep = known_as("sleep", WaitDraft::new(Condition::until(When::AfterMs(1))));
    let all = bed.time_passes(&fresh, "delay_promoter", DueKind::Delay, sleep).await;
    for claimed in work_off(&fresh, &all).await {
        assert_eq!((carried(&claimed), claimed.steps.len()), (vec![], 1));
    }
    each_once(&fresh, &all, &["execution.resumed", "step.recorded"]).await;
    bed.end(&fresh).await;
}

#[tokio::test]
async fn a_suspension_timeout_survives_a_crash_at_every_statement_whatever_happens_then() {
    let bed = Bed::new().await;
    let fresh = bed.fresh().await;
    for on_timeout in OnTimeout::ALL {
        let wait = known_as("wait", at_most(1, on_timeout, on("go")));
        let all = bed.time_passes(&fresh, "suspension_timeout", DueKind::SuspensionTimeout, wait).await;
        let (ended, event) = match on_timeout {
            OnTimeout::Fail => (StateName::Failed, "execution.failed"),
            OnTimeout::Cancel => (StateName::Cancelled, "execution.cancelled"),
            OnTimeout::Expire => (StateName::Expired, "execution.expired"),
            OnTimeout::Resume => (StateName::Waiting, "execution.resumed"),
            OnTimeout::Escalate => (StateName::Suspended, "execution.escalated"),
        };
        assert_eq!(bed.count(&all, ended).await, all.len(), "{on_timeout:?}");
        each_once(&fresh, &all, &[event]).await;
        match on_timeout {
            OnTimeout::Resume => {
                for claimed in work_off(&fresh, &all).await {
                    assert_eq!((carried(&claimed), claimed.steps.len()), (vec!["timeout"], 1));
                }
            }
            OnTimeout::Escalate => {
                for id in &all {
                    let delivered = fresh.send(*id, "go").await.expect("it waits still");
                    assert_eq!(delivered.effect, Effect::Resumed);
                }
                work_off(&fresh, &all).await;
            }
            OnTimeout::Fail | OnTimeout::Cancel | OnTimeout::Expire => {
                assert!(fresh.claim("nobody", 9).await.is_empty());
            }
        }
    }
    bed.end(&fresh).await;
}

#[tokio::test]
async fn a_step_survives_a_crash_at_every_statement() {
    let bed = Bed::new().await;
    let prepare = async |number| leased(&bed.dying, number, Draft::new("kind")).await;
    let act = async |(_, lease): &(ExecutionId, Fence)| {
        let _ = bed.dying.namespace.report(vec![Ok((*lease, None, step("charge", "1")))], None).await;
    };
    let all = bed.dies_everywhere(1, prepare, act).await;
    let fresh = bed.fresh().await;
    let mut recorded = 0;
    for (id, lease) in &all {
        recorded += fresh.steps(*id).await.len();
        for side in [&fresh, &bed.other] {
            side.report(*lease, step("charge", "1")).await.expect("it is the same");
        }
        let other = fresh.report(*lease, step("charge", "2")).await.expect_err("it has a result");
        assert_eq!((other.code(), fresh.steps(*id).await.len()), ("idempotency_mismatch", 1));
        fresh.report(*lease, Op::Release).await.expect("it holds the lease");
    }
    assert_eq!(recorded, COMMITTED);
    let executions: Vec<ExecutionId> = all.iter().map(|(id, _)| *id).collect();
    for claimed in work_off(&fresh, &executions).await {
        assert_eq!(claimed.steps.len(), 1, "the next attempt does not run it again");
    }
    each_once(&fresh, &executions, &["step.recorded"]).await;
    bed.end(&fresh).await;
}

#[tokio::test]
async fn the_end_of_a_child_and_telling_its_parent_survive_a_crash_at_every_statement() {
    let bed = Bed::new().await;
    let prepare = async |number| {
        let (parent, lease) = leased(&bed.other, number, Draft::new("parent")).await;
        let spawn = bed.other.namespace.spawn(drawn("child").graph, false).await.expect("it is valid");
        bed.other.report(lease, spawn).await.expect("it holds the lease");
        let wait = WaitDraft::new(Condition::children());
        let suspended = bed.other.suspend(lease, known_as("join", wait)).await.expect("it holds the lease");
        assert_eq!(suspended.state, StateName::Suspended);
        let kind = ClaimDraft { kinds: Some(vec!["kind".into()]), ..claim_of("child", 1) };
        let child = fence(&bed.dying.claim_as(kind).await[0]);
        (parent, child)
    };
    let act = async |(parent, child): &(ExecutionId, Fence)| {
        if bed.dying.namespace.report(vec![Ok((*child, None, complete_op()))], None).await.is_ok() {
            let text = "select count(*) from outbox where id = $1";
            until("the parent is told", async || bed.plain.number(text, &[&parent.0]).await == 0).await;
        }
    };
    let all = bed.dies_everywhere(2, prepare, act).await;
    let parents: Vec<ExecutionId> = all.iter().map(|(parent, _)| *parent).collect();
    assert_eq!(bed.count(&parents, StateName::Waiting).await, COMMITTED);
    let fresh = bed.fresh().await;
    for (_, child) in &all {
        fresh.complete(*child).await.expect("it is the same report");
    }
    fresh.reconcile(&bed.plain).await;
    for claimed in work_off(&fresh, &parents).await {
        let outcomes: Vec<Option<Outcome>> = claimed.children.iter().map(|child| child.outcome).collect();
        assert_eq!((outcomes, claimed.steps.len()), (vec![Some(Outcome::Completed)], 1));
    }
    fresh.reconcile(&bed.plain).await;
    each_once(&fresh, &parents, &["execution.resumed", "step.recorded"]).await;
    bed.end(&fresh).await;
}
