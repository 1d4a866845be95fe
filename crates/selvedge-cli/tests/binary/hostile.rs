//! Slow, huge, broken and hostile requests to a real server: each gets a problem or a closed connection, never a 5xx; the
//! server's memory does not grow; and other callers are served meanwhile.

use crate::memory::peak_above;
use crate::support::{Server, Sqlite, get, submit};
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The longest time that a test waits for an answer. Nothing here takes as long.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The longest time of a request of another caller, on a loaded machine.
const UNHARMED: Duration = Duration::from_secs(10);

/// The number of connections that send slowly.
const SLOW: usize = 200;
/// The number of open files that a process needs besides connections, and more.
const RESERVED: usize = 200;

/// Returns the limit of open files of this process, which the server inherits.
fn open_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    soft.and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX)
}

/// Opens a connection and sends some bytes.
pub fn open(server: &Server, bytes: &[u8]) -> TcpStream {
    let address = server.url.strip_prefix("http://").expect("the URL is plain HTTP");
    let mut stream = TcpStream::connect(address).expect("the server accepts");
    stream.set_read_timeout(Some(TIMEOUT)).expect("the timeout is set");
    // The server may have answered and closed before all bytes are sent.
    let _ = stream.write_all(bytes);
    stream
}

/// Reads until the server closes the connection.
pub fn read_to_end(mut stream: TcpStream) -> String {
    let mut read = Vec::new();
    match stream.read_to_end(&mut read) {
        Ok(_) => {}
        // A connection that is closed while the client still sends is reset.
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    String::from_utf8_lossy(&read).into_owned()
}

/// Returns the statuses of the answers in what a connection received.
fn statuses(received: &str) -> Vec<u16> {
    let answers = received.split("HTTP/1.1 ").skip(1);
    answers.map(|answer| answer[..3].parse().expect("a status is a number")).collect()
}

/// Asserts that other callers are served.
fn check_unharmed(server: &Server) {
    let begun = Instant::now();
    assert_eq!(get(&format!("{}/healthz", server.url)).0, 200);
    let id = submit(&server.url, json!({"kind": "k"}));
    assert_eq!(get(&format!("{}/v1/executions/{id}", server.url)).0, 200);
    assert!(begun.elapsed() < UNHARMED, "other callers waited for {:?}", begun.elapsed());
}

/// Returns a submission with this body, after which the connection is closed.
pub fn post(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /v1/executions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[test]
fn slow_heads_and_bodies_on_200_connections_and_2000_idle_ones_harm_nobody() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let idle = 2000.min(open_files().saturating_sub(SLOW + RESERVED));
    assert!(idle >= 100, "the limit of open files is too low for this test");
    let (peak, bodies) = peak_above(&server, || {
        let _idle: Vec<TcpStream> = (0..idle).map(|_| open(&server, b"")).collect();
        let _heads: Vec<TcpStream> =
            (0..SLOW / 2).map(|_| open(&server, b"GET /healthz HTTP/1.1\r\nhost: local")).collect();
        let begun = post(&[b' '; 100_000]);
        let bodies: Vec<TcpStream> = (0..SLOW / 2).map(|_| open(&server, &begun[..50_000])).collect();
        check_unharmed(&server);
        bodies.into_iter().map(read_to_end).collect::<Vec<_>>()
    });
    for answer in bodies {
        assert_eq!(statuses(&answer), [408], "{answer}");
        assert!(answer.contains(r#""code":"request_timeout""#), "{answer}");
    }
    check_unharmed(&server);
    eprintln!("{} slow connections: {peak} MiB", idle + SLOW);
    assert!(peak < 200, "{} slow connections need {peak} MiB", idle + SLOW);
}

#[test]
fn a_body_of_100_mb_is_refused_and_not_kept() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let body = vec![b' '; 100_000_000];
    let (peak, answers) = peak_above(&server, || {
        let announced = read_to_end(open(&server, &post(&body)));
        let head = "POST /v1/executions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
        let chunk = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
        let chunked = read_to_end(open(&server, &[head.as_bytes(), &chunk].concat()));
        [announced, chunked]
    });
    for answer in answers {
        assert!(answer.is_empty() || statuses(&answer) == [413], "{answer}");
    }
    check_unharmed(&server);
    eprintln!("bodies of 100 MB: {peak} MiB");
    assert!(peak < 60, "a body of 100 MB needs {peak} MiB");
}

#[test]
fn broken_json_is_refused_with_a_problem() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let nested = |open: &str, close: &str| {
        let (open, close) = (open.repeat(100_000), close.repeat(100_000));
        format!(r#"{{"kind": "k", "input": {open}1{close}}}"#).into_bytes()
    };
    let bodies: Vec<(Vec<u8>, u16)> = vec![
        (nested("[", "]"), 422),
        (nested(r#"{"a":"#, "}"), 422),
        (nested("[", ""), 400),
        ("[".repeat(1_000_000).into_bytes(), 400),
        (b"{\"kind\": \"\xff\xfe\"}".to_vec(), 400),
        (b"\xed\xa0\x80".to_vec(), 400),
        (br#"{"kind": "\ud800"}"#.to_vec(), 422),
        (br#"{"kind": "k", "kind": "l"}"#.to_vec(), 422),
        (br#"{"kind": "k", "tags": {"a": "1", "a": "2"}}"#.to_vec(), 422),
        (br#"{"kind": "k\u0000"}"#.to_vec(), 422),
        (br#"{"kind": "k", "priority": 1e999}"#.to_vec(), 422),
        (format!(r#"{{"kind": "k", "input": {}}}"#, "9".repeat(1_000_000)).into_bytes(), 422),
        (br#"{"kind": "k"} {"kind": "k"}"#.to_vec(), 400),
        (b"".to_vec(), 400),
        (b"null".to_vec(), 422),
    ];
    let (peak, ()) = peak_above(&server, || {
        for (body, status) in bodies {
            let answer = read_to_end(open(&server, &post(&body)));
            let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
            assert_eq!(statuses(&answer), [status], "{shown}: {answer}");
            assert!(answer.contains("application/problem+json"), "{shown}: {answer}");
        }
    });
    check_unharmed(&server);
    assert!(peak < 100, "broken JSON needs {peak} MiB");
}

/// A request whose end two servers may see at different places, followed by a request that one of them would not see.
struct Ambiguous {
    name: &'static str,
    head: &'static str,
    body: &'static str,
}

/// The request that must not be answered after an ambiguous one.
const SMUGGLED: &str = "GET /v1/lanes/smuggled HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[test]
fn requests_whose_end_is_ambiguous_end_their_connection() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let chunked = "transfer-encoding: chunked";
    let requests = [
        Ambiguous {
            name: "a length and chunks",
            head: "content-length: 5\r\ntransfer-encoding: chunked",
            body: "0\r\n\r\n",
        },
        Ambiguous {
            name: "chunks and a length",
            head: "transfer-encoding: chunked\r\ncontent-length: 5",
            body: "0\r\n\r\n",
        },
        Ambiguous { name: "two lengths", head: "content-length: 0\r\ncontent-length: 5", body: "" },
        Ambiguous { name: "two lengths in one line", head: "content-length: 0, 5", body: "" },
        Ambiguous { name: "a signed length", head: "content-length: +5", body: "12345" },
        Ambiguous { name: "a negative length", head: "content-length: -1", body: "" },
        Ambiguous { name: "a length in hexadecimal", head: "content-length: 0x5", body: "12345" },
        Ambiguous { name: "a length beyond 64 bits", head: "content-length: 99999999999999999999", body: "" },
        Ambiguous { name: "a space before the colon", head: "content-length : 5", body: "12345" },
        Ambiguous { name: "a folded header", head: "x: a\r\n content-length: 5", body: "12345" },
        Ambiguous { name: "a folded encoding", head: "transfer-encoding:\r\n chunked", body: "0\r\n\r\n" },
        Ambiguous { name: "an unknown encoding", head: "transfer-encoding: xchunked", body: "0\r\n\r\n" },
        Ambiguous {
            name: "chunked is not last",
            head: "transfer-encoding: chunked, identity",
            body: "0\r\n\r\n",
        },
        Ambiguous {
            name: "chunked twice",
            head: "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
            body: "0\r\n\r\n",
        },
        Ambiguous { name: "a chunk extension", head: chunked, body: "2;a=\"\r\n\"\r\n{}\r\n0\r\n\r\n" },
        Ambiguous { name: "a plain chunk extension", head: chunked, body: "2;a=b\r\n{}\r\n0\r\n\r\n" },
        Ambiguous { name: "a chunk that ends with LF", head: chunked, body: "2\n{}\n0\n\n" },
        Ambiguous { name: "a chunk that is too long", head: chunked, body: "2\r\n{}{}\r\n0\r\n\r\n" },
        Ambiguous { name: "a huge chunk", head: chunked, body: "ffffffffffffffff0\r\n{}\r\n0\r\n\r\n" },
        Ambiguous { name: "a signed chunk", head: chunked, body: "+2\r\n{}\r\n0\r\n\r\n" },
    ];
    for Ambiguous { name, head, body } in requests {
        let request =
            format!("POST /v1/executions HTTP/1.1\r\nhost: localhost\r\n{head}\r\n\r\n{body}{SMUGGLED}");
        let received = read_to_end(open(&server, request.as_bytes()));
        let answers = statuses(&received);
        assert!(answers.len() <= 1 && !received.contains("smuggled"), "{name}: {received}");
        assert!(answers.iter().all(|status| (400..500).contains(status)), "{name}: {received}");
    }
    check_unharmed(&server);
}

#[test]
fn bytes_that_are_not_http_get_a_problem_or_a_closed_connection() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let long = "x".repeat(1_000_000);
    let requests: Vec<(&str, Vec<u8>)> = vec![
        (
            "bare LF before another header",
            b"GET /healthz HTTP/1.1\r\nhost: localhost\nx: \x01\r\n\r\n".to_vec(),
        ),
        ("a NUL in a header", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: a\0b\r\n\r\n".to_vec()),
        ("a CR in a header", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: a\rb\r\n\r\n".to_vec()),
        ("no host", b"GET /healthz HTTP/1.1\r\n\r\n".to_vec()),
        ("two hosts", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: example.org\r\n\r\n".to_vec()),
        ("another host", b"GET http://example.org/healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec()),
        ("a version that does not exist", b"GET /healthz HTTP/9.9\r\nhost: localhost\r\n\r\n".to_vec()),
        ("no version", b"GET /healthz\r\n\r\n".to_vec()),
        ("a method with a space", b"GE T /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec()),
        ("CONNECT", b"CONNECT example.org:80 HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec()),
        ("a long path", format!("GET /{long} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()),
        (
            "a long header",
            format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {long}\r\n\r\n").into_bytes(),
        ),
        (
            "many headers",
            format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(5000))
                .into_bytes(),
        ),
        (
            "a path that climbs",
            b"GET /v1/../../etc/passwd HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_vec(),
        ),
        (
            "a path that is not UTF-8",
            b"GET /v1/lanes/%ff%fe HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_vec(),
        ),
        ("a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(20)),
        ("noise", (0..=255_u8).cycle().take(100_000).collect()),
        (
            "an HTTP/2 preface and noise",
            [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &[0xff; 10_000]].concat(),
        ),
    ];
    let (peak, ()) = peak_above(&server, || {
        for (name, bytes) in requests {
            let stream = open(&server, &bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let received = read_to_end(stream);
            let is_refused = statuses(&received).iter().all(|status| (400..500).contains(status));
            assert!(is_refused, "{name}: {received}");
        }
    });
    check_unharmed(&server);
    assert!(peak < 60, "noise needs {peak} MiB");
}
