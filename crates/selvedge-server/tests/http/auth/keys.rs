//! The life of a key: creation, use, expiry, revocation.

use super::{ADMIN, call, check, create, key, start, start_at};
use crate::support::within;
use selvedge_engine::core::Timestamp;
use selvedge_memory::Clock;
use serde_json::{Value, json};

const KEYS: &str = "/v1/admin/keys";

#[tokio::test]
async fn a_key_is_shown_once_and_works_at_once() {
    let server = start().await;
    let created = create(&server, "ada", "submitter", &["default"]).await;
    let key = created["key"].as_str().expect("the key is shown");
    assert!(key.starts_with("slv_") && key.len() == 43, "{key}");
    let reply = call(&server, key, "POST", "/v1/executions", json!({"kind": "k"})).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let listed = call(&server, ADMIN, "GET", KEYS, Value::Null).await;
    assert!(!listed.text().contains(key), "a list never has a key");
    let item = listed.json()["items"][0].clone();
    for field in ["id", "name", "role", "namespaces", "created_at", "expires_at", "revoked_at"] {
        assert_eq!(item[field], created[field], "{field}");
    }
    assert!(item.get("key").is_none(), "{item}");
}

#[tokio::test]
async fn the_name_of_the_key_is_the_actor_and_creation_and_revocation_are_events() {
    let server = start().await;
    let created = create(&server, "ada", "operator", &["default"]).await;
    let ada = created["key"].as_str().expect("the key is shown").to_owned();
    let submitted = call(&server, &ada, "POST", "/v1/executions", json!({"kind": "k"})).await.json();
    let id = submitted["execution"]["id"].as_str().expect("the execution has an id").to_owned();
    call(&server, &ada, "POST", &format!("/v1/executions/{id}/cancel"), json!({})).await;
    let path = format!("{KEYS}/{}", created["id"].as_str().expect("the key has an id"));
    for _ in 0..2 {
        let revoked = call(&server, ADMIN, "DELETE", &path, Value::Null).await;
        assert_eq!(revoked.status, 200, "{}", revoked.text());
        assert!(revoked.json()["revoked_at"].is_string(), "{}", revoked.text());
    }
    let events = call(&server, ADMIN, "GET", "/v1/events", Value::Null).await;
    assert!(!events.text().contains(&ada[4..20]), "no event has a part of the key");
    let events = events.json()["items"].as_array().expect("items is a list").clone();
    let of =
        |kind: &str| -> Vec<Value> { events.iter().filter(|event| event["type"] == kind).cloned().collect() };
    assert_eq!(of("execution.submitted")[0]["actor"], "ada");
    assert_eq!(of("execution.cancelled")[0]["actor"], "ada");
    let created_event = &of("key.created")[0];
    assert_eq!(created_event["actor"], "admin");
    assert_eq!(
        created_event["data"],
        json!({"key": created["id"], "name": "ada", "role": "operator", "namespaces": ["default"]})
    );
    let revoked = of("key.revoked");
    assert_eq!(revoked.len(), 1, "a second revocation changes nothing");
    assert_eq!(revoked[0]["data"], json!({"key": created["id"], "name": "ada"}));
}

#[tokio::test]
async fn a_revoked_key_is_refused_at_once_and_its_event_stream_ends() {
    let server = start().await;
    let created = create(&server, "ada", "reader", &["default"]).await;
    let ada = created["key"].as_str().expect("the key is shown").to_owned();
    let authorization = format!("Bearer {ada}");
    let mut stream = server.open_stream("/v1/events", &[("authorization", &authorization)]).await;
    assert_eq!(call(&server, &ada, "GET", "/v1/executions", Value::Null).await.status, 200);
    let path = format!("{KEYS}/{}", created["id"].as_str().expect("the key has an id"));
    assert_eq!(call(&server, ADMIN, "DELETE", &path, Value::Null).await.status, 200);
    check(&call(&server, &ada, "GET", "/v1/executions", Value::Null).await, 401, "unauthorized");
    // The revocation itself is the last event that the stream may carry.
    within(async { while stream.next().await.is_some() {} }).await;
}

