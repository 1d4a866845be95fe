//! Webhooks and their deliveries.

use crate::SqliteStore;
use crate::connection::failure::not_understood;
use crate::kinds::{Kind, Saving};
use crate::row;
use crate::sql::{self, columns, statements};
use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use selvedge_core::webhook::{Delivery, DeliveryId, DeliveryState, Webhook, WebhookId, WebhookName};
use selvedge_core::{Changes, NamespaceId, Needs, Rows};
use selvedge_store::{DeliveryPage, Error, WebhookReads};

pub(crate) const KIND: Kind = Kind {
    columns: &[("webhook", webhook::LIST), ("delivery", delivery::LIST)],
    statements: STATEMENTS,
    load,
    save,
    ..Kind::EMPTY
};

statements! {
    WEBHOOK_DELIVERIES_DELETE = "webhook_deliveries/delete";
    WEBHOOK_DELIVERIES_FIND = "webhook_deliveries/find";
    WEBHOOK_DELIVERIES_LIST = "webhook_deliveries/list";
    WEBHOOK_DELIVERIES_LIST_BY_STATE = "webhook_deliveries/list_by_state";
    WEBHOOK_DELIVERIES_PRUNE = "webhook_deliveries/prune";
    WEBHOOK_DELIVERIES_UPSERT = "webhook_deliveries/upsert";
    WEBHOOKS_DELETE = "webhooks/delete";
    WEBHOOKS_FIND = "webhooks/find";
    WEBHOOKS_INSERT = "webhooks/insert";
    WEBHOOKS_LIST = "webhooks/list";
    WEBHOOKS_UPDATE = "webhooks/update";
}

columns! {
    webhook of webhook: &Webhook {
        namespace = webhook.name.namespace.0,
        name = webhook.name.name.as_str(),
        version = webhook.version,
        detail = webhook.detail.encode(),
    }
}

// Without the body.
columns! {
    delivery of delivery: &Delivery {
        webhook = delivery.webhook.0.as_bytes(),
        number = delivery.number as i64,
        id = delivery.id.0.as_bytes(),
        state = delivery.state.code(),
        detail = delivery.detail.encode(),
    }
}

fn decode(found: &Row<'_>) -> rusqlite::Result<Webhook> {
    use webhook::AT;
    let (namespace, name) = (NamespaceId(found.get(AT.namespace)?), row::name(found, AT.name)?);
    Ok(Webhook {
        name: WebhookName { namespace, name },
        version: found.get(AT.version)?,
        detail: row::json(found, AT.detail, "detail")?,
    })
}

fn decode_delivery(found: &Row<'_>) -> rusqlite::Result<Delivery> {
    use delivery::{AT, COUNT};
    let code = found.get(AT.state)?;
    let unknown = || not_understood(&format!("unknown state {code} of a delivery"));
    Ok(Delivery {
        webhook: WebhookId(row::uuid(found, AT.webhook)?),
        number: found.get::<_, i64>(AT.number)? as u64,
        id: DeliveryId(row::uuid(found, AT.id)?),
        state: DeliveryState::from_code(code).ok_or_else(unknown)?,
        detail: row::json(found, AT.detail, "detail")?,
        body: row::bytes(found, COUNT)?,
    })
}

fn find(connection: &Connection, name: &WebhookName) -> rusqlite::Result<Option<Webhook>> {
    sql::row(connection, &WEBHOOKS_FIND, params![name.namespace.0, name.name.as_str()], decode)
}

fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for name in needs.webhooks.keys() {
        rows.webhooks.extend(find(connection, name)?);
    }
    for id in needs.deliveries.keys() {
        let found = sql::row(connection, &WEBHOOK_DELIVERIES_FIND, [id.0.as_bytes()], decode_delivery)?;
        rows.deliveries.extend(found);
    }
    Ok(())
}

fn save(connection: &Connection, changes: &Changes, _: &mut Saving) -> rusqlite::Result<Option<String>> {
    for (name, version) in &changes.webhooks.deleted {
        let parameters = params![name.namespace.0, name.name.as_str(), version];
        if sql::execute(connection, &WEBHOOKS_DELETE, parameters)? == 0 {
            return Ok(Some(format!("webhook {:?} has moved", name.name.as_str())));
        }
    }
    for (webhook, expected) in changes.webhooks.versioned() {
        let (written, failed) = match expected {
            None => (webhook::write(connection, &WEBHOOKS_INSERT, webhook, &[])?, "exists"),
            Some(expected) => {
                (webhook::write(connection, &WEBHOOKS_UPDATE, webhook, &[&expected])?, "has moved")
            }
        };
        if written == 0 {
            return Ok(Some(format!("webhook {:?} {failed}", webhook.name.name.as_str())));
        }
    }
    for id in &changes.unread.webhooks_removed {
        sql::execute(connection, &WEBHOOK_DELIVERIES_DELETE, [id.0.as_bytes()])?;
    }
    for delivery in &changes.deliveries {
        delivery::write(connection, &WEBHOOK_DELIVERIES_UPSERT, delivery, &[&delivery.body.as_ref()])?;
    }
    for (webhook, number) in &changes.unread.deliveries_pruned {
        let parameters = params![webhook.0.as_bytes(), *number as i64, DeliveryState::Delivered.code()];
        sql::execute(connection, &WEBHOOK_DELIVERIES_PRUNE, parameters)?;
    }
    Ok(None)
}

#[async_trait]
impl WebhookReads for SqliteStore {
    async fn webhook(&self, name: &WebhookName) -> Result<Option<Webhook>, Error> {
        let name = name.clone();
        self.read("webhook", move |connection| find(connection, &name)).await
    }

    /// Unreadable webhooks are left out.
    async fn webhooks(
        &self,
        namespace: Option<NamespaceId>,
        after: Option<&WebhookName>,
        limit: u32,
    ) -> Result<Vec<Webhook>, Error> {
        let first = namespace.map_or(i32::MIN, |namespace| namespace.0);
        let last = namespace.map_or(i32::MAX, |namespace| namespace.0);
        let after = after.map(|after| (after.namespace.0, after.name.to_string()));
        let (from, name) = after.unwrap_or((first, String::new()));
        self.read("webhooks", move |connection| {
            sql::readable_rows(connection, &WEBHOOKS_LIST, params![from, name, last, limit], limit, decode)
        })
        .await
    }

    async fn deliveries(&self, page: &DeliveryPage) -> Result<Vec<Delivery>, Error> {
        let page = *page;
        let before = page.before.map_or(i64::MAX, |number| number as i64);
        self.read("deliveries", move |connection| {
            let webhook = page.webhook.0.as_bytes();
            match page.state.map(DeliveryState::code) {
                None => {
                    let parameters = params![webhook, before, page.limit, page.bodies];
                    sql::rows(connection, &WEBHOOK_DELIVERIES_LIST, parameters, decode_delivery)
                }
                Some(state) => {
                    let parameters = params![webhook, before, page.limit, page.bodies, state];
                    sql::rows(connection, &WEBHOOK_DELIVERIES_LIST_BY_STATE, parameters, decode_delivery)
                }
            }
        })
        .await
    }
}
