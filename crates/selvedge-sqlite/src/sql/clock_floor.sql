-- The latest time that the file shows to have passed. Expects the primary key of log; sessions are few.
select max(
  ifnull((select at from log order by number desc limit 1), 0),
  ifnull((select max(max(seen_at), ifnull(max(renewed_at), 0)) from sessions), 0)
)
