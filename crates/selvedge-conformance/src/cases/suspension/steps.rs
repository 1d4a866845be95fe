//! Steps: recorded once and carried by every later claim. A wait may be a step too, recorded when it ends.

use super::signals::raise_version;
use crate::harness::signals::{
    known_steps, name, on_signal, recorded_wait, result_of, signal, step, suspend,
};
use crate::harness::{Harness, fence, new_id};
use crate::harness::{Worker, by_hand};
use bytes::Bytes;
use selvedge_core::execution::RecordSummary;
use selvedge_core::rows::Queries;
use selvedge_core::rules::operator::Action;
use selvedge_core::rules::report::Op;
use selvedge_core::rules::step::StepDraft;
use selvedge_core::rules::timer::{Timer, TimerReply};
use selvedge_core::signal::Effect;
use selvedge_core::state::StateName;
use selvedge_core::step::{RECORD_LIMIT, STEPS_MAX, Step, StepKind};
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, OnTimeout, ResumedBy, WaitDraft};
use selvedge_core::table::{Guarded, Request};
use selvedge_core::{Changes, Draft, DueKind, ExecutionId, FailureClass, Needs};

pub async fn steps_are_read_back_with_every_field_in_order_and_in_pages(harness: &Harness) {
    let now = harness.now().await;
    let large = Bytes::from(format!("\"{}\"", "\u{1f9f5}".repeat(260_000)));
    let results =
        [Some(Bytes::from_static(b"")), Some(Bytes::from_static(b" {\"a\" :  1}\n")), None, Some(large)];
    let every_form = |execution: ExecutionId| {
        let form = |(index, kind): (usize, StepKind)| Step {
            execution,
            number: index as u32 + 1,
            name: name(&format!("stép {index} \u{1f4a5}")),
            kind,
            attempt: [0, 1_000_000][index % 2],
            started_at: now.minus_ms(index as i64),
            recorded_at: results[index % 4].as_ref().map(|_| now),
            result: results[index % 4].clone(),
        };
        StepKind::ALL.into_iter().enumerate().map(form).collect::<Vec<Step>>()
    };
    let write = async |id: ExecutionId, steps: &[Step]| {
        let updated = vec![raise_version(harness, id).await];
        harness
            .save(Changes {
                steps: steps.to_vec(),
                executions: Guarded::updating(updated),
                ..Changes::default()
            })
            .await;
    };
    let record = RecordSummary { steps: 6, ..RecordSummary::default() };
    let [one, other] =
        [by_hand::recorded(harness, record.clone()).await.id, by_hand::recorded(harness, record).await.id];
    let (mut steps, others) = (every_form(one), every_form(other));
    write(one, &steps).await;
    write(other, &others).await;
    assert_eq!(harness.steps(one).await, steps);
    let page = async |after, limit| harness.store.steps(one, after, limit).await.expect("steps are read");
    assert_eq!(page(0, 2).await, steps[..2]);
    assert_eq!(page(2, 9).await, steps[2..]);
    for after in [6, 1_000_000, u32::MAX] {
        assert!(page(after, 9).await.is_empty());
    }
    assert!(harness.steps(new_id()).await.is_empty());
    let rows = harness
        .load(Needs { queries: Queries { records: vec![one], ..Queries::default() }, ..Needs::default() })
        .await;
    assert_eq!((&rows.steps, rows.found.records), (&steps, vec![one]));
    let wanted = vec![
        (one, steps[2].name.clone()),
        (one, name("nobody's")),
        (other, others[3].name.clone()),
        (new_id(), steps[2].name.clone()),
    ];
    let mut rows = harness.load(Needs { steps: Request::reading(wanted), ..Needs::default() }).await;
    rows.steps.sort_by_key(|step| step.number);
    assert_eq!(rows.steps, [steps[2].clone(), others[3].clone()]);
    assert!(rows.found.records.is_empty());
    // An open step that is written again is replaced.
    let recorded = Step { recorded_at: Some(now), result: Some("7".into()), attempt: 3, ..steps[2].clone() };
    write(one, std::slice::from_ref(&recorded)).await;
    steps[2] = recorded;
    assert_eq!(harness.steps(one).await, steps);
    assert_eq!(harness.steps(other).await, others);
}

