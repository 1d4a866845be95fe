//! Plans of schedules: times that are due, missed, delayed by jitter and queued.

use super::*;
use times::INTERVAL_MS;

const HOUR_MS: i64 = 3600 * 1000;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + ms)
}

fn schedule(interval_ms: i64) -> Schedule {
    let spec = ScheduleSpec {
        timing: Timing::Interval { interval_ms },
        submit: Template::Execution(Box::new(Draft::new("k"))),
        submit_text: None,
        overlap: Overlap::Allow,
        catch_up: CatchUp::None,
        jitter_ms: 0,
        paused: false,
    };
    let state = ScheduleState { anchor: at(0), position: at(0), ..ScheduleState::default() };
    let name = ScheduleName { namespace: NamespaceId(1), name: Name::trusted("s") };
    Schedule { name, version: 1, spec_version: 1, spec: spec.into(), state, due_at: None }
}

fn with(change: impl FnOnce(&mut ScheduleSpec), schedule: Schedule) -> Schedule {
    let mut spec = (*schedule.spec).clone();
    change(&mut spec);
    Schedule { spec: spec.into(), ..schedule }
}

#[test]
fn times_within_the_grace_fire_whatever_the_policy() {
    for catch_up in CatchUp::ALL {
        let schedule = with(|spec| spec.catch_up = catch_up, schedule(10_000));
        assert_eq!(schedule.plan(at(9_999), 100).due, []);
        assert_eq!(schedule.plan(at(10_000), 100).due, [at(10_000)]);
        let due: Vec<Timestamp> = (1..=5).map(|n| at(n * 10_000)).collect();
        assert_eq!(schedule.plan(at(55_000), 100).due, due, "{catch_up:?}");
        assert_eq!(schedule.plan(at(55_000), 2).due, due[..2]);
    }
}

#[test]
fn a_server_that_slept_a_day_catches_up_as_the_policy_says() {
    let now = at(24 * HOUR_MS + 30 * 60_000);
    let plan = |catch_up| with(|spec| spec.catch_up = catch_up, schedule(HOUR_MS)).plan(now, 100);
    assert_eq!(plan(CatchUp::None).due, []);
    assert_eq!(plan(CatchUp::None).position, at(24 * HOUR_MS), "they are passed");
    assert_eq!(plan(CatchUp::One).due, [at(24 * HOUR_MS)]);
    let all: Vec<Timestamp> = (1..=24).map(|hour| at(hour * HOUR_MS)).collect();
    assert_eq!(plan(CatchUp::All).due, all);
}

#[test]
fn at_most_a_thousand_times_are_caught_up_with_and_these_are_the_newest() {
    let mut schedule = with(|spec| spec.catch_up = CatchUp::All, schedule(1000));
    let now = at(2_000_000 + GRACE_MS);
    let mut fired = Vec::new();
    loop {
        let plan = schedule.plan(now, 100);
        assert!(plan.due.len() <= TIMES_PER_TRANSACTION);
        schedule.state.position = plan.position;
        if plan.due.is_empty() {
            break;
        }
        fired.extend(plan.due);
    }
    // The last minute was not missed.
    assert_eq!(fired.len(), 1000 + 61);
    assert_eq!(fired.last(), Some(&now));
    assert!(fired.windows(2).all(|two| two[1].millis() - two[0].millis() == 1000));
}

#[test]
fn jitter_is_the_same_for_every_server_and_less_than_the_time_until_the_next_one() {
    let schedule = with(|spec| spec.jitter_ms = JITTER_MAX_MS, schedule(10_000));
    let times = schedule.times().expect("is valid");
    let delays: Vec<i64> = (1..200).map(|n| schedule.jitter_ms(&times, at(n * 10_000))).collect();
    assert!(delays.iter().all(|delay| (0..10_000).contains(delay)), "{delays:?}");
    assert!(delays.iter().any(|delay| *delay > 8000) && delays.iter().any(|delay| *delay < 2000));
    assert_eq!(delays[0], schedule.clone().jitter_ms(&times, at(10_000)));
    let fires = at(10_000 + delays[0]);
    assert_eq!(schedule.plan(Timestamp::from_micros(fires.micros() - 1), 100).due, []);
    assert_eq!(schedule.plan(fires, 100).due, [at(10_000)]);
}

