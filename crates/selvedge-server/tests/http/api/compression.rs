//! Compression of answers: for callers that accept it, above 1 KiB, and never for event streams.

use crate::support::{Reply, Server};
use serde_json::json;

/// The first bytes of gzip and of zstd.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

async fn get(server: &Server, path: &str, accept: &str) -> Reply {
    server.send_raw("GET", path, &[("accept-encoding", accept)], Vec::new()).await
}

#[tokio::test]
async fn a_large_answer_is_compressed_as_the_caller_prefers() {
    let server = Server::start().await;
    let plain = server.get("/openapi.json").await;
    assert_eq!(plain.header("content-encoding"), "");
    for (accept, encoding, magic) in [
        ("gzip", "gzip", GZIP),
        ("zstd", "zstd", ZSTD),
        ("gzip, deflate, br, zstd", "zstd", ZSTD),
        ("gzip;q=1.0, zstd;q=0.5", "gzip", GZIP),
        ("gzip;q=0.2, zstd;q=0.9", "zstd", ZSTD),
        ("zstd;q=0, gzip", "gzip", GZIP),
        ("identity;q=0.1, gzip;q=0.5", "gzip", GZIP),
    ] {
        let reply = get(&server, "/openapi.json", accept).await;
        assert_eq!((reply.status, reply.header("content-encoding")), (200, encoding), "{accept}");
        assert_eq!(reply.header("content-length"), reply.body.len().to_string(), "{accept}");
        assert_eq!(reply.header("vary"), "accept-encoding", "{accept}");
        assert!(reply.body.starts_with(magic), "{accept}");
        assert!(reply.body.len() * 4 < plain.body.len(), "{accept}: {} bytes", reply.body.len());
    }
    for accept in ["", "identity", "br", "gzip;q=0", "gzip;q=0, zstd;q=0", "nonsense;;q=x,"] {
        let reply = get(&server, "/openapi.json", accept).await;
        assert_eq!((reply.header("content-encoding"), &reply.body), ("", &plain.body), "{accept}");
    }
}

#[tokio::test]
async fn only_answers_above_1_kib_are_compressed() {
    let server = Server::start().await;
    let small = get(&server, "/healthz", "gzip, zstd").await;
    assert_eq!(small.header("content-encoding"), "");
    let problem = get(&server, "/v1/executions/none", "gzip, zstd").await;
    assert_eq!((problem.status, problem.header("content-encoding")), (404, ""));
    let id = server.submit(json!({ "kind": "k", "input": "x".repeat(10_000) })).await;
    let path = format!("/v1/executions/{id}");
    assert_eq!(get(&server, &path, "gzip").await.header("content-encoding"), "gzip");
    let head = server.send_raw("HEAD", &path, &[("accept-encoding", "gzip")], Vec::new()).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[tokio::test]
async fn an_event_stream_is_never_compressed() {
    let server = Server::start().await;
    let mut stream =
        server.open_stream("/v1/events?from=beginning", &[("accept-encoding", "gzip, zstd")]).await;
    server.submit(json!({ "kind": "k", "tags": { "t": "x".repeat(500) } })).await;
    assert_eq!(stream.message().await.event, "execution.submitted");
}
