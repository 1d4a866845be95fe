-- Webhooks: durable subscriptions to the log that are delivered to a URL, and the record of their deliveries.

-- The detail is a JSON object: the configuration, the position in the log, the counts, and the server that works on the
-- webhook. Signing secrets are derived from the root secret; only the numbers of keys are stored. The row changes with every
-- batch of deliveries, and no index contains the columns that change.
create table webhooks (
  namespace integer not null,
  name text collate "C" not null,
  version integer not null,
  detail text not null,
  primary key (namespace, name)
) with (fillfactor = 50);

-- Deliveries that are pending or dead, and the newest of the delivered ones. The row of the webhook is the lock for all of
-- its deliveries.
create table webhook_deliveries (
  webhook uuid not null,
  -- In the order of the log.
  number bigint not null,
  -- Derived from the webhook and the event.
  id uuid not null,
  -- 1 pending, 2 delivered, 3 dead.
  state smallint not null,
  detail text not null,
  -- The event as it is sent.
  body bytea not null,
  primary key (webhook, number)
);

create index webhook_deliveries_state on webhook_deliveries (webhook, state, number);
create index webhook_deliveries_id on webhook_deliveries (id);
