//! Webhooks and their deliveries: read, loaded and saved.

use crate::connection::pipeline::Parameters;
use crate::save::{Saving, column};
use crate::{PostgresStore, sql};
use selvedge_core::webhook::{Delivery, DeliveryId, DeliveryState, Webhook, WebhookId, WebhookName};
use selvedge_core::{Changes, Name, NamespaceId, Rows};
use selvedge_store::{DeliveryPage, Error};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

impl PostgresStore {
    /// Returns a webhook.
    pub(crate) async fn find_webhook(&self, name: &WebhookName) -> Result<Option<Webhook>, Error> {
        let parameters: [&(dyn ToSql + Sync); 2] = [&name.namespace.0, &name.name.as_str()];
        self.query(&sql::WEBHOOKS_FIND, &parameters).await?.first().map(webhook).transpose()
    }

    /// Returns a page of the webhooks. Unreadable ones are left out: they must not stop the others.
    pub(crate) async fn list_webhooks(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<&WebhookName>,
        limit: u32,
    ) -> Result<Vec<Webhook>, Error> {
        let first = namespace.map_or(i32::MIN, |namespace| namespace.0);
        let last = namespace.map_or(i32::MAX, |namespace| namespace.0);
        let (from, name) = after.map_or((first, ""), |after| (after.namespace.0, after.name.as_str()));
        let parameters: [&(dyn ToSql + Sync); 4] = [&from, &name, &last, &i64::from(limit)];
        let found = self.query(&sql::WEBHOOKS_LIST, &parameters).await?;
        let readable = found.iter().filter_map(|row| match webhook(row) {
            Ok(webhook) => Some(webhook),
            Err(error) => {
                tracing::error!(%error, "left out of a list");
                None
            }
        });
        Ok(readable.collect())
    }

    /// Returns a page of the deliveries of a webhook.
    pub(crate) async fn list_deliveries(&self, page: &DeliveryPage) -> Result<Vec<Delivery>, Error> {
        let before = page.before.map_or(i64::MAX, |number| number as i64);
        let state = page.state.map_or(0, DeliveryState::code);
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&page.webhook.0, &before, &i64::from(page.limit), &page.bodies, &state];
        let found = match page.state {
            None => self.query(&sql::WEBHOOK_DELIVERIES_LIST, &parameters[..4]).await?,
            Some(_) => self.query(&sql::WEBHOOK_DELIVERIES_LIST_BY_STATE, &parameters).await?,
        };
        found.iter().map(delivery).collect()
    }
}

/// Returns the parameters of `webhooks/lock`.
pub fn names(names: &[WebhookName]) -> Parameters<'static> {
    vec![
        Box::new(names.iter().map(|name| name.namespace.0).collect::<Vec<i32>>()),
        Box::new(names.iter().map(|name| name.name.to_string()).collect::<Vec<String>>()),
    ]
}

/// Returns the parameters of `webhook_deliveries/find`.
pub fn delivery_ids(ids: &[DeliveryId]) -> Parameters<'static> {
    vec![Box::new(ids.iter().map(|id| id.0).collect::<Vec<Uuid>>())]
}

/// Adds webhooks to the rows.
pub fn gather(answer: &[Row], rows: &mut Rows) -> Result<(), Error> {
    for row in answer {
        rows.webhooks.push(webhook(row)?);
    }
    Ok(())
}

/// Adds deliveries to the rows.
pub fn gather_deliveries(answer: &[Row], rows: &mut Rows) -> Result<(), Error> {
    for row in answer {
        rows.deliveries.push(delivery(row)?);
    }
    Ok(())
}

/// Saves webhooks and deliveries.
pub fn save<'a>(changes: &'a Changes, saving: &mut Saving<'a>) {
    let detail = |webhook: &Webhook| webhook.detail.encode();
    saving.rows(&changes.webhooks.deleted, &sql::WEBHOOKS_DELETE, |rows| {
        vec![
            column(rows, |(name, _)| name.namespace.0),
            column(rows, |(name, _)| name.name.as_str()),
            column(rows, |(_, version)| *version as i32),
        ]
    });
    saving.rows(&changes.webhooks.inserted, &sql::WEBHOOKS_INSERT, |rows| {
        vec![
            column(rows, |row| row.name.namespace.0),
            column(rows, |row| row.name.name.as_str()),
            column(rows, |row| row.version as i32),
            column(rows, detail),
        ]
    });
    saving.rows(&changes.webhooks.updated, &sql::WEBHOOKS_UPDATE, |rows| {
        vec![
            column(rows, |(row, _)| row.name.namespace.0),
            column(rows, |(row, _)| row.name.name.as_str()),
            column(rows, |(row, _)| row.version as i32),
            column(rows, |(row, _)| detail(row)),
            column(rows, |(_, expected)| *expected as i32),
        ]
    });
    saving.rows(&changes.unread.webhooks_removed, &sql::WEBHOOK_DELIVERIES_DELETE, |ids| {
        vec![column(ids, |id| id.0)]
    });
    saving.rows(&changes.deliveries, &sql::WEBHOOK_DELIVERIES_UPSERT, |rows| {
        vec![
            column(rows, |row| row.webhook.0),
            column(rows, |row| row.number as i64),
            column(rows, |row| row.id.0),
            column(rows, |row| row.state.code()),
            column(rows, |row| row.detail.encode()),
            column(rows, |row| row.body.as_ref()),
        ]
    });
    saving.rows(&changes.unread.deliveries_pruned, &sql::WEBHOOK_DELIVERIES_PRUNE, |pruned| {
        vec![column(pruned, |(webhook, _)| webhook.0), column(pruned, |(_, number)| *number as i64)]
    });
}

/// Reads the webhook in a row of `{webhook}`.
fn webhook(row: &Row) -> Result<Webhook, Error> {
    let name = WebhookName { namespace: NamespaceId(row.get(0)), name: Name::trusted(row.get(1)) };
    let unreadable =
        |error| Error::Failed(format!("webhook {:?} cannot be read: {error}", name.name.as_str()));
    let detail = serde_json::from_str(row.get(3)).map_err(unreadable)?;
    Ok(Webhook { version: row.get::<_, i32>(2) as u32, detail, name })
}

/// Reads the delivery in a row of `{delivery}` and the body.
fn delivery(row: &Row) -> Result<Delivery, Error> {
    let id = DeliveryId(row.get(2));
    let unreadable = |detail: String| Error::Failed(format!("delivery {id} cannot be read: {detail}"));
    let code: i16 = row.get(3);
    let state = DeliveryState::from_code(code).ok_or_else(|| unreadable(format!("unknown state {code}")))?;
    let detail = serde_json::from_str(row.get(4)).map_err(|error| unreadable(error.to_string()))?;
    Ok(Delivery {
        webhook: WebhookId(row.get(0)),
        number: row.get::<_, i64>(1) as u64,
        id,
        state,
        detail,
        body: row.get::<_, Vec<u8>>(5).into(),
    })
}
