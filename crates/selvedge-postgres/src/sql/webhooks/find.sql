-- Returns a webhook.
-- Locks: none. Index: webhooks_pkey.
select {webhook}
from webhooks
where namespace = $1
  and name = $2
