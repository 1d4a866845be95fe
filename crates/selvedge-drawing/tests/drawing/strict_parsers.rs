//! Small strict parsers of XML and DOT. They panic at malformed text.

/// An XML element.
#[derive(Debug, Default)]
pub struct Element {
    pub name: String,
    pub attributes: Vec<(String, String)>,
    pub children: Vec<Element>,
    /// The text directly inside the element.
    pub text: String,
}

impl Element {
    /// Returns the value of an attribute; empty if it is absent.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value)
    }

    /// Returns every descendant with this name.
    pub fn all(&self, name: &str) -> Vec<&Element> {
        let mut found = Vec::new();
        for child in &self.children {
            if child.name == name {
                found.push(child);
            }
            found.extend(child.all(name));
        }
        found
    }
}

/// Parses one element without comments, CDATA sections or declarations: a picture has none.
pub fn parse_xml(text: &str) -> Element {
    for character in text.chars() {
        let allowed = matches!(character, '\n' | ' '..='\u{fffd}' | '\u{10000}'..);
        assert!(allowed, "XML does not allow {character:?}");
    }
    let mut open: Vec<Element> = vec![Element::default()];
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let (before, tag) = rest.split_at(start);
        let inside = open.last_mut().expect("the document");
        inside.text.push_str(&unescape(before));
        let end = end_of_tag(tag);
        rest = &tag[end + 1..];
        let tag = &tag[1..end];
        if let Some(name) = tag.strip_prefix('/') {
            let closed = open.pop().expect("an open element");
            assert_eq!(closed.name, name, "the innermost open element is closed");
            open.last_mut().expect("every closed element was opened").children.push(closed);
        } else if let Some(tag) = tag.strip_suffix('/') {
            inside.children.push(parse_tag(tag));
        } else {
            open.push(parse_tag(tag));
        }
    }
    let [document] = &mut open[..] else { panic!("left open: {:?}", open.last().map(|one| &one.name)) };
    assert!(rest.trim().is_empty() && document.text.trim().is_empty(), "text outside of the element");
    assert_eq!(document.children.len(), 1, "one element");
    document.children.remove(0)
}

/// Returns the position of the `>` that ends the tag at the start of the text. A quoted `>` does not end it.
fn end_of_tag(text: &str) -> usize {
    let mut quoted = false;
    for (place, character) in text.char_indices() {
        match character {
            '"' => quoted = !quoted,
            '>' if !quoted => return place,
            '<' if place > 0 => panic!("a tag in a tag: {text:.60}"),
            _ => {}
        }
    }
    panic!("a tag that does not end: {text:.60}")
}

fn parse_tag(tag: &str) -> Element {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    assert!(name.chars().all(|character| character.is_ascii_alphanumeric()), "a name: {name:?}");
    let mut element = Element { name: name.to_owned(), ..Element::default() };
    while !rest.trim().is_empty() {
        let (name, after) = rest.trim_start().split_once("=\"").expect("an attribute");
        let (value, after) = after.split_once('"').expect("a value in quotes");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "a name: {name:?}");
        assert!(element.attributes.iter().all(|(other, _)| other != name), "{name} occurs twice");
        element.attributes.push((name.to_owned(), unescape(value)));
        rest = after;
    }
    element
}

fn unescape(text: &str) -> String {
    let mut plain = String::new();
    let mut parts = text.split('&');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (entity, after) = part.split_once(';').expect("an entity ends");
        plain.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            other => panic!("an unknown entity: {other:?}"),
        });
        plain.push_str(after);
    }
    plain
}

/// Returns the strings of a DOT file, decoded as Graphviz decodes labels. Panics unless the rest follows the grammar
/// `digraph ID { statements }`, where a statement is `ID [list];`, `ID -> ID [list];` or a default.
pub fn dot_strings(text: &str) -> Vec<String> {
    let mut strings = Vec::new();
    let mut shape = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '"' {
            shape.push(character);
            continue;
        }
        let mut string = String::new();
        loop {
            match characters.next().expect("a string ends") {
                '"' => break,
                '\\' => string.push(match characters.next().expect("a character follows the backslash") {
                    'n' => '\n',
                    escaped @ ('"' | '\\') => escaped,
                    other => panic!("Graphviz gives \\{other} another meaning"),
                }),
                other => {
                    assert!(!other.is_control(), "{other:?} in a string");
                    string.push(other);
                }
            }
        }
        strings.push(string);
        shape.push('$');
    }
    let body =
        shape.strip_prefix("digraph $ {\n").and_then(|rest| rest.strip_suffix("}\n")).expect("a digraph");
    for statement in body.lines() {
        let inner =
            statement.strip_prefix("  ").and_then(|rest| rest.strip_suffix("];")).expect("a statement");
        let (subject, list) = inner.split_once(" [").expect("a list of attributes");
        assert!(matches!(subject, "$" | "$ -> $" | "graph" | "node" | "edge"), "{statement}");
        for attribute in list.split(", ") {
            let (name, value) = attribute.split_once('=').expect("an attribute");
            assert!(name.chars().all(|c| c.is_ascii_lowercase()), "{statement}");
            assert!(value == "$" || value.chars().all(|c| c.is_ascii_alphanumeric()), "{statement}");
        }
    }
    strings
}
