//! An execution as text: its fields, its timeline, and its line in a list.

use crate::terminal::{
    Table, age, at, dim, duration_ms, elapsed, flat, heading, number, relative, state_text, strings, text,
    when,
};
use selvedge_core::headline::headline;
use serde_json::Value;
use std::fmt::Write;

/// The longest value that is shown whole.
const LONG: usize = 2_000;

/// Returns the table of a list of executions.
pub fn table(executions: &[Value]) -> Table {
    let mut table = Table::new(&["id", "kind", "lane", "state", "tries", "age", "note"]);
    for execution in executions {
        table.row(vec![
            text(execution, "/id").into(),
            text(execution, "/kind").into(),
            text(execution, "/lane").into(),
            state_text(text(execution, "/state")),
            number(execution, "/attempts").to_string(),
            age(text(execution, "/submitted_at")),
            note(execution),
        ]);
    }
    table
}

/// Returns the most useful fact about an execution in a list.
fn note(execution: &Value) -> String {
    let node = text(execution, "/node");
    let fact = match text(execution, "/state") {
        "active" => format!("at {}", text(execution, "/lease/instance")),
        "delayed" => format!("starts {}", relative(text(execution, "/delayed_until_at"))),
        "held" => text(execution, "/held_reason/message").to_owned(),
        "failed" | "expired" => headline(text(execution, "/error/message")).to_owned(),
        _ => String::new(),
    };
    match (node, fact.as_str()) {
        ("", fact) => fact.to_owned(),
        (node, "") => format!("node {node}"),
        (node, fact) => format!("node {node}: {fact}"),
    }
}

/// Returns the fields of an execution, one per line.
pub fn fields(execution: &Value) -> String {
    let mut lines =
        format!("{} {}\n", heading(text(execution, "/kind")), state_text(text(execution, "/state")));
    let mut field = |name: &str, value: String| {
        if !value.is_empty() {
            // Further lines of a value stand under its first one.
            let value = value.replace('\n', &format!("\n{}", " ".repeat(16)));
            let _ = writeln!(lines, "  {} {value}", dim(format!("{name:<13}")));
        }
    };
    field("id", text(execution, "/id").into());
    field("namespace", text(execution, "/namespace").into());
    field("lane", text(execution, "/lane").into());
    let flow = match (text(execution, "/flow_id"), text(execution, "/node")) {
        (_, "") => String::new(),
        (flow, node) => format!("{flow} (node {node})"),
    };
    field("flow", flow);
    field("parent", text(execution, "/parent").into());
    let schedule = text(execution, "/schedule");
    field(
        "schedule",
        match schedule {
            "" => String::new(),
            schedule => format!("{schedule} for {}", when(text(execution, "/scheduled_at"))),
        },
    );
    let priority = number(execution, "/priority");
    field("priority", if priority == 0 { String::new() } else { priority.to_string() });
    field("tags", tags(at(execution, "/tags")));
    field("needs", strings(execution, "/capabilities"));
    field("submitted", when(text(execution, "/submitted_at")));
    field("started", when(text(execution, "/started_at")));
    field("ended", when(text(execution, "/ended_at")));
    field("starts", when(text(execution, "/delayed_until_at")));
    field("deadline", when(text(execution, "/deadline_at")));
    let retries = number(execution, "/retries");
    let tries = match (number(execution, "/attempts"), retries) {
        (0, _) => String::new(),
        (attempts, 0) => attempts.to_string(),
        (attempts, retries) => {
            format!("{attempts} ({retries} of {} retries used)", number(execution, "/retry/max_retries"))
        }
    };
    field("attempts", tries);
    field(
        "leased by",
        match text(execution, "/lease/instance") {
            "" => String::new(),
            instance => format!("{instance}, expires {}", relative(text(execution, "/lease/expires_at"))),
        },
    );
    field("held", text(execution, "/held_reason/message").into());
    field("progress", progress(at(execution, "/progress")));
    field("input", shortened(at(execution, "/input")));
    field("result", shortened(at(execution, "/result")));
    field(
        "error",
        match text(execution, "/error/message") {
            "" => String::new(),
            message => {
                let (line, class) = (headline(message), text(execution, "/error/class"));
                // The trace, if there is one, stands below.
                let whole =
                    if line == message.trim() { String::new() } else { format!("\n{}", message.trim_end()) };
                format!("{line} ({class}){whole}")
            }
        },
    );
    lines
}

/// Returns progress as text.
pub fn progress(progress: &Value) -> String {
    match (progress["percent"].as_f64(), progress["message"].as_str()) {
        (Some(percent), Some(message)) => format!("{percent} % {message}"),
        (Some(percent), None) => format!("{percent} %"),
        (None, Some(message)) => message.to_owned(),
        (None, None) => String::new(),
    }
}

fn tags(tags: &Value) -> String {
    let tags = tags.as_object().into_iter().flatten();
    let tags: Vec<String> = tags.map(|(name, value)| format!("{name}={}", flat(value))).collect();
    tags.join(", ")
}

fn shortened(value: &Value) -> String {
    let whole = match value {
        Value::Null => return String::new(),
        value => value.to_string(),
    };
    match whole.char_indices().nth(LONG) {
        None => whole,
        Some((at, _)) => format!("{}… ({} bytes; --json shows all)", &whole[..at], whole.len()),
    }
}

/// Returns the timeline: attempts, steps, signals and waits in the order of their beginnings, each with its time from the
/// submission on and its length.
pub fn timeline(execution: &Value, attempts: &[Value], steps: &[Value], signals: &[Value]) -> Table {
    let mut rows: Vec<(String, String, String, String)> = Vec::new();
    for attempt in attempts {
        let (started, ended) = (text(attempt, "/started_at"), text(attempt, "/ended_at"));
        let outcome = match text(attempt, "/outcome") {
            "" => state_text("active"),
            outcome => state_text(outcome),
        };
        let error = match text(attempt, "/error/message") {
            "" => String::new(),
            message => format!(": {}", headline(message)),
        };
        let what = format!("attempt {}", number(attempt, "/attempt"));
        let note = format!("{outcome} at {}{error}", text(attempt, "/worker"));
        rows.push((started.into(), what, elapsed(started, ended), note));
    }
    for step in steps {
        let (started, recorded) = (text(step, "/started_at"), text(step, "/recorded_at"));
        let state = text(step, "/state");
        let took = match at(step, "/duration_ms").as_i64() {
            Some(ms) => duration_ms(ms),
            None => elapsed(started, recorded),
        };
        let began = if started.is_empty() { recorded } else { started };
        rows.push((
            began.into(),
            format!("{} {}", text(step, "/kind"), text(step, "/name")),
            took,
            state.into(),
        ));
    }
    for signal in signals {
        let note = format!("{} from {}", text(signal, "/effect"), text(signal, "/source"));
        let what = format!("signal {}", text(signal, "/name"));
        rows.push((text(signal, "/delivered_at").into(), what, String::new(), note));
    }
    // A wait that has a name is listed as a step.
    let is_listed = steps.iter().any(|step| text(step, "/state") == "open");
    if let Some(since) = at(execution, "/suspension/since_at").as_str().filter(|_| !is_listed) {
        rows.push((since.into(), "suspended".into(), elapsed(since, ""), state_text("suspended")));
    }
    // Times of one form sort as text.
    rows.sort();
    let submitted = text(execution, "/submitted_at");
    let mut table = Table::new(&["after", "what", "took", "note"]);
    for (began, what, took, note) in rows {
        table.row(vec![format!("+{}", elapsed(submitted, &began)), what, took, note]);
    }
    table
}
