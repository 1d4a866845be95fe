//! The HTML pages: an overview of the server, the reference of the API, and the meaning of every problem. They load nothing
//! from other sites.

mod overview;
mod problems;
mod reference;

pub use overview::overview;
pub use problems::problems;
pub use reference::reference;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::fmt::{self, Display, Write};

/// Returns a page; `head` is added to its head, `content` to its body.
fn html(title: &str, head: &str, content: &dyn Display) -> Response {
    let style = include_str!("page.css");
    let mut text = String::with_capacity(16 * 1024);
    let _ = write!(
        text,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n{head}\n<title>{}</title>\n\
         <style>\n{style}</style>\n</head>\n<body>\n<main>\n{content}</main>\n</body>\n</html>\n",
        Escaped(title)
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
        ),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, text).into_response()
}

/// Writes a table; `write_row` writes the cells of a row.
fn write_table<T>(
    f: &mut fmt::Formatter<'_>,
    columns: &[&str],
    rows: &[T],
    mut write_row: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    f.write_str("<div class=\"table\"><table><tr>")?;
    for column in columns {
        write!(f, "<th>{column}</th>")?;
    }
    f.write_str("</tr>\n")?;
    for row in rows {
        f.write_str("<tr>")?;
        write_row(f, row)?;
        f.write_str("</tr>\n")?;
    }
    f.write_str("</table></div>\n")
}

/// Text, escaped for HTML.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '<' => f.write_str("&lt;"),
                '>' => f.write_str("&gt;"),
                '&' => f.write_str("&amp;"),
                '"' => f.write_str("&quot;"),
                '\'' => f.write_str("&#39;"),
                other => f.write_char(other),
            }?;
        }
        Ok(())
    }
}
