//! Sessions of people in a browser: a signed cookie that stands for a key.
//!
//! The cookie is `v2.<number>.<hidden digest of the key>.<expiry>.<namespace>.<code>`. The code authenticates the rest under a key
//! that is derived from the root secret and the administrator's key, so every server that has both accepts it and none keeps
//! it, and a copy of the store is not enough to make one. The digest of the key is hidden with a random number under the same
//! key, because the digest of a short key can be guessed. Each request looks the digest up like that of a key: a revoked or expired
//! key ends its sessions, and the role is always the current one.
//!
//! A browser adds the cookie to requests by itself. So a request with a method that changes something must prove that a page of
//! this server sent it ([`is_same_origin`]); `SameSite=Strict` alone would trust other ports of the same host.

use super::principal::unknown;
use super::throttle::client_address;
use super::{Connection, HEADER, KeyDigest, KeyText};
use crate::AppState;
use crate::wire::problem::{Code, Problem};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::web_session::SessionKey;
use selvedge_core::{Name, Timestamp};
use std::sync::Arc;
use uuid::Uuid;

/// The name of the cookie.
const COOKIE: &str = "selvedge-session";
/// The longest life of a session, in milliseconds: 12 hours.
const LIFE_MS: i64 = 12 * 3600 * 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserSession {
    pub digest: KeyDigest,
    /// The time of its end.
    expires_at: Timestamp,
    /// The namespace that its requests act in; none for the default of the key.
    pub namespace: Option<Name>,
}

impl BrowserSession {
    /// Reads the session of a request. None if there is no cookie, or one that was not issued here or has expired.
    pub fn read(headers: &HeaderMap, state: &AppState) -> Option<BrowserSession> {
        let key = state.auth.session_key.as_ref()?;
        let (text, code) = cookie(headers)?.rsplit_once('.')?;
        if !key.verifies(text, code) {
            return None;
        }
        BrowserSession::parse(text, key).filter(|session| session.expires_at > state.engine.store_time())
    }

    fn parse(text: &str, key: &SessionKey) -> Option<BrowserSession> {
        let parts: Vec<&str> = text.split('.').collect();
        let ["v2", number, hidden, expires_at, namespace] = parts[..] else { return None };
        let number = Uuid::from_bytes(from_hex(number)?.try_into().ok()?);
        let digest = key.mask(number, KeyDigest(from_hex(hidden)?.try_into().ok()?));
        let namespace = String::from_utf8(from_hex(namespace)?).ok()?;
        let namespace = match namespace.is_empty() {
            true => None,
            false => Some(Name::parse("", &namespace, NAME_LIMIT).ok()?),
        };
        let expires_at = Timestamp::from_millis(expires_at.parse().ok()?);
        Some(BrowserSession { digest, expires_at, namespace })
    }

    fn text(&self, key: &SessionKey) -> String {
        let number = Uuid::new_v4();
        let hidden = key.mask(number, self.digest);
        let namespace = self.namespace.as_ref().map_or("", Name::as_str);
        let (hidden, namespace) = (to_hex(&hidden.0), to_hex(namespace.as_bytes()));
        format!("v2.{}.{hidden}.{}.{namespace}", number.simple(), self.expires_at.millis())
    }

    /// Returns the value of the `Set-Cookie` header that begins the session.
    pub fn cookie(&self, state: &AppState, headers: &HeaderMap) -> Result<HeaderValue, Problem> {
        let key = session_key(state)?;
        let text = self.text(key);
        let code = key.sign(&text);
        Ok(set_cookie(&format!("{text}.{code}"), LIFE_MS / 1000, is_secure(state, headers)))
    }

    /// Returns this session in another namespace.
    pub fn in_namespace(self, namespace: Option<Name>) -> BrowserSession {
        BrowserSession { namespace, ..self }
    }
}

/// Returns the value of the `Set-Cookie` header that ends a session.
pub fn end(state: &AppState, headers: &HeaderMap) -> HeaderValue {
    set_cookie("", 0, is_secure(state, headers))
}

fn set_cookie(value: &str, life_seconds: i64, is_secure: bool) -> HeaderValue {
    let secure = if is_secure { "; Secure" } else { "" };
    let text = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={life_seconds}{secure}");
    HeaderValue::from_str(&text).expect("hexadecimal digits, base64 and dots are valid")
}

/// Reports whether the browser reaches the server through TLS, here or at a proxy in front.
pub fn is_secure(state: &AppState, headers: &HeaderMap) -> bool {
    state.shared.has_tls || headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https")
}

/// Returns the key of sessions.
fn session_key(state: &AppState) -> Result<&SessionKey, Problem> {
    state.auth.session_key.as_ref().ok_or_else(|| {
        let detail = "this server has no secret outside of its store, so nobody can sign in; set SELVEDGE_SECRET or \
                      SELVEDGE_ADMIN_KEY on every server of the store, and start them again";
        Problem::new(Code::Forbidden, detail)
    })
}

