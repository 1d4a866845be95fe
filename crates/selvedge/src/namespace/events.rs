//! The event log: pages and subscriptions.

use super::{Connected, Namespace};
use crate::Error;
use crate::events::{Event, EventFilter, EventPage, From, Source, Subscription};
use selvedge_api::times;
use selvedge_client::{Client, Request};
use serde::Deserialize;

#[derive(Deserialize)]
struct PageItem {
    items: Vec<Event>,
    resume_cursor: Option<String>,
}

impl Namespace {
    /// Subscribes to the events that match the filter, from a position in the log on.
    pub async fn subscribe(&self, filter: EventFilter, from: From) -> Result<Subscription, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let subscription = namespace.subscribe(filter, from).await?;
                Ok(Subscription(Source::Embedded(Box::new(subscription))))
            }
            Connected::Remote(client) => {
                let request = request(client, &filter);
                // A stream that begins now has no position until its first event. So the position is read first, and a
                // connection that breaks before that event loses none.
                let from = match from {
                    From::Now => match self.events(&filter, From::Now, 1).await?.resume_cursor {
                        Some(cursor) => From::Cursor(cursor),
                        None => From::Beginning,
                    },
                    from => from,
                };
                let mut stream = match from {
                    From::Cursor(cursor) => request.events().after(cursor),
                    from => positioned(request, &from).events(),
                };
                stream.connect().await?;
                Ok(Subscription(Source::Remote(Box::new(stream))))
            }
        }
    }

    /// Returns a page of at most `limit` events (up to 500) that match the filter, from a position in the log on.
    pub async fn events(&self, filter: &EventFilter, from: From, limit: usize) -> Result<EventPage, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let page = namespace.events(filter, from, limit).await?;
                let items = page.items.into_iter().map(Event::from).collect();
                Ok(EventPage { items, resume_cursor: page.next })
            }
            Connected::Remote(client) => {
                let request = positioned(request(client, filter), &from).query("limit", limit);
                let PageItem { items, resume_cursor } = request.send().await?.json()?;
                Ok(EventPage { items, resume_cursor })
            }
        }
    }
}

fn request(client: &Client, filter: &EventFilter) -> Request {
    let types = Some(filter.types.join(",")).filter(|types| !types.is_empty());
    let tag = filter.tag.as_ref().map(|(name, value)| format!("{name}:{value}"));
    client
        .get(&["events"])
        .query_optional("types", types)
        .query_optional("execution", filter.execution)
        .query_optional("flow", filter.flow)
        .query_optional("tag", tag)
}

fn positioned(request: Request, from: &From) -> Request {
    match from {
        From::Cursor(cursor) => request.query("after", cursor),
        From::Beginning => request.query("from", "beginning"),
        From::Time(time) => request.query("from", times::text(*time)),
        From::Now => request.query("from", "now"),
    }
}
