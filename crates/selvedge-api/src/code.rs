//! The stable codes of problems. Every code is declared once, in [`Code::info`], with its status, title and advice. The
//! page `/docs/problems` is generated from the same table.

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
    pub status: u16,
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
        CodeInfo { code, status, title, advice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_ordered_by_status() {
        let infos = Code::ALL.map(Code::info);
        assert!(infos.is_sorted_by_key(|info| info.status));
        let codes: std::collections::BTreeSet<&str> = infos.iter().map(|info| info.code).collect();
        assert_eq!(codes.len(), Code::ALL.len());
    }
}
