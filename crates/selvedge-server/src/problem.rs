//! Problems: what a call is answered when it does not succeed, as RFC 9457 `application/problem+json`.
//!
//! Every code is declared once, in [`Code::declared`]: its status, its title and what to do about it. The page
//! `/docs/problems` is made from the same table.

use crate::json::{self, Object};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use selvedge_core::Refusal;
use selvedge_core::refusal::{StaleLease, TokenReason};
use selvedge_engine::Error;

/// How long a caller should wait before it repeats a call that the store could not do.
const RETRY_AFTER_MS: u64 = 1000;

/// A kind of problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    InvalidJson,
    InvalidCursor,
    InvalidToken,
    TokenExpired,
    TokenRevoked,
    CrossOrigin,
    NotFound,
    MethodNotAllowed,
    StaleLease,
    AlreadyTerminal,
    WrongState,
    FlowEnded,
    IdempotencyMismatch,
    VersionMismatch,
    LimitReached,
    LaneDraining,
    CursorExpired,
    PayloadTooLarge,
    InvalidField,
    UnknownField,
    UnknownNode,
    Cycle,
    Internal,
    UnreadableRow,
    StoreUnavailable,
    ShuttingDown,
}

/// What is declared of a code.
pub struct Declared {
    /// The stable word.
    pub code: &'static str,
    /// The HTTP status.
    pub status: StatusCode,
    /// A few words for people.
    pub title: &'static str,
    /// What to do.
    pub advice: &'static str,
}

impl Code {
    /// Every code, in the order of their status.
    pub const ALL: [Code; 26] = [
        Self::InvalidJson,
        Self::InvalidCursor,
        Self::InvalidToken,
        Self::TokenExpired,
        Self::TokenRevoked,
        Self::CrossOrigin,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::StaleLease,
        Self::AlreadyTerminal,
        Self::WrongState,
        Self::FlowEnded,
        Self::IdempotencyMismatch,
        Self::VersionMismatch,
        Self::LimitReached,
        Self::LaneDraining,
        Self::CursorExpired,
        Self::PayloadTooLarge,
        Self::InvalidField,
        Self::UnknownField,
        Self::UnknownNode,
        Self::Cycle,
        Self::Internal,
        Self::UnreadableRow,
        Self::StoreUnavailable,
        Self::ShuttingDown,
    ];

