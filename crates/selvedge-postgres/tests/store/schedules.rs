//! Schedules on several servers, and many of them.

use selvedge_engine::core::Draft;
use selvedge_engine::core::schedule::times::Timing;
use selvedge_engine::core::schedule::{CatchUp, Overlap, ScheduleSpec, Template};
use selvedge_engine::{Engine, Options, SampleValue};
use selvedge_system_tests::server::operator;
use selvedge_system_tests::{LONG, Sandbox, stop, wait_until};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

fn every_second(kind: &str) -> ScheduleSpec {
    ScheduleSpec {
        timing: Timing::Interval { interval_ms: 1000 },
        submit: Template::Execution(Box::new(Draft::new(kind))),
        submit_text: None,
        overlap: Overlap::Allow,
        catch_up: CatchUp::All,
        jitter_ms: 0,
        paused: false,
    }
}

#[tokio::test]
async fn four_servers_fire_every_time_once() {
    let sandbox = Sandbox::new();
    let mut servers = Vec::new();
    for who in ["one", "two", "three", "four"] {
        servers.push(sandbox.server_with(who, Options::default()).await);
    }
    for number in 0..20 {
        let namespace = &servers[number % 4].namespace;
        let saved =
            namespace.save_schedule(&format!("s{number}"), every_second("k"), None, &operator()).await;
        saved.expect("it is saved").expect("it is new");
    }
    let plain = sandbox.plain().await;
    let executions = "select count(*) from executions";
    wait_until("every schedule has fired", async || plain.number(executions, &[]).await >= 100).await;
    for number in 0..20 {
        let spec = ScheduleSpec { paused: true, ..every_second("k") };
        let saved = servers[0].namespace.save_schedule(&format!("s{number}"), spec, None, &operator()).await;
        saved.expect("it is paused").expect("it is paused");
    }
    let (mut fired, mut runs) = (0, 0);
    for number in 0..20 {
        let schedule = servers[1].namespace.schedule(&format!("s{number}")).await.expect("it exists");
        fired += schedule.state.fired;
        // Every interval has one run, without gap and without repetition.
        let times: Vec<i64> = schedule.state.runs.iter().map(|run| run.at.millis()).collect();
        assert!(times.windows(2).all(|two| two[1] - two[0] == 1000), "{times:?}");
        assert_eq!(times.iter().collect::<BTreeSet<_>>().len(), times.len());
        runs += times.len();
    }
    assert_eq!(plain.number(executions, &[]).await as u64, fired);
    assert!(runs >= 20);
    stop(servers.iter().map(|server| &server.engine)).await;
}

/// Replaces the clock of the database for the store, whose search path begins with the schema.
const TEST_CLOCK: &str = "
create table test_clock (at timestamptz not null);
insert into test_clock values (pg_catalog.clock_timestamp());
create function clock_timestamp() returns timestamptz language sql volatile as 'select at from {schema}.test_clock';
";

#[tokio::test]
async fn a_clock_that_steps_back_fires_no_time_again_and_each_later_time_once() {
    let sandbox = Sandbox::new();
    sandbox.store("first").await;
    let plain = sandbox.plain().await;
    plain.run(&TEST_CLOCK.replace("{schema}", &sandbox.schema)).await;
    let begun = "select (extract(epoch from at) * 1000)::bigint from test_clock";
    let begun = plain.number(begun, &[]).await;
    let server = sandbox.server("server").await;
    let every_minute = ScheduleSpec { timing: Timing::Interval { interval_ms: 60_000 }, ..every_second("k") };
    let save = async |name: &str| {
        let saved = server.namespace.save_schedule(name, every_minute.clone(), None, &operator()).await;
        saved.expect("it is saved").expect("it is saved");
    };
    // Sets the clock to a number of minutes after the beginning, and fires on a server that has seen later times and on a
    // new one.
    let fire_at = async |minutes: i64| {
        let text = "update test_clock set at = to_timestamp(($1::bigint + $2::bigint * 60000) / 1000.0)";
        plain.execute(text, &[&begun, &minutes]).await.expect("the clock is set");
        let fresh = sandbox.server("fresh").await;
        for server in [&server, &fresh] {
            server.tick("schedule").await;
        }
        stop([&fresh.engine]).await;
    };
    let fired = async |name: &str| server.namespace.schedule(name).await.expect("it exists").state.fired;
    save("old").await;
    fire_at(5).await;
    assert_eq!(fired("old").await, 5);
    fire_at(2).await;
    assert_eq!(fired("old").await, 5, "no time fires again");
    save("old").await;
    save("new").await;
    fire_at(4).await;
    assert_eq!(
        (fired("old").await, fired("new").await),
        (5, 2),
        "the position does not go back with the clock"
    );
    fire_at(7).await;
    assert_eq!((fired("old").await, fired("new").await), (7, 5), "each later time fires");
    fire_at(3).await;
    fire_at(7).await;
    assert_eq!((fired("old").await, fired("new").await), (7, 5));
    assert_eq!(plain.number("select count(*) from executions", &[]).await, 12);
    for name in ["old", "new"] {
        let schedule = server.namespace.schedule(name).await.expect("it exists");
        let times: Vec<i64> = schedule.state.runs.iter().map(|run| run.at.millis()).collect();
        assert!(times.windows(2).all(|two| two[1] - two[0] == 60_000), "{times:?}");
    }
    stop([&server.engine]).await;
}

