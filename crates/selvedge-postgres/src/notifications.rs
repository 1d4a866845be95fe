//! Notifications between servers: `notify` and `listen` on connections of their own, never inside a transaction that
//! writes.
//!
//! Best effort: notifications may be lost. Receivers find the same changes by polling.

use crate::PostgresStore;
use crate::connection::{Endpoint, Settings, failure, quote};
use selvedge_core::{ClassId, ExecutionId, SessionId};
use selvedge_store::{Error, Notification};
use serde_json::{Value, json};
use std::future::poll_fn;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client};

/// The most ids in one message, which Postgres limits to 8000 bytes.
const IDS_PER_MESSAGE: usize = 150;
/// The time to wait before connecting again.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Receives the notifications of other servers.
pub struct Listener {
    endpoint: Endpoint,
    settings: Settings,
    /// The name of this server, whose own notifications are ignored.
    server: String,
    incoming: Option<mpsc::UnboundedReceiver<Notification>>,
}

impl Listener {
    /// Returns a listener that connects when it is first used.
    pub fn new(endpoint: &Endpoint, settings: &Settings, server: &str) -> Self {
        let endpoint = endpoint.named("selvedge listener");
        Listener { endpoint, settings: settings.clone(), server: server.to_owned(), incoming: None }
    }

    /// Returns the next notification from another server. Connects, and reconnects, as needed.
    pub async fn next(&mut self) -> Notification {
        loop {
            if self.incoming.is_none() {
                match self.listen().await {
                    Ok(incoming) => self.incoming = Some(incoming),
                    Err(error) => {
                        tracing::debug!(%error, "cannot listen for notifications; retrying");
                        tokio::time::sleep(RECONNECT_DELAY).await;
                        continue;
                    }
                }
            }
            if let Some(incoming) = &mut self.incoming {
                match incoming.recv().await {
                    Some(notification) => return notification,
                    None => self.incoming = None,
                }
            }
        }
    }

    async fn listen(&self) -> Result<mpsc::UnboundedReceiver<Notification>, Error> {
        let (client, mut connection) = self.endpoint.open(&self.settings).await?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let server = self.server.clone();
        let settings = self.settings.clone();
        tokio::spawn(async move {
            let forward = async {
                while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                    if let AsyncMessage::Notification(message) = message
                        && let Some(notification) = decode(message.payload(), &server)
                        && sender.send(notification).is_err()
                    {
                        return;
                    }
                }
            };
            // Returning drops both halves of the connection, which closes it.
            tokio::select! {
                () = forward => {}
                () = keep_listening(&client, &settings) => {}
                () = sender.closed() => {}
            }
        });
        Ok(receiver)
    }
}

/// Listens until the connection is lost or silent. Repeats `listen`, which has no effect except for the server's answer: a
/// connection that only receives would never notice that the other end is gone.
async fn keep_listening(client: &Client, settings: &Settings) {
    let listen = format!("listen {}", quote(&channel(&settings.schema)));
    loop {
        match timeout(settings.connect_timeout, client.batch_execute(&listen)).await {
            Ok(Ok(())) => tokio::time::sleep(settings.listen_check).await,
            Ok(Err(error)) => {
                tracing::debug!(%error, "cannot listen for notifications");
                return;
            }
            Err(_elapsed) => {
                tracing::warn!("the connection that listens for notifications is silent; connecting again");
                return;
            }
        }
    }
}

fn channel(schema: &str) -> String {
    format!("selvedge_{schema}")
}

impl PostgresStore {
    /// Sends a notification to the other servers.
    pub(crate) async fn notify(&self, notification: Notification) -> Result<(), Error> {
        let client = self.background.get().await?;
        // One statement for all messages: every committing transaction that notifies takes one lock of the whole cluster.
        let text = "select pg_notify($1, message) from unnest($2::text[]) as message";
        let statement = client.prepare_cached(text).await.map_err(failure)?;
        let messages = encode(&notification, &self.server);
        client.query(&statement, &[&channel(&self.settings.schema), &messages]).await.map_err(failure)?;
        Ok(())
    }
}

/// Encodes a notification as messages that each fit into the limit.
fn encode(notification: &Notification, server: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let classes: Vec<i32> = notification.ready.iter().map(|class| class.0).collect();
    let sessions: Vec<String> = notification.sessions.iter().map(|id| id.0.to_string()).collect();
    let ended = notification.ended.chunks(IDS_PER_MESSAGE);
    let streamed = notification.streamed.chunks(IDS_PER_MESSAGE);
    messages.extend(classes.chunks(IDS_PER_MESSAGE).map(|part| json!({ "from": server, "ready": part })));
    messages.extend(ended.map(|part| json!({ "from": server, "ended": part })));
    messages.extend(sessions.chunks(IDS_PER_MESSAGE).map(|part| json!({ "from": server, "sessions": part })));
    messages.extend(streamed.map(|part| json!({ "from": server, "streamed": part })));
    if notification.logged {
        match messages.first_mut() {
            Some(message) => message["logged"] = true.into(),
            None => messages.push(json!({ "from": server, "logged": true })),
        }
    }
    if notification.inbox {
        messages.push(json!({ "from": server, "inbox": true }));
    }
    messages.iter().map(Value::to_string).collect()
}

/// Decodes a message. Returns none for a message of this server, or of a newer one that cannot be read.
fn decode(payload: &str, server: &str) -> Option<Notification> {
    let value: Value = serde_json::from_str(payload).ok()?;
    if value["from"].as_str()? == server {
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
        inbox: value["inbox"].as_bool().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_notification_survives_its_messages_and_a_server_ignores_its_own() {
        let notification = Notification {
            ready: vec![ClassId(3)],
            ended: vec![ExecutionId(Uuid::from_u128(9))],
            sessions: vec![SessionId(-5)],
            logged: true,
            streamed: vec![ExecutionId(Uuid::from_u128(11))],
            inbox: true,
        };
        let messages = encode(&notification, "sender");
        let mut received = Notification::default();
        for message in &messages {
            assert!(decode(message, "sender").is_none());
            let part = decode(message, "receiver").expect("the message is readable");
            received.ready.extend(part.ready);
            received.ended.extend(part.ended);
            received.sessions.extend(part.sessions);
            received.logged |= part.logged;
            received.streamed.extend(part.streamed);
            received.inbox |= part.inbox;
        }
        assert_eq!(received, notification);
        let logged = Notification { logged: true, ..Notification::default() };
        let message = encode(&logged, "sender").pop().expect("there is a message");
        assert_eq!(decode(&message, "receiver"), Some(logged), "a message without ids");
    }
}
