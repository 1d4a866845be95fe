//! Access for the tests of this crate: every statement by name, a connection that plans like the store's own, and bounds.

use crate::PostgresStore;
use crate::connection::{Settings, config, failure, no_connection, preparation};
use deadpool_postgres::Object;
use selvedge_core::{ClassId, Timestamp};
use selvedge_store::Error;
use tokio_postgres::{Client, NoTls};

/// Returns every statement, by the path of its file: `noun/verb`.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    crate::sql::all()
}

/// Opens a connection with the settings of the store's own.
pub async fn connect(url: &str, settings: &Settings) -> Result<Client, Error> {
    let (client, connection) = config(url)?.connect(NoTls).await.map_err(failure)?;
    tokio::spawn(connection);
    client.batch_execute(&preparation(settings)).await.map_err(failure)?;
    Ok(client)
}

/// Takes a connection from each pool.
pub async fn pooled(store: &PostgresStore) -> Result<[Object; 2], Error> {
    let writer = store.writers.get().await.map_err(no_connection)?;
    let reader = store.pool.get().await.map_err(no_connection)?;
    Ok([writer, reader])
}

/// Raises the bounds of classes, as claims do in the background.
pub async fn refresh_bounds(store: &PostgresStore, classes: &[ClassId]) -> Result<(), Error> {
    loop {
        store.bounds.of(classes);
        // A refresh does nothing if the database took too long to return its time.
        if store.bounds.refresh(&store.pool, store.writers_key).await? {
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
        passed.generations,
        bounds.join(", ")
    )
}
