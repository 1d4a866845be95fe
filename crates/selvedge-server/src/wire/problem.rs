//! Problems: the responses of requests that do not succeed, as RFC 9457 `application/problem+json`.
//!
//! Every code is declared once, in [`Code::info`], with its status, title and advice. The page `/docs/problems` is
//! generated from the same table.

use crate::wire::fields::InvalidBody;
use crate::wire::json::{self, Object};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use selvedge_core::Refusal;
use selvedge_core::refusal::{StaleLease, TokenReason};
use selvedge_core::text::{cut, shortened};
use selvedge_engine::Error;
use selvedge_engine::store::Error as StoreError;

/// Delay after which a caller should retry when the store is unavailable, in milliseconds.
const RETRY_AFTER_MS: u64 = 1000;

/// The longest detail of a problem, in bytes. A longer one is shortened: a refusal quotes what the caller sent.
const DETAIL_MAX: usize = 4000;
/// The longest pointer of a problem, in bytes. A longer one ends at the parent of the field that it names.
const POINTER_MAX: usize = 500;

/// The stable code of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    InvalidJson,
    InvalidCursor,
    TlsRequired,
    Unauthorized,
    InvalidToken,
    TokenExpired,
    TokenRevoked,
    Forbidden,
    CrossOrigin,
    WrongHost,
    NotFound,
    UnknownNamespace,
    MethodNotAllowed,
    RequestTimeout,
    StaleLease,
    AlreadyTerminal,
    WrongState,
    FlowEnded,
    IdempotencyMismatch,
    IdTaken,
    VersionMismatch,
    LimitReached,
    LaneDraining,
    Superseded,
    CursorExpired,
    CursorUnknown,
    PayloadTooLarge,
    InvalidField,
    UnknownField,
    UnknownNode,
    UnknownBudget,
    UnknownQuota,
    Cycle,
    TooMany,
    NamespaceRequired,
    RateLimited,
    Internal,
    UnreadableRow,
    StoreUnavailable,
    ShuttingDown,
    Overloaded,
}

/// The declaration of a code.
pub struct CodeInfo {
    /// The code as it is written in problem documents.
    pub code: &'static str,
    /// The HTTP status of the response.
    pub status: StatusCode,
    /// A short title for people.
    pub title: &'static str,
    /// Advice to the caller on what to do.
    pub advice: &'static str,
}

impl Code {
    /// Every code, ordered by status.
    pub const ALL: [Code; 41] = [
        Self::InvalidJson,
        Self::InvalidCursor,
        Self::TlsRequired,
        Self::Unauthorized,
        Self::InvalidToken,
        Self::TokenExpired,
        Self::TokenRevoked,
        Self::Forbidden,
        Self::CrossOrigin,
        Self::WrongHost,
        Self::NotFound,
        Self::UnknownNamespace,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::StaleLease,
        Self::AlreadyTerminal,
        Self::WrongState,
        Self::FlowEnded,
        Self::IdempotencyMismatch,
        Self::IdTaken,
        Self::VersionMismatch,
        Self::LimitReached,
        Self::LaneDraining,
        Self::Superseded,
        Self::CursorExpired,
        Self::CursorUnknown,
        Self::PayloadTooLarge,
        Self::InvalidField,
        Self::UnknownField,
        Self::UnknownNode,
        Self::UnknownBudget,
        Self::UnknownQuota,
        Self::Cycle,
        Self::TooMany,
        Self::NamespaceRequired,
        Self::RateLimited,
        Self::Internal,
        Self::UnreadableRow,
        Self::StoreUnavailable,
        Self::ShuttingDown,
        Self::Overloaded,
    ];

