//! Bulk jobs: each chunk and the progress of its job are one transaction, so nothing is done twice and nothing is skipped.

use crate::harness::signals::name;
use crate::harness::{Harness, concurrently};
use selvedge_core::bulk_job::{BulkJob, BulkJobId, BulkJobState, KEPT_MS, TAKEOVER_MS};
use selvedge_core::fact::{self, Fact};
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::rules::CallKey;
use selvedge_core::rules::bulk_job::{
    AdvanceBulkJob, EmptyNamespace, StartBulkJob, StartDeletion, StopBulkJob, TakeBulkJob,
};
use selvedge_core::rules::flows::whole::ForgetFlow;
use selvedge_core::rules::keyed::Keyed;
use selvedge_core::rules::operator::Action;
use selvedge_core::state::StateName;
use selvedge_core::table::Entries;
use selvedge_core::{Changes, Draft, ExecutionId};
use selvedge_store::ReconcilerScope;
use serde_json::json;
use std::collections::BTreeMap;
use uuid::Uuid;

fn id(number: u8) -> BulkJobId {
    BulkJobId(Uuid::from_u128(u128::from(number) << 80))
}

fn cancel() -> Action {
    Action::Cancel { reason: Some("tidy \"up\"".into()), grace_ms: 0 }
}

fn start_command(harness: &Harness, number: u8, action: Action) -> StartBulkJob {
    StartBulkJob {
        id: id(number),
        namespace: harness.namespace,
        action,
        filter: Filter { states: vec![StateName::Waiting], ..Filter::all(harness.namespace) },
        asked: BTreeMap::from([("state".to_owned(), json!("waiting"))]),
        actor: name("operator é"),
    }
}

async fn start(harness: &Harness, number: u8) -> BulkJob {
    harness.run(start_command(harness, number, cancel())).await.expect("the job starts")
}

async fn read(harness: &Harness, number: u8) -> Option<BulkJob> {
    harness.store.bulk_job(id(number)).await.expect("jobs are read")
}

/// Returns the next chunk of a job, of at most `limit` executions.
async fn chunk(harness: &Harness, job: &BulkJob, limit: u32) -> AdvanceBulkJob {
    let page = harness.store.list(&job.spec.filter, job.progress.position, limit, Payloads::NONE).await;
    let page = page.expect("executions are listed");
    let executions: Vec<ExecutionId> = page.rows.iter().map(|stored| stored.execution.id).collect();
    AdvanceBulkJob { job: job.clone(), executions, next: page.next, hands_over: false }
}

async fn submit(harness: &Harness, count: usize) -> Vec<ExecutionId> {
    harness.submit_ids(vec![Draft::new("kind"); count]).await
}

async fn states(harness: &Harness, ids: &[ExecutionId]) -> Vec<StateName> {
    let rows = harness.store.fetch(ids, Payloads::NONE).await.expect("executions are read");
    rows.iter().map(|stored| stored.execution.state.name()).collect()
}

pub async fn a_job_is_read_back_with_every_field(harness: &Harness) {
    let tags = BTreeMap::from([("a".to_owned(), "b \"c\"".to_owned())]);
    let actions = [
        cancel(),
        Action::Replay,
        Action::Prioritise { priority: -7 },
        Action::Reschedule { until: selvedge_core::submission::When::AfterMs(5) },
        Action::Tag { set: tags, remove: vec!["old".into()] },
    ];
    for (number, action) in (1..).zip(actions) {
        let started = harness.run(start_command(harness, number, action)).await.expect("the job starts");
        assert_eq!(started.state, BulkJobState::Running);
        assert_eq!(read(harness, number).await, Some(started));
    }
    assert_eq!(read(harness, 9).await, None);
}

