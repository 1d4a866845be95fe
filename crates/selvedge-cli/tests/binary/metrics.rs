//! Metrics of the real binary: the listener for metrics, and the dashboard, the alerts and the documentation, which use only
//! names and labels that a server exposes.

use crate::support::{
    Place, Server, Sqlite, claim, command, complete, post, result, start_call, submit, text,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Labels that Prometheus adds.
const ADDED: [&str; 2] = ["instance", "job"];
/// The endings of the names of a histogram's series.
const ENDINGS: [&str; 3] = ["_bucket", "_sum", "_count"];

/// A metric of a scrape: its type and its labels.
#[derive(Default)]
struct Metric {
    kind: String,
    labels: BTreeSet<String>,
}

type Metrics = BTreeMap<String, Metric>;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the response to a GET as text.
pub fn get_text(url: &str) -> String {
    let page = Command::new("curl").args(["--silent", "--fail", "--max-time", "30", url]).output();
    String::from_utf8(page.expect("curl starts").stdout).expect("the response is text")
}

/// Returns the names of the labels in the braces of a series or selector.
fn label_names(braces: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let (mut name, mut quoted, mut escaped) = (String::new(), false, false);
    for one in braces.chars() {
        match one {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ if quoted => {}
            '=' | '!' | '~' => {
                if !name.is_empty() {
                    names.insert(std::mem::take(&mut name));
                }
            }
            ',' | ' ' | '\n' => name.clear(),
            other => name.push(other),
        }
    }
    names
}

/// Returns the length of the text in braces at the start of `rest`, braces included; 0 if there are none.
fn braces(rest: &str) -> usize {
    if !rest.starts_with('{') {
        return 0;
    }
    let (mut quoted, mut escaped) = (false, false);
    for (at, one) in rest.char_indices() {
        match one {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            '}' if !quoted => return at + 1,
            _ => {}
        }
    }
    panic!("braces are not closed: {rest}");
}

/// Reads a scrape.
fn parse(scrape: &str) -> Metrics {
    let mut metrics = Metrics::new();
    let mut family = String::new();
    for line in scrape.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, kind) = declared.split_once(' ').expect("a type has a name");
            family = name.to_owned();
            metrics.insert(family.clone(), Metric { kind: kind.to_owned(), ..Metric::default() });
        } else if !line.starts_with('#') {
            let start = line.find(['{', ' ']).expect("a sample has a value");
            let inside = &line[start..start + braces(&line[start..])];
            let metric = metrics.get_mut(&family).expect("a sample follows its type");
            metric.labels.extend(label_names(inside.trim_matches(['{', '}'])));
        }
    }
    metrics
}

/// Starts a server and makes everything happen that has a metric. Returns its metrics, from the listener for metrics.
fn scrape() -> Metrics {
    let place = Sqlite::new();
    let mut serve = command();
    serve.args(["serve", "--store", &place.store(), "--json", "--metrics-listen", "127.0.0.1:0"]);
    // So that another namespace is uncovered.
    serve.args(["--reconciler-namespace", "default"]);
    let server = Server::spawn(serve);
    let ready: Value = serde_json::from_str(&server.ready_line).expect("the ready line is JSON");
    let url = format!("{}/v1", server.url);
    for (path, body) in [
        ("admin/namespaces/uncovered", json!({})),
        ("lanes/default", json!({"concurrency": 9})),
        ("quotas/q", json!({"concurrency": 1})),
        ("budgets/b", json!({"limits": {"tokens": {"hard": 10, "soft": 5}}})),
    ] {
        let (status, response) = start_call("PUT", &format!("{url}/{path}"), Some(&body)).response();
        assert_eq!(status, 201, "{response}");
    }
    let (status, flow) = post(&format!("{url}/flows"), &json!({"nodes": [{"name": "a", "kind": "k"}]}));
    assert_eq!(status, 201, "{flow}");
    let id = submit(&server.url, json!({"kind": "k", "quotas": ["q"]}));
    submit(&server.url, json!({"kind": "k", "quotas": ["q"]}));
    let claimed = claim(&server.url, "w-1", 3, 10_000);
    assert!(!claimed.is_empty());
    for claimed in claimed {
        assert_eq!(complete(&server.url, "w-1", &claimed, json!(1))["state"], "completed");
    }
    assert_eq!(result(&server.url, &id).0, 200);
    // The reconcilers of a running server tick when something is due; one that has ticked has a time of its last success.
    let (status, delayed) = post(&format!("{url}/executions"), &json!({"kind": "k", "delay_ms": 1}));
    assert_eq!(status, 201, "{delayed}");
    let metrics = text(&ready["metrics"]);
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let metrics = parse(&get_text(&metrics));
        let ticked = metrics.get("selvedge_reconciler_success_age_seconds");
        if ticked.is_some_and(|metric| metric.labels.contains("reconciler")) {
            return metrics;
        }
        assert!(Instant::now() < deadline, "no reconciler has succeeded within 60 s");
    }
}

/// Returns the metric that a name in an expression stands for.
fn metric_of<'a>(metrics: &'a Metrics, name: &str) -> Option<(&'a Metric, bool)> {
    if let Some(metric) = metrics.get(name) {
        return Some((metric, false)).filter(|(metric, _)| metric.kind != "histogram");
    }
    let ending = ENDINGS.iter().find(|ending| name.ends_with(**ending))?;
    let metric = metrics.get(name.strip_suffix(ending)?)?;
    (metric.kind == "histogram").then_some((metric, *ending == "_bucket"))
}

