//! Submissions from SQL: they commit with the user's transaction, and each is taken in once.

mod intake;
mod model;
mod refusals;
mod rights;
mod shape;
mod views;

use selvedge_engine::core::filter::{Filter, Payloads};
use selvedge_engine::{EventFilter, From, Namespace, PublicEvent};
use selvedge_system_tests::PlainConnection;
use selvedge_system_tests::server::Server;
use uuid::Uuid;

/// Runs a call of a function, and returns the id.
async fn submitted(sql: &PlainConnection, call: &str) -> Uuid {
    sql.query_one(&format!("select {call}"), &[]).await.expect("it is accepted").get(0)
}

/// Runs a call that is refused at once, and returns the SQLSTATE and the message.
async fn refused(sql: &PlainConnection, call: &str) -> (String, String) {
    let error = sql.query_one(&format!("select {call}"), &[]).await.expect_err("it is refused");
    let error = error.as_db_error().expect("Postgres refused it");
    (error.code().code().to_owned(), error.message().to_owned())
}

/// Runs ticks until nothing waits in the inbox.
async fn take_in(server: &Server) {
    while server.engine.tick("inbox").await.expect("the tick succeeds").scanned > 0 {}
}

/// Returns the number of executions of a namespace.
async fn count(namespace: &Namespace) -> usize {
    let filter = Filter::all(namespace.id());
    let (mut total, mut after) = (0, None);
    loop {
        let (page, next) =
            namespace.list(&filter, after, 500, Payloads::NONE).await.expect("the list is read");
        total += page.len();
        if next.is_none() {
            return total;
        }
        after = next;
    }
}

/// Returns the events of refused submissions of a namespace.
async fn refusal_events(namespace: &Namespace) -> Vec<PublicEvent> {
    let filter = EventFilter { types: vec!["inbox.refused".into()], ..EventFilter::default() };
    let (mut events, mut from) = (Vec::new(), From::Beginning);
    loop {
        let page = namespace.events(&filter, from, 500).await.expect("the events are read");
        events.extend(page.items);
        match page.next {
            Some(next) if !page.at_end => from = From::Cursor(next),
            Some(_) | None => return events,
        }
    }
}
