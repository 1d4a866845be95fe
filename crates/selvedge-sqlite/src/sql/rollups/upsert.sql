-- Inserts or replaces a rollup.
-- Index: the primary key of rollups.
-- Parameters: ?1 namespace, ?2 minute, ?3 lane, ?4 server, ?5 counts
insert into rollups (namespace, minute_at, lane, server, counts)
values (?1, ?2, ?3, ?4, ?5)
on conflict (namespace, minute_at, lane, server)
do update set counts = excluded.counts
