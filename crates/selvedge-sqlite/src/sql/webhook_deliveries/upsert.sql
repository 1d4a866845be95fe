-- Inserts a delivery, or updates its state. The event of a delivery never changes.
-- Index: the primary key of webhook_deliveries.
-- Parameters: ?1 to ?5 as {delivery}, ?6 body
insert into webhook_deliveries ({delivery}, body)
values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (webhook, number) do update
set
  state = excluded.state,
  detail = excluded.detail
