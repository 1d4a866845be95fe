-- Saves the refusals of rows of the inbox. A row without one waits again, as a row of this transaction: servers find it.
-- Locks: the rows. Index: inbox_pkey.
update inbox
set refused_at = changed.refused_at,
  problem = changed.problem::json,
  xid = case when changed.refused_at is null then pg_current_xact_id() else inbox.xid end
from unnest($1::bigint[], $2::timestamptz[], $3::text[]) as changed (number, refused_at, problem)
where inbox.number = changed.number
