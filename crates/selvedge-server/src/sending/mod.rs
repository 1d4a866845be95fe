//! Responses that are being sent: their memory is counted and bounded, and one that makes no progress ends.
//!
//! `room` counts the bytes of responses, per connection and in all, until their last byte was written or dropped. Requests find no
//! answer but 503 while there is no room. `body` hands a response to the HTTP library in pieces and notes every byte that leaves;
//! `progress` ends a response of which no byte has left for a while. A response that has nothing to send, such as a silent event
//! stream, is not without progress.
//!
//! On HTTP/1.1 a connection sends one response at a time and ends with it. On HTTP/2 the stream of the response is reset. The library
//! may already have all bytes of a small response; then nothing can reset its stream, and the connection is closed.

mod body;
mod progress;
mod room;

pub use body::{Sent, until_sent};
pub use progress::{SendProgress, StreamExecutor, current_progress};
pub use room::{ConnectionRoom, ResponseRoom, charge};