#[tokio::test]
async fn an_expired_key_is_refused_and_none_is_created_for_the_past() {
    let clock = Clock::manual(Timestamp::from_millis(1_800_000_000_000));
    let server = start_at(clock.clone()).await;
    let body = |at: &str| json!({"name": "n", "role": "reader", "namespaces": ["default"], "expires_at": at});
    let past = call(&server, ADMIN, "POST", KEYS, body("2020-01-01T00:00:00.000Z")).await;
    check(&past, 422, "invalid_field");
    assert_eq!(past.json()["pointer"], "/expires_at");
    let created = call(&server, ADMIN, "POST", KEYS, body("2027-01-15T08:00:00.100Z")).await;
    assert_eq!(created.status, 201, "{}", created.text());
    let key = created.json()["key"].as_str().expect("the key is shown").to_owned();
    assert_eq!(call(&server, &key, "GET", "/v1/executions", Value::Null).await.status, 200);
    clock.advance_ms(1_000);
    within(async {
        // The server believes a key for at most the time that was left when it looked.
        while call(&server, &key, "GET", "/v1/executions", Value::Null).await.status == 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    check(&call(&server, &key, "GET", "/v1/executions", Value::Null).await, 401, "unauthorized");
}

#[tokio::test]
async fn a_repeated_creation_answers_the_same_id_without_the_key() {
    let server = start().await;
    let headers = [("authorization", format!("Bearer {ADMIN}")), ("idempotency-key", "once".to_owned())];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let body = json!({"name": "n", "role": "reader", "namespaces": ["default"]}).to_string();
    let first = server.send("POST", KEYS, &headers, body.clone().into()).await;
    let again = server.send("POST", KEYS, &headers, body.into()).await;
    assert_eq!((first.status, again.status), (201, 200), "{}", again.text());
    let (first, again) = (first.json(), again.json());
    assert_eq!(
        (&again["id"], &again["key"], &again["duplicate"]),
        (&first["id"], &Value::Null, &json!(true))
    );
    assert_eq!(again["created_at"], first["created_at"]);
    let listed = call(&server, ADMIN, "GET", KEYS, Value::Null).await.json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    let key = first["key"].as_str().expect("the key is shown");
    assert_eq!(call(&server, key, "GET", "/v1/lanes", Value::Null).await.status, 200);
}

#[tokio::test]
async fn the_last_use_of_a_key_is_recorded() {
    let server = start().await;
    let ada = key(&server, "ada", "reader", &["default"]).await;
    let last_use = async || {
        let listed = call(&server, ADMIN, "GET", KEYS, Value::Null).await.json();
        listed["items"][0]["last_used_at"].clone()
    };
    assert_eq!(last_use().await, Value::Null);
    call(&server, &ada, "GET", "/v1/lanes", Value::Null).await;
    within(async { while last_use().await.is_null() {} }).await;
}

#[tokio::test]
async fn keys_are_listed_in_pages_newest_first() {
    let server = start().await;
    for number in 0..5 {
        create(&server, &format!("key {number}"), "reader", &["default"]).await;
    }
    let (mut path, mut names) = (format!("{KEYS}?limit=2"), Vec::new());
    loop {
        let page = call(&server, ADMIN, "GET", &path, Value::Null).await.json();
        let items = page["items"].as_array().expect("items is a list").clone();
        names.extend(items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("{KEYS}?limit=2&cursor={cursor}");
    }
    assert_eq!(names, ["key 4", "key 3", "key 2", "key 1", "key 0"]);
    check(
        &call(&server, ADMIN, "GET", &format!("{KEYS}?cursor=zz"), Value::Null).await,
        400,
        "invalid_cursor",
    );
}

#[tokio::test]
async fn a_wrong_draft_of_a_key_is_refused_with_a_pointer() {
    let server = start().await;
    let valid = json!({"name": "n", "role": "reader", "namespaces": ["default"]});
    for (field, value, pointer) in [
        ("name", json!(""), "/name"),
        ("role", json!("root"), "/role"),
        ("namespaces", json!([]), "/namespaces"),
        ("namespaces", json!(["*"]), "/namespaces"),
        ("namespaces", json!(["a", ""]), "/namespaces/1"),
        ("expires_at", json!("soon"), "/expires_at"),
    ] {
        let mut body = valid.clone();
        body[field] = value;
        let reply = call(&server, ADMIN, "POST", KEYS, body).await;
        check(&reply, 422, "invalid_field");
        assert_eq!(reply.json()["pointer"], pointer, "{}", reply.text());
    }
    let unknown = "0190aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
    check(&call(&server, ADMIN, "DELETE", &format!("{KEYS}/{unknown}"), Value::Null).await, 404, "not_found");
}

#[tokio::test]
async fn only_operators_may_name_the_source_of_a_signal() {
    let server = start().await;
    let submitter = key(&server, "sam", "submitter", &["default"]).await;
    let operator = key(&server, "olga", "operator", &["default"]).await;
    let submitted = call(&server, &submitter, "POST", "/v1/executions", json!({"kind": "k"})).await.json();
    let id = submitted["execution"]["id"].as_str().expect("the execution has an id").to_owned();
    let path = format!("/v1/executions/{id}/signals");
    let send = async |key: &str, source: Option<&str>| {
        let mut body = json!({"name": "go"});
        if let Some(source) = source {
            body["source"] = json!(source);
        }
        call(&server, key, "POST", &path, body).await
    };
    assert_eq!(send(&submitter, None).await.json()["signal"]["source"], "sam");
    assert_eq!(send(&submitter, Some("sam")).await.json()["signal"]["source"], "sam");
    check(&send(&submitter, Some("ann")).await, 403, "forbidden");
    assert_eq!(send(&operator, Some("ann")).await.json()["signal"]["source"], "ann");
}
