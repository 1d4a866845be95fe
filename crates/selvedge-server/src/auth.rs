//! Who calls, and for which namespace.
//!
//! There are no keys yet: everybody who reaches the server is `admin` of the namespace `default`, and so the server
//! listens on loopback only. A page of another site in a browser on this machine reaches loopback too; what it sends
//! carries its origin and is refused. No body can name a namespace: a [`Caller`] is the only way to get one.

use crate::problem::{Code, Problem};
use crate::{App, Closing};
use axum::extract::{FromRequestParts, Request};
use axum::http::{HeaderMap, header, request::Parts};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use selvedge_core::Name;
use selvedge_engine::Namespace;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Whoever makes a call.
pub struct Caller {
    /// The namespace it acts in.
    pub namespace: Namespace,
    /// What events call it.
    pub actor: Name,
    /// Tells when the server closes.
    pub closing: Closing,
    /// How long a live feed is silent at most.
    pub keep_alive: Duration,
}

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(_parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        Ok(Caller {
            namespace: app.engine.namespace("default").await?,
            actor: Name::trusted("admin"),
            closing: app.closing.clone(),
            keep_alive: app.keep_alive,
        })
    }
}

impl Caller {
    /// Whose word a signal of this caller is: its own. An operator may name another, and everybody is one.
    pub fn speaks_as(&self, named: Option<Name>) -> Name {
        named.unwrap_or_else(|| self.actor.clone())
    }
}

/// An address that may not be listened on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot listen on {0}: there are no keys, so only loopback is safe; use 127.0.0.1 or [::1]")]
pub struct NotLoopback(pub SocketAddr);

/// Refuses an address that others could reach.
pub fn check_listen(address: SocketAddr) -> Result<(), NotLoopback> {
    match address.ip().to_canonical().is_loopback() {
        true => Ok(()),
        false => Err(NotLoopback(address)),
    }
}

/// Refuses what pages of other sites send.
pub async fn own_pages_only(request: Request, next: Next) -> Response {
    match foreign_origin(request.headers()) {
        None => next.run(request).await,
        Some(origin) => {
            let detail = format!("this call comes from a page of {origin}, which may not use this server");
            Problem::new(Code::CrossOrigin, detail).into_response()
        }
    }
}

/// The origin of a call, if it is a page that did not come from this machine.
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
            let address = address.parse().expect("an address");
            assert_eq!(check_listen(address), Ok(()));
        }
        for address in ["0.0.0.0:7878", "192.168.0.1:7878", "[::]:7878"] {
            let address = address.parse().expect("an address");
            let refused = check_listen(address).expect_err("is refused");
            assert!(refused.to_string().contains("loopback"), "{refused}");
        }
    }

    #[test]
    fn pages_of_other_sites_are_told_by_their_origin() {
        let foreign = |origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, header::HeaderValue::from_static(origin));
            foreign_origin(&headers).is_some()
        };
        assert!(!foreign("http://127.0.0.1:7878"));
        assert!(!foreign("http://localhost:7878"));
        assert!(!foreign("http://[::1]:7878"));
        assert!(foreign("https://example.org"));
        assert!(foreign("http://127.0.0.1.example.org:7878"));
        assert!(foreign("null"));
        assert_eq!(foreign_origin(&HeaderMap::new()), None);
    }
}
