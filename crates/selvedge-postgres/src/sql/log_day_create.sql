-- Makes the partition of a day; sent as one message, so it happens whole or not at all. Locks: log, beside readers and writers;
-- the default partition, alone: so the wait for it is short.
set local lock_timeout = {wait_ms};
create table {day} (like log including defaults including indexes including storage);
alter table log attach partition {day} for values from ('{from}') to ('{to}');
