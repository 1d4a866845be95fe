//! A batch of deliveries: chains that are delivered concurrently, each in order.

use super::client::{Message, Receiver};
use super::supervisor::LeaseEnd;
use super::{WebhookMetrics, WebhookOptions};
use crate::shutdown::ShutdownWatch;
use futures_util::{StreamExt, stream};
use selvedge_core::webhook::{Attempted, Delivery, Outcome};
use std::collections::HashMap;
use std::time::Instant;
use uuid::Uuid;

/// Everything that a batch needs to deliver.
pub struct Sending<'a> {
    pub receiver: &'a Receiver,
    /// The secrets that sign. None if they are lost: every delivery fails.
    pub secrets: Option<Vec<[u8; 32]>>,
    /// The options of the sender.
    pub options: &'a WebhookOptions,
    /// The lease of the webhook.
    pub lease: &'a LeaseEnd,
    /// The server's shutdown.
    pub shutdown: &'a ShutdownWatch,
}

/// Groups new deliveries into chains: those of one execution form one, in order.
pub fn chains(deliveries: Vec<Delivery>) -> Vec<Vec<Delivery>> {
    let mut chains: Vec<Vec<Delivery>> = Vec::new();
    let mut places: HashMap<Uuid, usize> = HashMap::new();
    for delivery in deliveries {
        match delivery.order() {
            Some(order) => {
                let place = *places.entry(order).or_insert(chains.len());
                if place == chains.len() {
                    chains.push(Vec::new());
                }
                chains[place].push(delivery);
            }
            None => chains.push(vec![delivery]),
        }
    }
    chains
}

impl Sending<'_> {
    /// Delivers chains, a few at a time. Of a chain, the deliveries after a failure wait.
    pub async fn deliver(&self, chains: Vec<Vec<Delivery>>) -> Vec<Attempted> {
        let concurrency = self.options.concurrency.max(1);
        let delivered = stream::iter(chains).map(|chain| self.deliver_chain(chain));
        delivered.buffer_unordered(concurrency).concat().await
    }

    async fn deliver_chain(&self, chain: Vec<Delivery>) -> Vec<Attempted> {
        let mut attempted = Vec::with_capacity(chain.len());
        let mut stopped = false;
        for delivery in chain {
            // A request that could outlast the lease might overtake those of the next owner.
            stopped |= !self.lease.lasts(self.options.timeout) || self.shutdown.is_shutting_down();
            let outcome = if stopped { Outcome::Waits } else { self.attempt(&delivery).await };
            stopped |= !matches!(outcome, Outcome::Delivered(_));
            attempted.push(Attempted { delivery, outcome });
        }
        attempted
    }

    async fn attempt(&self, delivery: &Delivery) -> Outcome {
        let secrets = self.secrets.as_deref();
        let message = match Message::signed(secrets, delivery.id.to_string(), delivery.body.clone()) {
            Ok(message) => message,
            Err(error) => return Outcome::Failed { status: None, error },
        };
        let begun = Instant::now();
        let outcome = self.receiver.post(&message).await;
        let metrics: &WebhookMetrics = &self.options.metrics;
        metrics.observe(&outcome, begun.elapsed());
        outcome
    }
}
