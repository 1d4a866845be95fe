-- Updates the flow and the wiring of an execution whose update has passed its guard.
-- Index: the unique index on executions.id.
-- Parameters: ?1 id, ?2 partition, ?3 flow, ?4 wiring
update executions
set
  partition = ?2,
  flow = ?3,
  wiring = ?4
where id = ?1
