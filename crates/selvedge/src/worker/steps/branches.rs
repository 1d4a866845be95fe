//! What a handler does side by side: branches, whose steps have names under that of their branch.

use super::ledger::Running;
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

/// A branch that has not begun.
type Begin<'a, T> = Box<dyn FnOnce(Context) -> Branch<'a, T> + Send + 'a>;
/// A branch that has.
type Branch<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

impl Context {
    /// Runs branches side by side until the first of them ends, and drops the others where they await, also in a step. Which
    /// one it was is recorded: a later attempt runs that one alone.
    ///
    /// Each branch gets a context of its own: the names of its steps are put under the names of the race and the branch,
    /// as in `answer/late/nap`. A branch that fails ends the race with its failure, which is not recorded.
    ///
    /// ```
    /// # use selvedge::{Context, Engine, Failure, Signal, Submission, Worker};
    /// # use std::time::Duration;
    /// async fn ask(ctx: Context) -> Result<String, Failure> {
    ///     ctx.race("answer")
    ///         .branch("told", |ctx| async move {
    ///             let told = ctx.wait_for_signal("word", "answer").await?;
    ///             told.signal().map_or(Ok("let through".into()), |told| told.payload())
    ///         })
    ///         .branch("late", |ctx| async move {
    ///             ctx.sleep("nap", Duration::from_secs(3600)).await?;
    ///             ctx.step("shrug", || async { Ok("no answer".to_owned()) }).await
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
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("it ends");
    /// assert_eq!(ended.result.expect("a result"), r#""42""#);
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn race<'a, T: Send + 'a>(&self, name: impl Into<String>) -> Race<'a, T> {
        let name = name.into();
        self.ask(&*name);
        Race { context: self.clone(), name, branches: Vec::new() }
    }

    /// Runs branches side by side until all have ended, and gives what they gave, in their order.
    ///
    /// Each branch gets a context of its own: the names of its steps are put under the names of the whole and the branch,
    /// as in `pages/cover/print`. When a branch fails the others begin no step any more; once the steps that run have
    /// ended, this fails with the first failure.
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
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("it ends");
    /// assert_eq!(ended.result.expect("a result"), r#"["cover is printed","back is printed"]"#);
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn all<'a, T: Send + 'a>(&self, name: impl Into<String>) -> All<'a, T> {
        All { context: self.clone(), name: name.into(), branches: Vec::new() }
    }

    /// A step of this branch begins: the attempt is not suspended before it has ended. Where a branch beside this one has
    /// failed, it never does.
    pub(super) async fn begin(&self) -> Result<(Running, Counted), Failure> {
        let counted = Counted::new(self.scope().group.clone());
        if counted.is_stopped() {
            drop(counted);
            return pending().await;
        }
        Ok((self.ledger().begin()?, counted))
    }
}

/// Branches of which the first to end is taken: await it. Made by [`Context::race`].
#[must_use = "a race does nothing until it is awaited"]
pub struct Race<'a, T> {
    context: Context,
    name: String,
    branches: Vec<(String, Begin<'a, T>)>,
}

impl<'a, T: Send + 'a> Race<'a, T> {
    /// One more branch, with a name that is unique among them and has no slash. If several have ended, the first in this order
    /// is taken.
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
        let Race { context, name, mut branches } = self;
        check_names("race", &name, &branches)?;
        // What the others have recorded is told from what the winner has by the beginning of its name.
        if let Some((branch, _)) = branches.iter().find(|(branch, _)| branch.contains('/')) {
            let told =
                format!("the race {name:?} has a branch {branch:?}; its name must not contain a slash");
            return Err(Failure::permanent(told));
        }
        let asked = context.ask(&*name);
        let mut taken = asked.take()?;
        let scope = context.scope().clone();
        let excuse = |winner: &str| {
            let all = scope.under(&name);
            context.ledger().excuse(all.prefix.clone(), Some(all.under(winner).prefix));
        };
        if let Some(winner) = asked.recorded::<String>(StepKind::Race)? {
            taken.keep();
            let Some(place) = branches.iter().position(|(branch, _)| *branch == winner) else {
                let race = &asked.name;
                return Err(Failure::permanent(format!(
                    "the race {race:?} was won by its branch {winner:?}, which it does not have any more; bring it back"
                )));
            };
            excuse(&winner);
            let (_, begin) = branches.swap_remove(place);
            return begin(context.within(scope.under(&name).under(&winner))).await;
        }
        let begun = Instant::now();
        let (winner, value) = {
            let begin = |(branch, begin): (String, Begin<'a, T>)| {
                let running = begin(context.within(scope.under(&name).under(&branch)));
                (branch, running)
            };
            first(branches.into_iter().map(begin).collect()).await
        };
        let value = value?;
        // What it gives has to be the same for every attempt, so the next one must know before this one goes on.
        let _running = context.ledger().begin()?;
        taken.keep();
        let json = serde_json::to_vec(&winner).unwrap_or_default();
        asked.record(StepKind::Race, json.into(), begun.elapsed()).await?;
        excuse(&winner);
        Ok(value)
    }
}

