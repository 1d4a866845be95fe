//! Approvals by several people, each with a token of their own.

use super::{ManualClockEnv, engine_namespace, submit, wait_for_end, wait_for_suspensions};
use selvedge::State;
use selvedge::{Context, ExecutionId, Failure, Handle, Outcome, Signal, Submission, Waitpoint, Worker};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

const HOUR: Duration = Duration::from_secs(3600);

/// A suspended execution that asks three people, of whom two have to agree.
struct Deployment {
    env: ManualClockEnv,
    worker: Handle,
    id: ExecutionId,
    /// The waitpoint of each person.
    waitpoints: BTreeMap<String, Waitpoint>,
    inbox: mpsc::UnboundedReceiver<(String, Waitpoint)>,
}

impl Deployment {
    async fn new() -> Deployment {
        let env = ManualClockEnv::new().await;
        let (mail, mut inbox) = mpsc::unbounded_channel();
        let handler = move |ctx: Context| {
            let mail = mail.clone();
            async move {
                let ask = |person: String, waitpoint: Waitpoint| {
                    let mail = mail.clone();
                    async move { Ok(mail.send((person, waitpoint))?) }
                };
                let request = ctx.approval("deploy").of(["ann", "bob", "cleo"]).at_least(2).within(HOUR);
                let approval = request.ask(ask).await?;
                // Causes another attempt, which must see the same result.
                ctx.sleep("nap", Duration::ZERO).await?;
                let votes = approval
                    .votes
                    .iter()
                    .map(|vote| Ok(json!([vote.person, vote.approves, vote.signal.payload::<Value>()?])));
                let votes = votes.collect::<Result<Vec<_>, Failure>>()?;
                Ok::<_, Failure>(json!([format!("{:?}", approval.verdict), votes]))
            }
        };
        let worker = Worker::new(env.namespace.clone(), "w").handler("k", handler).start();
        let worker = worker.expect("the worker starts");
        let id = submit(&env.namespace, Submission::new("k")).await;
        wait_for_suspensions(&env.namespace, id, 1).await;
        let mut waitpoints = BTreeMap::new();
        for person in ["ann", "bob", "cleo"] {
            let (to, waitpoint) = inbox.recv().await.expect("each person is asked");
            assert_eq!((to.as_str(), waitpoint.source.as_str()), (person, person));
            assert_eq!(waitpoint.name, format!("deploy/{person}"));
            waitpoints.insert(to, waitpoint);
        }
        Deployment { env, worker, id, waitpoints, inbox }
    }

    async fn vote(&self, person: &str, signal: Signal) {
        let waitpoint = &self.waitpoints[person];
        let delivered = signal.deliver(&self.env.namespace, waitpoint.id, &waitpoint.token).await;
        delivered.expect("the delivery is accepted");
    }

    async fn agree(&self, person: &str) {
        self.vote(person, Signal::for_waitpoint().payload("fine").expect("valid JSON")).await;
    }

    async fn decline(&self, person: &str) {
        self.vote(person, Signal::new("deploy/reject").payload("not today").expect("valid JSON")).await;
    }

    async fn expect_result(mut self, expected: Value) {
        assert_eq!(wait_for_end(&self.env.namespace, self.id).await, (Outcome::Completed, expected));
        self.worker.drain().await;
        assert!(self.inbox.try_recv().is_err(), "each person is asked once");
        let waitpoints = engine_namespace(&self.env.engine)
            .await
            .waitpoints(self.id, 0, 10)
            .await
            .expect("the waitpoints are listed");
        assert_eq!(waitpoints.len(), 3);
        self.env.engine.shutdown().await;
    }
}

#[tokio::test]
async fn an_approval_is_approved_when_enough_people_agree() {
    let deployment = Deployment::new().await;
    deployment.agree("cleo").await;
    deployment.decline("bob").await;
    let row = deployment.env.namespace.get(deployment.id).await.expect("the execution is read");
    assert_eq!(row.state, State::Suspended);
    deployment.agree("ann").await;
    deployment.expect_result(json!(["Approved", [["cleo", true, "fine"], ["ann", true, "fine"]]])).await;
}

#[tokio::test]
async fn an_approval_is_rejected_when_too_many_people_decline() {
    let deployment = Deployment::new().await;
    deployment.decline("ann").await;
    deployment.agree("bob").await;
    deployment.decline("cleo").await;
    deployment
        .expect_result(json!(["Rejected", [["ann", false, "not today"], ["cleo", false, "not today"]]]))
        .await;
}

#[tokio::test]
async fn an_approval_that_times_out_returns_all_votes() {
    let deployment = Deployment::new().await;
    deployment.agree("ann").await;
    deployment.decline("bob").await;
    deployment.env.advance(HOUR).await;
    deployment.expect_result(json!(["TimedOut", [["ann", true, "fine"], ["bob", false, "not today"]]])).await;
}

#[tokio::test]
async fn an_operator_may_resume_an_approval() {
    let deployment = Deployment::new().await;
    deployment.agree("ann").await;
    deployment.env.namespace.resume(deployment.id).await.expect("the execution is resumed");
    deployment.expect_result(json!(["Operator", [["ann", true, "fine"]]])).await;
}

#[tokio::test]
async fn a_token_authorises_one_vote_of_its_person_only() {
    let deployment = Deployment::new().await;
    let (ann, bob) = (&deployment.waitpoints["ann"], &deployment.waitpoints["bob"]);
    let forged = Signal::for_waitpoint().deliver(&deployment.env.namespace, bob.id, &ann.token).await;
    assert!(forged.expect_err("the delivery is refused").to_string().contains("token"));
    let named = Signal::new("deploy/bob").deliver(&deployment.env.namespace, ann.id, &ann.token).await;
    assert!(named.expect_err("the delivery is refused").to_string().contains("this token may send"));
    for _ in 0..2 {
        deployment.agree("ann").await;
    }
    let row = deployment.env.namespace.get(deployment.id).await.expect("the execution is read");
    assert_eq!(row.state, State::Suspended, "a repeated vote counts once");
    deployment.agree("bob").await;
    deployment.expect_result(json!(["Approved", [["ann", true, "fine"], ["bob", true, "fine"]]])).await;
}

#[tokio::test]
async fn an_invalid_approval_fails() {
    let env = ManualClockEnv::new().await;
    let handler = |ctx: Context| async move {
        let (people, needed): (Vec<String>, usize) = ctx.input()?;
        let ask = |_: String, _: Waitpoint| async { Ok(()) };
        Ok::<_, Failure>(ctx.approval("a").of(people).at_least(needed).ask(ask).await?.is_approved())
    };
    let worker = Worker::new(env.namespace.clone(), "w").handler("k", handler).start();
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
        let id = submit(&env.namespace, Submission::new("k").input(&input).expect("valid JSON")).await;
        let (outcome, message) = wait_for_end(&env.namespace, id).await;
        assert_eq!(outcome, Outcome::Failed);
        assert!(message.as_str().is_some_and(|message| message.contains(expected)), "{message}");
    }
    worker.drain().await;
    env.engine.shutdown().await;
}

over_http_too! {
    an_approval_is_approved_when_enough_people_agree,
    an_approval_is_rejected_when_too_many_people_decline,
    an_approval_that_times_out_returns_all_votes,
    an_operator_may_resume_an_approval,
    a_token_authorises_one_vote_of_its_person_only,
    an_invalid_approval_fails,
}
