//! Approvals: several people are asked, and enough of them have to agree.

use super::wait::Received;
use super::waitpoint::draft;
use super::{Until, Waited, Waitpoint};
use crate::ResumedBy;
use crate::worker::{Context, Failure};
use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::time::Duration;

/// The signal that a person sends instead of agreeing, under the name of the approval.
const REJECT: &str = "reject";

impl Context {
    /// Asks several people, and waits until enough of them have agreed, or so many have declined that not enough are left.
    ///
    /// Each person gets a waitpoint named after the approval and the person, as in `deploy/ann`, whose token speaks for this
    /// person alone, and once. A delivery through it is a yes; one that names the signal `deploy/reject` is a no. Asking is a
    /// step of its own for each person, so nobody is asked twice. In a branch, the names begin with that of the branch.
    ///
    /// Callers of the namespace who send a signal of one of these names without a token count too, as the source that they
    /// are: whoever may signal executions is trusted to.
    ///
    /// ```
    /// # use selvedge::{Context, Engine, Failure, Signal, Submission, Verdict, Waitpoint, Worker};
    /// # use std::time::Duration;
    /// # use tokio::sync::mpsc;
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let (mail, mut letters) = mpsc::unbounded_channel::<Waitpoint>();
    /// let worker = Worker::new(namespace.clone(), "releases")
    ///     .handler("deploy", move |ctx: Context| {
    ///         let mail = mail.clone();
    ///         async move {
    ///             let approval = ctx
    ///                 .approval("deploy")
    ///                 .of(["ann", "bob", "cleo"])
    ///                 .at_least(2)
    ///                 .within(Duration::from_secs(3600))
    ///                 .ask(|_person, waitpoint| {
    ///                     let mail = mail.clone();
    ///                     async move { Ok(mail.send(waitpoint)?) }
    ///                 })
    ///                 .await?;
    ///             match approval.verdict {
    ///                 Verdict::Approved => Ok(approval.votes.into_iter().map(|vote| vote.person).collect::<Vec<_>>()),
    ///                 other => Err(Failure::permanent(format!("not deployed: {other:?}"))),
    ///             }
    ///         }
    ///     })
    ///     .start()?;
    /// let id = Submission::new("deploy").submit(&namespace).await?.execution.id;
    /// for answer in [Signal::for_waitpoint(), Signal::new("deploy/reject"), Signal::for_waitpoint()] {
    ///     let letter = letters.recv().await.expect("each gets a letter");
    ///     answer.deliver(&engine, letter.id, &letter.token).await?;
    /// }
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("it ends");
    /// assert_eq!(ended.result.expect("a result"), r#"["ann","cleo"]"#);
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn approval(&self, name: impl Into<String>) -> ApprovalCall {
        let (context, name) = (self.clone(), name.into());
        ApprovalCall { context, name, people: Vec::new(), at_least: None, within: None }
    }
}

/// An approval that is set up: [`ask`](ApprovalCall::ask) for it. Made by [`Context::approval`].
#[must_use = "nobody is asked until this is"]
pub struct ApprovalCall {
    context: Context,
    name: String,
    people: Vec<String>,
    at_least: Option<usize>,
    within: Option<Duration>,
}

impl ApprovalCall {
    /// Who is asked.
    ///
    /// ```
    /// # use selvedge::{Context, Failure, Waitpoint};
    /// # async fn mail(_to: String, _letter: Waitpoint) -> Result<(), Failure> { Ok(()) }
    /// async fn publish(ctx: Context) -> Result<bool, Failure> {
    ///     let editors: Vec<String> = ctx.input()?;
    ///     let approval = ctx.approval("publish").of(editors).ask(mail).await?;
    ///     Ok(approval.is_approved())
    /// }
    /// ```
    pub fn of<S: Into<String>>(mut self, people: impl IntoIterator<Item = S>) -> Self {
        self.people.extend(people.into_iter().map(Into::into));
        self
    }

    /// How many of them have to agree; all.
    ///
    /// ```
    /// # use selvedge::{Context, Failure, Waitpoint};
    /// # async fn mail(_to: String, _letter: Waitpoint) -> Result<(), Failure> { Ok(()) }
    /// async fn publish(ctx: Context) -> Result<bool, Failure> {
    ///     Ok(ctx.approval("publish").of(["ann", "bob"]).at_least(1).ask(mail).await?.is_approved())
    /// }
    /// ```
    pub fn at_least(mut self, people: usize) -> Self {
        self.at_least = Some(people);
        self
    }

    /// How long to wait for them once all are asked; without end.
    ///
    /// ```
    /// # use selvedge::{Context, Failure, Verdict, Waitpoint};
    /// # use std::time::Duration;
    /// # async fn mail(_to: String, _letter: Waitpoint) -> Result<(), Failure> { Ok(()) }
    /// async fn publish(ctx: Context) -> Result<bool, Failure> {
    ///     let day = Duration::from_secs(24 * 3600);
    ///     let approval = ctx.approval("publish").of(["ann"]).within(day).ask(mail).await?;
    ///     Ok(approval.verdict != Verdict::TimedOut)
    /// }
    /// ```
    pub fn within(mut self, time: Duration) -> Self {
        self.within = Some(time);
        self
    }

