-- Locks webhooks by name.
-- Locks: the webhooks, in the order of their names. Index: webhooks_pkey, nested loop.
select {webhook_of_table}
from unnest($1::integer[], $2::text[]) as wanted (namespace, name)
join webhooks on webhooks.namespace = wanted.namespace
  and webhooks.name = wanted.name collate "C"
order by wanted.namespace, wanted.name collate "C"
for update of webhooks
