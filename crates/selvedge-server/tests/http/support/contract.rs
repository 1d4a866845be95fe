//! The OpenAPI document as a contract: every request and answer of every test is checked against it.

use super::Reply;
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

/// The document that the server publishes.
pub static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(&selvedge_server::openapi()).expect("the document is JSON"));

/// The shapes of the document. Objects of answers are closed, so that a field that is not described is noticed.
static SHAPES: LazyLock<Value> = LazyLock::new(|| {
    let mut components = DOCUMENT["components"].clone();
    close(&mut components);
    components
});

/// The operations whose items are refused one by one, so that a wrong one does not refuse the request.
const ITEMWISE: [&str; 2] = ["/v1/executions/batch", "/v1/workers/{instance}/report"];

/// Forbids fields that a schema does not list.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("properties") && !fields.contains_key("additionalProperties") {
                fields.insert("additionalProperties".into(), json!(false));
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the path of the document that `path` is an instance of, and its methods.
pub fn find_path(path: &str) -> Option<(&'static str, &'static Value)> {
    let given: Vec<&str> = path.split('/').collect();
    let matches = |template: &str| {
        let parts: Vec<&str> = template.split('/').collect();
        let is_same =
            |(part, given): (&&str, &&str)| part == given || (part.starts_with('{') && !given.is_empty());
        parts.len() == given.len() && parts.iter().zip(&given).all(is_same)
    };
    let paths = DOCUMENT["paths"].as_object().expect("paths is an object");
    let found = paths.iter().filter(|(template, _)| matches(template));
    // A path without parameters comes before one with them.
    found
        .min_by_key(|(template, _)| template.matches('{').count())
        .map(|(path, methods)| (path.as_str(), methods))
}

/// Asserts that `value` has the shape that `schema` describes.
pub fn check_shape(what: &str, schema: &Value, value: &Value) {
    let errors = shape_errors(schema, value);
    assert!(errors.is_empty(), "{what} does not match the OpenAPI document: {errors:?}\n{value}");
}

/// Returns the differences between `value` and the shape that `schema` describes.
pub fn shape_errors(schema: &Value, value: &Value) -> Vec<String> {
    static VALIDATORS: LazyLock<Mutex<HashMap<String, Arc<Validator>>>> = LazyLock::new(Mutex::default);
    let key = schema.to_string();
    let known = VALIDATORS.lock().expect("no test panics with the lock").get(&key).cloned();
    let validator = known.unwrap_or_else(|| {
        let mut root = schema.clone();
        close(&mut root);
        root["components"] = SHAPES.clone();
        let options = jsonschema::options().with_draft(jsonschema::Draft::Draft202012);
        let built = options.should_validate_formats(true).build(&root);
        let validator = Arc::new(built.unwrap_or_else(|error| panic!("{error}: {schema}")));
        VALIDATORS.lock().expect("no test panics with the lock").insert(key, validator.clone());
        validator
    });
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path)).collect()
}

/// Checks a request that was answered against the document.
pub fn check(method: &str, target: &str, body: &[u8], reply: &Reply) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let what = format!("{method} {path}: {}", reply.status);
    let Some((template, methods)) = find_path(path) else {
        return assert_eq!(reply.status / 100, 4, "{what} is not in the OpenAPI document");
    };
    let method = if method == "HEAD" { "GET" } else { method };
    let operation = &methods[method.to_lowercase()];
    if operation.is_null() {
        return assert_eq!(reply.status, 405, "{what} is not in the OpenAPI document");
    }
    let response = &operation["responses"][reply.status.to_string()];
    let content_type = reply.header("content-type");
    let content = &response["content"][content_type];
    assert!(!content.is_null(), "{what} {content_type} is not in the OpenAPI document: {}", reply.text());
    // Serde's values cannot hold some payloads that the server keeps, such as halves of surrogate pairs.
    if let (true, Ok(answer)) = (content_type.ends_with("json"), serde_json::from_slice(&reply.body)) {
        check_shape(&what, &content["schema"], &answer);
    }
    if let Some(codes) = response["x-problem-codes"].as_array() {
        let code = &reply.json()["code"];
        assert!(codes.contains(code), "{what} {code} is not in the OpenAPI document");
    }
    if reply.status < 300 {
        check_accepted(&what, template, operation, query, body);
    }
}

/// Checks that the document allows a request that the server has accepted.
fn check_accepted(what: &str, template: &str, operation: &Value, query: &str, body: &[u8]) {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let known: Vec<&str> =
        parameters.filter(|one| one["in"] == "query").filter_map(|one| one["name"].as_str()).collect();
    for name in query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty()) {
        assert!(known.contains(&name), "{what}: the parameter {name} is not in the OpenAPI document");
    }
    let content = operation["requestBody"]["content"].as_object().and_then(|content| content.values().next());
    if let (Some(content), false, false) = (content, body.is_empty(), ITEMWISE.contains(&template)) {
        let Ok(body) = serde_json::from_slice(body) else { return };
        check_shape(&format!("the request of {what}"), &content["schema"], &body);
    }
}
