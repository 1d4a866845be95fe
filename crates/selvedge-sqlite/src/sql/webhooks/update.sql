-- Updates a webhook if it has the expected version.
-- Index: the primary key of webhooks.
-- Parameters: ?1 to ?4 as {webhook}, ?5 expected version
update webhooks
set
  version = ?3,
  detail = ?4
where namespace = ?1
  and name = ?2
  and version = ?5
