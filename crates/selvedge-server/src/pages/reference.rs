//! The page `/docs`: the reference of the API, rendered from the document that `/openapi.json` serves.

use super::frame::layout::{FixedPage, Page, heading, rendered};
use crate::openapi::document;
use axum::response::Response;
use maud::html;
use selvedge_api::node::Node;
use selvedge_api::tags;
use serde_json::Value;
use std::fmt::{self, Display, Write};
use std::sync::LazyLock;

/// The page, rendered once.
static PAGE: LazyLock<FixedPage> = LazyLock::new(|| {
    let about = html! { p.faint { "Rendered from the OpenAPI document of this server." } };
    let content = html! {
        (heading(html! { "Reference" }, about))
        (rendered(Reference(document()).to_string()))
    };
    Page::new("Reference", "/docs").fixed(content)
});

/// `GET /docs`
pub async fn reference() -> Response {
    PAGE.response()
}

/// Text, escaped for HTML.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&html! { (self.0) }.into_string())
    }
}

/// The page of a document.
struct Reference(Node);

impl Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let info = self.0.get("info");
        f.write_str("<div class=\"reference prose\">\n")?;
        paragraphs(f, info.map_or("", |info| info.text_of("description")))?;
        f.write_str(
            "<p class=\"faint\"><a href=\"/openapi.json\">This document as OpenAPI 3.1</a> · \
             <a href=\"/docs/problems\">problems</a> · <a href=\"/\">overview</a></p>\n<p>",
        )?;
        for (tag, _) in tags::ALL {
            write!(f, "<a href=\"#{}\">{tag}</a> · ", anchor(tag))?;
        }
        f.write_str("<a href=\"#shapes\">Shapes</a></p>\n")?;
        for (tag, about) in tags::ALL {
            writeln!(f, "<h2 id=\"{}\">{tag}</h2>\n<p class=\"faint\">{}</p>", anchor(tag), Escaped(about))?;
            for (path, methods) in self.0.get("paths").map_or(&[][..], Node::fields) {
                for (method, operation) in methods.fields() {
                    let tags = operation.get("tags").map_or(&[][..], Node::items);
                    if tags.iter().any(|other| other.text() == tag) {
                        write_operation(f, method, path, operation)?;
                    }
                }
            }
        }
        f.write_str("<h2 id=\"shapes\">Shapes</h2>\n")?;
        let components = self.0.get("components").and_then(|components| components.get("schemas"));
        for (name, schema) in components.map_or(&[][..], Node::fields) {
            writeln!(f, "<details id=\"{name}\"><summary><code>{name}</code></summary>")?;
            write_schema(f, schema)?;
            f.write_str("</details>\n")?;
        }
        f.write_str("</div>\n")
    }
}

/// Returns the anchor of a group.
fn anchor(tag: &str) -> String {
    tag.to_lowercase().replace(' ', "-")
}

/// Writes text whose paragraphs are separated by empty lines, with code between backticks.
fn paragraphs(f: &mut impl Write, text: &str) -> fmt::Result {
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        f.write_str("<p>")?;
        for (index, part) in paragraph.split('`').enumerate() {
            match index % 2 {
                0 => write!(f, "{}", Escaped(part))?,
                _ => write!(f, "<code>{}</code>", Escaped(part))?,
            }
        }
        f.write_str("</p>\n")?;
    }
    Ok(())
}

fn write_operation(f: &mut fmt::Formatter<'_>, method: &str, path: &str, operation: &Node) -> fmt::Result {
    writeln!(
        f,
        "<details id=\"{}\"><summary><b class=\"method\">{}</b> <code>{path}</code> <span class=\"faint\">{}</span></summary>",
        operation.text_of("operationId"),
        method.to_uppercase(),
        Escaped(operation.text_of("summary"))
    )?;
    paragraphs(f, operation.text_of("description"))?;
    let parameters = operation.get("parameters").map_or(&[][..], Node::items);
    if !parameters.is_empty() {
        f.write_str("<h3>Parameters</h3>\n<div class=\"table\"><table>\n")?;
        for parameter in parameters {
            let schema = parameter.get("schema").cloned().unwrap_or_else(Node::object);
            let about = format!("{} {}", parameter.text_of("description"), limits(&schema));
            row(f, parameter.text_of("name"), parameter.text_of("in"), &type_of(&schema), about.trim())?;
        }
        f.write_str("</table></div>\n")?;
    }
    if let Some(body) = operation.get("requestBody") {
        for (content_type, content) in body.get("content").map_or(&[][..], Node::fields) {
            writeln!(f, "<h3>Request <span class=\"faint\">{content_type}</span></h3>")?;
            content.get("schema").map_or(Ok(()), |schema| write_schema(f, schema))?;
            if let Some(Node::Value(example)) = content.get("example") {
                let example = serde_json::to_string_pretty(example).unwrap_or_default();
                writeln!(f, "<pre>{}</pre>", Escaped(&example))?;
            }
        }
    }
    f.write_str("<h3>Answers</h3>\n")?;
    for (status, response) in operation.get("responses").map_or(&[][..], Node::fields) {
        match response.get("x-problem-codes") {
            Some(codes) => write_problems(f, status, codes.items())?,
            None => {
                writeln!(f, "<p><b>{status}</b> {}</p>", Escaped(response.text_of("description")))?;
                for (content_type, content) in response.get("content").map_or(&[][..], Node::fields) {
                    match (content_type.as_str(), content.get("schema")) {
                        ("application/json", Some(schema)) => write_schema(f, schema)?,
                        _ => writeln!(f, "<p class=\"faint\">{content_type}</p>")?,
                    }
                }
            }
        }
    }
    f.write_str("</details>\n")
}

