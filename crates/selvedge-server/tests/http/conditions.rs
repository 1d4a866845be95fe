//! Bad suspensions are refused with the very place named, and nothing changes.

use crate::client::{Server, check_problem, op_with};
use serde_json::{Value, json};

async fn running(server: &Server) -> Value {
    server.submit(json!({ "kind": "k" })).await;
    server.claim("i", 1).await.remove(0)
}

/// Asserts that each of these is refused, with this code and pointer.
async fn refused(name: &str, cases: Vec<(Value, &str, &str)>) {
    let server = Server::start().await;
    let claim = running(&server).await;
    for (more, code, pointer) in cases {
        let problem = server.report("i", op_with(name, &claim, more.clone())).await["error"].clone();
        assert!(problem.is_object(), "{more} is not refused");
        check_problem(&problem);
        let told = (&problem["status"], &problem["code"], &problem["pointer"]);
        assert_eq!(
            told,
            (&json!(422), &json!(code), &json!(format!("/ops/0{pointer}"))),
            "{more}: {problem}"
        );
    }
    let id = claim["execution"]["id"].as_str().expect("an id");
    assert_eq!(server.execution(id).await["version"], claim["execution"]["version"]);
}

const WRONG: &str = "invalid_field";
const UNKNOWN: &str = "unknown_field";

#[tokio::test]
async fn a_wrong_condition_is_named_to_the_very_place() {
    let depth_five =
        json!({ "any": [{ "all": [{ "any": [{ "all": [{ "any": [{ "operator": true }] }] }] }] }] });
    let many = vec![json!({ "operator": true }); 101];
    let wide = vec![json!({ "any": vec![json!({ "operator": true }); 51] }); 2];
    let cases = [
        (json!({}), WRONG, ""),
        (json!(7), WRONG, ""),
        (json!("approve"), WRONG, ""),
        (json!({ "signla": "x" }), UNKNOWN, "/signla"),
        (json!({ "signal": "x", "timeout": 1 }), UNKNOWN, "/timeout"),
        (json!({ "signal": "x", "operator": true }), WRONG, "/operator"),
        (json!({ "until_at": "2100-01-01T00:00:00Z", "delay_ms": 1 }), WRONG, "/delay_ms"),
        (json!({ "signal": 7 }), WRONG, "/signal"),
        (json!({ "signal": "" }), WRONG, "/signal"),
        (json!({ "signal": "x".repeat(201) }), WRONG, "/signal"),
        (json!({ "any": [] }), WRONG, "/any"),
        (json!({ "all": {} }), WRONG, "/all"),
        (json!({ "any": [{ "signal": "a" }, 5] }), WRONG, "/any/1"),
        (
            json!({ "any": [{ "all": [{ "signal": "a" }, { "signal": true }] }] }),
            WRONG,
            "/any/0/all/1/signal",
        ),
        (json!({ "all": [{ "any": [{ "sgnal": "a" }] }] }), UNKNOWN, "/all/0/any/0/sgnal"),
        (depth_five, WRONG, "/any/0/all/0/any/0/all/0/any"),
        (json!({ "any": many }), WRONG, "/any"),
        (json!({ "all": wide }), WRONG, ""),
        (json!({ "count": 2 }), WRONG, "/count"),
        (json!({ "count": { "of": ["a"], "distinct": "signals" } }), WRONG, "/count/n"),
        (json!({ "count": { "n": 1, "distinct": "signals" } }), WRONG, "/count/of"),
        (json!({ "count": { "n": 1, "of": ["a"] } }), WRONG, "/count/distinct"),
        (json!({ "count": { "n": 1, "of": ["a"], "distinct": "names" } }), WRONG, "/count/distinct"),
        (json!({ "count": { "n": 0, "of": ["a"], "distinct": "signals" } }), WRONG, "/count/n"),
        (json!({ "count": { "n": 2, "of": ["a"], "distinct": "signals" } }), WRONG, "/count/n"),
        (json!({ "count": { "n": -1, "of": ["a"], "distinct": "signals" } }), WRONG, "/count/n"),
        (json!({ "count": { "n": 1, "of": [], "distinct": "signals" } }), WRONG, "/count/of"),
        (json!({ "count": { "n": 1, "of": ["a", 1], "distinct": "signals" } }), WRONG, "/count/of/1"),
        (json!({ "count": { "n": 1, "of": ["a", "a"], "distinct": "signals" } }), WRONG, "/count/of/1"),
        (json!({ "count": { "n": 1, "of": ["a"], "distinct": "signals", "k": 1 } }), UNKNOWN, "/count/k"),
        (json!({ "until_at": "tomorrow" }), WRONG, "/until_at"),
        (json!({ "until_at": 5 }), WRONG, "/until_at"),
        (json!({ "delay_ms": -1 }), WRONG, "/delay_ms"),
        (json!({ "delay_ms": "1" }), WRONG, "/delay_ms"),
        (json!({ "operator": false }), WRONG, "/operator"),
        (json!({ "children": "all" }), WRONG, "/children"),
    ];
    let at = |pointer: &str| format!("/condition{pointer}");
    let pointers: Vec<String> = cases.iter().map(|(_, _, pointer)| at(pointer)).collect();
    let alone = cases.iter().zip(&pointers);
    let alone =
        alone.map(|((condition, code, _), at)| (json!({ "condition": condition }), *code, at.as_str()));
    refused("suspend", alone.collect()).await;
    let pointers: Vec<String> = pointers.iter().map(|pointer| format!("/waits/0{pointer}")).collect();
    let listed = cases.iter().zip(&pointers);
    let listed = listed.map(|((condition, code, _), at)| {
        (json!({ "waits": [{ "condition": condition }] }), *code, at.as_str())
    });
    refused("suspend", listed.collect()).await;
}

