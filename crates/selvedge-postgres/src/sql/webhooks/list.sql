-- Returns a page of the webhooks of a namespace, or of all, behind a name.
-- Locks: none. Index: webhooks_pkey.
select {webhook}
from webhooks
where (namespace, name) > ($1, $2)
  and ($3::integer is null or namespace = $3)
order by namespace, name
limit $4
