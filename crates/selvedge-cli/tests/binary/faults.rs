//! Faults between a server and Postgres: every call is answered, the server goes on within 20 seconds, and nothing that it has
//! acknowledged is lost or done twice.

use crate::support::{Call, Place, Postgres, Server, claim, get, post, result, start_call, submit, text};
use selvedge_conformance::fault_proxy::{Fault, FaultProxy, Reach};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

/// The longest that any fault may stop the server.
const PROGRESS: Duration = Duration::from_secs(20);
/// The longest that a call may take while others hold locks.
const REFUSAL: Duration = Duration::from_secs(5);

/// A server whose connections to Postgres go through a proxy.
struct Proxied {
    server: Server,
    proxy: FaultProxy,
    database: Postgres,
    /// Runs the proxy.
    runtime: Runtime,
}

struct Address(String);

impl Place for Address {
    fn store(&self) -> String {
        self.0.clone()
    }
}

impl Proxied {
    fn start() -> Proxied {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("the runtime starts");
        let database = Postgres::new();
        let (proxy, url) = runtime.block_on(FaultProxy::start_for(&database.store()));
        let server = Server::start(&Address(url));
        Proxied { server, proxy, database, runtime }
    }

    /// Opens a connection to the database that bypasses the proxy.
    fn plain(&self) -> Client {
        self.runtime.block_on(async {
            let connected = tokio_postgres::connect(&self.database.store(), NoTls).await;
            let (client, connection) = connected.expect("the database is reachable");
            tokio::spawn(connection);
            client
        })
    }

    fn run(&self, client: &Client, statement: &str) {
        self.runtime.block_on(client.batch_execute(statement)).expect(statement);
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.url)
    }
}

/// Asserts that a response is a refusal which tells when to try again.
fn check_refusal((status, problem): &(u16, Value)) {
    assert_eq!((*status, &problem["code"]), (503, &json!("store_unavailable")), "{problem}");
    assert!(problem["retry_after_ms"].is_u64(), "{problem}");
}

/// Posts until the server answers otherwise than with a refusal. Every refusal must say when to try again.
fn post_until_accepted(proxied: &Proxied, path: &str, body: &Value, since: Instant) -> Value {
    loop {
        let response = post(&proxied.url(path), body);
        if matches!(response.0, 200 | 201) {
            return response.1;
        }
        check_refusal(&response);
        assert!(since.elapsed() < PROGRESS, "no progress within {PROGRESS:?}");
    }
}

/// Claims and completes until this number of executions has completed. Returns their ids. The answer to a claim may be lost,
/// so leases are short.
fn complete_all(proxied: &Proxied, count: usize) -> BTreeSet<String> {
    let since = Instant::now();
    let mut completed = BTreeSet::new();
    let body = json!({"worker": "w", "lanes": ["default"], "max": 10, "wait_ms": 100, "lease_ttl_ms": 3000});
    while completed.len() < count {
        let claimed = post_until_accepted(proxied, "/v1/workers/i/claim", &body, since);
        for claim in claimed["claims"].as_array().expect("claims is an array") {
            let id = text(&claim["execution"]["id"]);
            let op = json!({
                "op": "complete",
                "op_id": id,
                "execution": id,
                "attempt": claim["attempt"],
                "lease_id": claim["lease"]["id"],
                "epoch": claim["lease"]["epoch"],
            });
            let report = json!({"ops": [op]});
            let done = post_until_accepted(proxied, "/v1/workers/i/report", &report, since);
            assert_eq!(done["results"][0]["ok"], true, "{done}");
            assert!(completed.insert(id), "{claim} completed twice");
        }
        if since.elapsed() >= PROGRESS {
            let (_, list) = get(&proxied.url("/v1/executions"));
            let items = list["items"].as_array().expect("items is an array").iter();
            let left: Vec<&Value> = items.filter(|item| item["outcome"].is_null()).collect();
            panic!("{} of {count} completed; left: {left:#?}", completed.len());
        }
    }
    completed
}

