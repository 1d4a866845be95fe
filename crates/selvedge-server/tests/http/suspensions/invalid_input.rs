//! Invalid suspensions and waitpoints are refused with the exact field named, and nothing changes.

use crate::support::{Server, check_problem, op_with};
use serde_json::{Value, json};

/// Asserts that the operation is refused with each of the given fields, with the given code and pointer.
async fn check_refusals(name: &str, cases: Vec<(Value, &str, &str)>) {
    let server = Server::start().await;
    let (id, claim) = server.submit_and_claim().await;
    for (fields, code, pointer) in cases {
        let problem = server.report("i", op_with(name, &claim, fields.clone())).await["error"].clone();
        assert!(problem.is_object(), "{fields} is not refused");
        check_problem(&problem);
        let actual = (&problem["status"], &problem["code"], &problem["pointer"]);
        assert_eq!(
            actual,
            (&json!(422), &json!(code), &json!(format!("/ops/0{pointer}"))),
            "{fields}: {problem}"
        );
    }
    assert_eq!(server.execution(&id).await["version"], claim["execution"]["version"]);
}

const INVALID: &str = "invalid_field";
const UNKNOWN: &str = "unknown_field";

#[tokio::test]
async fn an_invalid_condition_is_named_by_its_exact_pointer() {
    let depth_five =
        json!({ "any": [{ "all": [{ "any": [{ "all": [{ "any": [{ "operator": true }] }] }] }] }] });
    let many = vec![json!({ "operator": true }); 101];
    let wide = vec![json!({ "any": vec![json!({ "operator": true }); 51] }); 2];
    let cases = [
        (json!({}), INVALID, ""),
        (json!(7), INVALID, ""),
        (json!("approve"), INVALID, ""),
        (json!({ "signla": "x" }), UNKNOWN, "/signla"),
        (json!({ "signal": "x", "timeout": 1 }), UNKNOWN, "/timeout"),
        (json!({ "signal": "x", "operator": true }), INVALID, "/operator"),
        (json!({ "until_at": "2100-01-01T00:00:00Z", "delay_ms": 1 }), INVALID, "/delay_ms"),
        (json!({ "signal": 7 }), INVALID, "/signal"),
        (json!({ "signal": "" }), INVALID, "/signal"),
        (json!({ "signal": "x".repeat(201) }), INVALID, "/signal"),
        (json!({ "any": [] }), INVALID, "/any"),
        (json!({ "all": {} }), INVALID, "/all"),
        (json!({ "any": [{ "signal": "a" }, 5] }), INVALID, "/any/1"),
        (
            json!({ "any": [{ "all": [{ "signal": "a" }, { "signal": true }] }] }),
            INVALID,
            "/any/0/all/1/signal",
        ),
        (json!({ "all": [{ "any": [{ "sgnal": "a" }] }] }), UNKNOWN, "/all/0/any/0/sgnal"),
        (depth_five, INVALID, "/any/0/all/0/any/0/all/0/any"),
        (json!({ "any": many }), INVALID, "/any"),
        (json!({ "all": wide }), INVALID, ""),
        (json!({ "count": 2 }), INVALID, "/count"),
        (json!({ "count": { "of": ["a"], "distinct": "signals" } }), INVALID, "/count/n"),
        (json!({ "count": { "n": 1, "distinct": "signals" } }), INVALID, "/count/of"),
        (json!({ "count": { "n": 1, "of": ["a"] } }), INVALID, "/count/distinct"),
        (json!({ "count": { "n": 1, "of": ["a"], "distinct": "names" } }), INVALID, "/count/distinct"),
        (json!({ "count": { "n": 0, "of": ["a"], "distinct": "signals" } }), INVALID, "/count/n"),
        (json!({ "count": { "n": 2, "of": ["a"], "distinct": "signals" } }), INVALID, "/count/n"),
        (json!({ "count": { "n": -1, "of": ["a"], "distinct": "signals" } }), INVALID, "/count/n"),
        (json!({ "count": { "n": 1, "of": [], "distinct": "signals" } }), INVALID, "/count/of"),
        (json!({ "count": { "n": 1, "of": ["a", 1], "distinct": "signals" } }), INVALID, "/count/of/1"),
        (json!({ "count": { "n": 1, "of": ["a", "a"], "distinct": "signals" } }), INVALID, "/count/of/1"),
        (json!({ "count": { "n": 1, "of": ["a"], "distinct": "signals", "k": 1 } }), UNKNOWN, "/count/k"),
        (json!({ "until_at": "tomorrow" }), INVALID, "/until_at"),
        (json!({ "until_at": 5 }), INVALID, "/until_at"),
        (json!({ "delay_ms": -1 }), INVALID, "/delay_ms"),
        (json!({ "delay_ms": "1" }), INVALID, "/delay_ms"),
        (json!({ "operator": false }), INVALID, "/operator"),
        (json!({ "children": "all" }), INVALID, "/children"),
    ];
    let at = |pointer: &str| format!("/condition{pointer}");
    let pointers: Vec<String> = cases.iter().map(|(_, _, pointer)| at(pointer)).collect();
    let alone = cases.iter().zip(&pointers);
    let alone =
        alone.map(|((condition, code, _), at)| (json!({ "condition": condition }), *code, at.as_str()));
    check_refusals("suspend", alone.collect()).await;
    let pointers: Vec<String> = pointers.iter().map(|pointer| format!("/waits/0{pointer}")).collect();
    let listed = cases.iter().zip(&pointers);
    let listed = listed.map(|((condition, code, _), at)| {
        (json!({ "waits": [{ "condition": condition }] }), *code, at.as_str())
    });
    check_refusals("suspend", listed.collect()).await;
}

