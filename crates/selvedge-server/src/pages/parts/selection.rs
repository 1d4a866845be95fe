//! Actions on many executions of a list: the bar that appears with a selection.

use super::matches::Matches;
use maud::{Markup, html};
use selvedge_api::times;
use selvedge_core::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Returns what a script needs to act on everything that matches: the filter as the API takes it, up to what exists now, and the count,
/// which may be `more`.
pub fn matching(asked: &BTreeMap<String, Value>, total: &Matches, now: Timestamp) -> String {
    let Matches { count, may_be_more } = total;
    let mut filter = asked.clone();
    filter.entry("submitted_before".into()).or_insert_with(|| Value::from(times::text(now.plus_ms(1))));
    json!({ "filter": filter, "total": count, "more": may_be_more }).to_string()
}

/// Shows the bar with the actions, hidden until something is selected, and their dialog.
pub fn bar() -> Markup {
    html! {
        div.selection #selection role="region" aria-label="Selection" hidden {
            span data-count role="status" {}
            button.plain type="button" data-widen hidden {}
            span.faint { "The list stays as it is until you clear the selection." }
            span.buttons {
                button.danger type="button" data-action="cancel" { "Cancel" }
                button type="button" data-action="replay" { "Replay" }
                button type="button" data-action="priority" { "Priority" }
                button.plain type="button" data-unselect { "Clear the selection" }
            }
        }
        dialog #selection-dialog aria-label="Change the selected executions" {
            form.fields method="post" {
                h2 { "Change the selected executions" }
                label data-shown-for="cancel" { "Reason" input type="text" name="action.reason" autocomplete="off"; }
                label data-shown-for="priority" { "Priority, from −100 to 100; higher is sooner" input type="number" name="action.priority" value="0" min="-100" max="100"; }
                p data-shown-for="replay" { "Each runs again with the same input. Executions of its flow that depend on it are reopened." }
                div { h3 { "Dry run" } ul.outlook data-outlook aria-live="polite" {} }
                div.actions { button.primary type="submit" data-apply disabled { "Apply" } button type="button" data-closes { "Close" } }
            }
        }
    }
}
