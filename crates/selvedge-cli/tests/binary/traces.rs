//! Traces: the context of a submission reaches workers, and spans reach a collector.

use crate::support::{Directory, Place, Server, Sqlite, claim, command, complete, post, text};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::Duration;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SUBMITTER: &str = "00f067aa0ba902b7";

/// Submits with a `traceparent` header.
fn submit_in_trace(url: &str, path: &str, body: &Value) -> Value {
    let header = format!("traceparent: 00-{TRACE}-{SUBMITTER}-01");
    let curl = Command::new("curl")
        .args(["--silent", "--fail", "--header", &header, "--data-binary", &body.to_string()])
        .arg(format!("{url}/v1/{path}"))
        .output();
    serde_json::from_slice(&curl.expect("curl starts").stdout).expect("the response is JSON")
}

/// Starts a collector that answers every request and passes the spans on. Returns its address.
fn collector(tls: Option<Arc<ServerConfig>>) -> (SocketAddr, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port is bound");
    let address = listener.local_addr().expect("the listener has an address");
    let (sender, spans) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            match tls.clone() {
                None => collect(stream, &sender),
                Some(tls) => {
                    let session = ServerConnection::new(tls).expect("the certificate can be used");
                    collect(StreamOwned::new(session, stream), &sender);
                }
            }
        }
    });
    (address, spans)
}

/// Answers the requests of one connection, until the exporter closes it.
fn collect(stream: impl Read + Write, sender: &mpsc::Sender<Value>) {
    let mut reader = BufReader::new(stream);
    while let Some(body) = read_request(&mut reader) {
        let document: Value = serde_json::from_slice(&body).expect("the body is JSON");
        let parts = document["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().cloned();
        for span in parts.expect("there are spans") {
            if sender.send(span).is_err() {
                return;
            }
        }
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        reader.get_mut().write_all(answer.as_bytes()).expect("the answer is sent");
    }
}

/// Reads a request to `/v1/traces`. Returns its body; none at the end of the connection.
fn read_request(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    assert!(line.starts_with("POST /v1/traces "), "{line}");
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("the length is a number");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(body)
}

#[test]
fn workers_get_the_trace_of_the_submission_and_children_inherit_it() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    submit_in_trace(&server.url, "executions", &json!({"kind": "parent"}));
    let parent = claim(&server.url, "w-1", 1, 10_000).remove(0);
    assert_eq!(text(&parent["traceparent"]), format!("00-{TRACE}-{SUBMITTER}-01"));
    let spawn = json!({
        "op": "spawn", "execution": parent["execution"]["id"], "attempt": parent["attempt"],
        "lease_id": parent["lease"]["id"], "epoch": parent["lease"]["epoch"],
        "nodes": [{"name": "child", "kind": "k"}],
    });
    let (status, response) = post(&format!("{}/v1/workers/w-1/report", server.url), &json!({"ops": [spawn]}));
    assert_eq!((status, &response["results"][0]["ok"]), (200, &json!(true)), "{response}");
    let child = claim(&server.url, "w-1", 1, 10_000).remove(0);
    assert_eq!(child["traceparent"], parent["traceparent"]);

    submit_in_trace(&server.url, "flows", &json!({"nodes": [{"name": "a", "kind": "k"}]}));
    assert_eq!(claim(&server.url, "w-1", 1, 10_000)[0]["traceparent"], parent["traceparent"]);
    post(&format!("{}/v1/executions", server.url), &json!({"kind": "k"}));
    assert_eq!(claim(&server.url, "w-1", 1, 10_000)[0]["traceparent"], Value::Null, "it has no trace");
}

