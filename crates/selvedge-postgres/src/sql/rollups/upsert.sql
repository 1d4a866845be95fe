-- Inserts or replaces rollups, given as arrays: namespaces $1, minutes $2, lanes $3, servers $4 and counts $5.
-- Locks: the rollups. Index: rollups_pkey.
insert into rollups (namespace, minute_at, lane, server, counts)
select *
from unnest($1::integer[], $2::timestamptz[], $3::text[], $4::bigint[], $5::text[])
on conflict (namespace, minute_at, lane, server)
do update set counts = excluded.counts
