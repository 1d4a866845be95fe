//! Authentication and authorisation: identifies the caller of a request, checks its permission, and gives it its namespace.
//!
//! Without keys every caller is the administrator, in the namespace `default`, and the server listens on loopback only
//! (`sites`). With keys a request has `Authorization: Bearer KEY`, or the cookie of a browser that signed in with a key (`session`).
//! The namespace follows from the key alone: a [`Caller`] or a
//! [`WorkerCaller`] is the only way to get one, and no body can name one.
//!
//! Every route runs [`authorize`] first, with the permission that it declares (`routes::table`). A key (`api_keys`) that was used a moment
//! ago is found without the store and without a shared lock (`cache`). A failed attempt is counted per address (`throttle`), also one with the
//! token of a waitpoint (`token`), which needs no key.
//! Neither a key nor its digest is ever written to a log, an event or a response.

mod api_keys;
mod bulk_jobs;
mod cache;
mod principal;
pub mod session;
mod sites;
mod throttle;
mod token;

pub use api_keys::AdminKey;
pub use cache::Connection;
pub use principal::DEFAULT_NAMESPACE;
pub use sites::{NotLoopback, check_listen, refuse_other_sites};
pub use throttle::AddressBlock;
pub use token::TokenHolder;

use crate::shutdown::ShutdownWatch;
use crate::wire::problem::{Code, Problem};
use crate::{AppState, WebhookOptions};
use api_keys::{KeyDigest, KeyId, KeyText, note_use};
use axum::extract::{FromRequestParts, Request};
use axum::http::{HeaderValue, header, request::Parts};
use cache::{CachedKey, Keys};
use principal::{HEADER, Picked, Principal, namespace_required, pick_without_keys};
use selvedge_core::web_session::SessionKey;
use selvedge_core::{Name, Permission, Role};
use selvedge_engine::{Engine, Namespace, Namespaces, ServerDefaults};
use session::BrowserSession;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use throttle::{Throttle, client_address};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The number of keys that callers with many failures may look up at the same time.
const SUSPICIOUS_LOOKUPS: usize = 2;
/// The options of authentication.
#[derive(Clone, Debug, Default)]
pub struct AuthOptions {
    /// The administrator's key, which turns authentication on. Default: none.
    pub admin_key: Option<AdminKey>,
    /// Turns authentication on without an administrator's key, for a store that has keys. Default: false.
    pub keys_required: bool,
    /// The addresses of proxies whose `X-Forwarded-For` is believed. Default: none.
    pub trusted_proxies: Vec<AddressBlock>,
    /// The maximum number of requests of each key in a second. Default: no limit.
    pub requests_per_second: Option<u32>,
}

impl AuthOptions {
    /// Reports whether requests need a key.
    pub fn is_on(&self) -> bool {
        self.admin_key.is_some() || self.keys_required
    }
}

/// The state of authentication that all requests share.
pub struct Auth {
    options: AuthOptions,
    keys: Keys,
    throttle: Throttle,
    /// The key of sessions. None if a copy of the store would be enough to derive it: then nobody signs in.
    session_key: Option<SessionKey>,
    /// Limits the lookups of addresses with many failures, so that they do not take the store from others.
    suspicious: Semaphore,
}

impl Auth {
    /// Returns the state for these options.
    pub fn new(options: AuthOptions, engine: &Engine) -> Auth {
        let suspicious = Semaphore::new(SUSPICIOUS_LOOKUPS);
        let of_servers = options.admin_key.as_ref().map(|admin| &admin.of_sessions[..]);
        let session_key = engine.session_key(of_servers);
        Auth { options, keys: Keys::new(), throttle: Throttle::default(), session_key, suspicious }
    }

    /// Reports whether requests need a key.
    pub fn is_on(&self) -> bool {
        self.options.is_on()
    }

