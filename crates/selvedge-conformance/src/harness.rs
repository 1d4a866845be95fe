//! The harness of a case: a store, a namespace in it, and short words for what cases do again and again.

use super::invariants::read_log;
use super::rule::{Collect, Direct, Runner, Together, decision, run_by};
use super::subject::Advance;
use super::worker::Worker;
use selvedge_core::log::Event;
use selvedge_core::rules::claim::{Claim, Claimed, Claims};
use selvedge_core::rules::clock::{Tick, Ticked, What};
use selvedge_core::rules::operator::{Action, Operate};
use selvedge_core::rules::report::{Fence, Op, Report, Reported};
use selvedge_core::rules::submit::{Item, Submit, Submitted};
use selvedge_core::{
    Changes, Class, ClassId, Classes, Draft, Execution, ExecutionId, Name, NamespaceId, Needs, Refusal, Rows,
    Submission, Timestamp,
};
use selvedge_store::{Demand, Store, Stored, Transaction};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use uuid::Uuid;

/// A store, and a namespace in it.
#[derive(Clone)]
pub struct Harness {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The namespace that cases use unless they say otherwise.
    pub namespace: NamespaceId,
    runner: Arc<dyn Runner>,
    by_hand: Arc<AtomicBool>,
    advance: Option<Advance>,
}

/// A fresh id.
pub fn mint() -> ExecutionId {
    ExecutionId(Uuid::now_v7())
}

/// The fence of a claimed execution.
pub fn fence(claimed: &Claimed) -> Fence {
    Fence::of(&claimed.execution).expect("a claimed execution is leased")
}

impl Harness {
    /// A harness around an empty store.
    pub async fn new(store: Arc<dyn Store>) -> Self {
        let name = Name::trusted("conformance");
        let namespace = store.namespace(&name).await.expect("a namespace is interned");
        let runner = Arc::new(Direct::on(store.clone()));
        Harness { store, namespace, runner, by_hand: Arc::default(), advance: None }
    }

    /// The same store, used by another process, which has cached nothing.
    pub fn elsewhere(&self) -> Self {
        Harness { runner: Arc::new(Direct::on(self.store.clone())), ..self.clone() }
    }

    /// The same harness; rules are run by `runner`.
    pub fn with_runner(self, runner: Option<Arc<dyn Runner>>) -> Self {
        let runner = runner.unwrap_or_else(|| self.runner.clone());
        Harness { runner, ..self }
    }

    /// The same harness; its store's clock can be moved.
    pub fn with_clock(self, advance: Option<Advance>) -> Self {
        Harness { advance, ..self }
    }

    /// Whether the store's clock moves only when it is moved.
    pub fn is_manual(&self) -> bool {
        self.advance.is_some()
    }

    /// Lets the store's time move on by more than this: by hand where that is possible, else by waiting for it, which a case
    /// may do for a few milliseconds.
    pub async fn pass(&self, ms: i64) {
        if let Some(advance) = &self.advance {
            return advance(ms + 1);
        }
        let until = self.now().await.plus_ms(ms);
        while self.now().await <= until {
            tokio::task::yield_now().await;
        }
    }

    /// The same store, with another namespace.
    pub async fn beside(&self, name: &str) -> Self {
        let namespace = self.store.namespace(&Name::trusted(name)).await;
        Harness { namespace: namespace.expect("a namespace is interned"), ..self.clone() }
    }

    /// Whether every change so far was made by a rule.
    pub fn went_by_the_rules(&self) -> bool {
        !self.by_hand.load(Ordering::SeqCst)
    }

    /// Runs rules in one transaction.
    pub async fn run<T: Together>(&self, rules: T) -> T::Replies {
        self.transact(rules).await.0
    }

    /// Runs rules in one transaction, and says what became of that.
    pub async fn transact<T: Together>(&self, rules: T) -> (T::Replies, Transaction) {
        run_by(&*self.runner, rules).await.expect("the transaction is saved")
    }

    /// Lets a claim wait for the next transaction; see [`Runner::wait`].
    pub fn wait(&self, claim: &Claim) -> Option<Collect<Option<Result<Claims, Refusal>>>> {
        self.runner.wait(claim)
    }

    /// Saves changes made by hand.
    pub async fn save(&self, changes: Changes) -> Transaction {
        self.by_hand.store(true, Ordering::SeqCst);
        let save = decision(|_| Needs::default(), move |_| Demand::Save(Box::new(changes.clone())));
        self.store.transact(save).await.expect("the changes are saved")
    }

    /// What a decision with these needs is shown.
    pub async fn load(&self, needs: Needs) -> Rows {
        let shown: Arc<Mutex<Rows>> = Arc::default();
        let seen = shown.clone();
        let look = decision(
            move |_| needs.clone(),
            move |rows| {
                *seen.lock().expect("nobody panics with rows") = rows;
                Demand::Save(Box::default())
            },
        );
        self.store.transact(look).await.expect("the rows are loaded");
        std::mem::take(&mut *shown.lock().expect("nobody panics with rows"))
    }