impl<'a, T: Send + 'a> IntoFuture for Race<'a, T> {
    type Output = Result<T, Failure>;
    type IntoFuture = Branch<'a, T>;

    fn into_future(self) -> Branch<'a, T> {
        Box::pin(self.run())
    }
}

/// The first of these branches to end. The others are dropped when this returns.
async fn first<T>(mut branches: Vec<(String, Branch<'_, T>)>) -> (String, Result<T, Failure>) {
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

/// Branches that all have to end: await it. Made by [`Context::all`].
#[must_use = "branches do nothing until they are awaited"]
pub struct All<'a, T> {
    context: Context,
    name: String,
    branches: Vec<(String, Begin<'a, T>)>,
}

impl<'a, T: Send + 'a> All<'a, T> {
    /// One more branch, with a name that is unique among them.
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
        let mut given: Vec<Option<T>> = branches.iter().map(|_| None).collect();
        let numbered = branches.into_iter().enumerate().map(|(place, (branch, begin))| {
            let running = begin(context.within(scope.under(&branch)));
            async move { (place, running.await) }
        });
        let mut running: FuturesUnordered<_> = numbered.collect();
        let mut failed = None;
        poll_fn(|cx| {
            loop {
                match Pin::new(&mut running).poll_next(cx) {
                    Poll::Ready(Some((place, Ok(value)))) => given[place] = Some(value),
                    Poll::Ready(Some((_, Err(failure)))) => {
                        scope.stop();
                        failed.get_or_insert(failure);
                    }
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending if failed.is_some() => return scope.poll_quiet(cx),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
        failed.map_or(Ok(given.into_iter().flatten().collect()), Err)
    }
}

impl<'a, T: Send + 'a> IntoFuture for All<'a, T> {
    type Output = Result<Vec<T>, Failure>;
    type IntoFuture = Branch<'a, Vec<T>>;

    fn into_future(self) -> Branch<'a, Vec<T>> {
        Box::pin(self.run())
    }
}

/// Refuses branches without names of their own, and a race in which nobody runs.
fn check_names<T>(what: &str, name: &str, branches: &[(String, Begin<'_, T>)]) -> Result<(), Failure> {
    if branches.is_empty() {
        return Err(Failure::permanent(format!("the {what} {name:?} has no branch, so it would never end")));
    }
    for (place, (branch, _)) in branches.iter().enumerate() {
        if branches[..place].iter().any(|(other, _)| other == branch) {
            return Err(Failure::permanent(format!(
                "the {what} {name:?} has two branches {branch:?}; each needs a name of its own"
            )));
        }
    }
    Ok(())
}

/// Which branch of a handler steps are in.
#[derive(Clone, Default)]
pub struct BranchScope {
    /// What the names of its steps begin with.
    prefix: String,
    group: Option<Arc<Group>>,
}

/// Branches that end together, and how many steps of theirs run.
#[derive(Default)]
struct Group {
    running: AtomicUsize,
    stopped: AtomicBool,
    /// Who waits until none does.
    waits: AtomicWaker,
    within: Option<Arc<Group>>,
}

impl BranchScope {
    /// The name of a step here.
    pub fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A branch of this one.
    fn under(&self, name: &str) -> BranchScope {
        BranchScope { prefix: format!("{}{name}/", self.prefix), group: self.group.clone() }
    }

    /// The same, for branches that end together.
    fn grouped(self) -> BranchScope {
        let group = Group { within: self.group, ..Group::default() };
        BranchScope { prefix: self.prefix, group: Some(Arc::new(group)) }
    }

    /// No step begins any more in these branches.
    fn stop(&self) {
        self.group.iter().for_each(|group| group.stopped.store(true, Ordering::SeqCst));
    }

    /// Ready when no step runs in these branches, also not in a task that one of them has spawned.
    fn poll_quiet(&self, cx: &mut task::Context<'_>) -> Poll<()> {
        let Some(group) = &self.group else { return Poll::Ready(()) };
        group.waits.register(cx.waker());
        match group.running.load(Ordering::SeqCst) {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

/// A step that is counted by all the groups that it is in.
pub struct Counted(Option<Arc<Group>>);

impl Counted {
    fn new(group: Option<Arc<Group>>) -> Counted {
        let counted = Counted(group);
        for group in counted.groups() {
            group.running.fetch_add(1, Ordering::SeqCst);
        }
        counted
    }

    fn groups(&self) -> impl Iterator<Item = &Group> {
        std::iter::successors(self.0.as_deref(), |group| group.within.as_deref())
    }

    fn is_stopped(&self) -> bool {
        self.groups().any(|group| group.stopped.load(Ordering::SeqCst))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        for group in self.groups() {
            if group.running.fetch_sub(1, Ordering::SeqCst) == 1 {
                group.waits.wake();
            }
        }
    }
}
