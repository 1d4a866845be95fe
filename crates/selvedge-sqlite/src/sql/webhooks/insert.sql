-- Inserts a webhook, unless its name is taken.
-- Index: the primary key of webhooks.
-- Parameters: ?1 to ?4 as {webhook}
insert into webhooks ({webhook})
values (?1, ?2, ?3, ?4)
on conflict (namespace, name) do nothing
