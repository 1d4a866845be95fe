-- Inserts deliveries, or updates their states. The event of a delivery never changes.
-- Locks: the rows, in the order of the array; the caller has locked their webhooks. Index: webhook_deliveries_pkey.
insert into webhook_deliveries ({delivery}, body)
select *
from unnest({delivery_types}, $6::bytea[])
on conflict (webhook, number) do update
set state = excluded.state,
  detail = excluded.detail
