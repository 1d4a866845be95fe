-- Returns a page of a namespace's flows, newest first.
-- Locks: none. Index: flows_list, backwards.
select {flow}
from flows
where namespace = $1
  and (submitted_at, id) < ($2, $3)
  and submitted_at >= $4
  and submitted_at < $5
  and ($6::text is null or name = $6)
order by submitted_at desc, id desc
limit $7
