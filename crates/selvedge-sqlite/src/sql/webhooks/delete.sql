-- Deletes a webhook if it has the expected version.
-- Index: the primary key of webhooks.
-- Parameters: ?1 namespace, ?2 name, ?3 expected version
delete from webhooks
where namespace = ?1
  and name = ?2
  and version = ?3