    /// Returns the declaration of the code.
    #[rustfmt::skip]
    pub fn info(self) -> CodeInfo {
        let (code, status, title, advice) = match self {
            Self::InvalidJson => ("invalid_json", 400, "The body is not JSON",
                "Send one JSON object in UTF-8."),
            Self::InvalidCursor => ("invalid_cursor", 400, "The cursor is malformed",
                "Use a cursor from an earlier response, unchanged, with the same path that returned it."),
            Self::TlsRequired => ("tls_required", 400, "The server expects TLS on this port",
                "Use https:// in the address."),
            Self::Unauthorized => ("unauthorized", 401, "The request has no valid key",
                "Send a key in the header Authorization: Bearer KEY. A key that was revoked or has expired is not valid any more: ask an administrator for a new one."),
            Self::InvalidToken => ("invalid_token", 401, "The token does not allow this",
                "Send the token that came with this waitpoint, unchanged, in the field token. A token whose key was rotated away is no longer valid: ask for a new one."),
            Self::TokenExpired => ("token_expired", 401, "The token has expired",
                "Ask its issuer for a new one."),
            Self::TokenRevoked => ("token_revoked", 401, "The token was revoked",
                "Ask its issuer for a new one."),
            Self::Forbidden => ("forbidden", 403, "The key does not permit this",
                "Use a key whose role and namespaces permit it; the detail names what is missing."),
            Self::CrossOrigin => ("cross_origin", 403, "The request came from a page of another site",
                "Without API keys the server accepts browser requests only from its own pages. Call it from a program, or open it by its loopback address."),
            Self::WrongHost => ("wrong_host", 403, "The request names another host",
                "Without API keys the server answers only requests for localhost or a loopback address, so that no web page can reach it by a name of its own. Use its loopback address."),
            Self::NotFound => ("not_found", 404, "Not found",
                "Check the path and the id. Resources of other namespaces are not visible, and executions are deleted after their retention."),
            Self::UnknownNamespace => ("unknown_namespace", 404, "There is no namespace of that name",
                "Correct the name. Namespaces are created by an administrator: selvedge namespaces set NAME, or PUT /v1/admin/namespaces/NAME. A server that is started with --create-namespaces creates every namespace that a request names."),
            Self::MethodNotAllowed => ("method_not_allowed", 405, "The path does not support this method",
                "Use one of the methods in the Allow header."),
            Self::RequestTimeout => ("request_timeout", 408, "The request was not received in time",
                "Send the whole body without pauses, on a new connection."),
            Self::StaleLease => ("stale_lease", 409, "The lease is no longer valid",
                "Stop this attempt and discard its work. The fields holder, state and outcome say who holds the execution now, or how it ended."),
            Self::AlreadyTerminal => ("already_terminal", 409, "The execution has ended",
                "It cannot be changed any more. Replay it to run it again."),
            Self::WrongState => ("wrong_state", 409, "The action does not apply in this state",
                "Read the execution again; the detail says in which states the action applies."),
            Self::FlowEnded => ("flow_ended", 409, "The flow has ended or is being cancelled",
                "Nothing can be added to it. Submit a new flow, or replay one of its nodes to run that node again."),
            Self::IdempotencyMismatch => ("idempotency_mismatch", 409, "The id or key was used with other content",
                "Repeat a request with exactly the same content, or use a new id or key for new work."),
            Self::IdTaken => ("id_taken", 409, "The id is in use elsewhere",
                "Use a new id, or none: the server then generates one. To make a submission safe to repeat, give it an idempotency_key, which belongs to its namespace alone."),
            Self::VersionMismatch => ("version_mismatch", 409, "The execution has changed in the meantime",
                "Read the execution again, decide anew, and send its current version in if_version."),
            Self::LimitReached => ("limit_reached", 409, "The execution has reached a limit",
                "The detail names the limit. Continue in another execution."),
            Self::LaneDraining => ("lane_draining", 409, "The lane is draining",
                "A draining lane accepts no submissions; its waiting executions can still be claimed. Submit to another lane, or make this one active again with POST /v1/lanes/NAME/resume."),
            Self::Superseded => ("superseded", 409, "A newer process has this worker instance",
                "Stop this process: its leases were put back, and its calls are refused from now on. Give each process an instance name or an incarnation of its own."),
            Self::CursorExpired => ("cursor_expired", 410, "The cursor is older than the event log",
                "Start again from the beginning of the log. The events in between have been deleted from it; each execution keeps its own history."),
            Self::CursorUnknown => ("cursor_unknown", 410, "The cursor does not match the event log",
                "The store was restored from a backup, or lost its newest commits in a failover. Start again from the beginning of the log, or now, and read again what you keep about executions."),
            Self::PayloadTooLarge => ("payload_too_large", 413, "The payload is too large",
                "Keep an input or result within 1 MiB, a frame or the payload of a signal within 256 KiB, and a flow, batch or report within 32 MiB; store larger data elsewhere and pass a reference."),
            Self::InvalidField => ("invalid_field", 422, "A field is invalid",
                "Correct the field that pointer names; the detail says what is allowed."),
            Self::UnknownField => ("unknown_field", 422, "There is no such field",
                "Remove or correct the field that pointer names; the detail lists the fields that exist."),
            Self::UnknownNode => ("unknown_node", 422, "No node has that name",
                "Correct the name at pointer, or add a node of that name to the same request."),
            Self::UnknownBudget => ("unknown_budget", 422, "No budget has that name",
                "Correct the name at pointer, or create the budget first: an execution never runs without a limit that it names."),
            Self::UnknownQuota => ("unknown_quota", 422, "No quota has that name",
                "Correct the name at pointer, or create the quota first: an execution never runs without a limit that it names."),
            Self::Cycle => ("cycle", 422, "The edges form a cycle",
                "Remove one of the edges between the nodes that the detail names: no node can wait for itself."),
            Self::TooMany => ("too_many", 422, "The call would act on too many executions",
                "One bulk action covers at most 10 000 executions, and this one changed nothing. Narrow the filter, for example by a range of submission times, and repeat it for each part."),
            Self::NamespaceRequired => ("namespace_required", 422, "The key is of several namespaces",
                "Name one of them in the header Selvedge-Namespace. Only claims, heartbeats and reports work on all of them."),
            Self::RateLimited => ("rate_limited", 429, "Too much at once",
                "Repeat the request after retry_after_ms. It had no effect."),
            Self::Internal => ("internal", 500, "The server failed",
                "This is a defect; the server's log has the cause. Repeating the request is safe."),
            Self::UnreadableRow => ("unreadable_row", 500, "A stored execution cannot be read",
                "Nothing was changed. A newer version may have written it: upgrade this server, or report a defect."),
            Self::StoreUnavailable => ("store_unavailable", 503, "The store is unavailable",
                "Repeat the request after retry_after_ms. It may or may not have taken effect; repeating it is safe."),
            Self::ShuttingDown => ("shutting_down", 503, "The server is shutting down",
                "Repeat the request on another server, or here in a moment."),
            Self::Overloaded => ("overloaded", 503, "The server has no room for another connection or response",
                "Close connections that are not needed, read responses to their end, and repeat the request on another server, or here in a moment."),
        };
        let status = StatusCode::from_u16(status).expect("the table has valid HTTP statuses");
        CodeInfo { code, status, title, advice }
    }
}

