-- Keeps a root secret where none is kept. Expects the primary key of kept_secret.
-- ?1 secret
insert into kept_secret (single, secret)
values (1, ?1)
on conflict do nothing
