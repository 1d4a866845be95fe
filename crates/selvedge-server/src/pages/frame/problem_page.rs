//! Problems as pages: a person whose page cannot be shown reads why, and an error never looks like an empty list.

use super::layout::{self, mark, redirect};
use crate::pages::parts::address;
use crate::wire::problem::{Code, ProblemSummary, status_of};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use maud::html;

/// Middleware that answers a browser's request for a page with a page where the answer is a problem. A request without a key is
/// sent to the page for signing in.
pub async fn show_problems(request: Request, next: Next) -> Response {
    let is_page = wants_page(request.headers()) && !request.uri().path().starts_with("/v1/");
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let method = request.method().clone();
    let response = next.run(request).await;
    let Some(problem) = response.extensions().get::<ProblemSummary>().filter(|_| is_page).cloned() else {
        return response;
    };
    if problem.code == Code::Unauthorized && method == Method::GET {
        return redirect(&address("/login", &[("next", &target)]));
    }
    let mut page = page(&problem);
    if let Some(close) = response.headers().get(header::CONNECTION) {
        page.headers_mut().insert(header::CONNECTION, close.clone());
    }
    if let Some(after) = response.headers().get(header::RETRY_AFTER) {
        page.headers_mut().insert(header::RETRY_AFTER, after.clone());
    }
    page
}

/// Reports whether a browser asks for a page.
fn wants_page(headers: &HeaderMap) -> bool {
    headers.get(header::ACCEPT).map(HeaderValue::as_bytes).is_some_and(|accept| {
        let accept = String::from_utf8_lossy(accept);
        accept.contains("text/html")
    })
}

fn page(problem: &ProblemSummary) -> Response {
    let info = problem.code.info();
    let content = html! {
        div.sign-in {
            a.brand href="/" { (mark()) "Selvedge" }
            section.card.stack role="alert" {
                h1 { (info.title) }
                p.user-text { (problem.detail) }
                p.faint { (info.advice) }
                p { a href=(format!("/docs/problems#{}", info.code)) { "About " code { (info.code) } } }
            }
            p {
                a.button href="/" { "Overview" }
                " "
                @if matches!(problem.code, Code::Forbidden | Code::NamespaceRequired) {
                    a.button href="/login" { "Sign in with another key" }
                }
            }
        }
    };
    layout::bare(status_of(problem.code), info.title, content)
}
