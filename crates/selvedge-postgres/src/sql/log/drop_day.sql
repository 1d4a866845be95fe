-- Drops the partition of a day and records its highest number in log_window. Sent as one message, so it takes effect as
-- a whole or not at all.
-- Locks: log exclusively, so that no entry of that day can be appended any more; readers and writers queue behind that
-- lock, so the lock timeout is short. Then the partition, without waiting. Index: none.
set local lock_timeout = {wait_ms};
lock table only log in access exclusive mode;
lock table only {day} in access exclusive mode nowait;
update log_window
set dropped = greatest(dropped, (select max(number) from {day}))
where single;
drop table {day};