/// The problem document of a response.
#[derive(Clone, Debug)]
pub struct Problem {
    code: Code,
    detail: String,
    pointer: Option<String>,
    retry_after_ms: Option<u64>,
    stale_lease: Option<Box<StaleLease>>,
    close_connection: bool,
}

impl Problem {
    /// Returns a problem; `detail` describes this occurrence.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem {
            code,
            detail: shortened(detail.into(), DETAIL_MAX),
            pointer: None,
            retry_after_ms: None,
            stale_lease: None,
            close_connection: false,
        }
    }

    /// Returns the problem of a refusal whose pointer is relative to `parent` in the request.
    pub fn refused_at(parent: &str, refusal: Refusal) -> Self {
        let refusal = under(parent, refusal);
        let code = match &refusal {
            Refusal::InvalidField { .. } => Code::InvalidField,
            Refusal::UnknownField { .. } => Code::UnknownField,
            Refusal::PayloadTooLarge { .. } => Code::PayloadTooLarge,
            Refusal::NotFound { .. } => Code::NotFound,
            Refusal::StaleLease(_) => Code::StaleLease,
            Refusal::AlreadyTerminal { .. } => Code::AlreadyTerminal,
            Refusal::WrongState { .. } => Code::WrongState,
            Refusal::IdempotencyMismatch { .. } => Code::IdempotencyMismatch,
            Refusal::IdTaken { .. } => Code::IdTaken,
            Refusal::UnknownNamespace { .. } => Code::UnknownNamespace,
            Refusal::CannotStop { .. } => Code::WrongState,
            Refusal::Cycle { .. } => Code::Cycle,
            Refusal::UnknownNode { .. } => Code::UnknownNode,
            Refusal::UnknownBudget { .. } => Code::UnknownBudget,
            Refusal::UnknownQuota { .. } => Code::UnknownQuota,
            Refusal::FlowEnded { .. } => Code::FlowEnded,
            Refusal::VersionMismatch { .. } => Code::VersionMismatch,
            Refusal::Token { reason: TokenReason::Invalid, .. } => Code::InvalidToken,
            Refusal::Token { reason: TokenReason::Expired, .. } => Code::TokenExpired,
            Refusal::Token { reason: TokenReason::Revoked, .. } => Code::TokenRevoked,
            Refusal::LimitReached { .. } => Code::LimitReached,
            Refusal::LaneDraining { .. } => Code::LaneDraining,
            Refusal::Superseded { .. } => Code::Superseded,
            Refusal::Unreadable { .. } => Code::UnreadableRow,
            Refusal::TooMany { .. } => Code::TooMany,
        };
        let detail = match refusal.pointer() {
            Some("") => format!("the body{refusal}"),
            Some(_) | None => refusal.to_string(),
        };
        let mut problem = Problem::new(code, detail);
        problem.pointer = refusal.pointer().map(|pointer| within(pointer, POINTER_MAX).to_owned());
        if let Refusal::StaleLease(stale) = refusal {
            problem.stale_lease = Some(stale);
        }
        problem
    }

    /// Points at the part of the request that is wrong.
    pub fn at(mut self, pointer: &str) -> Self {
        self.pointer = Some(pointer.to_owned());
        self
    }

    /// Tells the caller when to repeat the request.
    pub fn retry_after(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    /// Returns the problem as JSON.
    pub fn document(&self) -> String {
        let mut out = Vec::with_capacity(256);
        self.write(&mut out);
        String::from_utf8(out).expect("a problem is text")
    }

    /// Makes the server close the connection after the response.
    pub fn closing_connection(mut self) -> Self {
        self.close_connection = true;
        self
    }

    /// Returns the description of this occurrence.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the HTTP status of the response.
    pub fn status(&self) -> StatusCode {
        self.code.info().status
    }

    /// Writes the problem as a JSON object.
    pub fn write(&self, out: &mut Vec<u8>) {
        let info = self.code.info();
        json::object(out, |object| {
            object.value("type", &format_args!("/docs/problems#{}", info.code));
            object.value("title", info.title);
            object.value("status", &info.status.as_u16());
            object.value("detail", &self.detail);
            object.value("code", info.code);
            if let Some(pointer) = &self.pointer {
                object.value("pointer", pointer);
            }
            if let Some(ms) = self.retry_after_ms {
                object.value("retry_after_ms", &ms);
            }
            if let Some(stale) = &self.stale_lease {
                write_stale_lease(object, stale);
            }
        });
    }
}

