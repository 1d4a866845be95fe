//! A server that closes answers those who wait, at once, and then stops.

use crate::client::{Server, fence, op, within};
use serde_json::json;

#[tokio::test]
async fn calls_that_wait_are_answered_when_the_server_closes() {
    let mut server = Server::start().await;
    let id = server.submit(json!({ "kind": "k" })).await;
    server.submit(json!({ "kind": "k" })).await;
    let claims = server.claim("i", 2).await;
    let waits = json!({ "worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 60_000 });
    let calls = [
        ("/v1/workers/j/claim", waits.clone()),
        ("/v1/workers/i/report", json!({ "ops": [op("complete", &claims[1])], "claim": waits })),
        ("/v1/workers/i/heartbeat", json!({ "leases": [fence(&claims[0])], "wait_ms": 60_000 })),
    ];
    let address = server.address;
    let mut replies = Vec::new();
    for (path, body) in calls {
        replies.push(tokio::spawn(raw_post(address, path, body.to_string())));
    }
    for noun in ["executions", "flows"] {
        let result = format!("GET /v1/{noun}/{id}/result?wait_ms=60000 HTTP/1.1\r\nhost: x\r\n\r\n");
        replies.push(tokio::spawn(raw(address, result)));
    }
    server.until_claims_wait(2).await;
    // The others wait for nothing that can be seen from outside: their answers are the same whether they were
    // already waiting or came just before the end.
    server.stop().await;
    let mut answers = Vec::new();
    for reply in replies {
        answers.push(within(reply).await.expect("no panic"));
    }
    assert!(answers[0].ends_with(r#"{"claims":[]}"#), "{}", answers[0]);
    assert!(
        answers[1].ends_with(r#"{"results":[{"ok":true,"state":"completed"}],"claims":[]}"#),
        "{}",
        answers[1]
    );
    for answer in &answers[2..] {
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 20"), "{answer}");
    }
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nobody listens any more");
}

async fn raw_post(address: std::net::SocketAddr, path: &str, body: String) -> String {
    let length = body.len();
    raw(address, format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}")).await
}

/// Sends a request as it is and reads until the server closes the connection.
async fn raw(address: std::net::SocketAddr, request: String) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("connects");
    stream.write_all(request.as_bytes()).await.expect("is sent");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    answer
}

#[tokio::test]
async fn a_listener_that_others_could_reach_is_refused() {
    let server = Server::start().await;
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.expect("a port");
    let served = selvedge_server::serve(server.engine.clone(), listener, std::future::pending());
    let refused = within(served).await.expect_err("is refused");
    assert!(refused.to_string().contains("loopback"), "{refused}");
}

#[tokio::test]
async fn a_client_that_goes_away_takes_nothing_with_it() {
    let server = Server::start().await;
    let body = json!({ "worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 60_000 });
    let waiting = tokio::spawn(raw_post(server.address, "/v1/workers/gone/claim", body.to_string()));
    server.until_claims_wait(1).await;
    waiting.abort();
    server.until_claims_wait(0).await;
    server.submit(json!({ "kind": "k" })).await;
    assert_eq!(server.claim("here", 1).await.len(), 1);
}
