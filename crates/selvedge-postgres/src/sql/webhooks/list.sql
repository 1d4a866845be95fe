-- Returns a page of the webhooks behind a name, up to a namespace.
-- Locks: none. Index: webhooks_pkey.
select {webhook}
from webhooks
where (namespace, name) > ($1, $2)
  and namespace <= $3
order by namespace, name
limit $4
