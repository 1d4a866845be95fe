//! The document describes exactly the fields and parameters that the server reads, with their types.
//!
//! The server lists the fields that it knows when it refuses an unknown one. So a request with an unknown field is sent for
//! every object that a request can contain, and the lists are compared.

use super::{operations, resolve};
use crate::support::Server;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A field that no object has.
const UNKNOWN: &str = "no_such_field";
/// An id of nothing.
const ID: &str = "019a0000-0000-7000-8000-00000000000a";

/// Replaces the parameters of a path.
fn instance_of(path: &str) -> String {
    path.replace("{id}", ID).replace("{number}", "1").replace("{instance}", "i").replace("{name}", "n")
}

/// Returns a small value of a schema: an object has only the fields that it needs.
fn minimal(schema: &'static Value) -> Value {
    let schema = resolve(schema);
    if let Some(alternatives) = schema["oneOf"].as_array() {
        return minimal(&alternatives[0]);
    }
    if !schema["const"].is_null() {
        return schema["const"].clone();
    }
    if let Some(words) = schema["enum"].as_array() {
        return words[0].clone();
    }
    let word = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match word {
        Some("object") => {
            let mut object = json!({});
            let names = schema["required"].as_array().into_iter().flatten();
            let names = names.chain(schema["anyOf"][0]["required"].as_array().into_iter().flatten());
            for name in names.filter_map(Value::as_str) {
                object[name] = minimal(&schema["properties"][name]);
            }
            // The defaults of a flow may have it, but these do not.
            if schema["properties"]["kind"]["maxLength"].is_number() {
                object["kind"] = json!("k");
            }
            object
        }
        Some("array") => match schema["minItems"].is_number() {
            true => json!([minimal(&schema["items"])]),
            false => json!([]),
        },
        Some("string") => match schema["format"].as_str() {
            Some("uuid") => json!(ID),
            Some("date-time") => json!("2030-01-01T00:00:00.000Z"),
            _ => json!("x"),
        },
        Some("integer" | "number") => json!(schema["minimum"].as_i64().unwrap_or(1).max(1)),
        Some("boolean") => json!(true),
        _ => match schema["anyOf"].as_array() {
            Some(alternatives) => minimal(&alternatives[0]),
            None => json!({}),
        },
    }
}

/// An object that a request can contain.
struct Place {
    /// The body of a request that contains a minimal object at the pointer.
    body: Value,
    pointer: String,
    schema: &'static Value,
    /// The fields that its reader should know.
    described: BTreeSet<&'static str>,
}

