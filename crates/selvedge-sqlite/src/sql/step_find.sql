-- Expects the index steps_name.
-- ?1 execution, ?2 name
select {step}
from steps indexed by steps_name
where execution = ?1
  and name = ?2