/// Writes the fields for a worker with a stale fence: the execution's current state, outcome and lease holder.
pub fn write_stale_lease(object: &mut Object<'_>, stale: &StaleLease) {
    object.value("state", &stale.state);
    object.value("outcome", &stale.outcome);
    match &stale.holder {
        None => object.null("holder"),
        Some(holder) => object.object("holder", |object| {
            object.value("worker", &holder.worker);
            object.value("instance", &holder.instance);
            object.value("lease_id", &holder.lease_id);
            object.value("epoch", &holder.epoch);
            object.time("claimed_at", Some(holder.claimed_at));
        }),
    }
}

/// Returns the pointer, or that of its nearest parent that is not longer than `limit`.
fn within(pointer: &str, limit: usize) -> &str {
    match pointer.len() <= limit {
        true => pointer,
        false => cut(pointer, limit).rsplit_once('/').map_or("", |(parent, _)| parent),
    }
}

/// Prefixes the pointer of a refusal with `parent`. A pointer to a header is absolute and stays.
fn under(parent: &str, refusal: Refusal) -> Refusal {
    match refusal.pointer().is_some_and(|pointer| pointer.starts_with("/headers/")) {
        true => refusal,
        false => refusal.with_pointer_prefix(parent),
    }
}

impl From<InvalidBody> for Problem {
    fn from(invalid: InvalidBody) -> Self {
        match invalid {
            InvalidBody::NotJson(detail) => Problem::new(Code::InvalidJson, detail),
            InvalidBody::Refused(refusal) => refusal.into(),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Problem::refused_at("", refusal)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Refused(refusal) => refusal.into(),
            Error::Closed => Problem::new(
                Code::ShuttingDown,
                "this server is shutting down; repeat the request on another one, or later",
            ),
            Error::InvalidCursor => Problem::new(Code::InvalidCursor, error.to_string()),
            Error::CursorExpired => Problem::new(Code::CursorExpired, error.to_string()),
            Error::CursorUnknown => Problem::new(Code::CursorUnknown, error.to_string()),
            Error::Store(error) if error.is_transient() => {
                tracing::warn!(%error, "a request failed because the store is unavailable");
                let detail = "the store cannot be reached or is too busy; repeating the request is safe";
                Problem {
                    retry_after_ms: Some(RETRY_AFTER_MS),
                    ..Problem::new(Code::StoreUnavailable, detail)
                }
            }
            // Logged once, when it was found.
            Error::Store(StoreError::SchemaTooNew { .. }) => Problem {
                retry_after_ms: Some(RETRY_AFTER_MS),
                ..Problem::new(
                    Code::StoreUnavailable,
                    "this server is too old for the schema of its store, which another program has upgraded; it had no effect. \
                     Repeat the request on an upgraded server",
                )
            },
            Error::Store(error) => {
                tracing::error!(%error, "a request failed");
                Problem::new(Code::Internal, "the store failed; see the server's log")
            }
        }
    }
}

