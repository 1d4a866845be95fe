//! Connections within limits: slow, idle and superfluous ones harm nobody, and no page of another site gets in.

use crate::support::{Server, within};
use selvedge_engine::Options;
use selvedge_memory::Clock;
use selvedge_server::ConnectionLimits;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A head that announces a body of many bytes.
fn head_of_submission(bytes: usize) -> String {
    format!("POST /v1/executions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {bytes}\r\n\r\n")
}

async fn start(serving: selvedge_server::Options) -> Server {
    let options = Options { reconcilers: false, ..Options::default() };
    Server::start_serving(options, Clock::system(), serving).await
}

async fn start_with(connections: ConnectionLimits) -> Server {
    start(selvedge_server::Options { connections, ..selvedge_server::Options::default() }).await
}

/// Opens a connection and sends some bytes.
async fn open(server: &Server, bytes: &str) -> TcpStream {
    let mut stream = within(TcpStream::connect(server.address)).await.expect("the server accepts");
    stream.write_all(bytes.as_bytes()).await.expect("the bytes are sent");
    stream
}

/// Reads until the server closes the connection.
async fn read_to_end(mut stream: TcpStream) -> String {
    let mut read = Vec::new();
    // A connection that is closed while the client still sends may be reset after the answer.
    let _ = within(stream.read_to_end(&mut read)).await;
    String::from_utf8(read).expect("responses are text")
}

#[tokio::test]
async fn a_connection_that_is_idle_or_sends_its_head_slowly_is_closed() {
    let server =
        start_with(ConnectionLimits { head_time: Duration::from_millis(200), ..ConnectionLimits::default() })
            .await;
    for silent in ["", "PRI", "PRI * HTTP/2.0\r\n"] {
        assert_eq!(read_to_end(open(&server, silent).await).await, "", "{silent}");
    }
    let slow = read_to_end(open(&server, "GET /healthz HTTP/1.1\r\nhost: local").await).await;
    assert!(slow.is_empty() || slow.starts_with("HTTP/1.1 408"), "{slow}");
    let idle = open(&server, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(read_to_end(idle).await.starts_with("HTTP/1.1 200"), "it was closed after the response");
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_connection_beyond_the_limit_is_refused_in_words_until_another_one_ends() {
    let server = start_with(ConnectionLimits { connections: 2, ..ConnectionLimits::default() }).await;
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut stream = open(&server, request).await;
        let mut status = [0; 12];
        within(stream.read_exact(&mut status)).await.expect("the server responds");
        assert_eq!(&status, b"HTTP/1.1 200");
        kept.push(stream);
    }
    let refused = read_to_end(open(&server, request).await).await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains(r#""code":"overloaded""#), "{refused}");
    kept.pop();
    while read_to_end(
        open(&server, "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await,
    )
    .await
    .starts_with("HTTP/1.1 503")
    {}
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = Server::start().await;
    let large = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    let refused = read_to_end(open(&server, &large).await).await;
    assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 431"), "{refused}");
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn bodies_that_find_no_room_are_refused_until_others_are_handled() {
    let room = selvedge_server::Options { body_bytes: 1024 * 1024, ..selvedge_server::Options::default() };
    let server = start(room).await;
    let part = "x".repeat(900 * 1024);
    // Sends most of a body, and keeps it.
    let held = open(&server, &format!("{}{part}", head_of_submission(1_000_000))).await;
    let submission = json!({ "kind": "k", "input": part }).to_string();
    let refused = loop {
        let reply = server.post_text("/v1/executions", &submission).await;
        // Until the server has read what was sent before.
        if reply.status != 201 {
            break reply;
        }
    };
    assert_eq!(refused.problem(), (429, "rate_limited".into(), "".into()));
    assert_eq!(refused.headers["connection"], "close");
    drop(held);
    while server.post_text("/v1/executions", &submission).await.status != 201 {}
}

#[tokio::test]
async fn requests_for_a_host_that_is_not_loopback_are_refused() {
    let server = Server::start().await;
    for host in ["example.org", "127.0.0.1.example.org", "selvedge.internal:7878"] {
        for path in ["/", "/v1/executions", "/healthz"] {
            let reply = server.send("GET", path, &[("host", host)], Vec::new()).await;
            assert_eq!(reply.problem(), (403, "wrong_host".into(), "".into()), "{host} {path}");
        }
    }
    for host in ["localhost:80", "127.0.0.1", "[::1]:7878"] {
        let reply = server.send("GET", "/v1/executions", &[("host", host)], Vec::new()).await;
        assert_eq!(reply.status, 200, "{host}");
        assert_eq!(reply.headers["x-content-type-options"], "nosniff");
    }
}