fn names(schema: &'static Value) -> BTreeSet<&'static str> {
    schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

/// Reports whether an object has a field with one constant word, which tells it apart from its alternatives.
fn has_tag(schema: &'static Value) -> bool {
    schema["properties"].as_object().into_iter().flatten().any(|(_, field)| field["const"].is_string())
}

/// Collects the objects that a value of `schema` at `pointer` of `body` can contain.
fn collect(
    schema: &'static Value,
    pointer: &str,
    body: &Value,
    above: &[&'static Value],
    places: &mut Vec<Place>,
) {
    let schema = resolve(schema);
    // A condition contains conditions.
    if above.iter().any(|other| std::ptr::eq(*other, schema)) {
        return;
    }
    let above = [above, &[schema]].concat();
    let alternatives = schema["oneOf"]
        .as_array()
        .or_else(|| schema["anyOf"].as_array().filter(|_| schema["type"].is_null()));
    if let Some(alternatives) = alternatives {
        let before = places.len();
        for alternative in alternatives {
            let mut body = body.clone();
            *body.pointer_mut(pointer).expect("the place exists") = minimal(alternative);
            collect(alternative, pointer, &body, &above, places);
        }
        // Without a field that names the alternative, the reader knows the fields of all.
        let all = alternatives.iter().flat_map(|one| names(resolve(one))).collect::<BTreeSet<_>>();
        if !all.is_empty() && !alternatives.iter().any(|one| has_tag(resolve(one))) {
            let here = places[before..].iter_mut().filter(|place| place.pointer == pointer);
            here.for_each(|place| place.described = all.clone());
        }
        return;
    }
    if let Some(properties) = schema["properties"].as_object() {
        places.push(Place { body: body.clone(), pointer: pointer.into(), schema, described: names(schema) });
        for (name, field) in properties {
            place_inside(field, pointer, name, body, &above, places);
        }
    } else if schema["additionalProperties"].is_object() {
        place_inside(&schema["additionalProperties"], pointer, "n", body, &above, places);
    } else if schema["items"].is_object() {
        let mut body = body.clone();
        *body.pointer_mut(pointer).expect("the place exists") = json!([minimal(&schema["items"])]);
        collect(&schema["items"], &format!("{pointer}/0"), &body, &above, places);
    }
}

fn place_inside(
    field: &'static Value,
    pointer: &str,
    name: &str,
    body: &Value,
    above: &[&'static Value],
    places: &mut Vec<Place>,
) {
    let mut body = body.clone();
    let object = body.pointer_mut(pointer).and_then(Value::as_object_mut).expect("the place exists");
    match above.last() {
        Some(schema) => set_field(object, schema, name, minimal(field)),
        None => drop(object.insert(name.into(), minimal(field))),
    }
    collect(field, &format!("{pointer}/{name}"), &body, above, places);
}

/// Sets a field of an object, and removes the fields that exclude it.
fn set_field(object: &mut serde_json::Map<String, Value>, schema: &'static Value, name: &str, value: Value) {
    let exclusive = needed_alternatives(schema);
    if exclusive.contains(&name) {
        exclusive.iter().for_each(|other| drop(object.remove(*other)));
    }
    object.insert(name.into(), value);
}

/// Returns the fields of an object of which one must be given.
fn needed_alternatives(schema: &'static Value) -> Vec<&'static str> {
    let alternatives = schema["anyOf"].as_array().into_iter().flatten();
    alternatives.filter_map(|one| one["required"][0].as_str()).collect()
}

/// Returns every object of every request, with its method and path.
fn places() -> Vec<(String, &'static str, Place)> {
    let mut all = Vec::new();
    for (method, path, operation) in operations() {
        let content = operation["requestBody"]["content"].as_object();
        for content in content.into_iter().flat_map(|content| content.values()) {
            let mut places = Vec::new();
            let body = match resolve(&content["schema"])["required"].is_null() {
                true => content["example"].clone(),
                false => minimal(&content["schema"]),
            };
            collect(&content["schema"], "", &body, &[], &mut places);
            all.extend(places.into_iter().map(|place| (method.clone(), path, place)));
        }
    }
    all
}

/// Sends a request that must be refused. Returns the problem, which may be that of an item.
async fn refusal(server: &Server, method: &str, path: &str, body: &Value) -> Value {
    let reply = server.send_raw(method, &instance_of(path), &[], body.to_string().into()).await;
    let answer = reply.json();
    let of_item = &answer["results"][0]["error"];
    match of_item.is_null() {
        true => answer,
        false => of_item.clone(),
    }
}

/// Returns the names that the refusal of an unknown field or parameter lists.
fn known_names(refused: &Value, what: &str) -> BTreeSet<String> {
    assert_eq!(refused["code"], "unknown_field", "{what}: {refused}");
    let detail = refused["detail"].as_str().unwrap_or_default();
    let names = detail.split_once("there are ").map_or("", |(_, names)| names);
    assert!(!names.is_empty() || detail.ends_with(" takes none"), "{what}: {detail:?} lists no names");
    names.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_document_has_exactly_the_fields_that_the_server_reads() {
    let server = Server::start().await;
    let places = places();
    assert!(places.len() > 100, "there are only {} objects", places.len());
    for (method, path, place) in places {
        let mut body = place.body.clone();
        let object = body.pointer_mut(&place.pointer).expect("the place exists");
        object[UNKNOWN] = json!(1);
        let what = format!("{method} {path} at {:?}: {body}", place.pointer);
        let read = known_names(&refusal(&server, &method, path, &body).await, &what);
        let read: BTreeSet<&str> = read.iter().map(String::as_str).collect();
        assert_eq!(read, place.described, "{what}: the fields that are read, and those that are described");
    }
}

#[tokio::test]
async fn a_field_of_another_type_than_the_document_says_is_refused() {
    let server = Server::start().await;
    let (mut checked, mut wrong) = (0, Vec::new());
    for (method, path, place) in places() {
        for (name, field) in place.schema["properties"].as_object().into_iter().flatten() {
            let field = resolve(field);
            let is_typed = ["type", "oneOf", "anyOf"].iter().any(|keyword| !field[keyword].is_null());
            if !is_typed {
                continue;
            }
            // No field of the API takes an empty list of lists, but some take lists.
            let mut body = place.body.clone();
            let object = body.pointer_mut(&place.pointer).and_then(Value::as_object_mut);
            set_field(object.expect("the place is an object"), place.schema, name, json!([[[]]]));
            let refused = refusal(&server, &method, path, &body).await;
            let what = format!("{method} {path} {}/{name}: {refused}", place.pointer);
            let at = refused["pointer"].as_str().unwrap_or_default();
            let rest = at.strip_prefix(&format!("{}/{name}", place.pointer));
            let is_about_it = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            if refused["code"] != "invalid_field" || !is_about_it {
                wrong.push(what);
            }
            checked += 1;
        }
    }
    assert!(checked > 300, "only {checked} fields were checked");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn the_document_has_exactly_the_parameters_that_the_server_reads() {
    let server = Server::start().await;
    for (method, path, operation) in operations() {
        let takes_query = method == "GET" && path.starts_with("/v1/");
        if !takes_query {
            continue;
        }
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let described: BTreeSet<&str> =
            parameters.filter(|one| one["in"] == "query").filter_map(|one| one["name"].as_str()).collect();
        let target = format!("{}?{UNKNOWN}=1", instance_of(path));
        let reply = server.send_raw(&method, &target, &[], Vec::new()).await;
        let read = known_names(&reply.json(), path);
        assert_eq!(read.iter().map(String::as_str).collect::<BTreeSet<_>>(), described, "{method} {path}");
    }
}
