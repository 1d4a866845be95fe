//! The checks of a server without keys: it listens on loopback only, and a page of another site cannot use it.
//!
//! A page of another site in a browser on this machine can reach loopback too. Its requests carry the page's origin, or, if
//! the page has a name that leads to loopback (DNS rebinding), that name as their host; both are refused. With keys neither
//! matters: a page of another site has no key, and no response allows it to read anything (there is no CORS).

use super::session;
use crate::AppState;
use crate::wire::problem::{Code, Problem};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

/// An address that the server refuses to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot listen on {0}: without SELVEDGE_ADMIN_KEY there are no API keys, and only loopback is safe; set it, or use \
     127.0.0.1 or [::1]"
)]
pub struct NotLoopback(pub SocketAddr);

/// Refuses an address that other machines could reach.
pub fn check_listen(address: SocketAddr) -> Result<(), NotLoopback> {
    match address.ip().to_canonical().is_loopback() {
        true => Ok(()),
        false => Err(NotLoopback(address)),
    }
}

/// Tells browsers to use only TLS for the host from now on: 30 days. It concerns all ports of the host, so the time is short enough for an
/// experiment to end by itself.
const TLS_ONLY: HeaderValue = HeaderValue::from_static("max-age=2592000");

/// Middleware that refuses requests from pages of other sites, and forbids browsers to guess the type of a response and, where they
/// reached the server through TLS, to do without it. Loopback is exempt: other programs on the machine use plain HTTP.
pub async fn refuse_other_sites(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let checked = if state.auth.is_on() { Ok(()) } else { check_site(&request) };
    let is_tls_only = session::is_secure(&state, request.headers()) && foreign_host(&request).is_some();
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.closing_connection().into_response(),
    };
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if is_tls_only {
        response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, TLS_ONLY);
    }
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

/// Returns the request's origin if that is a page of another machine. A page that hides its address (`no-referrer`) sends forms with
/// the origin `null`; then the browser's own `Sec-Fetch-Site`, which no page can set, says whether it is of this server.
fn foreign_origin(headers: &HeaderMap) -> Option<String> {
    let origin = headers.get(header::ORIGIN)?;
    if origin == "null" && headers.get("sec-fetch-site").is_some_and(|site| site == "same-origin") {
        return None;
    }
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
        for (site, is_foreign) in
            [("same-origin", false), ("same-site", true), ("cross-site", true), ("none", true)]
        {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, HeaderValue::from_static("null"));
            headers.insert("sec-fetch-site", HeaderValue::from_static(site));
            assert_eq!(foreign_origin(&headers).is_some(), is_foreign, "{site}");
        }
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