/// The code and the detail of a problem, attached to its response for the page that shows it to people.
#[derive(Clone)]
pub struct ProblemSummary {
    pub code: Code,
    pub detail: String,
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut out = Vec::with_capacity(256);
        self.write(&mut out);
        let json = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status(), json, out).into_response();
        let headers = response.headers_mut();
        if let Some(ms) = self.retry_after_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(ms.div_ceil(1000)));
        }
        if self.status() == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if self.close_connection {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response.extensions_mut().insert(ProblemSummary { code: self.code, detail: self.detail });
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transient_store_error_asks_to_retry_and_no_store_error_is_shown() {
        let detail = || "password=secret".to_owned();
        for transient in [
            StoreError::Unavailable(detail()),
            StoreError::Contended(detail()),
            StoreError::TooSlow(detail()),
        ] {
            let response = Problem::from(Error::from(transient)).into_response();
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(response.headers()["retry-after"], "1");
        }
        let failed = selvedge_engine::store::Error::Failed("password=secret".into());
        for error in [Error::from(failed), Error::Closed] {
            let mut out = Vec::new();
            Problem::from(error).write(&mut out);
            let text = String::from_utf8_lossy(&out).into_owned();
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn a_problem_quotes_only_a_part_of_long_text() {
        let long = "é".repeat(100_000);
        let cases = [
            Refusal::field("/kind", format!("is {long:?}; it must be a name")),
            Refusal::UnknownField {
                pointer: format!("/ops/7/{long}"),
                detail: "there is no such field".into(),
            },
        ];
        for refusal in cases {
            let problem = Problem::from(refusal);
            let mut out = Vec::new();
            problem.write(&mut out);
            assert!(out.len() < 6000, "{} bytes", out.len());
        }
        let unknown = Refusal::UnknownField { pointer: format!("/ops/7/{long}"), detail: String::new() };
        assert_eq!(Problem::from(unknown).pointer.as_deref(), Some("/ops/7"));
    }

    #[test]
    fn codes_are_distinct_and_ordered_by_status() {
        let infos = Code::ALL.map(Code::info);
        assert!(infos.is_sorted_by_key(|info| info.status));
        let codes: std::collections::BTreeSet<&str> = infos.iter().map(|info| info.code).collect();
        assert_eq!(codes.len(), Code::ALL.len());
    }
}
