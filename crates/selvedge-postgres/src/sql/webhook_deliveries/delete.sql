-- Deletes the deliveries of deleted webhooks.
-- Locks: the rows; the caller has locked their webhooks. Index: webhook_deliveries_pkey.
delete from webhook_deliveries
where webhook = any($1)
