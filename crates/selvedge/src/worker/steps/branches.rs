//! Concurrent branches of a handler. The names of a branch's steps begin with the name of the branch.

use super::record::StepRequest;
use super::tracker::InProgress;
use crate::worker::{Context, Failure};
use futures_util::stream::{FuturesUnordered, Stream};
use futures_util::task::AtomicWaker;
use selvedge_core::step::StepKind;
use std::future::{Future, IntoFuture, pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{self, Poll};
use tokio::time::Instant;

/// A branch that has not started.
type BranchFn<'a, T> = Box<dyn FnOnce(Context) -> BranchFuture<'a, T> + Send + 'a>;
/// A branch that has started.
type BranchFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

impl Context {
    /// Runs branches concurrently until the first of them ends, and drops the others at their await points, even within
    /// a step. The winner is recorded: later attempts run only that branch.
    ///
    /// Each branch gets a context of its own, in which the names of steps begin with the names of the race and the
    /// branch, such as `answer/late/nap`. A branch that fails ends the race with its failure, which is not recorded.
    ///
    /// ```
    /// # use selvedge::{Context, Engine, Failure, Signal, Submission, Worker};
    /// # use std::time::Duration;
    /// async fn ask(ctx: Context) -> Result<String, Failure> {
    ///     ctx.race("answer")
    ///         .branch("answered", |ctx| async move {
    ///             let answer = ctx.wait_for_signal("wait", "answer").await?;
    ///             answer.signal().map_or(Ok("resumed by an operator".into()), |answer| answer.payload())
    ///         })
    ///         .branch("late", |ctx| async move {
    ///             ctx.sleep("nap", Duration::from_secs(3600)).await?;
    ///             ctx.step("give up", || async { Ok("no answer".to_owned()) }).await
    ///         })
    ///         .await
    /// }
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let worker = Worker::new(namespace.clone(), "questions").handler("ask", ask).start()?;
    /// let id = Submission::new("ask").submit(&namespace).await?.execution.id;
    /// Signal::new("answer").payload("42")?.send(&namespace, id).await?;
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("the execution ends");
    /// assert_eq!(ended.result.expect("a result"), r#""42""#);
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn race<'a, T: Send + 'a>(&self, name: impl Into<String>) -> Race<'a, T> {
        let name = name.into();
        self.request_step(&*name);
        Race { context: self.clone(), name, branches: Vec::new() }
    }

    /// Runs branches concurrently until all have ended, and returns their results in the order of the branches.
    ///
    /// Each branch gets a context of its own, in which the names of steps begin with the names of the group and the
    /// branch, such as `pages/cover/print`. After a failure of a branch, no branch begins another step; when the
    /// running steps have ended, this fails with the first failure.
    ///
    /// ```
    /// # use selvedge::{Context, Engine, Failure, Submission, Worker};
    /// # use std::time::Duration;
    /// async fn print(ctx: Context) -> Result<Vec<String>, Failure> {
    ///     let pages: Vec<String> = ctx.input()?;
    ///     let mut printed = ctx.all("pages");
    ///     for page in pages {
    ///         printed = printed.branch(page.clone(), |ctx| async move {
    ///             ctx.sleep("warm up", Duration::from_millis(1)).await?;
    ///             ctx.step("print", || async { Ok(format!("{page} is printed")) }).await
    ///         });
    ///     }
    ///     printed.await
    /// }
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let worker = Worker::new(namespace.clone(), "printer").handler("print", print).start()?;
    /// let id = Submission::new("print").input(&["cover", "back"])?.submit(&namespace).await?.execution.id;
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("the execution ends");
    /// assert_eq!(ended.result.expect("a result"), r#"["cover is printed","back is printed"]"#);
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn all<'a, T: Send + 'a>(&self, name: impl Into<String>) -> All<'a, T> {
        All { context: self.clone(), name: name.into(), branches: Vec::new() }
    }

    /// Begins a step of this branch. The attempt is not suspended until the guards are dropped. Never returns if
    /// another branch of its group has failed.
    pub(super) async fn begin_step(&self) -> Result<(InProgress, CountedStep), Failure> {
        let counted = CountedStep::new(self.scope().group.clone());
        if counted.is_stopped() {
            drop(counted);
            return pending().await;
        }
        Ok((self.tracker().begin_step()?, counted))
    }
}

/// Branches of which the first to end wins, to be awaited. Created by [`Context::race`].
#[must_use = "a race does nothing until it is awaited"]
pub struct Race<'a, T> {
    context: Context,
    name: String,
    branches: Vec<(String, BranchFn<'a, T>)>,
}

