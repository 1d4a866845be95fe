-- Returns a page of the rollups of a lane, in key order. Looks each minute up.
-- Index: the primary key of rollups, once per minute.
-- Parameters: as in rollups/list, and ?8 lane, ?9 the minute to begin with
with recursive minutes (at) as (
  select ?9
  union all
  select at + 60000000
  from minutes
  where at + 60000000 < ?3
)
select rollups.minute_at, rollups.lane, rollups.server, rollups.counts
from minutes
cross join rollups
where rollups.namespace = ?1
  and rollups.minute_at = minutes.at
  and rollups.lane = ?8
  and rollups.minute_at >= ?2
  and rollups.minute_at < ?3
  and (rollups.minute_at, rollups.lane, rollups.server) > (?4, ?5, ?6)
order by rollups.minute_at, rollups.lane, rollups.server
limit ?7
