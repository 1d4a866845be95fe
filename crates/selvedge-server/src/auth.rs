//! Authentication: identifies the caller of a request and its namespace.
//!
//! There are no API keys yet. Every caller is `admin` of the namespace `default`, and therefore the server listens on
//! loopback only. A page of another site in a browser on this machine can reach loopback too. Its requests carry the page's
//! origin, or, if the page has a name that leads to loopback (DNS rebinding), that name as their host; both are refused. No
//! request can name a namespace: a [`Caller`] is the only way to get one.

use crate::AppState;
use crate::shutdown::ShutdownWatch;
use crate::wire::problem::{Code, Problem};
use axum::extract::{FromRequestParts, Request};
use axum::http::{HeaderMap, HeaderValue, header, request::Parts};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use selvedge_core::{Name, Permission, Role};
use selvedge_engine::Namespace;
use std::borrow::Cow;
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

/// Checks that the caller of a request has a permission. Until there are keys, every caller has all of them.
pub fn authorize(_request: &Request, permission: Permission, _state: &AppState) -> Result<(), Problem> {
    match Role::Admin.has(permission) {
        true => Ok(()),
        false => Err(Problem::new(Code::Internal, "the administrator has every permission")),
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

/// Middleware that refuses requests from pages of other sites, and forbids browsers to guess the type of a response.
pub async fn refuse_other_sites(request: Request, next: Next) -> Response {
    let mut response = match check_site(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.closing_connection().into_response(),
    };
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn check_site(request: &Request) -> Result<(), Problem> {
    if let Some(host) = foreign_host(request) {
        let detail = format!("this request is for the host {host}, which is not a loopback address");
        return Err(Problem::new(Code::WrongHost, detail));
    }
    match foreign_origin(request.headers()) {
        None => Ok(()),
        Some(origin) => {
            let detail = format!("this request comes from a page of {origin}, which may not use this server");
            Err(Problem::new(Code::CrossOrigin, detail))
        }
    }
}

/// Returns the host that the request names if it is not this machine, or no host.
fn foreign_host(request: &Request) -> Option<String> {
    let named =
        request.headers().get_all(header::HOST).iter().map(|host| String::from_utf8_lossy(host.as_bytes()));
    // HTTP/2 has the host in the URI.
    let mut hosts = request
        .uri()
        .authority()
        .map(|authority| authority.as_str().into())
        .into_iter()
        .chain(named)
        .peekable();
    match hosts.peek() {
        None => Some("(none)".to_owned()),
        Some(_) => hosts.find(|host| !is_loopback(host)).map(Cow::into_owned),
    }
}

/// Reports whether an authority, a host with or without a port, is this machine.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns the request's origin if that is a page of another machine.
fn foreign_origin(headers: &HeaderMap) -> Option<String> {
    let origin = headers.get(header::ORIGIN)?;
    let origin = String::from_utf8_lossy(origin.as_bytes()).into_owned();
    let authority = origin.split_once("://").map_or("", |(_, authority)| authority);
    (!is_loopback(authority)).then_some(origin)
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

    #[test]
    fn requests_for_other_hosts_are_recognised() {
        let foreign = |host: Option<&str>| {
            let request =
                host.into_iter().fold(Request::builder(), |request, host| request.header(header::HOST, host));
            foreign_host(&request.body(axum::body::Body::empty()).expect("the request is valid"))
        };
        for host in ["127.0.0.1:7878", "127.9.9.9", "localhost", "LOCALHOST:80", "[::1]:7878"] {
            assert_eq!(foreign(Some(host)), None, "{host}");
        }
        for host in ["example.org", "127.0.0.1.example.org:7878", "localhost.example.org", "10.0.0.1", ""] {
            assert_eq!(foreign(Some(host)).as_deref(), Some(host));
        }
        assert_eq!(foreign(None).as_deref(), Some("(none)"));
    }
}
