-- Returns a page of the rollups of namespace $1 from minute $2 on and before $3, after the key ($4, $5, $6), in key order.
-- Locks: none. Index: rollups_pkey.
select {rollup}
from rollups
where namespace = $1
  and minute_at >= $2
  and minute_at < $3
  and (minute_at, lane, server) > ($4, $5::text collate "C", $6::bigint)
order by minute_at, lane, server
limit $7
