//! Telling the other servers, by `notify` on a connection of its own and never inside a transaction that writes.

use crate::PostgresStore;
use crate::connect::{Settings, failure, no_connection, quote};
use selvedge_core::{ClassId, ExecutionId, SessionId};
use selvedge_store::{Error, Notification};
use serde_json::{Value, json};
use std::future::poll_fn;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Config, NoTls};

/// Notifications hold at most 8000 bytes; so many ids fit safely.
const IDS_PER_MESSAGE: usize = 150;
/// How long to wait before connecting again.
const RECONNECT: Duration = Duration::from_secs(1);

/// Hears what others tell.
pub struct Listener {
    config: Config,
    channel: String,
    me: String,
    incoming: Option<mpsc::UnboundedReceiver<Notification>>,
}

impl Listener {
    /// Not yet connected.
    pub fn new(config: &Config, settings: &Settings, me: &str) -> Self {
        let mut config = config.clone();
        config.application_name("selvedge listener");
        Listener { config, channel: channel(&settings.schema), me: me.to_owned(), incoming: None }
    }

    /// The next news from another server; connects, and connects again, as needed.
    pub async fn next(&mut self) -> Notification {
        loop {
            if self.incoming.is_none() {
                match self.listen().await {
                    Ok(incoming) => self.incoming = Some(incoming),
                    Err(error) => {
                        tracing::debug!(%error, "cannot listen for news; trying again");
                        tokio::time::sleep(RECONNECT).await;
                        continue;
                    }
                }
            }
            if let Some(incoming) = &mut self.incoming {
                match incoming.recv().await {
                    Some(news) => return news,
                    None => self.incoming = None,
                }
            }
        }
    }

    async fn listen(&self) -> Result<mpsc::UnboundedReceiver<Notification>, Error> {
        let (client, mut connection) = self.config.connect(NoTls).await.map_err(failure)?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let me = self.me.clone();
        let listen = format!("listen {}", quote(&self.channel));
        tokio::spawn(async move {
            let hear = async {
                while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                    if let AsyncMessage::Notification(note) = message
                        && let Some(news) = decode(note.payload(), &me)
                        && sender.send(news).is_err()
                    {
                        return;
                    }
                }
            };
            // A dropped client ends its connection: it is kept as long as somebody hears.
            let keep = async {
                match client.batch_execute(&listen).await {
                    Ok(()) => sender.closed().await,
                    Err(error) => tracing::debug!(%error, "cannot listen for news"),
                }
            };
            tokio::select! {
                () = hear => {}
                () = keep => {}
            }
        });
        Ok(receiver)
    }
}

/// The channel of a schema.
fn channel(schema: &str) -> String {
    format!("selvedge_{schema}")
}

impl PostgresStore {
    /// Tells the others.
    pub(crate) async fn tell(&self, news: Notification) -> Result<(), Error> {
        let client = self.pool.get().await.map_err(no_connection)?;
        // One statement for all of them: each transaction that notifies holds the cluster's one lock for it.
        let text = "select pg_notify($1, message) from unnest($2::text[]) as message";
        let statement = client.prepare_cached(text).await.map_err(failure)?;
        let messages = encode(&news, &self.me);
        client.query(&statement, &[&channel(&self.settings.schema), &messages]).await.map_err(failure)?;
        Ok(())
    }
}

/// Notification as messages that each fit.
fn encode(news: &Notification, me: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let classes: Vec<i32> = news.ready.iter().map(|class| class.0).collect();
    let sessions: Vec<String> = news.sessions.iter().map(|id| id.0.to_string()).collect();
    messages.extend(classes.chunks(IDS_PER_MESSAGE).map(|part| json!({ "from": me, "ready": part })));
    messages.extend(news.ended.chunks(IDS_PER_MESSAGE).map(|part| json!({ "from": me, "ended": part })));
    messages.extend(sessions.chunks(IDS_PER_MESSAGE).map(|part| json!({ "from": me, "sessions": part })));
    let streamed = news.streamed.chunks(IDS_PER_MESSAGE);
    messages.extend(streamed.map(|part| json!({ "from": me, "streamed": part })));
    if news.logged {
        match messages.first_mut() {
            Some(message) => message["logged"] = true.into(),
            None => messages.push(json!({ "from": me, "logged": true })),
        }
    }
    messages.iter().map(Value::to_string).collect()
}

/// Notification from a message; none if it is our own or not understood.
fn decode(payload: &str, me: &str) -> Option<Notification> {
    let value: Value = serde_json::from_str(payload).ok()?;
    if value["from"].as_str()? == me {
        return None;
    }
    let list = |field: &str| value[field].as_array().cloned().unwrap_or_default();
    let classes =
        list("ready").iter().filter_map(|class| class.as_i64()).map(|class| ClassId(class as i32)).collect();
    let executions = |field: &str| {
        list(field).iter().filter_map(|id| id.as_str()?.parse().ok().map(ExecutionId)).collect()
    };
    let sessions =
        list("sessions").iter().filter_map(|id| id.as_str()?.parse().ok().map(SessionId)).collect();
    Some(Notification {
        ready: classes,
        ended: executions("ended"),
        sessions,
        logged: value["logged"].as_bool().unwrap_or_default(),
        streamed: executions("streamed"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn news_survives_its_message_and_our_own_is_not_heard() {
        let news = Notification {
            ready: vec![ClassId(3)],
            ended: vec![ExecutionId(Uuid::from_u128(9))],
            sessions: vec![SessionId(-5)],
            logged: true,
            streamed: vec![ExecutionId(Uuid::from_u128(11))],
        };
        let messages = encode(&news, "me");
        let mut heard = Notification::default();
        for message in &messages {
            assert!(decode(message, "me").is_none());
            let part = decode(message, "other").expect("is understood");
            heard.ready.extend(part.ready);
            heard.ended.extend(part.ended);
            heard.sessions.extend(part.sessions);
            heard.logged |= part.logged;
            heard.streamed.extend(part.streamed);
        }
        assert_eq!(heard, news);
        let logged = Notification { logged: true, ..Notification::default() };
        let message = encode(&logged, "me").pop().expect("there is a message");
        assert_eq!(decode(&message, "other"), Some(logged), "also where nothing else happened");
    }
}
