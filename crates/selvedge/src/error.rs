//! The error of every call, the same whether the engine is embedded or a server is called over HTTP.

use std::fmt;

/// The reason why a call failed. Each variant says what the caller can do; [`Error::code`] is the stable code of the
/// refusal, the same as in the HTTP API.
///
/// ```
/// use selvedge::{Engine, Error, ExecutionId};
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), Error> {
/// # let engine = Engine::open("memory:").await?;
/// # let namespace = engine.namespace("default").await?;
/// match namespace.cancel(ExecutionId(uuid::Uuid::nil())).await {
///     Err(Error::NotFound(refusal)) => assert_eq!(refusal.code, "not_found"),
///     other => panic!("expected a refusal, got {other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The call is wrong: a field has an invalid value, or names something that does not exist. Correct the call.
    Invalid(Refusal),
    /// The namespace has no such object.
    NotFound(Refusal),
    /// The call does not fit the current state: the execution has ended, the key was used with other content, the version is
    /// another one. Read the state again and decide.
    Conflict(Refusal),
    /// The lease of the attempt has ended, or a newer process has the worker's name. Discard the work of the attempt.
    LeaseLost(Refusal),
    /// The key or the token does not permit the call.
    Denied(Refusal),
    /// The store or the server does not answer, or asks for patience. The call may have taken effect: repeat it.
    Unavailable(String),
    /// The engine has shut down.
    Closed,
    /// The address of the store or server cannot be used, or another process uses the store. Correct the address.
    Address(String),
    /// The store or the server failed, or answered with something that this program cannot read.
    Failed(String),
}

/// A refusal by the engine: nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The stable code, such as `invalid_field`.
    pub code: String,
    /// The cause and the remedy, for people.
    pub message: String,
    /// The JSON pointer to the field that is wrong, if there is one.
    pub pointer: Option<String>,
    /// The HTTP status of the answer; none if the engine is embedded.
    pub status: Option<u16>,
}

impl Refusal {
    /// Refuses the value of a field before anything is sent.
    pub(crate) fn field(pointer: &str, detail: impl fmt::Display) -> Refusal {
        Refusal {
            code: "invalid_field".into(),
            message: format!("{pointer} {detail}"),
            pointer: Some(pointer.into()),
            status: None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error {
    /// Refuses the value of a field before anything is sent.
    pub(crate) fn field(pointer: &str, detail: impl fmt::Display) -> Error {
        Error::Invalid(Refusal::field(pointer, detail))
    }

    /// Refuses a call that an embedded engine cannot do.
    pub(crate) fn needs_server(reason: &str) -> Error {
        Error::Invalid(Refusal {
            code: "needs_server".into(),
            message: format!("{reason}; connect to one with its address"),
            pointer: None,
            status: None,
        })
    }

    /// Returns the refusal, if the engine refused the call.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Error::Invalid(refusal)
            | Error::NotFound(refusal)
            | Error::Conflict(refusal)
            | Error::LeaseLost(refusal)
            | Error::Denied(refusal) => Some(refusal),
            Error::Unavailable(_) | Error::Closed | Error::Address(_) | Error::Failed(_) => None,
        }
    }

    /// Returns the stable code: that of the refusal, or `unavailable`, `closed`, `bad_address` or `failed`. The code `needs_server`
    /// is that of a call which an embedded engine cannot do.
    pub fn code(&self) -> &str {
        match self {
            Error::Unavailable(_) => "unavailable",
            Error::Closed => "closed",
            Error::Address(_) => "bad_address",
            Error::Failed(_) => "failed",
            refused => refused.refusal().map_or("failed", |refusal| &refusal.code),
        }
    }

    /// Reports whether repeating the same call later may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Error::Unavailable(_))
    }

