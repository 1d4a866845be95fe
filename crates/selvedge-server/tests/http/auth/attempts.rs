//! Failed attempts: they are slowed down, and nobody with a valid key notices.

use super::{ADMIN, call, check, key, start, start_with};
use crate::support::Server;
use selvedge_memory::Clock;
use selvedge_server::AuthOptions;
use serde_json::Value;

#[tokio::test]
async fn wrong_credentials_are_refused_without_a_word_about_them() {
    let server = start().await;
    for authorization in ["Bearer", "Bearer ", "Basic abc", "slv_abc", "Bearer slv_abcdefgh", "Bearer a b"] {
        let reply =
            server.send("GET", "/v1/executions", &[("authorization", authorization)], Vec::new()).await;
        check(&reply, 401, "unauthorized");
        assert_eq!(reply.headers["www-authenticate"], "Bearer");
        assert!(!reply.text().contains("abc"), "{}", reply.text());
    }
}

#[tokio::test]
async fn an_address_with_many_failures_has_to_wait_but_valid_keys_from_it_work() {
    let server = start().await;
    let ada = key(&server, "ada", "reader", &["default"]).await;
    // A well-formed key that does not exist, and one with a typing error.
    let (mut unknown, mut limited) = (0, 0);
    for number in 0..40 {
        let wrong = match number % 2 {
            0 => selvedge_engine::core::api_key::KeyText::new([number; 24]).reveal().to_owned(),
            _ => format!("{}{}", &ada[..42], if ada.ends_with('x') { 'y' } else { 'x' }),
        };
        let reply = call(&server, &wrong, "GET", "/v1/executions", Value::Null).await;
        match reply.status {
            401 => unknown += 1,
            429 => {
                limited += 1;
                check(&reply, 429, "rate_limited");
                assert!(reply.json()["retry_after_ms"].as_u64() >= Some(1000), "{}", reply.text());
            }
            other => panic!("{other}: {}", reply.text()),
        }
    }
    assert!(unknown >= 10 && limited >= 20, "{unknown} and {limited}");
    // The first use of a key from this address, and of the administrator's.
    let bob = key(&server, "bob", "reader", &["default"]).await;
    for key in [&ada, &bob, ADMIN] {
        let reply = call(&server, key, "GET", "/v1/executions", Value::Null).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
}

#[tokio::test]
async fn with_keys_the_host_does_not_matter_and_no_page_of_another_site_gets_in() {
    let server = start().await;
    let authorization = format!("Bearer {ADMIN}");
    let host = [("authorization", authorization.as_str()), ("host", "selvedge.example.org")];
    assert_eq!(server.send("GET", "/v1/executions", &host, Vec::new()).await.status, 200);
    let origin = [("origin", "https://example.org")];
    let reply = server.send("GET", "/v1/executions", &origin, Vec::new()).await;
    check(&reply, 401, "unauthorized");
    assert_eq!(reply.headers["x-content-type-options"], "nosniff");
    let reply = server.send("OPTIONS", "/v1/executions", &origin, Vec::new()).await;
    assert_eq!(reply.status, 405);
    assert!(reply.headers.keys().all(|name| !name.as_str().starts_with("access-control")), "{reply:?}");
}

#[tokio::test]
async fn a_browser_that_came_through_tls_is_told_to_use_only_tls() {
    let server = start().await;
    let policy = async |headers: &[(&str, &str)]| {
        let reply = server.send_raw("GET", "/docs", headers, Vec::new()).await;
        reply.header("strict-transport-security").to_owned()
    };
    let host = ("host", "selvedge.example.org");
    assert_eq!(policy(&[host, ("x-forwarded-proto", "https")]).await, "max-age=2592000");
    assert_eq!(policy(&[host, ("x-forwarded-proto", "http")]).await, "");
    assert_eq!(policy(&[host]).await, "");
    // Other programs on this machine may use plain HTTP.
    assert_eq!(policy(&[("x-forwarded-proto", "https")]).await, "");
}

#[tokio::test]
async fn a_refused_request_with_a_body_closes_its_connection() {
    let server = start().await;
    let reply = server.send("POST", "/v1/executions", &[], b"{}".to_vec()).await;
    check(&reply, 401, "unauthorized");
    assert_eq!(reply.headers["connection"], "close");
}

#[tokio::test]
async fn without_keys_an_authorization_header_is_ignored() {
    let server = Server::start().await;
    let reply = call(&server, "whatever", "GET", "/v1/executions", Value::Null).await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn a_key_that_makes_too_many_requests_has_to_wait_and_other_keys_do_not() {
    let options = AuthOptions { requests_per_second: Some(5), ..AuthOptions::default() };
    let server = start_with(Clock::system(), options).await;
    let (ada, bob) = (
        key(&server, "ada", "reader", &["default"]).await,
        key(&server, "bob", "reader", &["default"]).await,
    );
    let limited = loop {
        let reply = call(&server, &ada, "GET", "/v1/executions", Value::Null).await;
        if reply.status != 200 {
            break reply;
        }
    };
    check(&limited, 429, "rate_limited");
    assert!((1..=1000).contains(&limited.json()["retry_after_ms"].as_u64().expect("it says when")));
    let reply = call(&server, &bob, "GET", "/v1/executions", Value::Null).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
}
