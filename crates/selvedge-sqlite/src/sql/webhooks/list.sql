-- Returns a page of the webhooks of a namespace, or of all, behind a name.
-- Index: the primary key of webhooks.
-- Parameters: ?1 namespace and ?2 name of the last one, ?3 namespace or null, ?4 limit
select {webhook}
from webhooks
where (namespace, name) > (?1, ?2)
  and (?3 is null or namespace = ?3)
order by namespace, name
limit ?4
