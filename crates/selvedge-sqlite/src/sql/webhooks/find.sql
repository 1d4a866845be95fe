-- Returns a webhook.
-- Index: the primary key of webhooks.
-- Parameters: ?1 namespace, ?2 name
select {webhook}
from webhooks
where namespace = ?1
  and name = ?2