pub async fn a_step_is_recorded_once_and_claims_carry_it_in_order(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    assert!(claimed.steps.is_empty());
    let timed = StepDraft {
        name: name("z first"),
        kind: StepKind::Step,
        result: " {\"a\" :  1}".into(),
        duration_ms: 250,
    };
    harness.report(fence(&claimed), Op::Step(timed)).await.expect("it is recorded");
    harness.step(&claimed, "a second", "2").await;
    harness.step(&claimed, "m third", "null").await;
    let before = harness.row(id).await;
    harness.step(&claimed, "a second", "2").await;
    assert_eq!(harness.row(id).await, before, "a repeat changes nothing");
    let other_kind = Op::Step(StepDraft {
        name: name("a second"),
        kind: StepKind::Spawn,
        result: "2".into(),
        duration_ms: 0,
    });
    for op in [step("a second", "3"), other_kind] {
        let refused =
            harness.report(fence(&claimed), op).await.expect_err("it is recorded with another content");
        assert_eq!((refused.code(), refused.pointer()), ("idempotency_mismatch", Some("/name")));
    }
    assert_eq!(harness.row(id).await, before);
    let stored = harness.steps(id).await;
    assert_eq!(stored.iter().map(|step| step.number).collect::<Vec<_>>(), [1, 2, 3]);
    let first = &stored[0];
    let recorded_at = first.recorded_at.expect("it is recorded");
    assert_eq!((first.attempt, recorded_at.ms_since(first.started_at)), (0, 250));
    let record = &before.detail.record;
    assert_eq!((record.steps, record.bytes), (3, 16));
    harness.report(fence(&claimed), Op::Release).await.expect("it is released");
    let again = harness.claim_again(id).await;
    assert_eq!(known_steps(&again), [("z first", " {\"a\" :  1}"), ("a second", "2"), ("m third", "null")]);
    assert_eq!(again.steps, stored);
}

pub async fn only_the_current_lease_records_a_step(harness: &Harness) {
    let first = harness.leased(Draft::new("kind")).await;
    let id = first.execution.id;
    harness.report(fence(&first), Op::Release).await.expect("it is released");
    let stale = async || {
        let refused = harness.report(fence(&first), step("late", "1")).await.expect_err("its lease is over");
        assert_eq!(refused.code(), "stale_lease");
    };
    stale().await;
    let second = harness.claim_again(id).await;
    stale().await;
    harness.step(&second, "done", "2").await;
    stale().await;
    assert_eq!(harness.steps(id).await.len(), 1);
    harness.suspend(&second, vec![WaitDraft::new(on_signal("go"))]).await;
    stale().await;
    let repeated = harness.report(fence(&second), step("done", "2")).await;
    assert_eq!(repeated.expect_err("its lease is over too").code(), "stale_lease");
}

pub async fn steps_survive_every_end_of_an_attempt(harness: &Harness) {
    let claimed = harness.leased(Draft::new("kind")).await;
    let id = claimed.execution.id;
    harness.step(&claimed, "one", "1").await;
    harness.report(fence(&claimed), Op::Release).await.expect("it is released");
    let worker = Worker { ttl_ms: 1, ..Worker::new("short") };
    let claim = async || harness.claim_as(&worker, 1).await.remove(0);
    let fail = |class, retry_after_ms| Op::Fail { message: "it broke".into(), class, retry_after_ms };
    let expired = claim().await;
    assert_eq!(known_steps(&expired), [("one", "1")]);
    harness.step(&expired, "two", "2").await;
    harness.advance_past(1).await;
    assert_eq!(harness.tick(id, Timer::LeaseExpiry).await, TimerReply::Fired);
    let failed = claim().await;
    assert_eq!(known_steps(&failed), [("one", "1"), ("two", "2")]);
    harness.report(fence(&failed), fail(FailureClass::Transient, Some(0))).await.expect("it failed");
    let given_up = claim().await;
    assert_eq!(known_steps(&given_up), [("one", "1"), ("two", "2")]);
    harness.step(&given_up, "three", "3").await;
    harness.report(fence(&given_up), fail(FailureClass::Permanent, None)).await.expect("it failed");
    harness.operate(id, Action::Replay).await.expect("it is replayed");
    let replayed = claim().await;
    assert_eq!(known_steps(&replayed), [("one", "1"), ("two", "2"), ("three", "3")]);
    let attempts: Vec<u32> = replayed.steps.iter().map(|step| step.attempt).collect();
    assert_eq!(attempts, [0, 1, 3]);
}

