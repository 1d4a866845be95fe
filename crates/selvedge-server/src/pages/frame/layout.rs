//! The frame of every page: head, navigation, the person who is signed in, and the headers of the response.

use super::assets::{Asset, ICON, SCRIPT, STYLE};
use crate::VERSION;
use crate::auth::Caller;
use crate::compression::FixedContent;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use selvedge_core::Role;

/// The policy of every page: no inline script or style, and nothing from other sites.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The pages of the navigation: path, label, and the key that leads there after `g`.
const PLACES: [(&str, &str, char); 12] = [
    ("/", "Overview", 'o'),
    ("/executions", "Executions", 'e'),
    ("/flows", "Flows", 'f'),
    ("/approvals", "Approvals", 'a'),
    ("/workers", "Workers", 'w'),
    ("/lanes", "Lanes and quotas", 'l'),
    ("/budgets", "Budgets", 'b'),
    ("/schedules", "Schedules", 's'),
    ("/events", "Events", 'v'),
    ("/webhooks", "Webhooks", 'h'),
    ("/settings", "Settings", 'c'),
    ("/docs", "API reference", 'd'),
];

/// The person who looks at a page, and where.
pub struct Viewer {
    namespace: String,
    actor: String,
    role: Role,
    /// True if the person can sign out: the server has keys.
    has_key: bool,
}

impl Viewer {
    /// Returns the viewer of a caller.
    pub fn of(caller: &Caller) -> Viewer {
        Viewer {
            namespace: caller.namespace.name().to_string(),
            actor: caller.actor.to_string(),
            role: caller.role(),
            has_key: caller.has_key(),
        }
    }
}

pub struct Page<'a> {
    pub title: &'a str,
    /// The path in the navigation that the page belongs to.
    pub place: &'a str,
    /// The address of the stream that tells of changes; none for a page without live regions.
    pub live: Option<String>,
    /// The script of this page alone, if it has one.
    pub script: Option<&'static Asset>,
}

impl<'a> Page<'a> {
    /// Returns a page without live regions.
    pub fn new(title: &'a str, place: &'a str) -> Page<'a> {
        Page { title, place, live: None, script: None }
    }

    /// Keeps the live regions of the page current with the stream at this address.
    pub fn live(self, address: impl Into<String>) -> Page<'a> {
        Page { live: Some(address.into()), ..self }
    }

    /// Loads a script after that of all pages.
    pub fn script(self, script: &'static Asset) -> Page<'a> {
        Page { script: Some(script), ..self }
    }

    /// Returns the response with this content; `viewer` is none on pages that need no key.
    pub fn response(self, viewer: Option<&Viewer>, content: Markup) -> Response {
        document(StatusCode::OK, &self, self.body(viewer, content))
    }

    /// Returns the page for everybody, rendered once.
    pub fn fixed(self, content: Markup) -> FixedPage {
        let text = markup(&self, self.body(None, content)).into_string();
        FixedPage(FixedContent::new(text))
    }

    fn body(&self, viewer: Option<&Viewer>, content: Markup) -> Markup {
        html! {
            a.skip href="#content" { "Skip to the content" }
            div.frame {
                header.side {
                    a.brand href="/" { (mark()) "Selvedge" }
                    nav aria-label="Pages" { (navigation(self.place)) }
                    div.foot { (signature(viewer)) }
                }
                main #content tabindex="-1" { (content) }
            }
            (keys())
        }
    }
}

/// A page that is the same for everybody.
pub struct FixedPage(FixedContent);

impl FixedPage {
    /// Returns the response with the page.
    pub fn response(&'static self) -> Response {
        self.0.response(HEADERS)
    }
}

/// Returns a page with nothing but its content: for people who are not signed in.
pub fn bare(status: StatusCode, title: &str, content: Markup) -> Response {
    document(status, &Page::new(title, ""), html! { main #content { (content) } })
}

/// Sends the browser to another page of this server.
pub fn redirect(path: &str) -> Response {
    let body = html! { (DOCTYPE) title { "Selvedge" } p { a href=(path) { "Continue" } } };
    let location = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    let mut response = (StatusCode::SEE_OTHER, body.into_string()).into_response();
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, location);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::CACHE_CONTROL, "no-store"),
    // With no-referrer, browsers would hide the origin of forms.
    (header::REFERRER_POLICY, "same-origin"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

fn document(status: StatusCode, page: &Page, body: Markup) -> Response {
    (status, HEADERS, markup(page, body).into_string()).into_response()
}

fn markup(page: &Page, body: Markup) -> Markup {
    let Page { title, live, script, .. } = page;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Selvedge" }
                link rel="stylesheet" href=(STYLE.path());
                link rel="icon" href=(ICON.path()) type="image/svg+xml";
                script src=(SCRIPT.path()) defer {}
                @if let Some(script) = script { script src=(script.path()) defer {} }
            }
            body data-live-events=[live.as_deref()] { (body) }
        }
    }
}

/// Returns the mark of the project: warp and weft.
pub fn mark() -> Markup {
    html! {
        svg viewBox="0 0 24 24" fill="none" stroke-width="2.6" stroke-linecap="round" aria-hidden="true" {
            path.warp d="M6 3v18M12 3v18M18 3v18" {}
            path.weft d="M3 7h6M15 7h6M9 12h6M3 17h6M15 17h6" {}
        }
    }
}

fn navigation(current: &str) -> Markup {
    html! {
        ul {
            @for (path, label, _) in PLACES {
                @if path == "/docs" { li.group aria-hidden="true" { "Documentation" } }
                li { a href=(path) aria-current=[(path == current).then_some("page")] { (label) } }
            }
        }
    }
}

fn signature(viewer: Option<&Viewer>) -> Markup {
    let Some(viewer) = viewer else {
        return html! { span.about { "Version " (VERSION) } };
    };
    html! {
        span.about {
            a href="/settings" { "Version " (VERSION) }
            br;
            "Namespace " span.user-text { (viewer.namespace) }
            @if viewer.has_key { br; span.user-text { (viewer.actor) } " · " (viewer.role.as_str()) }
        }
        @if viewer.has_key {
            form method="post" action="/logout" { button.plain type="submit" { "Sign out" } }
        }
        button.plain.needs-script.about type="button" data-opens="keys" { "Keyboard shortcuts" }
    }
}

fn keys() -> Markup {
    html! {
        dialog #keys aria-label="Keyboard shortcuts" {
            div.stack {
                h2 { "Keyboard shortcuts" }
                dl.keys {
                    dt { kbd { "/" } } dd { "Go to the filter of the page" }
                    @for (_, label, key) in PLACES {
                        dt { kbd { "g" } " " kbd { (key) } } dd { (label) }
                    }
                    dt { kbd { "?" } } dd { "Show this list" }
                }
                div { button type="button" data-closes { "Close" } }
            }
        }
    }
}

/// Returns the heading of a page, with the sign of its live regions.
pub fn heading(title: Markup, below: Markup) -> Markup {
    heading_with(title, below, html! {})
}

/// Returns the heading of a page, with the sign of its live regions and a button.
pub fn heading_with(title: Markup, below: Markup, button: Markup) -> Markup {
    html! {
        div.heading {
            div.title { h1 { (title) } (below) }
            div.aside { span.live role="status" { "Connecting" } (button) }
        }
    }
}

/// Returns markup that was rendered by a library that escapes, such as a picture.
pub fn rendered(markup: String) -> Markup {
    PreEscaped(markup)
}
