-- Takes or renews the lease on the projection for the owner $1, for $2 milliseconds, unless another one has it. Returns the
-- position.
-- Locks: the row. Index: projection_pkey.
update projection
set owner = $1,
  owned_until = {now} + $2::bigint * interval '1 millisecond'
where single
  and (owner = $1 or owned_until < {now})
returning entry
