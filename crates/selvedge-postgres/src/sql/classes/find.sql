-- Returns the class with exactly these values.
-- Locks: none. Index: classes_namespace_lane_kind_capabilities_key.
select id, namespace, lane, kind, capabilities
from classes
where namespace = $1
  and lane = $2
  and kind = $3
  and capabilities = $4
