//! The web pages: `pages`.

use crate::wire::problem::Code;
use selvedge_api::description::{Description, operation};
use selvedge_api::schema::*;

#[rustfmt::skip]
pub fn operations() -> Vec<Description> {
    let html = || vec![("text/html; charset=utf-8", text())];
    let page = |path, id, summary| operation("get", path, id, summary).tag("Pages").answers_as(200, "A page.", html());
    let list = |path, id, summary| page(path, id, summary).query("cursor", text(), "The place of the page in the list.").also([Code::InvalidCursor]);
    let form = |path, id, summary| operation("post", path, id, summary).tag("Pages").answers_as(303, "A redirect.", html());
    let filters = [("state", "The states, with commas."), ("lane", "The lane."), ("kind", "The kind."), ("outcome", "The outcome."), ("flow", "The flow."), ("worker", "The worker of the latest attempt."), ("error", "Text of the latest error."), ("since", "The time of submission: 15m, 1h, 24h or 7d."), ("submitted_after", "The earliest submission."), ("submitted_before", "The latest submission."), ("ended_after", "The earliest end."), ("ended_before", "The latest end."), ("tag", "A tag, name:value."), ("trail", "The cursors of the pages before, for the link back.")];
    let executions = filters.into_iter().fold(list("/executions", "get_executions_page", "Executions, with filters"), |page, (name, about)| page.query(name, text(), about));
    let flows = [("state", "The states, with commas."), ("name", "The name."), ("tag", "A tag, name:value."), ("submitted_after", "The earliest submission."), ("submitted_before", "The latest submission.")];
    let flows = flows.into_iter().fold(list("/flows", "get_flows_page", "Flows, with filters"), |page, (name, about)| page.query(name, text(), about));
    let events = [("types", "The types, with commas."), ("execution", "The execution."), ("flow", "The flow."), ("tag", "A tag, name:value.")];
    let events = events.into_iter().fold(page("/events", "get_events_page", "The live tail of the event log"), |page, (name, about)| page.query(name, text(), about));
    let settings = |path, id, summary| page(path, id, summary).query("show", word(["about", "keys", "waitpoint-keys", "namespaces", "configuration"]), "The part of the page. Default: about.");
    vec![
        page("/", "get_overview", "Overview: what runs and what needs attention"),
        executions,
        page("/executions/{id}", "get_execution_page", "An execution: explanation, timeline, payloads and events"),
        flows,
        page("/flows/{id}", "get_flow_page", "A flow: graph, Gantt view and joins").query("view", word(["graph", "gantt", "table"]), "The view. Default: graph.")
            .query("at", text(), "The moment to show: a time, or the cursor of an event. Default: now.").query("step", count(), "The number of the change to show, from 0; redirects to its moment.")
            .query("expand", text(), "The first node of a box of alike nodes to draw one by one; may be repeated.")
            .answers_as(303, "A redirect to the moment of a step.", html()).also([Code::InvalidCursor, Code::CursorExpired, Code::CursorUnknown]),
        list("/approvals", "get_approvals_page", "Waitpoints that wait for an answer").query("state", word(["open", "delivered", "expired", "revoked"]), "The state. Default: open.").query("source", text(), "Who is asked."),
        page("/workers", "get_workers_page", "Workers"),
        list("/lanes", "get_lanes_page", "Lanes and quotas").query("quota_cursor", text(), "The place of the page in the list of quotas."),
        list("/budgets", "get_budgets_page", "Budgets"),
        list("/schedules", "get_schedules_page", "Schedules"),
        page("/schedules/{name}", "get_schedule_page", "A schedule: its next times and its last runs").also([Code::NotFound]),
        events,
        list("/webhooks", "get_webhooks_page", "Webhooks"),
        list("/webhooks/{name}", "get_webhook_page", "A webhook and its deliveries").query("state", text(), "The state of deliveries.").also([Code::NotFound]),
        settings("/settings", "get_settings_page", "This server; for administrators its keys, namespaces and configuration"),
        settings("/about", "get_about_page", "The same as /settings"),
        operation("get", "/live", "follow_page", "Tells a page that something changed").about("The event `changed`, at most once a second.").tag("Pages")
            .query("execution", id(), "Only changes of this execution.").query("flow", id(), "Only changes of this flow.")
            .answers_as(200, "A stream of server-sent events.", vec![("text/event-stream", text())]),
        page("/approve/{id}", "get_approve_page", "The page of an outside approver"),
        operation("post", "/approve/{id}", "answer_approve_page", "Show or answer the question of a waitpoint").about("A form with `token` shows the question; one with `signal` as well, and perhaps a `comment`, answers it.").tag("Pages")
            .answers_as(200, "A page.", html()).also([Code::InvalidToken, Code::TokenExpired, Code::TokenRevoked, Code::AlreadyTerminal, Code::WrongState, Code::InvalidField]),
        page("/login", "get_login_page", "Sign in with an API key").query("next", text(), "The page to go to.").answers_as(303, "The server has no keys.", html()),
        form("/login", "sign_in", "Begin a session").about("A form with `key`, and perhaps `namespace` and `next`. With a session, `namespace` alone changes its namespace. Sets the cookie of the session. The request must come from a page of this server.").also([Code::Forbidden, Code::InvalidField]),
        form("/logout", "sign_out", "End a session"),
        operation("get", "/assets/{name}", "get_asset", "The style sheet, the script and the icon of the pages").tag("Pages")
            .answers_as(200, "The file.", vec![("text/css; charset=utf-8", text()), ("text/javascript; charset=utf-8", text()), ("image/svg+xml", text())]).also([Code::NotFound]),
        page("/docs", "get_docs", "The reference for people"),
        page("/docs/problems", "get_problem_docs", "The explanation of every problem"),
    ]
}
