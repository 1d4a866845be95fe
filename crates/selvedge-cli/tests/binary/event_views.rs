//! The views of events and attempts show what the API shows: after a random mix of work, after the server was killed in the
//! middle, with two servers at once, and when they are switched on late.

use crate::support::{Place, Postgres, Server, Sqlite, claim, command, get, on_each_store, post, text};
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio_postgres::NoTls;

on_each_store!(
    the_event_views_show_the_events_and_attempts_of_the_api,
    the_event_views_miss_and_repeat_nothing_when_the_server_is_killed,
    the_event_views_are_empty_until_they_are_switched_on_and_complete_afterwards,
    attempts_leave_the_view_with_their_execution,
);

/// The columns of the view of events, as JSON.
const EVENTS: &str = "'cursor', cursor, 'type', type, 'at', {at}, 'namespace', namespace, 'execution', execution, \
    'flow', flow, 'version', version, 'actor', actor, 'data', {data}";
/// The columns of the view of attempts, as JSON.
const ATTEMPTS: &str = "'execution', execution, 'namespace', namespace, 'attempt', attempt, 'lease_id', lease_id, \
    'epoch', epoch, 'worker', worker, 'instance', instance, 'started_at', {started_at}, 'ended_at', {ended_at}, \
    'outcome', outcome, 'error_message', error_message, 'error_class', error_class";

/// A store whose views can be read.
pub trait Views: Place {
    /// Returns the first column of a query, which is JSON. `{json}` stands for the function that makes an object, `{jsonb}`
    /// for the data as `jsonb` where the store has that type, and names of times and documents in braces for their text.
    fn rows(&self, text: &str) -> Vec<Value>;

    fn events(&self) -> Vec<Value> {
        self.rows(&format!("select {{json}}({EVENTS}) from {{schema}}v1_events order by cursor"))
    }

    fn attempts(&self) -> Vec<Value> {
        self.rows(&format!(
            "select {{json}}({ATTEMPTS}) from {{schema}}v1_attempts order by execution, attempt"
        ))
    }

    fn count_events(&self) -> u64 {
        let rows = self.rows("select {json}('count', count(*)) from {schema}v1_events");
        rows[0]["count"].as_u64().expect("a count is a number")
    }
}

