//! Submitting an execution again from what the API shows of it: its fields have the names and the form that a submission takes.

use crate::support::Server;
use selvedge_core::Entropy;
use serde_json::{Map, Value, json};

/// The fields of an execution that a second submission takes as they are.
const FIELDS: [&str; 16] = [
    "kind",
    "input",
    "lane",
    "capabilities",
    "tags",
    "priority",
    "fairness_key",
    "unique_while_active",
    "retry",
    "attempt_timeout_ms",
    "start_by_ms",
    "deadline_ms",
    "retention_ms",
    "budgets",
    "quotas",
    "concurrency",
];

/// A random source of submissions.
struct Source(Entropy);

impl Source {
    fn below(&mut self, bound: u64) -> u64 {
        (self.0.fraction() * bound as f64) as u64
    }

    fn one_of(&mut self, values: Vec<Value>) -> Value {
        let index = self.below(values.len() as u64) as usize;
        values.into_iter().nth(index).unwrap_or_default()
    }

    /// Returns a submission in which each field is left out, null or given.
    fn submission(&mut self, number: u64) -> Value {
        let ms = 1 + self.below(10_000_000);
        let fixed = json!({ "type": "fixed", "delay_ms": ms });
        let exponential =
            json!({ "type": "exponential", "initial_ms": ms, "multiplier": 1.25, "jitter": false });
        let backoff = self.one_of(vec![fixed, exponential]);
        let reserving =
            json!({ "name": "llm", "reserve": { "tokens": ms as f64 / 1000.0, "usd": 0.000001 } });
        let given = [
            ("input", vec![json!({ "n": ms, "exact": 1.50 }), json!([]), json!("\u{0}é")]),
            ("lane", vec![json!("images"), json!("é lane")]),
            ("capabilities", vec![json!([]), json!(["b", "a"])]),
            ("tags", vec![json!({ "customer": "ada:7", "b": "" })]),
            ("priority", vec![json!(-100), json!(0), json!(100)]),
            ("fairness_key", vec![json!("tenant")]),
            ("unique_while_active", vec![json!(format!("key {number}"))]),
            ("idempotency_key", vec![json!(format!("order {number}"))]),
            (
                "retry",
                vec![
                    json!({ "max_retries": 0, "retry_on": [] }),
                    json!({ "max_interruptions": 7, "backoff": backoff }),
                ],
            ),
            ("attempt_timeout_ms", vec![json!(ms)]),
            ("start_by_ms", vec![json!(ms)]),
            ("deadline_ms", vec![json!(ms)]),
            ("retention_ms", vec![json!(0), json!(ms)]),
            ("budgets", vec![json!([]), json!(["money", reserving])]),
            ("quotas", vec![json!(["calls", "seats"])]),
            ("concurrency", vec![json!({ "key": "customer-7", "limit": 1 + ms })]),
            ("delay_ms", vec![json!(ms)]),
        ];
        let mut fields = Map::from_iter([("kind".to_owned(), json!("charge"))]);
        for (name, values) in given {
            match self.below(4) {
                0 => {}
                1 if name != "input" => drop(fields.insert(name.into(), Value::Null)),
                _ => drop(fields.insert(name.into(), self.one_of(values))),
            }
        }
        Value::Object(fields)
    }
}

#[tokio::test]
async fn an_execution_shows_every_field_that_a_second_submission_of_it_needs() {
    let server = Server::start().await;
    for budget in ["llm", "money"] {
        server
            .configure(&format!("budgets/{budget}"), json!({ "limits": { "tokens": { "hard": 1 } } }))
            .await;
    }
    for quota in ["calls", "seats"] {
        server.configure(&format!("quotas/{quota}"), json!({ "concurrency": 1 })).await;
    }
    let mut source = Source(Entropy::seeded(30));
    for number in 0..200 {
        let submission = source.submission(number);
        let id = server.submit(submission.clone()).await;
        let first = server.execution(&id).await;
        let cancelled = server.post(&format!("/v1/executions/{id}/cancel"), json!({})).await;
        assert_eq!(cancelled.status, 200, "{}", cancelled.text());
        let shown =
            |field: &str| first.get(field).unwrap_or_else(|| panic!("{field} is not shown: {first}")).clone();
        let again: Map<String, Value> =
            FIELDS.iter().map(|field| ((*field).to_owned(), shown(field))).collect();
        let again = server.submit(Value::Object(again)).await;
        assert_ne!(again, id, "{submission}");
        let second = server.execution(&again).await;
        for field in FIELDS {
            assert_eq!(first[field], second[field], "{field} of {submission}");
        }
        for (field, value) in submission.as_object().expect("it is an object") {
            let is_shown = first.get(field).is_some() || ["delay_ms"].contains(&field.as_str());
            assert!(is_shown, "{field} with {value} is not shown: {first}");
        }
    }
}
