-- Returns the id of the class with exactly these values.
-- Index: the unique index of classes.
-- Parameters: ?1 namespace, ?2 lane, ?3 kind, ?4 capabilities
select id
from classes
where namespace = ?1
  and lane = ?2
  and kind = ?3
  and capabilities = ?4