pub async fn a_job_meets_every_execution_once_and_ends(harness: &Harness) {
    let ids = submit(harness, 7).await;
    let mut job = start(harness, 1).await;
    // Newer executions are not met.
    let mut newer = Vec::new();
    let mut chunks = 0;
    while job.state == BulkJobState::Running {
        let step = chunk(harness, &job, 3).await;
        newer.extend(if chunks == 0 { submit(harness, 2).await } else { Vec::new() });
        job = harness.run(step).await.expect("the chunk is next");
        assert_eq!(read(harness, 1).await.as_ref(), Some(&job));
        chunks += 1;
        assert!(chunks < 9, "{job:?}");
    }
    assert_eq!((job.state, job.progress.changed, job.progress.matched()), (BulkJobState::Completed, 7, 7));
    assert_eq!(states(harness, &ids).await, [StateName::Cancelled; 7]);
    assert_eq!(states(harness, &newer).await, [StateName::Waiting; 2]);
    let log = harness.log().await;
    let facts: Vec<&Fact> = log.iter().flat_map(|(_, events)| events).map(|event| &event.fact).collect();
    let ends = facts
        .iter()
        .filter(|fact| matches!(fact, Fact::BulkJobEnded(fact::BulkJobEnded { changed: 7, .. })))
        .count();
    let starts = facts.iter().filter(|fact| matches!(fact, Fact::BulkJobStarted { .. })).count();
    assert_eq!((starts, ends), (1, 1));
}

pub async fn a_chunk_that_was_done_is_not_done_again(harness: &Harness) {
    submit(harness, 4).await;
    let job = start(harness, 1).await;
    let step = chunk(harness, &job, 2).await;
    let done = harness.run(step.clone()).await.expect("the chunk is next");
    assert!(harness.run(step).await.is_none(), "another server did it");
    assert_eq!(read(harness, 1).await, Some(done));
}

pub async fn of_many_servers_with_one_chunk_one_does_it(harness: &Harness) {
    submit(harness, 6).await;
    let job = start(harness, 1).await;
    let step = chunk(harness, &job, 3).await;
    let tries = concurrently(4, |_| {
        let (harness, step) = (harness.clone(), step.clone());
        async move { harness.run(step).await }
    });
    let done = tries.await.into_iter().flatten().count();
    let job = read(harness, 1).await.expect("the job exists");
    assert_eq!((done, job.progress.changed, job.progress.chunks), (1, 3, 1));
}

pub async fn executions_that_refuse_the_action_are_counted_and_named(harness: &Harness) {
    let ended = harness.leased(Draft::new("kind")).await;
    harness.complete(&ended, b"1").await;
    let ids = submit(harness, 2).await;
    let all = StartBulkJob {
        filter: Filter::all(harness.namespace),
        ..start_command(harness, 1, Action::Prioritise { priority: 4 })
    };
    let job = harness.run(all).await.expect("the job starts");
    let mut step = chunk(harness, &job, 100).await;
    // One that was deleted meanwhile.
    step.executions.push(ExecutionId(Uuid::from_u128(1)));
    let job = harness.run(step).await.expect("the chunk is next");
    let progress = &job.progress;
    assert_eq!((progress.changed, progress.unchanged, progress.refused), (2, 1, 1));
    assert_eq!(progress.refusals, [(ended.execution.id, "already_terminal".to_owned())]);
    let rows = harness.store.fetch(&ids, Payloads::NONE).await.expect("executions are read");
    assert!(rows.iter().all(|stored| stored.execution.priority == 4));
}

pub async fn a_stopped_job_does_nothing_more(harness: &Harness) {
    submit(harness, 4).await;
    let job = start(harness, 1).await;
    let step = chunk(harness, &job, 2).await;
    let stop = |namespace| StopBulkJob { namespace, id: id(1), actor: name("operator") };
    let foreign = harness.in_namespace("foreign").await;
    assert_eq!(harness.run(stop(foreign.namespace)).await.expect_err("is not found").code(), "not_found");
    let stopped = harness.run(stop(harness.namespace)).await.expect("the job exists");
    assert_eq!((stopped.state, stopped.progress.changed), (BulkJobState::Stopped, 0));
    assert!(harness.run(step).await.is_none());
    assert_eq!(harness.run(stop(harness.namespace)).await.expect("the job exists"), stopped);
    assert_eq!(read(harness, 1).await, Some(stopped));
}

