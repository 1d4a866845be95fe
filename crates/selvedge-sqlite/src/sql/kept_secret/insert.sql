-- Stores a root secret unless there is one.
-- Index: the primary key of kept_secret.
-- Parameters: ?1 secret
insert into kept_secret (single, secret)
values (1, ?1)
on conflict do nothing
