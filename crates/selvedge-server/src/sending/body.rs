//! The body of a response on its way: pieces that note when their bytes leave, and that keep the room of the response until then.

use super::progress::SendProgress;
use super::room::{Charge, ConnectionRoom, OpenPlace};
use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::{Buf, Bytes};
use hyper::body::{self, Frame, SizeHint};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The largest piece, in bytes. It fits into the smallest default window of an HTTP/2 stream, 64 KiB, so a client that opens a
/// stream with it never leaves a whole response in the library that it does not read.
const PIECE_BYTES: usize = 32 * 1024;

/// The body of a response that is being sent. `T` is dropped when the library has taken the last part of it.
pub struct Sent<T> {
    body: Body,
    /// The part of the body that is not handed over yet.
    rest: Bytes,
    progress: Arc<SendProgress>,
    room: Arc<ConnectionRoom>,
    /// None for a response of unknown size, whose parts are counted one by one.
    charge: Option<Charge>,
    place: Option<OpenPlace>,
    /// True if the size is unknown, and every part has to be counted.
    counts_parts: bool,
    /// True if the end of the body must wait until all pieces are written: only then a stream that does not get on can be reset.
    holds_end: bool,
    is_split: bool,
    _guard: T,
}

/// Prepares a response for sending. `holds_end` is true on HTTP/2.
pub fn until_sent<T>(
    mut response: Response,
    progress: Arc<SendProgress>,
    room: Arc<ConnectionRoom>,
    holds_end: bool,
    guard: T,
) -> axum::http::Response<Sent<T>> {
    let charge = response.extensions_mut().remove::<Charge>();
    let place = response.extensions_mut().remove::<OpenPlace>();
    let counts_parts = charge.is_none() && response.body().size_hint().exact().is_none();
    response.map(|body| Sent {
        body,
        rest: Bytes::new(),
        progress,
        room,
        charge,
        place,
        counts_parts,
        holds_end,
        is_split: false,
        _guard: guard,
    })
}

impl<T> Sent<T> {
    /// Cuts the next piece from the rest of the body.
    fn next_piece(&mut self) -> Piece {
        let bytes = match self.rest.len() > PIECE_BYTES {
            true => {
                self.is_split = true;
                self.rest.split_to(PIECE_BYTES)
            }
            false => std::mem::take(&mut self.rest),
        };
        self.progress.hand_over(bytes.len());
        let (charge, place) = (self.charge.clone(), self.place.clone());
        Piece { bytes, progress: self.progress.clone(), _charge: charge, _place: place }
    }
}

impl<T: Unpin> body::Body for Sent<T> {
    type Data = Piece;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, axum::Error>>> {
        if self.rest.is_empty() {
            if self.counts_parts && self.room.is_full() {
                let error = io::Error::other("too many responses wait for their clients to read them");
                return Poll::Ready(Some(Err(axum::Error::new(error))));
            }
            if self.is_split && self.holds_end && self.body.is_end_stream() {
                ready!(self.progress.poll_sent(context));
            }
            let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(frame) => {
                    let trailers = frame.into_trailers().ok().map(|trailers| Ok(Frame::trailers(trailers)));
                    return Poll::Ready(trailers);
                }
            }
            if self.counts_parts {
                self.charge = Some(self.room.hold(self.rest.len()));
            }
        }
        Poll::Ready(Some(Ok(Frame::data(self.next_piece()))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream() && !(self.is_split && self.holds_end)
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, hint) = (self.rest.len() as u64, self.body.size_hint());
        let mut whole = SizeHint::new();
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper + rest);
        }
        whole.set_lower(hint.lower() + rest);
        whole
    }
}

/// A part of a body that the HTTP library has.
pub struct Piece {
    bytes: Bytes,
    progress: Arc<SendProgress>,
    _charge: Option<Charge>,
    _place: Option<OpenPlace>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.bytes.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.progress.written(count);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.progress.dropped(self.bytes.len());
    }
}
