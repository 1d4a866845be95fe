//! The live feed of events: `id` is the cursor, so that a client that comes back goes on where it was.

use crate::Answer;
use crate::auth::Caller;
use crate::sse::{self, Next, Source};
use crate::views;
use selvedge_engine::{EventFilter, From, Notice, Subscription};

/// The feed, until the client goes or the server closes. What is wrong with the cursor is said before it begins.
pub async fn feed(caller: Caller, filter: EventFilter, from: From) -> Answer {
    let subscription = caller.namespace.subscribe(filter, from).await?;
    Ok(sse::answer(caller, Feed(subscription)))
}

struct Feed(Subscription);

impl Source for Feed {
    async fn next(&mut self) -> Next {
        match self.0.next().await {
            None => Next::End,
            Some(Notice::Break { .. }) => {
                Next::Remark("the log cannot be read for now; everything comes when it can be again".into())
            }
            Some(Notice::Event(event)) => {
                let (cursor, kind) = (event.cursor.clone(), event.kind);
                let mut data = Vec::with_capacity(512);
                views::event(&mut data, *event);
                let mut out = Vec::with_capacity(data.len() + 128);
                sse::message(&mut out, Some(&cursor), kind, &data);
                Next::Messages(out)
            }
        }
    }
}
