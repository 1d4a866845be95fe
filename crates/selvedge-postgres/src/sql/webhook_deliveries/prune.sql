-- Deletes the delivered deliveries of webhooks before a number of each.
-- Locks: the rows; the caller has locked their webhooks. Index: webhook_deliveries_state, nested loop.
delete from webhook_deliveries
using unnest($1::uuid[], $2::bigint[]) as kept (webhook, number)
where webhook_deliveries.webhook = kept.webhook
  and webhook_deliveries.state = {delivery_delivered}
  and webhook_deliveries.number < kept.number
