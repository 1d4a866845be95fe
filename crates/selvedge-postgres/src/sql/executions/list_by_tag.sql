-- Returns the entries of a page of a namespace's executions with tag $9, newest first.
-- Locks: none. Index: tags_pkey, backwards, then executions_pkey.
select {listed}
from (
  select tags.execution
  from tags
  where tags.namespace = $1
    and tags.tag = $9
    and (tags.submitted_at, tags.execution) < ($2, $3)
    and tags.submitted_at >= $4
    and tags.submitted_at < $5
  order by tags.submitted_at desc, tags.execution desc
) as tagged
join executions on executions.id = tagged.execution
where ($6::integer[] is null or class in (select unnest($6)))
  and ($7::smallint[] is null or state = any($7))
limit $8
