//! Events and streams: `routes::events` and `routes::streams`.

use crate::wire::problem::Code;
use selvedge_api::description::{Description, operation};
use selvedge_api::filter::tag_filter;
use selvedge_api::schema::*;
use selvedge_core::fact::EVENT_TYPES;

pub fn operations() -> Vec<Description> {
    vec![events(), frames(), tail(), summary()]
}

fn events() -> Description {
    let page = answer(vec![
        always("items", list(shape("Event"))),
        nullable("next_cursor", text().about("Null at the current end of the log.")),
        nullable("resume_cursor", text().about("The position after the page, from which to continue later.")),
    ]);
    let from = Schema(one_of(vec![time(), word(["now", "beginning"])]).0);
    operation("get", "/v1/events", "list_events", "Read the event log, oldest first")
        .about(
            "With Accept: text/event-stream the live feed: the name of a message is the type of its event, its id the \
             cursor, its data the event. A page starts at the oldest event unless told otherwise, the feed now.",
        )
        .query("after", text(), "The cursor after which to begin.")
        .query("from", from, "Where to begin: a time, now, or beginning. Not with after.")
        .joined_query("types", word(EVENT_TYPES.iter().copied()), "The types of events. Default: all.")
        .query("execution", id(), "Only events of this execution.")
        .query("flow", id(), "Only events of this flow.")
        .query("tag", tag_filter(), "Only events of executions with this tag, written name:value.")
        .query("limit", page_limit(), "The maximum number of events of the page.")
        .header("Last-Event-ID", text(), "For the live feed: the last event that was seen.")
        .answers_as(
            200,
            "A page, or the live feed.",
            vec![("application/json", page), ("text/event-stream", text())],
        )
        .also([Code::InvalidCursor, Code::CursorExpired, Code::CursorUnknown])
        .tag("Events")
}

fn frames() -> Description {
    let more = vec![
        nullable("attempt", count()),
        always("closed", flag().about("True if the attempt has ended and the page has its last frames.")),
    ];
    operation("get", "/v1/executions/{id}/stream", "list_frames", "Read the frames of an attempt")
        .query("attempt", count(), "The attempt. Default: the latest.")
        .query("after", count(), "The number of the last frame that was seen.")
        .query("before", count(), "The number of the frame before which to end.")
        .query("mode", word(["durable"]), "Leaves out best-effort frames.")
        .query("limit", page_limit(), "The maximum number of frames.")
        .answers_page_with(shape("Frame"), more)
        .also([Code::InvalidCursor])
        .tag("Streams")
}

fn tail() -> Description {
    operation("get", "/v1/executions/{id}/stream/tail", "tail_frames", "Follow the frames of an attempt")
        .about("Live messages named frame, until the attempt has ended, and then one named closed.")
        .query("attempt", count(), "The attempt. Default: the latest.")
        .query("after", count(), "The number of the last frame that was seen.")
        .query("mode", word(["durable"]), "Leaves out best-effort frames.")
        .header("Last-Event-ID", text(), "The number of the last frame that was seen.")
        .answers_as(200, "The live frames.", vec![("text/event-stream", text())])
        .also([Code::InvalidCursor])
        .tag("Streams")
}

fn summary() -> Description {
    let fields = vec![nullable("attempt", count()), always("version", count()), always("document", any())];
    operation("get", "/v1/executions/{id}/summary", "get_summary", "Read the summary of an attempt")
        .about("The document merged from the summary frames.")
        .query("attempt", count(), "The attempt. Default: the latest.")
        .answers(200, "The summary.", answer(fields))
        .tag("Streams")
}
