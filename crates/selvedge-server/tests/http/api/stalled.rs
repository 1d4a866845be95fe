//! Responses that their clients do not read: they end in time, their memory is bounded, and nobody else notices.

use crate::support::{Server, within};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use selvedge_engine::Options;
use selvedge_memory::Clock;
use selvedge_server::ConnectionLimits;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::interval;

/// The size of a large input, in bytes.
const LARGE: usize = 1_000_000;
/// The time after which the tests let a stalled response end.
const LIMIT: Duration = Duration::from_millis(500);
/// The default window of a stream.
const WINDOW: u32 = 65_535;

async fn start(send_time: Duration, response_bytes: usize) -> Server {
    let serving = selvedge_server::Options {
        connections: ConnectionLimits { send_time, ..ConnectionLimits::default() },
        response_bytes,
        keep_alive: Duration::from_secs(3600),
        ..selvedge_server::Options::default()
    };
    let options = Options { reconcilers: false, ..Options::default() };
    Server::start_serving(options, Clock::system(), serving).await
}

/// A connection of HTTP/2 whose streams have a window of this size.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    running: JoinHandle<hyper::Result<()>>,
}

impl Connection {
    async fn open(server: &Server, window: u32) -> Connection {
        let stream = within(TcpStream::connect(server.address)).await.expect("the server accepts");
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window).initial_connection_window_size(10 * WINDOW);
        let handshake = builder.handshake(TokioIo::new(stream));
        let (sender, connection) = within(handshake).await.expect("HTTP/2 begins");
        Connection { sender, running: tokio::spawn(connection) }
    }

    /// Sends a request. Returns the response, whose body is not read.
    fn send(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> impl Future<Output = hyper::Response<hyper::body::Incoming>> + use<> {
        let uri = format!("http://localhost{path}");
        let request = Request::builder().method(method).uri(uri).header("content-type", "application/json");
        let request = request.body(Full::from(body.to_owned())).expect("the request is valid");
        let mut sender = self.sender.clone();
        async move {
            within(sender.ready()).await.expect("the connection is open");
            within(sender.send_request(request)).await.expect("the server responds")
        }
    }

    fn get(&self, path: &str) -> impl Future<Output = hyper::Response<hyper::body::Incoming>> + use<> {
        self.send("GET", path, "")
    }
}

/// Submits an execution with a large input. Returns its path.
async fn submit_large(server: &Server) -> String {
    let id = server.submit(json!({ "kind": "k", "input": "x".repeat(LARGE) })).await;
    format!("/v1/executions/{id}")
}

/// Returns a number of `/metrics` without labels.
async fn metric(server: &Server, name: &str) -> usize {
    let text = server.get("/metrics").await.text();
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("selvedge_{name} ")));
    let value = value.unwrap_or_else(|| panic!("{name} is not in {text}"));
    value.parse().expect("the metric is a number")
}

/// Waits until a metric has a value.
async fn wait_for_metric(server: &Server, name: &str, expected: usize) {
    within(async { while metric(server, name).await != expected {} }).await;
}

#[tokio::test]
async fn a_stalled_stream_is_reset_and_others_of_its_connection_go_on() {
    let server = start(LIMIT, 1 << 30).await;
    let large = submit_large(&server).await;
    let connection = Connection::open(&server, WINDOW).await;
    let mut stalled = connection.get(&large).await.into_body();
    let first = within(stalled.frame()).await.expect("the body begins").expect("the stream is open");
    assert!(first.into_data().is_ok_and(|data| !data.is_empty()));
    // Requests on the same connection are answered until and after the end of the other response.
    while metric(&server, "http_responses_stalled_total").await == 0 {
        let healthy = connection.get("/docs").await;
        assert_eq!(healthy.status(), StatusCode::OK);
        within(healthy.into_body().collect()).await.expect("the body is read");
    }
    let error = within(stalled.collect()).await.expect_err("the response was not sent whole");
    assert!(format!("{error:?}").contains("CANCEL"), "{error:?}");
    let healthy = connection.get(&large).await;
    let body = within(healthy.into_body().collect()).await.expect("the body is read").to_bytes();
    assert!(body.len() > LARGE);
    wait_for_metric(&server, "http_responses_stalled_total", 1).await;
    assert!(!connection.running.is_finished());
}

