//! Schedules: read back as they were written, found when they are due, and fired once.

use crate::harness::schedules::every;
use crate::harness::signals::name;
use crate::harness::{Harness, Sketch, concurrently};
use bytes::Bytes;
use selvedge_core::fact::Fact;
use selvedge_core::rules::CallKey;
use selvedge_core::rules::keyed::Keyed;
use selvedge_core::rules::schedule::{
    DeleteSchedule, FireReply, RunSchedule, SaveReply, SaveSchedule, WakeSchedule,
};
use selvedge_core::schedule::times::Timing;
use selvedge_core::schedule::{
    CatchUp, Overlap, Run, RunResult, RunSubject, Schedule, ScheduleSpec, Template, run_id,
};
use selvedge_core::{Draft, ExecutionId, FlowId, Timestamp};
use selvedge_store::ReconcilerScope;
use std::sync::Arc;
use uuid::Uuid;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;

/// Returns the executions that a schedule has started, oldest first.
fn started(schedule: &Schedule) -> Vec<ExecutionId> {
    let execution = |run: &Run| match run.result {
        RunResult::Started(RunSubject::Execution(id)) => Some(id),
        _ => None,
    };
    schedule.state.runs.iter().filter_map(execution).collect()
}

async fn due_names(harness: &Harness) -> Vec<String> {
    let due = harness.store.due_schedules(&ReconcilerScope::default(), None, 100).await;
    due.expect("schedules are read").schedules.iter().map(|one| one.name.name.to_string()).collect()
}

pub async fn a_schedule_is_read_back_with_every_field(harness: &Harness) {
    let draft = Draft {
        input: Bytes::from_static(b"{\"a\" : 1.50,\n\"b\":\"\\u0000\"}"),
        tags: [("a\"b".into(), "é".into())].into(),
        unique_while_active: Some("u".into()),
        gives_retention: false,
        ..Draft::new("k")
    };
    let spec = ScheduleSpec {
        timing: Timing::Cron { expression: "*/5 * * * mon".into(), time_zone: "Europe/Berlin".into() },
        submit_text: Some("{ \"execution\": { } }".into()),
        overlap: Overlap::Queue,
        catch_up: CatchUp::All,
        jitter_ms: 17,
        ..every(1000, draft)
    };
    let saved = harness.save_schedule("a \"b\" é", spec.clone()).await;
    assert_eq!((saved.version, saved.spec_version, &*saved.spec), (1, 1, &spec));
    assert_eq!(harness.schedule("a \"b\" é").await, saved);
    let flow = Template::Flow(Box::new(Sketch::from("a b! -> c: any_of").0));
    let paused = ScheduleSpec { submit: flow, paused: true, ..spec };
    let saved = harness.save_schedule("a \"b\" é", paused).await;
    assert_eq!((saved.version, saved.spec_version, saved.due_at), (2, 2, None));
    assert_eq!(harness.schedule("a \"b\" é").await, saved);
    let unknown = harness.store.schedule(&harness.schedule_name("x")).await;
    assert_eq!(unknown.expect("schedules are read"), None);
    assert_eq!(
        harness.store.overview().await.expect("it is read").due.of::<Schedule>(),
        None,
        "it is paused"
    );
}

pub async fn schedules_are_listed_by_name_and_namespace(harness: &Harness) {
    let other = harness.in_namespace("other").await;
    for text in ["b", "a", "c"] {
        harness.save_schedule(text, every(HOUR_MS, Draft::new("k"))).await;
    }
    other.save_schedule("b", every(HOUR_MS, Draft::new("k"))).await;
    let page = async |after: Option<&str>, limit| {
        let after = after.map(name);
        let found = harness.store.schedules(harness.namespace, after.as_ref(), limit).await;
        let found = found.expect("schedules are read");
        found.iter().map(|one| one.name.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 2).await, ["a", "b"]);
    assert_eq!(page(Some("b"), 2).await, ["c"]);
    let delete = DeleteSchedule { name: harness.schedule_name("b"), actor: name("operator") };
    harness.run(delete.clone()).await.expect("it is deleted");
    assert_eq!(harness.run(delete).await.expect_err("it is gone").code(), "not_found");
    assert_eq!(page(None, 9).await, ["a", "c"]);
    assert_eq!(other.schedule("b").await.version, 1);
}

