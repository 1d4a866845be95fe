-- Deletes the deliveries of a deleted webhook.
-- Index: the primary key of webhook_deliveries.
-- Parameters: ?1 webhook
delete from webhook_deliveries
where webhook = ?1
