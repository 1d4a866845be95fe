//! The web pages over HTTP: every page, empty and with data, what users wrote, problems, and sessions.

mod approve;
mod content;
mod hostile;
mod live;
mod overview;
mod past;
mod sessions;

use crate::support::{Reply, Server, op_with, text_of};
use serde_json::{Value, json};

/// The pages without parameters.
const PAGES: [&str; 12] = [
    "/",
    "/executions",
    "/flows",
    "/approvals",
    "/workers",
    "/lanes",
    "/budgets",
    "/schedules",
    "/events",
    "/webhooks",
    "/about",
    "/docs",
];

/// Requests a page as a browser does.
async fn visit(server: &Server, path: &str) -> Reply {
    server.send_raw("GET", path, &[("accept", "text/html,*/*;q=0.8")], Vec::new()).await
}

/// Asserts that a response is a page which the browser lets load nothing but its own style and script.
fn check_page(path: &str, reply: &Reply) {
    let text = reply.text();
    assert_eq!(reply.header("content-type"), "text/html; charset=utf-8", "{path}: {text}");
    let policy = reply.header("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self';"),
        "{path}: {policy}"
    );
    assert!(!policy.contains("unsafe"), "{path}: {policy}");
    assert_eq!(reply.header("cache-control"), "no-store", "{path}");
    for header in ["cross-origin-opener-policy", "cross-origin-resource-policy"] {
        assert_eq!(reply.header(header), "same-origin", "{path}");
    }
    assert!(reply.header("permissions-policy").contains("camera=()"), "{path}");
    assert!(["same-origin", "no-referrer"].contains(&reply.header("referrer-policy")), "{path}");
    assert!(!text.contains(" style=") && !text.contains("<style"), "{path} has inline style");
    assert!(!text.contains(" onclick=") && !text.contains("javascript:"), "{path} has an inline script");
    let scripts = text.matches("<script").count();
    assert_eq!(
        scripts,
        text.matches("<script src=\"/assets/selvedge-").count(),
        "{path} has an inline script"
    );
    for attribute in ["src=\"", "href=\""] {
        let mut targets = text.split(attribute).skip(1).filter_map(|rest| rest.split('"').next());
        let outside = targets.find(|target| !target.starts_with(['/', '#']));
        assert_eq!(outside, None, "{path} refers to another site");
    }
}

/// A server with something on every page.
struct Filled {
    server: Server,
    /// A suspended execution with a step, frames and a waitpoint.
    execution: String,
    flow: String,
    waitpoint: String,
    token: String,
}

/// Starts a server and fills it.
async fn filled() -> Filled {
    let server = Server::start().await;
    server
        .configure("lanes/mail", json!({ "concurrency": 4, "rate": { "count": 9, "window_ms": 60_000 } }))
        .await;
    server.configure("quotas/smtp", json!({ "concurrency": 2 })).await;
    let limits = json!({ "tokens": { "hard": 10, "soft": 5 } });
    server.configure("budgets/model", json!({ "limits": limits, "period_ms": 3_600_000 })).await;
    let used = server.post("/v1/budgets/model/usage", json!({ "usage": { "tokens": 12 } })).await;
    assert_eq!(used.status, 200, "{}", used.text());
    let nightly = json!({ "cron": "0 3 * * *", "time_zone": "Europe/Berlin", "submit": { "execution": { "kind": "k" } } });
    server.configure("schedules/nightly", nightly).await;
    let hook = json!({ "url": "https://example.com/hook?secret=1", "types": ["flow.completed"] });
    let hook = server.put("/v1/webhooks/billing", hook).await;
    assert_eq!(hook.status, 201, "{}", hook.text());
    let nodes = json!([{ "name": "fetch", "kind": "k", "lane": "flows" }, { "name": "report", "kind": "k", "lane": "flows" }]);
    let flow = server
        .submit_flow(
            json!({ "name": "daily", "nodes": nodes, "edges": [{ "from": "fetch", "to": "report" }] }),
        )
        .await;
    let execution = server
        .submit(json!({ "kind": "review", "input": { "order": 4711 }, "tags": { "customer": "acme" } }))
        .await;
    let claim = server.claim("desk-1", 1).await.remove(0);
    let step = op_with("step", &claim, json!({ "name": "check stock", "result": { "in_stock": true } }));
    assert_eq!(server.report("desk-1", step).await["ok"], true);
    let frame = op_with("frame", &claim, json!({ "kind": "stdout", "data": "reading the order" }));
    assert_eq!(server.report("desk-1", frame).await["ok"], true);
    let ask = json!({
        "condition": { "any": [{ "signal": "approve" }, { "signal": "reject" }] },
        "waitpoints": [{ "name": "approve", "signals": ["approve", "reject"], "prompt": "Ship order 4711?" }],
    });
    let suspended = server.suspend("desk-1", &claim, ask).await;
    let waitpoint: &Value = &suspended["waitpoints"][0];
    let (waitpoint, token) = (text_of(&waitpoint["id"]), text_of(&waitpoint["token"]));
    Filled { flow: text_of(&flow["flow"]["id"]), server, execution, waitpoint, token }
}
