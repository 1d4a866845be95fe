//! For the tests of this crate: every statement by name, and a connection that plans as the store's own do.

use crate::connect::{Settings, config, failure, preparation};
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