    /// Asks each person once with this closure, which is a durable step, and waits for their word.
    ///
    /// ```
    /// # use selvedge::{Context, Failure, Waitpoint};
    /// async fn mail(to: String, letter: Waitpoint) -> Result<(), Failure> {
    ///     println!("dear {to}, go to /answer?waitpoint={}&token={}", letter.id, letter.token);
    ///     Ok(())
    /// }
    ///
    /// async fn publish(ctx: Context) -> Result<bool, Failure> {
    ///     Ok(ctx.approval("publish").of(["ann", "bob"]).ask(mail).await?.is_approved())
    /// }
    /// ```
    pub fn ask<F, Fut>(self, ask: F) -> impl Future<Output = Result<Approval, Failure>> + Send
    where
        F: Fn(String, Waitpoint) -> Fut + Send + Sync,
        Fut: Future<Output = Result<(), Failure>> + Send,
    {
        self.context.ask(&*self.name);
        self.decided(ask)
    }

    async fn decided<F, Fut>(self, ask: F) -> Result<Approval, Failure>
    where
        F: Fn(String, Waitpoint) -> Fut + Send + Sync,
        Fut: Future<Output = Result<(), Failure>> + Send,
    {
        let ApprovalCall { context, name, people, at_least, within } = self;
        let full_name = context.scope().name(&name);
        let needed = check(&full_name, &people, at_least)?;
        if context.ledger().has(&full_name) {
            // What was decided does not depend on whom the code would ask by now.
            context.ledger().excuse(format!("{full_name}/ask/"), None);
        } else {
            ask_all(&context, &name, &people, ask).await?;
        }
        let reject = format!("{full_name}/{REJECT}");
        let agreed =
            Until::sources(needed as u32, people.iter().map(|person| format!("{full_name}/{person}")));
        let declined = Until::sources((people.len() - needed + 1) as u32, [&reject]);
        let mut wait = context.wait(name, Until::any([agreed, declined]));
        if let Some(within) = within {
            wait = wait.timeout(within);
        }
        Ok(Approval::of(wait.await?, &reject))
    }
}

/// Asks those who were not asked yet.
async fn ask_all<F, Fut>(context: &Context, name: &str, people: &[String], ask: F) -> Result<(), Failure>
where
    F: Fn(String, Waitpoint) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), Failure>> + Send,
{
    let full_name = context.scope().name(name);
    let is_asked = |person: &str| context.ledger().has(&format!("{full_name}/ask/{person}"));
    let to_ask: Vec<&String> = people.iter().filter(|person| !is_asked(person)).collect();
    let letters = to_ask.iter().map(|person| draft(&format!("{full_name}/{person}"), Some(person), None));
    let letters = context.make_waitpoints(letters.collect::<Result<_, _>>()?).await?;
    let mut letters: HashMap<&String, Waitpoint> = to_ask.into_iter().zip(letters).collect();
    for person in people {
        let letter = letters.remove(person);
        let asked = context.step(format!("{name}/ask/{person}"), || async {
            match letter {
                Some(letter) => ask(person.clone(), letter).await,
                None => Ok(()),
            }
        });
        asked.await?;
    }
    Ok(())
}

/// Refuses an approval that nobody or everybody could give; says how many have to agree.
fn check(name: &str, people: &[String], at_least: Option<usize>) -> Result<usize, Failure> {
    let refused = |detail: String| Err(Failure::permanent(format!("the approval {name:?} {detail}")));
    let needed = at_least.unwrap_or(people.len());
    if people.is_empty() {
        return refused("asks nobody; name the people with of".into());
    }
    if !(1..=people.len()).contains(&needed) {
        return refused(format!(
            "needs {needed} of {} people; it must be one at least, and at most all",
            people.len()
        ));
    }
    if people.iter().any(|person| person == REJECT) {
        return refused(format!(
            "asks {REJECT:?}, which is the signal of those who decline; name the person otherwise"
        ));
    }
    let mut seen = BTreeSet::new();
    match people.iter().find(|person| !seen.insert(*person)) {
        Some(person) => refused(format!("asks {person:?} twice")),
        None => Ok(needed),
    }
}

/// What became of an approval.
#[derive(Clone, Debug)]
pub struct Approval {
    /// What was decided, and by what.
    pub verdict: Verdict,
    /// Those who decided it, in the order of their words; where nothing was decided, all who have spoken.
    pub votes: Vec<Vote>,
}

/// How an approval ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Enough have agreed.
    Approved,
    /// So many have declined that not enough are left.
    Rejected,
    /// Neither came about in time.
    TimedOut,
    /// An operator let the execution go on before either came about.
    Operator,
}

/// The word of one person.
#[derive(Clone, Debug)]
pub struct Vote {
    /// Who.
    pub person: String,
    /// Whether it is a yes.
    pub approves: bool,
    /// The signal, with what it says.
    pub signal: Received,
}

impl Approval {
    fn of(waited: Waited, reject: &str) -> Approval {
        let vote = |signal: Received| {
            let (person, approves) = (signal.source.clone(), signal.name != reject);
            Vote { person, approves, signal }
        };
        let votes: Vec<Vote> = waited.signals.into_iter().map(vote).collect();
        let verdict = match waited.resumed_by {
            // A wait whose condition holds has taken either the words of those who agree, or of those who do not.
            ResumedBy::Condition if votes.iter().all(|vote| vote.approves) => Verdict::Approved,
            ResumedBy::Condition => Verdict::Rejected,
            ResumedBy::Timeout => Verdict::TimedOut,
            ResumedBy::Operator => Verdict::Operator,
        };
        Approval { verdict, votes }
    }

    /// Whether enough have agreed.
    ///
    /// ```
    /// # use selvedge::{Approval, Verdict};
    /// let approval = Approval { verdict: Verdict::TimedOut, votes: Vec::new() };
    /// assert!(!approval.is_approved());
    /// ```
    pub fn is_approved(&self) -> bool {
        self.verdict == Verdict::Approved
    }
}
