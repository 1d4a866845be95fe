//! Schedules: saved, read, run, paused and removed through the namespace.

use super::{ManualClockEnv, engine, wait_for_end};
use selvedge::schedules::{CatchUp, Overlap, ScheduleRunResult, ScheduleSettings, ScheduledId};
use selvedge::{Context, Error, Flow, Outcome, Submission, Worker};
use serde_json::{Value, json};
use std::time::Duration;

fn report() -> Submission {
    Submission::new("report").input(&json!({"region": "Europe"})).expect("valid JSON").tag("team", "blue")
}

#[tokio::test]
async fn a_schedule_is_read_as_it_was_saved() {
    let (engine, namespace) = engine().await;
    let nightly = ScheduleSettings::cron("30 2 * * *", report())
        .time_zone("Europe/Berlin")
        .overlap(Overlap::Skip)
        .catch_up(CatchUp::One)
        .jitter(Duration::from_secs(5));
    let saved = namespace.set_schedule("nightly", nightly).await.expect("the schedule is saved");
    assert_eq!(namespace.schedule("nightly").await.expect("the schedule is read"), saved);
    assert_eq!((saved.name.as_str(), saved.cron.as_deref()), ("nightly", Some("30 2 * * *")));
    assert_eq!((saved.time_zone.as_deref(), saved.interval), (Some("Europe/Berlin"), None));
    assert_eq!((saved.overlap, saved.catch_up), (Overlap::Skip, CatchUp::One));
    assert_eq!((saved.jitter, saved.paused, saved.fired), (Duration::from_secs(5), false, 0));
    let submit: Value =
        serde_json::from_slice(&saved.submit.expect("the work is shown")).expect("it is JSON");
    let expected =
        json!({"kind": "report", "lane": "default", "input": {"region": "Europe"}, "tags": {"team": "blue"}});
    assert_eq!(submit, json!({ "execution": expected }));
    let times = namespace.schedule_times("nightly", 3).await.expect("the times are read");
    assert_eq!((times.len(), times.first().copied()), (3, saved.next_at));

    let hourly = ScheduleSettings::every(Duration::from_secs(3600), "clean_up");
    let hourly = namespace.set_schedule("hourly", hourly).await.expect("the schedule is saved");
    assert_eq!((hourly.cron, hourly.interval), (None, Some(Duration::from_secs(3600))));
    engine.shutdown().await;
}

#[tokio::test]
async fn schedules_are_listed_by_name_page_by_page_and_removed() {
    let (engine, namespace) = engine().await;
    for name in ["b", "c", "a"] {
        let hourly = ScheduleSettings::every(Duration::from_secs(3600), "clean_up");
        namespace.set_schedule(name, hourly).await.expect("the schedule is saved");
    }
    let names = |page: &selvedge::Page<selvedge::schedules::Schedule>| -> Vec<String> {
        page.items.iter().map(|schedule| schedule.name.clone()).collect()
    };
    let first = namespace.schedules(None, 2).await.expect("the list is read");
    assert_eq!(names(&first), ["a", "b"]);
    let second = namespace.schedules(first.next_cursor.as_deref(), 2).await.expect("the list is read");
    assert_eq!((names(&second), second.next_cursor), (vec!["c".to_owned()], None));
    let wrong = namespace.schedules(Some("zz"), 2).await.expect_err("the cursor is refused");
    assert_eq!(wrong.code(), "invalid_cursor");

    namespace.remove_schedule("b").await.expect("the schedule is removed");
    assert!(matches!(namespace.schedule("b").await, Err(Error::NotFound(_))));
    assert!(matches!(namespace.remove_schedule("b").await, Err(Error::NotFound(_))));
    assert!(matches!(namespace.run_schedule("b").await, Err(Error::NotFound(_))));
    engine.shutdown().await;
}

