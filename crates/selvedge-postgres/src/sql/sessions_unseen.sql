-- Sessions that were not seen for long and hold nothing. Index: executions_lease.
select id
from sessions
where seen_at < clock_timestamp() - $1::bigint * interval '1 millisecond'
  and not exists (select from executions where executions.session = sessions.id)
order by seen_at
limit $2