    /// Waits for a turn if this address had many failures.
    async fn turn(&self, address: IpAddr) -> Option<SemaphorePermit<'_>> {
        match self.throttle.is_suspicious(address, Instant::now()) {
            true => self.suspicious.acquire().await.ok(),
            false => None,
        }
    }

    /// Counts a failed attempt and returns its problem.
    fn refuse(&self, address: IpAddr) -> Problem {
        let detail = "too many requests with wrong keys came from this address";
        let unauthorized = || Problem::new(Code::Unauthorized, "the key is unknown, revoked or expired");
        self.too_many_failures(address, detail).unwrap_or_else(unauthorized)
    }

    /// Counts a failed attempt. Returns a problem if the address has failed too often.
    fn too_many_failures(&self, address: IpAddr, detail: &str) -> Option<Problem> {
        let wait = self.throttle.count_failure(address, Instant::now())?;
        Some(Problem::new(Code::RateLimited, detail).retry_after(wait.as_millis() as u64))
    }
}

/// The decision about a request.
pub enum Access {
    /// The caller has the permission.
    Granted,
    /// The caller has no valid key, or one without the permission.
    Refused(Problem),
    /// The key must be looked up.
    Unknown(Lookup),
}

/// A key that must be looked up.
pub struct Lookup {
    digest: KeyDigest,
    /// The header that has the key; none for a session.
    credentials: Option<HeaderValue>,
}

/// Checks that the caller of a request has a permission. Attaches the caller to the request.
pub fn authorize(request: &mut Request, permission: Permission, state: &AppState) -> Access {
    if permission == Permission::Open || !state.auth.is_on() {
        return Access::Granted;
    }
    let Some(credentials) = request.headers().get(header::AUTHORIZATION) else {
        return authorize_session(request, permission, state);
    };
    let connection = request.extensions().get::<Arc<Connection>>();
    let remembered = connection.and_then(|connection| connection.remembered(credentials));
    if let Some(entry) = remembered.filter(|entry| state.auth.keys.is_believed(entry)) {
        return grant(request, entry, permission, state);
    }
    let Some(text) = bearer(credentials) else {
        let detail = "the header Authorization must be Bearer KEY, with one key";
        return Access::Refused(Problem::new(Code::Unauthorized, detail));
    };
    let digest = KeyDigest::of(text);
    if let Some(entry) = state.auth.keys.get(&digest).or_else(|| state.auth.admin_entry(digest)) {
        if let Some(connection) = connection {
            connection.remember(credentials, &entry);
        }
        return grant(request, entry, permission, state);
    }
    if !KeyText::is_well_formed(text) {
        return Access::Refused(state.auth.refuse(client(request, state)));
    }
    Access::Unknown(Lookup { digest, credentials: Some(credentials.clone()) })
}

/// Checks that the session of a request has a permission.
fn authorize_session(request: &mut Request, permission: Permission, state: &AppState) -> Access {
    let Some(session) = BrowserSession::read(request.headers(), state) else {
        let detail = "there is no key; send it in the header Authorization: Bearer KEY";
        return Access::Refused(Problem::new(Code::Unauthorized, detail));
    };
    if !request.method().is_safe()
        && let Err(problem) = session::check_same_origin(request.headers(), request.uri())
    {
        return Access::Refused(problem);
    }
    session::pick_namespace(request, &session);
    let digest = session.digest;
    match state.auth.keys.get(&digest).or_else(|| state.auth.admin_entry(digest)) {
        Some(entry) => grant(request, entry, permission, state),
        None => Access::Unknown(Lookup { digest, credentials: None }),
    }
}

