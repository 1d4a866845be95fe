//! The ids of requests: chosen by the caller or by the server, and in every response.

use crate::support::Server;

#[tokio::test]
async fn every_response_has_the_id_that_its_caller_chose_or_one_of_its_own() {
    let server = Server::start().await;
    let id_of = async |path: &str, headers: &[(&str, &str)]| {
        let reply = server.send("GET", path, headers, Vec::new()).await;
        reply.header("x-request-id").to_owned()
    };
    for path in ["/healthz", "/v1/executions", "/no/such/path"] {
        assert_eq!(id_of(path, &[("x-request-id", "call-7")]).await, "call-7", "{path}");
        assert_eq!(id_of(path, &[]).await.len(), 16, "{path}");
    }
    let refused = [("x-request-id", "call-8"), ("host", "example.org")];
    assert_eq!(id_of("/healthz", &refused).await, "call-8");
    for unusable in ["a b", "\"", &"x".repeat(101)] {
        assert_eq!(id_of("/healthz", &[("x-request-id", unusable)]).await.len(), 16, "{unusable}");
    }
    assert_ne!(id_of("/healthz", &[]).await, id_of("/healthz", &[]).await);
}
