//! The harness of a case: a store, a namespace in it, and helpers for the commands that cases repeat.

pub mod by_hand;
pub mod flow;
pub mod gates;
pub mod runner;
pub mod schedules;
pub mod signals;
pub mod sketch;
pub mod subject;
pub mod worker;

pub use flow::FlowHarness;
pub use sketch::Sketch;
pub use worker::Worker;

use crate::invariants::read_log;
use runner::{PendingReply, RuleGroup, RuleRunner, StoreRunner, decision, load_rows, run_with};
use selvedge_core::filter::Payloads;
use selvedge_core::log::Event;
use selvedge_core::rules::claim::{Claim, Claimed, Claims};
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::rules::report::{Fence, Op, Report, Reported};
use selvedge_core::rules::submit::{Submit, SubmitItem, Submitted};
use selvedge_core::rules::timer::{FireTimer, Timer, TimerReply};
use selvedge_core::{
    Changes, Class, ClassId, Classes, Draft, Execution, ExecutionId, Fact, Name, NamespaceId, Needs, Refusal,
    Rows, Submission, Timestamp,
};
use selvedge_store::{Demand, Store, Stored, Transaction};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use subject::Advance;
use uuid::Uuid;

/// A store and a namespace in it.
#[derive(Clone)]
pub struct Harness {
    /// The store under test.
    pub store: Arc<dyn Store>,
    /// The namespace of commands that name no other.
    pub namespace: NamespaceId,
    runner: Arc<dyn RuleRunner>,
    by_hand: Arc<AtomicBool>,
    advance: Option<Advance>,
}

/// Returns a new execution id.
pub fn new_id() -> ExecutionId {
    ExecutionId(Uuid::now_v7())
}

/// Returns the fence of a claimed execution.
pub fn fence(claimed: &Claimed) -> Fence {
    Fence::of(&claimed.execution).expect("a claimed execution has a lease")
}

/// Spawns `tasks` tasks at once and returns their results, in the order of their numbers.
pub async fn concurrently<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    tasks: usize,
    make: impl Fn(usize) -> F,
) -> Vec<T> {
    let tasks: Vec<_> = (0..tasks).map(|number| tokio::spawn(make(number))).collect();
    let mut results = Vec::with_capacity(tasks.len());
    for task in tasks {
        results.push(task.await.expect("no task panics"));
    }
    results
}

impl Harness {
    /// Returns a harness around an empty store.
    pub async fn new(store: Arc<dyn Store>) -> Self {
        let name = Name::trusted("conformance");
        let namespace = store.namespace(&name).await.expect("a namespace is interned");
        let runner = Arc::new(StoreRunner::on(store.clone()));
        Harness { store, namespace, runner, by_hand: Arc::default(), advance: None }
    }

    /// Returns a harness for the same store in another process, whose caches are empty.
    pub fn another_process(&self) -> Self {
        Harness { runner: Arc::new(StoreRunner::on(self.store.clone())), ..self.clone() }
    }

    /// Replaces the runner of rules, if one is given.
    pub fn with_runner(self, runner: Option<Arc<dyn RuleRunner>>) -> Self {
        let runner = runner.unwrap_or_else(|| self.runner.clone());
        Harness { runner, ..self }
    }

    /// Sets the function that advances the store's clock. Default: none, the clock runs by itself.
    pub fn with_clock(self, advance: Option<Advance>) -> Self {
        Harness { advance, ..self }
    }

    /// Returns true if the store's clock moves only when it is advanced.
    pub fn has_manual_clock(&self) -> bool {
        self.advance.is_some()
    }

    /// Lets more than `ms` milliseconds of the store's time pass: advances a manual clock, or else waits. A case may
    /// wait for a few milliseconds.
    pub async fn advance_past(&self, ms: i64) {
        if let Some(advance) = &self.advance {
            return advance(ms + 1);
        }
        let until = self.now().await.plus_ms(ms);
        while self.now().await <= until {
            tokio::task::yield_now().await;
        }
    }

    /// Returns a harness for another namespace of the same store.
    pub async fn in_namespace(&self, name: &str) -> Self {
        let namespace = self.store.namespace(&Name::trusted(name)).await;
        Harness { namespace: namespace.expect("a namespace is interned"), ..self.clone() }
    }