pub async fn a_wait_with_a_step_is_open_until_its_end_is_recorded(harness: &Harness) {
    let waits = vec![recorded_wait("wäit", Condition::All(vec![on_signal("a"), on_signal("b")]))];
    let id = harness.suspended_for(waits).await.execution.id;
    let open = harness.steps(id).await;
    assert_eq!((open.len(), open[0].kind, open[0].attempt), (1, StepKind::Wait, 0));
    assert_eq!((open[0].recorded_at, &open[0].result), (None, &None));
    let b = selvedge_core::rules::signal::SignalDraft { payload: " {\"yes\" : true}".into(), ..signal("b") };
    harness.try_signal(id, b).await.expect("it is delivered");
    assert_eq!(harness.steps(id).await, open, "the wait has not ended");
    assert_eq!(harness.signal(id, "a").await, Effect::Resumed);
    let ended = harness.steps(id).await;
    assert!(ended[0].recorded_at.is_some());
    assert_eq!(ended[0].started_at, open[0].started_at);
    let claimed = harness.claim_again(id).await;
    let expected = concat!(
        r#"{"resumed_by":"condition","signals":["#,
        r#"{"name":"b","payload":{"yes" : true},"source":"caller","waitpoint":null},"#,
        r#"{"name":"a","payload":"a came","source":"caller","waitpoint":null}]}"#
    );
    assert_eq!(known_steps(&claimed), [("wäit", expected)], "with the signals that it took");
    // A recorded step cannot be awaited again.
    let again = suspend(vec![recorded_wait("wäit", on_signal("c"))], vec![]);
    let refused = harness.report(fence(&claimed), again).await.expect_err("it is recorded");
    assert_eq!((refused.code(), refused.pointer()), ("idempotency_mismatch", Some("/step")));
    let refused = harness.report(fence(&claimed), step("wäit", "1")).await.expect_err("it is recorded");
    assert_eq!(refused.code(), "idempotency_mismatch");
    // Its step carries its signals also after a later suspension has ended.
    harness.suspend(&claimed, vec![WaitDraft::new(Condition::operator())]).await;
    harness.resume(id).await;
    let later = harness.claim_again(id).await;
    assert_eq!(known_steps(&later), [("wäit", expected)]);
    assert!(later.signals.is_empty());
}

pub async fn the_step_of_a_wait_that_did_not_end_stays_open(harness: &Harness) {
    let waits = || vec![recorded_wait("left", on_signal("left")), recorded_wait("right", on_signal("right"))];
    let id = harness.suspended_for(waits()).await.execution.id;
    harness.signal(id, "right").await;
    let claimed = harness.claim_again(id).await;
    assert_eq!(claimed.steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["right"]);
    let left = harness.steps(id).await[0].clone();
    assert_eq!((left.name.as_str(), left.recorded_at), ("left", None), "claims carry only recorded steps");
    let refused =
        harness.report(fence(&claimed), step("left", "1")).await.expect_err("a wait has the step open");
    assert_eq!(refused.code(), "idempotency_mismatch");
    let sleep =
        WaitDraft { step: Some((name("left"), StepKind::Sleep)), ..WaitDraft::new(on_signal("left")) };
    let refused = harness.report(fence(&claimed), suspend(vec![sleep], vec![])).await;
    assert_eq!(refused.expect_err("it is another kind of step").code(), "idempotency_mismatch");
    harness
        .suspend(
            &claimed,
            vec![recorded_wait("third", on_signal("third")), recorded_wait("left", on_signal("left"))],
        )
        .await;
    let numbers: Vec<(u32, String)> =
        harness.steps(id).await.iter().map(|step| (step.number, step.name.to_string())).collect();
    assert_eq!(numbers, [(1, "left".into()), (2, "right".into()), (3, "third".into())]);
    assert_eq!(harness.steps(id).await[0], left, "it keeps its start");
    harness.signal(id, "left").await;
    let claimed = harness.claim_again(id).await;
    assert_eq!(claimed.steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["left", "right"]);
    assert_eq!(claimed.execution.detail.record.steps, 3);
}