#[tokio::test]
async fn an_invalid_field_of_a_suspension_is_named() {
    let go = json!({ "signal": "go" });
    let with = |fields: Value| {
        let mut body = json!({ "condition": go });
        for (name, value) in fields.as_object().expect("a JSON object") {
            body[name] = value.clone();
        }
        body
    };
    let waits = |waits: Value| json!({ "waits": waits });
    let same = json!([{ "step": "s", "condition": go }, { "step": "s", "condition": go }]);
    check_refusals(
        "suspend",
        vec![
            (json!({}), INVALID, "/condition"),
            (json!({ "condition": null }), INVALID, "/condition"),
            (with(json!({ "timeout_ms": -1 })), INVALID, "/timeout_ms"),
            (with(json!({ "timeout_ms": "1s" })), INVALID, "/timeout_ms"),
            (with(json!({ "on_timeout": "retry" })), INVALID, "/on_timeout"),
            (with(json!({ "step": "" })), INVALID, "/step"),
            (with(json!({ "step": "s", "kind": "spawn" })), INVALID, "/kind"),
            (with(json!({ "kind": "sleep" })), INVALID, "/kind"),
            (with(json!({ "timeout": 1 })), UNKNOWN, "/timeout"),
            (with(json!({ "waits": [] })), INVALID, "/condition"),
            (waits(json!([])), INVALID, "/waits"),
            (waits(json!({})), INVALID, "/waits"),
            (waits(json!([7])), INVALID, "/waits/0"),
            (waits(json!([{}])), INVALID, "/waits/0/condition"),
            (waits(json!([{ "condition": go, "timeout_ms": -1 }])), INVALID, "/waits/0/timeout_ms"),
            (waits(json!([{ "condition": go, "until": 1 }])), UNKNOWN, "/waits/0/until"),
            (waits(same), INVALID, "/waits/1/step"),
            (waits(json!(vec![json!({ "condition": go }); 101])), INVALID, "/waits"),
            (json!({ "waits": [{ "condition": go }], "timeout_ms": 1 }), UNKNOWN, "/timeout_ms"),
            (with(json!({ "waitpoints": "w" })), INVALID, "/waitpoints"),
            (with(json!({ "waitpoints": ["w", 7] })), INVALID, "/waitpoints/1"),
            (with(json!({ "waitpoints": ["w", ""] })), INVALID, "/waitpoints/1"),
            (with(json!({ "waitpoints": [{}] })), INVALID, "/waitpoints/0/name"),
            (with(json!({ "waitpoints": [{ "name": "w", "source": "" }] })), INVALID, "/waitpoints/0/source"),
            (
                with(json!({ "waitpoints": [{ "name": "w", "expires_ms": -1 }] })),
                INVALID,
                "/waitpoints/0/expires_ms",
            ),
            (with(json!({ "waitpoints": [{ "name": "w", "token": "t" }] })), UNKNOWN, "/waitpoints/0/token"),
            (
                with(json!({ "waitpoints": ["v", { "name": "w", "signals": [7] }] })),
                INVALID,
                "/waitpoints/1/signals/0",
            ),
            (with(json!({ "waitpoints": vec!["w"; 1001] })), INVALID, "/waitpoints"),
        ],
    )
    .await;
}

#[tokio::test]
async fn an_invalid_field_of_a_waitpoint_is_named() {
    check_refusals(
        "waitpoint",
        vec![
            (json!({}), INVALID, "/name"),
            (json!({ "name": "" }), INVALID, "/name"),
            (json!({ "name": "w", "source": 7 }), INVALID, "/source"),
            (json!({ "name": "w", "expires_ms": -1 }), INVALID, "/expires_ms"),
            (json!({ "name": "w", "expires_at": "2100-01-01T00:00:00Z" }), UNKNOWN, "/expires_at"),
            (json!({ "name": "w", "signals": [] }), INVALID, "/signals"),
            (json!({ "name": "w", "signals": "yes" }), INVALID, "/signals"),
            (json!({ "name": "w", "signals": ["yes", ""] }), INVALID, "/signals/1"),
            (json!({ "name": "w", "signals": vec!["yes"; 101] }), INVALID, "/signals"),
            (json!({ "name": "w", "prompt": 7 }), INVALID, "/prompt"),
            (json!({ "name": "w", "prompt": "x".repeat(4097) }), INVALID, "/prompt"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_condition_of_hostile_depth_or_width_is_refused_without_harm() {
    let server = Server::start().await;
    let (_, claim) = server.submit_and_claim().await;
    let fence = op_with("suspend", &claim, json!({})).to_string();
    let report = |condition: &str| {
        format!(r#"{{"ops": [{}, "condition": {condition}}}]}}"#, fence.trim_end_matches('}'))
    };
    let depth = 200_000;
    let nested = format!("{}{{\"operator\":true}}{}", "{\"any\":[".repeat(depth), "]}".repeat(depth));
    let wide = format!("{{\"any\":[{}]}}", ["{\"operator\":true}"; 200_000].join(","));
    let arrays = "[".repeat(depth) + &"]".repeat(depth);
    for (condition, pointer) in [
        (nested, "/ops/0/condition/any/0/any/0/any/0/any/0/any"),
        (wide, "/ops/0/condition/any"),
        (arrays, "/ops/0/condition"),
    ] {
        let reply = server.post_text("/v1/workers/i/report", &report(&condition)).await;
        assert_eq!(reply.status, 200);
        let problem = reply.json()["results"][0]["error"].clone();
        assert_eq!((&problem["code"], &problem["pointer"]), (&json!(INVALID), &json!(pointer)));
    }
    server.complete("i", &claim, json!("still alive")).await;
}
