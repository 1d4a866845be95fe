-- Returns a step by name.
-- Index: steps_name.
-- Parameters: ?1 execution, ?2 name
select {step}
from steps indexed by steps_name
where execution = ?1
  and name = ?2