pub async fn due_schedules_are_found_by_time_page_and_scope(harness: &Harness) {
    let other = harness.in_namespace("other").await;
    harness.save_schedule("late", every(HOUR_MS, Draft::new("k"))).await;
    for (harness, text) in [(harness, "b"), (&other, "c"), (harness, "a")] {
        harness.save_schedule(text, every(1000, Draft::new("k"))).await;
    }
    let first = harness.schedule("b").await.due_at.expect("it is due some time");
    assert_eq!(harness.store.overview().await.expect("it is read").due.of::<Schedule>(), Some(first));
    assert_eq!(due_names(harness).await, Vec::<String>::new());
    harness.advance_past(1100).await;
    let mut names = due_names(harness).await;
    names.sort();
    assert_eq!(names, ["a", "b", "c"]);
    let scope = ReconcilerScope { namespace: Some(other.namespace), ..ReconcilerScope::default() };
    let found = harness.store.due_schedules(&scope, None, 9).await.expect("schedules are read");
    assert_eq!(found.schedules.iter().map(|one| &*one.name.name).collect::<Vec<_>>(), ["c"]);
    assert!(found.now >= first);
    let mut paged = Vec::new();
    let mut after = None;
    loop {
        let page = harness.store.due_schedules(&ReconcilerScope::default(), after, 1).await;
        let Some(one) = page.expect("schedules are read").schedules.pop() else { break };
        paged.push(one.name.name.to_string());
        after = one.due_at.map(|at| (at, one.name));
    }
    assert_eq!(paged, due_names(harness).await);
    assert_eq!(harness.fire("b", found.now).await, FireReply::Decided(1));
    assert!(!due_names(harness).await.contains(&"b".to_owned()));
}

pub async fn a_time_is_fired_once_by_any_number_of_servers(harness: &Harness) {
    let saved = harness.save_schedule("s", every(HOUR_MS, Draft::new("k"))).await;
    let upto = saved.due_at.expect("it is due some time");
    let (shared, schedule) = (harness.clone(), saved.clone());
    let replies = concurrently(8, move |_| {
        let (server, schedule) = (shared.another_process(), schedule.clone());
        async move { server.run(server.fire_command(&schedule, upto).await).await }
    })
    .await;
    let decided = replies.iter().filter(|reply| **reply == FireReply::Decided(1)).count();
    let late = replies.iter().filter(|reply| **reply == FireReply::NotDue).count();
    assert_eq!((decided, late), (1, 7), "{replies:?}");
    let fired = harness.schedule("s").await;
    assert_eq!((fired.state.fired, fired.state.position), (1, upto));
    assert_eq!(started(&fired), [ExecutionId(run_id(&fired.name, upto))]);
    assert_eq!(harness.claim(9).await.len(), 1);
    let log = harness.log().await;
    let entry = log
        .iter()
        .find(|(_, events)| events.iter().any(|event| matches!(event.fact, Fact::ScheduleFired { .. })));
    let (_, events) = entry.expect("the firing is in the log");
    assert!(
        events.iter().any(|event| matches!(event.fact, Fact::Submitted { .. })),
        "firing and submission are one transaction"
    );
}

pub async fn a_fired_execution_carries_its_schedule_and_its_input_byte_for_byte(harness: &Harness) {
    let input = Bytes::from_static(b"{\"a\" : 1.50}");
    let draft = Draft { input: input.clone(), priority: 7, ..Draft::new("k") };
    let saved = harness.save_schedule("s", every(HOUR_MS, draft)).await;
    let upto = saved.due_at.expect("it is due some time");
    assert_eq!(harness.fire("s", upto).await, FireReply::Decided(1));
    let stored = harness.stored(started(&harness.schedule("s").await)[0]).await;
    let scheduled = stored.execution.spec.scheduled.clone().expect("it was scheduled");
    assert_eq!((scheduled.schedule, scheduled.at), (name("s"), upto));
    assert_eq!((stored.input, stored.execution.priority), (input, 7));
    let plain = harness.submit(Draft::new("k")).await;
    assert_eq!(plain.spec.scheduled, None);
}