impl Views for Sqlite {
    fn rows(&self, text: &str) -> Vec<Value> {
        let mut text =
            text.replace("{json}", "json_object").replace("{schema}", "").replace("{data}", "json(data)");
        text = text.replace("{jsonb}", "json(data)");
        for time in ["at", "started_at", "ended_at"] {
            text = text.replace(&format!("{{{time}}}"), time);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let connection = Connection::open_with_flags(self.database(), flags).expect("the file opens");
        let mut statement = connection.prepare(&text).expect("the statement is valid");
        let rows = statement.query_map((), |row| row.get::<_, String>(0)).expect("the statement runs");
        rows.map(|row| serde_json::from_str(&row.expect("a row is read")).expect("a row is JSON")).collect()
    }
}

impl Views for Postgres {
    fn rows(&self, text: &str) -> Vec<Value> {
        let mut text =
            text.replace("{schema}", "selvedge.").replace("{data}", "data").replace("{jsonb}", "data::jsonb");
        text = text.replace("{json}(", "json_build_object(");
        for time in ["at", "started_at", "ended_at"] {
            let shown = format!("to_char({time} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')");
            text = text.replace(&format!("{{{time}}}"), &shown);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("the runtime starts").block_on(async {
            let (client, connection) =
                tokio_postgres::connect(&self.store(), NoTls).await.expect("the database is reachable");
            tokio::spawn(connection);
            // Without parameters every value is text.
            let messages = client.simple_query(&text).await.expect(&text);
            let rows = messages.iter().filter_map(|message| match message {
                tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
                _ => None,
            });
            rows.map(|row| serde_json::from_str(row).expect("a row is JSON")).collect()
        })
    }
}

/// Starts a server, with its views of events or without.
pub fn start(place: &impl Place, event_views: bool, more: &[&str]) -> Server {
    let mut serve = command();
    serve.args(["serve", "--store", &place.store()]).args(more);
    if event_views {
        serve.args(["--event-views", "--reconciler-interval", "projection=10ms"]);
    }
    Server::spawn(serve)
}

/// Calls the API and ignores refusals: the log has the truth.
pub fn call(url: &str, path: &str, body: Value) -> Value {
    let (status, reply) = post(&format!("{url}/v1{path}"), &body);
    assert!(status < 500, "{path} {body}: {status} {reply}");
    reply
}

/// Does a random mix of work.
fn work(url: &str, random: &mut fastrand::Rng, rounds: usize) {
    let mut known: Vec<String> = Vec::new();
    for round in 0..rounds {
        match random.u8(..8) {
            0 => {
                let retry = json!({"max_retries": random.u8(..3)});
                let draft = json!({"kind": "k", "input": round, "tags": {"round": round.to_string()}, "retry": retry,
                    "delay_ms": if random.bool() { json!(86_400_000) } else { json!(null) }});
                known.extend(call(url, "/executions", draft)["execution"]["id"].as_str().map(str::to_owned));
            }
            1 => {
                let batch: Vec<Value> = (0..random.usize(1..30)).map(|_| json!({"kind": "k"})).collect();
                call(url, "/executions/batch", json!({"executions": batch}));
            }
            2 => {
                let graph = json!({"name": "f", "defaults": {"kind": "k"},
                    "nodes": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
                    "edges": [{"from": "a", "to": "c"}, {"from": "b", "to": "c"}]});
                call(url, "/flows", graph);
            }
            3..6 => claim_and_report(url, random, &mut known),
            6 if !known.is_empty() => {
                let id = &known[random.usize(..known.len())];
                let (action, body) = match random.u8(..4) {
                    0 => ("cancel", json!({"reason": "no \"longer\" needed"})),
                    1 => ("tags", json!({"set": {"team": "blue"}, "remove": ["round"]})),
                    2 => ("replay", json!({})),
                    _ => ("reschedule", json!({})),
                };
                call(url, &format!("/executions/{id}/{action}"), body);
            }
            _ => {
                if let Some(id) = known.last() {
                    call(
                        url,
                        &format!("/executions/{id}/signals"),
                        json!({"name": "go", "payload": {"n": round}}),
                    );
                }
            }
        }
    }
}

/// Claims some executions and ends their attempts in every way.
fn claim_and_report(url: &str, random: &mut fastrand::Rng, known: &mut Vec<String>) {
    let instance = format!("w-{}", random.u8(..3));
    for claim in claim(url, &instance, random.u32(1..6), 0) {
        known.push(text(&claim["execution"]["id"]));
        let mut op = match random.u8(..7) {
            0 | 1 => json!({"op": "complete", "result": {"ok": true}}),
            2 => json!({"op": "fail", "message": "it \"broke\": ü \\ \n", "class": "permanent"}),
            3 => json!({"op": "fail", "message": "again", "retry_after_ms": 1}),
            4 => json!({"op": "release"}),
            5 => json!({"op": "delay", "delay_ms": 86_400_000}),
            _ => json!({"op": "suspend", "condition": {"signal": "go"}, "timeout_ms": 60_000}),
        };
        op["execution"] = claim["execution"]["id"].clone();
        op["attempt"] = claim["attempt"].clone();
        op["lease_id"] = claim["lease"]["id"].clone();
        op["epoch"] = claim["lease"]["epoch"].clone();
        call(url, &format!("/workers/{instance}/report"), json!({"ops": [op]}));
    }
}

/// Reads all items of a list.
fn all(url: &str, path: &str) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    let parameter = if path == "/events" { "after" } else { "cursor" };
    loop {
        let (status, page) = get(&format!("{url}/v1{path}?limit=500{cursor}"));
        assert_eq!(status, 200, "{page}");
        let more = page["items"].as_array().expect("items is a list");
        items.extend(more.clone());
        match page["next_cursor"].as_str() {
            Some(next) if !more.is_empty() => cursor = format!("&{parameter}={next}"),
            Some(_) | None => return items,
        }
    }
}

/// Waits until the view has all events that the log has, and compares both views with the API. Returns the events.
pub fn compare(place: &impl Views, url: &str) -> Vec<Value> {
    // The reconcilers still emit events, so the last one may come later.
    let (events, shown) = loop {
        let events = all(url, "/events");
        let shown = place.events();
        if shown.len() >= events.len() {
            break (events, shown);
        }
    };
    for (event, row) in events.iter().zip(&shown) {
        assert_eq!(row, event);
    }
    let rest = &shown[events.len()..];
    assert!(
        rest.iter().all(|row| text(&row["cursor"]) > text(&events[events.len() - 1]["cursor"])),
        "{rest:?}"
    );
    let mut attempts: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for mut row in place.attempts() {
        let row = row.as_object_mut().expect("a row is an object");
        let execution = row.remove("execution").expect("it has an execution");
        assert_eq!(row.remove("namespace"), Some(json!("default")));
        let (message, class) = (row.remove("error_message"), row.remove("error_class"));
        let error = message.filter(|message| !message.is_null());
        row.insert(
            "error".into(),
            error.map_or(Value::Null, |message| json!({"message": message, "class": class})),
        );
        attempts.entry(text(&execution)).or_default().push(json!(row));
    }
    let claimed = all(url, "/executions").into_iter().filter(|execution| execution["attempts"] != 0);
    for execution in claimed {
        let id = text(&execution["id"]);
        let expected = all(url, &format!("/executions/{id}/attempts"));
        assert_eq!(attempts.remove(&id).unwrap_or_default(), expected, "{id}");
    }
    assert!(attempts.is_empty(), "attempts of no execution: {attempts:?}");
    events
}

fn random() -> fastrand::Rng {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    fastrand::Rng::with_seed(seed)
}

fn the_event_views_show_the_events_and_attempts_of_the_api(place: &impl Views) {
    let server = start(place, true, &[]);
    work(&server.url, &mut random(), 150);
    let events = compare(place, &server.url);
    assert!(events.iter().any(|event| event["type"] == "attempt.ended"));
    let (_, metrics) = {
        let output =
            std::process::Command::new("curl").args(["-s", &format!("{}/metrics", server.url)]).output();
        ((), String::from_utf8(output.expect("curl runs").stdout).expect("metrics are text"))
    };
    let counted = metrics.lines().find_map(|line| line.strip_prefix("selvedge_event_view_events_total "));
    assert!(
        counted.is_some_and(|count| count.parse::<f64>().is_ok_and(|count| count >= events.len() as f64))
    );
}

fn the_event_views_miss_and_repeat_nothing_when_the_server_is_killed(place: &impl Views) {
    let mut random = random();
    let mut server = start(place, true, &[]);
    let batch: Vec<Value> = (0..1000).map(|_| json!({"kind": "k"})).collect();
    for _ in 0..3 {
        let before = place.count_events();
        for _ in 0..4 {
            call(&server.url, "/executions/batch", json!({"executions": batch}));
        }
        work(&server.url, &mut random, 20);
        // Some rows are there, and others are being written.
        while place.count_events() == before {}
        server.kill();
        server = start(place, true, &[]);
    }
    compare(place, &server.url);
}

fn the_event_views_are_empty_until_they_are_switched_on_and_complete_afterwards(place: &impl Views) {
    let mut random = random();
    let server = start(place, false, &[]);
    work(&server.url, &mut random, 60);
    assert_eq!((place.count_events(), place.attempts().len()), (0, 0));
    server.kill();
    let server = start(place, true, &[]);
    compare(place, &server.url);
    server.kill();
    let server = start(place, false, &[]);
    work(&server.url, &mut random, 30);
    server.kill();
    let server = start(place, true, &[]);
    compare(place, &server.url);
}

fn attempts_leave_the_view_with_their_execution(place: &impl Views) {
    let server = start(place, true, &["--reconciler-interval", "retention=10ms"]);
    for _ in 0..20 {
        call(&server.url, "/executions", json!({"kind": "k", "retention_ms": 1}));
    }
    call(&server.url, "/executions", json!({"kind": "k"}));
    for claim in claim(&server.url, "w", 21, 0) {
        crate::support::complete(&server.url, "w", &claim, json!(1));
    }
    while all(&server.url, "/executions").len() > 1 {}
    let events = compare(place, &server.url);
    assert_eq!(events.iter().filter(|event| event["type"] == "execution.completed").count(), 21);
    assert_eq!(place.attempts().len(), 1);
}

#[test]
fn two_servers_fill_the_event_views_together_and_one_continues_when_the_other_is_killed() {
    let place = Postgres::new();
    let (first, second) = (start(&place, true, &[]), start(&place, true, &[]));
    let mut random = random();
    for _ in 0..3 {
        work(&first.url, &mut random, 30);
        work(&second.url, &mut random, 30);
    }
    compare(&place, &second.url);
    first.kill();
    work(&second.url, &mut random, 30);
    compare(&place, &second.url);
}
