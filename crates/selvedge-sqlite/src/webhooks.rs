//! Webhooks and their deliveries: read, loaded and saved.

use crate::connection::failure::{is_not_understood, not_understood};
use crate::read::all;
use crate::{row, sql};
use rusqlite::{Connection, OptionalExtension, Row, params};
use selvedge_core::webhook::{Delivery, DeliveryId, DeliveryState, Webhook, WebhookId, WebhookName};
use selvedge_core::{Changes, NamespaceId, Needs, Rows};
use selvedge_store::DeliveryPage;

/// Returns a webhook.
pub fn find(connection: &Connection, name: &WebhookName) -> rusqlite::Result<Option<Webhook>> {
    let parameters = params![name.namespace.0, name.name.as_str()];
    connection.prepare_cached(&sql::WEBHOOKS_FIND)?.query_row(parameters, webhook).optional()
}

/// Returns a page of the webhooks. Unreadable ones are left out: they must not stop the others.
pub fn list(
    connection: &Connection,
    namespace: Option<NamespaceId>,
    after: Option<&WebhookName>,
    limit: u32,
) -> rusqlite::Result<Vec<Webhook>> {
    let first = namespace.map_or(i32::MIN, |namespace| namespace.0);
    let last = namespace.map_or(i32::MAX, |namespace| namespace.0);
    let (from, name) = after.map_or((first, ""), |after| (after.namespace.0, after.name.as_str()));
    let mut statement = connection.prepare_cached(&sql::WEBHOOKS_LIST)?;
    let mut found = statement.query(params![from, name, last, limit])?;
    let mut webhooks = Vec::new();
    while let Some(row) = found.next()? {
        match webhook(row) {
            Ok(webhook) => webhooks.push(webhook),
            Err(error) if is_not_understood(&error) => tracing::error!(%error, "left out of a list"),
            Err(error) => return Err(error),
        }
    }
    Ok(webhooks)
}

/// Returns a page of the deliveries of a webhook.
pub fn deliveries(connection: &Connection, page: &DeliveryPage) -> rusqlite::Result<Vec<Delivery>> {
    let before = page.before.map_or(i64::MAX, |number| number as i64);
    let webhook = page.webhook.0.as_bytes();
    match page.state {
        None => {
            let parameters = params![webhook, before, page.limit, page.bodies];
            all(connection, &sql::WEBHOOK_DELIVERIES_LIST, parameters, delivery)
        }
        Some(state) => {
            let parameters = params![webhook, before, page.limit, page.bodies, state.code()];
            all(connection, &sql::WEBHOOK_DELIVERIES_LIST_BY_STATE, parameters, delivery)
        }
    }
}

/// Loads the webhooks and deliveries that `needs` names.
pub fn load(connection: &Connection, needs: &Needs, rows: &mut Rows) -> rusqlite::Result<()> {
    for name in needs.webhooks.keys() {
        rows.webhooks.extend(find(connection, name)?);
    }
    for id in needs.deliveries.keys() {
        let found = all(connection, &sql::WEBHOOK_DELIVERIES_FIND, [id.0.as_bytes()], delivery)?;
        rows.deliveries.extend(found);
    }
    Ok(())
}

/// Saves webhooks and deliveries. Returns the first guard that failed.
pub fn save(connection: &Connection, changes: &Changes) -> rusqlite::Result<Option<String>> {
    for (name, version) in &changes.webhooks.deleted {
        let parameters = params![name.namespace.0, name.name.as_str(), version];
        if connection.prepare_cached(&sql::WEBHOOKS_DELETE)?.execute(parameters)? == 0 {
            return Ok(Some(format!("webhook {:?} has moved", name.name.as_str())));
        }
    }
    for (webhook, expected) in changes.webhooks.versioned() {
        let Webhook { name, version, detail } = webhook;
        let detail = detail.encode();
        let (namespace, name) = (name.namespace.0, name.name.as_str());
        let written = match expected {
            None => connection
                .prepare_cached(&sql::WEBHOOKS_INSERT)?
                .execute(params![namespace, name, version, detail])?,
            Some(expected) => connection
                .prepare_cached(&sql::WEBHOOKS_UPDATE)?
                .execute(params![namespace, name, version, detail, expected])?,
        };
        if written == 0 {
            let moved = if expected.is_some() { "has moved" } else { "exists" };
            return Ok(Some(format!("webhook {name:?} {moved}")));
        }
    }
    for id in &changes.unread.webhooks_removed {
        connection.prepare_cached(&sql::WEBHOOK_DELIVERIES_DELETE)?.execute([id.0.as_bytes()])?;
    }
    for delivery in &changes.deliveries {
        connection.prepare_cached(&sql::WEBHOOK_DELIVERIES_UPSERT)?.execute(params![
            delivery.webhook.0.as_bytes(),
            delivery.number as i64,
            delivery.id.0.as_bytes(),
            delivery.state.code(),
            delivery.detail.encode(),
            delivery.body.as_ref(),
        ])?;
    }
    for (webhook, number) in &changes.unread.deliveries_pruned {
        connection.prepare_cached(&sql::WEBHOOK_DELIVERIES_PRUNE)?.execute(params![
            webhook.0.as_bytes(),
            *number as i64,
            DeliveryState::Delivered.code(),
        ])?;
    }
    Ok(None)
}

/// Reads the webhook in a row of `{webhook}`.
fn webhook(found: &Row<'_>) -> rusqlite::Result<Webhook> {
    Ok(Webhook {
        name: WebhookName { namespace: NamespaceId(found.get(0)?), name: row::name(found, 1)? },
        version: found.get(2)?,
        detail: row::json(found, 3, "detail")?,
    })
}

/// Reads the delivery in a row of `{delivery}` and the body.
fn delivery(found: &Row<'_>) -> rusqlite::Result<Delivery> {
    let code = found.get(3)?;
    let unknown = || not_understood(&format!("unknown state {code} of a delivery"));
    Ok(Delivery {
        webhook: WebhookId(row::uuid(found, 0)?),
        number: found.get::<_, i64>(1)? as u64,
        id: DeliveryId(row::uuid(found, 2)?),
        state: DeliveryState::from_code(code).ok_or_else(unknown)?,
        detail: row::json(found, 4, "detail")?,
        body: row::bytes(found, 5)?,
    })
}
