//! Webhooks and their deliveries.

use crate::PostgresStore;
use crate::kinds::{Asking, Saving, collect};
use crate::read::readable;
use crate::sql::{array, column, columns, statements};
use async_trait::async_trait;
use selvedge_core::webhook::{Delivery, DeliveryId, DeliveryState, Webhook, WebhookId, WebhookName};
use selvedge_core::{Name, NamespaceId};
use selvedge_store::{DeliveryPage, Error, WebhookReads};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

statements! {
    with {
        webhook: webhook::list(),
        webhook_of_table: webhook::list_of("webhooks"),
        webhook_types: webhook::types(1),
        delivery: delivery::list(),
        delivery_types: delivery::types(1),
    }
    DELETE = "webhooks/delete";
    FIND = "webhooks/find";
    INSERT = "webhooks/insert";
    LIST = "webhooks/list";
    LOCK = "webhooks/lock";
    UPDATE = "webhooks/update";
    DELIVERIES_DELETE = "webhook_deliveries/delete";
    DELIVERIES_FIND = "webhook_deliveries/find";
    DELIVERIES_LIST = "webhook_deliveries/list";
    DELIVERIES_LIST_BY_STATE = "webhook_deliveries/list_by_state";
    DELIVERIES_PRUNE = "webhook_deliveries/prune";
    DELIVERIES_UPSERT = "webhook_deliveries/upsert";
}

columns! {
    webhook<'a> of row: &'a Webhook {
        namespace: i32 = row.name.namespace.0,
        name: &'a str = row.name.name.as_str(),
        version: i32 = row.version as i32,
        detail: String = row.detail.encode(),
    }
}

// The body is the last column: lists of deliveries may leave it out.
columns! {
    delivery<'a> of row: &'a Delivery {
        webhook: Uuid = row.webhook.0,
        number: i64 = row.number as i64,
        id: Uuid = row.id.0,
        state: i16 = row.state.code(),
        detail: String = row.detail.encode(),
    }
}

fn decode(row: &Row) -> Result<Webhook, Error> {
    use webhook::AT;
    let name =
        WebhookName { namespace: NamespaceId(row.get(AT.namespace)), name: Name::trusted(row.get(AT.name)) };
    let unreadable =
        |error| Error::Failed(format!("webhook {:?} cannot be read: {error}", name.name.as_str()));
    let detail = serde_json::from_str(row.get(AT.detail)).map_err(unreadable)?;
    Ok(Webhook { version: row.get::<_, i32>(AT.version) as u32, detail, name })
}

/// Reads a delivery, whose body is behind the other columns.
fn decode_delivery(row: &Row) -> Result<Delivery, Error> {
    use delivery::AT;
    let id = DeliveryId(row.get(AT.id));
    let unreadable = |detail: String| Error::Failed(format!("delivery {id} cannot be read: {detail}"));
    let code: i16 = row.get(AT.state);
    let state = DeliveryState::from_code(code).ok_or_else(|| unreadable(format!("unknown state {code}")))?;
    let detail = serde_json::from_str(row.get(AT.detail)).map_err(|error| unreadable(error.to_string()))?;
    Ok(Delivery {
        webhook: WebhookId(row.get(AT.webhook)),
        number: row.get::<_, i64>(AT.number) as u64,
        id,
        state,
        detail,
        body: row.get::<_, Vec<u8>>(delivery::COUNT).into(),
    })
}

pub fn lock(asking: &mut Asking<'_>) {
    let names = |names: &[WebhookName]| {
        vec![array(names, |name| name.namespace.0), array(names, |name| name.name.to_string())]
    };
    asking.lock(&asking.needs.webhooks, &LOCK, names, collect(decode, |rows| &mut rows.webhooks));
}

/// Reads deliveries. The caller locks their webhooks before it changes one.
pub fn read_deliveries(asking: &mut Asking<'_>) {
    let gather = collect(decode_delivery, |rows| &mut rows.deliveries);
    asking.read(&asking.needs.deliveries, &DELIVERIES_FIND, |ids| vec![array(ids, |id| id.0)], gather);
}

pub fn save(saving: &mut Saving<'_>) {
    let changes = saving.changes;
    saving.rows(&changes.webhooks.deleted, &DELETE, |rows| {
        vec![
            column(rows, |(name, _)| name.namespace.0),
            column(rows, |(name, _)| name.name.as_str()),
            column(rows, |(_, version)| *version as i32),
        ]
    });
    saving.rows(&changes.webhooks.inserted, &INSERT, webhook::arrays);
    saving.rows(&changes.webhooks.updated, &UPDATE, |rows| {
        let mut parameters = webhook::arrays(rows.iter().map(|(row, _)| row));
        parameters.push(column(rows, |(_, expected)| *expected as i32));
        parameters
    });
    saving.rows(&changes.unread.webhooks_removed, &DELIVERIES_DELETE, |ids| vec![array(ids, |id| id.0)]);
    saving.rows(&changes.deliveries, &DELIVERIES_UPSERT, |rows| {
        let mut parameters = delivery::arrays(rows);
        parameters.push(column(rows, |row| row.body.as_ref()));
        parameters
    });
    saving.rows(&changes.unread.deliveries_pruned, &DELIVERIES_PRUNE, |pruned| {
        vec![array(pruned, |(webhook, _)| webhook.0), array(pruned, |(_, number)| *number as i64)]
    });
}

#[async_trait]
impl WebhookReads for PostgresStore {
    async fn webhook(&self, name: &WebhookName) -> Result<Option<Webhook>, Error> {
        self.first("webhook", &FIND, &[&name.namespace.0, &name.name.as_str()], decode).await
    }

    async fn webhooks(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<&WebhookName>,
        limit: u32,
    ) -> Result<Vec<Webhook>, Error> {
        let first = namespace.map_or(i32::MIN, |namespace| namespace.0);
        let last = namespace.map_or(i32::MAX, |namespace| namespace.0);
        let (from, name) = after.map_or((first, ""), |after| (after.namespace.0, after.name.as_str()));
        let parameters: [&(dyn ToSql + Sync); 4] = [&from, &name, &last, &i64::from(limit)];
        let rows = self.meter.measure("webhooks", self.query(&LIST, &parameters)).await?;
        Ok(readable(&rows, decode).collect())
    }

    async fn deliveries(&self, page: &DeliveryPage) -> Result<Vec<Delivery>, Error> {
        let before = page.before.map_or(i64::MAX, |number| number as i64);
        let state = page.state.map_or(0, DeliveryState::code);
        let parameters: [&(dyn ToSql + Sync); 5] =
            [&page.webhook.0, &before, &i64::from(page.limit), &page.bodies, &state];
        let (text, parameters) = match page.state {
            None => (&DELIVERIES_LIST, &parameters[..4]),
            Some(_) => (&DELIVERIES_LIST_BY_STATE, &parameters[..]),
        };
        self.all("deliveries", text, parameters, decode_delivery).await
    }
}
