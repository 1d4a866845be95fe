//! The shapes that several operations share, each under the name that the document gives it.

pub mod executions;
pub mod flows;
pub mod limits;
pub mod reports;
mod schedules;
pub mod submission;
pub mod suspension;
mod workers;

use crate::wire::problem::Code;
use selvedge_api::schema::*;
use selvedge_core::Outcome;

/// Returns every shape with its name.
pub fn all_shapes() -> Vec<(&'static str, Schema)> {
    let mut shapes = vec![("Problem", problem())];
    shapes.extend(submission::shapes());
    shapes.extend(executions::shapes());
    shapes.extend(flows::shapes());
    shapes.extend(workers::shapes());
    shapes.extend(reports::shapes());
    shapes.extend(suspension::shapes());
    shapes.extend(limits::shapes());
    shapes.extend(schedules::shapes());
    shapes
}

/// The problem document of a refused request.
fn problem() -> Schema {
    let codes = Code::ALL.into_iter().map(|code| code.info().code);
    let mut fields = vec![
        always("type", text().about("A reference to the explanation of the code.")),
        always("title", text().about("A short title for people.")),
        always("status", integer_within(400, 599).about("The HTTP status.")),
        always("detail", text().about("This occurrence, for people. May change.")),
        always("code", word(codes).about("The stable code, for programs.")),
        sometimes("pointer", text().about("The JSON pointer of the field that is wrong.")),
        sometimes("retry_after_ms", total().about("The time after which to repeat the request.")),
    ];
    fields.extend(stale_lease());
    answer(fields)
}

/// The fields about a lease that is no longer valid.
fn stale_lease() -> Vec<Field> {
    let holder = answer(vec![
        always("worker", text()),
        always("instance", text()),
        always("lease_id", id()),
        always("epoch", count()),
        always("claimed_at", time()),
    ]);
    vec![
        sometimes("state", text().about("For stale_lease: the state of the execution.")),
        sometimes("outcome", outcome().or_null().about("For stale_lease: the outcome of the execution.")),
        sometimes("holder", holder.or_null().about("For stale_lease: the holder of the current lease.")),
    ]
}

/// The outcome of an execution.
pub fn outcome() -> Schema {
    word(Outcome::ALL.map(Outcome::as_str))
}

/// The error of a failed execution or attempt.
pub fn failure() -> Schema {
    shape("Failure")
}

/// The fields of a fence, which proves that a worker holds a lease.
pub fn fence() -> Vec<Field> {
    vec![
        always("execution", id()),
        always("attempt", count()),
        always("lease_id", id()),
        always("epoch", count()),
    ]
}
