//! Runs the rules of core for tests, by the same driver that ships, and decisions made by hand.

use async_trait::async_trait;
use selvedge_core::driver::{Admission, Alone, Driver, Host};
use selvedge_core::rule::{Envelope, Locks, Phase, Profile, Rule, Task, Touch};
use selvedge_core::rules::claim::{Claim, Claims};
use selvedge_core::{Class, ClassId, Classes, Execution, ExecutionId, Needs, Refusal, Rows, Work};
use selvedge_store::{Decision, Demand, Error, Store, Transaction};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Collects a reply after the commit.
pub type Collect<T> = Box<dyn FnOnce() -> T + Send>;

/// Rules that share one transaction: one, [`Both`] of two, or [`Each`] of several.
pub trait Together: Send + 'static {
    /// Their replies.
    type Replies: Send + 'static;
    /// Adds the tasks; the result collects the replies after the commit.
    fn post(self, tasks: &mut Vec<Box<dyn Task>>) -> Collect<Self::Replies>;
}

/// An envelope that its poster keeps a hand on.
struct Posted<R: Rule> {
    profile: Profile,
    envelope: Arc<Mutex<Option<Envelope<R>>>>,
}

impl<R: Rule> Posted<R> {
    fn with<T>(&self, act: impl FnOnce(&mut Envelope<R>) -> T) -> T {
        let mut envelope = self.envelope.lock().unwrap_or_else(PoisonError::into_inner);
        act(envelope.as_mut().expect("a reply is collected after the commit"))
    }
}

impl<R: Rule> Task for Posted<R> {
    fn phase(&self) -> Phase {
        R::PHASE
    }
    fn profile(&self) -> &Profile {
        &self.profile
    }
    fn needs(&self, work: &Work, needs: &mut Needs) {
        self.with(|envelope| envelope.needs(work, needs));
    }
    fn decide(&mut self, work: &mut Work) {
        self.with(|envelope| envelope.decide(work));
    }
    fn reset(&mut self) {
        self.with(Envelope::reset);
    }
    fn is_decided(&self) -> bool {
        self.with(|envelope| envelope.is_decided())
    }
}

impl<R: Rule> Together for R {
    type Replies = R::Reply;
    fn post(self, tasks: &mut Vec<Box<dyn Task>>) -> Collect<R::Reply> {
        let profile = self.profile();
        let envelope = Arc::new(Mutex::new(Some(Envelope::new(self))));
        tasks.push(Box::new(Posted { profile, envelope: envelope.clone() }));
        Box::new(move || {
            let envelope = envelope.lock().unwrap_or_else(PoisonError::into_inner).take();
            envelope.and_then(Envelope::into_reply).expect("a rule that was saved has decided")
        })
    }
}

/// Two rules, or groups of rules, in one transaction.
pub struct Both<A, B>(pub A, pub B);

impl<A: Together, B: Together> Together for Both<A, B> {
    type Replies = (A::Replies, B::Replies);
    fn post(self, tasks: &mut Vec<Box<dyn Task>>) -> Collect<Self::Replies> {
        let (first, second) = (self.0.post(tasks), self.1.post(tasks));
        Box::new(move || (first(), second()))
    }
}

/// Several rules of one kind in one transaction.
pub struct Each<T>(pub Vec<T>);

impl<T: Together> Together for Each<T> {
    type Replies = Vec<T::Replies>;
    fn post(self, tasks: &mut Vec<Box<dyn Task>>) -> Collect<Self::Replies> {
        let replies: Vec<_> = self.0.into_iter().map(|one| one.post(tasks)).collect();
        Box::new(move || replies.into_iter().map(|collect| collect()).collect())
    }
}

/// Runs tasks in one transaction, or, where one is deferred, in that one and the next.
#[async_trait]
pub trait Runner: Send + Sync {
    /// Runs the tasks. All of them are decided when it returns without an error.
    async fn run(&self, tasks: Vec<Box<dyn Task>>) -> Result<Transaction, Error>;

    /// Lets a claim wait for the next transaction. The result collects its reply, if that transaction took it along. Default:
    /// none, because nothing waits.
    fn wait(&self, _claim: &Claim) -> Option<Collect<Option<Result<Claims, Refusal>>>> {
        None
    }
}

