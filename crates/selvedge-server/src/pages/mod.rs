//! The web pages: what runs, why something does not, and the reference of the API. The server renders them; they load nothing from
//! other sites, and every page can be read without its script.
//!
//! A page reads through the same calls of the engine as the routes of the API, and its buttons call that API. `layout` has the
//! frame of every page and its headers, `parts` and `chart` the elements that pages share, `live` the stream that tells a page to
//! load its live regions again.

mod actions;
mod again;
mod answer;
mod approvals;
mod approve;
mod assets;
mod attention;
mod budgets;
mod chart;
mod events;
mod execution;
mod executions;
mod flow;
mod flows;
mod forms;
mod gantt;
mod lanes;
mod layout;
mod live;
mod login;
mod matches;
mod minutes;
mod overview;
mod overview_data;
mod parts;
mod payload;
mod problem_page;
mod problems;
mod reference;
mod schedule;
mod schedules;
mod scrubber;
mod selection;
mod settings;
mod terminal;
mod timeline;
mod webhook;
mod webhooks;
mod workers;

pub use overview_data::SharedOverviews;
pub use problem_page::show_problems;

use crate::routes::Routes;
use selvedge_core::Permission::{Open, Read};

/// Returns the routes of the pages.
pub fn routes() -> Routes {
    Routes::new()
        .get("/", Read, overview::page)
        .get("/executions", Read, executions::page)
        .get("/executions/{id}", Read, execution::page)
        .get("/flows", Read, flows::page)
        .get("/flows/{id}", Read, flow::page)
        .get("/approvals", Read, approvals::page)
        .get("/workers", Read, workers::page)
        .get("/lanes", Read, lanes::page)
        .get("/budgets", Read, budgets::page)
        .get("/schedules", Read, schedules::page)
        .get("/schedules/{name}", Read, schedule::page)
        .get("/events", Read, events::page)
        .get("/webhooks", Read, webhooks::page)
        .get("/webhooks/{name}", Read, webhook::page)
        .get("/settings", Read, settings::page)
        .get("/about", Read, settings::page)
        .get("/live", Read, live::stream)
        .get("/approve/{id}", Open, approve::page)
        .post("/approve/{id}", Open, approve::answer)
        .get("/login", Open, login::page)
        .post("/login", Open, login::sign_in)
        .post("/logout", Open, login::sign_out)
        .get("/assets/{name}", Open, assets::asset)
        .get("/docs", Open, reference::reference)
        .get("/docs/problems", Open, problems::problems)
}
