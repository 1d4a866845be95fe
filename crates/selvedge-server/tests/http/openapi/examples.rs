//! The examples of requests are valid: by their schemas, and to a server that has what they are about.

use super::operations;
use crate::support::contract::{check_shape, shape_errors};
use crate::support::{Server, op_with, text_of, within};
use selvedge_engine::Options;
use selvedge_memory::Clock;
use selvedge_server::WebhookOptions;
use serde_json::{Value, json};
use std::time::Duration;

/// The ids of what the examples are about.
struct World {
    server: Server,
    execution: String,
    flow: String,
    waitpoint: String,
    token: String,
    delivery: String,
}

/// Creates a webhook whose receiver does not listen. Returns the id of a delivery.
async fn failed_delivery(server: &Server) -> String {
    let body = json!({ "url": "http://127.0.0.1:9/", "types": ["execution.submitted"] });
    server.configure("webhooks/n", body).await;
    server.submit(json!({ "kind": "k" })).await;
    within(async {
        loop {
            let page = server.read("webhooks/n/deliveries").await;
            if let Some(id) = page["items"][0]["id"].as_str() {
                return id.to_owned();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

impl World {
    /// Creates an execution in the state that an action needs, a flow, a suspended execution and its waitpoint.
    async fn new(path: &str) -> World {
        let webhooks = WebhookOptions { allow_private: true, ..WebhookOptions::default() };
        let serving = selvedge_server::Options { webhooks, ..selvedge_server::Options::default() };
        let options = Options { reconcilers: false, ..Options::default() };
        let server = Server::start_serving(options, Clock::system(), serving).await;
        let (suspended, claim) = server.submit_and_claim().await;
        let waiting = json!({ "condition": { "signal": "approval" }, "waitpoints": ["approval"] });
        let result = server.report("i", op_with("suspend", &claim, waiting)).await;
        let waitpoint = &result["waitpoints"][0];
        let flow = json!({ "nodes": [{ "name": "charge", "kind": "k", "lane": "f" }, { "name": "ship", "kind": "k" }],
            "edges": [{ "from": "charge", "to": "ship" }] });
        let flow = text_of(&server.submit_flow(flow).await["flow"]["id"]);
        let execution = match path.rsplit('/').next() {
            Some("resume") => suspended,
            Some("revoke-lease") => server.submit_and_claim().await.0,
            Some("replay") => {
                let (id, claim) = server.submit_and_claim().await;
                server.complete("i", &claim, json!(1)).await;
                id
            }
            _ => server.submit(json!({ "kind": "k" })).await,
        };
        let schedule = json!({ "interval_ms": 1000, "submit": { "execution": { "kind": "k" } } });
        for (path, body) in [
            ("lanes", json!({})),
            ("quotas", json!({})),
            ("budgets", json!({ "limits": {} })),
            ("schedules", schedule),
        ] {
            server.configure(&format!("{path}/n"), body).await;
        }
        let delivery = match path.starts_with("/v1/webhooks") {
            true => failed_delivery(&server).await,
            false => String::new(),
        };
        World {
            delivery,
            execution,
            flow,
            waitpoint: text_of(&waitpoint["id"]),
            token: text_of(&waitpoint["token"]),
            server,
        }
    }

    fn path(&self, path: &str) -> String {
        let id = match path.split('/').nth(2) {
            Some("flows") => &self.flow,
            Some("waitpoints") => &self.waitpoint,
            Some("webhooks") => &self.delivery,
            _ => &self.execution,
        };
        path.replace("{id}", id).replace("{instance}", "i").replace("{name}", "n")
    }
}

#[tokio::test]
async fn every_example_of_a_request_is_valid_and_accepted() {
    let mut count = 0;
    for (method, path, operation) in operations() {
        let content = operation["requestBody"]["content"].as_object();
        for (content_type, content) in content.into_iter().flatten() {
            let what = format!("the example of {method} {path}");
            let mut example: Value = content["example"].clone();
            assert!(!example.is_null(), "{what} is missing");
            check_shape(&what, &content["schema"], &example);
            let world = World::new(path).await;
            if example["token"] == "TOKEN" {
                example["token"] = json!(world.token);
            }
            let headers = [("content-type", content_type.as_str())];
            let body = example.to_string().into_bytes();
            if path.starts_with("/v1/inbox/")
                || ["/v1/clock/advance", "/v1/webhooks/{name}/test"].contains(&path)
            {
                // Only on Postgres has a submission been refused; the clock of this server is not manual; the test of a webhook
                // would leave this machine. The tests of the inbox, of `selvedge dev` and of webhooks make these calls.
                continue;
            }
            let reply = world.server.send(&method, &world.path(path), &headers, body).await;
            assert!(matches!(reply.status, 200..=202), "{what}: {}", reply.text());
            count += 1;
        }
    }
    assert!(count > 30, "there are only {count} examples");
}

#[test]
fn a_value_that_the_document_does_not_allow_is_noticed() {
    let submission = json!({ "$ref": "#/components/schemas/Submission" });
    assert_eq!(shape_errors(&submission, &json!({ "kind": "k" })), [""; 0]);
    for wrong in [
        json!({}),
        json!({ "kind": 1 }),
        json!({ "kind": "k", "knd": 1 }),
        json!({ "kind": "k", "priority": 101 }),
    ] {
        assert!(!shape_errors(&submission, &wrong).is_empty(), "{wrong}");
    }
    let problem = json!({ "$ref": "#/components/schemas/Problem" });
    let answer = json!({ "type": "/docs/problems#cycle", "title": "t", "status": 422, "detail": "d", "code": "cycle" });
    assert_eq!(shape_errors(&problem, &answer), [""; 0]);
    let with_more = json!({ "type": "/docs/problems#cycle", "title": "t", "status": 422, "detail": "d", "code": "cycle", "more": 1 });
    assert!(!shape_errors(&problem, &with_more).is_empty(), "a field that is not described is noticed");
}
