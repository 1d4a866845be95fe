//! Metrics in the Prometheus text format.

use crate::{AppState, VERSION};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use selvedge_engine::{Distribution, Family, FamilyKind, SampleValue};
use std::fmt::Write;

/// The prefix of every name.
const PREFIX: &str = "selvedge_";
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `GET /metrics`
pub async fn metrics(State(state): State<AppState>) -> Response {
    let mut info = Family::gauge("info", "Version and store of this server.");
    info.add(&[("version", VERSION), ("store", state.engine.store_name())], 1.0);
    let mut families = vec![info];
    families.extend(state.engine.metrics().await);
    families.extend(state.http_metrics.families());
    families.extend(state.shared.webhooks.metrics.families(state.engine.store_time()));
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text(&families)).into_response()
}

/// Writes families as text.
fn text(families: &[Family]) -> String {
    let mut out = String::with_capacity(64 * 1024);
    for family in families {
        let kind = match family.kind {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Histogram => "histogram",
        };
        let name = format!("{PREFIX}{}", family.name);
        // Writing to a string cannot fail.
        let _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} {kind}", family.help);
        for sample in &family.samples {
            let labels: Vec<(&str, &str)> =
                sample.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
            match &sample.value {
                SampleValue::Number(value) => line(&mut out, &name, &labels, *value),
                SampleValue::Distribution(distribution) => {
                    write_histogram(&mut out, &name, &labels, distribution)
                }
            }
        }
    }
    out
}

fn write_histogram(out: &mut String, name: &str, labels: &[(&str, &str)], distribution: &Distribution) {
    let Distribution { bounds, buckets, sum } = distribution;
    let bounds = bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    let mut total = 0;
    for (bound, count) in bounds.zip(buckets) {
        total += count;
        let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
        line(out, &format!("{name}_bucket"), &labels, total as f64);
    }
    line(out, &format!("{name}_sum"), labels, *sum);
    line(out, &format!("{name}_count"), labels, total as f64);
}

fn line(out: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    out.push_str(name);
    for (index, (label, text)) in labels.iter().enumerate() {
        let _ = write!(out, "{}{label}=\"", if index == 0 { '{' } else { ',' });
        for one in text.chars() {
            match one {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                other => out.push(other),
            }
        }
        out.push('"');
    }
    if !labels.is_empty() {
        out.push('}');
    }
    let _ = writeln!(out, " {value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_engine::Histogram;

    #[test]
    fn labels_are_escaped_and_buckets_are_cumulative() {
        let mut depth = Family::gauge("executions", "Help.");
        depth.add(&[("lane", "a \"b\" \\c")], 2.0);
        let histogram = Histogram::of_sizes();
        [1, 2, 5000].into_iter().for_each(|size| histogram.add(size));
        let mut sizes = Family::histogram("commit_tasks", "Help.");
        sizes.add_histogram(&[], &histogram);
        let text = text(&[depth, sizes]);
        for expected in [
            "# TYPE selvedge_executions gauge\nselvedge_executions{lane=\"a \\\"b\\\" \\\\c\"} 2\n",
            "selvedge_commit_tasks_bucket{le=\"1\"} 1\nselvedge_commit_tasks_bucket{le=\"2\"} 2\n",
            "selvedge_commit_tasks_bucket{le=\"+Inf\"} 3\nselvedge_commit_tasks_sum 5003\nselvedge_commit_tasks_count 3\n",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
    }
}
