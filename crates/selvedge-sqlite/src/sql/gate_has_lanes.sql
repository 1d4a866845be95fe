-- Whether a lane is configured. Expects the index gates_configured; those that are configured are few.
-- ?1 the kind of lanes
select exists (
  select 1
  from gates indexed by gates_configured
  where config is not null
    and kind = ?1
)
