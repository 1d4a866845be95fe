//! Webhooks: `routes::webhooks`.

use crate::openapi::shapes::executions::duplicate;
use crate::wire::problem::Code;
use selvedge_api::description::{Description, operation};
use selvedge_api::filter::tag_filter;
use selvedge_api::schema::*;
use selvedge_core::fact::EVENT_TYPES;
use selvedge_core::webhook::{DeliveryState, EVERY_TYPE, PauseReason, URL_LIMIT};
use serde_json::json;

const TAG: &str = "Webhooks";

pub fn operations() -> Vec<Description> {
    [configuration(), deliveries()].into_iter().flatten().map(|operation| operation.tag(TAG)).collect()
}

fn types() -> Schema {
    let words = EVENT_TYPES.iter().copied().chain([EVERY_TYPE]);
    Schema(list(word(words)).0.with("minItems", 1)).about("The types of events; * alone for all.")
}

/// The fields of a request; in a patch all are optional.
fn config(is_patch: bool) -> Schema {
    let field = if is_patch { optional } else { always };
    let url = "The URL of the receiver: https, and a public address unless the server allows others.";
    let filter = request(vec![
        optional("execution", id().about("Only events of this execution.")),
        optional("flow", id().about("Only events of this flow.")),
        optional("tag", tag_filter().about("Only events of executions with this tag.")),
    ]);
    request(vec![
        field("url", printable(URL_LIMIT).about(url)),
        field("types", types()),
        optional("filter", filter.about("All conditions must match. Default: every event of the types.")),
        optional("paused", flag().about("Default: false. False resumes a webhook, whatever paused it.")),
    ])
}

fn webhook() -> Vec<Field> {
    let filter = answer(vec![
        nullable("execution", id()),
        nullable("flow", id()),
        nullable("tag", text().about("As name:value.")),
    ]);
    vec![
        always("name", text()),
        always("url", text().about("Without its query for callers who are not operators.")),
        always("types", list(text())),
        always("filter", filter),
        always("paused", flag()),
        nullable("paused_reason", word(PauseReason::ALL.map(PauseReason::as_str))),
        always("pending", total().about("Deliveries that are tried again.")),
        always("dead", total().about("Deliveries that are not tried again, unless they are replayed.")),
        always("delivered", total().about("Events that were delivered so far.")),
        always("missed", total().about("Events that the log dropped before they could be delivered.")),
        always("created_at", time()),
        nullable("delivered_at", time().about("The last success.")),
        nullable("failing_since_at", time().about("The first failure since the last success.")),
        nullable("last_error", text().about("The error of the last attempt, while deliveries fail.")),
        always("taken_until_at", time().about("Events before this time were taken from the log.")),
        nullable("old_secret_expires_at", time().about("The time until which an old secret signs, too.")),
    ]
}

fn delivery() -> Schema {
    answer(vec![
        always("id", id().about("The header webhook-id of the delivery.")),
        always("state", word(DeliveryState::ALL.map(DeliveryState::as_str))),
        always("type", text()),
        always("event_cursor", text()),
        always("event_at", time()),
        nullable("execution", id()),
        nullable("flow", id()),
        always("failures", count().about("Failed attempts, since the last replay.")),
        nullable("status", count().about("The status of the last response.")),
        nullable("error", text().about("The error of the last attempt.")),
        nullable(
            "next_attempt_at",
            time().about("Null also if it waits for an earlier event of its execution."),
        ),
        nullable("ended_at", time().about("The time at which it was delivered or became dead.")),
    ])
}

fn secret() -> Field {
    nullable("secret", text().about("The secret, this once: whsec_ and base64."))
}

#[rustfmt::skip]
fn configuration() -> Vec<Description> {
    let example = json!({ "url": "https://example.com/hook", "types": ["execution.completed", "execution.failed"] });
    let created = answer([webhook(), vec![secret()]].concat());
    let rotated = answer(vec![secret(), always("grace_ms", integer()), always("duplicate", duplicate())]);
    let rotate = request(vec![always("grace_ms", duration().about("The time for which the old secret signs, too."))]);
    let removed = answer(vec![always("name", text()), always("removed", flag())]);
    let tested = answer(vec![
        always("id", id().about("The header webhook-id of the message.")),
        always("delivered", flag().about("True if the receiver accepted it.")),
        nullable("status", count().about("The status of the response.")),
        nullable("error", text().about("The reason why it was not accepted.")),
        always("took_ms", total().about("The time until the response, with the lookup and the connection.")),
    ]);
    vec![
        operation("get", "/v1/webhooks", "list_webhooks", "List webhooks").about("Ordered by name.").paged().answers_page(answer(webhook())),
        operation("get", "/v1/webhooks/{name}", "get_webhook", "Get a webhook").answers(200, "The webhook.", answer(webhook())).also([Code::NotFound, Code::InvalidField, Code::UnknownField]),
        operation("put", "/v1/webhooks/{name}", "put_webhook", "Create or configure a webhook").about("A new webhook gets the events from now on. Only the response to its creation has the secret.").body(config(false), example)
            .answers(201, "The new webhook, with its secret.", created).answers(200, "The changed webhook.", answer(webhook())),
        operation("patch", "/v1/webhooks/{name}", "patch_webhook", "Change some settings of a webhook").about("A JSON merge patch (RFC 7396).").merge_patch(config(true), json!({ "paused": true }))
            .answers(200, "The changed webhook.", answer(webhook())).also([Code::NotFound]),
        operation("delete", "/v1/webhooks/{name}", "remove_webhook", "Delete a webhook").about("With its deliveries.").answers(200, "It is deleted.", removed).also([Code::NotFound, Code::InvalidField]),
        operation("post", "/v1/webhooks/{name}/rotate-secret", "rotate_webhook_secret", "Rotate the secret of a webhook").about("Until the end of the grace period deliveries have a signature of each secret.").repeatable().body(rotate, json!({ "grace_ms": 86_400_000 }))
            .answers(200, "The new secret; null if the request repeats an earlier one.", rotated).also([Code::NotFound]),
        operation("post", "/v1/webhooks/{name}/test", "test_webhook", "Send a test message").about("Sends one event of the type webhook.test now, also to a paused webhook, and waits for the response. Nothing is recorded.").body_if_any(request(Vec::new()), json!({}))
            .answers(200, "What the receiver did.", tested).also([Code::NotFound]),
    ]
}

#[rustfmt::skip]
fn deliveries() -> Vec<Description> {
    let replayed = answer(vec![always("delivery", delivery()), always("duplicate", duplicate())]);
    vec![
        operation("get", "/v1/webhooks/{name}/deliveries", "list_deliveries", "List deliveries of a webhook, newest first").about("All that are pending or dead, and the last thousand that were delivered.")
            .query("state", word(DeliveryState::ALL.map(DeliveryState::as_str)), "Only deliveries in this state.").paged().answers_page(delivery()).also([Code::NotFound]),
        operation("post", "/v1/webhooks/{name}/deliveries/{id}/replay", "replay_delivery", "Deliver an event again").about("Also one that was delivered. It has the same webhook-id.").repeatable().body_if_any(request(Vec::new()), json!({}))
            .answers(200, "The delivery.", replayed).also([Code::NotFound]),
    ]
}
