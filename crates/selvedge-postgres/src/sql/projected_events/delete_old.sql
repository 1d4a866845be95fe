-- Deletes up to $1 events of the projection whose entries were dropped from the log, oldest first. A cursor begins with a
-- version digit and the number of its entry in hexadecimal.
-- Locks: the events that no other transaction has locked. Index: projected_events_pkey, log_window_pkey.
delete from projected_events
where cursor = any(
  array(
    select cursor
    from projected_events
    where cursor < (select '2' || lpad(to_hex(dropped + 1), 16, '0') from log_window where single)
    order by cursor
    limit $1
    for update skip locked
  )
)