    /// The table.
    #[rustfmt::skip]
    pub fn declared(self) -> Declared {
        let (code, status, title, advice) = match self {
            Self::InvalidJson => ("invalid_json", 400, "The body is not JSON",
                "Send one JSON object in UTF-8."),
            Self::InvalidCursor => ("invalid_cursor", 400, "The cursor is malformed",
                "Use a cursor that an earlier answer gave, unchanged, with the call that gave it."),
            Self::InvalidToken => ("invalid_token", 401, "The token does not allow this",
                "Send the token that came with this waitpoint, unchanged, in the field token. One whose key was rotated away is gone: ask for another."),
            Self::TokenExpired => ("token_expired", 401, "The time of the token is over",
                "Ask whoever handed it out for another one."),
            Self::TokenRevoked => ("token_revoked", 401, "The token was revoked",
                "Ask whoever handed it out whether there is another one."),
            Self::CrossOrigin => ("cross_origin", 403, "Another site's page made this call",
                "Without keys the server answers browsers only for its own pages. Call it from a program, or open it by its loopback address."),
            Self::NotFound => ("not_found", 404, "There is no such thing",
                "Check the path and the id. What another namespace has is not there either, and what has passed its retention is gone."),
            Self::MethodNotAllowed => ("method_not_allowed", 405, "The path does not take this method",
                "Use one of the methods that the Allow header names."),
            Self::StaleLease => ("stale_lease", 409, "This lease is over",
                "Stop this attempt and drop its work: holder, state and outcome say who has the execution now, or how it ended."),
            Self::AlreadyTerminal => ("already_terminal", 409, "The execution has ended",
                "Nothing is left to change. Replay it if it should run again."),
            Self::WrongState => ("wrong_state", 409, "The action does not apply in this state",
                "Read the execution again; the detail says in which state the action applies."),
            Self::FlowEnded => ("flow_ended", 409, "The flow has ended or is being cancelled",
                "Nothing can be added to it. Submit a new flow, or replay one of its nodes if it should run again."),
            Self::IdempotencyMismatch => ("idempotency_mismatch", 409, "The id or key was used with other content",
                "Repeat a call with exactly the same content, or use a new id or key for new work."),
            Self::VersionMismatch => ("version_mismatch", 409, "The execution has changed meanwhile",
                "Read the execution again, decide anew, and send its current version in if_version."),
            Self::LimitReached => ("limit_reached", 409, "The execution has as many of these as it may have",
                "Do the rest in another execution; the detail says what there is too much of."),
            Self::LaneDraining => ("lane_draining", 409, "The lane takes nothing new",
                "Submit to another lane, or make this one active again; what waits in it is still given out."),
            Self::CursorExpired => ("cursor_expired", 410, "The cursor is older than the log",
                "Start again at the beginning; events between are gone from the log, each execution keeps its own history."),
            Self::PayloadTooLarge => ("payload_too_large", 413, "The payload is too large",
                "Keep an input or result within 1 MiB, a frame or the payload of a signal within 256 KiB, and a flow, batch or report within 32 MiB; store larger data elsewhere and pass a reference."),
            Self::InvalidField => ("invalid_field", 422, "A field is wrong",
                "Correct the field that pointer names; the detail says what would be right."),
            Self::UnknownField => ("unknown_field", 422, "There is no such field",
                "Remove or correct the field that pointer names; the detail lists the fields that exist."),
            Self::UnknownNode => ("unknown_node", 422, "No node has that name",
                "Correct the name that pointer names, or add a node that is called so to the same call."),
            Self::Cycle => ("cycle", 422, "The edges close a cycle",
                "Leave out one of the edges between the nodes that the detail names: no node can wait for itself."),
            Self::Internal => ("internal", 500, "The server failed",
                "This is a defect: the server's log says more. The call is safe to repeat."),
            Self::UnreadableRow => ("unreadable_row", 500, "A stored execution cannot be read",
                "Nothing was changed. A newer version may have written it: upgrade this server, or report a defect."),
            Self::StoreUnavailable => ("store_unavailable", 503, "The store is away",
                "Repeat the call after retry_after_ms. Whether it happened is not known; repeating it is safe."),
            Self::ShuttingDown => ("shutting_down", 503, "The server is shutting down",
                "Repeat the call on another server, or here in a moment."),
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Declared { code, status, title, advice }
    }
}

/// A problem.
#[derive(Clone, Debug)]
pub struct Problem {
    code: Code,
    detail: String,
    pointer: Option<String>,
    retry_after_ms: Option<u64>,
    stale: Option<Box<StaleLease>>,
    close: bool,
}

impl Problem {
    /// A problem with what is wrong in this case.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Problem {
            code,
            detail: detail.into(),
            pointer: None,
            retry_after_ms: None,
            stale: None,
            close: false,
        }
    }

    /// A refusal of something that stands at `at` in the request.
    pub fn refused_at(at: &str, refusal: Refusal) -> Self {
        let refusal = moved(at, refusal);
        let code = match &refusal {
            Refusal::InvalidField { .. } => Code::InvalidField,
            Refusal::UnknownField { .. } => Code::UnknownField,
            Refusal::PayloadTooLarge { .. } => Code::PayloadTooLarge,
            Refusal::NotFound { .. } => Code::NotFound,
            Refusal::StaleLease(_) => Code::StaleLease,
            Refusal::AlreadyTerminal { .. } => Code::AlreadyTerminal,
            Refusal::WrongState { .. } => Code::WrongState,
            Refusal::IdempotencyMismatch { .. } => Code::IdempotencyMismatch,
            Refusal::Cycle { .. } => Code::Cycle,
            Refusal::UnknownNode { .. } => Code::UnknownNode,
            Refusal::FlowEnded { .. } => Code::FlowEnded,
            Refusal::VersionMismatch { .. } => Code::VersionMismatch,
            Refusal::Token { reason: TokenReason::Invalid, .. } => Code::InvalidToken,
            Refusal::Token { reason: TokenReason::Expired, .. } => Code::TokenExpired,
            Refusal::Token { reason: TokenReason::Revoked, .. } => Code::TokenRevoked,
            Refusal::LimitReached { .. } => Code::LimitReached,
            Refusal::LaneDraining { .. } => Code::LaneDraining,
            Refusal::Unreadable { .. } => Code::UnreadableRow,
        };
        let detail = match refusal.pointer() {
            Some("") => format!("the body{refusal}"),
            Some(_) | None => refusal.to_string(),
        };
        let mut problem = Problem::new(code, detail);
        problem.pointer = refusal.pointer().map(str::to_owned);
        if let Refusal::StaleLease(stale) = refusal {
            problem.stale = Some(stale);
        }
        problem
    }

    /// The same, and the connection is closed after it.
    pub fn closing(mut self) -> Self {
        self.close = true;
        self
    }

    /// The status it is answered with.
    pub fn status(&self) -> StatusCode {
        self.code.declared().status
    }

    /// Writes it as a JSON object.
    pub fn write(&self, out: &mut Vec<u8>) {
        let declared = self.code.declared();
        json::object(out, |object| {
            object.value("type", &format_args!("/docs/problems#{}", declared.code));
            object.value("title", declared.title);
            object.value("status", &declared.status.as_u16());
            object.value("detail", &self.detail);
            object.value("code", declared.code);
            if let Some(pointer) = &self.pointer {
                object.value("pointer", pointer);
            }
            if let Some(ms) = self.retry_after_ms {
                object.value("retry_after_ms", &ms);
            }
            if let Some(stale) = &self.stale {
                write_stale(object, stale);
            }
        });
    }
}

