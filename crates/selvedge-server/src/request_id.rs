//! The id of a request: in the header `x-request-id` of the response, and in every line that the request logs.
//!
//! A caller may choose the id, so that its own log and the server's can be joined. The lines get it from a span, which exists
//! only where the log filter enables it (`selvedge_server::request=debug`, part of the filter of JSON logs), so it costs
//! nothing otherwise.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use tracing::Instrument;

/// The header with the id.
const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// The longest id that a caller can choose, in bytes.
const ID_MAX: usize = 100;
/// The target of the span, and of the line about the response.
const TARGET: &str = "selvedge_server::request";

/// Handles a request with `handle`, and names it.
pub async fn identify<F: Future<Output = Response>>(
    request: Request,
    handle: impl FnOnce(Request) -> F,
) -> Response {
    let chosen = request.headers().get(HEADER).filter(|id| is_usable(id.as_bytes()));
    let id = chosen.cloned().unwrap_or_else(new_id);
    let span = tracing::debug_span!(
        target: TARGET,
        "request",
        id = id.to_str().unwrap_or_default(),
        method = request.method().as_str(),
        path = request.uri().path(),
    );
    let mut response = match span.is_disabled() {
        true => handle(request).await,
        false => {
            let response = handle(request).instrument(span.clone()).await;
            span.in_scope(|| {
                tracing::trace!(target: TARGET, status = response.status().as_u16(), "a response is ready");
            });
            response
        }
    };
    response.headers_mut().insert(HEADER, id);
    response
}

/// Reports whether an id can be repeated in headers and logs.
fn is_usable(id: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/=+@".contains(byte);
    (1..=ID_MAX).contains(&id.len()) && id.iter().all(is_plain)
}

/// Returns a random id.
fn new_id() -> HeaderValue {
    let mut digits = [0; 16];
    let random = fastrand::u64(..);
    for (index, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(random >> (index * 4)) as usize % 16];
    }
    HeaderValue::from_bytes(&digits).unwrap_or(HeaderValue::from_static("none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_usable_if_it_is_short_and_plain() {
        for id in ["a", "0af7651916cd43dd8448eb211c80319c", "Root=1-67891233-abc@eu:1/2"] {
            assert!(is_usable(id.as_bytes()), "{id}");
        }
        for id in ["", "a b", "a\"b", "é", "{}", &"a".repeat(101)] {
            assert!(!is_usable(id.as_bytes()), "{id}");
        }
        let (one, other) = (new_id(), new_id());
        assert!(is_usable(one.as_bytes()) && one.len() == 16 && one != other);
    }
}