/// Injects a fault into all connections between calls, and continues.
fn check_fault(fault: Fault) {
    let proxied = Proxied::start();
    let mut acknowledged: BTreeSet<String> =
        (0..5).map(|_| submit(&proxied.server.url, json!({"kind": "k"}))).collect();
    let delayed = submit(&proxied.server.url, json!({"kind": "k", "delay_ms": 1000}));
    acknowledged.insert(delayed.clone());
    let calls: Vec<_> = (0..4).map(|_| start_call("GET", &proxied.url("/v1/executions"), None)).collect();
    calls.into_iter().for_each(|call| assert_eq!(call.response().0, 200));

    let since = Instant::now();
    proxied.proxy.inject(fault, Reach::Existing);
    for _ in 0..5 {
        let id = Uuid::now_v7().to_string();
        post_until_accepted(&proxied, "/v1/executions", &json!({"id": id, "kind": "k"}), since);
        acknowledged.insert(id);
    }
    assert!(since.elapsed() < PROGRESS, "{:?}", since.elapsed());
    assert_eq!(complete_all(&proxied, acknowledged.len()), acknowledged);
    let outcome = loop {
        let response = result(&proxied.server.url, &delayed);
        if response.0 == 200 {
            break response.1["outcome"].clone();
        }
        check_refusal(&response);
    };
    assert_eq!(outcome, "completed");
    assert_eq!(claim(&proxied.server.url, "i", 10, 0), [Value::Null; 0]);
}

#[test]
fn closed_connections_are_replaced() {
    check_fault(Fault::Drop);
}

#[test]
fn half_closed_connections_are_replaced() {
    check_fault(Fault::HalfClose);
}

#[test]
fn connections_that_are_cut_in_the_middle_of_a_message_are_replaced() {
    for bytes in [1, 7, 100] {
        check_fault(Fault::CutAfter(bytes));
    }
}

#[test]
fn slow_connections_are_used_on() {
    check_fault(Fault::Delay(Duration::from_millis(50)));
}

#[test]
fn slow_connections_that_swallow_data_are_replaced() {
    check_fault(Fault::Swallow);
}

#[test]
fn slow_sigterm_ends_the_server_although_all_connections_swallow_data() {
    let mut proxied = Proxied::start();
    submit(&proxied.server.url, json!({"kind": "k"}));
    proxied.proxy.inject(Fault::Swallow, Reach::All);
    let _stuck = start_call("POST", &proxied.url("/v1/executions"), Some(&json!({"kind": "k"})));
    let since = Instant::now();
    proxied.server.signal("TERM");
    proxied.server.wait_for_exit();
    assert!(since.elapsed() < PROGRESS, "{:?}", since.elapsed());
}

#[test]
fn while_others_lock_a_table_calls_are_refused_in_time_and_succeed_afterwards() {
    let proxied = Proxied::start();
    let id = submit(&proxied.server.url, json!({"kind": "k"}));
    let plain = proxied.plain();
    proxied.run(&plain, "begin; lock table selvedge.executions in access exclusive mode");
    let since = Instant::now();
    let read = format!("/v1/executions/{id}");
    let calls = [
        start_call("GET", &proxied.url("/v1/executions"), None),
        start_call("GET", &proxied.url(&read), None),
        start_call("POST", &proxied.url("/v1/executions"), Some(&json!({"kind": "k"}))),
        start_call("POST", &proxied.url("/v1/executions"), Some(&json!({"kind": "other"}))),
        start_call("POST", &proxied.url(&format!("{read}/cancel")), Some(&json!({}))),
    ];
    for call in calls {
        check_refusal(&call.response());
        assert!(since.elapsed() < REFUSAL, "{:?}", since.elapsed());
    }
    proxied.run(&plain, "rollback");
    assert_eq!(get(&proxied.url(&read)).0, 200);
    complete_all(&proxied, 1);
}

#[test]
fn a_delay_ends_in_time_although_clients_give_up_on_slow_lists() {
    let proxied = Proxied::start();
    submit(&proxied.server.url, json!({"kind": "k", "tags": {"a": "b"}}));
    let plain = proxied.plain();
    // Lists by a tag wait for the lock; nothing else reads this table.
    proxied.run(&plain, "begin; lock table selvedge.tags in access exclusive mode");
    let list = proxied.url("/v1/executions?tag=a:b");
    let abandoned: Vec<_> = (0..40).map(|_| start_call("GET", &list, None)).collect();
    let delayed = json!({"kind": "delayed", "lane": "delayed", "delay_ms": 500});
    let (status, response) = post(&proxied.url("/v1/executions"), &delayed);
    assert_eq!(status, 201, "{response}");
    let since = Instant::now();
    abandoned.into_iter().for_each(Call::abandon);
    let body = json!({"worker": "w", "lanes": ["delayed"], "max": 1, "wait_ms": 20_000});
    let (_, claimed) = post(&proxied.url("/v1/workers/i/claim"), &body);
    assert_eq!(claimed["claims"].as_array().map(Vec::len), Some(1), "{claimed}");
    assert!(since.elapsed() < REFUSAL, "{:?}", since.elapsed());
    proxied.run(&plain, "rollback");
}
