//! The figures of a scenario, as text for people and as a JSON object for programs.

use serde_json::{Map, Value, json};
use std::fmt;
use std::time::Duration;

/// The figures of one scenario. A figure that does not apply to the scenario is none.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The name of the scenario.
    pub scenario: &'static str,
    /// The kind of store: `postgres` or `sqlite`.
    pub store: &'static str,
    /// The transport: `in_process`, `http` or `http_keys`.
    pub transport: &'static str,
    /// The number of executions.
    pub executions: u64,
    /// Executions per second.
    pub throughput: Option<f64>,
    /// Percentiles of the times that the scenario measures, in milliseconds.
    pub times: Option<Times>,
    /// Commits per execution.
    pub commits: Option<f64>,
    /// Bytes of write-ahead log per execution.
    pub wal_bytes: Option<f64>,
    /// The throughput of the floor in the same run, in executions per second.
    pub floor: Option<f64>,
    /// The median time of one single-row commit in the same run, in milliseconds.
    pub commit_ms: Option<f64>,
    /// The settings of the run.
    pub settings: Map<String, Value>,
    /// The figures that only this scenario has, by JSON field name.
    pub more: Map<String, Value>,
}

/// Percentiles in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Times {
    /// Computes the percentiles of these durations. Returns none if there are no durations.
    pub fn of(mut durations: Vec<Duration>) -> Option<Times> {
        if durations.is_empty() {
            return None;
        }
        durations.sort_unstable();
        let at = |share: f64| {
            let index = ((durations.len() - 1) as f64 * share).round() as usize;
            durations[index].as_secs_f64() * 1000.0
        };
        Some(Times { p50: at(0.50), p95: at(0.95), p99: at(0.99) })
    }
}

/// Rounds a figure to three decimal places.
pub fn rounded(value: f64) -> Value {
    json!((value * 1000.0).round() / 1000.0)
}

impl Report {
    /// Returns the throughput divided by that of the floor.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.throughput? / self.floor?)
    }

    /// Returns the report as one JSON object. Its field names are stable.
    pub fn json(&self) -> Value {
        let round = |value: Option<f64>, digits: i32| {
            value.map(|value| (value * 10f64.powi(digits)).round() / 10f64.powi(digits))
        };
        let mut object = json!({
            "scenario": self.scenario,
            "store": self.store,
            "transport": self.transport,
            "executions": self.executions,
            "throughput_per_s": round(self.throughput, 0),
            "p50_ms": round(self.times.map(|times| times.p50), 3),
            "p95_ms": round(self.times.map(|times| times.p95), 3),
            "p99_ms": round(self.times.map(|times| times.p99), 3),
            "commits_per_execution": round(self.commits, 4),
            "wal_bytes_per_execution": round(self.wal_bytes, 0),
            "floor_per_s": round(self.floor, 0),
            "ratio_to_floor": round(self.ratio(), 3),
            "commit_ms": round(self.commit_ms, 3),
            "settings": self.settings,
        });
        if let Value::Object(fields) = &mut object {
            fields.extend(self.more.clone());
        }
        object
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} on {} ({})", self.scenario, self.store, self.transport)?;
        let mut line = |name: &str, value: Option<String>| match value {
            Some(value) => writeln!(f, "  {name:<32} {value}"),
            None => Ok(()),
        };
        line("executions", (self.executions > 0).then(|| self.executions.to_string()))?;
        line("throughput", self.throughput.map(|value| format!("{value:.0} per second")))?;
        line("floor", self.floor.map(|value| format!("{value:.0} per second")))?;
        line("ratio to floor", self.ratio().map(|value| format!("{value:.2}")))?;
        line(
            "p50 / p95 / p99",
            self.times.map(|times| format!("{:.2} / {:.2} / {:.2} ms", times.p50, times.p95, times.p99)),
        )?;
        line("one single-row commit", self.commit_ms.map(|value| format!("{value:.2} ms")))?;
        line("commits per execution", self.commits.map(|value| format!("{value:.4}")))?;
        line("WAL per execution", self.wal_bytes.map(|value| format!("{value:.0} bytes")))?;
        for (name, value) in &self.more {
            line(&name.replace('_', " "), Some(value.to_string()))?;
        }
        Ok(())
    }
}
