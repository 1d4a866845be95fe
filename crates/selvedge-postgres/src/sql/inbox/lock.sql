-- Locks rows of the inbox by number, except those that another transaction has locked.
-- Locks: the rows, by number. Index: inbox_pkey.
select number, namespace, refused_at, problem::text
from inbox
where number = any($1)
order by number
for update skip locked