    /// Returns true if every change so far was made by a rule.
    pub fn changed_only_by_rules(&self) -> bool {
        !self.by_hand.load(Ordering::SeqCst)
    }

    /// Runs rules in one transaction and returns their replies.
    pub async fn run<T: RuleGroup>(&self, rules: T) -> T::Replies {
        self.transact(rules).await.0
    }

    /// Runs rules in one transaction and returns their replies and the transaction.
    pub async fn transact<T: RuleGroup>(&self, rules: T) -> (T::Replies, Transaction) {
        run_with(&*self.runner, rules).await.expect("the transaction is saved")
    }

    /// Registers a waiting claim; see [`RuleRunner::wait`].
    pub fn wait(&self, claim: &Claim) -> Option<PendingReply<Option<Result<Claims, Refusal>>>> {
        self.runner.wait(claim)
    }

    /// Saves changes that no rule made. The invariants are not checked after such a case.
    pub async fn save(&self, changes: Changes) -> Transaction {
        self.by_hand.store(true, Ordering::SeqCst);
        let save = decision(|_| Needs::default(), move |_| Demand::Save(Box::new(changes.clone())));
        self.store.transact(save).await.expect("the changes are saved")
    }

    /// Returns the rows that a decision with these needs is given.
    pub async fn load(&self, needs: Needs) -> Rows {
        load_rows(&*self.store, needs).await
    }

    /// Returns the command that submits these drafts, each with an id and a class.
    pub async fn submit_command(&self, drafts: Vec<Draft>) -> Submit {
        let checked = drafts.into_iter().map(|draft| draft.check().expect("a draft of a case is valid"));
        let submissions: Vec<Submission> = checked.collect();
        let wanted: BTreeSet<Class> = submissions.iter().map(|one| one.class(self.namespace)).collect();
        let classes = self.intern(wanted.into_iter().collect()).await;
        let items = submissions.into_iter().map(|submission| SubmitItem {
            class: classes.find(&submission.class(self.namespace)).expect("its class is interned"),
            id: submission.id().unwrap_or_else(new_id),
            submission: Ok(submission),
        });
        let (namespace, items) = (self.namespace, items.collect());
        Submit { namespace, items, actor: None, call_key: None, repeated: false }
    }

    /// Interns classes and returns the table of them.
    pub async fn intern(&self, wanted: Vec<Class>) -> Classes {
        let mut classes = Classes::default();
        classes.add(self.store.intern(&wanted).await.expect("classes are interned"));
        classes
    }

    /// Returns the class of a lane and a kind, without capabilities.
    pub async fn class(&self, lane: &str, kind: &str) -> ClassId {
        let class = Class {
            namespace: self.namespace,
            lane: Name::trusted(lane),
            kind: Name::trusted(kind),
            capabilities: BTreeSet::new(),
            pool: None,
        };
        self.intern(vec![class.clone()]).await.find(&class).expect("it is interned")
    }

    /// Returns the store's time.
    pub async fn now(&self) -> Timestamp {
        self.store.now().await.expect("the time is read")
    }

    pub async fn submit(&self, draft: Draft) -> Execution {
        self.submit_all(vec![draft]).await.remove(0)
    }

    /// Submits several executions in one transaction.
    pub async fn submit_all(&self, drafts: Vec<Draft>) -> Vec<Execution> {
        let replies = self.run(self.submit_command(drafts).await).await;
        let rows = replies.into_iter().map(|reply| reply.expect("it is accepted").execution);
        rows.collect()
    }

    /// Submits several executions in one transaction and returns their ids.
    pub async fn submit_ids(&self, drafts: Vec<Draft>) -> Vec<ExecutionId> {
        self.submit_all(drafts).await.into_iter().map(|row| row.id).collect()
    }

    /// Submits an execution and returns the reply, which may be a refusal.
    pub async fn try_submit(&self, draft: Draft) -> Result<Submitted, Refusal> {
        self.run(self.submit_command(vec![draft]).await).await.remove(0)
    }

