-- Inserts nodes; fails with unique_violation if a name is taken in its flow.
-- Locks: the new rows. Index: nodes_pkey, nodes_in_order.
insert into nodes (flow, name, submitted_at, execution)
select *
from unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::uuid[])