fn write_problems(f: &mut fmt::Formatter<'_>, status: &str, codes: &[Node]) -> fmt::Result {
    write!(f, "<p><b>{status}</b> ")?;
    for (index, code) in codes.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        write!(f, "{separator}<a href=\"/docs/problems#{0}\"><code>{0}</code></a>", code.text())?;
    }
    f.write_str("</p>\n")
}

/// Writes the fields of a schema as a table, or its type in a line if it has none.
fn write_schema(f: &mut fmt::Formatter<'_>, schema: &Node) -> fmt::Result {
    if let Some(Node::List(alternatives)) = schema.get("oneOf") {
        paragraphs(f, schema.text_of("description"))?;
        for (index, alternative) in alternatives.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { "<p class=\"faint\">or</p>\n" })?;
            write_schema(f, alternative)?;
        }
        return Ok(());
    }
    let mut rows = Vec::new();
    collect_rows("", schema, &mut rows);
    if rows.is_empty() {
        let type_name = match schema.get("properties") {
            Some(_) => "An object without fields.".to_owned(),
            None => type_of(schema),
        };
        return writeln!(f, "<p>{type_name}</p>");
    }
    f.write_str("<div class=\"table\"><table>\n")?;
    for (name, presence, type_name, about) in rows {
        row(f, &name, presence, &type_name, &about)?;
    }
    f.write_str("</table></div>\n")
}

/// Writes a row; `type_name` is HTML, the others are text.
fn row(f: &mut fmt::Formatter<'_>, name: &str, presence: &str, type_name: &str, about: &str) -> fmt::Result {
    let (name, presence, about) = (Escaped(name), Escaped(presence), Escaped(about));
    writeln!(
        f,
        "<tr><td><code>{name}</code></td><td class=\"faint\">{presence}</td><td>{type_name}</td><td>{about}</td></tr>"
    )
}

/// Adds the fields of an object, and of the objects in it under dotted names.
fn collect_rows(prefix: &str, schema: &Node, rows: &mut Vec<(String, &'static str, String, String)>) {
    let required = schema.get("required").map_or(&[][..], Node::items);
    for (name, field) in schema.get("properties").map_or(&[][..], Node::fields) {
        let presence = match required.iter().any(|other| other.text() == name) {
            true => "",
            false => "optional",
        };
        let full_name = format!("{prefix}{name}");
        let about = format!("{} {}", field.text_of("description"), limits(field));
        rows.push((full_name.clone(), presence, type_of(field), about.trim().to_owned()));
        collect_rows(&format!("{full_name}."), field, rows);
        if let Some(items) = field.get("items") {
            collect_rows(&format!("{full_name}[]."), items, rows);
        }
        if let Some(values) = field.get("additionalProperties") {
            collect_rows(&format!("{full_name}.*."), values, rows);
        }
    }
}

/// Returns the type of a value in words, as HTML.
fn type_of(schema: &Node) -> String {
    if let Some((_, name)) = schema.text_of("$ref").rsplit_once('/') {
        return format!("<a href=\"#{name}\">{name}</a>");
    }
    if let Some(words) = schema.get("enum") {
        let word = |word: &Node| match word {
            Node::Value(Value::String(word)) => format!("<code>{}</code>", Escaped(word)),
            _ => "null".to_owned(),
        };
        // A long list belongs to another page.
        return match words.items().len() {
            0..=24 => words.items().iter().map(word).collect::<Vec<_>>().join(" "),
            _ => "string".to_owned(),
        };
    }
    if let Some(Node::Value(only)) = schema.get("const") {
        return format!("<code>{}</code>", Escaped(only.as_str().unwrap_or("true")));
    }
    if let Some(alternatives) = schema.get("oneOf").or_else(|| schema.get("anyOf")) {
        return alternatives.items().iter().map(type_of).collect::<Vec<_>>().join(" or ");
    }
    let words: Vec<&str> = match schema.get("type") {
        None => return "any value".to_owned(),
        Some(Node::List(words)) => words.iter().map(Node::text).collect(),
        Some(word) => vec![word.text()],
    };
    let word = |word: &str| match word {
        "array" => format!("list of {}", schema.get("items").map_or_else(String::new, type_of)),
        "object" => match schema.get("additionalProperties") {
            Some(values @ Node::Object(_)) => format!("map of {}", type_of(values)),
            _ => "object".to_owned(),
        },
        "string" if !schema.text_of("format").is_empty() => Escaped(schema.text_of("format")).to_string(),
        other => other.to_owned(),
    };
    words.into_iter().map(word).collect::<Vec<_>>().join(" or ")
}

/// Returns the limits and the default of a value in words.
fn limits(schema: &Node) -> String {
    let number = |name: &str| match schema.get(name) {
        Some(Node::Value(value)) => Some(value.to_string()),
        _ => None,
    };
    let mut parts = Vec::new();
    match (number("minimum"), number("maximum")) {
        (Some(least), Some(most)) => parts.push(format!("{least} to {most}.")),
        (Some(least), None) => parts.push(format!("At least {least}.")),
        (None, _) => {}
    }
    if let Some(most) = number("maxLength") {
        parts.push(format!("At most {most} bytes."));
    }
    if let Some(most) = number("maxItems").or_else(|| number("maxProperties")) {
        parts.push(format!("At most {most}."));
    }
    if let Some(default) = number("default") {
        parts.push(format!("Default: {}.", default.trim_matches('"')));
    }
    parts.join(" ")
}