pub async fn a_job_is_due_until_it_is_taken_and_again_when_its_server_is_silent(harness: &Harness) {
    submit(harness, 4).await;
    let everywhere = ReconcilerScope::default();
    let due = async |scope: &ReconcilerScope| {
        let due = harness.store.due_bulk_jobs(scope, 10).await.expect("jobs are read");
        due.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(harness.store.overview().await.expect("is read").due.of::<BulkJob>(), None);
    let job = start(harness, 1).await;
    assert_eq!(due(&everywhere).await, [id(1)]);
    assert_eq!(harness.store.overview().await.expect("is read").due.of::<BulkJob>(), Some(job.due_at));
    assert_eq!(harness.store.glance().await.expect("is read").due.of::<BulkJob>(), Some(job.due_at));
    let foreign = harness.in_namespace("foreign").await.namespace;
    let elsewhere = ReconcilerScope { namespace: Some(foreign), ..ReconcilerScope::default() };
    assert_eq!(due(&elsewhere).await, []);
    let taken = harness.run(TakeBulkJob { id: id(1) }).await.expect("it is due");
    assert!(harness.run(TakeBulkJob { id: id(1) }).await.is_none(), "another server has it");
    assert_eq!(due(&everywhere).await, []);
    // Its server hands it over with a chunk.
    let step = AdvanceBulkJob { hands_over: true, ..chunk(harness, &taken, 2).await };
    harness.run(step).await.expect("the chunk is next");
    assert_eq!(due(&everywhere).await, [id(1)]);
    let taken = harness.run(TakeBulkJob { id: id(1) }).await.expect("it is due");
    harness.advance_past(TAKEOVER_MS).await;
    assert_eq!(due(&everywhere).await, [id(1)]);
    let again = harness.run(TakeBulkJob { id: id(1) }).await.expect("it is due");
    let chunk = chunk(harness, &taken, 2).await;
    let done = harness.run(AdvanceBulkJob { next: None, ..chunk }).await.expect("the chunk is next");
    assert_eq!((done.state, done.progress.chunks), (BulkJobState::Completed, again.progress.chunks + 1));
    assert_eq!(done.due_at.ms_since(done.ended_at.expect("it has ended")), KEPT_MS);
}

pub async fn a_repeated_start_names_the_first_job(harness: &Harness) {
    let keyed = |number| Keyed {
        call_key: Some(CallKey { key: name("once"), digest: 1 }),
        rule: start_command(harness, number, cancel()),
        keeps_refusals: false,
    };
    let first = harness.run(keyed(1)).await.expect("the job starts");
    let second = harness.run(keyed(2)).await.expect("is a repeat");
    assert_eq!((first.duplicate, second.duplicate, second.done.id), (false, true, id(1)));
    assert_eq!(read(harness, 2).await, None);
}

pub async fn jobs_are_listed_by_namespace_newest_first(harness: &Harness) {
    for number in 1..=4 {
        start(harness, number).await;
    }
    start(&harness.in_namespace("foreign").await, 5).await;
    let page = async |after, limit| {
        let jobs = harness.store.bulk_jobs(harness.namespace, after, limit).await.expect("jobs are read");
        jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 9).await, [id(4), id(3), id(2), id(1)]);
    assert_eq!(page(None, 3).await, [id(4), id(3), id(2)]);
    assert_eq!(page(Some(id(2)), 3).await, [id(1)]);
}

