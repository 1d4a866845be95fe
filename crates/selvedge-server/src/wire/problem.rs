//! Problems: the responses of requests that do not succeed, as RFC 9457 `application/problem+json`.
//!
//! Every code is declared once, in [`Code::info`], with its status, title and advice.

use crate::wire::json::{self, Object};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use selvedge_api::Rejection;
use selvedge_core::Refusal;
use selvedge_core::refusal::{StaleLease, TokenReason};
use selvedge_core::text::{cut, shortened};
use selvedge_engine::Error;
use selvedge_engine::store::Error as StoreError;

pub use selvedge_api::Code;

/// Delay after which a caller should retry when the store is unavailable, in milliseconds.
const RETRY_AFTER_MS: u64 = 1000;

/// The longest detail of a problem, in bytes. A longer one is shortened: a refusal quotes what the caller sent.
const DETAIL_MAX: usize = 4000;
/// The longest pointer of a problem, in bytes. A longer one ends at the parent of the field that it names.
const POINTER_MAX: usize = 500;

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
        status_of(self.code)
    }

    /// Writes the problem as a JSON object.
    pub fn write(&self, out: &mut Vec<u8>) {
        let info = self.code.info();
        json::object(out, |object| {
            object.value("type", &format_args!("/docs/problems#{}", info.code));
            object.value("title", info.title);
            object.value("status", &info.status);
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

/// Returns the HTTP status of a code.
pub fn status_of(code: Code) -> StatusCode {
    StatusCode::from_u16(code.info().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
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

impl From<Rejection> for Problem {
    fn from(invalid: Rejection) -> Self {
        match invalid {
            Rejection::Problem(code, detail) => Problem::new(code, detail),
            Rejection::NotJson(detail) => Problem::new(Code::InvalidJson, detail),
            Rejection::Refused(refusal) => refusal.into(),
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
}
