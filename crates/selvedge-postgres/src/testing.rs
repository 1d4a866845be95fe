//! For the tests of this crate: every statement by name, a connection that plans as the store's own do, and bounds.

use crate::PostgresStore;
use crate::connect::{Settings, config, failure, preparation};
use selvedge_core::{ClassId, Timestamp};
use selvedge_store::Error;
use tokio_postgres::{Client, NoTls};

/// Every statement, by the name of its file.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    crate::sql::all()
}

/// A connection with the store's own settings.
pub async fn connect(url: &str, settings: &Settings) -> Result<Client, Error> {
    let (client, connection) = config(url)?.connect(NoTls).await.map_err(failure)?;
    tokio::spawn(connection);
    client.batch_execute(&preparation(settings)).await.map_err(failure)?;
    Ok(client)
}

/// Raises the bounds of these classes, as a claim has it done beside itself.
pub async fn refresh_bounds(store: &PostgresStore, classes: &[ClassId]) -> Result<(), Error> {
    loop {
        store.bounds.of(classes);
        // A time that was told slowly is not used.
        if store.bounds.refresh(&store.pool, store.writers_key).await? {
            return Ok(());
        }
    }
}

/// The bound of a class and priority.
pub fn bound(store: &PostgresStore, class: ClassId, priority: i16) -> Option<Timestamp> {
    store.bounds.bound((class.0, priority))
}

/// The bounds of a class, as SQL writes the arguments of a claim.
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
