-- Returns the tags of a flow if it has the expected version.
-- Index: the unique index on flows.id.
-- Parameters: ?1 id, ?2 expected version
select tags
from flows
where id = ?1
  and version = ?2
