//! Signing in with an API key, and out. See `auth::session` for the cookie.

use super::frame::layout::{self, mark, redirect};
use crate::AppState;
use crate::auth::Connection;
use crate::auth::session::{self, BrowserSession, check_same_origin};
use crate::routes::HandlerResult;
use crate::wire::body::RequestBody;
use crate::wire::problem::Problem;
use crate::wire::query::Query;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use maud::html;
use selvedge_core::Name;
use selvedge_core::name::NAME_LIMIT;
use std::sync::Arc;

/// `GET /login`
pub async fn page(State(state): State<AppState>, mut query: Query) -> HandlerResult {
    let next = query.text("next")?;
    query.finish()?;
    match state.auth.is_on() {
        true => Ok(form(StatusCode::OK, &local(next.as_deref()), None)),
        false => Ok(redirect("/")),
    }
}

/// `POST /login`: a form with `key`, or with `namespace` alone to change the namespace of the session.
pub async fn sign_in(
    State(state): State<AppState>,
    connection: Option<Extension<Arc<Connection>>>,
    headers: HeaderMap,
    uri: Uri,
    body: RequestBody,
) -> HandlerResult {
    check_same_origin(&headers, &uri)?;
    let mut fields = body.form();
    let (key, namespace) = (fields.text("key")?, fields.text("namespace")?);
    let next = local(fields.text("next")?.as_deref());
    let namespace = namespace.map(|name| Name::parse("/namespace", &name, NAME_LIMIT)).transpose()?;
    if !state.auth.is_on() {
        return Ok(redirect("/"));
    }
    let session = match (key, BrowserSession::read(&headers, &state)) {
        (None, Some(session)) => session.in_namespace(namespace),
        (None, None) => return Ok(form(StatusCode::UNPROCESSABLE_ENTITY, &next, Some("Enter a key."))),
        (Some(key), _) => {
            let request = (&headers, connection.as_deref());
            match session::sign_in(key.trim(), namespace, request, &state).await {
                Ok(session) => session,
                Err(problem) => return Ok(refused(&next, problem)),
            }
        }
    };
    let cookie = session.cookie(&state, &headers)?;
    Ok(([(header::SET_COOKIE, cookie)], redirect(&next)).into_response())
}

/// `POST /logout`
pub async fn sign_out(State(state): State<AppState>, headers: HeaderMap, uri: Uri) -> HandlerResult {
    check_same_origin(&headers, &uri)?;
    let cookie = session::end(&state, &headers);
    Ok(([(header::SET_COOKIE, cookie)], redirect("/login")).into_response())
}

/// Returns the address to go to, which must be a path of this server with a query. Browsers remove tabs and line breaks from an
/// address and read a backslash as a slash, so only the characters that an address may have are let through.
fn local(next: Option<&str>) -> String {
    let is_local = |next: &&str| {
        next.starts_with('/')
            && !next.starts_with("//")
            && next.bytes().all(is_address)
            && next.parse::<Uri>().is_ok()
    };
    next.filter(is_local).unwrap_or("/").to_owned()
}

/// Reports whether an address may have this character unescaped, by RFC 3986. The characters of a fragment are left out.
fn is_address(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?@!$&'()*+,;=%[]".contains(&byte)
}

/// Shows the form again. The status is not 401, which would ask the browser for credentials of its own.
fn refused(next: &str, problem: Problem) -> Response {
    let status = match problem.status() {
        StatusCode::UNAUTHORIZED => StatusCode::FORBIDDEN,
        // The namespace is missing, not the page.
        StatusCode::NOT_FOUND => StatusCode::UNPROCESSABLE_ENTITY,
        other => other,
    };
    form(status, next, Some(problem.detail()))
}

fn form(status: StatusCode, next: &str, wrong: Option<&str>) -> Response {
    let content = html! {
        div.sign-in {
            span.brand { (mark()) "Selvedge" }
            section.card.stack {
                h1 { "Sign in" }
                @if let Some(wrong) = wrong { p.message role="alert" { (wrong) } }
                form method="post" action="/login" {
                    label { "API key" input type="password" name="key" autocomplete="current-password" required autofocus; }
                    label { "Namespace, if the key is of several" input type="text" name="namespace" autocomplete="off"; }
                    input type="hidden" name="next" value=(next);
                    button.primary type="submit" { "Sign in" }
                }
                p.faint { "A session lasts 12 hours and ends earlier if its key is revoked or expires." }
            }
            p.faint { a href="/docs" { "API reference" } }
        }
    };
    layout::bare(status, "Sign in", content)
}

#[cfg(test)]
mod tests {
    use super::local;

    #[test]
    fn nobody_is_sent_to_another_site() {
        for own in [
            "/",
            "/executions?state=failed",
            "/executions?tag=a%26b:c%20d&kind=%C3%A9",
            "/flows/x?view=gantt&at=1",
        ] {
            assert_eq!(local(Some(own)), own);
        }
        for other in [
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "",
            "evil.example",
        ] {
            assert_eq!(local(Some(other)), "/", "{other:?}");
        }
        assert_eq!(local(None), "/");
        // A browser removes some of these characters wherever they stand, others at the ends.
        for character in
            (0..=0x20_u8).chain(0x7f..=0xff).map(char::from).chain(['\\', '\u{2028}', '\u{ff0f}', '\u{3000}'])
        {
            for address in [
                format!("/{character}/evil.example"),
                format!("{character}//evil.example"),
                format!("/a{character}"),
            ] {
                assert_eq!(local(Some(&address)), "/", "{address:?}");
            }
        }
    }
}