#[test]
fn a_time_that_jitter_delays_for_hours_is_not_missed() {
    let daily = with(|spec| spec.jitter_ms = JITTER_MAX_MS, schedule(24 * HOUR_MS));
    let times = daily.times().expect("is valid");
    for day in 1..50 {
        let time = at(day * 24 * HOUR_MS);
        let mut daily = daily.clone();
        daily.state.position = at((day - 1) * 24 * HOUR_MS);
        let fires = time.plus_ms(daily.jitter_ms(&times, time));
        assert_eq!(daily.plan(fires.plus_ms(GRACE_MS), 100).due, [time]);
        assert_eq!(daily.plan(fires.plus_ms(GRACE_MS + 1), 100).due, []);
    }
}

#[test]
fn a_clock_that_stepped_back_finds_nothing_to_do() {
    let mut schedule = schedule(10_000);
    schedule.state.position = at(100_000);
    assert_eq!(schedule.plan(at(50_000), 100), Plan { position: at(100_000), ..Plan::default() });
    schedule.set_due(at(50_000));
    assert_eq!(schedule.due_at, Some(at(110_000)));
}

#[test]
fn a_paused_schedule_is_never_due_but_shows_its_next_times() {
    let mut paused = with(|spec| spec.paused = true, schedule(10_000));
    paused.set_due(at(5));
    assert_eq!((paused.due_at, paused.plan(at(60_000), 100).due), (None, vec![]));
    assert_eq!(paused.next_times(at(5), 2), [at(10_000), at(20_000)]);
}

#[test]
fn a_queue_is_looked_at_less_often_the_longer_the_run_takes() {
    let mut schedule = with(|spec| spec.overlap = Overlap::Queue, schedule(*INTERVAL_MS.end()));
    let subject = RunSubject::Execution(ExecutionId(Uuid::from_u128(1)));
    schedule.state.queue = vec![at(0)];
    schedule.set_due(at(1));
    assert_eq!(schedule.due_at, Some(at(1)), "nothing lives");
    schedule.state.live = vec![(subject, at(0))];
    for (now, due) in [(1, 1001), (80_000, 90_000), (HOUR_MS, HOUR_MS + 30_000)] {
        schedule.set_due(at(now));
        assert_eq!(schedule.due_at, Some(at(due)));
    }
    assert_eq!(schedule.plan(at(2), 100).starts, [at(0)]);
}

#[test]
fn ids_of_runs_differ_by_namespace_name_time_and_node() {
    let name =
        |namespace, name: &str| ScheduleName { namespace: NamespaceId(namespace), name: Name::trusted(name) };
    let id = run_id(&name(1, "a"), at(0));
    assert_eq!(id, run_id(&name(1, "a"), at(0)));
    assert_eq!(id.get_version_num(), 8);
    for other in [run_id(&name(2, "a"), at(0)), run_id(&name(1, "b"), at(0)), run_id(&name(1, "a"), at(1))] {
        assert_ne!(id, other);
    }
    assert_ne!(node_id(id, 0), node_id(id, 1));
}

#[test]
fn only_the_last_runs_are_kept_and_all_are_counted() {
    let mut schedule = schedule(1000);
    for n in 0..50 {
        let result = match n % 3 {
            0 => RunResult::Started(RunSubject::Execution(ExecutionId(Uuid::from_u128(n)))),
            1 => RunResult::Skipped,
            _ => RunResult::Refused { code: "unknown_budget".into(), detail: "no".into() },
        };
        schedule.add_run(Run { at: at(n as i64), decided_at: at(n as i64), manual: false, result });
    }
    let ScheduleState { runs, live, fired, skipped, refused, .. } = &schedule.state;
    assert_eq!((runs.len(), live.len(), *fired, *skipped, *refused), (RUNS_MAX, 17, 17, 17, 16));
    assert_eq!(runs.last().map(|run| run.at), Some(at(49)));
}