impl<'a, T: Send + 'a> Race<'a, T> {
    /// Adds a branch. Its name must be unique in the race and contain no slash. If several branches end at the same
    /// time, the one that was added first wins.
    ///
    /// ```
    /// # use selvedge::{Context, Failure};
    /// # use std::time::Duration;
    /// async fn first(ctx: Context) -> Result<&'static str, Failure> {
    ///     ctx.race("first")
    ///         .branch("short", |ctx| async move {
    ///             ctx.sleep("nap", Duration::from_secs(1)).await?;
    ///             Ok("short")
    ///         })
    ///         .branch("long", |ctx| async move {
    ///             ctx.sleep("nap", Duration::from_secs(2)).await?;
    ///             Ok("long")
    ///         })
    ///         .await
    /// }
    /// ```
    pub fn branch<F, Fut>(mut self, name: impl Into<String>, branch: F) -> Self
    where
        F: FnOnce(Context) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, Failure>> + Send + 'a,
    {
        self.branches.push((name.into(), Box::new(|context| Box::pin(branch(context)))));
        self
    }

    async fn run(self) -> Result<T, Failure> {
        let Race { context, name, branches } = self;
        check_names("race", &name, &branches)?;
        // The steps of the winner and of the losers are told apart by their prefixes, which a slash would make
        // ambiguous.
        if let Some((branch, _)) = branches.iter().find(|(branch, _)| branch.contains('/')) {
            return Err(Failure::permanent(format!(
                "the race {name:?} has a branch {branch:?}; its name must not contain a slash"
            )));
        }
        let request = context.request_step(&*name);
        let mut reserved = request.reserve()?;
        let scope = context.scope().under(&name);
        if let Some(winner) = request.recorded::<String>(StepKind::Race)? {
            reserved.keep();
            return run_winner(&request, &scope, &winner, branches).await;
        }
        let begun = Instant::now();
        let start = |(branch, start): (String, BranchFn<'a, T>)| {
            let running = start(context.within(scope.under(&branch)));
            (branch, running)
        };
        let (winner, value) = first_to_end(branches.into_iter().map(start).collect()).await;
        let value = value?;
        // Every attempt has to take the same branch, so the winner is recorded before the handler continues.
        let _in_progress = context.tracker().begin_step()?;
        reserved.keep();
        let json = serde_json::to_vec(&winner).expect("a string always serialises");
        request.record(StepKind::Race, json.into(), begun.elapsed()).await?;
        scope.make_losers_optional(&context, &winner);
        Ok(value)
    }
}

/// Runs only the branch that won the race in an earlier attempt.
async fn run_winner<'a, T>(
    request: &StepRequest,
    scope: &BranchScope,
    winner: &str,
    mut branches: Vec<(String, BranchFn<'a, T>)>,
) -> Result<T, Failure> {
    let Some(index) = branches.iter().position(|(branch, _)| *branch == winner) else {
        let race = &request.name;
        return Err(Failure::permanent(format!(
            "the race {race:?} was won by its branch {winner:?}, which no longer exists; restore the branch"
        )));
    };
    scope.make_losers_optional(&request.context, winner);
    let (_, start) = branches.swap_remove(index);
    start(request.context.within(scope.under(winner))).await
}

impl<'a, T: Send + 'a> IntoFuture for Race<'a, T> {
    type Output = Result<T, Failure>;
    type IntoFuture = BranchFuture<'a, T>;

    fn into_future(self) -> BranchFuture<'a, T> {
        Box::pin(self.run())
    }
}

