-- Creates the partition of a day. Sent as one message, so it takes effect as a whole or not at all.
-- Locks: log, in a mode that lets others read and write; the default partition exclusively, so the lock timeout is
-- short. Index: none.
set local lock_timeout = {wait_ms};
create table {day} (like log including defaults including indexes including storage);
alter table log attach partition {day} for values from ('{from}') to ('{to}');
