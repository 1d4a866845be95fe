//! Signing in with each role: what is shown, what is hidden, and that the API refuses what is hidden.

use crate::address;
use crate::browser::{Browser, Colours};
use crate::support::{Reply, Server, op_with};
use selvedge_engine::Options;
use selvedge_memory::Clock;
use selvedge_server::{AdminKey, AuthOptions};
use serde_json::{Value, json};

/// The administrator's key of every server here.
pub const ADMIN: &str = "the-admin-key-of-the-tests";

/// Starts a server with keys.
pub async fn start() -> Server {
    let auth = AuthOptions { admin_key: AdminKey::new(ADMIN).ok(), ..AuthOptions::default() };
    let serving = selvedge_server::Options { auth, ..selvedge_server::Options::default() };
    let options = Options { reconcilers: false, ..Options::default() };
    Server::start_serving(options, Clock::system(), serving).await
}

/// Signs in with a key, from whichever page the browser shows.
pub async fn sign_in(browser: &Browser, key: &str) {
    browser.open("/login").await;
    browser.set("[name=key]", key).await;
    browser.click("form button.primary").await;
    browser.wait_for("location.pathname === '/'").await;
}

/// Calls the API as the administrator.
async fn admin(server: &Server, method: &str, path: &str, body: Value) -> Reply {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into() };
    server.send(method, path, &[("authorization", &format!("Bearer {ADMIN}"))], body).await
}

/// Creates a key. Returns its id and its text.
async fn create(server: &Server, role: &str) -> (String, String) {
    let namespaces = if role == "admin" { ["*"] } else { ["default"] };
    let body = json!({ "name": role, "role": role, "namespaces": namespaces });
    let created = admin(server, "POST", "/v1/admin/keys", body).await.json();
    let text = |name: &str| created[name].as_str().expect("the key was created").to_owned();
    (text("id"), text("key"))
}

/// Puts something on the pages with actions.
async fn fill(server: &Server) {
    for (path, body) in [
        ("lanes/mail", json!({ "concurrency": 4 })),
        ("quotas/smtp", json!({ "concurrency": 2 })),
        ("budgets/model", json!({ "limits": { "tokens": { "hard": 10 } } })),
        ("schedules/nightly", json!({ "cron": "0 3 * * *", "submit": { "execution": { "kind": "k" } } })),
        ("webhooks/billing", json!({ "url": "https://example.com/hook", "types": ["flow.completed"] })),
    ] {
        assert_eq!(admin(server, "PUT", &format!("/v1/{path}"), body).await.status, 201, "{path}");
    }
    admin(server, "POST", "/v1/executions", json!({ "kind": "review" })).await;
    let claim = json!({ "worker": "w", "lanes": ["default"], "max": 1 });
    let claim = admin(server, "POST", "/v1/workers/desk-1/claim", claim).await.json()["claims"][0].clone();
    let ask = json!({ "condition": { "signal": "approve" }, "waitpoints": [{ "name": "approve" }] });
    let report = json!({ "ops": [op_with("suspend", &claim, ask)] });
    assert_eq!(admin(server, "POST", "/v1/workers/desk-1/report", report).await.status, 200);
}

