-- Returns the entries of a page of a namespace's active executions, newest first. They are few: the leases that its workers hold.
-- Locks: none. Index: sessions_instance, then executions_lease, once per session of the namespace; then a sort.
select {listed}
from sessions as holder
join executions on executions.session = holder.id
where holder.namespace = $1
  and executions.session is not null
  and executions.namespace = $1
  and (submitted_at, executions.id) < ($2, $3)
  and submitted_at >= $4
  and submitted_at < $5
  and ($6::integer[] is null or class in (select unnest($6)))
  and ($7::smallint[] is null or state = any($7))
order by submitted_at desc, executions.id desc
limit $8
