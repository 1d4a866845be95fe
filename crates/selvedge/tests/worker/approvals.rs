//! Approvals by several people, each with a token of their own.

use super::{Timed, ended, operate, submit, suspended};
use selvedge::core::state::StateName;
use selvedge::{
    Action, Context, ExecutionId, Failure, Handle, Outcome, Signal, Submission, Waitpoint, Worker,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

const HOUR: Duration = Duration::from_secs(3600);

/// A deployment that two of three people have to agree to, and the letters that they got.
struct Deployment {
    timed: Timed,
    worker: Handle,
    id: ExecutionId,
    letters: BTreeMap<String, Waitpoint>,
    more: mpsc::UnboundedReceiver<(String, Waitpoint)>,
}

impl Deployment {
    async fn new() -> Deployment {
        let timed = Timed::new().await;
        let (mail, mut more) = mpsc::unbounded_channel();
        let handler = move |ctx: Context| {
            let mail = mail.clone();
            async move {
                let ask = |person: String, letter: Waitpoint| {
                    let mail = mail.clone();
                    async move { Ok(mail.send((person, letter))?) }
                };
                let call = ctx.approval("deploy").of(["ann", "bob", "cleo"]).at_least(2).within(HOUR);
                let approval = call.ask(ask).await?;
                // One more attempt, which must see the same.
                ctx.sleep("nap", Duration::ZERO).await?;
                let votes = approval
                    .votes
                    .iter()
                    .map(|vote| Ok(json!([vote.person, vote.approves, vote.signal.payload::<Value>()?])));
                let votes = votes.collect::<Result<Vec<_>, Failure>>()?;
                Ok::<_, Failure>(json!([format!("{:?}", approval.verdict), votes]))
            }
        };
        let worker = Worker::new(timed.namespace.clone(), "w").handler("k", handler).start();
        let worker = worker.expect("the worker starts");
        let id = submit(&timed.namespace, Submission::new("k")).await;
        suspended(&timed.namespace, id, 1).await;
        let mut letters = BTreeMap::new();
        for person in ["ann", "bob", "cleo"] {
            let (to, letter) = more.recv().await.expect("a letter is sent");
            assert_eq!((to.as_str(), letter.source.as_str()), (person, person));
            assert_eq!(letter.name, format!("deploy/{person}"));
            letters.insert(to, letter);
        }
        Deployment { timed, worker, id, letters, more }
    }

    async fn answer(&self, person: &str, signal: Signal) {
        let letter = &self.letters[person];
        let delivered = signal.deliver(&self.timed.engine, letter.id, &letter.token).await;
        assert_eq!(delivered.expect("it is accepted").source.as_str(), person);
    }

    async fn yes(&self, person: &str) {
        self.answer(person, Signal::for_waitpoint().payload("fine").expect("is JSON")).await;
    }

    async fn no(&self, person: &str) {
        self.answer(person, Signal::new("deploy/reject").payload("not today").expect("is JSON")).await;
    }

    async fn ends_with(mut self, expected: Value) {
        assert_eq!(ended(&self.timed.namespace, self.id).await, (Outcome::Completed, expected));
        self.worker.drain().await;
        assert!(self.more.try_recv().is_err(), "nobody is asked twice");
        let waitpoints = self.timed.namespace.waitpoints(self.id, 0, 10).await.expect("they are listed");
        assert_eq!(waitpoints.len(), 3);
        self.timed.engine.shutdown().await;
    }
}

#[tokio::test]
async fn it_is_approved_when_enough_have_agreed() {
    let deployment = Deployment::new().await;
    deployment.yes("cleo").await;
    deployment.no("bob").await;
    let row = deployment.timed.namespace.get(deployment.id).await.expect("it is read");
    assert_eq!(row.stored.execution.state.name(), StateName::Suspended);
    deployment.yes("ann").await;
    deployment.ends_with(json!(["Approved", [["cleo", true, "fine"], ["ann", true, "fine"]]])).await;
}

#[tokio::test]
async fn it_is_rejected_when_not_enough_are_left() {
    let deployment = Deployment::new().await;
    deployment.no("ann").await;
    deployment.yes("bob").await;
    deployment.no("cleo").await;
    deployment
        .ends_with(json!(["Rejected", [["ann", false, "not today"], ["cleo", false, "not today"]]]))
        .await;
}

#[tokio::test]
async fn it_times_out_and_says_who_has_spoken() {
    let deployment = Deployment::new().await;
    deployment.yes("ann").await;
    deployment.no("bob").await;
    deployment.timed.pass(HOUR).await;
    deployment.ends_with(json!(["TimedOut", [["ann", true, "fine"], ["bob", false, "not today"]]])).await;
}

#[tokio::test]
async fn an_operator_may_let_it_go_on() {
    let deployment = Deployment::new().await;
    deployment.yes("ann").await;
    operate(&deployment.timed.namespace, deployment.id, Action::Resume).await;
    deployment.ends_with(json!(["Operator", [["ann", true, "fine"]]])).await;
}

#[tokio::test]
async fn nobody_speaks_for_another() {
    let deployment = Deployment::new().await;
    let (ann, bob) = (&deployment.letters["ann"], &deployment.letters["bob"]);
    let forged = Signal::for_waitpoint().deliver(&deployment.timed.engine, bob.id, &ann.token).await;
    assert!(forged.expect_err("it is refused").to_string().contains("token"));
    let named = Signal::new("deploy/bob").deliver(&deployment.timed.engine, ann.id, &ann.token).await;
    assert!(named.expect_err("it is refused").to_string().contains("another waitpoint"));
    for _ in 0..2 {
        deployment.yes("ann").await;
    }
    let row = deployment.timed.namespace.get(deployment.id).await.expect("it is read");
    assert_eq!(row.stored.execution.state.name(), StateName::Suspended, "the same word twice is one");
    deployment.yes("bob").await;
    deployment.ends_with(json!(["Approved", [["ann", true, "fine"], ["bob", true, "fine"]]])).await;
}

#[tokio::test]
async fn an_approval_that_cannot_be_given_fails() {
    let timed = Timed::new().await;
    let handler = |ctx: Context| async move {
        let (people, needed): (Vec<String>, usize) = ctx.input()?;
        let ask = |_: String, _: Waitpoint| async { Ok(()) };
        Ok::<_, Failure>(ctx.approval("a").of(people).at_least(needed).ask(ask).await?.is_approved())
    };
    let worker = Worker::new(timed.namespace.clone(), "w").handler("k", handler).start();
    let worker = worker.expect("the worker starts");
    let cases = [
        (json!([[], 1]), "asks nobody"),
        (json!([["ann"], 0]), "needs 0 of 1 people"),
        (json!([["ann", "bob"], 3]), "needs 3 of 2 people"),
        (json!([["ann", "ann"], 1]), "asks \"ann\" twice"),
        (json!([["reject"], 1]), "asks \"reject\""),
        (json!([[""], 1]), "a waitpoint was refused: /source must not be empty"),
    ];
    for (input, expected) in cases {
        let id = submit(&timed.namespace, Submission::new("k").input(&input).expect("is JSON")).await;
        let (outcome, told) = ended(&timed.namespace, id).await;
        assert_eq!(outcome, Outcome::Failed);
        assert!(told.as_str().is_some_and(|told| told.contains(expected)), "{told}");
    }
    worker.drain().await;
    timed.engine.shutdown().await;
}
