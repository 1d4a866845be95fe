//! The look of states: one colour for each, always with its word.

use console::style;

/// Returns a state with its colour.
pub fn state_text(state: &str) -> String {
    let styled = match state {
        "completed" | "ready" | "live" => style(state).green(),
        "failed" | "expired" | "dead" => style(state).red(),
        "cancelled" | "skipped" | "revoked" | "stopped" => style(state).dim(),
        "active" | "running" | "delivered" => style(state).cyan(),
        "held" | "suspended" | "paused" | "draining" | "open" => style(state).yellow(),
        "delayed" | "waiting_dependencies" => style(state).blue(),
        other => style(other),
    };
    styled.to_string()
}

/// Returns secondary text.
pub fn dim(text: impl AsRef<str>) -> String {
    style(text.as_ref()).dim().to_string()
}

/// Returns the heading of a part.
pub fn heading(text: impl AsRef<str>) -> String {
    style(text.as_ref()).bold().to_string()
}
