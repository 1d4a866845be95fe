-- Deletes the delivered deliveries of a webhook before a number.
-- Index: webhook_deliveries_state.
-- Parameters: ?1 webhook, ?2 number, ?3 the state
delete from webhook_deliveries
where webhook = ?1
  and state = ?3
  and number < ?2
