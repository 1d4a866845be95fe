//! Signing in with a key, what a session may do, and how it ends.

use super::{check_page, visit};
use crate::auth::{ADMIN, call, create, key, start};
use crate::support::{Reply, Server, text_of};
use serde_json::{Value, json};

/// Sends the form of the page for signing in. Returns the response.
async fn sign_in(server: &Server, form: &str, headers: &[(&str, &str)]) -> Reply {
    let origin = format!("http://{}", server.address);
    let mut all = vec![("accept", "text/html"), ("content-type", "application/x-www-form-urlencoded")];
    all.push(("origin", &origin));
    all.extend(headers);
    server.send_raw("POST", "/login", &all, form.into()).await
}

/// Signs in with a key. Returns the cookie.
async fn cookie_of(server: &Server, key: &str) -> String {
    let reply = sign_in(server, &format!("key={key}"), &[]).await;
    assert_eq!(reply.status, 303, "{}", reply.text());
    reply.header("set-cookie").split(';').next().expect("there is a cookie").to_owned()
}

async fn get(server: &Server, path: &str, cookie: &str) -> Reply {
    server.send_raw("GET", path, &[("accept", "text/html"), ("cookie", cookie)], Vec::new()).await
}

/// Calls the API with a session, from the page of an origin.
async fn post(server: &Server, path: &str, cookie: &str, origin: Option<&str>, body: Value) -> Reply {
    let mut headers = vec![("cookie", cookie), ("content-type", "application/json")];
    headers.extend(origin.map(|origin| ("origin", origin)));
    server.send_raw("POST", path, &headers, body.to_string().into()).await
}

#[tokio::test]
async fn a_page_without_a_session_leads_to_the_form_and_back() {
    let server = start().await;
    let page = visit(&server, "/executions?state=failed").await;
    assert_eq!((page.status, page.header("location")), (303, "/login?next=%2Fexecutions%3Fstate%3Dfailed"));
    let form = visit(&server, page.header("location")).await;
    check_page("/login", &form);
    assert!(form.text().contains("value=\"/executions?state=failed\""), "{}", form.text());
    let reply = sign_in(&server, &format!("key={ADMIN}&next=%2Fexecutions%3Fstate%3Dfailed"), &[]).await;
    assert_eq!((reply.status, reply.header("location")), (303, "/executions?state=failed"));
    let cookie = reply.header("set-cookie");
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(!cookie.contains(ADMIN) && !cookie.contains("Secure"), "{cookie}");
    let elsewhere = sign_in(&server, &format!("key={ADMIN}&next=%2F%2Fevil.example"), &[]).await;
    assert_eq!(elsewhere.header("location"), "/");
    // Browsers remove tabs and line breaks, and read a backslash as a slash.
    for next in [
        "%2F%09%2Fevil.example",
        "%2F%0A%2Fevil.example",
        "%09%2F%2Fevil.example",
        "%2F%5Cevil.example",
        "%2F%00%2Fevil.example",
    ] {
        let form = visit(&server, &format!("/login?next={next}")).await;
        assert!(form.status == 200 && !form.text().contains("evil.example"), "{next}: {}", form.text());
        let reply = sign_in(&server, &format!("key={ADMIN}&next={next}"), &[]).await;
        assert_eq!((reply.status, reply.header("location")), (303, "/"), "{next}");
    }
    let secure = sign_in(&server, &format!("key={ADMIN}"), &[("x-forwarded-proto", "https")]).await;
    assert!(secure.header("set-cookie").ends_with("; Secure"));
}

#[tokio::test]
async fn a_wrong_key_begins_no_session() {
    let server = start().await;
    for form in ["key=wrong", "key=", "", "namespace=default"] {
        let reply = sign_in(&server, form, &[]).await;
        assert!(matches!(reply.status, 403 | 422), "{form}: {}", reply.status);
        assert_eq!(reply.header("set-cookie"), "", "{form}");
        check_page("/login", &reply);
    }
    let foreign = server
        .send_raw("POST", "/login", &[("origin", "http://evil.example")], format!("key={ADMIN}").into())
        .await;
    assert_eq!(foreign.problem().1, "cross_origin");
}

#[tokio::test]
async fn a_cookie_that_was_changed_or_made_elsewhere_is_no_session() {
    let (server, other) = (start().await, start().await);
    let cookie = cookie_of(&server, ADMIN).await;
    assert_eq!(get(&server, "/", &cookie).await.status, 200);
    assert_eq!(get(&other, "/", &cookie).await.status, 303, "it was signed with another secret");
    let later = cookie.replacen(".1", ".2", 1);
    assert_ne!(later, cookie);
    for wrong in
        [later.as_str(), "selvedge-session=", "selvedge-session=v1.a.b.c.d", &cookie[..cookie.len() - 2]]
    {
        assert_eq!(get(&server, "/", wrong).await.status, 303, "{wrong}");
    }
}

#[tokio::test]
async fn a_change_with_a_session_must_come_from_a_page_of_this_server() {
    let server = start().await;
    let cookie = cookie_of(&server, ADMIN).await;
    let own = format!("http://{}", server.address);
    let body = || json!({ "kind": "k" });
    for origin in [None, Some("http://evil.example"), Some("null"), Some("http://127.0.0.1:1")] {
        let refused = post(&server, "/v1/executions", &cookie, origin, body()).await;
        assert_eq!(refused.problem().1, "cross_origin", "{origin:?}");
    }
    let accepted = post(&server, "/v1/executions", &cookie, Some(&own), body()).await;
    assert_eq!(accepted.status, 201, "{}", accepted.text());
    let headers = [("cookie", cookie.as_str()), ("origin", own.as_str()), ("sec-fetch-site", "cross-site")];
    let refused = server.send_raw("POST", "/v1/executions", &headers, body().to_string().into()).await;
    assert_eq!(refused.problem().1, "cross_origin");
}

