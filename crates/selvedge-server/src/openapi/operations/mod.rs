//! The operations of the API, in files by resource as the handlers in `routes`.

mod events;
mod executions;
mod flows;
mod inbox;
mod limits;
mod operators;
mod pages;
mod schedules;
mod server;
mod waitpoints;
mod webhooks;
mod workers;

use selvedge_api::description::Description;

/// Returns every operation.
pub fn all_operations() -> Vec<Description> {
    [
        executions::operations(),
        operators::operations(),
        flows::operations(),
        inbox::operations(),
        workers::operations(),
        waitpoints::operations(),
        events::operations(),
        limits::operations(),
        webhooks::operations(),
        schedules::operations(),
        server::operations(),
        pages::operations(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