#[tokio::test]
async fn a_wrong_field_of_a_suspension_is_named() {
    let go = json!({ "signal": "go" });
    let with = |more: Value| {
        let mut body = json!({ "condition": go });
        for (name, value) in more.as_object().expect("an object") {
            body[name] = value.clone();
        }
        body
    };
    let waits = |waits: Value| json!({ "waits": waits });
    let same = json!([{ "step": "s", "condition": go }, { "step": "s", "condition": go }]);
    refused(
        "suspend",
        vec![
            (json!({}), WRONG, "/condition"),
            (json!({ "condition": null }), WRONG, "/condition"),
            (with(json!({ "timeout_ms": -1 })), WRONG, "/timeout_ms"),
            (with(json!({ "timeout_ms": "1s" })), WRONG, "/timeout_ms"),
            (with(json!({ "on_timeout": "retry" })), WRONG, "/on_timeout"),
            (with(json!({ "step": "" })), WRONG, "/step"),
            (with(json!({ "step": "s", "kind": "spawn" })), WRONG, "/kind"),
            (with(json!({ "kind": "sleep" })), WRONG, "/kind"),
            (with(json!({ "timeout": 1 })), UNKNOWN, "/timeout"),
            (with(json!({ "waits": [] })), WRONG, "/condition"),
            (waits(json!([])), WRONG, "/waits"),
            (waits(json!({})), WRONG, "/waits"),
            (waits(json!([7])), WRONG, "/waits/0"),
            (waits(json!([{}])), WRONG, "/waits/0/condition"),
            (waits(json!([{ "condition": go, "timeout_ms": -1 }])), WRONG, "/waits/0/timeout_ms"),
            (waits(json!([{ "condition": go, "until": 1 }])), UNKNOWN, "/waits/0/until"),
            (waits(same), WRONG, "/waits/1/step"),
            (waits(json!(vec![json!({ "condition": go }); 101])), WRONG, "/waits"),
            (json!({ "waits": [{ "condition": go }], "timeout_ms": 1 }), UNKNOWN, "/timeout_ms"),
            (with(json!({ "waitpoints": "w" })), WRONG, "/waitpoints"),
            (with(json!({ "waitpoints": ["w", 7] })), WRONG, "/waitpoints/1"),
            (with(json!({ "waitpoints": ["w", ""] })), WRONG, "/waitpoints/1"),
            (with(json!({ "waitpoints": [{}] })), WRONG, "/waitpoints/0/name"),
            (with(json!({ "waitpoints": [{ "name": "w", "source": "" }] })), WRONG, "/waitpoints/0/source"),
            (
                with(json!({ "waitpoints": [{ "name": "w", "expires_ms": -1 }] })),
                WRONG,
                "/waitpoints/0/expires_ms",
            ),
            (with(json!({ "waitpoints": [{ "name": "w", "token": "t" }] })), UNKNOWN, "/waitpoints/0/token"),
            (with(json!({ "waitpoints": vec!["w"; 1001] })), WRONG, "/waitpoints"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_wrong_field_of_a_waitpoint_is_named() {
    refused(
        "waitpoint",
        vec![
            (json!({}), WRONG, "/name"),
            (json!({ "name": "" }), WRONG, "/name"),
            (json!({ "name": "w", "source": 7 }), WRONG, "/source"),
            (json!({ "name": "w", "expires_ms": -1 }), WRONG, "/expires_ms"),
            (json!({ "name": "w", "expires_at": "2100-01-01T00:00:00Z" }), UNKNOWN, "/expires_at"),
        ],
    )
    .await;
}

#[tokio::test]
async fn a_condition_of_hostile_depth_or_width_is_refused_and_hurts_nobody() {
    let server = Server::start().await;
    let claim = running(&server).await;
    let fence = op_with("suspend", &claim, json!({})).to_string();
    let report = |condition: &str| {
        format!(r#"{{"ops": [{}, "condition": {condition}}}]}}"#, fence.trim_end_matches('}'))
    };
    let deep = 200_000;
    let nested = format!("{}{{\"operator\":true}}{}", "{\"any\":[".repeat(deep), "]}".repeat(deep));
    let wide = format!("{{\"any\":[{}]}}", ["{\"operator\":true}"; 200_000].join(","));
    let unread = "[".repeat(deep) + &"]".repeat(deep);
    for (condition, pointer) in [
        (nested, "/ops/0/condition/any/0/any/0/any/0/any/0/any"),
        (wide, "/ops/0/condition/any"),
        (unread, "/ops/0/condition"),
    ] {
        let reply = server.post_text("/v1/workers/i/report", &report(&condition)).await;
        assert_eq!(reply.status, 200);
        let problem = reply.json()["results"][0]["error"].clone();
        assert_eq!((&problem["code"], &problem["pointer"]), (&json!(WRONG), &json!(pointer)));
    }
    server.complete("i", &claim, json!("still alive")).await;
}