#[tokio::test]
async fn a_schedule_runs_an_execution_or_a_flow_at_once() {
    let (engine, namespace) = engine().await;
    let worker = Worker::new(namespace.clone(), "w")
        .handler("report", |ctx: Context| async move { ctx.input::<Value>() })
        .start()
        .expect("the worker starts");
    let nightly = ScheduleSettings::cron("0 2 * * *", report());
    namespace.set_schedule("one", nightly).await.expect("the schedule is saved");
    let run = namespace.run_schedule("one").await.expect("the schedule runs");
    let id = run.execution().expect("it submits an execution");
    assert_eq!(wait_for_end(&namespace, id).await, (Outcome::Completed, json!({"region": "Europe"})));

    let flow = Flow::new().name("two").node("a", report()).node("b", report()).after("b", ["a"]);
    namespace.set_schedule("two", ScheduleSettings::cron("0 2 * * *", flow)).await.expect("it is saved");
    let run = namespace.run_schedule("two").await.expect("the schedule runs");
    let flow = run.flow().expect("it submits a flow");
    let ended = namespace.flow_result(flow, super::TIMEOUT).await.expect("the result is read");
    assert_eq!(
        ended.expect("the flow ends").of::<Value>("b").expect("a result"),
        json!({"region": "Europe"})
    );

    let runs = namespace.schedule_runs("two").await.expect("the runs are read");
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].result, ScheduleRunResult::Started(ScheduledId::Flow(flow)));
    assert!(runs[0].manual);
    assert_eq!(runs[0].state.as_deref(), Some("completed"));
    assert_eq!(namespace.schedule("two").await.expect("it is read").fired, 1);
    worker.drain().await;
    engine.shutdown().await;
}

#[tokio::test]
async fn a_paused_schedule_fires_nothing_until_it_is_resumed() {
    let env = ManualClockEnv::new().await;
    let hour = Duration::from_secs(3600);
    let hourly = ScheduleSettings::every(hour, "clean_up");
    env.namespace.set_schedule("hourly", hourly).await.expect("the schedule is saved");
    let fired_after_an_hour = async || {
        env.clock.advance_ms(hour.as_millis() as i64);
        env.engine.tick("schedule").await.expect("the reconciler runs");
        env.namespace.schedule("hourly").await.expect("the schedule is read").fired
    };
    assert_eq!(fired_after_an_hour().await, 1);
    let paused = env.namespace.pause_schedule("hourly").await.expect("the schedule is paused");
    assert_eq!((paused.paused, paused.next_at), (true, None));
    assert_eq!(fired_after_an_hour().await, 1);
    assert!(!env.namespace.resume_schedule("hourly").await.expect("the schedule is resumed").paused);
    assert_eq!(fired_after_an_hour().await, 2);
    let runs = env.namespace.schedule_runs("hourly").await.expect("the runs are read");
    assert!(runs.iter().all(|run| !run.manual && run.state.as_deref() == Some("waiting")), "{runs:?}");
    env.engine.shutdown().await;
}

#[tokio::test]
async fn wrong_settings_of_a_schedule_are_refused_with_their_field() {
    let (engine, namespace) = engine().await;
    let pointer = async |settings: ScheduleSettings| match namespace.set_schedule("wrong", settings).await {
        Err(Error::Invalid(refusal)) => refusal.pointer.unwrap_or_default(),
        other => panic!("expected a refusal, got {other:?}"),
    };
    assert_eq!(pointer(ScheduleSettings::cron("61 * * * *", "k")).await, "/cron");
    assert_eq!(pointer(ScheduleSettings::cron("0 2 * * *", "k").time_zone("Mars/Base")).await, "/time_zone");
    assert_eq!(pointer(ScheduleSettings::every(Duration::ZERO, "k")).await, "/interval_ms");
    let keyed = Submission::new("k").idempotency_key("once");
    assert_eq!(
        pointer(ScheduleSettings::cron("0 2 * * *", keyed)).await,
        "/submit/execution/idempotency_key"
    );
    engine.shutdown().await;
}

over_http_too! {
    a_schedule_is_read_as_it_was_saved,
    schedules_are_listed_by_name_page_by_page_and_removed,
    a_schedule_runs_an_execution_or_a_flow_at_once,
    a_paused_schedule_fires_nothing_until_it_is_resumed,
    wrong_settings_of_a_schedule_are_refused_with_their_field,
}