/// Checks the names and labels of an expression. Returns what is wrong.
fn check(metrics: &Metrics, expression: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut labels: BTreeSet<&str> = ADDED.into_iter().collect();
    let is_word = |one: char| one.is_ascii_alphanumeric() || one == '_';
    let mut found = 0;
    let mut rest = expression;
    while let Some(at) = rest.find("selvedge_") {
        rest = &rest[at..];
        let length = rest.find(|one| !is_word(one)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(length);
        let selector = &after[..braces(after)];
        rest = &after[selector.len()..];
        found += 1;
        let Some((metric, is_bucket)) = metric_of(metrics, name) else {
            wrong.push(format!("there is no metric {name}"));
            continue;
        };
        labels.extend(metric.labels.iter().map(String::as_str));
        for label in label_names(selector.trim_matches(['{', '}'])) {
            let known = metric.labels.contains(&label) && (label != "le" || is_bucket);
            if !known && !ADDED.contains(&label.as_str()) {
                wrong.push(format!("{name} has no label {label}"));
            }
        }
    }
    if found == 0 {
        wrong.push("it names no metric".into());
    }
    for clause in ["by (", "on (", "ignoring ("] {
        for grouped in expression.split(clause).skip(1) {
            let list = grouped.split(')').next().unwrap_or_default();
            for label in list.split(',').map(str::trim).filter(|label| !labels.contains(label)) {
                wrong.push(format!("none of its metrics has a label {label}"));
            }
        }
    }
    wrong.into_iter().map(|wrong| format!("{wrong}: {expression}")).collect()
}

/// Returns the expressions of the alerts.
fn alert_expressions() -> Vec<String> {
    let alerts = read("deploy/prometheus/alerts.yml");
    let mut expressions = Vec::new();
    let mut lines = alerts.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(value) = line.trim_start().strip_prefix("expr:") else { continue };
        let indent = line.len() - line.trim_start().len();
        let mut expression = value.trim().trim_start_matches('|').to_owned();
        while let Some(more) = lines.next_if(|more| more.len() - more.trim_start().len() > indent) {
            expression = format!("{expression} {}", more.trim());
        }
        expressions.push(expression);
    }
    expressions
}

/// Adds every expression of a part of a dashboard.
fn add_dashboard_expressions(value: &Value, expressions: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(expression) if name == "expr" => expressions.push(expression.to_owned()),
                    Some(query) if name == "query" && query.contains("label_values(") => {
                        let inside = query.trim_start_matches("label_values(").trim_end_matches(')');
                        let (metric, label) =
                            inside.rsplit_once(',').expect("label_values has a metric and a label");
                        expressions.push(format!("max by ({}) ({metric})", label.trim()));
                    }
                    _ => add_dashboard_expressions(value, expressions),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_dashboard_expressions(item, expressions)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the metrics of the documentation with their types.
fn documented() -> BTreeMap<String, String> {
    let page = read("docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `selvedge_"));
    rows.map(|row| {
        let (name, rest) = row.split_once('`').expect("a name ends with a backtick");
        let kind = rest.split('|').nth(1).expect("a row has a type").trim();
        (format!("selvedge_{name}"), kind.to_owned())
    })
    .collect()
}

#[test]
fn the_dashboard_the_alerts_and_the_documentation_use_the_metrics_of_a_server() {
    let metrics = scrape();
    let exposed: BTreeMap<String, String> =
        metrics.iter().map(|(name, metric)| (name.clone(), metric.kind.clone())).collect();
    assert_eq!(documented(), exposed, "docs/metrics.md has every metric, and no other");
    let code: BTreeSet<String> =
        read("docs/metrics.md").split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let labels: BTreeSet<&String> = metrics.values().flat_map(|metric| &metric.labels).collect();
    let missing: Vec<_> =
        labels.into_iter().filter(|label| *label != "le" && !code.contains(*label)).collect();
    assert!(missing.is_empty(), "docs/metrics.md has every label: {missing:?}");

    let dashboard: Value =
        serde_json::from_str(&read("deploy/grafana/selvedge.json")).expect("a dashboard is JSON");
    let mut expressions = alert_expressions();
    assert!(expressions.len() >= 10, "{expressions:?}");
    add_dashboard_expressions(&dashboard, &mut expressions);
    assert!(expressions.len() >= 40, "{expressions:?}");
    let wrong: Vec<String> = expressions.iter().flat_map(|expression| check(&metrics, expression)).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn an_expression_with_an_unknown_name_or_label_is_found() {
    let metrics = parse(
        "# TYPE selvedge_a gauge\nselvedge_a{lane=\"x, y=}\"} 1\n# TYPE selvedge_h histogram\nselvedge_h_bucket{le=\"1\"} 2\n",
    );
    for right in [
        "selvedge_a{lane=\"x\"}",
        "sum by (le) (rate(selvedge_h_bucket[5m]))",
        "max by (instance) (selvedge_a)",
    ] {
        assert_eq!(check(&metrics, right), Vec::<String>::new());
    }
    for wrong in [
        "selvedge_b",
        "selvedge_a_bucket",
        "selvedge_h",
        "selvedge_a{kind=\"k\"}",
        "sum by (lane) (selvedge_h_sum)",
        "up",
    ] {
        assert_eq!(check(&metrics, wrong).len(), 1, "{wrong}");
    }
}

#[test]
fn an_address_for_metrics_that_is_none_is_refused() {
    let refused = command().args(["serve", "--store", "memory:", "--metrics-listen", "9100"]).output();
    let refused = refused.expect("the binary starts");
    let message = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(message.contains("SELVEDGE_METRICS_LISTEN") && message.contains("IP:PORT"), "{message}");
}
