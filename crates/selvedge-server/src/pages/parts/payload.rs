//! JSON of users: indented without changing a token, and cut where it is long.

use maud::{Markup, html};

/// The most bytes of a payload that a page shows.
const SHOWN_MAX: usize = 32 * 1024;

/// Shows a payload; `raw` is the address of the whole, shown where it is cut.
pub fn payload(json: &[u8], raw: &str) -> Markup {
    let cut = json.len() > SHOWN_MAX;
    let text = String::from_utf8_lossy(&json[..json.len().min(SHOWN_MAX)]);
    html! {
        pre.user-text data-scroll tabindex="0" { (indented(&text)) @if cut { "\n…" } }
        @if cut { p.faint { (json.len() / 1024) " KiB, cut. " a href=(raw) { "Whole as JSON" } } }
    }
}

/// Indents JSON. Strings, numbers and the order of fields stay as they are; text that is no JSON stays as it is, too.
pub fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut characters = json.chars().peekable();
    while let Some(character) = characters.next() {
        if in_string {
            out.push(character);
            in_string = escaped || character != '"';
            escaped = character == '\\' && !escaped;
            continue;
        }
        match character {
            '"' => {
                in_string = true;
                out.push('"');
            }
            '{' | '[' => {
                out.push(character);
                while characters.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                match characters.next_if(|next| matches!(next, '}' | ']')) {
                    Some(end) => out.push(end),
                    None => {
                        depth += 1;
                        new_line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            space if space.is_ascii_whitespace() => {}
            other => out.push(other),
        }
    }
    out
}

/// Begins a line. Beyond 40 levels lines are indented no further, so that deep JSON stays small.
fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth.min(40)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indentation_changes_no_token() {
        let json = r#"{"a":[1.50,{"b":"x, {\"y\"}: z\\"}],"c":{},"d":[ ],"a":1e400}"#;
        let expected = "{\n  \"a\": [\n    1.50,\n    {\n      \"b\": \"x, {\\\"y\\\"}: z\\\\\"\n    }\n  ],\n  \"c\": {},\n  \"d\": [],\n  \"a\": 1e400\n}";
        assert_eq!(indented(json), expected);
        assert_eq!(indented("null"), "null");
    }
}
