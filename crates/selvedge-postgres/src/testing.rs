//! Access for the tests of this crate: every statement by name, a connection that plans like the store's own, and bounds.

use crate::connection::{Connection, Endpoint, Settings, failure, preparation};
use crate::{PostgresStore, kinds};
use selvedge_core::{ClassId, Timestamp};
use selvedge_store::Error;
use std::ops::Deref;
use tokio_postgres::Client;

/// Returns every statement, by the path of its file: `noun/verb`.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    kinds::statements().into_iter().map(|statement| (statement.path, &**statement)).collect()
}

/// Opens a connection with the settings of the store's own.
pub async fn connect(url: &str, settings: &Settings) -> Result<Client, Error> {
    let (client, connection) = Endpoint::parse(url)?.open(settings).await?;
    tokio::spawn(connection);
    client.batch_execute(&preparation(settings)).await.map_err(failure)?;
    Ok(client)
}

/// A connection that a pool of the store has lent.
pub struct Pooled(Connection);

impl Deref for Pooled {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.0.client()
    }
}

/// Takes a connection from each pool.
pub async fn pooled(store: &PostgresStore) -> Result<[Pooled; 3], Error> {
    let (writer, reader) = (store.writers.get().await?, store.readers.get().await?);
    Ok([writer, reader, store.background.get().await?].map(Pooled))
}

/// Raises the bounds of classes, as claims do in the background.
pub async fn refresh_bounds(store: &PostgresStore, classes: &[ClassId]) -> Result<(), Error> {
    loop {
        store.bounds.of(classes);
        // A refresh does nothing if the database took too long to return its time.
        if store.bounds.refresh(&store.background, store.writers_key).await? {
            return Ok(());
        }
    }
}

/// Returns the bound of a class and priority.
pub fn bound(store: &PostgresStore, class: ClassId, priority: i16) -> Option<Timestamp> {
    store.bounds.bound((class.0, priority))
}

/// Returns the bounds of a class as SQL literals, for the parameters of `executions/lock_candidates`.
pub fn bound_arguments(store: &PostgresStore, class: ClassId) -> String {
    let passed = store.bounds.of(&[class]);
    let bounds: Vec<String> = passed
        .bounds
        .iter()
        .map(|bound| format!("timestamptz 'epoch' + {} * interval '1 microsecond'", bound.0))
        .collect();
    format!(
        "array{:?}::bigint[], array{:?}::bigint[], array[{}]::timestamptz[]",
        passed.keys,
        passed.revisions,
        bounds.join(", ")
    )
}

/// Returns the times at which searches for due rows start, as SQL literals for the parameters of `overview/glance`.
pub fn glance_arguments(store: &PostgresStore) -> String {
    store.glances.arguments(store.writers_key)
}
