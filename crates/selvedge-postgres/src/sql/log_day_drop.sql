-- Drops the partition of a day and notes up to which number the log is gone; sent as one message, so it happens whole or not
-- at all. Locks: log, alone, so that no entry can come to that day any more; the wait for it is short, because readers and
-- writers that come later wait behind it. Then the partition, without waiting.
set local lock_timeout = {wait_ms};
lock table only log in access exclusive mode;
lock table only {day} in access exclusive mode nowait;
update log_window
set dropped = greatest(dropped, (select max(number) from {day}))
where single;
drop table {day};
