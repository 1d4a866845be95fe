//! Forms that change something: dialogs, the buttons that open and fill them, and their fields. `assets/forms.js` sends them to the API.

use maud::{Markup, html};
use serde_json::Value;

/// A form in a dialog.
pub struct Dialog<'a> {
    pub id: &'a str,
    /// The title, unless the button that opens it gives another.
    pub title: &'a str,
    /// The method and the path of the call, unless the button that opens it gives others.
    pub call: &'a str,
    /// The message after a success.
    pub done: &'a str,
    /// The label of the button that sends it.
    pub submit: &'a str,
    /// True if the form creates something that must not exist yet.
    pub creates: bool,
    /// The field of the answer with a secret, and the title under which it is shown once.
    pub reveals: Option<(&'a str, &'a str)>,
    /// The label of a button that removes what the form changes.
    pub remove: Option<&'a str>,
}

impl<'a> Dialog<'a> {
    /// Returns a dialog for a call.
    pub fn new(id: &'a str, title: &'a str, call: &'a str) -> Dialog<'a> {
        Dialog {
            id,
            title,
            call,
            done: "Saved.",
            submit: "Save",
            creates: false,
            reveals: None,
            remove: None,
        }
    }

    /// Shows the dialog with these fields.
    pub fn with(self, fields: Markup) -> Markup {
        let creates = self.creates.then_some("");
        html! {
            dialog id=(self.id) aria-label=(self.title) {
                form.fields method="post" data-call=(self.call) data-done=(self.done) data-creates=[creates] data-new=[creates]
                    data-reveals=[self.reveals.map(|(field, _)| field)] data-reveal-title=[self.reveals.map(|(_, title)| title)] {
                    h2 { (self.title) }
                    (fields)
                    div.actions {
                        button.primary type="submit" { (self.submit) }
                        button type="button" data-closes { "Close" }
                        @if let Some(remove) = self.remove {
                            button.danger.apart type="submit" data-for="remove" data-done="Deleted." formnovalidate hidden { (remove) }
                        }
                    }
                }
            }
        }
    }
}

/// Shows a button that opens a dialog for something new.
pub fn create_button(dialog: &str, label: &str) -> Markup {
    html! {
        button.needs-script type="button" data-opens=(dialog) data-fill="{}" data-key=(format!("new {dialog}")) { (label) }
    }
}

/// Shows a button that opens a dialog and fills it with the values of something that exists. `key` tells it from other buttons.
pub fn change_button(dialog: &str, label: &str, key: &str, fill: &Value) -> Markup {
    html! {
        button.needs-script type="button" data-opens=(dialog) data-fill=(fill) data-key=(format!("{dialog} {key}")) { (label) }
    }
}

/// Shows a button that calls the API with fixed fields; with `confirm` it asks first.
pub fn call_button(
    call: &str,
    label: &str,
    done: &str,
    confirm: Option<&str>,
    fields: &[(&str, &str)],
) -> Markup {
    html! {
        form.needs-script method="post" data-call=(call) data-done=(done) data-confirm=[confirm] {
            @for (name, value) in fields {
                @match *value {
                    "true" => input type="hidden" name=(name) value="true" data-type="json";,
                    "false" => input type="hidden" name=(name) value="false" data-type="json";,
                    text => input type="hidden" name=(name) value=(text);,
                }
            }
            button type="submit" data-key=(format!("{label} {call}")) { (label) }
        }
    }
}

/// Shows a field with its label and a hint below.
pub fn field(label: &str, hint: &str, input: Markup) -> Markup {
    html! { label { (label) (input) @if !hint.is_empty() { span.hint { (hint) } } } }
}

/// Shows the field of a name, which is part of the path and cannot be changed later.
pub fn name_field(hint: &str) -> Markup {
    field(
        "Name",
        hint,
        html! { input type="text" name="name" data-path required autocomplete="off" spellcheck="false"; },
    )
}

/// Shows a field for a whole number, which may be empty: then there is no limit.
pub fn limit_field(label: &str, hint: &str, name: &str) -> Markup {
    field(
        label,
        hint,
        html! { input type="text" inputmode="numeric" name=(name) data-type="number" data-empty="null" placeholder="no limit" autocomplete="off"; },
    )
}

/// Shows a field for a weight. Default: 1.
pub fn weight_field(hint: &str) -> Markup {
    field(
        "Weight",
        hint,
        html! { input type="text" inputmode="numeric" name="weight" data-type="number" data-empty="null" placeholder="1" autocomplete="off"; },
    )
}

/// Shows a field for a duration. An empty field is sent as null.
pub fn duration_field(label: &str, hint: &str, name: &str) -> Markup {
    field(
        label,
        hint,
        html! { input type="text" name=(name) data-type="duration" data-empty="null" placeholder="such as 30s, 15min, 1h, 7d" autocomplete="off"; },
    )
}

/// Shows a field for a duration that must be given.
pub fn period_field(label: &str, name: &str, value: &str) -> Markup {
    field(
        label,
        "Such as 30s, 15min, 1h, 7d; 0s ends it at once.",
        html! {
            input type="text" name=(name) data-type="duration" value=(value) required autocomplete="off";
        },
    )
}

/// Shows a choice of words, each with a label.
pub fn choice(label: &str, hint: &str, name: &str, options: &[(&str, &str)]) -> Markup {
    field(
        label,
        hint,
        html! {
            select name=(name) { @for (value, text) in options { option value=(value) { (text) } } }
        },
    )
}

/// Returns a duration as the fields of forms take it, with nothing lost.
pub fn duration_text(ms: i64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")];
    match units.into_iter().find(|(unit, _)| ms != 0 && ms % unit == 0) {
        Some((unit, word)) => format!("{}{word}", ms / unit),
        None => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::duration_text;

    #[test]
    fn a_duration_in_a_field_has_the_largest_unit_that_loses_nothing() {
        for (ms, text) in [(0, "0ms"), (1, "1ms"), (90_000, "90s"), (3_600_000, "1h"), (604_800_000, "7d")] {
            assert_eq!(duration_text(ms), text);
        }
    }
}
