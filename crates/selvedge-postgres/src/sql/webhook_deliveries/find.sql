-- Returns deliveries by id, with their bodies.
-- Locks: none. Index: webhook_deliveries_id.
select {delivery}, body
from webhook_deliveries
where id = any($1)
