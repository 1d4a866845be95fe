-- Inserts keys that must not be there yet; a unique violation says that one is. Index: keys_pkey.
insert into keys (namespace, scope, key, execution, digest, answer, expires_at)
select *
from unnest($1::integer[], $2::smallint[], $3::text[], $4::uuid[], $5::bigint[], $6::bytea[], $7::timestamptz[])