#[tokio::test]
async fn what_a_role_may_not_do_is_not_shown() {
    let server = start().await;
    let submitted = call(&server, ADMIN, "POST", "/v1/executions", json!({ "kind": "k" })).await.json();
    let path = format!("/executions/{}", text_of(&submitted["execution"]["id"]));
    for (role, operates, administers) in
        [("reader", false, false), ("operator", true, false), ("admin", true, true)]
    {
        let namespace = if administers { "*" } else { "default" };
        let key = key(&server, role, role, &[namespace]).await;
        let cookie = cookie_of(&server, &key).await;
        let execution = get(&server, &path, &cookie).await.text();
        assert_eq!(execution.contains("/cancel\""), operates, "{role}: {execution}");
        let lanes = get(&server, "/lanes", &cookie).await.text();
        assert_eq!(lanes.contains("/pause\""), operates, "{role}");
        let about = get(&server, "/about", &cookie).await.text();
        assert_eq!(about.contains("API keys"), administers, "{role}");
        assert!(about.contains("Sign out") && about.contains(role), "{role}");
        let metrics = get(&server, "/metrics", &cookie).await;
        assert_eq!(metrics.status, if administers { 200 } else { 403 }, "{role}");
        if !administers {
            check_page("/metrics", &metrics);
            assert!(metrics.text().contains("does not have the permission"), "{}", metrics.text());
        }
    }
}

#[tokio::test]
async fn a_revoked_key_ends_its_sessions() {
    let server = start().await;
    let created = create(&server, "ann", "reader", &["default"]).await;
    let cookie = cookie_of(&server, created["key"].as_str().expect("the key is shown")).await;
    assert_eq!(get(&server, "/", &cookie).await.status, 200);
    let id = text_of(&created["id"]);
    assert_eq!(
        call(&server, ADMIN, "DELETE", &format!("/v1/admin/keys/{id}"), Value::Null).await.status,
        200
    );
    assert_eq!(get(&server, "/", &cookie).await.status, 303);
}

#[tokio::test]
async fn signing_out_removes_the_cookie() {
    let server = start().await;
    let cookie = cookie_of(&server, ADMIN).await;
    let origin = format!("http://{}", server.address);
    let out =
        server.send_raw("POST", "/logout", &[("cookie", &cookie), ("origin", &origin)], Vec::new()).await;
    assert_eq!((out.status, out.header("location")), (303, "/login"));
    assert!(
        out.header("set-cookie").starts_with("selvedge-session=; ")
            && out.header("set-cookie").contains("Max-Age=0")
    );
}

#[tokio::test]
async fn a_session_acts_in_the_namespace_that_was_chosen() {
    let server = start().await;
    let key = key(&server, "both", "operator", &["blue", "red"]).await;
    let cookie = cookie_of(&server, &key).await;
    let about = get(&server, "/about", &cookie).await.text();
    assert!(about.contains("<option value=\"blue\" selected>"), "{about}");
    let changed = sign_in(&server, "namespace=red", &[("cookie", &cookie)]).await;
    assert_eq!(changed.status, 303);
    let cookie = changed.header("set-cookie").split(';').next().expect("there is a cookie").to_owned();
    assert!(get(&server, "/about", &cookie).await.text().contains("<option value=\"red\" selected>"));
    let refused = sign_in(&server, &format!("key={key}&namespace=green"), &[]).await;
    assert_eq!((refused.status, refused.header("set-cookie")), (403, ""));
    let changed = sign_in(&server, "namespace=green", &[("cookie", &cookie)]).await;
    let cookie = changed.header("set-cookie").split(';').next().expect("there is a cookie").to_owned();
    assert_eq!(get(&server, "/", &cookie).await.status, 403);
}

#[tokio::test]
async fn a_server_without_keys_asks_for_none() {
    let server = Server::start().await;
    let page = visit(&server, "/login").await;
    assert_eq!((page.status, page.header("location")), (303, "/"));
    assert!(!visit(&server, "/").await.text().contains("Sign out"));
}

#[tokio::test]
async fn the_keys_of_an_administrator_are_listed_however_many_keys_others_have() {
    let server = start().await;
    call(&server, ADMIN, "PUT", "/v1/admin/namespaces/tenant", json!({})).await;
    let own = key(&server, "tenant-admin", "admin", &["tenant"]).await;
    // Newer keys of another namespace: more than the page shows.
    for number in 0..205 {
        create(&server, &format!("other-{number}"), "reader", &["default"]).await;
    }
    let cookie = cookie_of(&server, &own).await;
    let page = get(&server, "/settings?show=keys", &cookie).await.text();
    assert!(page.contains("tenant-admin"), "{page}");
    assert!(!page.contains("other-") && !page.contains("The newest 200 are shown"), "{page}");
    let listed = call(&server, &own, "GET", "/v1/admin/keys?limit=2", Value::Null).await.json();
    let names: Vec<String> =
        listed["items"].as_array().expect("it is a list").iter().map(|item| text_of(&item["name"])).collect();
    assert_eq!((names, &listed["next_cursor"]), (vec!["tenant-admin".to_owned()], &json!(null)));
    let page = get(&server, "/settings?show=keys", &cookie_of(&server, ADMIN).await).await.text();
    assert!(page.contains("other-204") && page.contains("The newest 200 are shown"), "{page}");
}