/// Runs tasks on a store alone, without an engine: no batching with others, no waiting claims, and a cache only where a case
/// fills it.
pub struct Direct {
    store: Arc<dyn Store>,
    cached: Mutex<HashMap<ExecutionId, Execution>>,
}

impl Direct {
    /// Runs tasks on this store.
    pub fn on(store: Arc<dyn Store>) -> Self {
        Direct { store, cached: Mutex::default() }
    }

    /// The same with this row in the lease cache.
    pub fn caching(self, row: Execution) -> Self {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).insert(row.id, row);
        self
    }

    async fn driver(&self, tasks: Vec<Box<dyn Task>>) -> Result<Shared, Error> {
        let cached =
            Mutex::new(std::mem::take(&mut *self.cached.lock().unwrap_or_else(PoisonError::into_inner)));
        let host = Process { alone: Alone::default(), cached };
        host.learn_classes(self.store.classes_after(ClassId(0)).await?);
        Ok(Arc::new(Mutex::new(Driver::new(host, tasks))))
    }
}

type Shared = Arc<Mutex<Driver<Process>>>;

/// A process with nothing but a cache.
struct Process {
    alone: Alone<Box<dyn Task>>,
    cached: Mutex<HashMap<ExecutionId, Execution>>,
}

impl Host for Process {
    type Task = Box<dyn Task>;
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
        self.cached.lock().unwrap_or_else(PoisonError::into_inner).remove(&id)
    }
}

#[async_trait]
impl Runner for Direct {
    async fn run(&self, tasks: Vec<Box<dyn Task>>) -> Result<Transaction, Error> {
        let driver = self.driver(tasks).await?;
        let mut transaction = self.store.transact(Box::new(driver.clone())).await?;
        let (tasks, _) = driver.lock().unwrap_or_else(PoisonError::into_inner).take_tasks();
        for deferred in tasks.into_iter().filter(|task| !task.is_decided()) {
            let driver = self.driver(vec![deferred]).await?;
            transaction = self.store.transact(Box::new(driver)).await?;
        }
        Ok(transaction)
    }
}

/// Runs rules by a runner.
pub async fn run_by<T: Together>(runner: &dyn Runner, rules: T) -> Result<(T::Replies, Transaction), Error> {
    let mut tasks = Vec::new();
    let replies = rules.post(&mut tasks);
    let transaction = runner.run(tasks).await?;
    Ok((replies(), transaction))
}

/// Runs rules on a store.
pub async fn run_rule<T: Together>(
    store: &Arc<dyn Store>,
    rules: T,
) -> Result<(T::Replies, Transaction), Error> {
    run_by(&Direct::on(store.clone()), rules).await
}

/// The decision of a rule, for a store that runs it by itself.
pub fn decision_of<T: Together>(rules: T) -> Box<dyn Decision> {
    let mut tasks = Vec::new();
    drop(rules.post(&mut tasks));
    Box::new(Arc::new(Mutex::new(Driver::new(Alone::default(), tasks))))
}

/// A rule that ends an execution or opens it again, run with the execution's downstreams loaded: the change is propagated in the
/// same transaction.
pub struct Propagating<R> {
    /// The rule.
    pub rule: R,
    /// The execution.
    pub of: ExecutionId,
}

impl<R: Rule> Rule for Propagating<R> {
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
}

/// A rule that is decided with the cached row of an execution, whatever its own profile says.
pub struct Trusting<R> {
    /// The rule.
    pub rule: R,
    /// How it touches the execution.
    pub touch: Touch,
}

impl<R: Rule> Rule for Trusting<R> {
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
}

/// A decision made by hand.
struct ByHand<B, N> {
    begin: B,
    next: N,
}

impl<B, N> Decision for ByHand<B, N>
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

/// A decision made by hand: what it does when it is begun, and when it is shown rows.
pub fn decision(
    begin: impl FnMut(u32) -> Needs + Send + 'static,
    next: impl FnMut(Rows) -> Demand + Send + 'static,
) -> Box<dyn Decision> {
    Box::new(ByHand { begin, next })
}