    /// Returns the command by which `worker` claims up to `max` executions.
    pub fn claim_command(&self, worker: &Worker, max: u32) -> Claim {
        Claim {
            scope: worker.scope(self.namespace),
            worker: Name::trusted("worker"),
            instance: Name::trusted(&worker.instance),
            incarnation: worker.incarnation.as_deref().map(Name::trusted),
            max,
            ttl_ms: worker.ttl_ms,
            call_key: None,
            across: vec![],
            handed_only: false,
            life: None,
        }
    }

    /// Claims up to `max` executions as the instance `one`.
    pub async fn claim(&self, max: u32) -> Vec<Claimed> {
        self.claim_as(&Worker::new("one"), max).await
    }

    /// Claims up to `max` executions as `worker`.
    pub async fn claim_as(&self, worker: &Worker, max: u32) -> Vec<Claimed> {
        let claims = self.run(self.claim_command(worker, max)).await;
        claims.expect("a claim without a key is not refused").claimed
    }

    /// Submits an execution and claims it. No other execution may be waiting.
    pub async fn leased(&self, draft: Draft) -> Claimed {
        let id = self.submit(draft).await.id;
        let mut claimed = self.claim(1).await;
        assert_eq!(claimed[0].execution.id, id, "nothing else was waiting");
        claimed.remove(0)
    }

    /// Returns the command that reports `op`.
    pub fn report_command(&self, fence: Fence, op: Op) -> Report {
        Report { namespace: self.namespace, fence, op_id: None, op }
    }

    /// Reports `op` and returns the reply, which may be a refusal.
    pub async fn report(&self, fence: Fence, op: Op) -> Result<Reported, Refusal> {
        self.run(self.report_command(fence, op)).await
    }

    /// Completes a claimed execution with a result.
    pub async fn complete(&self, claimed: &Claimed, result: &'static [u8]) {
        let op = Op::Complete { result: result.into() };
        self.report(fence(claimed), op).await.expect("it is completed");
    }

    /// Returns the command of an operator.
    pub fn operate_command(&self, id: ExecutionId, action: Action) -> Operate {
        Operate {
            namespace: self.namespace,
            execution: id,
            actor: Name::trusted("operator"),
            if_version: None,
            action,
        }
    }

    /// Acts as an operator and returns the reply, which may be a refusal.
    pub async fn operate(&self, id: ExecutionId, action: Action) -> Result<Execution, Refusal> {
        self.run(self.operate_command(id, action)).await
    }

    /// Applies a due action or a lease expiry to an execution.
    pub async fn tick(&self, id: ExecutionId, what: Timer) -> TimerReply {
        let tick = FireTimer { execution: id, timer: what };
        self.run(tick).await.expect("the row can be read")
    }

    /// Returns the row of an execution.
    pub async fn row(&self, id: ExecutionId) -> Execution {
        self.stored(id).await.execution
    }

    /// Returns an execution with its payloads.
    pub async fn stored(&self, id: ExecutionId) -> Stored {
        self.find(id).await.expect("it exists")
    }

    /// Returns an execution with its payloads, if it exists.
    pub async fn find(&self, id: ExecutionId) -> Option<Stored> {
        let mut found = self.store.fetch(&[id], Payloads::ALL).await.expect("executions are read");
        assert!(found.len() <= 1, "one id names one execution");
        found.pop()
    }

    /// Drops old periods of the event log and returns how many. The rest of the log no longer explains every row, so
    /// the invariants are not checked after such a case.
    pub async fn drop_old_log(&self, keep_ms: i64) -> u64 {
        self.by_hand.store(true, Ordering::SeqCst);
        self.store.drop_old_log(keep_ms).await.expect("the window is kept")
    }

    /// Returns the logged facts of an execution, in order.
    pub async fn facts_of(&self, id: ExecutionId) -> Vec<Fact> {
        let events = self.log().await.into_iter().flat_map(|(_, events)| events);
        events.filter(|event| event.execution == Some(id)).map(|event| event.fact).collect()
    }

    /// Returns the whole event log, by entries.
    pub async fn log(&self) -> Vec<(i64, Vec<Event>)> {
        read_log(&*self.store).await
    }
}