impl Lookup {
    /// Looks the key up and checks the permission.
    pub async fn run(
        self,
        request: &mut Request,
        permission: Permission,
        state: &AppState,
    ) -> Result<(), Problem> {
        let (auth, address) = (&state.auth, client(request, state));
        let _turn = auth.turn(address).await;
        let Some(entry) = auth.look_up(self.digest, &state.engine).await? else {
            return Err(match self.credentials {
                Some(_) => auth.refuse(address),
                // The session was issued here, so its key was valid: this is no guess to be counted.
                None => {
                    Problem::new(Code::Unauthorized, "the key of this session was revoked or has expired")
                }
            });
        };
        let connection = request.extensions().get::<Arc<Connection>>();
        if let (Some(connection), Some(credentials)) = (connection, &self.credentials) {
            connection.remember(credentials, &entry);
        }
        match grant(request, entry, permission, state) {
            Access::Granted => Ok(()),
            Access::Refused(problem) => Err(problem),
            Access::Unknown(_) => Err(auth.refuse(address)),
        }
    }
}

/// Attaches a known caller to the request, if it has the permission.
fn grant(request: &mut Request, entry: Arc<CachedKey>, permission: Permission, state: &AppState) -> Access {
    let role = entry.principal.role;
    if !role.has(permission) {
        let detail = format!(
            "the key {:?} has the role {}, which does not have the permission to {}",
            entry.principal.name,
            role.as_str(),
            permission.as_str()
        );
        return Access::Refused(Problem::new(Code::Forbidden, detail));
    }
    if permission == Permission::AdministerServer && !entry.principal.is_of_every_namespace() {
        let detail = format!(
            "the key {:?} is not of every namespace (*), which the permission to {} needs",
            entry.principal.name,
            permission.as_str()
        );
        return Access::Refused(Problem::new(Code::Forbidden, detail));
    }
    let limit = state.auth.options.requests_per_second;
    if let Some(wait) = limit.and_then(|limit| state.auth.keys.count_request(&entry, limit)) {
        let detail =
            format!("the key {:?} makes too many requests; this one had no effect", entry.principal.name);
        let problem = Problem::new(Code::RateLimited, detail);
        return Access::Refused(problem.retry_after(wait.as_millis() as u64));
    }
    note_use(&entry, state);
    request.extensions_mut().insert(entry);
    Access::Granted
}

/// Returns the key in the value of an `Authorization` header.
fn bearer(credentials: &HeaderValue) -> Option<&str> {
    let (scheme, key) = credentials.to_str().ok()?.split_once(' ')?;
    let key = key.trim_matches(' ');
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then_some(key)
}

fn client(request: &Request, state: &AppState) -> IpAddr {
    let peer = request.extensions().get::<Arc<Connection>>().map(|connection| connection.peer);
    client_address(peer, request.headers(), &state.auth.options.trusted_proxies)
}

/// The caller of a request, in one namespace.
pub struct Caller {
    /// The caller's namespace.
    pub namespace: Namespace,
    /// The caller's name in events.
    pub actor: Name,
    /// Observes the server's shutdown.
    pub shutdown: ShutdownWatch,
    /// Interval of keep-alive comments on a silent event stream.
    pub keep_alive: Duration,
    /// The caller's key; none on a server without keys.
    key: Option<Arc<CachedKey>>,
    state: AppState,
}

/// The caller of a worker's request, in one or several namespaces.
pub enum WorkerCaller {
    /// A caller in one namespace.
    One(Caller),
    /// A caller in all namespaces of its key.
    Several(Arc<Namespaces>, ShutdownWatch),
}

impl WorkerCaller {
    /// Returns the defaults of the server.
    pub fn defaults(&self) -> &ServerDefaults {
        match self {
            WorkerCaller::One(caller) => caller.namespace.engine().defaults(),
            WorkerCaller::Several(some, _) => some.engine().defaults(),
        }
    }
}

impl FromRequestParts<AppState> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        match WorkerCaller::from_request_parts(parts, state).await? {
            WorkerCaller::One(caller) => Ok(caller),
            WorkerCaller::Several(some, _) => Err(namespace_required(&some)),
        }
    }
}

