//! The deliveries of a webhook that are still to be made, as its worker keeps them in memory.
//!
//! Of the deliveries of one execution only the first is tried; the others wait for it.

use selvedge_core::Timestamp;
use selvedge_core::webhook::Delivery;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The pending deliveries.
#[derive(Default)]
pub struct Pending {
    rows: BTreeMap<u64, Entry>,
    /// The number of pending deliveries of each execution.
    ordered: HashMap<Uuid, usize>,
}

struct Entry {
    delivery: Delivery,
    due: Instant,
}

impl Pending {
    /// Returns the number of pending deliveries.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds deliveries, or replaces them. `now` is the time of the store.
    pub fn add(&mut self, deliveries: impl IntoIterator<Item = Delivery>, now: Timestamp) {
        for delivery in deliveries {
            self.remove(delivery.number);
            let wait_ms = delivery.detail.next_at.map_or(0, |at| at.ms_since(now).max(0));
            let due = Instant::now() + Duration::from_millis(wait_ms.unsigned_abs());
            if let Some(order) = delivery.order() {
                *self.ordered.entry(order).or_default() += 1;
            }
            self.rows.insert(delivery.number, Entry { delivery, due });
        }
    }

    /// Removes a delivery.
    pub fn remove(&mut self, number: u64) {
        let Some(entry) = self.rows.remove(&number) else { return };
        if let Some(order) = entry.delivery.order()
            && let Some(count) = self.ordered.get_mut(&order)
        {
            *count -= 1;
            if *count == 0 {
                self.ordered.remove(&order);
            }
        }
    }

    /// Reports whether a delivery of this execution is pending.
    pub fn has(&self, order: Uuid) -> bool {
        self.ordered.contains_key(&order)
    }

    /// Makes every delivery due now: the receiver works again.
    pub fn hurry(&mut self) {
        let now = Instant::now();
        self.rows.values_mut().for_each(|entry| entry.due = entry.due.min(now));
    }

    /// Returns the time at which the next delivery is due, if there is one.
    pub fn next_due(&self) -> Option<Instant> {
        self.heads().map(|entry| entry.due).min()
    }

    /// Returns up to `limit` chains of deliveries that are due, each with the deliveries that wait for its first one.
    pub fn due(&self, limit: usize) -> Vec<Vec<Delivery>> {
        let now = Instant::now();
        let heads = self.heads().filter(|entry| entry.due <= now).take(limit);
        let mut chains: Vec<Vec<Delivery>> = heads.map(|entry| vec![entry.delivery.clone()]).collect();
        let places: HashMap<Uuid, usize> =
            chains.iter().enumerate().filter_map(|(index, chain)| Some((chain[0].order()?, index))).collect();
        for entry in self.rows.values() {
            let place = entry.delivery.order().and_then(|order| places.get(&order));
            if let Some(chain) = place.map(|place| &mut chains[*place])
                && chain[0].number != entry.delivery.number
            {
                chain.push(entry.delivery.clone());
            }
        }
        chains
    }

    /// Iterates over the deliveries that wait for no other.
    fn heads(&self) -> impl Iterator<Item = &Entry> {
        let mut seen = HashSet::new();
        self.rows.values().filter(move |entry| entry.delivery.order().is_none_or(|order| seen.insert(order)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use selvedge_core::ExecutionId;
    use selvedge_core::webhook::{DeliveryDetail, DeliveryId, DeliveryState, WebhookId};

    fn delivery(number: u64, execution: u128, next_ms: Option<i64>) -> Delivery {
        Delivery {
            webhook: WebhookId(Uuid::nil()),
            number,
            id: DeliveryId(Uuid::from_u128(u128::from(number))),
            state: DeliveryState::Pending,
            detail: DeliveryDetail {
                execution: Some(ExecutionId(Uuid::from_u128(execution))),
                next_at: next_ms.map(Timestamp::from_millis),
                ..DeliveryDetail::default()
            },
            body: Bytes::new(),
        }
    }

    #[test]
    fn only_the_first_delivery_of_an_execution_is_due_and_the_others_follow_it() {
        let now = Timestamp::from_millis(1000);
        let mut pending = Pending::default();
        pending.add([delivery(1, 7, Some(3_600_000)), delivery(2, 7, None), delivery(3, 8, Some(0))], now);
        pending.add([delivery(4, 8, None)], now);
        let numbers = |pending: &Pending| -> Vec<Vec<u64>> {
            let chains = pending.due(9).into_iter();
            chains.map(|chain| chain.iter().map(|one| one.number).collect()).collect()
        };
        assert_eq!(numbers(&pending), [vec![3, 4]]);
        assert!(pending.has(Uuid::from_u128(7)) && !pending.has(Uuid::from_u128(9)));
        pending.hurry();
        assert_eq!(numbers(&pending), [vec![1, 2], vec![3, 4]]);
        assert_eq!(pending.due(1).len(), 1);
        pending.remove(1);
        pending.remove(2);
        assert!(!pending.has(Uuid::from_u128(7)));
        let mut replay = delivery(5, 8, Some(0));
        replay.detail.is_replay = true;
        pending.add([replay], now);
        assert_eq!(numbers(&pending), [vec![3, 4], vec![5]]);
        assert_eq!(pending.len(), 3);
    }
}
