//! The page `/docs/problems`: every problem code, its meaning and its advice.

use super::frame::layout::{FixedPage, Page, heading};
use crate::wire::problem::Code;
use axum::response::Response;
use maud::html;
use std::sync::LazyLock;

/// The page, rendered once.
static PAGE: LazyLock<FixedPage> = LazyLock::new(|| {
    let about = html! {
        p.faint { a href="/docs" { "Reference" } }
    };
    let content = html! {
        (heading(html! { "Problems" }, about))
        div.prose {
            p {
                "A request that fails is answered with " code { "application/problem+json" } " (RFC 9457). Its "
                code { "code" } " is stable; " code { "detail" } " is for people and may change."
            }
            @for code in Code::ALL {
                @let info = code.info();
                h2 id=(info.code) { code { (info.code) } " " span.faint { (info.status) } }
                p { (info.title) ". " (info.advice) }
            }
        }
    };
    Page::new("Problems", "/docs").fixed(content)
});

/// `GET /docs/problems`
pub async fn problems() -> Response {
    PAGE.response()
}
