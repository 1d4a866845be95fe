//! The inbox of submissions from SQL: `routes::inbox`.

use selvedge_api::description::{Description, operation};
use selvedge_api::schema::*;
use serde_json::json;

const TAG: &str = "Inbox";

/// Returns the operations of the inbox.
pub fn operations() -> Vec<Description> {
    [list_inbox(), retry(), delete()].into_iter().map(|operation| operation.tag(TAG)).collect()
}

fn list_inbox() -> Description {
    let problem = answer(vec![
        always("code", text()),
        always("detail", text()),
        nullable("pointer", text().about("The JSON pointer to the refused field.")),
    ]);
    let row = answer(vec![
        always("number", total()),
        always("type", word(["execution", "flow"])),
        always("id", id().about("The id that the caller got.")),
        always("role", text().about("The role of Postgres that submitted it.")),
        always("submitted_at", time()),
        nullable("refused_at", time()),
        nullable("problem", problem),
    ]);
    let page = answer(vec![
        always("pending", total().about("Submissions that wait to be taken in, up to 10000.")),
        nullable("oldest_pending_at", time()),
        always("refused_count", total().about("Submissions that were refused, up to 10000.")),
        always("items", list(row)),
        nullable("next_cursor", text()),
    ]);
    operation("get", "/v1/inbox", "list_inbox", "Show the submissions from SQL that wait or were refused")
        .about("Refused ones are listed newest first, and kept for 7 days. Stores other than Postgres have none.")
        .paged()
        .answers(200, "The counts, and a page of the refused submissions.", page)
}

fn retry() -> Description {
    operation("post", "/v1/inbox/{number}/retry", "retry_inbox", "Take a refused submission in again")
        .about("For example after a missing budget was created. Repeating it while the submission waits changes nothing.")
        .body_if_any(request(Vec::new()), json!({}))
        .answers(200, "The submission waits again.", answer(vec![always("number", total())]))
}

fn delete() -> Description {
    operation("delete", "/v1/inbox/{number}", "delete_inbox", "Delete a refused submission").answers(
        200,
        "The submission is deleted.",
        answer(vec![always("number", total())]),
    )
}
