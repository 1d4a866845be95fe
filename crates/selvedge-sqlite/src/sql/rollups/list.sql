-- Returns a page of the rollups of a namespace, in key order.
-- Index: the primary key of rollups.
-- Parameters: ?1 namespace, ?2 the first minute, ?3 the end, ?4 to ?6 the minute, lane and server to begin after, ?7 limit
select minute_at, lane, server, counts
from rollups
where namespace = ?1
  and minute_at >= ?2
  and minute_at < ?3
  and (minute_at, lane, server) > (?4, ?5, ?6)
order by minute_at, lane, server
limit ?7
