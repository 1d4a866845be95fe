//! Takes and renews the leases of webhooks, and runs a worker for each that this server owns.
//!
//! A lease lasts twice as long as a delivery may take and is renewed four times as often. All leases of the server are
//! renewed by one transaction. A server that dies loses them by time; one that stops gives them back.

use super::WebhookOptions;
use super::worker::Worker;
use crate::shutdown::ShutdownWatch;
use selvedge_core::webhook::{Webhook, WebhookName};
use selvedge_core::{Name, NamespaceId};
use selvedge_engine::{Engine, Error, Namespace};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use uuid::Uuid;

/// The longest time between two looks at the webhooks.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
/// The same while there are none. The server at which a webhook is created looks at once.
const LOOK_INTERVAL_WITHOUT: Duration = Duration::from_secs(10);
/// The most webhooks whose leases one transaction renews.
const LEASES_AT_A_TIME: usize = 200;

/// The end of a lease, by the clock of this process: at most as late as by that of the store.
#[derive(Clone, Debug)]
pub struct LeaseEnd(Arc<Mutex<Instant>>);

impl LeaseEnd {
    fn until(end: Instant) -> LeaseEnd {
        LeaseEnd(Arc::new(Mutex::new(end)))
    }

    fn renew(&self, end: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    /// Reports whether the lease lasts for some time.
    pub fn lasts(&self, time: Duration) -> bool {
        Instant::now() + time < *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker that runs. Aborted when it is dropped.
struct Running {
    webhook: Webhook,
    namespace: Name,
    lease: LeaseEnd,
    updates: watch::Sender<Webhook>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Supervisor {
    engine: Engine,
    options: Arc<WebhookOptions>,
    shutdown: ShutdownWatch,
    /// The number of this server.
    owner: Uuid,
    namespaces: HashMap<NamespaceId, Namespace>,
    running: BTreeMap<WebhookName, Running>,
    renewed: Option<Instant>,
}

/// Delivers webhooks until the shutdown begins. Then the deliveries under way have `grace` to end, and the leases end.
pub async fn run(engine: Engine, options: WebhookOptions, shutdown: ShutdownWatch, grace: Duration) {
    let mut supervisor = Supervisor {
        engine,
        options: Arc::new(options),
        shutdown: shutdown.clone(),
        owner: Uuid::new_v4(),
        namespaces: HashMap::new(),
        running: BTreeMap::new(),
        renewed: None,
    };
    let mut failing = false;
    while !shutdown.is_shutting_down() {
        match supervisor.look().await {
            Ok(()) => failing = false,
            Err(error) => {
                if !failing {
                    tracing::warn!(%error, "cannot look after webhooks; tries again");
                }
                failing = true;
            }
        }
        let interval = match supervisor.running.is_empty() && !failing {
            true => LOOK_INTERVAL_WITHOUT,
            false => LOOK_INTERVAL.min(supervisor.options.lease() / 4),
        };
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = supervisor.engine.webhook_changed() => {}
            () = shutdown.begun() => {}
        }
    }
    supervisor.stop(grace).await;
}

impl Supervisor {
    /// Looks at all webhooks once: takes leases that are free, renews its own, and passes changes on to the workers.
    async fn look(&mut self) -> Result<(), Error> {
        let all = self.engine.all_webhooks().await?;
        let now = self.engine.store_time();
        let known: HashMap<&WebhookName, &Webhook> = all.iter().map(|row| (&row.name, row)).collect();
        self.retain(|running| {
            let stored = known.get(&running.webhook.name);
            stored.is_some_and(|row| row.detail.id == running.webhook.detail.id)
                && !running.task.is_finished()
        });
        for row in &all {
            if let Some(running) = self.running.get(&row.name) {
                let is_new = |known: &Webhook| row.detail.generation > known.detail.generation;
                running.updates.send_if_modified(|known| {
                    let is_new = is_new(known);
                    if is_new {
                        known.clone_from(row);
                    }
                    is_new
                });
            }
        }
        let renews = self.renewed.is_none_or(|at| at.elapsed() >= self.options.lease() / 4);
        let is_wanted = |row: &&Webhook| match row.detail.lease {
            None => true,
            Some(lease) if lease.owner == self.owner => renews || !self.running.contains_key(&row.name),
            Some(lease) => lease.until <= now,
        };
        let wanted: Vec<WebhookName> = all.iter().filter(is_wanted).map(|row| row.name.clone()).collect();
        for names in wanted.chunks(LEASES_AT_A_TIME) {
            let end = Instant::now() + self.options.lease();
            let owned = self.engine.lease_webhooks(self.owner, names.to_vec(), self.options.lease()).await?;
            let held: Vec<&WebhookName> = owned.iter().map(|row| &row.name).collect();
            self.retain(|running| {
                !names.contains(&running.webhook.name) || held.contains(&&running.webhook.name)
            });
            for webhook in owned {
                self.keep(webhook, end).await?;
            }
        }
        if renews {
            self.renewed = Some(Instant::now());
        }
        Ok(())
    }

    /// Stops the workers of webhooks that this server does not keep.
    fn retain(&mut self, keeps: impl Fn(&Running) -> bool) {
        let metrics = &self.options.metrics;
        self.running.retain(|name, running| {
            let kept = keeps(running);
            if !kept {
                metrics.forget(&running.namespace, &name.name);
            }
            kept
        });
    }

    /// Starts the worker of a webhook, or renews its lease.
    async fn keep(&mut self, webhook: Webhook, end: Instant) -> Result<(), Error> {
        if let Some(running) = self.running.get(&webhook.name)
            && running.webhook.detail.fence == webhook.detail.fence
        {
            running.lease.renew(end);
            return Ok(());
        }
        let Some(namespace) = self.namespace(webhook.name.namespace).await? else { return Ok(()) };
        let lease = LeaseEnd::until(end);
        let (updates, receiver) = watch::channel(webhook.clone());
        let name = namespace.name().clone();
        let worker =
            Worker::new(namespace, self.options.clone(), receiver, lease.clone(), self.shutdown.clone());
        let task = tokio::spawn(worker.run());
        let running = Running { webhook: webhook.clone(), namespace: name, lease, updates, task };
        self.running.insert(webhook.name, running);
        Ok(())
    }

    async fn namespace(&mut self, id: NamespaceId) -> Result<Option<Namespace>, Error> {
        if !self.namespaces.contains_key(&id) {
            let all = self.engine.list_namespaces().await?;
            self.namespaces = all.into_iter().map(|one| (one.id(), one)).collect();
        }
        Ok(self.namespaces.get(&id).cloned())
    }

    /// Waits for the workers, and ends the leases so that another server takes over at once.
    async fn stop(&mut self, grace: Duration) {
        let ended = async {
            for running in self.running.values_mut() {
                let _ = (&mut running.task).await;
            }
        };
        if timeout(grace / 2, ended).await.is_err() {
            // Their deliveries are repeated by the next owner.
            self.running.values().for_each(|running| running.task.abort());
        }
        let names: Vec<WebhookName> = self.running.keys().cloned().collect();
        for names in names.chunks(LEASES_AT_A_TIME) {
            let ends = self.engine.lease_webhooks(self.owner, names.to_vec(), Duration::ZERO);
            match timeout(grace / 4, ends).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "cannot end the leases of webhooks; they expire"),
                Err(_) => return,
            }
        }
    }
}