    /// Files a refusal under the variant that says what to do.
    fn of_refusal(refusal: Refusal) -> Error {
        match (refusal.code.as_str(), refusal.status) {
            ("stale_lease" | "superseded", _) => Error::LeaseLost(refusal),
            ("not_found" | "unknown_namespace", _) | (_, Some(404)) => Error::NotFound(refusal),
            ("invalid_token" | "token_expired" | "token_revoked", _) | (_, Some(401 | 403)) => {
                Error::Denied(refusal)
            }
            (
                "already_terminal"
                | "wrong_state"
                | "idempotency_mismatch"
                | "id_taken"
                | "flow_ended"
                | "version_mismatch"
                | "limit_reached"
                | "lane_draining"
                | "cursor_expired"
                | "cursor_unknown"
                | "unreadable_row",
                _,
            )
            | (_, Some(409 | 410)) => Error::Conflict(refusal),
            _ => Error::Invalid(refusal),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unavailable(detail) | Error::Address(detail) | Error::Failed(detail) => {
                f.write_str(detail)
            }
            Error::Closed => f.write_str("the engine is shutting down"),
            Error::Invalid(refusal)
            | Error::NotFound(refusal)
            | Error::Conflict(refusal)
            | Error::LeaseLost(refusal)
            | Error::Denied(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<selvedge_core::Refusal> for Error {
    fn from(refusal: selvedge_core::Refusal) -> Error {
        Error::of_refusal(Refusal {
            code: refusal.code().into(),
            message: refusal.to_string(),
            pointer: refusal.pointer().map(Into::into),
            status: None,
        })
    }
}

impl From<selvedge_store::Error> for Error {
    fn from(error: selvedge_store::Error) -> Error {
        use selvedge_store::Error as Store;
        let message = error.to_string();
        match error {
            Store::Unavailable(_) | Store::Contended(_) | Store::TooSlow(_) => Error::Unavailable(message),
            Store::BadAddress(_) | Store::InUse(_) | Store::SchemaTooNew { .. } => Error::Address(message),
            Store::Failed(_) => Error::Failed(message),
        }
    }
}

impl From<selvedge_engine::Error> for Error {
    fn from(error: selvedge_engine::Error) -> Error {
        use selvedge_engine::Error as Engine;
        let cursor = |code: &str| {
            Error::of_refusal(Refusal {
                code: code.into(),
                message: error.to_string(),
                pointer: None,
                status: None,
            })
        };
        match error {
            Engine::Refused(refusal) => refusal.into(),
            Engine::Store(error) => error.into(),
            Engine::Closed => Error::Closed,
            Engine::InvalidCursor => cursor("invalid_cursor"),
            Engine::CursorExpired => cursor("cursor_expired"),
            Engine::CursorUnknown => cursor("cursor_unknown"),
        }
    }
}

impl From<selvedge_client::Problem> for Error {
    fn from(problem: selvedge_client::Problem) -> Error {
        let message = if problem.detail.is_empty() { problem.title } else { problem.detail };
        match problem.status {
            408 | 429 | 502 | 503 | 504 => Error::Unavailable(message),
            500.. => Error::Failed(message),
            status => Error::of_refusal(Refusal {
                code: problem.code,
                message,
                pointer: problem.pointer,
                status: Some(status),
            }),
        }
    }
}

impl From<selvedge_client::Error> for Error {
    fn from(error: selvedge_client::Error) -> Error {
        use selvedge_client::Error as Client;
        let message = error.to_string();
        match error {
            Client::Problem(problem) => (*problem).into(),
            Client::Unreachable { .. } | Client::Certificate { .. } | Client::NoAnswer { .. } => {
                Error::Unavailable(message)
            }
            Client::Address { .. } | Client::Tls(_) => Error::Address(message),
            Client::Request(detail) => Error::field("", detail),
            _ => Error::Failed(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_the_same_error_from_the_engine_and_over_http() {
        let problem = |status, code: &str| -> Error {
            let body = format!(r#"{{"status": {status}, "code": "{code}", "detail": "d"}}"#);
            serde_json::from_str::<selvedge_client::Problem>(&body).expect("a problem").into()
        };
        let not_found = selvedge_core::Refusal::NotFound { what: "flow".into(), id: "x".into() };
        assert!(matches!(Error::from(not_found), Error::NotFound(_)));
        assert!(matches!(problem(404, "not_found"), Error::NotFound(_)));
        let id_taken = selvedge_core::Refusal::IdTaken { pointer: "/id".into() };
        assert!(matches!(Error::from(id_taken), Error::Conflict(_)));
        assert!(matches!(problem(409, "id_taken"), Error::Conflict(_)));
        assert!(matches!(problem(409, "stale_lease"), Error::LeaseLost(_)));
        assert!(matches!(problem(409, "idempotency_mismatch"), Error::Conflict(_)));
        assert!(matches!(problem(422, "invalid_field"), Error::Invalid(_)));
        assert!(matches!(problem(403, "forbidden"), Error::Denied(_)));
        assert!(problem(503, "store_unavailable").is_transient());
        assert_eq!(problem(422, "cycle").code(), "cycle");
    }
}
