//! API keys and namespaces: `routes::keys` and `routes::namespaces`.

use crate::openapi::shapes::executions::duplicate;
use crate::wire::problem::Code;
use selvedge_api::Shape;
use selvedge_api::bulk_jobs::BulkJob;
use selvedge_api::description::{Description, operation};
use selvedge_api::schema::*;
use selvedge_core::Role;
use selvedge_core::api_key::NAMESPACES_MAX;
use selvedge_core::gate::WEIGHT_MAX;
use serde_json::json;

const TAG: &str = "Administration";

pub fn operations() -> Vec<Description> {
    vec![
        create_key(),
        list_keys(),
        revoke_key(),
        list_namespaces(),
        get_namespace(),
        put_namespace(),
        delete_namespace(),
    ]
    .into_iter()
    .map(|operation| operation.tag(TAG))
    .collect()
}

fn role() -> Schema {
    word(Role::ALL.map(Role::as_str))
}

/// The fields of a key, without the key itself.
fn key_fields() -> Vec<Field> {
    vec![
        always("id", id()),
        always("name", text()),
        always("role", role()),
        always("namespaces", list(text())),
        always("created_at", time()),
        nullable("expires_at", time()),
        nullable("last_used_at", time()),
        nullable("revoked_at", time()),
    ]
}

fn create_key() -> Description {
    let namespaces = Schema(list_of_at_most(NAMESPACES_MAX, name()).0.with("minItems", 1));
    let body = request(vec![
        always("name", name().about("The name of the key, which is the actor of what it does.")),
        always("role", role()),
        always("namespaces", namespaces.about("The namespaces of the key; * for all of them.")),
        optional("expires_at", time()),
    ]);
    let mut fields = key_fields();
    fields.push(nullable(
        "key",
        text().about("The key, this once; null if the request repeats an earlier one."),
    ));
    fields.push(always("duplicate", duplicate()));
    operation("post", "/v1/admin/keys", "create_key", "Create an API key")
        .repeatable()
        .body(body, json!({ "name": "mailer", "role": "worker", "namespaces": ["default"] }))
        .answers(201, "The new key.", answer(fields.clone()))
        .answers(200, "The request repeats an earlier one.", answer(fields))
        .also([Code::NotFound])
}

fn list_keys() -> Description {
    operation("get", "/v1/admin/keys", "list_keys", "List API keys, newest first")
        .about("Revoked ones are included.")
        .paged()
        .answers_page(answer(key_fields()))
}

fn revoke_key() -> Description {
    operation("delete", "/v1/admin/keys/{id}", "revoke_key", "Revoke an API key")
        .about("This server refuses it at once, others within seconds.")
        .answers(200, "The revoked key.", answer(key_fields()))
}

fn namespace() -> Schema {
    answer(vec![
        always("name", text()),
        nullable("suspension_timeout_ms", integer()),
        nullable("retention_ms", integer()),
        always("weight", count()),
        always("deleting", flag().about("True while a bulk job deletes it.")),
    ])
}

fn list_namespaces() -> Description {
    operation("get", "/v1/admin/namespaces", "list_namespaces", "List namespaces, ordered by name")
        .paged()
        .answers_page(namespace())
}

fn get_namespace() -> Description {
    operation("get", "/v1/admin/namespaces/{name}", "get_namespace", "Get a namespace")
        .answers(200, "The namespace.", namespace())
        .also([Code::NotFound, Code::InvalidField, Code::UnknownField])
}

fn put_namespace() -> Description {
    let weight = integer_within(1, WEIGHT_MAX.into())
        .about("The share of the namespace in claims from several. Default: 1.");
    let settings = request(vec![
        optional("suspension_timeout_ms", duration().about("The timeout of suspensions that give none.")),
        optional("retention_ms", duration().about("The retention of executions that give none.")),
        optional("weight", weight),
    ]);
    operation("put", "/v1/admin/namespaces/{name}", "put_namespace", "Create or configure a namespace")
        .body_if_any(settings, json!({ "suspension_timeout_ms": 86_400_000 }))
        .answers(201, "The new namespace.", namespace())
        .answers(200, "The changed namespace.", namespace())
        .also([Code::WrongState])
}

fn delete_namespace() -> Description {
    operation("delete", "/v1/admin/namespaces/{name}", "delete_namespace", "Delete a namespace with everything in it")
        .about("Starts a bulk job, which is shown in the namespace of the caller, to administrators, and cannot be stopped. A repeated request answers the same job, and continues one that an earlier version stopped.")
        .answers(202, "The bulk job.", BulkJob::schema())
        .also([Code::NotFound, Code::WrongState])
}
