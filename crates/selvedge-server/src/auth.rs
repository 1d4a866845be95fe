//! Authentication: identifies the caller of a request and its namespace.
//!
//! There are no API keys yet. Every caller is `admin` of the namespace `default`, and therefore the server listens on
//! loopback only. A page of another site in a browser on this machine can reach loopback too; its requests carry the
//! page's origin and are refused. No request can name a namespace: a [`Caller`] is the only way to get one.

use crate::AppState;
use crate::shutdown::ShutdownWatch;
use crate::wire::problem::{Code, Problem};
use axum::extract::{FromRequestParts, Request};
use axum::http::{HeaderMap, header, request::Parts};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use selvedge_core::Name;
use selvedge_engine::Namespace;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The caller of a request.
pub struct Caller {
    /// The caller's namespace.
    pub namespace: Namespace,
    /// The caller's name in events.
    pub actor: Name,
    /// Observes the server's shutdown.
    pub shutdown: ShutdownWatch,
    /// Interval of keep-alive comments on a silent event stream.
    pub keep_alive: Duration,
}

impl FromRequestParts<AppState> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(_parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let actor = Name::trusted("admin");
        Ok(Caller {
            namespace: state.engine.namespace("default").await?.with_actor(actor.clone()),
            actor,
            shutdown: state.shutdown.clone(),
            keep_alive: state.keep_alive,
        })
    }
}

impl Caller {
    /// Returns the source of a signal that this caller sends: the one it names, else itself. Only operators may name
    /// another source; until there are keys, every caller is an operator.
    pub fn signal_source(&self, named: Option<Name>) -> Name {
        named.unwrap_or_else(|| self.actor.clone())
    }
}

/// An address that the server refuses to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot listen on {0}: there are no API keys, so only loopback is safe; use 127.0.0.1 or [::1]")]
pub struct NotLoopback(pub SocketAddr);

/// Refuses an address that other machines could reach.
pub fn check_listen(address: SocketAddr) -> Result<(), NotLoopback> {
    match address.ip().to_canonical().is_loopback() {
        true => Ok(()),
        false => Err(NotLoopback(address)),
    }
}

/// Middleware that refuses requests from pages of other sites.
pub async fn refuse_cross_origin(request: Request, next: Next) -> Response {
    match foreign_origin(request.headers()) {
        None => next.run(request).await,
        Some(origin) => {
            let detail = format!("this request comes from a page of {origin}, which may not use this server");
            Problem::new(Code::CrossOrigin, detail).into_response()
        }
    }
}

/// Returns the request's origin if that is a page of another machine.
fn foreign_origin(headers: &HeaderMap) -> Option<String> {
    let origin = headers.get(header::ORIGIN)?;
    let origin = String::from_utf8_lossy(origin.as_bytes()).into_owned();
    let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let ours = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    (!ours).then_some(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_may_be_listened_on() {
        for address in ["127.0.0.1:7878", "127.9.9.9:1", "[::1]:7878", "[::ffff:127.0.0.1]:80"] {
            let address = address.parse().expect(address);
            assert_eq!(check_listen(address), Ok(()));
        }
        for address in ["0.0.0.0:7878", "192.168.0.1:7878", "[::]:7878"] {
            let address = address.parse().expect(address);
            let refused = check_listen(address).expect_err("the address is not loopback");
            assert!(refused.to_string().contains("loopback"), "{refused}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_recognised_by_their_origin() {
        let is_foreign = |origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, header::HeaderValue::from_static(origin));
            foreign_origin(&headers).is_some()
        };
        assert!(!is_foreign("http://127.0.0.1:7878"));
        assert!(!is_foreign("http://localhost:7878"));
        assert!(!is_foreign("http://[::1]:7878"));
        assert!(is_foreign("https://example.org"));
        assert!(is_foreign("http://127.0.0.1.example.org:7878"));
        assert!(is_foreign("null"));
        assert_eq!(foreign_origin(&HeaderMap::new()), None);
    }
}
