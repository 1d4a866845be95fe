-- Lets the time of the store go on from $1, unless it is later already, or the clock is behind by {clock_bridged_max} or more:
-- then returns false.
-- Locks: the row. Index: store_clock_pkey.
with changed as (
  update store_clock
  set clock_at = clock_timestamp(),
    store_at = $1
  where single
    and $1 > greatest(clock_timestamp(), {carried_on})
    and $1 < clock_timestamp() + interval '{clock_bridged_max}'
)
select $1 < clock_timestamp() + interval '{clock_bridged_max}'