#[test]
fn spans_of_executions_and_attempts_reach_a_collector() {
    let (collector, spans) = collector(None);
    let place = Sqlite::new();
    let mut serve = command();
    serve.args(["serve", "--store", &place.store(), "--otlp-endpoint", &format!("http://{collector}")]);
    let server = Server::spawn(serve);
    let flow = json!({
        "nodes": [{"name": "a", "kind": "first"}, {"name": "b", "kind": "second"}], "edges": [{"from": "a", "to": "b"}],
    });
    submit_in_trace(&server.url, "flows", &flow);
    let mut handlers = Vec::new();
    for _ in 0..2 {
        let claimed = claim(&server.url, "w-1", 1, 10_000).remove(0);
        handlers.push(text(&claimed["traceparent"]));
        assert_eq!(complete(&server.url, "w-1", &claimed, json!(1))["state"], "completed");
    }
    let found: Vec<Value> =
        (0..4).map(|_| spans.recv_timeout(Duration::from_secs(60)).expect("a span arrives")).collect();
    let named = |name: &str| -> Vec<&Value> { found.iter().filter(|span| span["name"] == name).collect() };
    let (first, second, attempts) = (named("first"), named("second"), named("attempt 0"));
    assert_eq!((first.len(), second.len(), attempts.len()), (1, 1, 2), "{found:?}");
    assert!(found.iter().all(|span| span["traceId"] == TRACE && span["status"]["code"] == 1), "{found:?}");
    assert_eq!(
        (&first[0]["parentSpanId"], &second[0]["parentSpanId"]),
        (&json!(SUBMITTER), &json!(SUBMITTER))
    );
    assert_eq!(second[0]["links"][0]["spanId"], first[0]["spanId"], "the downstream follows its upstream");
    for (attempt, handler) in attempts.iter().zip(&handlers) {
        assert_eq!(
            *handler,
            format!("00-{TRACE}-{}-01", text(&attempt["spanId"])),
            "a handler's parent is its attempt"
        );
    }
    assert_eq!(attempts[0]["parentSpanId"], first[0]["spanId"]);
    let begun: u64 = text(&first[0]["startTimeUnixNano"]).parse().expect("a number");
    let ended: u64 = text(&first[0]["endTimeUnixNano"]).parse().expect("a number");
    assert!(0 < begun && begun <= ended);
}

#[test]
fn a_collector_that_is_away_does_not_disturb_the_server() {
    let place = Sqlite::new();
    let mut serve = command();
    // A port that was free a moment ago, on which nothing listens.
    let closed =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    serve.args(["serve", "--store", &place.store(), "--otlp-endpoint", &format!("http://{closed}")]);
    let mut server = Server::spawn(serve);
    for _ in 0..3 {
        submit_in_trace(&server.url, "executions", &json!({"kind": "k"}));
        let claimed = claim(&server.url, "w-1", 1, 10_000).remove(0);
        assert_eq!(complete(&server.url, "w-1", &claimed, json!(1))["state"], "completed");
    }
    server.wait_for_log("spans cannot be sent");
    server.signal("TERM");
    let (status, _) = server.wait_for_exit();
    assert!(status.success());
    // Each execution has a span of its own and one of its attempt.
    server.wait_for_log("dropped=6");
}

#[test]
fn spans_reach_a_collector_over_tls_if_its_certificate_is_trusted() {
    let (directory, place) = (Directory::new(), Sqlite::new());
    let new = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate is made");
    let roots = directory.path().join("collector.crt");
    std::fs::write(&roots, new.cert.pem()).expect("the certificate is written");
    let key = PrivateKeyDer::try_from(new.signing_key.serialize_der()).expect("the key is valid");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .with_no_client_auth()
        .with_single_cert(vec![new.cert.der().clone()], key)
        .expect("the certificate can be used");
    let (collector, spans) = collector(Some(Arc::new(config)));
    let serve = || {
        let mut serve = command();
        serve.args(["serve", "--store", &place.store()]);
        serve.env("SELVEDGE_OTLP_ENDPOINT", format!("https://{collector}"));
        serve
    };
    let run_one = |server: &Server| {
        submit_in_trace(&server.url, "executions", &json!({"kind": "k"}));
        let claimed = claim(&server.url, "w-1", 1, 10_000).remove(0);
        assert_eq!(complete(&server.url, "w-1", &claimed, json!(1))["state"], "completed");
    };
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate is made");
    let others = directory.path().join("other.crt");
    std::fs::write(&others, other.cert.pem()).expect("the certificate is written");
    let mut distrustful = serve();
    distrustful.env("OTEL_EXPORTER_OTLP_CERTIFICATE", &others);
    let mut server = Server::spawn(distrustful);
    run_one(&server);
    server.wait_for_log("the TLS handshake failed");
    server.signal("TERM");
    assert!(server.wait_for_exit().0.success());
    assert!(spans.try_recv().is_err(), "no span was sent");

    let mut trusting = serve();
    trusting.env("OTEL_EXPORTER_OTLP_CERTIFICATE", &roots);
    let server = Server::spawn(trusting);
    for _ in 0..2 {
        run_one(&server);
        for _ in 0..2 {
            let span = spans.recv_timeout(Duration::from_secs(60)).expect("a span arrives");
            assert_eq!(span["traceId"], TRACE);
        }
    }
}