/// Returns the number of calls of the store so far.
async fn store_calls(engine: &Engine) -> f64 {
    let families = engine.metrics().await;
    let calls = families.iter().find(|family| family.name == "store_calls_total").expect("calls are counted");
    let number = |value: &SampleValue| match value {
        SampleValue::Number(number) => *number,
        SampleValue::Distribution(_) => 0.0,
    };
    calls.samples.iter().map(|sample| number(&sample.value)).sum()
}

/// Waits until the idle engine has made a few more calls. Returns how many of them it makes per second.
async fn more_store_calls(engine: &Engine) -> f64 {
    let (before, begun) = (store_calls(engine).await, Instant::now());
    let calls = async || store_calls(engine).await - before;
    wait_until("the reconcilers have asked the store", async || calls().await >= 5.0).await;
    calls().await / begun.elapsed().as_secs_f64()
}

/// Prints the figures of docs/benchmarks.md; run it with `--nocapture` on a quiet machine.
#[tokio::test]
async fn slow_a_thousand_of_a_hundred_thousand_schedules_fire_in_time() {
    let sandbox = Sandbox::new();
    let server = sandbox.server_with("one", Options::default()).await;
    let spec = ScheduleSpec { timing: Timing::Interval { interval_ms: 3_600_000 }, ..every_second("k") };
    let first = server.namespace.save_schedule("first", spec, None, &operator()).await;
    let first = first.expect("it is saved").expect("it is new").0;
    let plain = sandbox.plain().await;
    plain
        .run(
            "insert into schedules
             select namespace, 'many' || n, version, spec_version, spec, state, due_at + n * interval '1 second'
             from schedules, generate_series(1, 100000) as n
             where name = 'first'; analyze schedules;",
        )
        .await;
    // The first calls, with the complete overview and those for metrics, are left out.
    more_store_calls(&server.engine).await;
    let idle = more_store_calls(&server.engine).await;
    // A thousand of them are due in one second, as if their interval had passed.
    plain
        .run(
            "update schedules
             set due_at = now() + interval '1 second',
               state = jsonb_set(
                 jsonb_set(state::jsonb, '{anchor}', to_jsonb((extract(epoch from now()) * 1000000)::bigint - 3599000000)),
                 '{position}', to_jsonb((extract(epoch from now()) * 1000000)::bigint - 3599000000)
               )::text
             where name ~ '^many[0-9]{1,3}$' or name = 'many1000'",
        )
        .await;
    let due = Instant::now() + Duration::from_secs(1);
    let fired = "select count(*) from executions";
    wait_until("a thousand have fired", async || plain.number(fired, &[]).await >= 1000).await;
    let took = Instant::now().saturating_duration_since(due);
    println!("100 000 schedules: {idle:.1} store calls/s idle; 1000 fired {took:?} after they were due");
    assert!(idle <= 10.0, "{idle} calls per second");
    assert!(took < LONG, "{took:?}");
    assert_eq!(plain.number(fired, &[]).await, 1000);
    assert_eq!(first.state.fired, 0);
    stop([&server.engine]).await;
}