#[tokio::test]
async fn a_small_response_that_is_never_taken_closes_its_connection() {
    let server = start(LIMIT, 1 << 30).await;
    let connection = Connection::open(&server, 8).await;
    let response = connection.get("/v1/executions").await;
    within(connection.running).await.expect("the task does not panic").ok();
    within(response.into_body().collect()).await.expect_err("the response was not sent whole");
    wait_for_metric(&server, "http_responses_stalled_total", 1).await;
}

#[tokio::test]
async fn responses_that_nobody_reads_are_bounded_per_connection_and_end() {
    // A connection gets a quarter: room for two large responses, as one byte of room is enough for the second.
    let server = start(Duration::from_secs(5), 4 * (LARGE + 100_000)).await;
    let large = submit_large(&server).await;
    let connection = Connection::open(&server, 0).await;
    let mut kept = Vec::new();
    for expected in [StatusCode::OK, StatusCode::OK] {
        let response = connection.get(&large).await;
        assert_eq!(response.status(), expected);
        kept.push(response);
    }
    let held = metric(&server, "http_response_bytes").await;
    assert!((2 * LARGE..2 * LARGE + 10_000).contains(&held), "{held}");
    // Further requests of the connection are refused without an effect; health checks are always answered.
    for (method, path, body) in
        [("GET", &*large, ""), ("POST", "/v1/executions", r#"{"kind": "refused"}"#), ("GET", "/docs", "")]
    {
        let response = connection.send(method, path, body).await;
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE, "{method} {path}");
        assert_eq!(response.headers()["retry-after"], "1");
    }
    assert_eq!(connection.get("/healthz").await.status(), StatusCode::OK);
    assert_eq!(server.read("executions?kind=refused").await["items"], json!([]));
    // Another connection is served, and so is its large response.
    assert_eq!(server.get(&large).await.status, 200);
    assert!(metric(&server, "http_responses_refused_total").await >= 3);
    drop(kept);
    drop(connection);
    wait_for_metric(&server, "http_response_bytes", 0).await;
}

#[tokio::test]
async fn a_response_larger_than_the_room_passes_alone() {
    let server = start(LIMIT, 1000).await;
    let large = submit_large(&server).await;
    for _ in 0..3 {
        let reply = within(async {
            loop {
                let reply = server.get(&large).await;
                if reply.status == 200 {
                    return reply;
                }
                // The room of the response before is given back a moment after its last byte.
                assert_eq!(reply.problem(), (503, "overloaded".into(), "".into()));
            }
        })
        .await;
        assert!(reply.body.len() > LARGE);
    }
}

#[tokio::test]
async fn twenty_responses_without_a_key_are_sent_on_a_connection_at_a_time() {
    let server = start(Duration::from_secs(5), 1 << 30).await;
    let connection = Connection::open(&server, 0).await;
    let mut requests: FuturesUnordered<_> = (0..50).map(|_| connection.get("/docs")).collect();
    let mut served = Vec::new();
    while served.len() < 20 {
        served.push(requests.next().await.expect("a response begins"));
    }
    // All have arrived, and so has the request for this metric.
    wait_for_metric(&server, "http_requests_in_progress", 50 - 20 + 1).await;
    assert_eq!(metric(&server, "http_response_bytes").await, 0, "all share one page");
    // Each end makes place for another one.
    for response in served {
        drop(response);
        assert_eq!(requests.next().await.expect("a response begins").status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn compressed_pages_have_a_length_and_are_compressed_once_if_they_never_change() {
    let server = start(Duration::from_secs(5), 1 << 30).await;
    for (encoding, magic) in [("gzip", &[0x1f, 0x8b][..]), ("zstd", &[0x28, 0xb5, 0x2f, 0xfd])] {
        for path in ["/docs", "/openapi.json", "/docs/problems", "/executions"] {
            let headers = [("accept-encoding", encoding)];
            let [first, second] = [
                server.send_raw("GET", path, &headers, Vec::new()).await,
                server.send_raw("GET", path, &headers, Vec::new()).await,
            ];
            assert_eq!(first.header("content-encoding"), encoding, "{path}");
            assert_eq!(first.header("content-length"), first.body.len().to_string(), "{path}");
            assert!(first.body.starts_with(magic), "{path}");
            assert!(first.body == second.body || path == "/executions", "{path}");
        }
    }
}

#[tokio::test]
async fn idle_event_streams_and_slow_readers_are_not_cut() {
    let server = start(LIMIT, 1 << 30).await;
    let large = submit_large(&server).await;
    let connection = Connection::open(&server, 16 * 1024).await;
    let mut feed = server.open_stream("/v1/events", &[]).await;
    let mut live = connection.send("GET", "/live", "").await.into_body();
    let mut slow = connection.get(&large).await.into_body();
    let (mut pace, mut read) = (interval(LIMIT / 4), 0);
    // Three times the limit.
    for _ in 0..12 {
        pace.tick().await;
        let frame = within(slow.frame()).await.expect("the body goes on").expect("the stream is open");
        read += frame.into_data().expect("the body has only data").len();
    }
    assert!(read < LARGE / 2, "it was slow");
    read += within(slow.collect()).await.expect("the rest is read").to_bytes().len();
    assert!(read > LARGE);
    let id = server.submit(json!({ "kind": "k" })).await;
    within(async {
        loop {
            if feed.message().await.data.contains(&id) {
                return;
            }
        }
    })
    .await;
    let frame = within(live.frame()).await.expect("the stream goes on").expect("the stream is open");
    assert!(frame.is_data());
    assert_eq!(metric(&server, "http_responses_stalled_total").await, 0);
}

/// Asks for a list with several large inputs over HTTP/1.1, with a small buffer for what is received.
async fn ask_for_large_list(server: &Server) -> TcpStream {
    for _ in 0..8 {
        submit_large(server).await;
    }
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(16 * 1024).expect("the buffer is small");
    let mut stream = within(socket.connect(server.address)).await.expect("the server accepts");
    let request = "GET /v1/executions?include=input HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("the request is sent");
    stream
}

#[tokio::test]
async fn a_connection_of_http1_whose_response_stalls_is_closed() {
    let server = start(LIMIT, 1 << 30).await;
    let mut stream = ask_for_large_list(&server).await;
    wait_for_metric(&server, "http_responses_stalled_total", 1).await;
    wait_for_metric(&server, "http_response_bytes", 0).await;
    let mut received = Vec::new();
    let _ = within(stream.read_to_end(&mut received)).await;
    assert!(received.len() < 8 * LARGE, "the response was not sent whole");
}

#[tokio::test]
async fn a_slow_reader_of_http1_gets_the_whole_response() {
    let server = start(2 * LIMIT, 1 << 30).await;
    let mut stream = ask_for_large_list(&server).await;
    let (mut pace, mut received, mut part) = (interval(LIMIT / 5), 0, vec![0; 400 * 1024]);
    loop {
        pace.tick().await;
        // A part may arrive in pieces.
        let mut filled = 0;
        while filled < part.len() {
            let count = within(stream.read(&mut part[filled..])).await.expect("the connection is open");
            filled += count;
            if count == 0 {
                break;
            }
        }
        received += filled;
        if filled < part.len() {
            break;
        }
    }
    assert!(received > 8 * LARGE, "{received}");
    assert_eq!(metric(&server, "http_responses_stalled_total").await, 0);
}

#[tokio::test]
async fn many_responses_in_a_row_and_at_once_leave_nothing_behind() {
    let server = start(LIMIT, 1 << 30).await;
    let large = submit_large(&server).await;
    let connection = Connection::open(&server, WINDOW).await;
    for _ in 0..20 {
        let requests: FuturesUnordered<_> = ["/healthz", "/v1/executions", &large, "/docs"]
            .map(|path| connection.get(path))
            .into_iter()
            .map(async |response| response.await.into_body().collect().await.expect("the body is read"))
            .collect();
        within(requests.collect::<Vec<_>>()).await;
    }
    wait_for_metric(&server, "http_response_bytes", 0).await;
    assert_eq!(metric(&server, "http_responses_stalled_total").await, 0);
}