pub async fn a_fired_flow_and_its_members_carry_their_schedule(harness: &Harness) {
    let spec = ScheduleSpec {
        submit: Template::Flow(Box::new(Sketch::from("a -> b").0)),
        ..every(HOUR_MS, Draft::new("k"))
    };
    let saved = harness.save_schedule("s", spec).await;
    let first = saved.due_at.expect("it is due some time");
    for at in [first, first.plus_ms(HOUR_MS)] {
        assert_eq!(harness.fire("s", at).await, FireReply::Decided(1));
        let id = FlowId(run_id(&saved.name, at));
        let flow = harness.store.fetch_flows(&[id]).await.expect("flows are read").remove(0);
        let scheduled = flow.spec.scheduled.expect("it was scheduled");
        assert_eq!((scheduled.schedule, scheduled.at, flow.counts.total()), (name("s"), at, 2));
    }
    let claimed = harness.claim(9).await;
    assert_eq!(claimed.len(), 2, "the roots of both flows");
    assert!(claimed.iter().all(|one| one.execution.spec.scheduled.is_some()));
}

pub async fn a_server_that_slept_for_a_day_catches_up_as_the_policy_says(harness: &Harness) {
    for (catch_up, expected) in [(CatchUp::None, 0), (CatchUp::One, 1), (CatchUp::All, 24)] {
        let spec = ScheduleSpec { catch_up, ..every(HOUR_MS, Draft::new("k")) };
        let text = catch_up.as_str();
        let saved = harness.save_schedule(text, spec).await;
        let upto = saved.state.position.plus_ms(24 * HOUR_MS + 2 * MINUTE_MS);
        assert_eq!(harness.fire(text, upto).await, FireReply::Decided(expected));
        assert_eq!(harness.fire(text, upto).await, FireReply::NotDue);
        let fired = harness.schedule(text).await;
        assert_eq!(fired.state.position, saved.state.position.plus_ms(24 * HOUR_MS));
        assert_eq!(fired.due_at, Some(saved.state.position.plus_ms(25 * HOUR_MS)));
    }
    assert_eq!(harness.claim(100).await.len(), 25);
}

pub async fn many_missed_times_are_caught_up_with_in_bounded_transactions(harness: &Harness) {
    let spec = ScheduleSpec { catch_up: CatchUp::All, ..every(MINUTE_MS, Draft::new("k")) };
    let saved = harness.save_schedule("s", spec).await;
    let upto = saved.state.position.plus_ms(250 * MINUTE_MS);
    let mut fired = 0;
    let mut schedule = saved;
    // Until it has caught up, it is due at once.
    while schedule.due_at.is_some_and(|at| at <= upto) {
        let FireReply::Decided(started) = harness.fire("s", upto).await else { panic!("it is due") };
        assert!((1..=100).contains(&started), "{started}");
        fired += started;
        schedule = harness.schedule("s").await;
    }
    assert_eq!((fired, schedule.state.fired), (250, 250));
    assert_eq!(harness.claim(1000).await.len(), 250);
}

pub async fn a_time_is_skipped_while_a_run_lives(harness: &Harness) {
    let spec = ScheduleSpec { overlap: Overlap::Skip, ..every(HOUR_MS, Draft::new("k")) };
    let first = harness.save_schedule("s", spec).await.due_at.expect("it is due some time");
    assert_eq!(harness.fire("s", first).await, FireReply::Decided(1));
    assert_eq!(harness.fire("s", first.plus_ms(HOUR_MS)).await, FireReply::Decided(0));
    let skipped = harness.schedule("s").await;
    assert_eq!((skipped.state.fired, skipped.state.skipped), (1, 1));
    assert_eq!(skipped.state.runs[1].result, RunResult::Skipped);
    let claimed = harness.claim(9).await;
    harness.complete(&claimed[0], b"1").await;
    assert_eq!(harness.fire("s", first.plus_ms(2 * HOUR_MS)).await, FireReply::Decided(1));
    let facts = harness.log().await;
    let skips = facts.iter().flat_map(|(_, events)| events);
    let skips = skips.filter(|event| matches!(event.fact, Fact::ScheduleSkipped { .. })).count();
    assert_eq!(skips, 1);
}

