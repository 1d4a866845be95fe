//! Whatever users send stays text.

use super::{check_page, visit};
use crate::support::{Server, op_with, text_of};
use serde_json::json;

/// Markup, a direction mark, an attribute's end, and the end of a comment.
const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\" onclick=\"x' --><img src=x>";

#[tokio::test]
async fn names_payloads_and_errors_stay_text_on_every_page() {
    let server = Server::start().await;
    let name = "<script>alert(1)</script>";
    server.configure("lanes/%3Cscript%3Ealert(1)%3C%2Fscript%3E", json!({ "concurrency": 1 })).await;
    let node = json!({ "name": name, "kind": name, "lane": name, "input": HOSTILE });
    let flow = server.submit_flow(json!({ "name": name, "tags": { "t": HOSTILE }, "nodes": [node] })).await;
    let id =
        server.submit(json!({ "kind": name, "input": { HOSTILE: HOSTILE }, "tags": { "t": HOSTILE } })).await;
    let claim = server.claim("i", 1).await;
    let claim = claim.first().expect("the execution is claimed");
    let frame = op_with("frame", claim, json!({ "kind": "stdout", "data": HOSTILE }));
    assert_eq!(server.report("i", frame).await["ok"], true);
    server.fail("i", claim, HOSTILE).await;
    let flow = format!("/flows/{}", text_of(&flow["flow"]["id"]));
    let (gantt, table) = (format!("{flow}?view=gantt"), format!("{flow}?view=table"));
    let execution = format!("/executions/{id}");
    for path in ["/", "/executions", &execution, "/flows", &flow, &gantt, &table, "/lanes", "/events"] {
        let page = visit(&server, path).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        let text = page.text();
        assert!(!text.contains("<script>") && !text.contains("<img"), "{path}: {text}");
        assert!(!text.contains("\" onclick"), "{path}: {text}");
        assert!(text.contains("&lt;script&gt;"), "{path}: {text}");
    }
}

#[tokio::test]
async fn a_large_payload_is_cut_and_many_tags_are_counted() {
    let server = Server::start().await;
    let tags: serde_json::Map<_, _> = (0..50).map(|index| (format!("tag{index:02}"), json!("v"))).collect();
    let id = server.submit(json!({ "kind": "k", "input": "x".repeat(900_000), "tags": tags })).await;
    let path = format!("/executions/{id}");
    let page = visit(&server, &path).await;
    check_page(&path, &page);
    assert!(page.body.len() < 100_000, "the page has {} bytes", page.body.len());
    assert!(page.text().contains("Whole as JSON") && page.text().contains("and 44 more"), "{}", page.text());
}
