-- Deletes up to $2 rows of the inbox that were refused longer than $1 milliseconds ago, and returns their numbers. An index
-- condition cannot contain a volatile function, so the time is read once in a subquery.
-- Locks: the rows that no other transaction has locked. Index: inbox_refused_at, inbox_pkey.
delete from inbox
where number = any(array(
  select number
  from inbox
  where refused_at is not null
    and refused_at < (select {now} - $1::bigint * interval '1 millisecond')
  order by refused_at
  limit $2
  for update skip locked
))
returning number