pub async fn times_wait_for_the_end_of_the_run_before_in_order(harness: &Harness) {
    let spec = ScheduleSpec { overlap: Overlap::Queue, ..every(HOUR_MS, Draft::new("k")) };
    let first = harness.save_schedule("s", spec).await.due_at.expect("it is due some time");
    let at = |hours: i64| first.plus_ms(hours * HOUR_MS);
    assert_eq!(harness.fire("s", at(0)).await, FireReply::Decided(1));
    assert_eq!(harness.fire("s", at(1)).await, FireReply::Decided(0));
    assert_eq!(harness.fire("s", at(2)).await, FireReply::Decided(0));
    let waiting = harness.schedule("s").await;
    assert_eq!(waiting.state.queue, [at(1), at(2)]);
    let look_at = waiting.due_at.expect("its end is looked for");
    assert!(look_at < at(2), "long before the next time");
    for hours in [1, 2] {
        let claimed = harness.claim(9).await;
        assert_eq!(claimed.len(), 1);
        assert_eq!(harness.fire("s", at(2)).await, FireReply::Decided(0), "it still lives");
        harness.complete(&claimed[0], b"1").await;
        harness.run(WakeSchedule { name: waiting.name.clone() }).await;
        assert!(due_names(harness).await.contains(&"s".to_owned()), "it is due at once");
        let now = harness.now().await;
        assert_eq!(harness.fire("s", now).await, FireReply::Decided(1));
        assert_eq!(harness.schedule("s").await.state.runs.last().map(|run| run.at), Some(at(hours)));
    }
    assert_eq!(harness.schedule("s").await.state.queue, []);
}

pub async fn at_most_a_hundred_times_wait_and_these_are_the_oldest(harness: &Harness) {
    let spec =
        ScheduleSpec { overlap: Overlap::Queue, catch_up: CatchUp::All, ..every(HOUR_MS, Draft::new("k")) };
    let first = harness.save_schedule("s", spec).await.due_at.expect("it is due some time");
    let last = first.plus_ms(149 * HOUR_MS);
    for _ in 0..4 {
        harness.fire("s", last).await;
    }
    let schedule = harness.schedule("s").await;
    assert_eq!((schedule.state.fired, schedule.state.queue.len()), (1, 100));
    assert_eq!(schedule.state.skipped, 49);
    assert_eq!(schedule.state.queue[0], first.plus_ms(HOUR_MS));
}

pub async fn a_refused_submission_is_recorded_and_the_schedule_goes_on(harness: &Harness) {
    let mut draft = Draft::new("k");
    draft.required_gates.quotas = vec![name("none")];
    let first = harness.save_schedule("s", every(HOUR_MS, draft)).await.due_at.expect("it is due");
    for hour in 0..2 {
        assert_eq!(harness.fire("s", first.plus_ms(hour * HOUR_MS)).await, FireReply::Decided(0));
    }
    let schedule = harness.schedule("s").await;
    assert_eq!((schedule.state.refused, schedule.state.position), (2, first.plus_ms(HOUR_MS)));
    let RunResult::Refused { code, detail } = &schedule.state.runs[0].result else { panic!("it is refused") };
    assert_eq!(code, "unknown_quota");
    assert!(detail.contains("none"), "{detail}");
    let log = harness.log().await;
    let facts = log.iter().flat_map(|(_, events)| events).map(|event| &event.fact);
    assert_eq!(facts.filter(|fact| matches!(fact, Fact::ScheduleRefused { .. })).count(), 2);
}

pub async fn a_changed_schedule_is_not_fired_with_its_former_submission(harness: &Harness) {
    let saved = harness.save_schedule("s", every(HOUR_MS, Draft::new("old"))).await;
    let upto = saved.due_at.expect("it is due some time");
    let fire = harness.fire_command(&saved, upto).await;
    let changed = harness.save_schedule("s", every(HOUR_MS, Draft::new("new"))).await;
    assert_eq!(changed.state.position, saved.state.position, "its times did not change");
    assert_eq!(harness.run(fire.clone()).await, FireReply::Changed);
    assert_eq!(harness.fire("s", upto).await, FireReply::Decided(1));
    let delete = DeleteSchedule { name: saved.name, actor: name("operator") };
    harness.run(delete).await.expect("it is deleted");
    assert_eq!(harness.run(fire).await, FireReply::Changed);
}

