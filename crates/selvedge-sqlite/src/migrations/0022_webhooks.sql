-- Webhooks: durable subscriptions to the log that are delivered to a URL, and the record of their deliveries.

-- The detail is a JSON object: the configuration, the position in the log, the counts, and the server that works on the
-- webhook. Signing secrets are derived from the root secret; only the numbers of keys are stored.
create table webhooks (
  namespace integer not null,
  name text not null,
  version integer not null,
  detail text not null,
  primary key (namespace, name)
) strict, without rowid;

-- Deliveries that are pending or dead, and the newest of the delivered ones.
create table webhook_deliveries (
  webhook blob not null,
  -- In the order of the log.
  number integer not null,
  -- Derived from the webhook and the event.
  id blob not null,
  -- 1 pending, 2 delivered, 3 dead.
  state integer not null,
  detail text not null,
  -- The event as it is sent.
  body blob not null,
  primary key (webhook, number)
) strict, without rowid;

create index webhook_deliveries_state on webhook_deliveries (webhook, state, number);
create index webhook_deliveries_id on webhook_deliveries (id);
