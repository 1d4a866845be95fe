-- The tags of a flow that has the expected version. Expects the unique index on id.
-- ?1 id, ?2 expected version
select tags
from flows
where id = ?1
  and version = ?2
