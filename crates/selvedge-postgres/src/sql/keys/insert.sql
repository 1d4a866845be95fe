-- Inserts keys; fails with unique_violation if one exists.
-- Locks: the new rows. Index: keys_pkey.
insert into keys ({key_columns})
select *
from unnest({key_types})
