//! The room for responses: a limit on the bytes of all responses that are being sent, of which one connection gets a part.
//!
//! A response counts in full until its last byte was written or dropped, because its memory is one piece. A request is refused before
//! it is handled while the room is full. The response to a safe request is refused as well if there is no room when it is
//! ready; that to another request is always sent, because the request has had its effect. A response is admitted while there is any
//! room, so one that is larger than the limit passes too, and the limit is exceeded by one response at most. Small responses pass
//! always: `/healthz` answers while the room is full.
//!
//! A connection handles only some reads at a time, so that a burst of them meets the full room before it has built its responses. Calls
//! that wait for something take no such turn.
//!
//! Content that all responses share, such as the reference and the style sheet, does not count.

use crate::compression::{self, ENCODER_BYTES, Fixed};
use crate::http_metrics::SendingCounters;
use crate::wire::problem::{Code, Problem};
use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// One connection may hold the room divided by this number.
const CONNECTION_SHARE: usize = 4;
/// The responses to callers without a key that a connection may be sending at the same time. A page has fewer files.
const OPEN_RESPONSES: usize = 20;
/// The reads that a connection may be handling at the same time, so that few responses are built before there is known to be no room.
const READS: usize = 16;
/// A response of at most this size is never refused, in bytes.
const SMALL: usize = 1024;
/// The time after which a caller whose response found no room should repeat the request, in milliseconds.
const RETRY_MS: u64 = 1000;

/// The room of a server. Clones share it.
#[derive(Clone)]
pub struct ResponseRoom {
    limit: usize,
    counters: Arc<SendingCounters>,
}

pub struct ConnectionRoom {
    server: ResponseRoom,
    held: AtomicUsize,
    open: Arc<Semaphore>,
    reads: Semaphore,
}

/// The place of a response to a caller without a key. Kept until the response has been sent.
#[derive(Clone)]
pub struct OpenPlace {
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

/// The bytes of a response, which are given back when the last clone is dropped.
#[derive(Clone)]
pub struct Charge {
    _held: Arc<Held>,
}

struct Held {
    bytes: usize,
    room: Arc<ConnectionRoom>,
}

impl ResponseRoom {
    /// Returns a room of `limit` bytes. Rooms with the same counters share what they hold.
    pub fn new(limit: usize, counters: Arc<SendingCounters>) -> ResponseRoom {
        ResponseRoom { limit, counters }
    }

    /// Returns the room of a new connection.
    pub fn connection(&self) -> Arc<ConnectionRoom> {
        let (open, reads) = (Arc::new(Semaphore::new(OPEN_RESPONSES)), Semaphore::new(READS));
        Arc::new(ConnectionRoom { server: self.clone(), held: AtomicUsize::new(0), open, reads })
    }

    /// Counts a response that ended because its client took nothing of it.
    pub fn count_stalled(&self) {
        self.counters.stalled.fetch_add(1, Relaxed);
    }
}

impl ConnectionRoom {
    /// Reports whether no further response may begin.
    pub fn is_full(&self) -> bool {
        let held = (self.held.load(Relaxed), self.server.counters.held.load(Relaxed));
        self.is_beyond(held)
    }

    fn is_beyond(&self, (connection, server): (usize, usize)) -> bool {
        connection >= self.server.limit / CONNECTION_SHARE || server >= self.server.limit
    }

    /// Counts bytes, whether there is room or not.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Charge {
        self.add(bytes).0
    }

    /// Counts the bytes of a response. Returns none if there is no room.
    fn try_hold(self: &Arc<Self>, bytes: usize) -> Option<Charge> {
        let (charge, before) = self.add(bytes);
        (bytes <= SMALL || !self.is_beyond(before)).then_some(charge)
    }

    /// Counts bytes. Returns what the connection and the server held before.
    fn add(self: &Arc<Self>, bytes: usize) -> (Charge, (usize, usize)) {
        let connection = self.held.fetch_add(bytes, Relaxed);
        let server = self.server.counters.held.fetch_add(bytes, Relaxed);
        (Charge { _held: Arc::new(Held { bytes, room: self.clone() }) }, (connection, server))
    }

    /// Waits for a place among the responses to callers without a key.
    pub async fn open_place(&self) -> OpenPlace {
        OpenPlace { _permit: self.open.clone().acquire_owned().await.ok().map(Arc::new) }
    }

    /// Waits for a turn to handle a request that reads, and refuses it if the room is full then. The turn ends when the response is
    /// ready.
    pub async fn read_turn(&self) -> Result<Option<SemaphorePermit<'_>>, Problem> {
        let turn = self.reads.acquire().await.ok();
        match self.is_full() {
            true => Err(self.refusal()),
            false => Ok(turn),
        }
    }

    fn refusal(&self) -> Problem {
        self.server.counters.refused.fetch_add(1, Relaxed);
        let detail = "too many responses wait for their clients to read them; this request had no effect";
        Problem::new(Code::Overloaded, detail).retry_after(RETRY_MS)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.room.held.fetch_sub(self.bytes, Relaxed);
        self.room.server.counters.held.fetch_sub(self.bytes, Relaxed);
    }
}

/// Middleware that refuses a request whose response has no room, and counts the response. Requests that came over no connection of
/// this crate are not limited.
pub async fn charge(request: Request, next: Next) -> Response {
    let room = request.extensions().get::<Arc<ConnectionRoom>>().cloned();
    if let Some(room) = room.as_ref().filter(|room| room.is_full() && !is_probe(&request)) {
        let problem = room.refusal();
        return match request.body().is_end_stream() {
            true => problem.into_response(),
            false => problem.closing_connection().into_response(),
        };
    }
    let is_safe = request.method().is_safe();
    let is_compressed = request.headers().contains_key(header::ACCEPT_ENCODING);
    let mut response = next.run(request).await;
    compression::note_size(&mut response);
    let (Some(room), Some(mut bytes)) = (room, counted_bytes(&response)) else { return response };
    if is_compressed && compression::may_be_streamed(bytes) {
        bytes = bytes.saturating_add(ENCODER_BYTES);
    }
    let charge = match is_safe {
        true => room.try_hold(bytes),
        false => Some(room.hold(bytes)),
    };
    match charge {
        Some(charge) => {
            response.extensions_mut().insert(charge);
            response
        }
        None => room.refusal().into_response(),
    }
}

/// Reports whether a request asks for the health of the server.
fn is_probe(request: &Request) -> bool {
    matches!(request.uri().path(), "/healthz" | "/readyz")
}

/// Returns the size of a response. None if it is fixed content, empty, or of unknown size.
fn counted_bytes(response: &Response) -> Option<usize> {
    let bytes = response.body().size_hint().exact().filter(|bytes| *bytes > 0)?;
    let is_fixed = response.extensions().get::<Fixed>().is_some();
    (!is_fixed).then(|| usize::try_from(bytes).unwrap_or(usize::MAX))
}
