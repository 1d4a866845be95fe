-- Returns a flow.
-- Index: the unique index on flows.id.
-- Parameters: ?1 id
select {flow}, {counts}
from flows
where id = ?1
