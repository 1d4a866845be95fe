-- Returns a page of the webhooks behind a name, up to a namespace.
-- Index: the primary key of webhooks.
-- Parameters: ?1 namespace and ?2 name of the last one, ?3 the last namespace, ?4 limit
select {webhook}
from webhooks
where (namespace, name) > (?1, ?2)
  and namespace <= ?3
order by namespace, name
limit ?4
