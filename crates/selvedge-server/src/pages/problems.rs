//! The page `/docs/problems`: every problem code, its meaning and its advice.

use crate::pages::{Escaped, html};
use crate::wire::problem::Code;
use axum::response::Response;
use std::fmt::{self, Display};

/// `GET /docs/problems`
pub async fn problems() -> Response {
    html("Problems · Selvedge", "", &Problems)
}

/// The list of all codes.
struct Problems;

impl Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "<h1>Problems</h1>\n<p>A request that fails is answered with <code>application/problem+json</code> (RFC \
             9457). Its <code>code</code> is stable; <code>detail</code> is for people and may change.</p>\n",
        )?;
        for code in Code::ALL {
            let info = code.info();
            write!(
                f,
                "<h2 id=\"{0}\"><code>{0}</code> <span class=\"faint\">{1}</span></h2>\n<p>{2}. {3}</p>\n",
                info.code,
                info.status.as_u16(),
                Escaped(info.title),
                Escaped(info.advice)
            )?;
        }
        f.write_str("<p class=\"faint\"><a href=\"/\">Back to the overview</a> · <a href=\"/docs\">reference</a></p>\n")
    }
}
