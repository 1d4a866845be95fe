//! Signing in with an API key, and out. See `auth::session` for the cookie.

use super::layout::{self, mark, redirect};
use crate::AppState;
use crate::auth::Connection;
use crate::auth::session::{self, Session, check_same_origin};
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
    let session = match (key, Session::read(&headers, &state)) {
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
    let cookie = session.cookie(&state, &headers);
    Ok(([(header::SET_COOKIE, cookie)], redirect(&next)).into_response())
}

/// `POST /logout`
pub async fn sign_out(State(state): State<AppState>, headers: HeaderMap, uri: Uri) -> HandlerResult {
    check_same_origin(&headers, &uri)?;
    let cookie = session::end(&state, &headers);
    Ok(([(header::SET_COOKIE, cookie)], redirect("/login")).into_response())
}

/// Returns the path to go to, which must be one of this server.
fn local(next: Option<&str>) -> String {
    let is_local = |next: &&str| next.starts_with('/') && !next.starts_with("//") && !next.contains('\\');
    next.filter(is_local).unwrap_or("/").to_owned()
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
        assert_eq!(local(Some("/executions?state=failed")), "/executions?state=failed");
        for other in
            [None, Some("//evil.example"), Some("https://evil.example"), Some("/\\evil.example"), Some("")]
        {
            assert_eq!(local(other), "/", "{other:?}");
        }
    }
}
