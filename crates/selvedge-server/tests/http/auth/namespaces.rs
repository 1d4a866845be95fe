//! The namespace of a request comes from its key alone, and what belongs to another namespace is not found.

use super::{ADMIN, call, call_in, check, create, key, start};
use crate::support::Server;
use selvedge_engine::Options;
use selvedge_memory::Clock;
use serde_json::{Value, json};

const READS: &[&str] = &[
    "",
    "/explain",
    "/attempts",
    "/events",
    "/result",
    "/stream",
    "/summary",
    "/signals",
    "/steps",
    "/waitpoints",
    "/upstreams",
    "/children",
    "/usage",
];
const ACTIONS: &[(&str, &str)] = &[
    ("cancel", "{}"),
    ("replay", "{}"),
    ("reschedule", r#"{"delay_ms": 1}"#),
    ("priority", r#"{"priority": 1}"#),
    ("tags", r#"{"set": {"a": "b"}}"#),
    ("revoke-lease", "{}"),
    ("resume", "{}"),
    ("signals", r#"{"name": "go"}"#),
];

async fn submit(server: &Server, key: &str, path: &str, body: Value) -> Value {
    let reply = call(server, key, "POST", path, body).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    reply.json()
}

#[tokio::test]
async fn a_thing_of_another_namespace_is_not_found_whatever_the_call() {
    let server = start().await;
    let (ann, bob) = (key(&server, "ann", "admin", &["a"]).await, key(&server, "bob", "admin", &["b"]).await);
    let execution = submit(&server, &ann, "/v1/executions", json!({"kind": "k"})).await;
    let execution = execution["execution"]["id"].as_str().expect("an id").to_owned();
    let flow = submit(&server, &ann, "/v1/flows", json!({"nodes": [{"name": "n", "kind": "k"}]})).await;
    let flow = flow["flow"]["id"].as_str().expect("an id").to_owned();
    for gate in ["quotas/q", "budgets/b"] {
        let body = if gate == "quotas/q" {
            json!({"concurrency": 1})
        } else {
            json!({"limits": {"n": {"hard": 1}}})
        };
        let reply = call(&server, &ann, "PUT", &format!("/v1/{gate}"), body).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    let suspended = submit(&server, &ann, "/v1/executions", json!({"kind": "k", "lane": "own"})).await;
    let suspended = suspended["execution"]["id"].as_str().expect("an id").to_owned();
    let claim = json!({"worker": "w", "lanes": ["own"], "max": 1});
    let claimed = call(&server, &ann, "POST", "/v1/workers/w/claim", claim).await.json()["claims"][0].clone();
    let op = json!({
        "op": "suspend", "execution": suspended, "attempt": claimed["attempt"], "lease_id": claimed["lease"]["id"],
        "epoch": claimed["lease"]["epoch"], "waitpoints": [{"name": "gate"}], "condition": {"signal": "go"},
    });
    let report = call(&server, &ann, "POST", "/v1/workers/w/report", json!({"ops": [op]})).await.json();
    let waitpoint =
        report["results"][0]["waitpoints"][0]["id"].as_str().unwrap_or_else(|| panic!("{report}"));
    let schedule = json!({"interval_ms": 1000, "submit": {"execution": {"kind": "k"}}});
    let reply = call(&server, &ann, "PUT", "/v1/schedules/s", schedule).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let mut calls: Vec<(&str, String, Value)> = Vec::new();
    calls.push(("GET", format!("/v1/waitpoints/{waitpoint}"), Value::Null));
    calls.push(("POST", format!("/v1/waitpoints/{waitpoint}/answer"), json!({"name": "go"})));
    for action in ["reissue", "revoke"] {
        calls.push(("POST", format!("/v1/waitpoints/{waitpoint}/{action}"), json!({})));
    }
    calls.push(("POST", "/v1/workers/w/drain".into(), json!({})));
    calls.push(("DELETE", "/v1/workers/w".into(), Value::Null));
    for end in ["", "/next", "/runs"] {
        calls.push(("GET", format!("/v1/schedules/s{end}"), Value::Null));
    }
    calls.push(("PATCH", "/v1/schedules/s".into(), json!({"paused": true})));
    calls.push(("POST", "/v1/schedules/s/run".into(), json!({})));
    calls.push(("DELETE", "/v1/schedules/s".into(), Value::Null));
    calls.extend(READS.iter().map(|end| ("GET", format!("/v1/executions/{execution}{end}"), Value::Null)));
    for (action, body) in ACTIONS {
        let body = serde_json::from_str(body).expect("the body is JSON");
        calls.push(("POST", format!("/v1/executions/{execution}/{action}"), body));
    }
    for end in ["", "/explain", "/graph", "/result"] {
        calls.push(("GET", format!("/v1/flows/{flow}{end}"), Value::Null));
    }
    calls.push(("POST", format!("/v1/flows/{flow}/cancel"), json!({})));
    calls.push(("POST", format!("/v1/flows/{flow}/nodes"), json!({"nodes": [{"name": "m", "kind": "k"}]})));
    for gate in ["quotas/q", "budgets/b"] {
        calls.push(("GET", format!("/v1/{gate}"), Value::Null));
        calls.push(("DELETE", format!("/v1/{gate}"), Value::Null));
    }
    calls.push(("POST", "/v1/budgets/b/reset".into(), json!({})));
    for (method, path, body) in &calls {
        let reply = call(&server, &bob, method, path, body.clone()).await;
        assert_eq!(reply.status, 404, "{method} {path}: {}", reply.text());
        let named = call_in(&server, &bob, Some("a"), method, path, body.clone()).await;
        check(&named, 403, "forbidden");
    }
    let lists = ["executions", "flows", "quotas", "budgets", "schedules", "events", "workers", "waitpoints"];
    for list in lists {
        let listed = call(&server, &bob, "GET", &format!("/v1/{list}"), Value::Null).await.json();
        assert_eq!(listed["items"], json!([]), "{list}");
    }
    let lanes = call(&server, &bob, "GET", "/v1/lanes", Value::Null).await.json();
    assert!(!lanes.to_string().contains("own"), "{lanes}");
    let bulk = json!({"action": {"type": "cancel"}, "ids": [execution]});
    let bulk = call(&server, &bob, "POST", "/v1/executions/bulk", bulk).await.json();
    assert_eq!(bulk["not_found"], json!([execution]), "{bulk}");
    let read = call(&server, &ann, "GET", &format!("/v1/executions/{execution}"), Value::Null).await.json();
    assert_eq!(
        (&read["state"], &read["namespace"]),
        (&json!("waiting"), &json!("a")),
        "nothing has changed it"
    );
}

#[tokio::test]
async fn the_administrator_picks_any_namespace_and_means_default_without_a_header() {
    let server = start().await;
    let created = call(&server, ADMIN, "PUT", "/v1/admin/namespaces/other", json!({})).await;
    assert_eq!(created.status, 201, "{}", created.text());
    for (namespace, expected) in [(None, "default"), (Some("other"), "other")] {
        let body = json!({"kind": "k"});
        let reply = call_in(&server, ADMIN, namespace, "POST", "/v1/executions", body).await;
        assert_eq!(reply.json()["execution"]["namespace"], expected, "{}", reply.text());
    }
    let wrong = call_in(&server, ADMIN, Some(""), "GET", "/v1/executions", Value::Null).await;
    check(&wrong, 422, "invalid_field");
    assert_eq!(wrong.json()["pointer"], "/headers/selvedge-namespace");
    let every = key(&server, "eve", "admin", &["*"]).await;
    let reply = call_in(&server, &every, Some("other"), "GET", "/v1/executions", Value::Null).await;
    assert_eq!(reply.json()["items"].as_array().map(Vec::len), Some(1), "{}", reply.text());
}

#[tokio::test]
async fn a_key_of_several_namespaces_must_name_one_except_for_work() {
    let server = start().await;
    let both = key(&server, "both", "operator", &["a", "b"]).await;
    let reply = call(&server, &both, "GET", "/v1/executions", Value::Null).await;
    check(&reply, 422, "namespace_required");
    assert!(reply.text().contains("a, b"), "{}", reply.text());
    check(&call(&server, &both, "POST", "/v1/workers/w/drain", json!({})).await, 422, "namespace_required");
    for namespace in ["a", "b"] {
        let body = json!({"kind": "k"});
        let reply = call_in(&server, &both, Some(namespace), "POST", "/v1/executions", body).await;
        assert_eq!(reply.json()["execution"]["namespace"], namespace, "{}", reply.text());
    }
    check(&call_in(&server, &both, Some("c"), "GET", "/v1/executions", Value::Null).await, 403, "forbidden");
}

#[tokio::test]
async fn an_administrator_of_some_namespaces_cannot_reach_beyond_them() {
    let server = start().await;
    let ann = key(&server, "ann", "admin", &["a"]).await;
    let foreign = create(&server, "bob", "reader", &["b"]).await;
    for namespaces in [json!(["b"]), json!(["a", "b"]), json!(["*"])] {
        let body = json!({"name": "n", "role": "admin", "namespaces": namespaces});
        check(&call(&server, &ann, "POST", "/v1/admin/keys", body).await, 403, "forbidden");
    }
    let own = json!({"name": "n", "role": "operator", "namespaces": ["a"]});
    assert_eq!(call(&server, &ann, "POST", "/v1/admin/keys", own).await.status, 201);
    let path = format!("/v1/admin/keys/{}", foreign["id"].as_str().expect("an id"));
    check(&call(&server, &ann, "DELETE", &path, Value::Null).await, 404, "not_found");
    let listed = call(&server, &ann, "GET", "/v1/admin/keys", Value::Null).await.json();
    let names: Vec<&str> =
        listed["items"].as_array().expect("a list").iter().filter_map(|item| item["name"].as_str()).collect();
    assert_eq!(names, ["n", "ann"]);
    // Pages are full, and their cursors name own keys, whatever lies between them.
    for number in 0..5 {
        create(&server, &format!("foreign {number}"), "reader", &["b"]).await;
    }
    let page = call(&server, &ann, "GET", "/v1/admin/keys?limit=1", Value::Null).await.json();
    assert_eq!(page["items"][0]["name"], "n", "{page}");
    let path = format!("/v1/admin/keys?limit=1&cursor={}", page["next_cursor"].as_str().expect("a cursor"));
    let page = call(&server, &ann, "GET", &path, Value::Null).await.json();
    assert_eq!((&page["items"][0]["name"], &page["next_cursor"]), (&json!("ann"), &Value::Null), "{page}");
    for (method, body) in [("GET", Value::Null), ("PUT", json!({"weight": 2}))] {
        check(&call(&server, &ann, method, "/v1/admin/namespaces/b", body).await, 403, "forbidden");
    }
    let listed = call(&server, &ann, "GET", "/v1/admin/namespaces", Value::Null).await.json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
}

#[tokio::test]
async fn namespaces_are_created_configured_and_listed() {
    let server = start().await;
    let put = async |body: Value| call(&server, ADMIN, "PUT", "/v1/admin/namespaces/team", body).await;
    let created = put(json!({"weight": 3, "retention_ms": 60_000})).await;
    let expected = json!({
        "name": "team", "suspension_timeout_ms": null, "retention_ms": 60_000, "weight": 3, "deleting": false,
    });
    assert_eq!((created.status, created.json()), (201, expected.clone()));
    let read = call(&server, ADMIN, "GET", "/v1/admin/namespaces/team", Value::Null).await;
    assert_eq!(read.json(), expected);
    let replaced = put(json!({})).await;
    assert_eq!((replaced.status, &replaced.json()["weight"]), (200, &json!(1)));
    for (body, pointer) in [(json!({"weight": 0}), "/weight"), (json!({"retention_ms": -1}), "/retention_ms")]
    {
        let reply = put(body).await;
        check(&reply, 422, "invalid_field");
        assert_eq!(reply.json()["pointer"], pointer);
    }
    let listed = call(&server, ADMIN, "GET", "/v1/admin/namespaces", Value::Null).await.json();
    let names: Vec<&str> =
        listed["items"].as_array().expect("a list").iter().filter_map(|item| item["name"].as_str()).collect();
    assert_eq!(names, ["default", "team"]);
    check(&call(&server, ADMIN, "GET", "/v1/admin/namespaces/none", Value::Null).await, 404, "not_found");
}

#[tokio::test]
async fn the_retention_of_a_namespace_applies_to_submissions_that_give_none() {
    let server = start().await;
    let put = async |retention_ms: Value| {
        let body = json!({"retention_ms": retention_ms});
        call(&server, ADMIN, "PUT", "/v1/admin/namespaces/default", body).await;
    };
    put(json!(60_000)).await;
    let id = "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
    let execution = json!({"kind": "k", "id": id});
    let first = submit(&server, ADMIN, "/v1/executions", execution.clone()).await;
    assert_eq!(first["execution"]["retention_ms"], 60_000, "{first}");
    let own =
        submit(&server, ADMIN, "/v1/executions", json!({"kind": "k", "retention_ms": 604_800_000})).await;
    assert_eq!(
        own["execution"]["retention_ms"], 604_800_000,
        "the default of the server, given, is not replaced"
    );
    let flow = json!({"nodes": [{"name": "a", "kind": "k"}, {"name": "b", "kind": "k", "retention_ms": 5}]});
    let flow = submit(&server, ADMIN, "/v1/flows", flow).await;
    assert_eq!(flow["flow"]["retention_ms"], 60_000, "{flow}");
    put(Value::Null).await;
    let again = call(&server, ADMIN, "POST", "/v1/executions", execution).await;
    assert_eq!(
        (again.status, &again.json()["duplicate"]),
        (200, &json!(true)),
        "a repeat is the same as before"
    );
    let later = submit(&server, ADMIN, "/v1/executions", json!({"kind": "k"})).await;
    assert_eq!(later["execution"]["retention_ms"], 604_800_000);
}

#[tokio::test]
async fn without_keys_there_is_only_the_default_namespace() {
    let server = Server::start().await;
    let other = server.send("GET", "/v1/executions", &[("selvedge-namespace", "other")], Vec::new()).await;
    check(&other, 403, "forbidden");
    let default =
        server.send("GET", "/v1/executions", &[("selvedge-namespace", "default")], Vec::new()).await;
    assert_eq!(default.status, 200);
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_not_found_and_creates_nothing() {
    let server = start().await;
    for name in ["typo", "*", "Default"] {
        for (method, path, body) in [
            ("GET", "/v1/executions", Value::Null),
            ("POST", "/v1/executions", json!({"kind": "k"})),
            ("POST", "/v1/workers/w/claim", json!({"worker": "w", "lanes": ["l"], "max": 1})),
            ("GET", "/v1/admin/namespaces", Value::Null),
            ("GET", "/executions", Value::Null),
        ] {
            let reply = call_in(&server, ADMIN, Some(name), method, path, body).await;
            check(&reply, 404, "unknown_namespace");
            assert_eq!(reply.json()["pointer"], "/headers/selvedge-namespace");
            assert!(reply.text().contains("selvedge namespaces set"), "{}", reply.text());
        }
    }
    check(&call(&server, ADMIN, "PUT", "/v1/admin/namespaces/*", json!({})).await, 422, "invalid_field");
    let listed = call(&server, ADMIN, "GET", "/v1/admin/namespaces", Value::Null).await.json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "only default exists: {listed}");
    // A key of one namespace learns nothing about others, whether they exist or not.
    let ann = key(&server, "ann", "admin", &["a"]).await;
    call(&server, ADMIN, "PUT", "/v1/admin/namespaces/b", json!({})).await;
    let replies =
        ["b", "typo"].map(|name| call_in(&server, &ann, Some(name), "GET", "/v1/executions", Value::Null));
    for reply in futures_util::future::join_all(replies).await {
        check(&reply, 403, "forbidden");
    }
}

#[tokio::test]
async fn a_session_does_not_begin_in_a_namespace_that_does_not_exist() {
    let server = start().await;
    let sign_in = async |form: String| {
        let headers =
            [("content-type", "application/x-www-form-urlencoded"), ("sec-fetch-site", "same-origin")];
        // The document describes refused forms as problems; this one is the page again.
        server.send_raw("POST", "/login", &headers, form.into()).await
    };
    let refused = sign_in(format!("key={ADMIN}&namespace=typo")).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("there is no namespace"), "{}", refused.text());
    assert!(!refused.headers.contains_key("set-cookie"));
    call(&server, ADMIN, "PUT", "/v1/admin/namespaces/typo", json!({})).await;
    assert_eq!(sign_in(format!("key={ADMIN}&namespace=typo")).await.status, 303);
}

#[tokio::test]
async fn a_server_that_is_told_to_creates_the_namespaces_that_requests_name() {
    let admin_key = Some(selvedge_server::AdminKey::new(ADMIN).expect("the key is valid"));
    let auth = selvedge_server::AuthOptions { admin_key, ..Default::default() };
    let serving = selvedge_server::Options { auth, ..Default::default() };
    let options = Options { reconcilers: false, create_namespaces: true, ..Options::default() };
    let server = Server::start_serving(options, Clock::system(), serving).await;
    let reply = call_in(&server, ADMIN, Some("new"), "POST", "/v1/executions", json!({"kind": "k"})).await;
    assert_eq!(reply.json()["execution"]["namespace"], "new", "{}", reply.text());
    let star = call_in(&server, ADMIN, Some("*"), "POST", "/v1/executions", json!({"kind": "k"})).await;
    check(&star, 404, "unknown_namespace");
}

#[tokio::test]
async fn an_id_that_another_namespace_has_is_taken_and_nothing_more_is_said() {
    let server = start().await;
    let (ann, bob) =
        (key(&server, "ann", "submitter", &["a"]).await, key(&server, "bob", "worker", &["b"]).await);
    let (id, flow) = ("0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001", "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0002");
    let graph = json!({"id": flow, "nodes": [{"name": "n", "kind": "k"}]});
    submit(&server, &ann, "/v1/executions", json!({"kind": "k", "id": id})).await;
    submit(&server, &ann, "/v1/flows", graph.clone()).await;
    let mut problems = Vec::new();
    for (path, body) in [
        ("/v1/executions", json!({"kind": "k", "id": id})),
        ("/v1/executions", json!({"kind": "other", "id": id})),
        ("/v1/executions", json!({"kind": "k", "id": flow})),
        ("/v1/flows", graph.clone()),
        ("/v1/flows", json!({"id": flow, "nodes": [{"name": "m", "kind": "other"}]})),
        ("/v1/flows", json!({"id": id, "nodes": [{"name": "n", "kind": "k"}]})),
    ] {
        let reply = call(&server, &bob, "POST", path, body).await;
        check(&reply, 409, "id_taken");
        assert_eq!(reply.json()["pointer"], "/id");
        problems.push(reply.json());
    }
    assert!(problems.iter().all(|problem| *problem == problems[0]), "{problems:#?}");
    let batch = json!({"executions": [{"kind": "k", "id": id}, {"kind": "k"}]});
    let batch = call(&server, &bob, "POST", "/v1/executions/batch", batch).await.json();
    assert_eq!(batch["results"][0]["error"]["code"], "id_taken", "{batch}");
    assert_eq!(batch["results"][1]["duplicate"], false, "{batch}");
    let own = submit(&server, &bob, "/v1/flows", json!({"nodes": [{"name": "n", "kind": "k"}]})).await;
    let path = format!("/v1/flows/{}/nodes", own["flow"]["id"].as_str().expect("an id"));
    let grown =
        call(&server, &bob, "POST", &path, json!({"nodes": [{"name": "m", "kind": "k", "id": id}]})).await;
    check(&grown, 409, "id_taken");
    assert_eq!(grown.json()["pointer"], "/nodes/0/id");
    // In its own namespace the id means what it meant before.
    let again = call(&server, &ann, "POST", "/v1/executions", json!({"kind": "k", "id": id})).await;
    assert_eq!((again.status, &again.json()["duplicate"]), (200, &json!(true)));
    let other = call(&server, &ann, "POST", "/v1/executions", json!({"kind": "other", "id": id})).await;
    check(&other, 409, "idempotency_mismatch");
}