/// Returns the first of these branches to end, with its name. The others are dropped when this returns.
async fn first_to_end<T>(mut branches: Vec<(String, BranchFuture<'_, T>)>) -> (String, Result<T, Failure>) {
    poll_fn(|cx| {
        for (name, branch) in &mut branches {
            if let Poll::Ready(ended) = branch.as_mut().poll(cx) {
                return Poll::Ready((std::mem::take(name), ended));
            }
        }
        Poll::Pending
    })
    .await
}

/// Branches that all have to end, to be awaited. Created by [`Context::all`].
#[must_use = "branches do nothing until they are awaited"]
pub struct All<'a, T> {
    context: Context,
    name: String,
    branches: Vec<(String, BranchFn<'a, T>)>,
}

impl<'a, T: Send + 'a> All<'a, T> {
    /// Adds a branch. Its name must be unique in the group.
    ///
    /// ```
    /// # use selvedge::{Context, Failure};
    /// async fn both(ctx: Context) -> Result<Vec<u32>, Failure> {
    ///     ctx.all("numbers")
    ///         .branch("one", |ctx| async move { ctx.step("think", || async { Ok(1) }).await })
    ///         .branch("two", |ctx| async move { ctx.step("think", || async { Ok(2) }).await })
    ///         .await
    /// }
    /// ```
    pub fn branch<F, Fut>(mut self, name: impl Into<String>, branch: F) -> Self
    where
        F: FnOnce(Context) -> Fut + Send + 'a,
        Fut: Future<Output = Result<T, Failure>> + Send + 'a,
    {
        self.branches.push((name.into(), Box::new(|context| Box::pin(branch(context)))));
        self
    }

    async fn run(self) -> Result<Vec<T>, Failure> {
        let All { context, name, branches } = self;
        if !branches.is_empty() {
            check_names("group", &name, &branches)?;
        }
        let scope = context.scope().under(&name).grouped();
        let mut results: Vec<Option<T>> = branches.iter().map(|_| None).collect();
        let indexed = branches.into_iter().enumerate().map(|(index, (branch, start))| {
            let running = start(context.within(scope.under(&branch)));
            async move { (index, running.await) }
        });
        let mut running: FuturesUnordered<_> = indexed.collect();
        let mut failed = None;
        poll_fn(|cx| {
            loop {
                match Pin::new(&mut running).poll_next(cx) {
                    Poll::Ready(Some((index, Ok(value)))) => results[index] = Some(value),
                    Poll::Ready(Some((_, Err(failure)))) => {
                        scope.stop();
                        failed.get_or_insert(failure);
                    }
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending if failed.is_some() => return scope.poll_no_steps(cx),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
        failed.map_or(Ok(results.into_iter().flatten().collect()), Err)
    }
}

impl<'a, T: Send + 'a> IntoFuture for All<'a, T> {
    type Output = Result<Vec<T>, Failure>;
    type IntoFuture = BranchFuture<'a, Vec<T>>;

    fn into_future(self) -> BranchFuture<'a, Vec<T>> {
        Box::pin(self.run())
    }
}

/// Refuses duplicate branch names and an empty list of branches.
fn check_names<T>(what: &str, name: &str, branches: &[(String, BranchFn<'_, T>)]) -> Result<(), Failure> {
    if branches.is_empty() {
        return Err(Failure::permanent(format!("the {what} {name:?} has no branch, so it would never end")));
    }
    for (index, (branch, _)) in branches.iter().enumerate() {
        if branches[..index].iter().any(|(other, _)| other == branch) {
            return Err(Failure::permanent(format!(
                "the {what} {name:?} has two branches {branch:?}; give each branch a name of its own"
            )));
        }
    }
    Ok(())
}

/// The branch of a handler to which a context belongs.
#[derive(Clone, Default)]
pub struct BranchScope {
    /// The prefix of the names of the branch's steps.
    prefix: String,
    group: Option<Arc<BranchGroup>>,
}

/// The branches of one [`All`], which share a failure.
#[derive(Default)]
struct BranchGroup {
    /// The number of steps in progress in the branches.
    steps: AtomicUsize,
    /// True once a branch has failed.
    stopped: AtomicBool,
    /// Woken when no step is in progress.
    waiter: AtomicWaker,
    parent: Option<Arc<BranchGroup>>,
}

impl BranchScope {
    /// Returns the full name of a step in this branch.
    pub fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Returns the scope of a branch of this one.
    fn under(&self, name: &str) -> BranchScope {
        BranchScope { prefix: format!("{}{name}/", self.prefix), group: self.group.clone() }
    }

    /// Starts a new group within this scope's group.
    fn grouped(self) -> BranchScope {
        let group = BranchGroup { parent: self.group, ..BranchGroup::default() };
        BranchScope { prefix: self.prefix, group: Some(Arc::new(group)) }
    }

    /// Makes the recorded steps of all branches of this race optional, except those of the winner.
    fn make_losers_optional(&self, context: &Context, winner: &str) {
        context.tracker().make_optional(self.prefix.clone(), Some(self.under(winner).prefix));
    }

    /// Prevents the branches of the group from beginning another step.
    fn stop(&self) {
        self.group.iter().for_each(|group| group.stopped.store(true, Ordering::SeqCst));
    }

    /// Polls until no step of the group is in progress, including steps in tasks that a branch has spawned.
    fn poll_no_steps(&self, cx: &mut task::Context<'_>) -> Poll<()> {
        let Some(group) = &self.group else { return Poll::Ready(()) };
        group.waiter.register(cx.waker());
        match group.steps.load(Ordering::SeqCst) {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

/// The guard of a step that is counted by its group and all parent groups.
pub struct CountedStep(Option<Arc<BranchGroup>>);

impl CountedStep {
    fn new(group: Option<Arc<BranchGroup>>) -> CountedStep {
        let counted = CountedStep(group);
        for group in counted.groups() {
            group.steps.fetch_add(1, Ordering::SeqCst);
        }
        counted
    }

    fn groups(&self) -> impl Iterator<Item = &BranchGroup> {
        std::iter::successors(self.0.as_deref(), |group| group.parent.as_deref())
    }

    fn is_stopped(&self) -> bool {
        self.groups().any(|group| group.stopped.load(Ordering::SeqCst))
    }
}

impl Drop for CountedStep {
    fn drop(&mut self) {
        for group in self.groups() {
            if group.steps.fetch_sub(1, Ordering::SeqCst) == 1 {
                group.waiter.wake();
            }
        }
    }
}