/// Checks a key and begins its session. Wrong keys are counted like those of other requests. A key of several namespaces acts in
/// the first one unless another is named.
pub async fn sign_in(
    text: &str,
    namespace: Option<Name>,
    request: (&HeaderMap, Option<&Arc<Connection>>),
    state: &AppState,
) -> Result<BrowserSession, Problem> {
    session_key(state)?;
    let (headers, connection) = request;
    let (auth, digest) = (&state.auth, KeyDigest::of(text));
    let peer = connection.map(|connection| connection.peer);
    let address = client_address(peer, headers, &auth.options.trusted_proxies);
    let known = auth.keys.get(&digest).or_else(|| auth.admin_entry(digest));
    let entry = match known {
        Some(entry) => Some(entry),
        None if !KeyText::is_well_formed(text) => None,
        None => {
            let _turn = auth.turn(address).await;
            auth.look_up(digest, &state.engine).await?
        }
    };
    let entry = entry.ok_or_else(|| auth.refuse(address))?;
    let own = entry.principal.namespaces();
    let namespace = match (namespace, own) {
        (Some(named), Some(own)) if !own.contains(&named) => {
            let detail = format!("the key is not of the namespace {named:?}");
            return Err(Problem::new(Code::Forbidden, detail));
        }
        (None, Some(own)) => own.into_iter().next(),
        (named, _) => named,
    };
    if let Some(named) = &namespace {
        check_exists(named, state).await?;
    }
    let expires_at = state.engine.store_time().plus_ms(LIFE_MS);
    Ok(BrowserSession { digest, expires_at, namespace })
}

/// Refuses a namespace that does not exist, in which no page could be shown.
pub async fn check_exists(namespace: &Name, state: &AppState) -> Result<(), Problem> {
    match state.engine.open_namespace(namespace).await? {
        Some(_) => Ok(()),
        None => Err(unknown(namespace)),
    }
}

/// Lets the request act in the namespace of its session, unless it names another one.
pub fn pick_namespace(request: &mut Request, session: &BrowserSession) {
    let named = session.namespace.as_ref().map(|name| HeaderValue::from_bytes(name.as_bytes()));
    if let Some(Ok(named)) = named {
        request.headers_mut().entry(HEADER).or_insert(named);
    }
}

/// Refuses a request that a page of another site may have sent.
pub fn check_same_origin(headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
    match is_same_origin(headers, uri) {
        true => Ok(()),
        false => {
            let detail = "a request with a session must come from a page of this server";
            Err(Problem::new(Code::CrossOrigin, detail))
        }
    }
}

/// Reports whether the browser says that a page of this server sent the request.
fn is_same_origin(headers: &HeaderMap, uri: &Uri) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let origin = origin.and_then(|origin| origin.split_once("://")).map(|(_, authority)| authority);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    // HTTP/2 has the host in the URI.
    let host = host.or_else(|| uri.authority().map(|authority| authority.as_str()));
    origin.is_some() && origin == host
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| name.trim() == COOKIE).map(|(_, value)| value.trim())
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    let byte = |pair: &str| u8::from_str_radix(pair, 16).ok().filter(|_| pair.len() == 2);
    pairs.map(|pair| pair.and_then(byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_core::token::Secret;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().expect(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_session_survives_its_text_and_any_other_text_is_no_session() {
        let key = Secret::new(vec![1; 32]).expect("the secret is long enough").session_key(b"");
        for namespace in [None, Some(Name::trusted("a ; b"))] {
            let expires_at = Timestamp::from_millis(1_700_000_000_000);
            let session = BrowserSession { digest: KeyDigest::of("key"), expires_at, namespace };
            let text = session.text(&key);
            assert_eq!(BrowserSession::parse(&text, &key), Some(session.clone()));
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.'));
            assert!(!text.contains(&to_hex(&session.digest.0)) && text != session.text(&key));
            assert_eq!(BrowserSession::parse(&format!("{text}."), &key), None);
        }
        for text in ["", "v2", "v2....", "v1.00.0.", "v2.00.zz.0."] {
            assert_eq!(BrowserSession::parse(text, &key), None, "{text}");
        }
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let found = |text| cookie(&headers(&[("cookie", text)])).map(str::to_owned);
        assert_eq!(found("a=b; selvedge-session=x.y; c=d").as_deref(), Some("x.y"));
        assert_eq!(found("a=selvedge-session"), None);
    }

    #[test]
    fn only_a_page_of_this_server_is_of_the_same_origin() {
        let uri = Uri::from_static("/v1/executions");
        let is_same = |pairs: &[(&'static str, &'static str)]| is_same_origin(&headers(pairs), &uri);
        assert!(is_same(&[("sec-fetch-site", "same-origin")]));
        assert!(is_same(&[("origin", "https://a:8443"), ("host", "a:8443")]));
        assert!(!is_same(&[("sec-fetch-site", "same-site"), ("origin", "http://a"), ("host", "a")]));
        assert!(!is_same(&[("sec-fetch-site", "none")]));
        assert!(!is_same(&[("origin", "http://a:1"), ("host", "a:2")]));
        assert!(
            !is_same(&[("origin", "null"), ("host", "a")]) && !is_same(&[("host", "a")]) && !is_same(&[])
        );
    }
}
