-- Inserts keys; fails with unique_violation if one exists.
-- Locks: the new rows. Index: keys_pkey.
insert into keys (namespace, scope, key, subject, digest, answer, expires_at)
select *
from unnest($1::integer[], $2::smallint[], $3::text[], $4::uuid[], $5::bigint[], $6::bytea[], $7::timestamptz[])
