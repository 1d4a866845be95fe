//! The web pages: what runs, why something does not, and the reference of the API. The server renders them; they load nothing from
//! other sites, and every page can be read without its script.
//!
//! A page reads through the same calls of the engine as the routes of the API, and its buttons call that API. Each file of this
//! folder is a page with an address. `parts` has the elements of pages; `frame` what surrounds every page: its layout and headers,
//! the assets, and the stream that tells a page to load its live regions again.

mod approvals;
mod approve;
mod budgets;
mod events;
mod execution;
mod executions;
mod flow;
mod flows;
mod frame;
mod lanes;
mod login;
mod overview;
mod parts;
mod problems;
mod reference;
mod schedule;
mod schedules;
mod settings;
mod webhook;
mod webhooks;
mod workers;

pub use frame::problem_page::show_problems;
pub use parts::overview_data::SharedOverviews;

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
        .get("/live", Read, frame::live::stream)
        .get("/approve/{id}", Open, approve::page)
        .post("/approve/{id}", Open, approve::answer)
        .get("/login", Open, login::page)
        .post("/login", Open, login::sign_in)
        .post("/logout", Open, login::sign_out)
        .get("/assets/{name}", Open, frame::assets::asset)
        .get("/docs", Open, reference::reference)
        .get("/docs/problems", Open, problems::problems)
}
