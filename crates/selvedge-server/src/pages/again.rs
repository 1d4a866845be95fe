//! The form that submits an execution again with an edited input. Its script sends it to `POST /v1/executions` with an idempotency key, so
//! that a double click is one submission.

use super::payload::indented;
use maud::{Markup, html};
use selvedge_engine::View;

/// The largest input that can be edited on the page, in bytes.
const INPUT_MAX: usize = 256 * 1024;

/// Shows the button and its dialog.
pub fn show(view: &View) -> Markup {
    let (stored, class) = (&view.stored, &view.class);
    let is_small = stored.input.len() <= INPUT_MAX;
    let input = if is_small { indented(&String::from_utf8_lossy(&stored.input)) } else { String::new() };
    let tags: Vec<String> =
        stored.execution.tags.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    html! {
        div.actions.needs-script { button type="button" data-opens="again-dialog" { "Submit again" } }
        dialog.wide #again-dialog aria-label="Submit again with edited input" {
            form method="post" data-again novalidate {
                h2 { "Submit again" }
                p.faint { "A new execution, which leaves this one as it is." }
                div.pair {
                    (field("kind", "Kind", html! { input type="text" name="kind" value=(class.kind) autocomplete="off" aria-describedby="again-kind"; }))
                    (field("lane", "Lane", html! { input type="text" name="lane" value=(class.lane) autocomplete="off" aria-describedby="again-lane"; }))
                    (field("priority", "Priority; higher is sooner", html! { input type="number" name="priority" value=(stored.execution.priority) aria-describedby="again-priority"; }))
                }
                (field("input", "Input, JSON", html! { textarea.code name="input" rows="10" spellcheck="false" aria-describedby="again-input" { (input) } }))
                @if !is_small { p.faint { "The input is larger than " (INPUT_MAX / 1024) " KiB and was left out. Paste the new one." } }
                (field("tags", "Tags, one per line: name: value", html! { textarea name="tags" rows="2" spellcheck="false" aria-describedby="again-tags" { (tags.join("\n")) } }))
                div.actions {
                    button.primary type="submit" { "Submit" }
                    button type="button" data-closes { "Close" }
                }
            }
        }
    }
}

/// Shows a field with a place for its error.
fn field(name: &str, label: &str, input: Markup) -> Markup {
    html! {
        div.field {
            label { (label) (input) }
            p.field-error id=(format!("again-{name}")) role="alert" {}
        }
    }
}
