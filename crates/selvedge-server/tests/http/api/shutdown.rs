//! Shutdown: waiting requests are answered at once, and then the server stops.

use crate::support::{Server, fence, op, within};
use serde_json::json;

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
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the server no longer listens");
}

async fn send_post(address: std::net::SocketAddr, path: &str, body: String) -> String {
    let length = body.len();
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}");
    send_raw(address, request).await
}

/// Sends a request byte for byte and reads until the server closes the connection.
async fn send_raw(address: std::net::SocketAddr, request: String) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("the server accepts");
    stream.write_all(request.as_bytes()).await.expect("the request is sent");
    let mut response = String::new();
    let _ = stream.read_to_string(&mut response).await;
    response
}

#[tokio::test]
async fn a_listener_that_is_not_loopback_is_refused() {
    let server = Server::start().await;
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.expect("a free port is bound");
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