pub async fn every_way_to_resume_records_the_step_of_the_wait(harness: &Harness) {
    let waits = |condition: Condition, ms: Option<i64>| {
        vec![WaitDraft { timeout_ms: ms, on_timeout: OnTimeout::Resume, ..recorded_wait("wait", condition) }]
    };
    for (way, by) in [
        ("time", ResumedBy::Condition),
        ("operator", ResumedBy::Condition),
        ("force", ResumedBy::Operator),
        ("timeout", ResumedBy::Timeout),
        ("at once", ResumedBy::Condition),
    ] {
        let claimed = harness.leased(Draft::new("kind")).await;
        let id = claimed.execution.id;
        let waits = match way {
            "time" => waits(Condition::until(When::AfterMs(1)), None),
            "operator" => waits(Condition::operator(), None),
            "at once" => waits(Condition::children(), None),
            _ => waits(on_signal("never"), Some(0)),
        };
        let reply = harness.suspend(&claimed, waits).await.state;
        match way {
            "time" => {
                harness.advance_past(1).await;
                harness.due(id, DueKind::Delay).await;
            }
            "timeout" => harness.due(id, DueKind::SuspensionTimeout).await,
            "at once" => assert_eq!(reply, StateName::Waiting),
            _ => drop(harness.resume(id).await),
        }
        let claimed = harness.claim_again(id).await;
        assert_eq!(claimed.steps.len(), 1, "{way}");
        let expected = format!(r#"{{"resumed_by":"{}","signals":[]}}"#, by.as_str());
        assert_eq!(result_of(&claimed.steps[0]), expected, "{way}");
        harness.complete(&claimed, b"1").await;
    }
}

pub async fn a_replay_restarts_the_waits_of_open_steps(harness: &Harness) {
    let wait = || {
        let timed = WaitDraft { timeout_ms: Some(3_600_000), ..recorded_wait("open", on_signal("go")) };
        vec![timed, recorded_wait("over", on_signal("over"))]
    };
    let id = harness.suspended_for(wait()).await.execution.id;
    harness.signal(id, "over").await;
    let claimed = harness.claim_again(id).await;
    harness.complete(&claimed, b"1").await;
    let begun = harness.steps(id).await[0].started_at;
    harness.advance_past(1).await;
    harness.operate(id, Action::Replay).await.expect("it is replayed");
    let replayed = harness.claim_again(id).await;
    assert_eq!(replayed.steps.iter().map(|step| step.name.as_str()).collect::<Vec<_>>(), ["over"]);
    assert!(replayed.signals.is_empty(), "its signals belong to the previous generation");
    harness.suspend(&replayed, wait()[..1].to_vec()).await;
    let restarted = harness.steps(id).await[0].clone();
    assert!(restarted.started_at > begun, "its time starts again");
    assert_eq!((restarted.number, restarted.attempt, restarted.recorded_at), (1, 2, None));
    assert_eq!(harness.waits(id).await[0].timeout_at, Some(restarted.started_at.plus_ms(3_600_000)));
    assert_eq!(harness.row(id).await.detail.record.steps, 2);
    assert_eq!(harness.signal(id, "go").await, Effect::Resumed);
    assert_eq!(harness.claim_again(id).await.steps.len(), 2);
}

pub async fn steps_beyond_the_limit_of_an_execution_are_refused(harness: &Harness) {
    let now = harness.now().await;
    let session = by_hand::session(harness, "one", 3_600_000, now);
    by_hand::put_sessions(harness, std::slice::from_ref(&session)).await;
    for record in [
        RecordSummary { steps: STEPS_MAX - 1, ..RecordSummary::default() },
        RecordSummary { steps: 1, bytes: RECORD_LIMIT - 1, ..RecordSummary::default() },
    ] {
        let class = harness.class("default", "kind").await;
        let detail = selvedge_core::execution::Detail { record, ..Default::default() };
        let row = selvedge_core::Execution { detail, ..by_hand::row(harness, class, now) };
        let row = by_hand::with_lease(row, &session, now);
        by_hand::insert(harness, std::slice::from_ref(&row)).await;
        let lease = selvedge_core::rules::report::Fence::of(&row).expect("it has a lease");
        harness.report(lease, step("last", "1")).await.expect("there is room for one more");
        let before = harness.row(row.id).await;
        let refused = harness.report(lease, step("more", "2")).await.expect_err("there is no more room");
        assert_eq!(refused.code(), "limit_reached");
        harness.report(lease, step("last", "1")).await.expect("a repeat needs no room");
        assert_eq!(harness.row(row.id).await, before);
    }
}
