-- Returns a delivery by its id, with its body.
-- Index: webhook_deliveries_id.
-- Parameters: ?1 id
select {delivery}, body
from webhook_deliveries
where id = ?1
