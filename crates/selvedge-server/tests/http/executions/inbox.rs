//! The inbox of a store without SQL submission is empty. `selvedge-cli/tests/binary/inbox.rs` has the one on Postgres.

use crate::support::Server;
use serde_json::json;

#[tokio::test]
async fn a_store_without_sql_has_an_empty_inbox() {
    let server = Server::start().await;
    let inbox = server.read("inbox").await;
    assert_eq!(
        inbox,
        json!({ "pending": 0, "oldest_pending_at": null, "refused_count": 0, "items": [], "next_cursor": null })
    );
    for number in ["7", "-1", "x", "99999999999999999999"] {
        for reply in [
            server.post(&format!("/v1/inbox/{number}/retry"), json!({})).await,
            server.delete(&format!("/v1/inbox/{number}")).await,
        ] {
            assert_eq!((reply.status, &reply.json()["code"]), (404, &json!("not_found")), "{number}");
        }
    }
    let reply = server.post("/v1/inbox/7/retry", json!({ "unknown": 1 })).await;
    assert_eq!(reply.json()["code"], "unknown_field");
    let reply = server.get("/v1/inbox?cursor=x").await;
    assert_eq!(reply.json()["code"], "invalid_cursor");
}