pub async fn a_schedule_is_replaced_only_at_its_expected_version(harness: &Harness) {
    let spec = Arc::new(every(HOUR_MS, Draft::new("k")));
    let save = |expected_version| SaveSchedule {
        name: harness.schedule_name("s"),
        spec: spec.clone(),
        expected_version,
        actor: name("operator"),
    };
    assert_eq!(harness.run(save(Some(1))).await, SaveReply::Changed, "it does not exist");
    assert!(matches!(harness.run(save(None)).await, SaveReply::Saved { created: true, .. }));
    assert_eq!(harness.run(save(Some(2))).await, SaveReply::Changed);
    let (one, two) = tokio::join!(harness.run(save(Some(1))), harness.run(save(Some(1))));
    let saved = |reply: &SaveReply| matches!(reply, SaveReply::Saved { created: false, .. });
    assert_eq!([one, two].iter().filter(|reply| saved(reply)).count(), 1);
    assert_eq!(harness.schedule("s").await.version, 2);
}

pub async fn a_recreated_schedule_fires_no_time_again(harness: &Harness) {
    let spec = every(1000, Draft::new("k"));
    let saved = harness.save_schedule("s", spec.clone()).await;
    let first = saved.due_at.expect("it is due some time");
    assert_eq!(harness.fire("s", first).await, FireReply::Decided(1));
    let delete = DeleteSchedule { name: saved.name.clone(), actor: name("operator") };
    harness.run(delete).await.expect("it is deleted");
    // As after a clock that stepped back: the new one begins before the time that was fired.
    let mut again = harness.save_schedule("s", spec).await;
    let expected = again.version;
    (again.state.anchor, again.state.position) = (saved.state.anchor, saved.state.position);
    again.due_at = Some(first);
    again.version += 1;
    let mut changes = selvedge_core::Changes::default();
    changes.schedules.updated.push((again, expected));
    harness.save(changes).await;
    assert_eq!(harness.fire("s", first).await, FireReply::Decided(0));
    assert_eq!(harness.claim(9).await.len(), 1);
}

pub async fn a_run_at_once_is_made_once_per_key(harness: &Harness) {
    let spec = ScheduleSpec { paused: true, ..every(HOUR_MS, Draft::new("k")) };
    let saved = harness.save_schedule("s", spec).await;
    let prepared = harness.prepare(&saved.spec.submit).await.expect("it is valid");
    let run = |id: u128, name_of: &str| Keyed {
        call_key: Some(CallKey { key: name("key"), digest: 5 }),
        rule: RunSchedule {
            name: harness.schedule_name(name_of),
            prepared: prepared.clone(),
            id: Uuid::from_u128(id),
            at: Timestamp::from_millis(77),
            actor: name("operator"),
        },
        keeps_refusals: false,
    };
    let unknown = Keyed { call_key: None, ..run(9, "unknown") };
    assert_eq!(harness.run(unknown).await.expect_err("it does not exist").code(), "not_found");
    let first = harness.run(run(1, "s")).await.expect("it runs");
    let again = harness.run(run(2, "s")).await.expect("it is repeated");
    assert_eq!((first.done, first.duplicate), (again.done, false));
    assert!(again.duplicate);
    let claimed = harness.claim(9).await;
    let scheduled = claimed[0].execution.spec.scheduled.clone().expect("it was scheduled");
    assert_eq!((claimed.len(), scheduled.at), (1, Timestamp::from_millis(77)));
    let schedule = harness.schedule("s").await;
    assert_eq!((schedule.state.runs.len(), schedule.state.runs[0].manual), (1, true));
    assert_eq!(schedule.due_at, None, "it is still paused");
}

pub async fn a_resumed_schedule_does_not_catch_up_with_the_pause(harness: &Harness) {
    let spec = ScheduleSpec { catch_up: CatchUp::All, ..every(1000, Draft::new("k")) };
    let saved = harness.save_schedule("s", spec.clone()).await;
    harness.save_schedule("s", ScheduleSpec { paused: true, ..spec.clone() }).await;
    assert_eq!(harness.fire("s", saved.state.position.plus_ms(5000)).await, FireReply::NotDue);
    harness.advance_past(1100).await;
    let resumed = harness.save_schedule("s", spec).await;
    assert!(resumed.state.position.millis() >= saved.state.position.millis() + 1100);
    assert_eq!(resumed.state.anchor, saved.state.anchor, "the interval goes on");
    let due = resumed.due_at.expect("it is due some time");
    assert_eq!((due.millis() - saved.state.anchor.millis()) % 1000, 0);
}
