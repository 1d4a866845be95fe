//! Runs the rules of core in the driver that ships, and decisions that a test writes as closures.

use async_trait::async_trait;
use selvedge_core::driver::{Admission, Alone, Driver, Host, Summary};
use selvedge_core::rule::{Caller, Locks, Phase, Profile, Queued, Rule, Touch};
use selvedge_core::rules::claim::{Claim, Claims};
use selvedge_core::{Changes, Class, ClassId, Classes, Execution, ExecutionId, Needs, Refusal, Rows, Work};
use selvedge_store::{BoxedTask, Decision, Demand, Error, Store, Transaction};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A reply that can be collected after the commit.
pub type PendingReply<T> = Box<dyn FnOnce() -> T + Send>;

/// Rules that share one transaction: a single rule, a [`RulePair`], or a [`RuleList`].
pub trait RuleGroup: Send + 'static {
    /// The replies of the rules.
    type Replies: Send + 'static;
    /// Adds the rules as tasks and returns the replies, to be collected after the commit.
    fn add_tasks(self, tasks: &mut Vec<BoxedTask>) -> PendingReply<Self::Replies>;
}

/// The place of a reply, which the [`PendingReply`] takes out.
struct Reply<T>(Arc<Mutex<Option<T>>>);

impl<R: Rule> Caller<R> for Reply<R::Reply> {
    type Error = Error;

    fn answer(self, reply: Result<R::Reply, Error>) -> Option<R::Reply> {
        *locked(&self.0) = reply.ok();
        None
    }
}

impl<R: Rule> RuleGroup for R {
    type Replies = R::Reply;
    fn add_tasks(self, tasks: &mut Vec<BoxedTask>) -> PendingReply<R::Reply> {
        let reply = Arc::default();
        tasks.push(Box::new(Queued::of(self, Reply(Arc::clone(&reply)))));
        Box::new(move || locked(&reply).take().expect("a rule that was saved has decided"))
    }
}

/// Two rules or groups of rules in one transaction.
pub struct RulePair<A, B>(pub A, pub B);

impl<A: RuleGroup, B: RuleGroup> RuleGroup for RulePair<A, B> {
    type Replies = (A::Replies, B::Replies);
    fn add_tasks(self, tasks: &mut Vec<BoxedTask>) -> PendingReply<Self::Replies> {
        let (first, second) = (self.0.add_tasks(tasks), self.1.add_tasks(tasks));
        Box::new(move || (first(), second()))
    }
}

/// Several rules of one kind in one transaction.
pub struct RuleList<T>(pub Vec<T>);

impl<T: RuleGroup> RuleGroup for RuleList<T> {
    type Replies = Vec<T::Replies>;
    fn add_tasks(self, tasks: &mut Vec<BoxedTask>) -> PendingReply<Self::Replies> {
        let replies: Vec<_> = self.0.into_iter().map(|one| one.add_tasks(tasks)).collect();
        Box::new(move || replies.into_iter().map(|collect| collect()).collect())
    }
}

/// Runs tasks in one transaction. A task that the driver defers runs in the next one.
#[async_trait]
pub trait RuleRunner: Send + Sync {
    /// Runs the tasks. All of them are decided if it returns without an error.
    async fn run(&self, tasks: Vec<BoxedTask>) -> Result<Transaction, Error>;

    /// Registers a waiting claim for the next transaction. Its pending reply is none if that transaction did not serve
    /// it. Default: none, the runner has no waiting claims.
    fn wait(&self, _claim: &Claim) -> Option<PendingReply<Option<Result<Claims, Refusal>>>> {
        None
    }
}

/// Runs tasks directly on a store, without an engine: no batching, no waiting claims, and a lease cache only if a case
/// fills it.
pub struct StoreRunner {
    store: Arc<dyn Store>,
    cached: Mutex<HashMap<ExecutionId, Execution>>,
}

impl StoreRunner {
    /// Returns a runner on this store with an empty cache.
    pub fn on(store: Arc<dyn Store>) -> Self {
        StoreRunner { store, cached: Mutex::default() }
    }

    /// Adds a row to the lease cache.
    pub fn caching(self, row: Execution) -> Self {
        locked(&self.cached).insert(row.id, row);
        self
    }

    async fn driver(&self, tasks: Vec<BoxedTask>) -> Result<SharedDriver, Error> {
        let cached = Mutex::new(std::mem::take(&mut *locked(&self.cached)));
        let host = CacheHost { alone: Alone::default(), cached };
        host.learn_classes(self.store.classes_after(ClassId(0)).await?);
        Ok(Arc::new(Mutex::new(Driver::new(host, tasks))))
    }
}

type SharedDriver = Arc<Mutex<Driver<CacheHost>>>;

/// A host of the driver that has only a lease cache.
struct CacheHost {
    alone: Alone<BoxedTask>,
    cached: Mutex<HashMap<ExecutionId, Execution>>,
}

impl Host for CacheHost {
    type Task = BoxedTask;
    type Effects = ();
    fn effects(&self, _changes: &Changes, _summary: Summary) {}
    fn classes(&self) -> Arc<Classes> {
        self.alone.classes()
    }
    fn learn_classes(&self, classes: Vec<(ClassId, Class)>) {
        self.alone.learn_classes(classes);
    }
    fn admission(&self) -> Admission {
        self.alone.admission()
    }
    fn seed(&self) -> u64 {
        self.alone.seed()
    }
    fn take_cached(&self, id: ExecutionId) -> Option<Execution> {
        locked(&self.cached).remove(&id)
    }
}