impl FromRequestParts<AppState> for WorkerCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, Problem> {
        let key = parts.extensions.get::<Arc<CachedKey>>().cloned();
        let (namespace, actor) = match &key {
            Some(entry) => match entry.principal.pick(&parts.headers, &state.engine).await? {
                Picked::One(namespace) => (namespace, entry.principal.name.clone()),
                Picked::Several(some) => return Ok(WorkerCaller::Several(some, state.shutdown.clone())),
            },
            None if state.auth.is_on() => {
                // A route that is open to everyone has no caller.
                return Err(Problem::new(Code::Unauthorized, "there is no key"));
            }
            None => {
                let namespace = pick_without_keys(&parts.headers, &state.engine).await?;
                (namespace, Principal::administrator().name)
            }
        };
        if namespace.is_deleted().await? {
            let detail = format!("the namespace {:?} was deleted", namespace.name());
            return Err(Problem::new(Code::NotFound, detail));
        }
        Ok(WorkerCaller::One(Caller {
            namespace,
            actor,
            shutdown: state.shutdown.clone(),
            keep_alive: state.keep_alive,
            key,
            state: state.clone(),
        }))
    }
}

impl Caller {
    /// Reports whether the caller has a permission. Without keys every caller is an administrator.
    pub fn may(&self, permission: Permission) -> bool {
        self.role().has(permission)
            && (permission != Permission::AdministerServer || self.namespaces().is_none())
    }

    /// Returns the options of webhooks.
    pub fn webhook_options(&self) -> &Arc<WebhookOptions> {
        &self.state.shared.webhooks
    }

    /// Reports whether webhooks may be delivered to addresses that are not public.
    pub fn webhooks_allow_private(&self) -> bool {
        self.state.shared.webhooks.allow_private
    }

    /// Reports whether requests need a key: a person in a browser has signed in.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Returns the role of the caller.
    pub fn role(&self) -> Role {
        self.key.as_ref().map_or(Role::Admin, |key| key.principal.role)
    }

    /// Returns the names of the namespaces that the caller may use; none for every namespace.
    pub fn namespaces(&self) -> Option<Vec<Name>> {
        self.key.as_ref().and_then(|key| key.principal.namespaces())
    }

    /// Refuses a caller who is not an administrator of a namespace.
    pub fn check_namespace(&self, name: &str) -> Result<(), Problem> {
        match self.namespaces() {
            Some(own) if own.iter().all(|own| own.as_str() != name) => {
                let detail = format!("the key {:?} is not of the namespace {name:?}", self.actor);
                Err(Problem::new(Code::Forbidden, detail))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the source of a signal that this caller sends: the one it names, else itself. Only operators may name
    /// another source.
    pub fn signal_source(&self, named: Option<Name>) -> Result<Name, Problem> {
        match named {
            None => Ok(self.actor.clone()),
            Some(named) if named == self.actor || self.role().has(Permission::Operate) => Ok(named),
            Some(_) => {
                let detail = "only operators may name another source than the name of their key";
                Err(Problem::new(Code::Forbidden, detail))
            }
        }
    }

    /// Reports whether the caller's key is still valid, for responses that last. A store that does not answer changes
    /// nothing.
    pub async fn is_still_valid(&self) -> bool {
        let Some(entry) = &self.key else { return true };
        let auth = &self.state.auth;
        auth.keys.is_believed(entry)
            || auth.keys.get(&entry.digest).is_some()
            || !matches!(auth.look_up(entry.digest, &self.state.engine).await, Ok(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_a_scheme_and_one_key() {
        let key = |text: &'static str| bearer(&HeaderValue::from_static(text)).map(str::to_owned);
        assert_eq!(key("Bearer abc").as_deref(), Some("abc"));
        assert_eq!(key("bearer  abc ").as_deref(), Some("abc"));
        for wrong in ["", "Bearer", "Bearer ", "Basic abc", "abc"] {
            assert_eq!(key(wrong), None, "{wrong}");
        }
    }
}
