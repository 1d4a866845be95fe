//! Approvals: several people are asked, and a number of them have to agree.

use super::wait::ReceivedSignal;
use super::waitpoint::draft;
use super::{Until, WaitResult, Waitpoint};
use crate::ResumedBy;
use crate::worker::{Context, Failure};
use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::time::Duration;

/// The last part of the name of the signal that declines an approval; the first part is the name of the approval.
const REJECT: &str = "reject";

impl Context {
    /// Asks several people, and waits until enough of them have agreed, or until so many have declined that not enough
    /// are left.
    ///
    /// Each person gets a waitpoint named after the approval and the person, such as `deploy/ann`. Its token authorises
    /// one vote of that person. A delivery without a signal name agrees; a delivery with the signal name
    /// `deploy/reject` declines. Asking a person is a durable step, so each person is asked once. In a branch, the
    /// names begin with the branch's name.
    ///
    /// A signal of one of these names that is sent without a token also counts, as a vote of its source. Callers that
    /// may signal executions are trusted.
    ///
    /// ```
    /// # use selvedge::{Context, Engine, Failure, Signal, Submission, Verdict, Waitpoint, Worker};
    /// # use std::time::Duration;
    /// # use tokio::sync::mpsc;
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let (mail, mut inbox) = mpsc::unbounded_channel::<Waitpoint>();
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
    ///     let waitpoint = inbox.recv().await.expect("each person gets a mail");
    ///     answer.deliver(&namespace, waitpoint.id, &waitpoint.token).await?;
    /// }
    /// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("the execution ends");
    /// assert_eq!(ended.result.expect("a result"), r#"["ann","cleo"]"#);
    /// # worker.drain().await;
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn approval(&self, name: impl Into<String>) -> ApprovalRequest {
        let (context, name) = (self.clone(), name.into());
        ApprovalRequest { context, name, people: Vec::new(), at_least: None, within: None }
    }
}

/// Builds an approval; [`ask`](ApprovalRequest::ask) sends the requests. Created by [`Context::approval`].
#[must_use = "an approval does nothing until ask is called and awaited"]
pub struct ApprovalRequest {
    context: Context,
    name: String,
    people: Vec<String>,
    at_least: Option<usize>,
    within: Option<Duration>,
}

impl ApprovalRequest {
    /// Adds people to ask. At least one is required, and each may be named only once.
    ///
    /// ```
    /// # use selvedge::{Context, Failure, Waitpoint};
    /// # async fn mail(_to: String, _waitpoint: Waitpoint) -> Result<(), Failure> { Ok(()) }
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

    /// Sets how many of the people have to agree. Default: all of them.
    ///
    /// ```
    /// # use selvedge::{Context, Failure, Waitpoint};
    /// # async fn mail(_to: String, _waitpoint: Waitpoint) -> Result<(), Failure> { Ok(()) }
    /// async fn publish(ctx: Context) -> Result<bool, Failure> {
    ///     Ok(ctx.approval("publish").of(["ann", "bob"]).at_least(1).ask(mail).await?.is_approved())
    /// }
    /// ```
    pub fn at_least(mut self, people: usize) -> Self {
        self.at_least = Some(people);
        self
    }

    /// Sets a timeout, counted from the moment all people have been asked. Default: none.
    ///
    /// ```
    /// # use selvedge::{Context, Failure, Verdict, Waitpoint};
    /// # use std::time::Duration;
    /// # async fn mail(_to: String, _waitpoint: Waitpoint) -> Result<(), Failure> { Ok(()) }
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

    /// Runs this closure once for each person, as a durable step, and waits for the votes. The closure gets the person
    /// and the person's waitpoint.
    ///
    /// ```
    /// # use selvedge::{Context, Failure, Waitpoint};
    /// async fn mail(to: String, waitpoint: Waitpoint) -> Result<(), Failure> {
    ///     println!("to {to}: answer at /answer?waitpoint={}&token={}", waitpoint.id, waitpoint.token);
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
        self.context.request_step(&*self.name);
        self.run(ask)
    }

    async fn run<F, Fut>(self, ask: F) -> Result<Approval, Failure>
    where
        F: Fn(String, Waitpoint) -> Fut + Send + Sync,
        Fut: Future<Output = Result<(), Failure>> + Send,
    {
        let ApprovalRequest { context, name, people, at_least, within } = self;
        let full_name = context.scope().name(&name);
        let needed = check(&full_name, &people, at_least)?;
        if context.tracker().has_recorded(&full_name) {
            // A recorded decision stands even if the code now names other people.
            context.tracker().make_optional(format!("{full_name}/ask/"), None);
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
        Ok(Approval::new(wait.await?, &reject))
    }
}

