//! Shutdown: waiting requests are answered at once, and then the server stops.

use crate::support::{Server, fence, op, within};
use selvedge_engine::Options;
use selvedge_memory::Clock;
use selvedge_server::ConnectionLimits;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn waiting_requests_are_answered_when_the_server_shuts_down() {
    let mut server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    server.submit(json!({ "kind": "k" })).await;
    let claims = server.claim("i", 2).await;
    let waiting_claim = json!({ "worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 60_000 });
    let requests = [
        ("/v1/workers/j/claim", waiting_claim.clone()),
        ("/v1/workers/i/report", json!({ "ops": [op("complete", &claims[1])], "claim": waiting_claim })),
        ("/v1/workers/i/heartbeat", json!({ "leases": [fence(&claims[0])], "wait_ms": 60_000 })),
    ];
    let address = server.address;
    let mut pending = Vec::new();
    for (path, body) in requests {
        pending.push(tokio::spawn(send_post(address, path, body.to_string())));
    }
    for resource in ["executions", "flows"] {
        let result =
            format!("GET /v1/{resource}/{id}/result?wait_ms=60000 HTTP/1.1\r\nhost: localhost\r\n\r\n");
        pending.push(tokio::spawn(send_raw(address, result)));
    }
    server.wait_for_claims(2).await;
    // The other requests cannot be observed while they wait. Their responses are the same whether they were already
    // waiting or arrived just before the shutdown.
    server.stop().await;
    let mut responses = Vec::new();
    for response in pending {
        responses.push(within(response).await.expect("the request does not panic"));
    }
    assert!(responses[0].ends_with(r#"{"claims":[],"drain":false,"duplicate":false}"#), "{}", responses[0]);
    assert!(
        responses[1].ends_with(r#"{"results":[{"ok":true,"state":"completed"}],"claims":[],"drain":false}"#),
        "{}",
        responses[1]
    );
    for response in &responses[2..] {
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 20"), "{response}");
    }
    assert!(TcpStream::connect(address).await.is_err(), "the server no longer listens");
}

async fn send_post(address: std::net::SocketAddr, path: &str, body: String) -> String {
    let length = body.len();
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}");
    send_raw(address, request).await
}

/// Sends a request byte for byte and reads until the server closes the connection.
async fn send_raw(address: std::net::SocketAddr, request: String) -> String {
    let mut stream = TcpStream::connect(address).await.expect("the server accepts");
    stream.write_all(request.as_bytes()).await.expect("the request is sent");
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response).await;
    response
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_connections_without_a_request() {
    let serving = selvedge_server::Options {
        grace: Duration::from_secs(3600),
        connections: ConnectionLimits { head_time: Duration::from_secs(3600), ..ConnectionLimits::default() },
        ..selvedge_server::Options::default()
    };
    let options = Options { reconcilers: false, ..Options::default() };
    let mut server = Server::start_serving(options, Clock::system(), serving).await;
    let mut streams = Vec::new();
    for begun in ["", "PRI * HTTP/2.0\r\n"] {
        let mut stream = TcpStream::connect(server.address).await.expect("the server accepts");
        stream.write_all(begun.as_bytes()).await.expect("the bytes are sent");
        streams.push(stream);
    }
    // Accepted after the others.
    assert_eq!(server.get("/healthz").await.status, 200);
    server.stop().await;
}

#[tokio::test]
async fn the_listener_of_metrics_is_not_ready_after_the_shutdown_of_the_server_has_begun() {
    let serving = selvedge_server::Options::default();
    let options = Options { reconcilers: false, ..Options::default() };
    let mut server = Server::start_serving(options, Clock::system(), serving.clone()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port is bound");
    let address = listener.local_addr().expect("the listener has an address");
    let (engine, never) = (server.engine.clone(), std::future::pending());
    tokio::spawn(selvedge_server::serve_metrics(serving, engine, listener, never));
    let get = async |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        within(send_raw(address, request)).await
    };
    assert!(get("/readyz").await.starts_with("HTTP/1.1 200"));
    server.stop().await;
    let refused = get("/readyz").await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("shutting_down"), "{refused}");
    assert!(get("/metrics").await.starts_with("HTTP/1.1 200"));
    assert!(get("/healthz").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_listener_that_is_not_loopback_is_refused() {
    let server = Server::start().await;
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("a free port is bound");
    let served = selvedge_server::serve(server.engine.clone(), listener, std::future::pending());
    let refused = within(served).await.expect_err("the listener is refused");
    assert!(refused.to_string().contains("loopback"), "{refused}");
}

#[tokio::test]
async fn a_client_that_disconnects_while_it_waits_claims_nothing() {
    let server = Server::start().await;
    let body = json!({ "worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 60_000 });
    let waiting = tokio::spawn(send_post(server.address, "/v1/workers/gone/claim", body.to_string()));
    server.wait_for_claims(1).await;
    waiting.abort();
    server.wait_for_claims(0).await;
    server.submit(json!({ "kind": "k" })).await;
    assert_eq!(server.claim("here", 1).await.len(), 1);
}