/// What a worker with a stale fence is told: the state now, how it ended, who holds it.
pub fn write_stale(object: &mut Object<'_>, stale: &StaleLease) {
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

/// The refusal with its pointer moved to where the refused thing stands. What is wrong with a header stays there.
fn moved(at: &str, refusal: Refusal) -> Refusal {
    match refusal.pointer().is_some_and(|pointer| pointer.starts_with("/headers/")) {
        true => refusal,
        false => refusal.under(at),
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
                "this server is shutting down; repeat the call on another one, or later",
            ),
            Error::InvalidCursor => Problem::new(Code::InvalidCursor, error.to_string()),
            Error::CursorExpired => Problem::new(Code::CursorExpired, error.to_string()),
            Error::Store(error) if error.is_transient() => {
                tracing::warn!(%error, "a call was answered that the store is away");
                let detail = "the store cannot be reached or is too busy; repeat the call, that is safe";
                Problem {
                    retry_after_ms: Some(RETRY_AFTER_MS),
                    ..Problem::new(Code::StoreUnavailable, detail)
                }
            }
            Error::Store(error) => {
                tracing::error!(%error, "a call failed");
                Problem::new(Code::Internal, "the store failed; the server's log says how")
            }
        }
    }
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
        if self.close {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_away_asks_to_repeat_the_call_and_leaks_nothing() {
        let away = selvedge_engine::store::Error::Unavailable("password=secret".into());
        let response = Problem::from(Error::from(away)).into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()["retry-after"], "1");
        let failed = selvedge_engine::store::Error::Failed("password=secret".into());
        for error in [Error::from(failed), Error::Closed] {
            let mut out = Vec::new();
            Problem::from(error).write(&mut out);
            let text = String::from_utf8_lossy(&out).into_owned();
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn codes_are_distinct_and_in_the_order_of_their_status() {
        let declared = Code::ALL.map(Code::declared);
        assert!(declared.is_sorted_by_key(|declared| declared.status));
        let codes: std::collections::BTreeSet<&str> = declared.iter().map(|declared| declared.code).collect();
        assert_eq!(codes.len(), Code::ALL.len());
    }
}
