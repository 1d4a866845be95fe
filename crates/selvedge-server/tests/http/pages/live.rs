//! The stream that tells pages of changes.

use crate::support::Server;
use serde_json::json;

#[tokio::test]
async fn a_page_is_told_once_of_many_changes() {
    let server = Server::start().await;
    let mut stream = server.open_stream("/live", &[]).await;
    let executions: Vec<_> = (0..200).map(|_| json!({ "kind": "k" })).collect();
    server.post("/v1/executions/batch", json!({ "executions": executions })).await;
    assert_eq!(stream.message().await.event, "changed");
    let id = server.submit(json!({ "kind": "k" })).await;
    let mut of_one = server.open_stream(&format!("/live?execution={id}"), &[]).await;
    let cancelled = server.post(&format!("/v1/executions/{id}/cancel"), json!({})).await;
    assert_eq!(cancelled.status, 200);
    assert_eq!(of_one.message().await.event, "changed");
}

#[tokio::test]
async fn a_client_without_streams_gets_one_event() {
    let server = Server::start().await;
    let reply = server.get("/live").await;
    assert_eq!((reply.status, reply.text().as_str()), (200, "event: changed\ndata: \n\n"));
}