/// Asks the people who have not been asked yet.
async fn ask_all<F, Fut>(context: &Context, name: &str, people: &[String], ask: F) -> Result<(), Failure>
where
    F: Fn(String, Waitpoint) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), Failure>> + Send,
{
    let full_name = context.scope().name(name);
    let is_asked = |person: &str| context.tracker().has_recorded(&format!("{full_name}/ask/{person}"));
    let to_ask: Vec<&String> = people.iter().filter(|person| !is_asked(person)).collect();
    let draft = |person: &&String| {
        let approve = format!("{full_name}/{person}");
        draft(&approve, Some(person), Some(&[approve.clone(), format!("{full_name}/{REJECT}")]))
    };
    let drafts = to_ask.iter().map(draft);
    let waitpoints = context.create_waitpoints(drafts.collect::<Result<_, _>>()?).await?;
    let mut waitpoints: HashMap<&String, Waitpoint> = to_ask.into_iter().zip(waitpoints).collect();
    for person in people {
        let waitpoint = waitpoints.remove(person);
        let asked = context.step(format!("{name}/ask/{person}"), || async {
            match waitpoint {
                Some(waitpoint) => ask(person.clone(), waitpoint).await,
                None => Ok(()),
            }
        });
        asked.await?;
    }
    Ok(())
}

/// Validates an approval, and returns how many people have to agree.
fn check(name: &str, people: &[String], at_least: Option<usize>) -> Result<usize, Failure> {
    let refused = |detail: String| Err(Failure::permanent(format!("the approval {name:?} {detail}")));
    let needed = at_least.unwrap_or(people.len());
    if people.is_empty() {
        return refused("asks nobody; name the people with of".into());
    }
    if !(1..=people.len()).contains(&needed) {
        return refused(format!(
            "needs {needed} of {} people; require at least one person and at most all of them",
            people.len()
        ));
    }
    if people.iter().any(|person| person == REJECT) {
        return refused(format!(
            "asks {REJECT:?}, a name that is reserved for the signal that declines; use another name for this person"
        ));
    }
    let mut seen = BTreeSet::new();
    match people.iter().find(|person| !seen.insert(*person)) {
        Some(person) => refused(format!("asks {person:?} twice")),
        None => Ok(needed),
    }
}

/// The result of an approval.
#[derive(Clone, Debug)]
pub struct Approval {
    /// The decision, or the reason why there is none.
    pub verdict: Verdict,
    /// The votes that led to the decision, in the order of their arrival; without a decision, all votes.
    pub votes: Vec<Vote>,
}

/// The decision of an approval, or the reason why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Enough people agreed.
    Approved,
    /// So many people declined that not enough are left.
    Rejected,
    /// The timeout passed without a decision.
    TimedOut,
    /// An operator resumed the execution without a decision.
    Operator,
}

/// The vote of one person.
#[derive(Clone, Debug)]
pub struct Vote {
    /// The person: the source of the signal.
    pub person: String,
    /// True if the person agrees, false if the person declines.
    pub approves: bool,
    /// The signal that carried the vote, with its payload.
    pub signal: ReceivedSignal,
}

impl Approval {
    fn new(wait: WaitResult, reject: &str) -> Approval {
        let vote = |signal: ReceivedSignal| {
            let (person, approves) = (signal.source.clone(), signal.name != reject);
            Vote { person, approves, signal }
        };
        let votes: Vec<Vote> = wait.signals.into_iter().map(vote).collect();
        let verdict = match wait.resumed_by {
            // A wait whose condition holds has consumed only votes that agree or only votes that decline.
            ResumedBy::Condition if votes.iter().all(|vote| vote.approves) => Verdict::Approved,
            ResumedBy::Condition => Verdict::Rejected,
            ResumedBy::Timeout => Verdict::TimedOut,
            ResumedBy::Operator => Verdict::Operator,
        };
        Approval { verdict, votes }
    }

    /// Returns true if enough people agreed.
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
