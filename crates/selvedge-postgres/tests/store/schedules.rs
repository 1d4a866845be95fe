//! Schedules on several servers, and many of them.

use crate::support::server::operator;
use crate::support::{LONG, Sandbox, stop, wait_until};
use selvedge_engine::core::Draft;
use selvedge_engine::core::schedule::times::Timing;
use selvedge_engine::core::schedule::{CatchUp, Overlap, ScheduleSpec, Template};
use selvedge_engine::{Engine, Options, SampleValue};
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
    // Calls of the first seconds, with the complete overview and the calls for metrics, are left out.
    store_calls(&server.engine).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (before, begun) = (store_calls(&server.engine).await, Instant::now());
    tokio::time::sleep(Duration::from_secs(10)).await;
    let idle = (store_calls(&server.engine).await - before) / begun.elapsed().as_secs_f64();
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
