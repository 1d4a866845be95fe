-- How many ready ones of a class come before a place, counted up to a bound. Index: executions_claim, two ranges.
select count(*)
from (
  (
    select
    from executions
    where class = $1
      and state = 0
      and priority > $2
    limit $5
  )
  union all
  (
    select
    from executions
    where class = $1
      and state = 0
      and priority = $2
      and (ready_order, id) < ($3, $4)
    limit $5
  )
) as ahead