pub async fn an_emptied_namespace_has_no_executions_flows_or_other_rows(harness: &Harness) {
    let other = harness.in_namespace("doomed").await;
    let ended = other.leased(Draft::new("kind")).await;
    other.complete(&ended, b"1").await;
    let live = submit(&other, 3).await;
    let flow = other.flow("a -> b").await;
    let kept = submit(harness, 1).await;
    let deletion = StartDeletion {
        id: id(1),
        namespace: harness.namespace,
        target: other.namespace,
        name: name("doomed"),
        actor: name("admin"),
    };
    let job = harness.run(deletion.clone()).await;
    assert_eq!(harness.run(deletion).await, job, "it was started before");
    let members = flow.members().await;
    let mut executions = live.clone();
    executions.push(ended.execution.id);
    executions.extend(members.iter().map(|member| member.id));
    // One of another namespace is not touched.
    executions.push(kept[0]);
    let step = |job: BulkJob| EmptyNamespace { job, executions: executions.clone(), pause_ms: None };
    let job = harness.run(step(job)).await.expect("the chunk is next");
    assert_eq!(states(harness, &live).await, [StateName::Cancelled; 3]);
    assert_eq!(states(harness, &[ended.execution.id]).await, []);
    other.drain().await;
    let job = harness.run(step(job)).await.expect("the chunk is next");
    assert_eq!(states(harness, &live).await, []);
    assert_eq!(flow.members().await.len(), members.len(), "members are deleted with their flow");
    assert!(harness.run(ForgetFlow { flow: flow.flow().await.id, at_once: false }).await.is_none());
    let forgotten = harness.run(ForgetFlow { flow: flow.flow().await.id, at_once: true }).await;
    assert_eq!(forgotten.map(|forgotten| forgotten.goes_on), Some(false));
    assert!(harness.run(step(job)).await.is_some(), "nothing is left, which is no failure");
    assert!(
        harness.store.delete_rest_of_namespace(other.namespace, 100).await.expect("rows are deleted") > 0
    );
    assert_eq!(harness.store.delete_rest_of_namespace(other.namespace, 100).await.expect("none is left"), 0);
    let sessions = harness.store.sessions(Some(other.namespace)).await.expect("sessions are read");
    assert_eq!(sessions, []);
    assert_eq!(states(harness, &kept).await, [StateName::Waiting]);
}

pub async fn a_deletion_cannot_be_stopped_and_one_that_was_stopped_continues(harness: &Harness) {
    let doomed = harness.in_namespace("doomed").await;
    let deletion = StartDeletion {
        id: id(1),
        namespace: harness.namespace,
        target: doomed.namespace,
        name: name("doomed"),
        actor: name("admin"),
    };
    let started = harness.run(deletion.clone()).await;
    let stop = StopBulkJob { namespace: harness.namespace, id: id(1), actor: name("operator") };
    let refused = harness.run(stop.clone()).await.expect_err("a deletion cannot be stopped");
    assert_eq!(refused.code(), "wrong_state");
    assert_eq!(read(harness, 1).await, Some(started.clone()));

    // An earlier build has stopped it.
    let mut stopped = started.clone();
    stopped.end(BulkJobState::Stopped, harness.now().await);
    harness.save(Changes { bulk_jobs: Entries::writing([stopped]), ..Changes::default() }).await;
    let continued = harness.run(deletion.clone()).await;
    assert_eq!((continued.state, continued.ended_at), (BulkJobState::Running, None));
    assert_eq!((continued.id, continued.created_at), (started.id, started.created_at));
    assert_eq!(read(harness, 1).await, Some(continued.clone()));
    harness.run(TakeBulkJob { id: id(1) }).await.expect("any server may continue it at once");
    let end = AdvanceBulkJob { job: continued, executions: Vec::new(), next: None, hands_over: false };
    let ended = harness.run(end).await.expect("it ends");
    assert_eq!(ended.state, BulkJobState::Completed);
    assert_eq!(harness.run(deletion).await, ended, "a completed one stays");
    assert_eq!(harness.run(stop).await, Ok(ended));
}