    /// The command that submits these; each gets an id and a class.
    pub async fn submit_command(&self, drafts: Vec<Draft>) -> Submit {
        let checked = drafts.into_iter().map(|draft| draft.check().expect("a draft of a case is valid"));
        let submissions: Vec<Submission> = checked.collect();
        let wanted: BTreeSet<Class> = submissions.iter().map(|one| one.class(self.namespace)).collect();
        let classes = self.intern(wanted.into_iter().collect()).await;
        let items = submissions.into_iter().map(|submission| Item {
            class: classes.find(&submission.class(self.namespace)).expect("its class is interned"),
            id: submission.id().unwrap_or_else(mint),
            submission: Ok(submission),
        });
        Submit { namespace: self.namespace, items: items.collect(), operation: None, repeated: false }
    }

    /// Interns classes.
    pub async fn intern(&self, wanted: Vec<Class>) -> Classes {
        let mut classes = Classes::default();
        classes.add(self.store.intern(&wanted).await.expect("classes are interned"));
        classes
    }

    /// The class of a lane and a kind.
    pub async fn class(&self, lane: &str, kind: &str) -> ClassId {
        let class = Class {
            namespace: self.namespace,
            lane: Name::trusted(lane),
            kind: Name::trusted(kind),
            capabilities: BTreeSet::new(),
        };
        self.intern(vec![class.clone()]).await.find(&class).expect("it is interned")
    }

    /// The store's time.
    pub async fn now(&self) -> Timestamp {
        self.store.overview().await.expect("the store is looked at").now
    }

    /// Submits one.
    pub async fn submit(&self, draft: Draft) -> Execution {
        self.submit_all(vec![draft]).await.remove(0)
    }

    /// Submits several in one transaction.
    pub async fn submit_all(&self, drafts: Vec<Draft>) -> Vec<Execution> {
        let replies = self.run(self.submit_command(drafts).await).await;
        let rows = replies.into_iter().map(|reply| reply.expect("it is accepted").execution);
        rows.collect()
    }

    /// Submits one and gives the answer.
    pub async fn try_submit(&self, draft: Draft) -> Result<Submitted, Refusal> {
        self.run(self.submit_command(vec![draft]).await).await.remove(0)
    }

    /// The command by which `worker` claims up to `max`.
    pub fn claim_command(&self, worker: &Worker, max: u32) -> Claim {
        Claim {
            scope: worker.scope(self.namespace),
            worker: Name::trusted("worker"),
            instance: Name::trusted(&worker.instance),
            max,
            ttl_ms: worker.ttl_ms,
            operation: None,
            handed_only: false,
        }
    }

    /// Claims up to `max` as the worker `one`.
    pub async fn claim(&self, max: u32) -> Vec<Claimed> {
        self.claim_as(&Worker::new("one"), max).await
    }

    /// Claims up to `max`.
    pub async fn claim_as(&self, worker: &Worker, max: u32) -> Vec<Claimed> {
        let claims = self.run(self.claim_command(worker, max)).await;
        claims.expect("a claim without a key is not refused").claimed
    }

    /// Submits one and claims it.
    pub async fn leased(&self, draft: Draft) -> Claimed {
        let id = self.submit(draft).await.id;
        let mut claimed = self.claim(1).await;
        assert_eq!(claimed[0].execution.id, id, "nothing else was ready");
        claimed.remove(0)
    }

    /// The command that reports `op`.
    pub fn report_command(&self, fence: Fence, op: Op) -> Report {
        Report { namespace: self.namespace, fence, op_id: None, op }
    }

    /// Reports.
    pub async fn report(&self, fence: Fence, op: Op) -> Result<Reported, Refusal> {
        self.run(self.report_command(fence, op)).await
    }

    /// Completes with a result.
    pub async fn complete(&self, claimed: &Claimed, result: &'static [u8]) {
        let op = Op::Complete { result: result.into() };
        self.report(fence(claimed), op).await.expect("it is completed");
    }

    /// The command of an operator.
    pub fn operate_command(&self, id: ExecutionId, action: Action) -> Operate {
        Operate {
            namespace: self.namespace,
            execution: id,
            actor: Name::trusted("operator"),
            if_version: None,
            action,
        }
    }

    /// Acts as an operator.
    pub async fn operate(&self, id: ExecutionId, action: Action) -> Result<Execution, Refusal> {
        self.run(self.operate_command(id, action)).await
    }

    /// Lets time act on one execution.
    pub async fn tick(&self, id: ExecutionId, what: What) -> Ticked {
        let tick = Tick { execution: id, what };
        self.run(tick).await.expect("the row can be read")
    }

    /// The row of an execution.
    pub async fn row(&self, id: ExecutionId) -> Execution {
        self.stored(id).await.execution
    }

    /// An execution as reads show it.
    pub async fn stored(&self, id: ExecutionId) -> Stored {
        self.find(id).await.expect("it exists")
    }

    /// An execution as reads show it, if it exists.
    pub async fn find(&self, id: ExecutionId) -> Option<Stored> {
        let mut found = self.store.fetch(&[id]).await.expect("executions are read");
        assert!(found.len() <= 1, "one id names one execution");
        found.pop()
    }

    /// Keeps the log's window; says how many periods were dropped. What is left of the log does not tell of every row.
    pub async fn keep_log(&self, keep_ms: i64) -> u64 {
        self.by_hand.store(true, Ordering::SeqCst);
        self.store.keep_log(keep_ms).await.expect("the window is kept")
    }

    /// The whole log, by entries.
    pub async fn log(&self) -> Vec<(i64, Vec<Event>)> {
        read_log(&*self.store).await
    }
}