/// A page, the selector of an action on it, the permission that the action needs, and the call that does the same.
const ACTIONS: [(&str, &str, &str, &str); 12] = [
    ("/lanes", "form[data-call$='/lanes/mail/pause']", "operate", "POST /v1/lanes/other/pause"),
    ("/lanes", "[data-opens=lane-dialog]", "operate", "PATCH /v1/lanes/mail"),
    ("/lanes", "[data-opens=quota-dialog]", "operate", "PUT /v1/quotas/smtp"),
    ("/budgets", "form[data-call$='/model/reset']", "operate", "POST /v1/budgets/model/reset"),
    ("/schedules", "form[data-call$='/nightly/run']", "operate", "POST /v1/schedules/nightly/run"),
    (
        "/webhooks/billing",
        "form[data-call$='/billing/test']",
        "operate",
        "POST /v1/webhooks/billing/rotate-secret",
    ),
    ("/approvals", "form[data-call$='/answer']", "operate", "POST /v1/executions/bulk"),
    ("/executions", "input[name=ids]", "operate", "POST /v1/bulk-jobs"),
    ("/workers", "form[data-call$='/desk-1/drain']", "work", "POST /v1/workers/other/heartbeat"),
    ("/settings", "nav a[href='/settings?show=keys']", "administer", "POST /v1/admin/keys"),
    ("/settings", "nav a[href='/settings?show=namespaces']", "administer", "PUT /v1/admin/namespaces/blue"),
    (
        "/settings",
        "nav a[href='/settings?show=configuration']",
        "administer",
        "POST /v1/admin/waitpoint-keys/rotate",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_role_sees_its_actions_and_the_api_refuses_the_others() {
    let server = start().await;
    fill(&server).await;
    for (role, may) in [
        ("reader", &[][..]),
        ("submitter", &[]),
        ("worker", &["work"]),
        ("operator", &["work", "operate"]),
        ("admin", &["work", "operate", "administer"]),
    ] {
        let (_, key) = create(&server, role).await;
        let browser = Browser::start(&address(&server), Colours::Light).await;
        sign_in(&browser, &key).await;
        browser.wait_for(&format!("document.querySelector('.foot').textContent.includes('{role}')")).await;
        for (page, selector, permission, call) in ACTIONS {
            browser.open(page).await;
            let shown =
                browser.eval(&format!("return Boolean(document.querySelector(\"{selector}\"))")).await;
            assert_eq!(shown, json!(may.contains(&permission)), "{role} on {page}: {selector}");
            let (method, path) = call.split_once(' ').expect("a call has a method");
            let script = format!(
                "return fetch('{path}', {{ method: '{method}', headers: {{ 'content-type': 'application/json' }}, body: '{{}}' }}).then((answer) => answer.status)"
            );
            let status = browser.eval(&script).await.as_u64().expect("there is a status");
            assert_eq!(status == 403, !may.contains(&permission), "{role}: {call} answers {status}");
        }
        let expected: &[u16] = &[400, 403, 404, 409, 422];
        browser.finish_after(expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_the_settings_that_are_hidden_are_also_refused() {
    let server = start().await;
    let (_, key) = create(&server, "operator").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    sign_in(&browser, &key).await;
    let status = |path: &str| {
        format!(
            "return fetch('{path}', {{ headers: {{ accept: 'text/html' }} }}).then((answer) => answer.status)"
        )
    };
    assert_eq!(browser.eval(&status("/settings")).await, json!(200));
    for part in ["keys", "waitpoint-keys", "namespaces", "configuration"] {
        assert_eq!(browser.eval(&status(&format!("/settings?show={part}"))).await, json!(403), "{part}");
    }
    browser.finish_after(&[403]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_hidden_from_scripts_ends_with_its_key_and_with_signing_out() {
    let server = start().await;
    let (id, key) = create(&server, "operator").await;
    let browser = Browser::start(&address(&server), Colours::Light).await;
    browser.open("/executions?state=failed").await;
    browser.wait_for("location.pathname === '/login'").await;
    browser.set("[name=key]", "wrong").await;
    browser.click("form button.primary").await;
    browser.wait_for("document.querySelector('[role=alert]')").await;
    browser.set("[name=key]", &key).await;
    browser.click("form button.primary").await;
    browser.wait_for("location.pathname === '/executions' && location.search === '?state=failed'").await;
    assert_eq!(browser.eval("return document.cookie").await, json!(""), "scripts do not see the session");
    let cookie = browser.cookie("selvedge-session");
    assert_eq!((&cookie["httpOnly"], &cookie["sameSite"]), (&json!(true), &json!("Strict")), "{cookie}");

    browser.click("form[action='/logout'] button").await;
    browser.wait_for("location.pathname === '/login'").await;
    browser.open("/executions").await;
    browser.wait_for("location.pathname === '/login'").await;
    sign_in(&browser, &key).await;
    browser.open("/executions").await;
    browser.wait_for("document.querySelector('.live').classList.contains('on')").await;
    assert_eq!(admin(&server, "DELETE", &format!("/v1/admin/keys/{id}"), Value::Null).await.status, 200);
    browser.wait_for("location.pathname === '/login'").await;
    browser.finish_after(&[401, 403]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_cannot_use_the_session() {
    let (server, other) = (start().await, Server::start().await);
    let browser = Browser::start(&address(&server), Colours::Light).await;
    sign_in(&browser, ADMIN).await;
    let cookie = browser.cookie("selvedge-session")["value"].as_str().expect("it has a value").to_owned();
    let cookie = format!("selvedge-session={cookie}");
    for headers in [
        vec![("cookie", cookie.as_str())],
        vec![("cookie", &cookie), ("origin", "http://evil.example")],
        vec![("cookie", &cookie), ("origin", "null")],
    ] {
        let reply = server.send("POST", "/v1/executions", &headers, b"{\"kind\": \"k\"}".to_vec()).await;
        assert_eq!((reply.status, reply.problem().1.as_str()), (403, "cross_origin"), "{headers:?}");
    }
    // The same browser on a page of another port: another origin of the same site, so that the cookie goes along.
    let submit = format!(
        "return fetch('{}/v1/executions', {{ method: 'POST', mode: 'no-cors', credentials: 'include', body: '{{\"kind\": \"k\"}}' }}).then(() => 'sent')",
        address(&server)
    );
    let count = async || {
        admin(&server, "GET", "/v1/executions", Value::Null).await.json()["items"].as_array().map(Vec::len)
    };
    browser.eval(&format!("location.assign('{}/openapi.json')", address(&other))).await;
    browser.wait_for("location.pathname === '/openapi.json'").await;
    assert_eq!(browser.eval(&submit).await, json!("sent"));
    assert_eq!(count().await, Some(0), "the server refused it");
    browser.open("/executions").await;
    assert_eq!(browser.eval(&submit).await, json!("sent"));
    assert_eq!(count().await, Some(1), "the same call from a page of the server works");
}
