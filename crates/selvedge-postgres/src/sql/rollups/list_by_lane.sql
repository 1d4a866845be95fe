-- Returns a page of the rollups of namespace $1 and lane $8 from minute $2 on and before $3, after the key ($4, $5, $6), in
-- key order.
-- Locks: none. Index: rollups_pkey, once per minute.
select found.*
from generate_series(
  date_trunc('minute', greatest($2::timestamptz, $4::timestamptz), 'UTC'),
  $3::timestamptz,
  interval '1 minute'
) as minutes (at)
cross join lateral (
  select {rollup}
  from rollups
  where namespace = $1
    and minute_at = minutes.at
    and minute_at >= $2
    and minute_at < $3
    and lane = $8::text collate "C"
    and (minute_at, lane, server) > ($4, $5::text collate "C", $6::bigint)
) as found
order by minute_at, server
limit $7