#[async_trait]
impl RuleRunner for StoreRunner {
    async fn run(&self, tasks: Vec<BoxedTask>) -> Result<Transaction, Error> {
        let driver = self.driver(tasks).await?;
        let mut transaction = self.store.transact(Box::new(driver.clone())).await?;
        let (tasks, _) = locked(&driver).take_tasks();
        for task in tasks {
            if task.is_decided() {
                task.deliver();
                continue;
            }
            let driver = self.driver(vec![task]).await?;
            transaction = self.store.transact(Box::new(driver.clone())).await?;
            locked(&driver).take_tasks().0.into_iter().for_each(|task| drop(task.deliver()));
        }
        Ok(transaction)
    }
}

/// Locks a mutex. A panic of another holder fails the case anyway.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub async fn run_with<T: RuleGroup>(
    runner: &dyn RuleRunner,
    rules: T,
) -> Result<(T::Replies, Transaction), Error> {
    let mut tasks = Vec::new();
    let replies = rules.add_tasks(&mut tasks);
    let transaction = runner.run(tasks).await?;
    Ok((replies(), transaction))
}

/// Runs rules directly on a store.
pub async fn run_rule<T: RuleGroup>(
    store: &Arc<dyn Store>,
    rules: T,
) -> Result<(T::Replies, Transaction), Error> {
    run_with(&StoreRunner::on(store.clone()), rules).await
}

/// Returns the decision of rules whose replies are not needed.
pub fn decision_of<T: RuleGroup>(rules: T) -> Box<dyn Decision> {
    let mut tasks = Vec::new();
    drop(rules.add_tasks(&mut tasks));
    Box::new(Arc::new(Mutex::new(Driver::new(Alone::default(), tasks))))
}

/// A rule that ends or reopens an execution, run with the execution's downstreams loaded, so that the change is
/// propagated in the same transaction.
pub struct WithDownstreams<R> {
    pub rule: R,
    /// The execution that ends or reopens.
    pub of: ExecutionId,
}

impl<R: Rule> Rule for WithDownstreams<R> {
    type Reply = R::Reply;
    const PHASE: Phase = R::PHASE;
    fn profile(&self) -> Profile {
        let profile = self.rule.profile();
        let locks = Locks { later_executions: true, ..profile.locks };
        Profile { locks, ..profile }
    }
    fn needs(&self, work: &Work, needs: &mut Needs) {
        self.rule.needs(work, needs);
        needs.executions.lock([self.of]);
        if let Ok(Some(row)) = work.find(self.of) {
            needs.executions.lock(row.wiring().downstreams.iter().map(|one| one.execution));
        }
    }
    fn decide(&self, work: &mut Work) -> Self::Reply {
        self.rule.decide(work)
    }
    fn carry(&self, reply: &mut Self::Reply, work: &Work, needs: &mut Needs) {
        self.rule.carry(reply, work, needs);
    }
}

/// A rule that is decided on the cached row of an execution, regardless of its own profile.
pub struct WithCachedRow<R> {
    pub rule: R,
    /// The kind of access to the execution.
    pub touch: Touch,
}

impl<R: Rule> Rule for WithCachedRow<R> {
    type Reply = R::Reply;
    const PHASE: Phase = R::PHASE;
    fn profile(&self) -> Profile {
        Profile { executions: vec![self.touch], ..Profile::weighing(1) }
    }
    fn needs(&self, work: &Work, needs: &mut Needs) {
        self.rule.needs(work, needs);
    }
    fn decide(&self, work: &mut Work) -> Self::Reply {
        self.rule.decide(work)
    }
    fn carry(&self, reply: &mut Self::Reply, work: &Work, needs: &mut Needs) {
        self.rule.carry(reply, work, needs);
    }
}

/// A decision of two closures.
struct ClosureDecision<B, N> {
    begin: B,
    next: N,
}

impl<B, N> Decision for ClosureDecision<B, N>
where
    B: FnMut(u32) -> Needs + Send,
    N: FnMut(Rows) -> Demand + Send,
{
    fn begin(&mut self, again: u32) -> Needs {
        (self.begin)(again)
    }

    fn next(&mut self, rows: Rows) -> Demand {
        (self.next)(rows)
    }
}

/// Loads rows in a transaction that changes nothing.
pub async fn load_rows(store: &dyn Store, needs: Needs) -> Rows {
    let loaded: Arc<Mutex<Rows>> = Arc::default();
    let rows = loaded.clone();
    let load = decision(
        move |_| needs.clone(),
        move |found| {
            *locked(&rows) = found;
            Demand::Save(Box::default())
        },
    );
    store.transact(load).await.expect("the rows are loaded");
    std::mem::take(&mut *locked(&loaded))
}

/// Returns a decision from its two methods, [`Decision::begin`] and [`Decision::next`].
pub fn decision(
    begin: impl FnMut(u32) -> Needs + Send + 'static,
    next: impl FnMut(Rows) -> Demand + Send + 'static,
) -> Box<dyn Decision> {
    Box::new(ClosureDecision { begin, next })
}
