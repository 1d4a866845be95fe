-- Inserts signals. Fails with unique_violation if a number or a key is taken: another transaction has delivered a
-- signal.
-- Locks: the new rows. Index: signals_pkey, signals_key, signals_untaken.
insert into signals ({signal_columns}, payload)
select *
from unnest({signal_types}, $12::bytea[])
