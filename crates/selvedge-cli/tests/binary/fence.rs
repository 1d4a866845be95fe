//! A server that the schema has passed does nothing more, and a database whose clock steps back is noticed.

use crate::metrics::get_text;
use crate::support::{Place, Postgres, Server, claim, command, get, post, start_call, submit};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The longest time that a test waits; nothing here takes as long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Asks until an answer is as wanted. Returns it.
fn wait_for(
    what: &str,
    mut ask: impl FnMut() -> (u16, Value),
    is_wanted: impl Fn(u16, &Value) -> bool,
) -> Value {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let (status, answer) = ask();
        if is_wanted(status, &answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "{what}: {status} {answer}");
    }
}

#[test]
fn a_server_that_is_too_old_for_the_schema_refuses_every_call_and_hands_out_nothing() {
    let place = Postgres::new();
    let server = Server::start(&place);
    let url = &server.url;
    let id = submit(url, json!({"kind": "k"}));
    let held = claim(url, "w", 1, 0).remove(0);
    submit(url, json!({"kind": "k"}));
    let waiting_claim = start_call(
        "POST",
        &format!("{url}/v1/workers/other/claim"),
        Some(
            &json!({"worker": "w", "lanes": ["empty"], "max": 1, "wait_ms": 60_000, "lease_ttl_ms": 60_000}),
        ),
    );
    // As a newer program does, when it migrates the schema.
    place.run("update selvedge.schema_version set version = 1000, minimum_reader = 1000");
    let readiness = wait_for("not ready", || get(&format!("{url}/readyz")), |status, _| status == 503);
    assert_eq!(readiness["code"], "store_unavailable");
    let detail = readiness["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("version 1000") && detail.contains("upgrade"), "{detail}");
    let refused = |(status, answer): (u16, Value)| {
        assert_eq!((status, &answer["code"]), (503, &json!("store_unavailable")), "{answer}");
        assert!(answer["detail"].as_str().is_some_and(|text| text.contains("too old")), "{answer}");
    };
    let op = json!({
        "op": "complete", "execution": held["execution"]["id"], "attempt": held["attempt"],
        "lease_id": held["lease"]["id"], "epoch": held["lease"]["epoch"], "result": 1,
    });
    let claim = json!({"worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 0, "lease_ttl_ms": 60_000});
    for _ in 0..2 {
        refused(post(&format!("{url}/v1/executions"), &json!({"kind": "k"})));
        refused(get(&format!("{url}/v1/executions/{id}")));
        refused(get(&format!("{url}/v1/executions")));
        refused(post(&format!("{url}/v1/workers/w/claim"), &claim));
        refused(post(&format!("{url}/v1/workers/w/report"), &json!({"ops": [op]})));
    }
    refused(waiting_claim.response());
    let log = server.stop_and_read_log();
    let told = log.lines().filter(|line| line.contains("too old") || line.contains("version 1000")).count();
    assert_eq!(told, 1, "{log}");
}

#[test]
fn a_server_that_is_too_old_is_refused_by_its_new_connections_too() {
    let place = Postgres::new();
    let server = Server::start(&place);
    submit(&server.url, json!({"kind": "k"}));
    // All connections end before the reconcilers could look.
    place.run(
        "update selvedge.schema_version set version = 1000, minimum_reader = 1000;
         select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()",
    );
    let (status, refused) = post(&format!("{}/v1/executions", server.url), &json!({"kind": "k"}));
    assert_eq!((status, &refused["code"]), (503, &json!("store_unavailable")), "{refused}");
    assert!(refused["detail"].as_str().is_some_and(|text| text.contains("too old")), "{refused}");
    // A schema that is newer but readable fences nobody.
    place.run("update selvedge.schema_version set minimum_reader = 1");
    let server = Server::start(&place);
    submit(&server.url, json!({"kind": "k"}));
}

#[test]
fn a_database_clock_that_steps_back_is_logged_counted_and_shown_while_work_goes_on() {
    let place = Postgres::new();
    drop(Server::start(&place));
    // The search path has the schema before the functions of the server.
    place.run(
        "create table selvedge.test_clock (behind interval not null);
         insert into selvedge.test_clock values ('0');
         create function selvedge.clock_timestamp() returns timestamptz language sql volatile as
           'select pg_catalog.clock_timestamp() - behind from selvedge.test_clock'",
    );
    let mut serve = command();
    serve.args(["serve", "--store", &place.store()]);
    let mut server = Server::spawn(serve);
    let ready = format!("{}/readyz", server.url);
    let behind = |answer: &Value| answer["clock_behind_ms"].as_i64().expect("a number");
    assert_eq!(behind(&get(&ready).1), 0);
    // The reconcilers promote the delayed execution, so they have read the clock before the step.
    submit(&server.url, json!({"kind": "k", "delay_ms": 200}));
    assert_eq!(claim(&server.url, "w", 1, 30_000).len(), 1);
    place.run("update selvedge.test_clock set behind = '1 h'");
    server.wait_for_log("the clock of the store stepped back");
    let shown = wait_for("it is shown", || get(&ready), |_, answer| behind(answer) > 0);
    assert!((3_500_000..=3_600_000).contains(&behind(&shown)), "{shown}");
    let mut doctor = command();
    let output = doctor.args(["doctor", "--server", &server.url]).output().expect("the binary starts");
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(found.contains("the clock of the postgres store stepped back"), "{found}");
    // The time of the store goes on, and waits for the clock when that is set right.
    submit(&server.url, json!({"kind": "k", "delay_ms": 200}));
    assert_eq!(claim(&server.url, "w", 1, 15_000).len(), 1);
    let metrics = get_text(&format!("{}/metrics", server.url));
    assert!(metrics.contains("selvedge_store_clock_steps_back_total 1"), "{metrics}");
    place.run("update selvedge.test_clock set behind = '0'");
    wait_for("it leads by little", || get(&ready), |_, answer| behind(answer) <= 10_000);
}
