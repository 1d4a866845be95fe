//! Signals, waitpoints and token keys: `routes::signals` and `routes::waitpoints`.

use crate::openapi::shapes::executions::duplicate;
use crate::openapi::shapes::outcome;
use crate::openapi::shapes::suspension::{effect, waitpoint_state};
use crate::wire::problem::Code;
use selvedge_api::description::{Description, operation};
use selvedge_api::schema::*;
use selvedge_core::signal::SIGNAL_LIMIT;
use serde_json::json;

const TAG: &str = "Signals and waitpoints";
const OF_TOKENS: [Code; 3] = [Code::InvalidToken, Code::TokenExpired, Code::TokenRevoked];
const OF_DELIVERIES: [Code; 4] =
    [Code::AlreadyTerminal, Code::WrongState, Code::LimitReached, Code::IdempotencyMismatch];

pub fn operations() -> Vec<Description> {
    vec![send(), signal(), look(), answer_waitpoint(), list_all(), get(), reissue(), revoke()]
        .into_iter()
        .map(|operation| operation.tag(TAG))
        .chain([list_keys(), rotate_keys()].map(|operation| operation.tag("Administration")))
        .collect()
}

/// The fields of a signal, which `wire` reads the same everywhere.
fn signal_fields(has_name: bool) -> Vec<Field> {
    let about = "The name. Default: the only signal that the waitpoint takes.";
    let payload = format!("Any JSON value of at most {}. Default: null.", size(SIGNAL_LIMIT));
    vec![
        match has_name {
            true => always("name", name()),
            false => optional("name", name().about(about)),
        },
        sometimes("payload", any().about(&payload)),
        optional("idempotency_key", key().about("Default: the header Idempotency-Key.")),
    ]
}

fn send() -> Description {
    let mut fields = signal_fields(true);
    fields.push(optional("source", name().about("The source, which only operators may name.")));
    let sent = answer(vec![always("number", count()), always("name", text()), always("source", text())]);
    let answered =
        answer(vec![always("signal", sent), always("duplicate", duplicate()), always("effect", effect())]);
    operation("post", "/v1/executions/{id}/signals", "send_signal", "Send a signal to an execution")
        .about("A signal that no suspension waits for yet is kept for the next one.")
        .repeatable()
        .body(request(fields), json!({ "name": "approved", "payload": { "by": "Ada" } }))
        .answers(200, "The signal and its effect.", answered)
        .also(OF_DELIVERIES)
}

fn signal() -> Description {
    let mut fields = vec![always("token", text().about("The token that came with the waitpoint."))];
    fields.extend(signal_fields(false));
    operation("post", "/v1/waitpoints/{id}/signal", "signal_waitpoint", "Send a signal with a token")
        .about("The token alone authorises it: no API key is needed.")
        .repeatable()
        .body(request(fields), json!({ "token": "TOKEN", "payload": { "approved": true } }))
        .answers(200, "The effect of the signal.", shape("Delivery"))
        .also(OF_TOKENS)
        .also(OF_DELIVERIES)
}

fn look() -> Description {
    let fields = vec![
        always("waitpoint", id()),
        always("name", text()),
        nullable("prompt", text()),
        always("signals", list(text())),
        nullable("expires_at", time()),
        always("state", waitpoint_state()),
        nullable("decided_by", list(text()).about("The sources of the answers that decided the question.")),
        nullable("decided_with", text().about("The signal that decided the question.")),
        nullable("decided_at", time().about("The time of the answer that decided the question.")),
        nullable(
            "outcome",
            outcome()
                .about("The outcome of the execution. Null while it has not ended or the waitpoint is open."),
        ),
    ];
    operation("post", "/v1/waitpoints/{id}/look", "look_at_waitpoint", "See a waitpoint with its token")
        .about("The token alone authorises it: no API key is needed.")
        .body(request(vec![always("token", text())]), json!({ "token": "TOKEN" }))
        .answers(200, "The waitpoint.", answer(fields))
        .also(OF_TOKENS)
}

fn answer_waitpoint() -> Description {
    operation("post", "/v1/waitpoints/{id}/answer", "answer_waitpoint", "Answer a waitpoint as an operator")
        .repeatable()
        .body_if_any(request(signal_fields(false)), json!({ "payload": { "approved": true } }))
        .answers(200, "The effect of the signal.", shape("Delivery"))
        .also(OF_DELIVERIES)
}

fn list_all() -> Description {
    operation("get", "/v1/waitpoints", "list_waitpoints", "List waitpoints, newest first")
        .query("state", waitpoint_state(), "The state.")
        .query("source", name(), "The source.")
        .query("execution", id(), "The execution.")
        .paged()
        .answers_page(shape("Waitpoint"))
        .also([Code::NotFound])
}

fn get() -> Description {
    operation("get", "/v1/waitpoints/{id}", "get_waitpoint", "Get a waitpoint")
        .answers(200, "The waitpoint.", shape("Waitpoint"))
        .also([Code::UnknownField])
}

fn reissue() -> Description {
    let fields = vec![
        always("waitpoint", shape("Waitpoint")),
        nullable("token", text().about("The new token; null if the request repeats an earlier one.")),
        always("duplicate", duplicate()),
    ];
    operation(
        "post",
        "/v1/waitpoints/{id}/reissue",
        "reissue_waitpoint",
        "Issue a new token, and end the old one",
    )
    .repeatable()
    .body_if_any(request(vec![optional("expires_ms", duration())]), json!({ "expires_ms": 3_600_000 }))
    .answers(200, "The waitpoint and its new token.", answer(fields))
    .also([Code::WrongState, Code::AlreadyTerminal, Code::LimitReached])
}

fn revoke() -> Description {
    let fields = vec![always("waitpoint", shape("Waitpoint")), always("duplicate", duplicate())];
    operation("post", "/v1/waitpoints/{id}/revoke", "revoke_waitpoint", "Revoke the token of a waitpoint")
        .repeatable()
        .body_if_any(request(Vec::new()), json!({}))
        .answers(200, "The waitpoint.", answer(fields))
        .also([Code::WrongState, Code::AlreadyTerminal])
}

fn list_keys() -> Description {
    let key =
        answer(vec![always("key_id", text()), always("created_at", time()), nullable("expires_at", time())]);
    operation(
        "get",
        "/v1/admin/waitpoint-keys",
        "list_waitpoint_keys",
        "List the keys of tokens, newest first",
    )
    .answers_page(key)
    .also([Code::UnknownField])
}

fn rotate_keys() -> Description {
    let fields =
        vec![always("key_id", text()), always("grace_ms", integer()), always("duplicate", duplicate())];
    let grace = duration().about("The time for which tokens of the old key stay valid.");
    operation("post", "/v1/admin/waitpoint-keys/rotate", "rotate_waitpoint_keys", "Rotate the key of tokens")
        .repeatable()
        .body(request(vec![always("grace_ms", grace)]), json!({ "grace_ms": 3_600_000 }))
        .answers(200, "The new key.", answer(fields))
}
