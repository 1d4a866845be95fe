//! Clients of HTTP/2 that ask for much and read nothing: the memory of the real server stays bounded, others are served meanwhile,
//! and the responses end in time.

use crate::hostile::{open, post, read_to_end};
use crate::memory::peak_above;
use crate::metrics::get_text;
use crate::support::{Place, Server, Sqlite, command, get, submit, text};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The longest time that a test waits for a frame. Nothing here takes as long.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The number of requests of a connection.
const STREAMS: u32 = 200;

const SETTINGS: u8 = 4;
const HEADERS: u8 = 1;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

/// A connection that never opens the window of a stream.
struct Unread(TcpStream);

impl Unread {
    /// Connects, and asks for `path` on every stream.
    fn open(server: &Server, path: &str) -> Unread {
        let address = server.url.strip_prefix("http://").expect("the URL is plain HTTP");
        let stream = TcpStream::connect(address).expect("the server accepts");
        stream.set_read_timeout(Some(TIMEOUT)).expect("the timeout is set");
        let mut unread = Unread(stream);
        let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        // The initial size of windows (4) is 0.
        sent.extend(frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]));
        for number in 0..STREAMS {
            // The end of the request and of its head.
            sent.extend(frame(HEADERS, 0x5, 2 * number + 1, &head(path)));
        }
        unread.0.write_all(&sent).expect("the requests are sent");
        unread
    }

    /// Reads until this number of responses has begun, and the server has answered a ping after that.
    fn wait_for_heads(&mut self, count: usize) {
        let (mut heads, mut has_pinged) = (0, false);
        loop {
            let (kind, flags) = self.read_frame();
            match kind {
                HEADERS => heads += 1,
                PING if flags == 1 => return,
                GOAWAY => panic!("the server closes the connection"),
                _ => {}
            }
            if heads == count && !has_pinged {
                has_pinged = true;
                self.0.write_all(&frame(PING, 0, 0, &[0; 8])).expect("the ping is sent");
            }
        }
    }

    /// Reads a frame. Returns its type and flags.
    fn read_frame(&mut self) -> (u8, u8) {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).expect("a frame arrives");
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).expect("the frame is whole");
        if head[3] == SETTINGS && head[4] == 0 {
            self.0.write_all(&frame(SETTINGS, 1, 0, &[])).expect("the settings are acknowledged");
        }
        (head[3], head[4])
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let stream = stream.to_be_bytes();
    [&length[1..], &[kind, flags], &stream, payload].concat()
}

/// Returns the head of a GET request. Names are those of the static table, values are literals.
fn head(path: &str) -> Vec<u8> {
    let literal = |name: u8, value: &str| [&[name, value.len() as u8], value.as_bytes()].concat();
    // :method GET, :scheme http, :path, :authority, accept-encoding
    let encoding = [&[0x0f, 0x01][..], &literal(0, "gzip")[1..]].concat();
    [&[0x82, 0x86][..], &literal(0x04, path), &literal(0x01, "localhost"), &encoding].concat()
}

/// Returns a number of `/metrics` without labels.
fn metric(server: &Server, name: &str) -> usize {
    let text = get_text(&format!("{}/metrics", server.url));
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("selvedge_{name} ")));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} is not in {text}"))
}

#[test]
fn hundreds_of_pages_that_nobody_reads_need_little_memory() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    // The page is rendered and compressed once.
    let warm = Unread::open(&server, "/docs");
    drop(warm);
    let (peak, _connections) = peak_above(&server, || {
        let mut connections: Vec<Unread> = (0..4).map(|_| Unread::open(&server, "/docs")).collect();
        connections.iter_mut().for_each(|connection| connection.wait_for_heads(20));
        assert_eq!(get(&format!("{}/healthz", server.url)).0, 200);
        connections
    });
    eprintln!("800 pages that nobody reads: {peak} MiB");
    assert!(peak < 40, "800 pages that nobody reads need {peak} MiB");
}

#[test]
fn large_responses_that_nobody_reads_stay_within_the_room_and_end() {
    let place = Sqlite::new();
    let mut serve = command();
    serve.args(["serve", "--store", &place.store(), "--response-bytes", "64MiB", "--send-time", "3s"]);
    let server = Server::spawn(serve);
    let body = json!({"kind": "k", "input": "x".repeat(1_000_000)}).to_string();
    let answer = read_to_end(open(&server, &post(body.as_bytes())));
    let (_, answer) = answer.split_once("\r\n\r\n").expect("there is a response");
    let answer: Value = serde_json::from_str(answer).expect("the response is JSON");
    let id = text(&answer["execution"]["id"]);
    let path = format!("/v1/executions/{id}");
    let (peak, connections) = peak_above(&server, || {
        let mut connections: Vec<Unread> = (0..3).map(|_| Unread::open(&server, &path)).collect();
        connections.iter_mut().for_each(|connection| connection.wait_for_heads(STREAMS as usize));
        let held = metric(&server, "http_response_bytes");
        assert!(held > 3 * 15_000_000 && held < 3 * (16 << 20) + 3 * 3_000_000, "{held} bytes are held");
        // Others are served.
        assert_eq!(get(&format!("{}{path}", server.url)).0, 200);
        submit(&server.url, json!({"kind": "k"}));
        while metric(&server, "http_response_bytes") > 0 {}
        connections
    });
    assert!(metric(&server, "http_responses_stalled_total") > 20);
    drop(connections);
    eprintln!("600 responses of 1 MB that nobody reads: {peak} MiB");
    assert!(peak < 150, "600 responses of 1 MB that nobody reads need {peak} MiB");
}
